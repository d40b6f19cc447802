"""The sinks that keep the contract, by what a test calls them."""

from headrace.bulk.sink import Sink
from headrace.bulk.sinks.open_sink import open_sink

# As users spell them, of a place: a folder that is there, or a URL. Qdrant's own storage is for one process.
_SPELLINGS = {
    "parquet": "parquet:{}/parquet",
    "numpy": "numpy:{}/numpy",
    "lance": "lance:{}/lance#vectors",
    "postgres": "{}#vectors",
    "qdrant": "qdrant:{}/qdrant#vectors",
    "qdrant over http": "qdrant:{}#vectors",
}
KINDS = tuple(_SPELLINGS)
SHARED = tuple(kind for kind in KINDS if kind != "qdrant")


def sink_of(kind: str, place: str) -> Sink:
    """A sink of the kind, not opened."""
    return open_sink(_SPELLINGS[kind].format(place))
