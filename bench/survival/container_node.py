"""A nats-server that is a container, on a network of its own for clients and one more for each other server.

It knows its container, by testcontainers. It does not know how networks and images are made (containers.py).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from docker.models.containers import Container
from docker.types import EndpointConfig
from testcontainers.core.docker_client import DockerClient

from survival import node, settings
from survival.links import Links
from survival.node import Told
from survival.place import Place
from survival.settings import Ends

CLIENT, MONITOR, ROUTE = 4222, 8222, 6222
# Where the container sees the folder of its node.
_INSIDE = Path("/node")
_API = "1.41"
_STOP_S = 40
_UP = frozenset({"running", "paused"})


class ContainerNode:
    """One server, which is down until it is started.

    Attributes:
        name: Its own, and its tag.
        place: Where it runs.
        store: What it keeps.
    """

    def __init__(
        self,
        name: str,
        folder: Path,
        store: Path,
        *,
        image: str,
        at: Mapping[str, str],
        routes: Sequence[str],
        users: str = "",
    ) -> None:
        """Write its settings.

        Args:
            name: Its own.
            folder: For its settings; the container sees all that is in it.
            store: Folder within that one for what it keeps.
            image: Whose entry point is nats-server.
            at: Its address by its networks' names; clients use the first one.
            routes: Addresses of the others, as it reaches them.
            users: Who is let in; see settings.py.
        """
        self.name = name
        self.store = store
        store.mkdir(parents=True, exist_ok=True)
        # A container's namespace is another one each time it is started: the file is a link to what is its own now.
        self._namespace = folder / "namespace"
        self.place = Place(name, tuple(at.values()), self._namespace)
        self.links: Links | None = None
        ends = Ends(*(f"0.0.0.0:{port}" for port in (CLIENT, MONITOR, ROUTE)))
        others = [f"{address}:{ROUTE}" for address in routes]
        inside = str(_INSIDE / store.relative_to(folder))
        file = settings.write(
            folder, name, ends, routes=others, store=inside, advertised=self._end(CLIENT), users=users
        )
        self._docker = DockerClient()
        self._container = self._made(image, str(_INSIDE / file.name), folder, at)

    @property
    def url(self) -> str:
        """For clients."""
        return f"nats://{self._end(CLIENT)}"

    @property
    def pid(self) -> int:
        """Of this life, as this machine counts.

        Raises:
            RuntimeError: It is down.
        """
        found = int(self._now().attrs["State"]["Pid"])
        if not found:
            message = f"nats-server {self.name} is down"
            raise RuntimeError(message)
        return found

    @property
    def is_running(self) -> bool:
        """Whether it is up, or frozen."""
        return self._now().status in _UP

    @property
    def log(self) -> str:
        """All that it said, in all its lives."""
        return bytes(self._container.logs()).decode(errors="replace")

    def start(self) -> None:
        """Start it, or start it again, if it is down; it is not ready then."""
        if self.is_running:
            return
        self._namespace.unlink(missing_ok=True)
        self._container.start()
        self._namespace.symlink_to(f"/proc/{self.pid}/ns/net")
        if self.links is not None:
            self.links.renew(self.name)

    def kill(self) -> None:
        """End it as a crash does, if it is up."""
        if self.is_running:
            self._namespace.unlink(missing_ok=True)
            self._now().kill()
            self._now().wait()

    def stop(self) -> None:
        """End it as an operator does, if it is up; frozen, it goes on first."""
        if self.is_running:
            self._namespace.unlink(missing_ok=True)
            self.thaw()
            self._now().stop(timeout=_STOP_S)

    def freeze(self) -> None:
        """Let it stand still with its connections open, if it is up."""
        if self.is_running and self._now().status != "paused":
            self._now().pause()

    def thaw(self) -> None:
        """Let it go on, if it is up."""
        if self.is_running and self._now().status == "paused":
            self._now().unpause()

    def remove(self) -> None:
        """End it, and remove its container."""
        self._namespace.unlink(missing_ok=True)
        self._container.remove(force=True, v=True)
        self._docker.client.close()

    def ask(self, path: str) -> Told:
        """What it says of itself.

        Raises:
            OSError: It says nothing.
        """
        return node.ask(self._end(MONITOR), path)

    def _made(self, image: str, settings_file: str, folder: Path, at: Mapping[str, str]) -> Container:
        """A container that never ran, with all of its networks: one that ran without some would use others instead."""
        first, *others = at
        made = self._docker.create(
            image,
            ["-c", settings_file],
            volumes={str(folder): {"bind": str(_INSIDE), "mode": "rw"}},
            network=first,
            networking_config={first: EndpointConfig(_API, ipv4_address=at[first])},
        )
        for network in others:
            self._docker.client.networks.get(network).connect(made, ipv4_address=at[network])
        return made

    def _now(self) -> Container:
        """Its container, as Docker has it now."""
        self._container.reload()
        return self._container

    def _end(self, port: int) -> str:
        return f"{self.place.address}:{port}"
