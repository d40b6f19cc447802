"""What a client remembers of shards that did not answer. Pure: time is an argument."""

from headrace.shard_health import ShardHealth

ROUTES = ("a", "b", "c")


def test_routes_that_never_failed_stay_in_their_order() -> None:
    health = ShardHealth()
    health.answered("b")
    assert health.order(ROUTES, 0) == ROUTES


def test_a_silent_route_is_tried_last_until_its_pause_is_over() -> None:
    health = ShardHealth()
    health.silent("a", 10)
    assert health.order(ROUTES, 10) == health.order(ROUTES, 14.9) == ("b", "c", "a")
    assert health.order(ROUTES, 15) == ROUTES


def test_after_a_pause_one_call_finds_out_and_the_others_stay_away_for_longer() -> None:
    health = ShardHealth()
    health.silent("a", 0)
    health.tried("a", 5)
    assert health.order(ROUTES, 14.9)[0] == "b"
    health.silent("a", 7)
    assert health.order(ROUTES, 15) == ROUTES


def test_pauses_grow_to_a_minute() -> None:
    health = ShardHealth()
    health.silent("a", 0)
    now = 0.0
    for _ in range(9):
        health.tried("a", now)
    assert health.order(ROUTES, 59.9)[0] == "b"
    assert health.order(ROUTES, 60) == ROUTES


def test_a_route_that_answers_is_as_good_as_new() -> None:
    health = ShardHealth()
    health.silent("a", 0)
    health.tried("a", 6)
    health.answered("a")
    assert health.order(ROUTES, 6) == ROUTES
    health.silent("a", 7)
    assert health.order(ROUTES, 12) == ROUTES, "the pause is the first one again"


def test_on_a_new_connection_no_route_is_silent() -> None:
    health = ShardHealth()
    for route in ROUTES:
        health.answered(route)
    health.silent("a", 0)
    health.reconnected()
    assert health.order(ROUTES, 0) == ROUTES
    assert not health.is_silent("a")
    assert health.silent("a", 1), "and it is news again"


def test_a_route_that_is_gone_keeps_its_place_since_asking_costs_nothing() -> None:
    health = ShardHealth()
    health.silent("a", 0)
    health.gone("a")
    assert health.order(ROUTES, 1) == ROUTES


def test_where_all_are_silent_their_order_is_as_it_was() -> None:
    health = ShardHealth()
    for route in ROUTES:
        health.silent(route, 0)
    assert health.order(ROUTES, 1) == ROUTES


def test_failure_is_news_once_and_only_of_a_route_that_took_chunks() -> None:
    health = ShardHealth()
    assert not health.gone("a")
    assert not health.silent("b", 0)
    for route in ("a", "b"):
        health.answered(route)
    assert health.silent("b", 1)
    assert not health.silent("b", 2)
    assert health.gone("b"), "what it has stored is lost only now"
    assert not health.gone("b")
    assert health.gone("a")
