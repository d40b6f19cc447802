"""A nats-server that is a process, in a network namespace or here.

It knows its process, its folder and its signals. It does not know the others of its cluster.
"""

import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from headrace.local import server_binary

from survival import node, settings
from survival.node import Told
from survival.place import Place
from survival.settings import Ends

_STOP_S = 40.0


class ProcessNode:
    """One server, which is down until it is started.

    Attributes:
        name: Its own, and its tag.
        place: Where it runs.
        store: What it keeps.
        ends: Where it listens.
    """

    def __init__(
        self,
        name: str,
        place: Place,
        ends: Ends,
        folder: Path,
        *,
        routes: Sequence[str] = (),
        store: Path | None = None,
        users: str = "",
    ) -> None:
        """Write its settings.

        Args:
            name: Its own.
            place: Where it is to run.
            ends: Where it is to listen.
            folder: For its settings and its log.
            routes: Where the others listen to each other; none where it is alone.
            store: Folder for what it keeps; None is one within the other folder. It may have something already.
            users: Who is let in; see settings.py.
        """
        self.name = name
        self.place = place
        self.ends = ends
        self.store = folder / "store" if store is None else store
        self.store.mkdir(parents=True, exist_ok=True)
        self._log = folder / "log"
        self._settings = settings.write(folder, name, ends, routes=routes, store=str(self.store), users=users)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """For clients."""
        return f"nats://{self.ends.client}"

    @property
    def pid(self) -> int:
        """Of this life.

        Raises:
            RuntimeError: It is down.
        """
        process = self._running()
        if process is None:
            message = f"nats-server {self.name} is down"
            raise RuntimeError(message)
        return process.pid

    @property
    def is_running(self) -> bool:
        """Whether it is up, or frozen."""
        return self._running() is not None

    @property
    def log(self) -> str:
        """All that it said, in all its lives."""
        return self._log.read_text("utf-8", errors="replace") if self._log.exists() else ""

    def start(self) -> None:
        """Start it, or start it again, if it is down; it is not ready then.

        Raises:
            LocalFailed: There is no nats-server.
        """
        if self.is_running:
            return
        command = self.place.command(server_binary(), "-c", str(self._settings))
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def kill(self) -> None:
        """End it as a crash does, if it is up."""
        if (process := self._running()) is not None:
            process.kill()
            process.wait()

    def stop(self) -> None:
        """End it as an operator does, if it is up; frozen, it goes on first."""
        if (process := self._running()) is None:
            return
        process.send_signal(signal.SIGCONT)
        process.terminate()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def freeze(self) -> None:
        """Let it stand still with its connections open, if it is up."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on, if it is up."""
        self._signal(signal.SIGCONT)

    def ask(self, path: str) -> Told:
        """What it says of itself.

        Raises:
            OSError: It says nothing.
        """
        return node.ask(self.ends.monitor, path)

    def _signal(self, number: signal.Signals) -> None:
        if (process := self._running()) is not None:
            process.send_signal(number)

    def _running(self) -> "subprocess.Popen[bytes] | None":
        return self._process if self._process is not None and self._process.poll() is None else None
