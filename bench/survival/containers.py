"""Three nats-servers in containers, whose clients and whose routes go over networks of their own.

It knows how testcontainers makes networks and images, and asks for an engine on this machine, whose networks it
reaches. It does not know how a server is started and ended (container_node.py). Nothing is pulled: the image is made of
the nats-server that is here.
"""

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from ipaddress import IPv4Network
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory

from docker.errors import APIError, DockerException
from docker.types import IPAMConfig, IPAMPool
from headrace.local import server_binary
from testcontainers.core.config import testcontainers_config
from testcontainers.core.image import DockerImage
from testcontainers.core.network import Network

from survival.container_node import ContainerNode
from survival.links import Links
from survival.place import NotPermitted

_DOCKERFILE = 'FROM scratch\nCOPY nats-server /nats-server\nENTRYPOINT ["/nats-server"]\n'
# For benchmarks alone, as those of place.py; the first address of each network is this machine's.
_ALL, _PREFIX = IPv4Network("198.19.0.0/16"), 28


@contextmanager
def containers(
    work: Path, names: Sequence[str], stores: Mapping[str, Path], users: str = ""
) -> Iterator[tuple[Mapping[str, ContainerNode], Links]]:
    """Servers that are down, and the links between them, while the context lasts.

    Args:
        work: Folder for what they write, each in one of its name.
        names: Of the servers.
        stores: Folders for what they keep, within those folders; who has none takes store there.
        users: Who is let in; see settings.py.

    Raises:
        NotPermitted: No engine of Docker answers, or it does not make what is needed.
        LocalFailed: There is no nats-server.
    """
    # It would be a container of its own, whose image is not here; what there is is removed at the end.
    testcontainers_config.ryuk_disabled = True
    with ExitStack() as stack:
        try:
            image = _image(stack)
            at = _networks(stack, names)
        except DockerException as error:
            raise NotPermitted(f"Docker: {error}") from error
        nodes = {}
        for name in names:
            (work / name).mkdir(parents=True, exist_ok=True)
            store = stores.get(name, work / name / "store")
            nodes[name] = ContainerNode(
                name, work / name, store, image=image, at=at[name], routes=_routes(name, at), users=users
            )
            stack.callback(nodes[name].remove)
        links = Links({name: node.place for name, node in nodes.items()})
        for node in nodes.values():
            node.links = links
        yield nodes, links


def _image(stack: ExitStack) -> str:
    with TemporaryDirectory(prefix="headrace-") as context:
        shutil.copy(server_binary(), Path(context) / "nats-server")
        (Path(context) / "Dockerfile").write_text(_DOCKERFILE, "utf-8")
        # By the label it is another one than that of a run beside this one, which removes its own.
        return str(stack.enter_context(DockerImage(context, labels={"headrace": context})).short_id)


def _networks(stack: ExitStack, names: Sequence[str]) -> dict[str, dict[str, str]]:
    """Addresses of each server by its networks: the first one is for clients, the others are for one other each."""
    at: dict[str, dict[str, str]] = {name: {} for name in names}
    free = _subnets()
    for ends in (*((name,) for name in names), *combinations(names, 2)):
        network, subnet = _network(stack, free)
        for number, name in enumerate(ends, start=2):
            at[name][network] = str(subnet[number])
    return at


def _subnets() -> Iterator[IPv4Network]:
    """All that there are; runs that begin together have different ids, so they seldom try the same ones."""
    all_ = [*_ALL.subnets(new_prefix=_PREFIX)]
    first = os.getpid() * 8 % len(all_)
    return iter(all_[first:] + all_[:first])


def _network(stack: ExitStack, free: Iterator[IPv4Network]) -> tuple[str, IPv4Network]:
    """The id of a new one, and what it has of addresses."""
    for subnet in free:
        pool = IPAMConfig(pool_configs=[IPAMPool(subnet=str(subnet), gateway=str(subnet[1]))])
        # Internal: servers tell each other of addresses in networks that one of them is not in, and a machine that
        # forwards packets would have their routes go there, past the links.
        network = Network(docker_network_kw={"ipam": pool, "internal": True})
        stack.callback(network._docker.client.close)  # noqa: SLF001 - it leaves its connection open
        try:
            stack.enter_context(network)
        except APIError as error:
            if "overlaps" in str(error):
                continue  # another run's
            raise
        return network.name, subnet
    raise NotPermitted(f"all networks of {_ALL} are taken: docker network ls shows them")


def _routes(name: str, at: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Addresses of the others on the networks that they have in common with one."""
    return [
        address
        for other, addresses in at.items()
        for network, address in addresses.items()
        if other != name and network in at[name]
    ]
