"""What a worker's signs say of its health."""

from dataclasses import replace
from typing import Any

import pytest
from headrace_workers.health import Limits, Vitals, not_live, not_ready, not_started

LIMITS = Limits(turn_s=30, step_s=120, forward_s=30, broker_s=10)
NOW = 1000.0
WELL = Vitals(phase="serving", turned_s=NOW, is_connected=True, heard_s=NOW, ran_s=NOW)
STARTING = Vitals(phase="starting", turned_s=NOW)


def well_but(**signs: Any) -> Vitals:
    return replace(WELL, **signs)


def test_a_worker_with_good_signs_has_started_lives_and_is_ready() -> None:
    assert (not_started(WELL), not_live(WELL, LIMITS, NOW), not_ready(WELL, LIMITS, NOW)) == (None, None, None)


def test_while_the_model_is_loaded_a_worker_lives_but_is_not_started_and_not_ready() -> None:
    assert not_live(STARTING, LIMITS, NOW) is None
    assert "the model is being loaded" in (not_started(STARTING) or "")
    assert not_ready(STARTING, LIMITS, NOW) == not_started(STARTING)


@pytest.mark.parametrize(
    ("signs", "reason"),
    [
        ({"turned_s": NOW - 31}, "the event loop has stood still for 31 s"),
        ({"busy_since_s": NOW - 121}, "the device has had one step for 121 s, more than 120 s"),
    ],
)
def test_what_only_a_restart_mends_makes_it_neither_live_nor_ready(signs: dict[str, Any], reason: str) -> None:
    assert not_live(well_but(**signs), LIMITS, NOW) == reason
    assert not_ready(well_but(**signs), LIMITS, NOW) == reason


@pytest.mark.parametrize(
    ("signs", "reason"),
    [
        ({"phase": "draining"}, "it drains"),
        ({"phase": "drained"}, "it is drained"),
        ({"is_connected": False}, "there is no connection to nats-server"),
        ({"heard_s": None}, "nats-server has not answered yet"),
        ({"heard_s": NOW - 11}, "nats-server has not answered for 11 s"),
        ({"trouble": "404 No Consumer"}, "no online work can be pulled: 404 No Consumer"),
        ({"ran_s": None}, "no forward pass has succeeded yet"),
        ({"ran_s": None, "failure": "RuntimeError('x')"}, "no forward pass has succeeded yet: RuntimeError('x')"),
        ({"ran_s": NOW - 31}, "no forward pass has succeeded for 31 s"),
        ({"ran_s": NOW - 81, "took_s": 40.0}, "no forward pass has succeeded for 81 s"),
        (
            {"num_failed": 3, "failure": "RuntimeError('x')"},
            "the last 3 forward passes failed: RuntimeError('x')",
        ),
    ],
)
def test_what_may_pass_makes_it_unready_but_not_dead(signs: dict[str, Any], reason: str) -> None:
    assert not_ready(well_but(**signs), LIMITS, NOW) == reason
    assert not_live(well_but(**signs), LIMITS, NOW) is None


@pytest.mark.parametrize(
    "signs",
    [
        {"turned_s": NOW - 30},
        {"busy_since_s": NOW - 120},
        {"heard_s": NOW - 10},
        {"ran_s": NOW - 30},
        {"ran_s": NOW - 80, "took_s": 40.0},
        {"num_failed": 2, "failure": "a chunk that fails its step fails that of one half, too"},
    ],
)
def test_each_limit_may_be_reached(signs: dict[str, Any]) -> None:
    assert not_ready(well_but(**signs), LIMITS, NOW) is None


def test_a_device_that_hangs_while_the_worker_drains_still_needs_its_restart() -> None:
    assert not_live(well_but(phase="draining", busy_since_s=NOW - 121), LIMITS, NOW) is not None
