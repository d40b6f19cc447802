"""Inputs that libFuzzer draws, by what they reach in the code: a process of its own, by atheris.

It knows atheris (https://github.com/google/atheris). libFuzzer ends its process when it is done and tells what it did
on stderr: see campaign.py. As a program: `python -m fuzz.guided '{…}'`.
"""

import json
import logging
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from random import Random

# Of libFuzzer's own mutations, which know no format.
_BLIND = 0.1
# Inputs from one telling of what became of them to the next.
_TELL = 50_000


def is_here() -> bool:
    """Whether atheris can be imported: it has wheels for few platforms and versions of Python."""
    return find_spec("atheris") is not None


def main(arguments: Sequence[str]) -> None:
    """Fuzz as one JSON argument says; does not return."""
    import atheris  # noqa: PLC0415 - optional

    asked = json.loads(arguments[0])
    with atheris.instrument_imports(include=asked["packages"]):
        from fuzz.targets import target as find  # noqa: PLC0415 - what it imports must be imported here to be measured

        target = find(asked["target"])
    from fuzz.memory import limit  # noqa: PLC0415
    from fuzz.plain import Run, note, watched  # noqa: PLC0415
    from fuzz.target import Verdict  # noqa: PLC0415

    rng = Random()  # noqa: S311 - for inputs, not for secrets
    run, places, found = Run(target=target.name), set[str](), Path(asked["found"])
    run.taken = run.refused = 0

    def one(data: bytes) -> None:
        run.inputs += 1
        try:
            verdict = target.run(data) if run.inputs % asked["watched"] else watched(target, data, run)
            if verdict is Verdict.TAKEN:
                run.taken = (run.taken or 0) + 1
            else:
                run.refused = (run.refused or 0) + 1
        except Exception as error:  # noqa: BLE001 - one failure must not end the search for others
            before = len(run.failures)
            note(target, data, error, run, places, found)
            if len(run.failures) > before:
                failure = run.failures[-1]
                told = {"kind": failure.kind, "text": failure.text, "file": failure.file}
                print("FAILURE " + json.dumps(told), file=sys.stderr, flush=True)
        # libFuzzer ends the process without a word to us.
        if run.inputs % _TELL == 0 or run.inputs >= asked["inputs"]:
            counts = {"taken": run.taken, "refused": run.refused, "heap_bytes_each": run.heap_bytes_each}
            print("COUNTED " + json.dumps(counts), file=sys.stderr, flush=True)

    def mutate(data: bytes, max_size: int, seed: int) -> bytes:
        rng.seed(seed)
        if rng.random() < _BLIND:
            return bytes(atheris.Mutate(data, max_size))
        return target.mutate(bytes(data), rng)[:max_size]

    limit(asked["memory_mib"])
    logging.disable()
    options: list[str] = [
        *(sys.argv[0], *asked["corpora"], f"-runs={asked['inputs']}", f"-seed={asked['seed']}"),
        *(f"-max_len={target.max_bytes}", f"-timeout={int(target.timeout_s)}", f"-rss_limit_mb={asked['rss_mib']}"),
        *(f"-artifact_prefix={found}/{target.name}/", "-print_final_stats=1"),
    ]
    atheris.Setup(options, one, custom_mutator=mutate, internal_libfuzzer=True)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1:])
