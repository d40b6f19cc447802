"""A delivery in a worker: whatever came, it may run, or is refused by a code that its producer can understand.

It knows the checks of a worker, and what a refusal must be able to become. It does not know the broker.
"""

from functools import partial
from random import Random

from headrace_contracts import ErrorCode, ErrorReply, ModelSpec, decode_reply, decode_spec, encode_reply, headers
from headrace_contracts.limits import MAX_BAD_TEXT
from headrace_workers.delivery import Delivery, wire_size
from headrace_workers.work import Refused, Work, accept, prepare, request_id

from fuzz import packing
from fuzz.frames import BLOCK, check_writable, parts
from fuzz.framing import received
from fuzz.messages import refit_chunk
from fuzz.mutation import mutated_headers, mutated_msgpack, mutated_parts
from fuzz.target import Target, Verdict, Wrong
from fuzz.vectors import vector, vectors

_SPEC = "spec"
_NOW_MS = 1_800_000_000_000
_MAX_TEXT = 4096  # of an error, by the contract


def targets() -> list[Target]:
    """It."""
    return [Target(name="delivery", group="decode", seeds=_seeds, run=run, mutate=_mutate)]


def _seeds() -> list[bytes]:
    return [packing.packed({"h": BLOCK, "b": body}) for body in (_runnable(), *vectors("chunk"))]


def _runnable() -> bytes:
    """A chunk that this worker would run."""
    spec = _spec()
    tree = packing.unpacked(vector("chunk_minimal"))
    return packing.packed({**tree, "model": spec.name, "fp": spec.fingerprint})


def _spec() -> ModelSpec:
    return decode_spec(vector(_SPEC))


def _mutate(data: bytes, rng: Random) -> bytes:
    return mutated_parts(data, rng, {"h": mutated_headers, "b": partial(mutated_msgpack, refit=refit_chunk)})


def run(data: bytes) -> Verdict:
    """Take a delivery in.

    Raises:
        Wrong: It is refused as a bug, or what may run does not add up.
    """
    found = parts(data, "h", "b")
    if found is None:
        return Verdict.REFUSED
    message = received(b"hr.online.minilm.0.0", found["h"], found["b"])
    delivery = Delivery(message, "online", lambda _: None)
    if delivery.size != wire_size(message):
        raise Wrong("its size is not what the broker counted")
    spec = _spec()
    try:
        work = accept(delivery, spec, max_deliveries=5, now_ms=_NOW_MS, given_up=frozenset({"given-up"}))
    except Refused as refused:
        _check_refusal(delivery, refused)
        return Verdict.REFUSED
    _check_work(work, spec)
    return Verdict.TAKEN


def _check_refusal(delivery: Delivery, refused: Refused) -> None:
    if refused.code is ErrorCode.INTERNAL:
        raise Wrong(f"refused as a bug: {refused.text}") from refused
    reply = ErrorReply(id=refused.chunk_id, code=refused.code, text=refused.text[:_MAX_TEXT], worker="w")
    decode_reply(encode_reply(reply))
    request_id(delivery, refused.chunk)
    check_writable(headers.passed_on(delivery.headers))


def _check_work(work: Work, spec: ModelSpec) -> None:
    n = work.chunk.num_sequences
    if sorted([*work.runnable.tolist(), *(item.index for item in work.bad)]) != list(range(n)):
        raise Wrong("a sequence is neither good nor bad, or both")
    if any(len(item.text.encode()) > MAX_BAD_TEXT for item in work.bad):
        raise Wrong(f"a reply may not fit: {max(len(item.text.encode()) for item in work.bad)} bytes of a bad item")
    if not len(work.runnable):
        return
    batch = prepare((work,))
    if len(batch.token_ids) != work.num_tokens or int(batch.token_ids.max()) >= spec.vocab_size:
        raise Wrong("the batch is not what was let pass")
    work.trace_id  # noqa: B018 - it may raise
