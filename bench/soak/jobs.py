"""Re-indexing without end: one job after the other, each audited and then forgotten.

It knows a job's life as its operator leads it. It does not know who else asks the fleet.
"""

import asyncio
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from shutil import rmtree

from bulk import checker
from bulk.corpus import Corpus
from bulk.reindex import Reindex, command
from bulk.verify import verify
from online.web_process import HEADRACE

_BAD = 0.002


@dataclass(slots=True)
class Jobs:
    """What became of them.

    Attributes:
        done: Jobs that ended with all of their rows in the sink, each once.
        rows: Of these.
        faults: What was wrong with others, in words.
    """

    done: int = 0
    rows: int = 0
    faults: list[str] = field(default_factory=list)


async def run(url: str, *, model: str, vocabulary: Path, documents: int, work: Path, until_s: float) -> Jobs:
    """Run them, and end the one that runs at the given moment.

    Args:
        url: Of nats-server.
        model: Its served name.
        vocabulary: Its tokenizer.json.
        documents: Of each job.
        work: Folder for them.
        until_s: By time.perf_counter; no job begins after it.

    Raises:
        NotDone: `headrace reindex` gave up.
    """
    jobs, number = Jobs(), 0
    while time.perf_counter() < until_s:
        name, folder = f"soak-{number}", work / f"job-{number}"
        await asyncio.to_thread(
            Corpus(documents=documents, seed=number, bad=_BAD).write, folder / "documents", vocabulary
        )
        await Reindex(*command(folder / "documents", folder / "sink", url=url, model=model, job=name)).run()
        checked = await asyncio.to_thread(checker.check, folder / "documents", folder / "sink", name, None)
        wrong = [] if checked.is_whole else [*checked.examples, f"{checked.rows} rows of {checked.expected}"]
        if await verify(name, url):
            wrong.append("headrace job verify says that it is not whole")
        jobs.faults += [f"{name}: {fault}" for fault in wrong]
        jobs.done += not wrong
        jobs.rows += checked.rows
        await _forget(name, url)
        rmtree(folder)
        number += 1
    return jobs


async def _forget(job: str, url: str) -> None:
    process = await asyncio.create_subprocess_exec(*HEADRACE, "job", "rm", job, "--nats", url, stdout=sys.stderr)
    await process.wait()
