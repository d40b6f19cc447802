"""A sink in memory, and small jobs for the tests of re-indexing."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from headrace.bulk.card import Card
from headrace.bulk.cut import Cut
from headrace.bulk.progress import Progress
from headrace.bulk.reindex import reindex
from headrace.bulk.rows import Id
from headrace.bulk.settings import Settings
from headrace.bulk.sink import Part, Stored
from headrace.bulk.source import Source
from headrace.bulk.summary import Summary
from headrace.errors import CardMismatch, SinkError
from numpy.typing import NDArray

SMALL = Settings(cut=Cut(rows=50), in_flight=4)


class MemorySink:
    """Keeps vectors by id; what it holds outlives a job's processes, as a database's does."""

    is_one_corpus = False

    def __init__(self, folder: Path, name: str = "memory") -> None:
        self.name = name
        self.place: Path | None = folder
        self.card: Card | None = None
        self.rows: dict[Id, Stored] = {}
        self.texts: dict[Id, str] = {}
        self.parts: list[str] = []
        self.fresh = 0
        self.fails = 0
        self.finished: list[list[str]] = []

    def open(self, card: Card, *, replace: bool) -> None:
        try:
            card.check(self.card or card, self.name)
        except CardMismatch:
            if not replace:
                raise
            self.rows.clear()
        self.card = card

    def write(self, part: Part) -> None:
        if self.fails:
            self.fails -= 1
            raise SinkError("no space left, for a while")
        self.parts.append(part.name)
        self.fresh += int(part.fresh.sum())
        for at, row_id in enumerate(part.ids):
            self.rows[row_id] = Stored(part.hashes[at], part.vectors[at].copy())
            if part.texts is not None:
                self.texts[row_id] = part.texts[at]

    def lookup(self, ids: Sequence[Id]) -> Mapping[Id, Stored]:
        return {row_id: self.rows[row_id] for row_id in ids if row_id in self.rows}

    def count(self) -> int:
        return len(self.rows)

    def finish(self, parts: Collection[str]) -> None:
        self.finished.append(list(parts))

    def close(self) -> None:
        pass

    def vectors(self, ids: Sequence[Id]) -> NDArray[np.generic]:
        return np.stack([self.rows[row_id].vector for row_id in ids])


async def run(
    source: Source,
    sink: MemorySink,
    url: str,
    *,
    job: str = "job",
    progress: Progress | None = None,
    settings: Settings = SMALL,
    **changed: object,
) -> Summary:
    async with asyncio.timeout(90):
        changed_settings = replace(settings, **changed)  # type: ignore[arg-type] # the fields' own types differ
        return await reindex(source, sink, job=job, url=url, settings=changed_settings, progress=progress)
