"""The process of a backend, as a script without torch that behaves as the name of its backend says."""

import json
import os
import signal
import sys
import time


def say(kind: str, **values: object) -> None:
    print(json.dumps({"kind": kind, **values}), flush=True)


def answer(name: str, stage: str) -> None:
    if name == "crashing" and stage == "rows":
        print("CUDA error: an illegal memory access", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGSEGV)
    if name == "silent" and stage == "rows":
        signal.pause()
    if stage == "bulk":
        bulk()
    where = {"stage": stage, "backend": name, "model": ""}
    print("warning: a compiler says this")
    say("Check", where=where, what="it ran", outcome="passed", detail="", far=None)
    say("Done")


def bulk() -> None:
    say("Barrier")
    assert sys.stdin.readline() == "go\n"
    began_s = time.monotonic()
    say("Stint", is_graph=False, began_s=began_s, ended_s=began_s + 2, batches=6)


def main(name: str) -> None:
    if name == "slow":
        signal.pause()
    if name == "broken":
        sys.exit("ImportError: no kernels here")
    if name == "late":
        time.sleep(0.5)
    say("Ready", models=[] if name == "useless" else ["MiniLM"])
    for line in iter(sys.stdin.readline, ""):
        answer(name, json.loads(line)["stage"])


if __name__ == "__main__":
    main(sys.argv[-1])
