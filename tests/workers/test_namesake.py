"""A worker notices another one of its name, and never takes itself for one."""

from headrace_workers.namesake import Namesake


def test_who_hears_only_itself_is_alone() -> None:
    namesake = Namesake()
    for _ in range(3):
        namesake.spoke()
    assert not any(namesake.heard() for _ in range(3))


def test_who_hears_its_name_once_more_than_it_spoke_is_told_once() -> None:
    namesake = Namesake()
    namesake.spoke()
    assert [namesake.heard() for _ in range(4)] == [False, True, False, False]


def test_what_a_lost_connection_has_swallowed_hides_nobody() -> None:
    namesake = Namesake()
    namesake.spoke()
    namesake.listen()
    namesake.spoke()
    assert [namesake.heard(), namesake.heard()] == [False, True]
