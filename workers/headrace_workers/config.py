"""What an operator may choose for a worker.

Knows defaults and what goes with what. Does not know the model: what depends on it is settled in spec.py.
"""

import math
import os
import re
import socket
from dataclasses import dataclass, field

from headrace_contracts import subjects
from headrace_contracts.address import Address
from headrace_contracts.credentials import Credentials

_TAG = re.compile(r"[^\s,]+")


def _default_worker() -> str:
    host = "".join(c if c.isascii() and (c.isalnum() or c in "_-") else "-" for c in socket.gethostname())
    # The end of a long name, where pods of a Deployment differ: in containers the process id is the same.
    return f"{host[-40:] or 'worker'}-{os.getpid()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """What an operator may choose for the engine; `EngineConfig` says what each means, and checks it.

    It stands here because a command line must be read before torch is imported.

    Attributes:
        device: auto, cpu, cuda or cuda:N.
        dtype: auto, float32, bfloat16, or float16 on a CPU.
        threads: of a CPU; 0 leaves it to torch.
        attention: what computes it, or auto.
        graphs: whether CUDA graphs are captured.
        warm_up: batches to capture a graph for at the start, each as (sequences, tokens of each).
    """

    device: str = "auto"
    dtype: str = "auto"
    threads: int = 0
    attention: str = "auto"
    graphs: bool = True
    warm_up: tuple[tuple[int, int], ...] = ()

    @classmethod
    def read_warm_up(cls, text: str) -> tuple[tuple[int, int], ...]:
        """Read batches as a command line spells them: 1x128,8x512.

        Raises:
            ValueError: It is spelt otherwise.
        """
        found = [re.fullmatch(r"([1-9]\d*)x([1-9]\d*)", part.strip(), re.ASCII) for part in text.split(",")]
        if not all(found):
            raise ValueError(f"warm_up is {text!r}: write sequences x tokens of each, with commas between: 1x128,8x512")
        return tuple((int(match[1]), int(match[2])) for match in found if match)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerConfig:
    """Settings of one worker; validated here, never changed later.

    Attributes:
        nats_url: one URL, or several with commas between.
        access: who connects to it; None takes what stands in the URL, or nothing.
        name: served model name; None takes it from the checkpoint's last path part.
        worker: this worker's own name, in replies and on its control subject.
        step_tokens: tokens of one step at most, the most an online request may have to wait behind; None takes what a
            calibration chose, or else a guess.
        budget_tokens: tokens pulled and not yet answered at most, both classes together; None does the same.
        max_chunk_tokens: tokens of one chunk at most, when this worker is the first of its model; None is half a step.
        batch_floor: share of tokens that batch gets however busy online is.
        shards: servers of a cluster that online work is spread over, for one to stand in for another.
        placement: tag of the servers that each shard may lie on, as many as shards; without any the broker chooses, and
            may put all on one.
        queues: online queues of each shard, which tenants are spread over.
        replicas: copies of the streams on disk.
        online_ack_wait_s: seconds after which the broker gives an unanswered online chunk to another worker.
        batch_ack_wait_s: the same for batch.
        pull_expires_s: seconds a pull stands; also the longest that a drain waits for the broker.
        max_deliveries: a chunk that came this often without an answer is taken for poison.
        drain_timeout_s: seconds after which a drain gives back to the broker what has not run.
        online_queue_s: seconds of the fleet's work that may be queued online; what comes beyond is refused.
        online_max_bytes: fixes what an online NATS stream may hold; 0 leaves it to the fleet's rate.
        announce_s: how often this worker tells the others of its model that it is there.
        monitor: where metrics and health are told over HTTP; None nowhere.
        max_step_s: seconds that one step may take on the device before the worker counts as hung.
        replace_spec: publish this worker's ModelSpec even if the fleet serves another under the name.
    """

    nats_url: str = "nats://127.0.0.1:4222"
    access: Credentials | None = None
    name: str | None = None
    worker: str = field(default_factory=_default_worker)
    step_tokens: int | None = None
    budget_tokens: int | None = None
    max_chunk_tokens: int | None = None
    batch_floor: float = 0.1
    shards: int = 1
    placement: tuple[str, ...] = ()
    queues: int = 4
    replicas: int = 1
    online_ack_wait_s: float = 10
    batch_ack_wait_s: float = 60
    pull_expires_s: float = 1
    max_deliveries: int = 10
    drain_timeout_s: float = 30
    online_queue_s: float = 2
    online_max_bytes: int = 0
    announce_s: float = 2
    monitor: Address | None = None
    max_step_s: float = 120
    replace_spec: bool = False

    @classmethod
    def read_monitor(cls, text: str | None) -> Address | None:
        """Read an address as a command line spells it; of none, or an empty one, there is none.

        Raises:
            ValueError: it is spelt otherwise.
        """
        return Address.read(text, "monitor") if text else None

    @classmethod
    def read_placement(cls, text: str) -> tuple[str, ...]:
        """Read tags as a command line spells them: rack-1,rack-2,rack-3; of an empty text there are none."""
        return tuple(part.strip() for part in text.split(",")) if text.strip() else ()

    def __post_init__(self) -> None:
        if self.name is not None:
            subjects.model_name(self.name)
        subjects.token(self.worker, "worker")
        for name in ("step_tokens", "budget_tokens", "max_chunk_tokens"):
            self._at_least(name, 1)
        for name in ("shards", "queues", "replicas", "max_deliveries"):
            self._at_least(name, 1)
        for name in ("online_ack_wait_s", "batch_ack_wait_s", "pull_expires_s", "max_step_s"):
            self._at_least(name, 0.1)
        for name in ("drain_timeout_s", "online_max_bytes"):
            self._at_least(name, 0)
        self._at_least("announce_s", 0.01)
        if not 0 < self.online_queue_s < math.inf:
            raise ValueError(f"online_queue_s is {self.online_queue_s}: it is seconds of work, more than 0")
        if not 0 <= self.batch_floor < 1:
            raise ValueError(f"batch_floor is {self.batch_floor}: it is a share of tokens, 0 or more and below 1")
        self._check_placement()

    def _check_placement(self) -> None:
        if bad := [tag for tag in self.placement if not _TAG.fullmatch(tag)]:
            raise ValueError(f"placement has {bad[0]!r}: a tag is one of a nats-server's server_tags, without blanks")
        if self.placement and len(self.placement) != self.shards:
            raise ValueError(
                f"placement has {len(self.placement)} tags for {self.shards} shards: give one for each, or none"
            )

    def _at_least(self, name: str, least: float) -> None:
        value = getattr(self, name)
        if value is not None and not (value >= least and math.isfinite(value)):
            raise ValueError(f"{name} is {value}: it must be at least {least}")
