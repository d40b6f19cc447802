"""`headrace worker`: the command line of a worker, and how it stops.

Knows flags and exit codes: 0 after a drain, 1 when it cannot start or had to end, 2 for a wrong flag, 130 for a second
signal. Light to import, since every `headrace` command imports it: torch comes in with process.py, when it is run.
"""

import asyncio
import logging
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from headrace_contracts.credentials import Credentials

from headrace_workers import notify
from headrace_workers.config import EngineSettings, WorkerConfig
from headrace_workers.errors import WorkerError

logger = logging.getLogger("headrace.worker")

_INTERRUPTED = 130


def worker(  # noqa: PLR0913, PLR0917 - one argument a flag is how typer spells a command
    model: Annotated[str, typer.Argument(help="A directory, an installed package that carries a model, or a hub id.")],
    nats: Annotated[str, typer.Option(envvar="HEADRACE_NATS", help="URL of nats-server; several with commas.")] = (
        "nats://127.0.0.1:4222"
    ),
    access: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            envvar="HEADRACE_ACCESS",
            help="Who connects, and how it is encrypted: an access file, as headrace access new writes it.",
        ),
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name to serve the model under. (default: from MODEL)")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")] = "auto",
    dtype: Annotated[str, typer.Option(help="auto, float32, bfloat16, or float16 (CPUs).")] = "auto",
    threads: Annotated[int, typer.Option(min=0, help="Threads of a CPU; 0 leaves it to torch.")] = 0,
    attention: Annotated[
        str,
        typer.Option(
            help="auto, fa2, fa3, fa4, varlen, ragged or sdpa; headrace engine explain MODEL says which and why."
        ),
    ] = "auto",
    graphs: Annotated[bool, typer.Option(help="Capture CUDA graphs of the shapes that come often.")] = True,
    warm_up: Annotated[
        str | None, typer.Option(help="Capture these before the first chunk: sequences x tokens, as 1x128,8x512.")
    ] = None,
    calibration: Annotated[
        bool, typer.Option(help="Use what headrace calibrate has measured of this model on this device.")
    ] = True,
    step_tokens: Annotated[
        int | None, typer.Option(help="Tokens of one step. (default: as calibrated, or else 2048 or one sequence)")
    ] = None,
    budget_tokens: Annotated[
        int | None,
        typer.Option(help="Tokens pulled and not yet answered. (default: as calibrated, 16,384 or more; or 8 steps)"),
    ] = None,
    max_chunk_tokens: Annotated[
        int | None,
        typer.Option(
            help="Tokens of one chunk, for the first worker of a model. (default: half a step, or what the server or "
            "--budget-tokens has room for)"
        ),
    ] = None,
    batch_floor: Annotated[float, typer.Option(help="Share of tokens that batch gets under online load.")] = 0.1,
    shards: Annotated[int, typer.Option(help="Servers of a cluster that online work is spread over.")] = 1,
    placement: Annotated[
        str, typer.Option(help="Tag of the server of each shard, with commas: of server_tags in their configuration.")
    ] = "",
    queues: Annotated[int, typer.Option(help="Online queues of a shard, which tenants are spread over.")] = 4,
    replicas: Annotated[int, typer.Option(help="Copies of the NATS streams on disk.")] = 1,
    online_ack_wait: Annotated[
        float, typer.Option(help="Seconds until the broker gives an unanswered online chunk to another worker.")
    ] = 10,
    batch_ack_wait: Annotated[float, typer.Option(help="The same for batch.")] = 60,
    drain_timeout: Annotated[float, typer.Option(help="Seconds a drain may take before it gives work back.")] = 30,
    online_queue_s: Annotated[
        float, typer.Option(help="Seconds of the fleet's work that may be queued online; what comes beyond is refused.")
    ] = 2,
    online_max_bytes: Annotated[
        int, typer.Option(help="Fix what an online NATS stream may hold; 0 leaves it to --online-queue-s.")
    ] = 0,
    replace_spec: Annotated[
        bool, typer.Option("--replace-spec", help="Serve this model under the name although the fleet has another.")
    ] = False,
    monitor: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            envvar="HEADRACE_MONITOR",
            help="Tell metrics and health over HTTP there: /metrics, /health/live and so on; :PORT is all interfaces. "
            "(default: nowhere)",
        ),
    ] = None,
    max_step_s: Annotated[
        float, typer.Option(help="Seconds that one step may take on the device; after them /health/live says no.")
    ] = 120,
    ready_fd: Annotated[
        int | None, typer.Option(help="Write a newline to this file descriptor once ready (as s6 and dinit expect).")
    ] = None,
) -> None:
    """Serve a model: pull chunks from nats-server, run them, reply. SIGTERM or Ctrl-C drains; a second one ends it."""
    try:
        notify.check(ready_fd)
        settings = EngineSettings(
            device=device,
            dtype=dtype,
            threads=threads,
            attention=attention,
            graphs=graphs,
            warm_up=() if warm_up is None else EngineSettings.read_warm_up(warm_up),
        )
        config = WorkerConfig(
            nats_url=nats,
            access=None if access is None else Credentials.read(access),
            name=name,
            step_tokens=step_tokens,
            budget_tokens=budget_tokens,
            max_chunk_tokens=max_chunk_tokens,
            batch_floor=batch_floor,
            shards=shards,
            placement=WorkerConfig.read_placement(placement),
            queues=queues,
            replicas=replicas,
            online_ack_wait_s=online_ack_wait,
            batch_ack_wait_s=batch_ack_wait,
            drain_timeout_s=drain_timeout,
            online_queue_s=online_queue_s,
            online_max_bytes=online_max_bytes,
            monitor=WorkerConfig.read_monitor(monitor),
            max_step_s=max_step_s,
            replace_spec=replace_spec,
        )
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    try:
        # Deferred: torch takes seconds to import, and a client-only installation has none.
        from headrace_workers.process import EngineError, engine_config, run  # noqa: PLC0415
    except ImportError as error:
        _fail(f"a worker needs more than the client ({error}): pip install 'headrace[worker]'")
    try:
        engine = engine_config(settings)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    try:
        counters = run(model, engine=engine, config=config, calibrated=calibration, ready_fd=ready_fd)
    except (EngineError, WorkerError) as error:
        _fail(str(error))
    except asyncio.CancelledError:
        raise typer.Exit(_INTERRUPTED) from None
    logger.info(
        "drained: %d chunks answered, %d refused, %d expired, %d cancelled, %d given back",
        counters.answered,
        counters.refused,
        counters.expired,
        counters.cancelled,
        counters.given_back,
    )


def _fail(text: str) -> NoReturn:
    logger.critical("%s", text)
    raise typer.Exit(1)
