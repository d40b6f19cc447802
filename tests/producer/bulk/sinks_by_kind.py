"""The sinks that keep the contract, by what a test calls them."""

from collections.abc import Callable
from pathlib import Path

from headrace.bulk.sink import Sink
from headrace.bulk.sinks.parquet import ParquetSink
from headrace.bulk.sinks.postgres import PostgresSink
from headrace.bulk.sinks.qdrant import QdrantSink

# Of a place: a folder that is there, or a URL. Qdrant's own storage is for one process.
KINDS: dict[str, Callable[[str], Sink]] = {
    "parquet": lambda place: ParquetSink(Path(place) / "parquet"),
    "postgres": lambda place: PostgresSink(place, "vectors"),
    "qdrant": lambda place: QdrantSink(str(Path(place) / "qdrant"), "vectors"),
    "qdrant over http": lambda place: QdrantSink(place, "vectors"),
}
SHARED = [kind for kind in KINDS if kind != "qdrant"]
