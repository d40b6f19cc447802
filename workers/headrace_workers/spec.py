"""The ModelSpec of a checkpoint, and the budgets that follow from it.

Knows how defaults depend on the model and the server, and which budgets cannot work. Pure. Does not know where specs
are kept: registry.py does.
"""

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass

from headrace_contracts import ModelSpec, PairTemplate, limits
from headrace_contracts.fingerprint import fingerprint
from headrace_engine import Checkpoint

from headrace_workers.calibration.choose import DEFAULT_STEP_TOKENS, DEFAULT_STEPS_IN_HAND, Choice
from headrace_workers.config import WorkerConfig
from headrace_workers.errors import BudgetUnfit

# Of a queue: while what one brought runs, another must bring what runs next.
_PULLS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Budgets:
    """Token budgets of one worker.

    Attributes:
        step_tokens: one step at most.
        online_bytes: purse that the online pullers share.
        batch_bytes: purse of the batch puller.
        min_pull_bytes: what a pull must ask for so that the largest chunk fits.
        queue_bytes: what the online purse keeps for each queue.
        rate: tokens/s of such steps, as a calibration has it; None where there is none.
    """

    step_tokens: int
    online_bytes: int
    batch_bytes: int
    min_pull_bytes: int
    queue_bytes: int
    rate: int | None = None

    @property
    def budget_tokens(self) -> int:
        """Tokens pulled and not yet answered at most, both classes together."""
        return (self.online_bytes + self.batch_bytes) // limits.TOKEN_BYTES


def served_name(config: WorkerConfig, source: str) -> str:
    """The configured name, or one made of the last part of where the model came from."""
    if config.name is not None:
        return config.name
    name = re.sub(r"[^a-z0-9_-]+", "-", source.rstrip("/").rsplit("/", 1)[-1].lower()).strip("-_")
    return name[:64] or "model"


def fingerprint_of(checkpoint: Checkpoint) -> str:
    """The fingerprint of a model."""
    return fingerprint(
        tokenizer=_tokenizer_hash(checkpoint),
        revision=checkpoint.revision,
        pooling=checkpoint.pooling,
        max_length=checkpoint.max_length,
        pair_template=_pair_template(checkpoint),
    )


def describe(
    checkpoint: Checkpoint,
    config: WorkerConfig,
    *,
    compute_dtype: str,
    max_payload: int,
    measured: Choice | None = None,
) -> ModelSpec:
    """The ModelSpec that this worker would publish.

    Args:
        checkpoint: what the engine loaded.
        config: this worker's settings.
        compute_dtype: what the engine computes in.
        max_payload: largest message that the server takes, in bytes.
        measured: what a calibration chose for this device; None where it has none.
    """
    step = config.step_tokens or default_step(measured, checkpoint.max_length)
    items = limits.max_reply_items(max_payload, checkpoint.dim)
    return ModelSpec(
        name=served_name(config, checkpoint.source),
        source=checkpoint.source,
        tasks=checkpoint.tasks,
        dim=checkpoint.dim,
        dtypes=checkpoint.dtypes,
        default_dtype=checkpoint.default_dtype,
        compute_dtype=compute_dtype,
        max_length=checkpoint.max_length,
        max_length_source=checkpoint.max_length_source,
        pooling=checkpoint.pooling,
        include_prompt=checkpoint.include_prompt,
        normalize=checkpoint.normalize,
        prompts=dict(checkpoint.prompts),
        default_prompt=checkpoint.default_prompt,
        pair_template=_pair_template(checkpoint),
        vocab_size=checkpoint.vocab_size,
        num_segments=checkpoint.num_segments,
        fingerprint=fingerprint_of(checkpoint),
        tokenizer=_tokenizer_hash(checkpoint),
        max_chunk_tokens=config.max_chunk_tokens
        or max(min(step // 2, _most_tokens(config, items, max_payload)), checkpoint.max_length),
        max_chunk_items=items,
        shards=config.shards,
        queues=config.queues,
    )


def _tokenizer_hash(checkpoint: Checkpoint) -> str:
    return hashlib.sha256(checkpoint.tokenizer_json).hexdigest()


def _pair_template(checkpoint: Checkpoint) -> PairTemplate | None:
    found = checkpoint.pair_template
    return None if found is None else PairTemplate(prefix=found.prefix, body=found.body, suffix=found.suffix)


def budgets(config: WorkerConfig, spec: ModelSpec, max_payload: int, measured: Choice | None = None) -> Budgets:
    """Split the token budget between the classes, so that neither can hold up the other's pulls.

    Half and half, once each online queue but one has what the purse keeps for it.

    Args:
        config: this worker's settings; what it sets counts.
        spec: of the model, as the fleet serves it. A step that nobody set holds its largest chunk, whatever was
            measured.
        max_payload: largest message that the server takes, in bytes.
        measured: what a calibration chose for this device; None where it has none.

    Raises:
        BudgetUnfit: a step or a purse cannot hold the largest chunk of the fleet, a chunk cannot hold the longest
            sequence, or the server cannot carry the chunk.
    """
    step = config.step_tokens or default_step(measured, spec.max_chunk_tokens)
    budget = config.budget_tokens or _default_budget(step, spec, measured)
    min_pull = limits.min_pull_bytes(spec.max_chunk_tokens, spec.max_chunk_items)
    if spec.max_chunk_tokens < spec.max_length:
        raise BudgetUnfit(
            f"max_chunk_tokens is {spec.max_chunk_tokens}, but one sequence of {spec.name} may have {spec.max_length} "
            f"tokens ({spec.max_length_source}): raise max_chunk_tokens"
        )
    largest = limits.max_message_bytes(spec.max_chunk_tokens, spec.max_chunk_items)
    if largest > max_payload:
        raise BudgetUnfit(
            f"max_chunk_tokens is {spec.max_chunk_tokens}, so a chunk may take {largest} bytes, but the server's "
            f"max_payload is {max_payload}: lower max_chunk_tokens, or raise max_payload"
        )
    if step < spec.max_chunk_tokens:
        raise BudgetUnfit(
            f"step_tokens is {step}, but one chunk of {spec.name} may have {spec.max_chunk_tokens} tokens "
            "(max_chunk_tokens of the fleet): raise step_tokens"
        )
    queues = len(spec.online_queues)
    queue = _PULLS * min_pull
    kept = (queues - 1) * queue
    half = (budget * limits.TOKEN_BYTES - kept) // 2
    if half < queue:
        raise BudgetUnfit(
            f"budget_tokens is {budget}, but each of {queues} online queues and the batch queue must have room for "
            f"{_PULLS} of the largest chunks ({queue} bytes): raise budget_tokens to "
            f"{_in_tokens((queues + 1) * queue)} or more"
        )
    if 0 < config.online_max_bytes < min_pull:
        raise BudgetUnfit(
            f"online_max_bytes is {config.online_max_bytes}, but one chunk of {spec.name} may take {min_pull} bytes: "
            "raise online_max_bytes, or leave it at 0"
        )
    return Budgets(
        step_tokens=step,
        online_bytes=kept + half,
        batch_bytes=half,
        min_pull_bytes=min_pull,
        queue_bytes=queue,
    )


def _most_tokens(config: WorkerConfig, items: int, max_payload: int) -> int:
    """The most tokens of a chunk that the server carries, and that a purse holds whose size a flag sets."""
    carried = _tokens_within(max_payload, items, limits.max_message_bytes)
    if config.budget_tokens is None:
        return carried
    num_pulls = _PULLS * (config.shards * config.queues + 1)
    pull = config.budget_tokens * limits.TOKEN_BYTES // num_pulls
    return min(carried, _tokens_within(pull, items, limits.min_pull_bytes))


def _tokens_within(room: int, items: int, size: Callable[[int, int], int]) -> int:
    """The most tokens of a chunk whose size, which is linear in them, leaves it in so many bytes."""
    empty = size(0, items)
    return (room - empty) // (size(1, items) - empty)


def default_step(measured: Choice | None, least: int) -> int:
    """The tokens of a step that no flag sets.

    Args:
        measured: what a calibration chose for this device; None where it has none.
        least: what a step must hold in any case.
    """
    return max(DEFAULT_STEP_TOKENS if measured is None else measured.step_tokens, least)


def _default_budget(step: int, spec: ModelSpec, measured: Choice | None) -> int:
    """As measured, or else eight steps; at least two of the largest chunks for each class; and what a purse keeps."""
    wanted = DEFAULT_STEPS_IN_HAND * step if measured is None else measured.budget_for(step)
    min_pull = limits.min_pull_bytes(spec.max_chunk_tokens, spec.max_chunk_items)
    kept = _PULLS * (len(spec.online_queues) - 1) * min_pull
    return max(wanted, _in_tokens(2 * _PULLS * min_pull)) + _in_tokens(kept)


def _in_tokens(size: int) -> int:
    """The tokens whose ids take so many bytes."""
    return -(-size // limits.TOKEN_BYTES)
