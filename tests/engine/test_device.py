"""How much of a device is used, by calls that torch has."""

import inspect
from collections.abc import Callable
from typing import Any

import pytest
import torch
from headrace_engine.device import DeviceUse, use

CUDA = torch.device("cuda:0")


def say(monkeypatch: pytest.MonkeyPatch, name: str, answer: Callable[[], Any]) -> None:
    """Answer in the place of torch.cuda, which has no device here, to whoever calls as its signature says."""
    signature = inspect.signature(getattr(torch.cuda, name))

    def called(*arguments: Any, **named: Any) -> Any:
        assert signature.bind(*arguments, **named).arguments["device"] == CUDA
        return answer()

    monkeypatch.setattr(torch.cuda, name, called)


def fail() -> None:
    raise ModuleNotFoundError("nvidia-ml-py does not seem to be installed or it can't be imported.")


def test_a_cpu_says_nothing_of_its_use() -> None:
    assert use(torch.device("cpu")) is None


def test_the_memory_of_a_device_is_what_is_not_free(monkeypatch: pytest.MonkeyPatch) -> None:
    say(monkeypatch, "mem_get_info", lambda: (3, 10))
    say(monkeypatch, "utilization", lambda: 25)
    assert use(CUDA) == DeviceUse(used_bytes=7, total_bytes=10, utilisation=0.25)


def test_a_device_whose_load_nobody_can_ask_for_tells_its_memory_still(monkeypatch: pytest.MonkeyPatch) -> None:
    say(monkeypatch, "mem_get_info", lambda: (3, 10))
    say(monkeypatch, "utilization", fail)
    assert use(CUDA) == DeviceUse(used_bytes=7, total_bytes=10, utilisation=None)
