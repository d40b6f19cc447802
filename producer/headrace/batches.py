"""A source of texts, cut into batches while it is read.

Pure. Knows sources that end, that never do and that fail. Does not know what happens to a batch.
"""

from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Iterator

from headrace.texts import require_text


def cut(texts: Iterable[str], size: int) -> Iterator[list[str]]:
    """Batches of `size` texts in the order of the source; the last one may be smaller.

    If the source fails, what it gave before comes as the last batch, and then its error; so it is with something that
    is no text, whose InputError names its place in the source.
    """
    batch: list[str] = []
    failure: Exception | None = None
    try:
        for index, text in enumerate(texts):
            batch.append(require_text(text, "texts", index))
            if len(batch) == size:
                yield batch
                batch = []
    except Exception as error:  # noqa: BLE001 - whatever a source raises, it is raised again below
        failure = error
    if batch:
        yield batch
    if failure is not None:
        raise failure


async def cut_async(texts: AsyncIterable[str], size: int) -> AsyncGenerator[list[str], None]:
    """The same of a source that is waited for."""
    batch: list[str] = []
    failure: Exception | None = None
    index = 0
    try:
        async for text in texts:
            batch.append(require_text(text, "texts", index))
            index += 1
            if len(batch) == size:
                yield batch
                batch = []
    except Exception as error:  # noqa: BLE001 - as above
        failure = error
    if batch:
        yield batch
    if failure is not None:
        raise failure


def cut_any(texts: Iterable[str] | AsyncIterable[str], size: int) -> AsyncGenerator[list[str], None]:
    """The same of either kind of source."""
    return cut_async(texts, size) if isinstance(texts, AsyncIterable) else _waited_for(cut(texts, size))


async def _waited_for(batches: Iterator[list[str]]) -> AsyncGenerator[list[str], None]:
    for batch in batches:
        yield batch
