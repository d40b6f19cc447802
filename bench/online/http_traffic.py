"""`python -m online.http_traffic`: a process of callers that speak HTTP/1.1 on connections that are kept.

It knows as much of HTTP as a server needs to be asked and understood, on asyncio's own streams: a client library for
all cases takes longer than the gateway that is measured. It does not know what is asked.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
from economics import processes
from headrace_workers import event_loop

from online.call import Kind
from online.driver import Driver, End
from online.plan import Loop, Ran, When

_BUSY = frozenset({429, 503})
_TOO_LATE = frozenset({408, 504})
_LIMIT = 2**24  # bytes of a line of a head at most: none is as long


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpPlan:
    """What this process does.

    Attributes:
        port: Of the server, on loopback.
        path: Asked for.
        bodies: JSON to POST, taken in turn; empty to GET.
        loop: How calls follow each other.
        when: The time.
        timeout_s: Of each call.
    """

    port: int
    path: str
    bodies: Sequence[str]
    loop: Loop
    when: When
    timeout_s: float = 30


class Connection:
    """One connection, with one request at a time."""

    def __init__(self, port: int) -> None:
        """Connect at the first request."""
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, request: bytes) -> tuple[int, bytes]:
        """Send a request; returns status and body.

        Raises:
            OSError: The connection broke; the next request makes a new one.
            asyncio.IncompleteReadError: Likewise, in the middle of an answer.
        """
        if self._streams is not None and self._streams[0].at_eof():
            self.close()  # the server ends what nobody asks for long; clients look before they ask, as a rule
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port, limit=_LIMIT)
        reader, writer = self._streams
        try:
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            status, length, is_kept = read_head(head)
            body = await reader.readexactly(length)
        except BaseException:
            # A half-read answer is no beginning for the next one.
            self.close()
            raise
        if not is_kept:
            self.close()
        return status, body

    def close(self) -> None:
        """Let go."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


def read_head(head: bytes) -> tuple[int, int, bool]:
    """The status, the length of the body, and whether the connection stays, of the head of an answer (RFC 9112).

    Raises:
        ValueError: It is none, or its body is sent in pieces, which no server here does.
    """
    first, *lines = head.decode("latin-1").split("\r\n")
    fields = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
    if "transfer-encoding" in fields:
        raise ValueError(f"an answer in pieces, which this client does not read: {fields['transfer-encoding']}")
    protocol, status, *_ = first.split(" ")
    # Before HTTP/1.1 a connection ended with its answer, unless the server said otherwise (RFC 9112, section 9.3).
    said = fields.get("connection", "close" if protocol == "HTTP/1.0" else "keep-alive").lower()
    return int(status), int(fields.get("content-length", 0)), said != "close"


def request(path: str, body: str | None) -> bytes:
    """A GET, or a POST of JSON."""
    head = f"{'GET' if body is None else 'POST'} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    if body is None:
        return f"{head}\r\n".encode()
    content = body.encode()
    return f"{head}Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n".encode() + content


class Callers:
    """Those of one process: each call takes a connection that no other has."""

    def __init__(self, plan: HttpPlan) -> None:
        self._plan = plan
        self._requests = [request(plan.path, body) for body in plan.bodies] or [request(plan.path, None)]
        self._idle: list[Connection] = []

    async def call(self, number: int) -> End:
        """Make one call."""
        connection = self._idle.pop() if self._idle else Connection(self._plan.port)
        try:
            async with asyncio.timeout(self._plan.timeout_s):
                status, body = await connection.ask(self._requests[number % len(self._requests)])
        except TimeoutError:
            return "expired", 0, 0.0
        finally:
            self._idle.append(connection)
        return kind_of(status, body), 0, 0.0

    def close(self) -> None:
        """Close all connections."""
        for connection in self._idle:
            connection.close()


def kind_of(status: int, body: bytes) -> Kind:
    """What an answer counts as.

    Raises:
        RuntimeError: It is an error that a server under load has no reason for.
    """
    if status == 200:
        msgspec.json.decode(body)  # whoever asks will read it
        return "answered"
    if status in _BUSY:
        return "refused"
    if status in _TOO_LATE:
        return "expired"
    raise RuntimeError(f"status {status}: {body[:300].decode(errors='replace')}")


async def run(plan: HttpPlan) -> Ran:
    """Do what the plan says."""
    callers = Callers(plan)
    try:
        return await Driver(callers.call).run(plan.loop, plan.when)
    finally:
        callers.close()


def main() -> None:
    """Do what the standard input asks."""
    with asyncio.Runner(loop_factory=event_loop.factory()) as runner:
        processes.reply(runner.run(run(processes.plan(HttpPlan))))


if __name__ == "__main__":
    main()
