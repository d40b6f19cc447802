"""Places where processes run: network namespaces around a bridge, or simply here.

It knows how they are made and how they go away. It does not know who runs in them, and not what breaks between them.

The bridge has a namespace of its own, so that neither firewall rules of this machine nor another run meet the traffic
between places; this machine gets one interface, which leads to all of them. Each namespace lives for as long as a
process of ours that waits for the end of its standard input: whatever ends us, SIGKILL too, ends it, and nothing stays
behind.
"""

import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

HERE = "127.0.0.1"
# In 198.18.0.0/15, which is for benchmarks of networks alone (RFC 2544): one /24 for each run.
_NETWORK, _NUM_NETWORKS = "198.18.{}", 256
_DRIVER, _FIRST = 1, 2
MAX_PLACES = 250


class NotPermitted(Exception):
    """This machine does not do it for us; the text says why."""


@dataclass(frozen=True, slots=True)
class Place:
    """Somewhere processes run.

    Attributes:
        name: Its own.
        addresses: Where others find who listens there; clients take the first one.
        namespace: File that stands for its network namespace; None is that of this process.
    """

    name: str
    addresses: tuple[str, ...] = (HERE,)
    namespace: Path | None = None

    @property
    def address(self) -> str:
        """Where clients find who listens there."""
        return self.addresses[0]

    @property
    def is_there(self) -> bool:
        """Whether processes can run there: a container's place goes and comes with it."""
        return self.namespace is None or self.namespace.exists()

    @property
    def prefix(self) -> tuple[str, ...]:
        """Words before a command that is to run there: it becomes that command, so the process id is its own."""
        return () if self.namespace is None else (_found("nsenter"), f"--net={self.namespace}")

    def command(self, *argv: str) -> list[str]:
        """A command that runs there."""
        return [*self.prefix, *argv]

    def run(self, program: str, *arguments: str, text: str = "") -> str:
        """Run a program there to its end; returns what it said.

        Args:
            program: Its name.
            arguments: Of it.
            text: What it reads.

        Raises:
            NotPermitted: It is not here, or it failed.
        """
        command = self.command(_found(program), *arguments)
        ended = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
        if ended.returncode != 0:
            raise NotPermitted(f"{program} {' '.join(arguments)}: {ended.stderr.strip()}")
        return ended.stdout


@contextmanager
def places(names: Iterable[str]) -> Iterator[Mapping[str, Place]]:
    """Places that reach each other, and that this process reaches, while the context lasts.

    Processes in them are their owners' to end: the namespace of one that runs on goes with it.

    Args:
        names: Of the places, at most MAX_PLACES.

    Raises:
        NotPermitted: This is not root, a program is missing, or the kernel does not allow it.
    """
    if os.geteuid() != 0:
        raise NotPermitted("network namespaces need root")
    with ExitStack() as stack:
        hub = _bridge(stack)
        network = _network(stack, hub)
        yield {name: _place(stack, hub, name, f"{network}.{number}") for number, name in enumerate(names, start=_FIRST)}


def _bridge(stack: ExitStack) -> Place:
    hub = stack.enter_context(_namespace("hub"))
    hub.run("ip", "link", "add", "bridge", "type", "bridge")
    hub.run("ip", "link", "set", "bridge", "up")
    return hub


def _network(stack: ExitStack, hub: Place) -> str:
    """Connect this machine; returns the first three bytes of the addresses of a network that is no other run's."""
    here = Place("driver")
    for turn in range(_NUM_NETWORKS):
        # Runs that begin together have different ids, so they seldom try the same one.
        number = (os.getpid() + turn) % _NUM_NETWORKS
        name = f"headrace-{number}"
        try:
            # Its name is the claim: the kernel lets one be there but once.
            here.run("ip", "link", "add", name, "type", "veth", "peer", "name", here.name, "netns", str(hub.namespace))
        except NotPermitted as error:
            if "File exists" in str(error):
                continue
            raise
        stack.callback(_removed, name)
        hub.run("ip", "link", "set", here.name, "master", "bridge", "up")
        network = _NETWORK.format(number)
        here.run("ip", "address", "add", f"{network}.{_DRIVER}/24", "dev", name)
        here.run("ip", "link", "set", name, "up")
        return network
    raise NotPermitted(f"all {_NUM_NETWORKS} networks are taken: ip link shows them as headrace-…")


def _place(stack: ExitStack, hub: Place, name: str, address: str) -> Place:
    own = stack.enter_context(_namespace(name, address))
    port = f"port-{address.rpartition('.')[2]}"
    hub.run("ip", "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", str(own.namespace))
    hub.run("ip", "link", "set", port, "master", "bridge", "up")
    own.run("ip", "address", "add", f"{address}/24", "dev", "eth0")
    for link in ("lo", "eth0"):
        own.run("ip", "link", "set", link, "up")
    return own


@contextmanager
def _namespace(name: str, address: str = HERE) -> Iterator[Place]:
    """A new one, and what keeps it."""
    command = [_found("unshare"), "--net", "sh", "-c", "echo; exec cat"]
    pipe = subprocess.PIPE
    # Leaving it closes its standard input and waits for its end.
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True) as holder:
        assert holder.stdout is not None and holder.stderr is not None  # noqa: S101, PT018 - pipes were asked for
        if holder.stdout.read(1) != b"\n":
            raise NotPermitted(holder.stderr.read().decode(errors="replace").strip())
        yield Place(name, (address,), Path(f"/proc/{holder.pid}/ns/net"))


def _removed(name: str) -> None:
    # It goes with its other end anyway, but later.
    with suppress(NotPermitted):
        Place("driver").run("ip", "link", "delete", name)


def _found(program: str) -> str:
    found = shutil.which(program)
    if found is None:
        raise NotPermitted(f"there is no {program} on the path")
    return found
