from headrace_workers.given_up import GivenUp


def test_ids_are_known_until_too_many_newer_ones_came() -> None:
    given_up = GivenUp(max_ids=3)
    given_up.add(["a", "b"])
    assert "a" in given_up
    assert "c" not in given_up
    given_up.add(["c", "d"])
    assert [name for name in "abcd" if name in given_up] == ["b", "c", "d"]


def test_an_id_that_is_given_up_twice_counts_once() -> None:
    given_up = GivenUp(max_ids=2)
    for _ in range(5):
        given_up.add(["a", "b"])
    assert len(given_up) == 2
    assert "a" in given_up
