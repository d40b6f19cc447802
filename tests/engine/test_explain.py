import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from headrace_engine import Checkpoint, CheckpointError, EngineConfig
from headrace_engine.attention import AttentionShape
from headrace_engine.attention.select import Case, DeviceFacts
from headrace_engine.explain import _attention, explain, text
from headrace_engine.resolve import resolve
from headrace_workers.engine_command import engine
from typer.testing import CliRunner, Result

from .checkpoints import change_tensors
from .conftest import MINILM
from .prompted import save_prompted

CPU = DeviceFacts(kind="cpu", name="a CPU")
HOPPER = DeviceFacts(kind="cuda", name="a GPU", capability=(9, 0))


@pytest.fixture(scope="module")
def checkpoint() -> Checkpoint:
    return Checkpoint.read(resolve(MINILM), MINILM)


def facts_of(
    checkpoint: Checkpoint,
    device: DeviceFacts,
    config: EngineConfig | None = None,
    dtype: torch.dtype = torch.bfloat16,
    missing: dict[str, str] | None = None,
) -> dict[str, tuple[str, str]]:
    found = explain(checkpoint, config or EngineConfig(), device, dtype, missing or {})
    assert len({fact.topic for fact in found}) == len(found)
    return {fact.topic: (fact.value, fact.reason) for fact in found}


def test_what_the_checkpoint_says_comes_with_the_file_that_says_it(checkpoint: Checkpoint) -> None:
    facts = facts_of(checkpoint, CPU)
    assert facts["family"] == ("bert", "6 layers of width 384")
    assert facts["task"] == ("embed", "384 dimensions, normalised, sent as f32 or f16")
    assert facts["pooling"] == ("mean", "1_Pooling/config.json pooling_mode_mean_tokens")
    assert facts["max length"] == ("256 tokens", "sentence_bert_config.json max_seq_length")
    assert facts["parameters"] == ("22,713,728", "90.9 MB stored, 45.4 MB as bfloat16")


def test_that_the_prompt_is_left_out_of_the_pooling_is_said(tmp_path: Path) -> None:
    save_prompted(tmp_path)
    facts = facts_of(Checkpoint.read(tmp_path, "prompted"), CPU)
    assert facts["pooling"] == ("mean, the prompt left out", "1_Pooling/config.json pooling_mode")


def test_on_a_cpu_the_choice_is_soon_told(checkpoint: Checkpoint) -> None:
    facts = facts_of(checkpoint, CPU)
    assert facts["device"] == ("a CPU", "")
    assert facts["dtype"] == ("bfloat16", "the fastest one here, as just measured")
    assert facts["attention"] == (
        "ragged",
        "ragged is Headrace's own kernel for CPUs",
    )
    assert facts["not sdpa"] == ("", "it could run the model, but ragged comes first")
    assert facts["graphs"] == ("none", "a CPU has none")
    assert facts["layers ask for"] == ("12 heads of 32; tokens see both sides", "")


def test_a_cpu_without_kernels_of_our_own_says_why(checkpoint: Checkpoint) -> None:
    facts = facts_of(checkpoint, CPU, missing={"ragged": "no compiler was found"})
    assert facts["CPU kernels"][0] == "torch's kernels: no compiler was found"
    assert facts["attention"][0] == "sdpa"
    assert facts["not ragged"] == ("", "no compiler was found")


def test_every_other_backend_is_named_with_its_reason(checkpoint: Checkpoint) -> None:
    facts = facts_of(checkpoint, HOPPER, missing={"fa4": "flash-attn-4 is not installed"})
    assert facts["attention"][0] == "varlen"
    assert facts["not fa4"] == ("", "flash-attn-4 is not installed")
    assert "heads of 64, 128 and 256, not 32" in facts["not fa3"][1]


@pytest.mark.parametrize(
    ("backend", "key"),
    [
        ("varlen", ("tokens, sequences, max_seqlen", "the launches of varlen have max_seqlen in them")),
        ("fa4", ("tokens, sequences, max_seqlen", "the launches of fa4 have max_seqlen in them")),
        ("fa3", ("tokens, sequences", "the launches of fa3 read all lengths at each replay")),
    ],
)
def test_graphs_are_described_for_the_backend(backend: str, key: tuple[str, str]) -> None:
    shape = AttentionShape(num_heads=4, num_kv_heads=4, head_dim=64)
    case = Case(device=HOPPER, shapes=(shape,), dtype=torch.bfloat16, max_length=512)
    found = _attention(case, EngineConfig(attention=backend), {})
    facts = {fact.topic: (fact.value, fact.reason) for fact in found}
    assert facts["graphs"][0] == "batches of up to 4096 tokens"
    assert facts["graph tokens"][0] == "multiples of 64 up to 1024, of 256 above"
    assert facts["graph key"] == key


def test_graphs_that_are_switched_off_are_none(checkpoint: Checkpoint) -> None:
    assert facts_of(checkpoint, HOPPER, EngineConfig(graphs=None))["graphs"] == ("none", "they are switched off")


def test_attention_that_cannot_run_the_model_is_explained_all_the_same(checkpoint: Checkpoint) -> None:
    facts = facts_of(checkpoint, HOPPER, EngineConfig(attention="fa2"))
    assert facts["attention"][0] == "none"
    assert "heads of 64, 128 and 256, not 32" in facts["attention"][1]
    assert "graphs" not in facts


def test_float32_on_a_gpu_runs_without_graphs(checkpoint: Checkpoint) -> None:
    facts = facts_of(checkpoint, HOPPER, EngineConfig(dtype="float32"), torch.float32)
    assert facts["dtype"] == ("float32", "it was asked for by name")
    assert facts["attention"][0] == "sdpa"
    assert facts["graphs"] == ("none", "the launches of sdpa follow the lengths of a batch")


def test_a_gpu_without_native_bfloat16_has_it_said(checkpoint: Checkpoint) -> None:
    turing = DeviceFacts(kind="cuda", name="a GPU", capability=(7, 5))
    known = "devices below compute capability 8.0 have no native bfloat16"
    assert known in facts_of(checkpoint, turing)["dtype"][1]
    assert known in facts_of(checkpoint, turing, EngineConfig(dtype="bfloat16"))["dtype"][1]
    assert known not in facts_of(checkpoint, turing, EngineConfig(dtype="float32"), torch.float32)["dtype"][1]
    assert known not in facts_of(checkpoint, replace(turing, capability=(8, 0)))["dtype"][1]


def test_nothing_is_loaded_and_yet_every_tensor_is_looked_for(small: Path) -> None:
    change_tensors(small, lambda tensors: tensors.pop("encoder.layer.1.output.dense.bias"))
    with pytest.raises(CheckpointError, match=r"encoder\.layer\.1\.output\.dense\.bias is missing"):
        facts_of(Checkpoint.read(small, "small"), CPU)


def test_shapes_are_told_in_words() -> None:
    shape = AttentionShape(num_heads=16, num_kv_heads=8, head_dim=128, causal=True)
    assert text(shape) == "16 heads of 128, of keys 8; tokens see those before them"
    shape = replace(shape, num_kv_heads=16, causal=False, window=64, has_position_bias=True)
    assert text(shape) == "16 heads of 128; tokens see both sides, 64 tokens far, with a bias by position"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(engine, ["explain", *arguments], env={"COLUMNS": "200", "NO_COLOR": "1"})


def test_the_command_prints_a_line_for_each_fact() -> None:
    ended = run(MINILM, "--device", "cpu", "--dtype", "float32")
    assert ended.exit_code == 0
    lines = dict(line.split("  ", 1) for line in ended.stdout.splitlines())
    assert lines["dtype"].strip() == "float32 (it was asked for by name)"
    assert lines["not fa2"].strip() == "it is for CUDA devices"


def test_a_device_that_is_not_here_can_be_explained_for() -> None:
    ended = run(MINILM, "--capability", "9.0")
    assert ended.exit_code == 0
    assert "a CUDA device, compute capability 9.0" in ended.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ((MINILM, "--capability", "9.0", "--attention", "fa2"), 1, "heads of 64, 128 and 256, not 32"),
        (("nowhere",), 1, "'nowhere' is neither a directory nor an installed package"),
        ((MINILM, "--attention", "flash"), 2, "attention='flash' is unknown"),
        ((MINILM, "--capability", "9.0", "--device", "cpu"), 2, "leave out --device cpu"),
        ((MINILM, "--capability", "hopper"), 2, "capability='hopper' is not of the form 9.0"),
    ],
)
def test_what_cannot_be_run_or_read_has_an_exit_code_and_a_reason(
    arguments: tuple[str, ...], code: int, message: str
) -> None:
    ended = run(*arguments)
    assert ended.exit_code == code
    assert message in ended.output


def test_the_command_is_light_until_it_is_run() -> None:
    code = "import sys, headrace_workers.engine_command; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
