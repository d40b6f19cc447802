"""Sources of texts are cut into batches in order, and give all they gave before they failed."""

from collections.abc import AsyncIterator, Iterator
from itertools import count, islice

import pytest
from headrace import InputError
from headrace.batches import cut, cut_any
from hypothesis import given
from hypothesis import strategies as st


def failing(after: int) -> Iterator[str]:
    for number in range(after):
        yield f"text {number}"
    raise OSError("the file ends here")


async def waited_for(texts: Iterator[str]) -> AsyncIterator[str]:
    for text in texts:
        yield text


async def take(batches: AsyncIterator[list[str]], taken: list[list[str]]) -> None:
    async for batch in batches:
        taken.append(batch)  # noqa: PERF401 - what comes before an error must be there after it


@given(texts=st.lists(st.text(max_size=3), max_size=50), size=st.integers(1, 20))
def test_batches_hold_all_texts_in_order_and_only_the_last_is_smaller(texts: list[str], size: int) -> None:
    batches = list(cut(iter(texts), size))
    assert [text for batch in batches for text in batch] == texts
    assert all(len(batch) == size for batch in batches[:-1])
    assert all(0 < len(batch) <= size for batch in batches)


def test_no_more_is_read_than_a_batch_takes() -> None:
    source = (str(number) for number in count())
    assert list(islice(cut(source, 3), 2)) == [["0", "1", "2"], ["3", "4", "5"]]
    assert next(source) == "6"


@pytest.mark.parametrize("is_async", [False, True])
async def test_what_a_source_gave_before_it_failed_comes_first(is_async: bool) -> None:
    source = failing(5)
    batches: list[list[str]] = []
    with pytest.raises(OSError, match="the file ends here"):
        await take(cut_any(waited_for(source) if is_async else source, 2), batches)
    assert [len(batch) for batch in batches] == [2, 2, 1]


@pytest.mark.parametrize("is_async", [False, True])
async def test_what_is_no_text_is_named_by_its_place_in_the_source(is_async: bool) -> None:
    texts = iter(["a", "b", "c", None, "e"])
    batches: list[list[str]] = []
    with pytest.raises(InputError, match=r"texts\[3\] is None"):
        await take(cut_any(waited_for(texts) if is_async else texts, 2), batches)  # type: ignore[arg-type] # the point
    assert batches == [["a", "b"], ["c"]]
