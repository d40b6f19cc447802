"""How long a client waits for a PubAck. Pure: seconds are arguments."""

from headrace.ack_times import AckTimes


def test_before_anything_is_known_it_is_a_second() -> None:
    assert AckTimes().timeout_s == 1


def test_where_they_take_a_millisecond_a_quarter_of_a_second_is_enough() -> None:
    acks = AckTimes()
    acks.took(0.001)
    assert acks.timeout_s == 0.25


def test_where_they_take_longer_it_is_longer_than_any_of_them() -> None:
    acks = AckTimes()
    for seconds in (0.2, 0.3, 0.25, 0.35, 0.2):
        acks.took(seconds)
    assert 0.35 < acks.timeout_s < 1


def test_it_is_twice_as_long_after_each_that_did_not_come_and_two_seconds_at_most() -> None:
    acks = AckTimes()
    acks.took(0.001)
    found = []
    for _ in range(5):
        acks.ran_out(acks.timeout_s)
        found.append(acks.timeout_s)
    assert found == [0.5, 1, 2, 2, 2]
    acks.took(0.001)
    assert acks.timeout_s == 0.25, "one that comes forgives"


def test_many_that_did_not_come_at_the_same_time_count_as_one() -> None:
    acks = AckTimes()
    acks.took(0.001)
    for _ in range(12):
        acks.ran_out(0.25)
    assert acks.timeout_s == 0.5
    acks.ran_out(0.5)
    acks.ran_out(0.25)
    assert acks.timeout_s == 1, "who waited for less has nothing to add"


def test_on_a_new_connection_it_is_as_long_as_they_took_before() -> None:
    acks = AckTimes()
    acks.reconnected()
    assert acks.timeout_s == 1
    acks.took(0.001)
    acks.ran_out(0.25)
    acks.reconnected()
    assert acks.timeout_s == 0.25


def test_however_slow_they_are_two_seconds_is_the_most() -> None:
    acks = AckTimes()
    acks.took(30)
    assert acks.timeout_s == 2
