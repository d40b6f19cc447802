"""What every sink must do, whatever it is made of."""

import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from threading import Barrier

import numpy as np
import pytest
from headrace.bulk.rows import Id
from headrace.bulk.sink import Part, Sink
from headrace.errors import CardMismatch, SinkError
from headrace_contracts.messages import Dtype

from .finite_parts import part
from .parts import CARD, assert_holds, card
from .sinks_by_kind import KINDS, SHARED, sink_of
from .writing_child import windows

ROOT = Path(__file__).parents[3]

Make = Callable[[], Sink]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def place(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    match kind:
        case "postgres":
            return str(request.getfixturevalue("database").url)
        case "qdrant over http":
            return str(request.getfixturevalue("qdrant_url"))
        case _:
            return str(tmp_path)


@pytest.fixture
def make(kind: str, place: str) -> Iterator[Make]:
    """Makes sinks on one place, each in place of the one before where they cannot share it."""
    made: list[Sink] = []

    def make_one() -> Sink:
        if made and kind not in SHARED:
            made[-1].close()
        made.append(sink_of(kind, place))
        return made[-1]

    yield make_one
    for sink in made:
        sink.close()


@pytest.fixture
def sink(make: Make) -> Sink:
    """An open one, empty."""
    made = make()
    made.open(CARD, replace=False)
    return made


def opened(make: Make) -> Sink:
    made = make()
    made.open(CARD, replace=False)
    return made


def bits(of: Part) -> Part:
    """With what the wire contract says of bits that stand for no dimension: they are 0."""
    return replace(of, vectors=np.packbits(np.unpackbits(of.vectors.view(np.uint8), axis=1)[:, :21], axis=1))


def test_a_new_sink_is_empty(sink: Sink) -> None:
    assert_holds(sink)
    assert sink.lookup([1, 2]) == {}
    assert sink.lookup(["a"]) == {}
    assert sink.lookup([]) == {}


@pytest.mark.parametrize("dtype", ["f32", "f16", "i8", "b1"])
def test_vectors_come_back_bit_for_bit_or_are_refused_at_once(make: Make, dtype: Dtype) -> None:
    made, of = make(), card(dtype)
    try:
        made.open(of, replace=False)
    except SinkError as error:
        assert dtype in {"i8", "b1"}
        assert f"dtype={dtype}" in str(error)  # noqa: PT017 - a sink may take it or not
        return
    one, two = part(range(10), of=of), part(range(10, 15), window=1, of=of, seed=1)
    made.write(one)
    made.write(two)
    assert_holds(made, one, two)


def test_dimensions_need_not_fill_a_byte_of_bits(make: Make) -> None:
    made, of = make(), replace(CARD, dtype="b1", dim=21)
    try:
        made.open(of, replace=False)
    except SinkError:
        pytest.skip("it has no bits, and says so: see above")
    one = bits(part(range(10), of=of))
    made.write(one)
    assert_holds(made, one)


@pytest.mark.parametrize("ids", [range(20), [f"a/{n}" for n in range(20)]], ids=["integers", "strings"])
def test_a_part_that_is_written_twice_is_there_once(sink: Sink, ids: list[Id]) -> None:
    one = part(ids, with_texts=True)
    for _ in range(3):
        sink.write(one)
    assert_holds(sink, one)


def test_what_is_written_is_there_for_whoever_comes_later(make: Make) -> None:
    one = part(range(20))
    opened(make).write(one)
    assert_holds(opened(make), one)


def test_a_row_that_changed_replaces_what_was_there(sink: Sink) -> None:
    sink.write(part(range(10), seed=1))
    changed = part(range(10), seed=2)
    sink.write(changed)
    assert_holds(sink, changed)


def test_rows_that_are_not_fresh_stay_and_fresh_ones_join_them(sink: Sink) -> None:
    old, new = part(range(10), seed=1), part(range(10), seed=2)
    sink.write(old)
    fresh = np.arange(10) % 2 == 0
    both = replace(
        new,
        hashes=[new.hashes[row] if fresh[row] else old.hashes[row] for row in range(10)],
        vectors=np.where(fresh[:, np.newaxis], new.vectors, old.vectors),
        fresh=fresh,
    )
    sink.write(both)
    assert_holds(sink, both)
    unchanged = replace(both, fresh=np.zeros(10, np.bool_))
    sink.write(unchanged)
    assert_holds(sink, both)


def test_an_empty_part_leaves_all_as_it_is(sink: Sink) -> None:
    sink.write(part([]))
    one = part(["a"])  # the empty one has not decided what ids are
    sink.write(one)
    sink.write(part([], window=1))
    assert_holds(sink, one)


def test_texts_may_come_later_or_are_refused_in_words_and_may_be_left_away_again(sink: Sink) -> None:
    one, two, three = part(["a"]), part(["b"], window=1, with_texts=True), part(["c"], window=2)
    kept = [one, three]
    sink.write(one)
    try:
        sink.write(two)
    except SinkError as error:
        assert "no column for texts" in str(error)  # noqa: PT017 - a sink may take them or not
    else:
        kept.append(two)
    sink.write(three)
    assert_holds(sink, *kept)


@pytest.mark.parametrize("changed", [{"fingerprint": "0" * 16}, {"dim": 8}, {"dtype": "f16"}, {"prompt": "passage: "}])
def test_vectors_of_another_card_are_refused_with_what_differs(make: Make, changed: dict[str, object]) -> None:
    one = part(range(3))
    opened(make).write(one)
    with pytest.raises(CardMismatch, match=next(iter(changed))):
        make().open(replace(CARD, **changed), replace=False)  # type: ignore[arg-type]  # the fields' own types differ
    assert_holds(opened(make), one)


def test_a_writer_is_refused_once_another_has_replaced_its_vectors(kind: str, make: Make) -> None:
    if kind not in SHARED:
        pytest.skip("it has one writer")
    first, second = opened(make), make()
    first.write(part(range(5)))
    second.open(replace(CARD, dim=8), replace=True)
    with pytest.raises(CardMismatch, match=r"dim is 8, this job has \d+"):
        first.write(part(range(5, 9), window=1))
    assert second.count() == 0


def test_on_request_vectors_of_another_card_are_replaced(make: Make) -> None:
    opened(make).write(part(range(3)))
    of = replace(CARD, dim=8, fingerprint="0" * 16)
    made = make()
    made.open(of, replace=True)
    assert_holds(made)
    one = part(["a", "b"], of=of)  # of another kind than the ids that were there
    made.write(one)
    assert_holds(made, one)
    with pytest.raises(CardMismatch):
        make().open(CARD, replace=False)


def test_on_request_vectors_of_the_same_card_are_kept(make: Make) -> None:
    one = part(range(3))
    opened(make).write(one)
    made = make()
    made.open(CARD, replace=True)
    assert_holds(made, one)


def test_names_and_what_the_device_computed_in_may_differ(make: Make) -> None:
    one = part(range(3))
    opened(make).write(one)
    made = make()
    made.open(replace(CARD, model="another", source="elsewhere", compute_dtype="bfloat16"), replace=False)
    assert_holds(made, one)


def test_ids_of_another_kind_are_refused_by_name_or_kept_apart(sink: Sink) -> None:
    numbers, strings = part(range(3)), part(["0", "1", "2", "first"], window=1, seed=1)
    sink.write(numbers)
    try:
        sink.write(strings)
    except SinkError as error:
        assert "'0'" in str(error)  # noqa: PT017 - a sink may take them or not
        assert_holds(sink, numbers)
        assert sink.lookup(strings.ids) == {}
    else:
        assert_holds(sink, numbers, strings)


def test_the_least_and_the_largest_integers_are_ids(sink: Sink) -> None:
    one = part([0, -1, 1, -(2**63), 2**63 - 1, 2**53 + 1])
    sink.write(one)
    assert_holds(sink, one)


@pytest.mark.parametrize(
    "odd",
    [
        "",
        " ",
        "naïve – 水車 – 🏞",
        "e\u0301",
        "\u00e9",
        'it\'s "quoted"; DROP TABLE vectors; --',
        "back\\slash \\N \\.",
        "tab\tline\nreturn\r",
        "%s {} $1",
        "NUL \0 inside",
        "half of a pair \ud800",
        "".join(chr(33 + n * 7919 % 90) for n in range(10_000)),
        2**63,
        -(2**63) - 1,
    ],
    ids=lambda odd: f"{odd!r:.12}",
)
def test_an_odd_id_is_kept_as_it_is_or_refused_by_name(sink: Sink, odd: Id) -> None:
    plain, strange = part(["a", "e"] if isinstance(odd, str) else [1, 2]), part([odd], window=1, seed=1)
    sink.write(plain)
    try:
        sink.write(strange)
    except SinkError as error:
        assert repr(odd)[:8] in str(error)  # noqa: PT017 - a sink may take it or not
        assert sink.lookup([odd]) == {}
        assert_holds(sink, plain)
        after = part(["b"] if isinstance(odd, str) else [3], window=2)
        sink.write(after)
        assert_holds(sink, plain, after)
    else:
        assert_holds(sink, plain, strange)


def test_of_ids_that_are_asked_for_those_that_are_there_are_given(sink: Sink) -> None:
    one = part(["a", "b", "c"])
    sink.write(one)
    found = sink.lookup(["b", "x", "", 7, -7, 2**70, "nul\0", "half \ud800", "y" * 100_000, "b"])
    assert found.keys() == {"b"}
    assert found["b"].vector.tobytes() == one.vectors[1].tobytes()


def test_finishing_keeps_what_was_written_and_may_come_again(make: Make) -> None:
    made = opened(make)
    one, two = part(range(5)), part(range(5, 9), window=1)
    made.write(one)
    made.write(two)
    for _ in range(2):
        made.finish([one.name, two.name])
    assert_holds(made, one, two)
    assert_holds(opened(make), one, two)


def test_closing_may_come_twice_or_without_opening(make: Make) -> None:
    made = opened(make)
    made.close()
    made.close()
    make().close()


def test_calls_may_come_from_one_thread_after_another(make: Make) -> None:
    made = make()
    one = part(range(5))
    for call in (lambda: made.open(CARD, replace=False), lambda: made.write(one), lambda: assert_holds(made, one)):
        with ThreadPoolExecutor(1) as thread:
            thread.submit(call).result()


@pytest.mark.parametrize("kind", SHARED, indirect=True)
def test_many_may_open_it_at_once(make: Make) -> None:
    made, together = [make() for _ in range(6)], Barrier(6)

    def open_one(sink: Sink) -> None:
        together.wait()
        sink.open(CARD, replace=True)

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(open_one, made))
    parts = [part(range(10 * n, 10 * n + 10), shard=n, seed=n) for n in range(6)]
    for sink, each in zip(made, parts, strict=True):
        sink.write(each)
    assert_holds(made[0], *parts)


@pytest.mark.parametrize("kind", SHARED, indirect=True)
def test_processes_may_write_different_parts_at_once(kind: str, place: str, make: Make) -> None:
    with ExitStack() as stack:
        children = [stack.enter_context(child(kind, place, shard, 8)) for shard in range(3)]
        for each in children:
            assert said(each) == "open"
        for each in children:
            go(each)
        assert [each.stdout.read().split()[-1] for each in children if each.stdout] == ["done"] * 3
    assert_holds(opened(make), *(each for shard in range(3) for each in windows(shard, 8)))


@pytest.mark.parametrize("seed", range(2))
def test_a_process_that_was_killed_while_it_wrote_leaves_what_writing_again_makes_whole(
    kind: str, place: str, make: Make, seed: int
) -> None:
    numbers, parts = random.Random(seed), list(windows(0, 6))  # noqa: S311 - only to vary
    victim = numbers.randrange(len(parts))
    with child(kind, place, 0, len(parts)) as process:
        assert said(process) == "open"
        go(process)
        while said(process) != parts[victim].name:
            pass
        for _ in range(numbers.randrange(200_000)):  # somewhere in the middle of it, or after it
            pass
        process.kill()
    made = opened(make)
    for each in parts[:victim]:
        assert made.lookup(each.ids).keys() == set(each.ids)
    for each in parts[victim:]:
        made.write(each)
    assert_holds(made, *parts)


def child(kind: str, place: str, shard: int, num_windows: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.producer.bulk.writing_child", kind, place, str(shard), str(num_windows)]
    return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, "it ended"
    return line.strip()


def go(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()
