"""What `headrace top` shows, as lines of text.

Pure. Knows how facts read and where they stand in a line. Does not know terminals, nor where facts come from (top.py).
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from headrace_contracts.control import ClassStatus, Status
from rich.text import Text

from headrace.commands.numbers import duration, short, size
from headrace.commands.tables import printable
from headrace.survey import Job, Queue, Survey

_HEADING = "bold cyan"
_TROUBLE = "bold red"
_STATE_STYLES = {"serving": "green", "draining": "yellow", "drained": "dim", "failed": "red", "running": "green"}
# Of finished jobs only the latest are worth a line.
_MOST_FINISHED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A fleet at a moment.

    Attributes:
        survey: of what is in the broker.
        statuses: of all workers, in order of model and name; None where they could not be asked.
        trouble: why not.
    """

    survey: Survey
    statuses: Sequence[Status] | None
    trouble: str = ""


def lines(picture: Picture, width: int) -> list[Text]:
    """The picture, each line no wider than `width`."""
    parts = (_broker(picture), _workers(picture), _queues(picture), _jobs(picture), _missing(picture))
    found = [line for part in parts for line in part]
    for line in found:
        line.truncate(width, overflow="ellipsis")
    return found


def _broker(picture: Picture) -> Iterator[Text]:
    survey = picture.survey
    clock = time.strftime("%H:%M:%S", time.localtime(survey.taken_s))
    if (broker := survey.broker) is None:
        yield Text.assemble((f"headrace top  {clock}  ", "bold"), ("no nats-server answers", _TROUBLE))
    else:
        # A server that was given no name has a key for one: it comes last, where a line is cut.
        name = broker.server if broker.cluster is None else f"{broker.server} of {broker.cluster}"
        where = f"nats-server {broker.version}, {broker.rtt_s * 1000:.1f} ms away: {name}"
        yield Text.assemble((f"headrace top  {clock}  ", "bold"), printable(where))
    if (account := survey.account) is not None:
        memory = _of(account.memory_bytes, account.max_memory_bytes)
        disk = _of(account.storage_bytes, account.max_storage_bytes)
        yield Text(f"memory {memory} · disk {disk} · {account.num_streams} NATS streams")
    dead = survey.dead_letters
    if dead:
        letters = ", ".join(f"{each.num_letters:,} of {each.model} ({each.priority})" for each in dead)
        yield Text.assemble("dead letters ", (printable(letters), "red"))
    elif dead is not None:
        yield Text("no dead letters")
    if survey.silent_streams:
        yield Text(printable(f"silent NATS streams: {', '.join(survey.silent_streams)}"), _TROUBLE)


def _workers(picture: Picture) -> Iterator[Text]:
    yield Text()
    yield Text(
        _columns(("WORKER", "STATE", "TOKENS/S", "IN HAND", "TOKENS", "ONLINE", "BATCH", "UP"), _WORKER), _HEADING
    )
    if picture.statuses is None:
        yield Text(f"  not known: {printable(picture.trouble)}", _TROUBLE)
        return
    model = None
    for status in picture.statuses:
        if status.model != model:
            model = status.model
            yield Text(model, "bold")
        yield from _worker(status)
    if not picture.statuses:
        yield Text("  there is no worker", "yellow")


def _worker(status: Status) -> Iterator[Text]:
    cells = (
        f"  {status.worker}",
        status.state,
        short(status.rate) if status.rate else "–",
        f"{status.held_chunks:,}",
        short(status.held_tokens),
        _use(status.online),
        _use(status.batch),
        duration(status.uptime_s),
    )
    yield _styled(_columns(cells, _WORKER), status.state)
    if status.waits_for:
        yield Text(printable(f"    waits for {status.waits_for}"), "yellow")


def _queues(picture: Picture) -> Iterator[Text]:
    survey = picture.survey
    yield Text()
    yield Text(_columns(("QUEUE", "CLASS", "CHUNKS", "TOKENS", "BACKLOG", "OLDEST", "FULL"), _QUEUE), _HEADING)
    if survey.queues is None:
        yield Text("  not known", _TROUBLE)
        return
    for queue in survey.queues:
        backlog_s = _backlog_s(queue, picture)
        cells = (
            queue.model,
            queue.priority,
            short(queue.num_messages),
            short(queue.num_tokens),
            "–" if backlog_s is None else duration(backlog_s),
            duration(queue.oldest_s) if queue.num_messages else "–",
            "–" if not queue.max_bytes else f"{queue.num_bytes / queue.max_bytes:.0%}",
        )
        yield Text(_columns(cells, _QUEUE), "" if queue.num_messages else "dim")
    if not survey.queues:
        yield Text("  there is none", "dim")


def _backlog_s(queue: Queue, picture: Picture) -> float | None:
    """By what workers say right now; by what was heard of them before, where nobody is there."""
    rates = [each.rate for each in picture.statuses or () if each.model == queue.model and each.state == "serving"]
    known = [rate for rate in rates if rate]
    if queue.num_tokens and known:
        return queue.num_tokens / (sum(known) / len(known) * len(rates))
    return picture.survey.backlog_s(queue)


def _jobs(picture: Picture) -> Iterator[Text]:
    if not (jobs := picture.survey.jobs):
        return
    yield Text()
    yield Text(_columns(("JOB", "STATE", "ROWS", "DONE", "ROWS/S", "LEFT", "PROC"), _JOB), _HEADING)
    ended = [job for job in jobs if job.state not in {"running", "paused"}]
    shown = [job for job in jobs if job not in ended] + ended[:_MOST_FINISHED]
    for job in shown:
        yield _styled(_columns(_job(job), _JOB), job.state)
    if len(shown) < len(jobs):
        yield Text(f"  and {len(jobs) - len(shown)} that ended before", "dim")


def _job(job: Job) -> tuple[str, ...]:
    done = None if job.tally is None or not job.num_rows else job.tally.rows / job.num_rows
    return (
        job.name,
        "waiting" if job.is_waiting else job.state,
        "–" if job.tally is None else short(job.tally.rows),
        "–" if done is None else f"{done:.0%}",
        "–" if job.rows_per_s is None else short(job.rows_per_s),
        "–" if job.eta_s is None else duration(job.eta_s),
        str(job.processes),
    )


def _missing(picture: Picture) -> Iterator[Text]:
    """What could not be seen; all of it has one reason where the connection is gone."""
    reasons: dict[str, list[str]] = {}
    for part, reason in picture.survey.missing.items():
        if part == "fleet" and picture.statuses is not None:
            continue  # they were asked; who was heard besides is known in a moment
        reasons.setdefault(reason, []).append(part)
    if reasons:
        yield Text()
    for reason, parts in reasons.items():
        yield Text(printable(f"not seen: {', '.join(parts).replace('_', ' ')} ({reason})"), _TROUBLE)


# Widths of columns; those below zero are left-aligned. Each table fits 80 columns.
_WORKER = (-25, -9, 8, 7, 7, 6, 5, 6)
_QUEUE = (-31, -7, 7, 7, 8, 7, 6)
_JOB = (-31, -10, 7, 5, 7, 7, 5)


def _columns(cells: Iterable[str], widths: Sequence[int]) -> str:
    return " ".join(_cell(printable(cell), width) for cell, width in zip(cells, widths, strict=True)).rstrip()


def _cell(text: str, width: int) -> str:
    if len(text) > abs(width):
        text = text[: abs(width) - 1] + "…"
    return text.ljust(-width) if width < 0 else text.rjust(width)


def _styled(line: str, state: str) -> Text:
    text = Text(line)
    text.highlight_words([f" {state} "], _STATE_STYLES.get(state, ""))
    return text


def _use(of: ClassStatus) -> str:
    return f"{of.held_bytes / of.budget_bytes:.0%}" if of.budget_bytes else "–"


def _of(num_bytes: int, limit: int | None) -> str:
    return size(num_bytes) + ("" if limit is None else f" of {size(limit)}")
