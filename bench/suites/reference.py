"""What is right: the rows of sentence-transformers in float32, asked before anyone is timed.

It knows the jobs and one contender that takes no part. Texts that several jobs share are asked once.
"""

from collections.abc import Iterable
from itertools import chain

import numpy as np
from contenders import Entrant

from suites.field import Ground
from suites.judge import Rows
from suites.plan import Plan, inputs

_PATIENCE_S = 600.0


def expected(plans: Iterable[Plan], entrant: Entrant, ground: Ground) -> dict[str, tuple[Rows, ...]]:
    """The right rows of each job by its name, for each of its inputs.

    Raises:
        Broken: The reference did not run; nothing can be judged without it.
    """
    right: dict[str, tuple[Rows, ...]] = {}
    known: dict[str, Rows] = {}
    file = ground.work / "expected.npy"
    once = {"seconds": 0, "min_calls": 1, "warm_calls": 0, "rows": str(file)}
    with ground.started(entrant) as child:
        for job in (job for plan in plans for job in plan.jobs):
            if job.command["do"] == "score":
                child.ask({**job.command, **once}, _PATIENCE_S)
                right[job.name] = (np.load(file),)
                continue
            calls = inputs(job.command)
            if missing := [text for text in dict.fromkeys(chain(*calls)) if text not in known]:
                child.ask({"do": "embed", "batches": [missing], **once}, _PATIENCE_S)
                known.update(zip(missing, np.load(file), strict=True))
            right[job.name] = tuple(np.stack([known[text] for text in texts]) for texts in calls)
    return right
