"""A nats-server that is killed, frozen and started again, with the same store at the same port.

It knows its process and its JetStream limits. It does not know who uses it. Its methods block.
"""

import signal
from contextlib import ExitStack
from pathlib import Path

import nats
from headrace import local
from headrace.local import Server
from headrace_contracts.api import api

_CONNECT_S = 2.0


class Broker:
    """One, which is down until it is started.

    Attributes:
        store: What it keeps, across its lives.
    """

    def __init__(self, store: Path) -> None:
        self.store = store
        self._port = -1
        self._stack = ExitStack()
        self._server: Server | None = None

    @property
    def url(self) -> str:
        """Where it is, the same in each life."""
        return f"nats://127.0.0.1:{self._port}"

    @property
    def pid(self) -> int:
        """Of this life.

        Raises:
            RuntimeError: It is down.
        """
        if self._server is None:
            message = "nats-server is down"
            raise RuntimeError(message)
        return self._server.process.pid

    def start(self) -> None:
        """Start it, or start it again.

        Raises:
            LocalFailed: It did not start.
        """
        self._server = self._stack.enter_context(local.server(self.store, port=self._port))
        self._port = self._server.port

    def kill(self) -> None:
        """End it without a word."""
        self.signal(signal.SIGKILL)
        self.stop()

    def stop(self) -> None:
        """End it as an operator does; frozen, it goes on first."""
        self.signal(signal.SIGCONT)
        self._stack.close()
        self._server = None

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, if it is up."""
        if self._server is not None:
            self._server.process.send_signal(number)

    async def limit(self, stream: str, max_bytes: int | None = None) -> int:
        """Change what a NATS stream may hold, unless None; returns what it could hold before.

        Raises:
            nats.errors.Error: It is down, or does not answer.
            OSError: It is down.
            RuntimeError: There is no such NATS stream.
        """
        # Its own connection each time, that of a program that was not there when the server was killed.
        connection = await nats.connect(self.url, allow_reconnect=False, connect_timeout=_CONNECT_S)
        try:
            info = await api(connection, f"STREAM.INFO.{stream}")
            if info is None:
                message = f"there is no NATS stream {stream}"
                raise RuntimeError(message)
            if max_bytes is not None:
                await api(connection, f"STREAM.UPDATE.{stream}", info["config"] | {"max_bytes": max_bytes})
            return int(info["config"]["max_bytes"])
        finally:
            await connection.close()
