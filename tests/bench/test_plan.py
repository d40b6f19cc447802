"""The four suites ask what the article asked, and count its operations."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from ceiling import dense_flop
from headrace_engine import Engine
from headrace_engine.models.bert import BertConfig
from suites.plan import PROCESSES, SUITES, Job, Plan, inputs, plans
from suites.scale import FULL, QUICK, Scale
from workloads import Texts

LAYERS, WIDTH = 6, 384


@pytest.fixture(scope="module")
def texts(minilm: Engine) -> Texts:
    return Texts(Path(minilm.checkpoint.path) / "tokenizer.json")


@pytest.fixture(scope="module")
def shape(minilm: Engine) -> BertConfig:
    assert isinstance(minilm.checkpoint.encoder, BertConfig)
    return minilm.checkpoint.encoder


def planned(texts: Texts, shape: BertConfig, scale: Scale, max_length: int = 512) -> Mapping[str, Plan]:
    return {plan.name: plan for plan in plans(texts, shape, max_length, scale)}


def names(plan: Plan) -> list[str]:
    return [job.name for job in plan.jobs]


def test_a_full_run_has_all_cases_of_the_four_suites(texts: Texts, shape: BertConfig) -> None:
    full = planned(texts, shape, FULL)
    assert tuple(full) == SUITES
    assert names(full["low-latency-embedding"]) == ["query", "128 tokens", "512 tokens"]
    assert names(full["low-latency-scoring"]) == ["5 documents", "25 documents", "50 documents"]
    assert names(full["high-throughput-embedding"]) == ["4 × 100 passages"]
    assert names(full["high-concurrency"]) == ["1 client", "2 clients", "4 clients", "8 clients", "16 clients"]


def test_a_quick_run_has_some_of_each(texts: Texts, shape: BertConfig) -> None:
    full, quick = planned(texts, shape, FULL), planned(texts, shape, QUICK)
    for name in ("low-latency-embedding", "low-latency-scoring", "high-concurrency"):
        assert set(names(quick[name])) <= set(names(full[name]))
    assert all(plan.jobs for plan in quick.values())


def test_a_model_that_takes_more_is_asked_for_its_longest_text(texts: Texts, shape: BertConfig) -> None:
    assert names(planned(texts, shape, QUICK, 1024)["low-latency-embedding"])[-1] == "1024 tokens"
    assert names(planned(texts, shape, QUICK, 256)["low-latency-embedding"]) == ["query", "128 tokens", "256 tokens"]


@pytest.mark.parametrize("name", [name for name in SUITES if name != "low-latency-scoring"])
def test_texts_have_the_tokens_that_their_job_claims(texts: Texts, shape: BertConfig, name: str) -> None:
    for job in planned(texts, shape, QUICK)[name].jobs:
        calls = inputs(job.command)
        tokens = [sum(map(texts.num_tokens, call)) for call in calls]
        assert job.tokens == pytest.approx(sum(tokens) / len(tokens))
        assert {len(call) for call in calls} == {job.texts}


def test_a_case_of_one_text_has_several_of_the_same_length_so_that_nobody_gains_by_remembering(
    texts: Texts, shape: BertConfig
) -> None:
    for job in planned(texts, shape, QUICK)["low-latency-embedding"].jobs:
        assert len({call[0] for call in inputs(job.command)}) == len(inputs(job.command)) > 1


def test_four_processes_share_the_passages(texts: Texts, shape: BertConfig) -> None:
    (job,) = planned(texts, shape, QUICK)["high-throughput-embedding"].jobs
    assert [len(batch) for batch in job.command["batches"]] == [QUICK.batch] * PROCESSES


def test_operations_are_those_of_linear_layers_and_attention(texts: Texts, shape: BertConfig) -> None:
    job: Job = planned(texts, shape, QUICK)["low-latency-embedding"].jobs[2]
    linear = 2 * LAYERS * (4 * WIDTH**2 + 2 * WIDTH * 4 * WIDTH) * 512
    attention = 4 * LAYERS * WIDTH * 512**2
    assert job.flop == linear + attention
    assert linear == dense_flop(shape) * 512
