"""Makes what no client would send: chunks that are broken, twisted, doubled or aimed elsewhere, out of a seed.

It knows the wire contract well enough to break each part of it. It knows no connection. All that it makes names chunks
and tenants of its own.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

import msgspec
import numpy as np
from headrace_contracts import Cancel, Chunk, ModelSpec, Options, encode_cancel, encode_chunk, headers, subjects
from headrace_contracts.control import Verb
from headrace_contracts.limits import max_message_bytes
from numpy.typing import NDArray

_FULL_WORD = 2**32 - 1
_POSITIVE = 2**31 - 1
_MOST_BYTES = 60_000
_VERBS: tuple[Verb, ...] = ("drain", "resume", "status")
# A line of the protocol has 4,096 bytes at most.
_LONGEST_PART = 3900
_ASTRAY = (
    "hr.inbox",
    "hr.inbox.x",
    "hr.inbox.*.>",
    "hr.inbox.a b.c",
    "hr.inbox..x",
    "hr.online.x.0.0",
    "hr.control.x.drain",
    "$JS.API.STREAM.PURGE.HR_DEAD",
    "$KV.hr_models.x",
    "_INBOX.x.y",
    "",
    "hr.inbox." + "x" * 5000 + ".y",
)
_NUMBERS = ("", "1", "-1", "1e3", "0x10", "9" * 19, "9" * 400, "12 ", "\u0663", "nan")
# What stands before the body of a message that has headers.
_BLOCKS = (
    b"",
    b"x",
    b"\r\n",
    b"NATS/1.0",
    b"NATS/1.0\r\n",
    b"NATS/1.0\r\n\r\n",
    b"NATS/1.0 \r\n\r\n",
    b"NATS/1.0 \xff\xff\xff\r\n\r\n",
    b"NATS/1.0 503\r\n\r\n",
    b"NATS/1.0 409 \xff\r\n\r\n",
    b"NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: x\r\n\r\n",
    b"NATS/1.0\r\nHr-Reply\r\n\r\n",
    b"NATS/1.0\r\nHr-Reply: hr.inbox.a.b\r\nHr-Reply: hr.inbox.c.d\r\n\r\n",
    b"NATS/1.0\r\n\xff\xfe: \xff\r\n\r\n",
    b"NATS/1.0\r\n : x\r\n\x00\x00:\r\n\r\n",
)
# What a server takes for a part of a subject.
_SUBJECT_ENDS = (b"\xff", b"\xc3\x28", b"a\xffb", b"\x00", b"\x7f", b"a\x0bb", b"\x0c7", b"\x1c")
_NAMES = ("", "a.b", "a b", "*", ">", "x" * 65, "\u00e9", "\x7f")


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgery:
    """One message.

    Attributes:
        kind: What is wrong with it.
        subject: Where it is published.
        body: Of it.
        headers: Of it.
        raw: All of that as it is to be written to a server, where no client would write it so.
    """

    kind: str
    subject: str = ""
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    raw: bytes | None = None


class Forger:
    """Makes forgeries for one model."""

    def __init__(self, spec: ModelSpec, inbox: str, seed: int, workers: Sequence[str] = ()) -> None:
        """Take what is needed to make good messages, which is what most bad ones begin as.

        Args:
            spec: Of the model.
            inbox: Prefix of where answers are to go, under hr.inbox.
            seed: Of all that is random.
            workers: Names of those that are told nonsense themselves; never anything that they would do.
        """
        self._spec = spec
        self._workers = workers
        self._inbox = inbox
        self._chance = random.Random(seed)  # noqa: S311 - they are to be the same each time
        self._numbers = count()
        self._stem = f"stranger-{seed}"
        self._making: Mapping[str, Callable[[], Sequence[Forgery]]] = {
            "truncated body": self._truncated,
            "flipped bits": self._flipped,
            "longer body": lambda: [self._of_body("longer body", self._body() + b"\x00")],
            "noise": lambda: [self._of_body("noise", self._chance.randbytes(self._chance.randrange(300)))],
            "no body": lambda: [self._of_body("no body", b"")],
            "nested": lambda: [self._of_body("nested", b"\x91" * _MOST_BYTES)],
            "field astray": self._field,
            "unknown tokens": self._unknown_tokens,
            "too many tokens": self._too_many_tokens,
            "too many items": self._too_many_items,
            "options": self._options,
            "another model": self._another_model,
            "twice": self._twice,
            "one message id": self._one_message_id,
            "one chunk id": self._one_chunk_id,
            "parts out of order": self._out_of_order,
            "no reply": self._no_reply,
            "reply astray": self._reply_astray,
            "reply to nobody": self._reply_to_nobody,
            "numbers": self._odd_numbers,
            "names": self._odd_names,
            "status": self._status,
            "headers of the broker": self._of_broker,
            "large headers": self._large_headers,
            "cancel": self._cancel,
            "presence": self._presence,
            "control": self._control,
            "nowhere": self._nowhere,
            "block of headers": self._block,
            "subject in no script": self._subject_in_no_script,
            "answer in no script": self._answer_in_no_script,
            "long subject": self._long_subject,
        }

    @property
    def kinds(self) -> Sequence[str]:
        """All that it can make."""
        return tuple(self._making)

    def make(self, kind: str) -> Sequence[Forgery]:
        """One of a kind, or those that make it up."""
        return self._making[kind]()

    def endless(self) -> Iterator[Forgery]:
        """All kinds, over and over, in other orders each time."""
        while True:
            for kind in self._chance.sample(self.kinds, len(self._making)):
                yield from self.make(kind)

    # -- good ones

    def _chunk(self, **changes: Any) -> Chunk:
        lengths = [self._chance.randint(2, 12) for _ in range(self._chance.randint(1, 3))]
        good: dict[str, Any] = {
            "id": f"{self._stem}-{next(self._numbers)}",
            "task": self._spec.tasks[0],
            "model": self._spec.name,
            "fingerprint": self._spec.fingerprint,
            "lengths": np.array(lengths, np.uint32),
            "token_ids": self._tokens(sum(lengths)),
        }
        return Chunk(**{**good, **changes})

    def _tokens(self, num: int) -> NDArray[np.uint32]:
        return np.array([self._chance.randrange(self._spec.vocab_size) for _ in range(num)], np.uint32)

    def _body(self) -> bytes:
        return encode_chunk(self._chunk())

    def _subject(self) -> str:
        if self._chance.random() < 0.3:
            return subjects.batch(self._spec.name, self._stem)
        return subjects.online(self._spec.name, *self._chance.choice(self._spec.online_queues))

    def _headers(self, **changes: str) -> dict[str, str]:
        number = next(self._numbers)
        own = {
            headers.REPLY_TO: f"{self._inbox}.{number}",
            headers.TOKENS: "10",
            headers.MSG_ID: f"{self._stem}-message-{number}",
            headers.TENANT: "stranger",
        }
        return own | changes

    def _of_body(self, kind: str, body: bytes) -> Forgery:
        return Forgery(kind=kind, subject=self._subject(), body=body, headers=self._headers())

    def _of_headers(self, kind: str, changed: Mapping[str, str]) -> Forgery:
        return Forgery(kind=kind, subject=self._subject(), body=self._body(), headers={**self._headers(), **changed})

    # -- bodies

    def _truncated(self) -> Sequence[Forgery]:
        body = self._body()
        return [self._of_body("truncated body", body[: self._chance.randrange(len(body))])]

    def _flipped(self) -> Sequence[Forgery]:
        body = bytearray(self._body())
        for _ in range(self._chance.randint(1, 8)):
            body[self._chance.randrange(len(body))] ^= 1 << self._chance.randrange(8)
        return [self._of_body("flipped bits", bytes(body))]

    def _field(self) -> Sequence[Forgery]:
        """A map that is read as such, in which one value is none that can be."""
        fields: dict[str, Any] = msgspec.msgpack.decode(self._body())
        name, value = self._chance.choice(
            (
                ("v", 2),
                ("v", "1"),
                ("n", _POSITIVE),
                ("n", 0),
                ("n", -1),
                ("len", np.array([_FULL_WORD, 2], "<u4").tobytes()),
                ("len", np.array([0, 0], "<u4").tobytes()),
                ("len", b""),
                ("tok", b"\x01\x02\x03"),
                ("tok", b""),
                ("typ", b"\x00"),
                ("id", "x" * 65),
                ("id", "a.b"),
                ("id", None),
                ("task", "score" if "score" not in self._spec.tasks else "sing"),
                ("job", "a b"),
                ("seq", -1),
                ("seq", 2**64 - 1),
                ("unknown", "x"),
                ("opt", {"dim": 2**40}),
                ("opt", []),
            )
        )
        return [self._of_body("field astray", msgspec.msgpack.encode({**fields, name: value}))]

    def _unknown_tokens(self) -> Sequence[Forgery]:
        ids = np.array([self._spec.vocab_size, _FULL_WORD, 0], np.uint32)
        chunk = self._chunk(lengths=np.array([1, 1, 1], np.uint32), token_ids=ids)
        return [self._of_body("unknown tokens", encode_chunk(chunk))]

    def _too_many_tokens(self) -> Sequence[Forgery]:
        num = self._spec.max_chunk_tokens + 1
        chunk = self._chunk(lengths=np.array([num], np.uint32), token_ids=np.ones(num, np.uint32))
        return [self._of_body("too many tokens", encode_chunk(chunk))]

    def _too_many_items(self) -> Sequence[Forgery]:
        num = self._spec.max_chunk_items + 1
        chunk = self._chunk(lengths=np.ones(num, np.uint32), token_ids=np.ones(num, np.uint32))
        return [self._of_body("too many items", encode_chunk(chunk))]

    def _options(self) -> Sequence[Forgery]:
        options = self._chance.choice(
            (Options(dim=self._spec.dim + 1), Options(dtype="b1"), Options(skip=_POSITIVE), Options(raw=True))
        )
        return [self._of_body("options", encode_chunk(self._chunk(options=options)))]

    def _another_model(self) -> Sequence[Forgery]:
        changes = self._chance.choice(({"model": "another"}, {"fingerprint": "0" * 64}))
        return [self._of_body("another model", encode_chunk(self._chunk(**changes)))]

    # -- more than one

    def _twice(self) -> Sequence[Forgery]:
        first = self._of_body("twice", self._body())
        return [first, replace(first, headers={**first.headers, headers.MSG_ID: f"{self._stem}-again"})]

    def _one_message_id(self) -> Sequence[Forgery]:
        first, second = (self._of_body("one message id", self._body()) for _ in range(2))
        same = {headers.MSG_ID: first.headers[headers.MSG_ID]}
        return [first, replace(second, subject=first.subject, headers={**second.headers, **same})]

    def _one_chunk_id(self) -> Sequence[Forgery]:
        first = self._chunk()
        return [self._of_body("one chunk id", encode_chunk(each)) for each in (first, self._chunk(id=first.id))]

    def _out_of_order(self) -> Sequence[Forgery]:
        parts = [self._chunk(job=f"{self._stem}-job", seq=seq) for seq in (2, 0, 0, 1)]
        return [self._of_body("parts out of order", encode_chunk(part)) for part in parts]

    # -- headers

    def _no_reply(self) -> Sequence[Forgery]:
        forged = self._of_body("no reply", self._body())
        kept = {name: value for name, value in forged.headers.items() if name != headers.REPLY_TO}
        return [replace(forged, headers=kept if self._chance.random() < 0.5 else {})]

    def _reply_astray(self) -> Sequence[Forgery]:
        return [self._of_headers("reply astray", {headers.REPLY_TO: self._chance.choice(_ASTRAY)})]

    def _reply_to_nobody(self) -> Sequence[Forgery]:
        nobody = self._chance.choice((subjects.inbox("nobody") + ".c.0.r", subjects.results("no-job")))
        return [self._of_headers("reply to nobody", {headers.REPLY_TO: nobody})]

    def _odd_numbers(self) -> Sequence[Forgery]:
        name = self._chance.choice((headers.TOKENS, headers.DEADLINE))
        return [self._of_headers("numbers", {name: self._chance.choice(_NUMBERS)})]

    def _odd_names(self) -> Sequence[Forgery]:
        name = self._chance.choice((headers.TENANT, headers.REQUEST, headers.TRACEPARENT))
        return [self._of_headers("names", {name: self._chance.choice(_NAMES)})]

    def _status(self) -> Sequence[Forgery]:
        """As if the broker spoke to who pulls."""
        status = self._chance.choice(("100", "404", "408", "409", "503", "x"))
        return [self._of_headers("status", {"Status": status, "Description": "Message Size Exceeds MaxBytes"})]

    def _of_broker(self) -> Sequence[Forgery]:
        header = self._chance.choice(
            (
                {"Nats-Expected-Stream": "ANOTHER"},
                {"Nats-Expected-Last-Sequence": "123456789"},
                {"Nats-Rollup": "all"},
                {"Nats-TTL": "1s"},
                {headers.BATCH_ID: "x", headers.BATCH_SEQUENCE: "7"},
                {"Nats-Msg-Size": "0"},
                {"Nats-Pending-Messages": "1", "Nats-Pending-Bytes": "1"},
            )
        )
        return [self._of_headers("headers of the broker", header)]

    def _large_headers(self) -> Sequence[Forgery]:
        many = {f"X-{number}": "x" for number in range(2000)}
        large = {headers.TRACEPARENT: "0" * _MOST_BYTES}
        return [self._of_headers("large headers", self._chance.choice((many, large)))]

    # -- elsewhere

    def _cancel(self) -> Sequence[Forgery]:
        good = encode_cancel(Cancel((f"{self._stem}-nothing",)))
        body = self._chance.choice((good, good[:-1], b"", self._chance.randbytes(40), b"\x91" * _MOST_BYTES))
        return [Forgery(kind="cancel", subject=subjects.cancel(self._spec.name), body=body)]

    def _presence(self) -> Sequence[Forgery]:
        body = self._chance.choice((b"", b"{}", self._chance.randbytes(40), b"\x91" * _MOST_BYTES))
        return [Forgery(kind="presence", subject=subjects.fleet(self._spec.name), body=body)]

    def _control(self) -> Sequence[Forgery]:
        """Nothing that an operator would say: that would be done."""
        body = self._chance.choice((b"\xff", b"[", b"{}}", b'{"v":2}', b'{"v":1,"wait_ms":-1}', b"[" * _MOST_BYTES))
        return [
            Forgery(kind="control", subject=subjects.control(worker, verb), body=body)
            for worker in self._workers
            for verb in _VERBS
        ]

    def _nowhere(self) -> Sequence[Forgery]:
        subject = self._chance.choice((f"hr.online.{self._spec.name}.9999.0", "hr.online.x", "hr.batch.no-model.job"))
        return [Forgery(kind="nowhere", subject=subject, body=self._body(), headers=self._headers())]

    # -- as no client would write it

    def _block(self) -> Sequence[Forgery]:
        """Headers that are none, where all that listens hears of them."""
        block, body = self._chance.choice(_BLOCKS), self._body()
        subject = self._chance.choice(self._open_subjects).encode()
        line = b"HPUB %b %d %d\r\n%b%b\r\n" % (subject, len(block), len(block) + len(body), block, body)
        return [Forgery(kind="block of headers", raw=line)]

    def _subject_in_no_script(self) -> Sequence[Forgery]:
        last, body = self._chance.choice(_SUBJECT_ENDS), self._body()
        subject = subjects.batch(self._spec.name, self._stem).encode() + b"." + last
        return [Forgery(kind="subject in no script", raw=b"PUB %b %d\r\n%b\r\n" % (subject, len(body), body))]

    def _long_subject(self) -> Sequence[Forgery]:
        """As much as a queue takes, under as long a name as a server takes."""
        subject = subjects.batch(self._spec.name, self._stem) + "." + "x" * _LONGEST_PART
        body = bytes(max_message_bytes(self._spec.max_chunk_tokens, self._spec.max_chunk_items))
        return [Forgery(kind="long subject", subject=subject, body=body)]

    def _answer_in_no_script(self) -> Sequence[Forgery]:
        subject, body = self._chance.choice(self._open_subjects).encode(), self._body()
        line = b"PUB %b \xff\xfe %d\r\n%b\r\n" % (subject, len(body), body)
        return [Forgery(kind="answer in no script", raw=line)]

    @property
    def _open_subjects(self) -> Sequence[str]:
        name = self._spec.name
        return (
            subjects.online(name, *self._chance.choice(self._spec.online_queues)),
            subjects.batch(name, self._stem),
            subjects.cancel(name),
            subjects.fleet(name),
            *(subjects.control(worker, "status") for worker in self._workers),
            "$SRV.PING",
            "$SRV.STATS",
        )
