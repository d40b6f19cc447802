"""What the command line of a worker refuses before it loads or connects to anything."""

import pytest
from headrace.cli import build
from typer.testing import CliRunner


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--dtype", "half"), "dtype='half' is unknown"),
        (("--device", "tpu"), "device='tpu' is unknown"),
        (("--attention", "flash"), "attention='flash' is unknown"),
        (("--warm-up", "1x"), "warm_up is '1x'"),
        (("--warm-up", "0x5"), "warm_up is '0x5'"),
        (("--batch-floor", "2"), "batch_floor is 2.0"),
        (("--online-queue-s", "0"), "online_queue_s is 0.0"),
        (("--online-max-bytes", "-1"), "online_max_bytes is -1"),
        (("--monitor", "9464"), "monitor is '9464': write HOST:PORT"),
        (("--max-step-s", "0"), "max_step_s is 0.0"),
        (("--ready-fd", "987"), "ready_fd is 987, which is not open"),
    ],
)
def test_a_flag_that_makes_no_sense_is_wrong_usage_and_named(flags: tuple[str, ...], message: str) -> None:
    ended = CliRunner().invoke(build(), ["worker", "nowhere", *flags], env={"COLUMNS": "200", "NO_COLOR": "1"})
    assert ended.exit_code == 2
    assert message in ended.output


def test_a_monitor_that_cannot_listen_ends_a_worker_before_it_looks_for_its_model() -> None:
    ended = CliRunner().invoke(build(), ["worker", "nowhere", "--monitor", "192.0.2.1:9464"])
    assert ended.exit_code == 1
    assert "monitor 192.0.2.1:9464 cannot be listened on" in ended.output
    assert "nowhere" not in ended.output
