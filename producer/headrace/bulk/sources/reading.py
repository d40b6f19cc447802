"""How a corpus is read, as one value: what a job remembers, so that an audit can open the same one again."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from headrace.bulk.jobs.record import Option
from headrace.bulk.source import Source
from headrace.bulk.sources.open_source import open_source


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The arguments of open_source but for the first.

    Attributes:
        column: with the texts.
        id_column: with the ids; None names rows by file and position.
        kind: of files whose names do not tell.
        delimiter: of CSV.
        query_shards: of a query.
    """

    column: str = "text"
    id_column: str | None = None
    kind: str | None = None
    delimiter: str | None = None
    query_shards: int = 1

    def open(self, what: str) -> Source:
        """Open the corpus; see open_source."""
        return open_source(
            what,
            column=self.column,
            id_column=self.id_column,
            kind=self.kind,
            delimiter=self.delimiter,
            shards=self.query_shards,
        )

    def remembered(self) -> Mapping[str, Option]:
        """As options of a job."""
        return {f"read_{name}": value for name, value in asdict(self).items()}

    @classmethod
    def of(cls, options: Mapping[str, Option]) -> Self:
        """From options of a job; what they do not say is as by default."""
        found: dict[str, Any] = {
            name.removeprefix("read_"): value for name, value in options.items() if name.startswith("read_")
        }
        return cls(**found)
