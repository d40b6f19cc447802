"""What goes wrong in a fake fleet, and what was asked of it.

Knows failures that were ordered, and the calls they may befall. Does not know how a call is made.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from headrace.errors import HeadraceError, InputError, ItemError, Overloaded
from headrace.result import Gathered
from headrace.testing.recorded_call import RecordedCall


@dataclass(slots=True)
class _Failure:
    error: HeadraceError
    when: Callable[[RecordedCall], bool]
    times: float


@dataclass(frozen=True, slots=True)
class _BadText:
    when: Callable[[str], bool]
    error: ItemError


class Script:
    """One fake client's record and orders.

    Attributes:
        calls: what was asked, in order.
    """

    def __init__(self, delay_s: float) -> None:
        """Order nothing yet; see FakeClient."""
        self.calls: list[RecordedCall] = []
        self._failures: list[_Failure] = []
        self._bad_texts: list[_BadText] = []
        self.delay_s = delay_s

    @property
    def delay_s(self) -> float:
        """Seconds from a chunk to its reply."""
        return self._delay_s

    @delay_s.setter
    def delay_s(self, seconds: float) -> None:
        _require_delay(seconds)
        self._delay_s = seconds

    def fail(self, error: HeadraceError, when: Callable[[RecordedCall], bool] | None, times: int | None) -> None:
        """Order a failure; see FakeClient."""
        if not isinstance(error, HeadraceError):
            raise InputError(f"error is {error!r}: pass a HeadraceError, made with its arguments")
        if times is not None and times < 1:
            raise InputError(f"times is {times}: it must be a whole number above 0, or None for always")
        self._failures.append(_Failure(error, _any if when is None else when, math.inf if times is None else times))

    def fail_text(self, text: str | Callable[[str], bool], error: ItemError) -> None:
        """Order a text without a result; see FakeClient."""
        self._bad_texts.append(_BadText(text.__eq__ if isinstance(text, str) else text, error))

    def heal(self) -> None:
        """Forget all orders."""
        self._failures.clear()
        self._bad_texts.clear()
        self.delay_s = 0

    def begin(self, call: RecordedCall) -> None:
        """A call is about to be sent.

        Raises:
            HeadraceError: what was ordered for it. An Overloaded is left to the fleet, so that the client may retry.
        """
        self.calls.append(call)
        failure = self._next(call)
        if failure is not None and not isinstance(failure.error, Overloaded):
            raise self._spend(failure)

    def judge(self, call: RecordedCall) -> HeadraceError | None:
        """What an attempt of a call that has reached the fleet is to fail with."""
        failure = self._next(call)
        return None if failure is None else self._spend(failure)

    def spoil(self, call: RecordedCall, gathered: Gathered) -> Gathered:
        """The result of a call without the rows of texts that were ordered to have none."""
        bad = {index: error for index, text in enumerate(call.texts) if (error := self._bad(text)) is not None}
        if not bad:
            return gathered
        rows = gathered.rows.copy()
        rows[list(bad)] = np.nan if rows.dtype.kind == "f" else 0
        return replace(gathered, rows=rows, errors={**bad, **gathered.errors})

    def _next(self, call: RecordedCall) -> _Failure | None:
        return next((failure for failure in self._failures if failure.when(call)), None)

    def _spend(self, failure: _Failure) -> HeadraceError:
        failure.times -= 1
        if failure.times < 1:
            self._failures.remove(failure)
        return failure.error

    def _bad(self, text: str) -> ItemError | None:
        return next((bad.error for bad in self._bad_texts if bad.when(text)), None)


def _any(_: RecordedCall) -> bool:
    return True


def _require_delay(seconds: object) -> None:
    if not isinstance(seconds, int | float) or math.isnan(seconds) or seconds < 0:
        raise InputError(f"delay_s is {seconds!r}: it must be a number of seconds from 0; inf for no reply at all")
