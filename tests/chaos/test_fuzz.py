"""Hostile input: what was kept of it, and as many new inputs as a test has time for; `bench/fuzz_run.py` has more."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from random import Random

import fuzz_run
import numpy as np
import pytest
from fuzz import campaign, corpus, directory, guided, kinds, trees
from fuzz.echo import EchoClient
from fuzz.minimise import lines, minimise
from fuzz.packing import packed, unpacked
from fuzz.plain import Run, fuzz, watched
from fuzz.target import GROUPS, Target, Verdict, Wrong
from fuzz.targets import chosen, targets
from headrace.pairs import PairTokenizer
from headrace.published import Model
from headrace.tokens import TextTokenizer
from headrace_contracts import Chunk, ErrorCode, encode_chunk

TARGETS = targets()
# Inputs of each target: all of them together take less than a minute of two busy cores.
NEW = {"decode": 2000, "text": 100, "checkpoint": 40, "gateway": 300}
needs_atheris = pytest.mark.skipif(
    not guided.is_here(), reason="atheris has no wheel for this system or Python: inputs are drawn from a seed alone"
)


def told(run: Run) -> str:
    return "\n".join(failure.text for failure in run.failures)


@pytest.mark.parametrize("name", TARGETS)
def test_hostile_input_is_taken_or_refused_as_documented(name: str, tmp_path: Path) -> None:
    target = TARGETS[name]
    try:
        run = fuzz(target, 20261130, NEW[target.group], tmp_path)
    finally:
        target.close()
    assert not run.failures, told(run)
    assert run.inputs == NEW[target.group]
    assert run.taken, "inputs that are refused, all of them, try little"
    assert run.refused


def test_every_target_has_a_corpus_or_seeds_and_each_kept_file_is_small() -> None:
    assert {target.group for target in TARGETS.values()} == set(GROUPS)
    folders = {path.name for root in (corpus.CORPUS, corpus.FOUND) if root.is_dir() for path in root.iterdir()}
    assert folders <= TARGETS.keys()
    files = [path for root in (corpus.CORPUS, corpus.FOUND) for path in root.rglob("*") if path.is_file()]
    assert len(files) < 800
    assert sum(path.stat().st_size for path in files) < 1_000_000


def planted(seen: list[bytes], fault: bytes | None = None) -> Target:
    """A target that notes what it reads, and breaks a law of one input."""

    def run(data: bytes) -> Verdict:
        seen.append(data)
        if data == fault:
            raise ValueError("planted")
        if b"much" in data:
            bytearray(50_000_000)
        return Verdict.TAKEN if len(data) % 2 else Verdict.REFUSED

    return Target(name="planted", group="decode", seeds=lambda: [b"seed", b"other"], run=run, mutate=trees.other_bytes)


def test_the_same_seed_tries_the_same_inputs(tmp_path: Path) -> None:
    runs: list[list[bytes]] = [[], [], []]
    for seen, seed in zip(runs, (1, 1, 2), strict=True):
        fuzz(planted(seen), seed, 500, tmp_path)
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


def test_an_input_that_breaks_a_law_is_kept_and_told_once(tmp_path: Path) -> None:
    seen: list[bytes] = []
    fuzz(planted(seen), 1, 300, tmp_path)
    fault = seen[100]
    run = fuzz(planted([], fault), 1, 300, tmp_path)
    (failure,) = run.failures
    assert failure.kind == "ValueError"
    assert "planted" in failure.text
    assert Path(failure.file).read_bytes() == fault
    assert corpus.kept(tmp_path, "planted") == [fault]


def test_reading_that_takes_far_more_memory_than_its_input_is_a_failure(tmp_path: Path) -> None:
    target = planted([])
    greedy = Target(name="planted", group="decode", seeds=lambda: [b"much"], run=target.run, mutate=target.mutate)
    (failure,) = fuzz(greedy, 1, 1, tmp_path).failures
    assert failure.kind == Wrong.__name__
    assert "bytes of memory" in failure.text


@pytest.mark.parametrize("num_sequences", [1, 200_000])
def test_reading_a_large_chunk_takes_memory_in_proportion_to_it(num_sequences: int) -> None:
    chunk = Chunk(
        id="c",
        task="embed",
        model="m",
        fingerprint="0123abcd",
        lengths=np.full(num_sequences, 200_000 // num_sequences, np.uint32),
        token_ids=np.arange(200_000, dtype=np.uint32),
    )
    run = Run(target="chunk")
    assert watched(TARGETS["chunk"], encode_chunk(chunk), run) is Verdict.TAKEN
    assert run.heap_bytes_each is not None


async def test_a_text_of_which_nothing_is_left_has_an_error_of_its_own_and_the_others_have_vectors() -> None:
    """A tokenizer without special tokens makes nothing of it, and a worker takes no sequence without tokens."""
    spec = kinds.spec("bare", max_length=16, max_chunk_tokens=64, max_chunk_items=8, prompt="")
    rust = kinds.tokenizer("bare")
    model = Model(spec, TextTokenizer(rust, spec.max_length), PairTokenizer(rust, spec))
    client = EchoClient(model, 1000)
    await client.open()
    found = await client.embed(["one", "", "two"])
    client.check()
    assert list(found.errors) == [1]
    assert found.errors[1].code == ErrorCode.INVALID
    assert "0 tokens" in found.errors[1].text
    assert len(await client.embed([""])) == 1
    client.check()


def test_messagepack_in_odd_widths_says_the_same() -> None:
    tree = {"a": [1, 200, 70_000, 2**40, -5, -(2**33)], "b": b"x" * 300, "c": "text", "d": None, "e": True, "f": 0.5}
    written = {packed(tree, Random(seed)) for seed in range(400)}  # noqa: S311 - for inputs
    assert len(written) > 20
    same = 0
    for data in written:
        try:
            same += unpacked(data) == tree
        except ValueError:
            continue  # a length that lies, on purpose
    assert same > len(written) / 2


def test_a_directory_is_written_below_its_root_and_nowhere_else(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    size = directory.write(
        root,
        {
            "../out": {"text": "x"},
            str(tmp_path / "absolute"): {"text": "x"},
            "a/b.json": {"json": [1]},
            "link": {"link": "/nowhere"},
            "pipe": {"fifo": True},
            "\0": {"text": "x"},
            "x" * 5000: {"text": "x"},
            "w.safetensors": directory.tensors({"t": (2, 3)}),
        },
    )
    assert {path.name for path in tmp_path.iterdir()} == {"root"}
    assert {path.name for path in root.iterdir()} == {"a", "link", "pipe", "w.safetensors"}
    assert size == (root / "a" / "b.json").stat().st_size + (root / "w.safetensors").stat().st_size


def test_a_corpus_is_minimised_to_what_reaches_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus, "CORPUS", tmp_path / "corpus")
    target = TARGETS["request"]
    for data in (b'{"v": 1, "wait_ms": 7}', b'{"v": 2}', b'{"v": 1,   "wait_ms": 77}'):
        corpus.keep(tmp_path, "work", data)
    assert minimise(target, tmp_path / "work") <= 3
    assert lines(target, b'{"v": 1}') - lines(target, b"[")


def test_groups_and_names_choose_targets_and_others_are_refused() -> None:
    assert [target.name for target in chosen(["chunk", "text"])] == ["chunk", "text", "pair", "tokenizer"]
    with pytest.raises(ValueError, match="'chonk' is none of decode, text"):
        chosen(["chonk"])


@pytest.fixture
def _heard() -> Iterator[None]:
    """The command silences all logs of its process, which here is that of other tests, too."""
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.usefixtures("_heard")
def test_the_command_tells_what_it_did_and_keeps_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.json"
    flags = ["--targets", "cancel", "presence", "--inputs", "400", "--processes", "2", "--guided", "0"]
    with pytest.raises(SystemExit) as ended:
        fuzz_run.main([*flags, "--out", str(out), "--found", str(tmp_path / "found")])
    assert ended.value.code == 0, capsys.readouterr().out
    found = json.loads(out.read_text())
    assert (found["inputs"], found["inputs_guided_by_coverage"], found["failures"]) == (400, 0, 0)
    assert {run["target"] for run in found["runs"]} == {"cancel", "presence"}
    assert "400 inputs in" in capsys.readouterr().out


@needs_atheris
def test_coverage_leads_to_inputs_and_what_it_did_is_counted(tmp_path: Path) -> None:
    asked = campaign.shares([TARGETS["cancel"]], 3000, 1, tmp_path / "found", tmp_path / "work", guided=1, processes=1)
    (run,) = campaign.run(asked, 1, lambda _: None)
    assert not run.failures, told(run)
    assert run.guided
    assert run.inputs >= 3000
    assert run.edges
    assert run.taken
    assert run.refused
