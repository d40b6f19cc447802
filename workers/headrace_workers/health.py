"""Whether a worker has started, is alive, and can serve; and if not, why not.

Pure: a judgement of vital signs at a given time. Does not know who takes them (pulse.py) nor who asks (monitor.py).

    startup     the model is loaded and the worker has its place in the fleet
    live        the event loop turns, and the device has had nothing for too long: if not, only a restart helps
    ready       a forward pass succeeded and nats-server answered, both lately, it lets work be pulled, and the worker
                does not drain
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from headrace_contracts import WorkerState

Phase: TypeAlias = Literal["starting"] | WorkerState

# So many steps in a row fail only on a sick device: of a step that a chunk fails, one half runs.
_TOO_MANY_FAILED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How old each sign may be, and how often it is taken where nothing else gives it; all in seconds.

    Attributes:
        turn_s: since the event loop turned last.
        step_s: that the device may have one and the same step.
        forward_s: since a forward pass succeeded last; twice as long as a step takes, where that is more.
        broker_s: since nats-server answered last.
        look_every_s: how often the loop turns at least, and what is in hand is read.
        ask_every_s: how often nats-server is asked.
        probe_every_s: after how long without a step an idle device is probed.
    """

    turn_s: float = 30.0
    step_s: float = 120.0
    forward_s: float = 30.0
    broker_s: float = 10.0
    look_every_s: float = 1.0
    ask_every_s: float = 2.0
    probe_every_s: float = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Vitals:
    """What is known of a worker at one moment; all times by the monotonic clock, in seconds.

    Attributes:
        phase: of its life.
        turned_s: when its event loop turned last.
        is_connected: whether the connection to nats-server stands.
        heard_s: when nats-server answered last; None before.
        trouble: why no online work can be pulled; empty while some can.
        ran_s: when a forward pass succeeded last; None before.
        took_s: how long the last step took.
        num_failed: forward passes that failed since.
        failure: what the last of them raised.
        busy_since_s: since when the device has had what it has had longest; None while it has nothing.
    """

    phase: Phase
    turned_s: float
    is_connected: bool = False
    heard_s: float | None = None
    trouble: str = ""
    ran_s: float | None = None
    took_s: float = 0.0
    num_failed: int = 0
    failure: str = ""
    busy_since_s: float | None = None


def not_started(vitals: Vitals) -> str | None:
    """Why it has not started; None once it has."""
    return "the model is being loaded, or the worker waits for its place in the fleet" if _is_starting(vitals) else None


def not_live(vitals: Vitals, limits: Limits, now_s: float) -> str | None:
    """Why it must be restarted; None while it need not be."""
    if (stood_s := now_s - vitals.turned_s) > limits.turn_s:
        return f"the event loop has stood still for {stood_s:.0f} s"
    if vitals.busy_since_s is not None and (busy_s := now_s - vitals.busy_since_s) > limits.step_s:
        return f"the device has had one step for {busy_s:.0f} s, more than {limits.step_s:g} s"
    return None


def not_ready(vitals: Vitals, limits: Limits, now_s: float) -> str | None:
    """Why it cannot serve now; None while it can."""
    if _is_starting(vitals):
        return not_started(vitals)
    if vitals.phase != "serving":
        return "it drains" if vitals.phase == "draining" else "it is drained"
    return not_live(vitals, limits, now_s) or _unheard(vitals, limits, now_s) or _not_run(vitals, limits, now_s)


def _is_starting(vitals: Vitals) -> bool:
    return vitals.phase == "starting"


def _unheard(vitals: Vitals, limits: Limits, now_s: float) -> str | None:
    if not vitals.is_connected:
        return "there is no connection to nats-server"
    if vitals.heard_s is None:
        return "nats-server has not answered yet"
    if (silent_s := now_s - vitals.heard_s) > limits.broker_s:
        return f"nats-server has not answered for {silent_s:.0f} s"
    return f"no online work can be pulled: {vitals.trouble}" if vitals.trouble else None


def _not_run(vitals: Vitals, limits: Limits, now_s: float) -> str | None:
    if vitals.num_failed >= _TOO_MANY_FAILED:
        return f"the last {vitals.num_failed} forward passes failed: {vitals.failure}"
    if vitals.ran_s is None:
        return f"no forward pass has succeeded yet{f': {vitals.failure}' if vitals.failure else ''}"
    # A worker whose steps take long is no sicker for it: until step_s it is their owner's choice.
    if (idle_s := now_s - vitals.ran_s) > max(limits.forward_s, 2 * vitals.took_s):
        return f"no forward pass has succeeded for {idle_s:.0f} s"
    return None
