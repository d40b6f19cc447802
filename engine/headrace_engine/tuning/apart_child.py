"""The program that runs one function for `apart`.

It reads (function, arguments) from its standard input, pickled, and writes (True, result) or (False, why not). It knows
nothing of the engine: what it loads, it loads to find the function.
"""

import os
import pickle
import sys
from typing import Any


def main() -> None:
    """Answer the one request."""
    # What libraries and compilers print must not get into the answer, nor keep its pipe open.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    answer: tuple[bool, Any]
    try:
        run, arguments = pickle.load(sys.stdin.buffer)  # noqa: S301 - the process that started this one wrote it
        answer = True, run(*arguments)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is told
        reason = str(error).strip().partition("\n")[0]
        answer = False, f"{type(error).__name__}: {reason}".removesuffix(": ")
    with answers:
        pickle.dump(answer, answers)


if __name__ == "__main__":
    main()
