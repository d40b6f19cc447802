"""The models that the fleet has published, read again only when some of them changed.

Knows that a KV bucket is a NATS stream whose last number tells. Does not know what a ModelSpec says.
"""

from collections.abc import Mapping

from headrace_contracts import ModelSpec, topology
from nats.aio.client import Client as NatsClient

from headrace.published import Published
from headrace.survey.streams import Stream


class Models:
    """Reads the models of a fleet."""

    def __init__(self, nats: NatsClient) -> None:
        self._published = Published(nats)
        self._specs: tuple[ModelSpec, ...] = ()
        self._state: tuple[str, int] | None = None

    async def read(self, streams: Mapping[str, Stream]) -> tuple[ModelSpec, ...]:
        """Those that are published now, by name.

        Args:
            streams: of the broker, listed just before.

        Raises:
            ConnectionFailed: they cannot be read.
        """
        bucket = streams.get(f"KV_{topology.MODELS_BUCKET}")
        if bucket is None:
            return ()
        state = (bucket.created, bucket.last_seq)
        if state != self._state:
            self._specs = tuple(await self._published.specs())
            self._state = state
        return self._specs
