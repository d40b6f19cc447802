"""What the fleet publishes of its models: ModelSpecs in a KV bucket, tokenizers in an object store by their hash.

Knows both buckets. A spec is agreed on by the whole fleet: the first worker of a model writes it, later ones live by
its chunk limits or refuse to start. Does not know how clients use it.
"""

import logging
from dataclasses import replace

from headrace_contracts import DecodeError, ModelSpec, decode_spec, encode_spec, topology
from nats.js import JetStreamContext
from nats.js.api import KeyValueConfig, ObjectStoreConfig
from nats.js.errors import (
    KeyWrongLastSequenceError,
    NotFoundError,
)
from nats.js.kv import KeyValue
from nats.js.object_store import ObjectStore

from headrace_workers.errors import SpecConflict

logger = logging.getLogger(__name__)


async def agreed(jetstream: JetStreamContext, mine: ModelSpec, *, computes: bool = True) -> ModelSpec:
    """The spec to work by: this worker's, or the published one of the same model, whose chunk limits then hold.

    Args:
        jetstream: of the fleet.
        mine: what this worker would publish.
        computes: whether anything will be computed by it: provisioning does not, and has no dtype to be told of.

    Raises:
        SpecConflict: another model is served under this name.
    """
    try:
        bucket = await jetstream.key_value(topology.MODELS_BUCKET)
        published = (await bucket.get(mine.name)).value or b""
    except NotFoundError:  # neither the bucket nor the key is there
        return mine
    spec, theirs = _agree(mine, published), decode_spec(published)
    _log_limits(mine, theirs)
    if computes:
        _log_dtype(mine, theirs)
    return spec


async def publish(jetstream: JetStreamContext, spec: ModelSpec, tokenizer_json: bytes, replicas: int) -> None:
    """Make the spec and its tokenizer known, unless the fleet has them already.

    Raises:
        SpecConflict: another worker was faster, with another spec.
    """
    await _put_tokenizer(jetstream, spec.tokenizer, tokenizer_json, replicas)
    bucket = await _models(jetstream, replicas)
    try:
        await bucket.create(spec.name, encode_spec(spec))
        logger.info("published the ModelSpec of %s", spec.name)
    except KeyWrongLastSequenceError:
        if _agree(spec, (await bucket.get(spec.name)).value or b"") != spec:
            raise SpecConflict(
                f"another worker has just published {spec.name} with other limits: start again"
            ) from None


async def replace_spec(jetstream: JetStreamContext, spec: ModelSpec, tokenizer_json: bytes, replicas: int) -> None:
    """Make the spec known in place of what the fleet has."""
    await _put_tokenizer(jetstream, spec.tokenizer, tokenizer_json, replicas)
    await (await _models(jetstream, replicas)).put(spec.name, encode_spec(spec))


def _agree(mine: ModelSpec, published: bytes) -> ModelSpec:
    """The published spec, if it describes the same model."""
    advice = "give this worker another --name, or --replace-spec once the old workers are stopped"
    try:
        theirs = decode_spec(published)
    except DecodeError as error:
        raise SpecConflict(f"the published ModelSpec of {mine.name} cannot be read ({error}): {advice}") from error
    if theirs.fingerprint != mine.fingerprint:
        raise SpecConflict(
            f"the fleet serves {theirs.source} ({theirs.fingerprint}) as {mine.name}, this worker has {mine.source} "
            f"({mine.fingerprint}): {advice}"
        )
    # Where this worker runs and what it computes in may differ; what producers build chunks by must not.
    return replace(theirs, source=mine.source, compute_dtype=mine.compute_dtype)


def _log_limits(mine: ModelSpec, theirs: ModelSpec) -> None:
    """Say what flags of this worker come to nothing."""
    for name in ("max_chunk_tokens", "shards", "queues"):
        has, wants = getattr(theirs, name), getattr(mine, name)
        if has != wants:
            logger.info(
                "%s is %s, as the fleet has published it: this worker by itself would have %s", name, has, wants
            )


def _log_dtype(mine: ModelSpec, theirs: ModelSpec) -> None:
    """Say what the vectors of this worker differ by."""
    if theirs.compute_dtype != mine.compute_dtype:
        logger.warning(
            "this worker computes in %s, the one that published %s in %s, so that vectors of a text differ a little: "
            "give all workers of the model the same --dtype",
            mine.compute_dtype,
            mine.name,
            theirs.compute_dtype,
        )


async def _models(jetstream: JetStreamContext, replicas: int) -> KeyValue:
    try:
        return await jetstream.key_value(topology.MODELS_BUCKET)
    except NotFoundError:
        config = KeyValueConfig(bucket=topology.MODELS_BUCKET, history=5, replicas=replicas)
        return await jetstream.create_key_value(config)


async def _tokenizers(jetstream: JetStreamContext, replicas: int) -> ObjectStore:
    try:
        return await jetstream.object_store(topology.TOKENIZERS_BUCKET)
    except NotFoundError:
        config = ObjectStoreConfig(bucket=topology.TOKENIZERS_BUCKET, replicas=replicas)
        return await jetstream.create_object_store(topology.TOKENIZERS_BUCKET, config)


async def _put_tokenizer(jetstream: JetStreamContext, name: str, data: bytes, replicas: int) -> None:
    store = await _tokenizers(jetstream, replicas)
    try:
        await store.get_info(name)
    except NotFoundError:
        await store.put(name, data)
        logger.info("published tokenizer %s", name)
