"""A cluster of three nats-servers on loopback whose servers a test can kill and start again, one by one."""

import asyncio
import json
import signal
import socket
import subprocess
import urllib.request
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from headrace.local import server_binary

TAGS = ("left", "middle", "right")

_CONFIG = """
server_name: {tag}
server_tags: ["{tag}"]
listen: "127.0.0.1:{client}"
http: "127.0.0.1:{monitor}"
jetstream {{ store_dir: "{store}" }}
cluster {{ name: test, listen: "127.0.0.1:{route}", routes: [{routes}], pool_size: -1 }}
"""


class Node:
    """One server of the cluster, under the tag that is also its name."""

    def __init__(self, tag: str, ports: tuple[int, int, int], routes: list[int], folder: Path) -> None:
        self.tag = tag
        client, monitor, route = ports
        self.url = f"nats://127.0.0.1:{client}"
        self._monitor = f"http://127.0.0.1:{monitor}"
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir()
        text = _CONFIG.format(
            tag=tag,
            client=client,
            monitor=monitor,
            route=route,
            routes=", ".join(f'"nats://127.0.0.1:{port}"' for port in routes),
            store=folder / "store",
        )
        (folder / "nats.conf").write_text(text)

    @property
    def is_running(self) -> bool:
        return self._process is not None

    def start(self) -> None:
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [server_binary(), "-c", str(self._folder / "nats.conf")], stderr=log, start_new_session=True
            )

    def kill(self) -> None:
        """End it as a crash does."""

        if self._process is not None:
            self._process.kill()
            self._process.wait(20)
            self._process = None

    def freeze(self) -> None:
        """Let it stand still with its connections open, as if its network were gone."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def ask(self, path: str) -> dict[str, Any]:
        """What it says of itself; raises OSError while it says nothing."""
        with urllib.request.urlopen(f"{self._monitor}{path}", timeout=2) as answer:  # noqa: S310 - the URL is ours
            return dict(json.loads(answer.read()))

    def num_messages(self, stream: str) -> int:
        """Messages of a NATS stream that lies on it."""
        accounts = self.ask("/jsz?streams=true")["account_details"]
        return sum(
            int(each["state"]["messages"])
            for account in accounts
            for each in account["stream_detail"]
            if each["name"] == stream
        )

    @property
    def log(self) -> str:
        return (self._folder / "log").read_text(errors="replace")


class Cluster:
    """Its servers, by tag."""

    def __init__(self, folder: Path) -> None:
        ports = _free_ports(3 * len(TAGS))
        threes = list(zip(ports[::3], ports[1::3], ports[2::3], strict=True))
        routes = [route for _, _, route in threes]
        self.nodes = {tag: Node(tag, three, routes, folder / tag) for tag, three in zip(TAGS, threes, strict=True)}

    @property
    def url(self) -> str:
        """URL of all servers; who connects takes one by chance, and who knows one learns of the others."""
        return ",".join(node.url for node in self.nodes.values())

    async def ready(self, seconds: float = 30) -> None:
        """Wait until a leader knows all servers that run, with JetStream, and can place NATS streams on them."""
        running = [node for node in self.nodes.values() if node.is_running]
        try:
            async with asyncio.timeout(seconds):
                while not await asyncio.to_thread(self._is_ready, running):  # noqa: ASYNC110 - servers tell nobody
                    await asyncio.sleep(0.05)
        except TimeoutError:
            logs = "\n".join(f"--- {node.tag}\n{node.log[-2000:]}" for node in self.nodes.values())
            raise AssertionError(f"the cluster was not ready within {seconds} s:\n{logs}") from None

    def _is_ready(self, running: list[Node]) -> bool:
        names = {node.tag for node in running}
        try:
            for node in running:
                routes = {route["remote_name"] for route in node.ask("/routez")["routes"]}
                # Until a server has its route to another, what it answers to clients there is lost.
                if node.ask("/healthz")["status"] != "ok" or not names <= routes | {node.tag}:
                    return False
            for node in running:
                meta = node.ask("/jsz")["meta_cluster"]
                if meta.get("leader") == node.tag:
                    there = {peer["name"] for peer in meta["replicas"] if peer["current"] and not peer.get("offline")}
                    return names <= there | {node.tag}
        except (OSError, KeyError):
            pass
        return False


@asynccontextmanager
async def cluster(folder: Path) -> AsyncIterator[Cluster]:
    """Run three servers while the context lasts."""
    made = Cluster(folder)
    with ExitStack() as stack:
        for node in made.nodes.values():
            stack.callback(node.kill)
            node.start()
        await made.ready()
        yield made


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
