"""Listens to all chunks and all inboxes, and says which replies went where no chunk of theirs wanted them.

It knows subjects, headers and ids of messages. It may miss some of them, as core NATS may lose any, and then says
nothing about them; it never takes a good reply for a bad one.
"""

from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from headrace_contracts import DecodeError, connection, decode_chunk, decode_reply, headers, subjects
from nats.aio.msg import Msg

_CHUNKS = ("hr.online.>", "hr.batch.>")
_INBOXES = f"{subjects.INBOX_ROOT}.>"
_CONNECT_S = 5.0
_MAX_EXAMPLES = 20


class Wiretap:
    """What was heard.

    Attributes:
        num_chunks: Messages with a chunk, copies and all.
        num_replies: Messages that a worker may have sent to an inbox.
    """

    def __init__(self) -> None:
        self.num_chunks = 0
        self.num_replies = 0
        # By the chunk's id. A reply may come by before its chunk does: of a cluster, the two go different ways.
        self._wanted: dict[str, set[str]] = defaultdict(set)
        self._sent: dict[str, set[str]] = defaultdict(set)

    async def on_chunk(self, message: Msg) -> None:
        """Something was published for workers."""
        try:
            chunk_id, inbox = decode_chunk(message.data).id, headers.reply_to(message.headers)
        except DecodeError:
            return  # a stranger's: its answer has no id, or names what nobody here knows
        self.num_chunks += 1
        self._wanted[chunk_id].add(_place(inbox))

    async def on_inbox(self, message: Msg) -> None:
        """Something was sent to an inbox: a reply, or else a broker's answer."""
        try:
            chunk_id = decode_reply(message.data).id
        except DecodeError:
            return
        self.num_replies += 1
        if chunk_id:
            self._sent[chunk_id].add(_place(message.subject))

    @property
    def num_judged(self) -> int:
        """Chunks that were heard together with a reply to them."""
        return len(self._sent.keys() & self._wanted.keys())

    def violations(self) -> list[str]:
        """A sentence for each chunk of which a reply went elsewhere; none if all is well."""
        found = []
        for chunk_id in sorted(self._sent.keys() & self._wanted.keys()):
            if astray := self._sent[chunk_id] - self._wanted[chunk_id]:
                wanted = ", ".join(sorted(self._wanted[chunk_id]))
                found.append(f"a reply to chunk {chunk_id} went to {', '.join(sorted(astray))}, and not to {wanted}")
        return found[:_MAX_EXAMPLES]


@asynccontextmanager
async def tapped(url: str) -> AsyncIterator[Wiretap]:
    """Listen while the context lasts, and again after each loss of the connection.

    Args:
        url: Of nats-servers, with commas between.

    Raises:
        Unreachable: None answers at the beginning.
    """
    tap = Wiretap()
    listening, _ = await connection.connect(url, name="wiretap", inbox=subjects.inbox("wiretap"), timeout_s=_CONNECT_S)
    try:
        for subject in _CHUNKS:
            await listening.subscribe(subject, cb=tap.on_chunk, pending_msgs_limit=0, pending_bytes_limit=0)
        await listening.subscribe(_INBOXES, cb=tap.on_inbox, pending_msgs_limit=0, pending_bytes_limit=0)
        await listening.flush()
        yield tap
    finally:
        await connection.close(listening)


def _place(inbox: str) -> str:
    """An inbox without its last part: copies of a chunk that go to several shards differ in that alone."""
    # Of two copies one may have been missed: then its reply must not look like one that went astray.
    return inbox.rpartition(".")[0]
