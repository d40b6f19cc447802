import pytest
from headrace_contracts import topology
from headrace_workers.difference import Setting, differing

DEAD = topology.dead_stream(max_bytes=1000).to_api()
BATCH = topology.batch_stream("m", max_msg_size=100, max_bytes=1000).to_api()


def only(settings: tuple[Setting, ...]) -> Setting:
    (setting,) = settings
    return setting


def test_what_the_api_leaves_out_is_nothing_and_what_is_not_wanted_may_be_anything() -> None:
    found = {name: value for name, value in DEAD.items() if value} | {"sealed": True}
    assert differing(DEAD, found) == ()


def test_a_roomier_message_size_is_as_good() -> None:
    assert differing(BATCH, {**BATCH, "max_msg_size": 200}) == ()
    assert differing(BATCH, {**BATCH, "max_msg_size": -1}) == ()
    assert only(differing(BATCH, {**BATCH, "max_msg_size": 50})).must_agree


def test_a_limit_that_would_delete_waits_until_nothing_is_stored() -> None:
    roomy = {**DEAD, "max_bytes": 2000}
    assert "would delete" in only(differing(DEAD, roomy)).obstacle
    assert only(differing(DEAD, roomy, has_messages=False)).obstacle == ""
    assert "would delete" in only(differing(DEAD, {**DEAD, "max_age": 0})).obstacle


def test_a_limit_that_is_raised_or_that_refuses_what_is_new_deletes_nothing() -> None:
    assert only(differing(DEAD, {**DEAD, "max_bytes": 500})).obstacle == ""
    assert only(differing(DEAD, {**DEAD, "max_age": 1})).obstacle == ""
    assert only(differing(BATCH, {**BATCH, "max_bytes": 2000})).obstacle == ""


@pytest.mark.parametrize(("name", "value"), [("storage", "memory"), ("subjects", ["x"]), ("retention", "limits")])
def test_what_is_fixed_says_what_to_do(name: str, value: object) -> None:
    setting = only(differing(BATCH, {**BATCH, name: value}))
    assert setting.must_agree
    assert "delete it once it is empty" in setting.obstacle
