"""How much of everything a run does: a full one within 20 minutes on two cores, a quick one within 3.

It knows numbers only.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """The size of a run.

    Attributes:
        warm_s: Seconds of warm-up of a contender in a case.
        turn_s: Seconds of one turn of a contender; at least one call is made.
        rounds: Turns of each contender where calls are short.
        long_rounds: The same where a call takes seconds.
        documents: Sizes of the scoring cases.
        batch: Texts that each of four processes hands in.
        clients: Numbers of concurrent clients.
        calibrate_s: Seconds of a calibration.
        sample_s: Seconds of a sample of the matrix rate.
        both_dtypes: Whether those that are there in two dtypes are measured in both.
    """

    warm_s: float
    turn_s: float
    rounds: int
    long_rounds: int
    documents: tuple[int, ...]
    batch: int
    clients: tuple[int, ...]
    calibrate_s: float
    sample_s: float
    both_dtypes: bool


FULL = Scale(
    warm_s=0.3,
    turn_s=0.8,
    rounds=5,
    long_rounds=3,
    documents=(5, 25, 50),
    batch=100,
    clients=(1, 2, 4, 8, 16),
    calibrate_s=12,
    sample_s=0.3,
    both_dtypes=True,
)
QUICK = Scale(
    warm_s=0.1,
    turn_s=0.3,
    rounds=2,
    long_rounds=1,
    documents=(5,),
    batch=10,
    clients=(1, 16),
    calibrate_s=3,
    sample_s=0.1,
    both_dtypes=False,
)
