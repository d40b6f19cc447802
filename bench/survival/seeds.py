"""Seeds of trials that have failed, and what each has found: they are tried again, for ever.

Pure. What a seed does depends on faults.py and on how long faults begin; processes do the rest, so that one which fails
need not fail each time.
"""

from collections.abc import Mapping

FAILED: Mapping[int, str] = {
    0: "a worker that ended because of its device held what came meanwhile, and logged it as a bug; a client that was "
    "let in for a moment with credentials that had expired left an exception; workers did not start without a leader",
    1: "a queue kept a chunk that was acked, after a server had lost its disk, and the job waited for ever",
    # So did 4, 5, 9, 36, and 55 to 59.
    50: "a server that found its disk full takes nothing more, also when there is room again, until it is started anew",
}
