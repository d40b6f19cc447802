"""What the files of a result are called.

It knows a result's date and machine. It writes nothing.
"""

import re

from result import Result

_MAKERS_AND_NOISE = {
    *("intel", "amd", "arm", "apple", "genuine", "authentic", "ibm"),
    *("cpu", "processor", "virtual", "version", "common", "kvm", "qemu", "rev", "gen", "core", "with", "unknown"),
}


def stem(result: Result) -> str:
    """Such as "2026-11-29-xeon-2-cores"; a quick or partial run says so, and so is no substitute for a full one."""
    machine = result.machine
    cores = "1-core" if machine.cores == 1 else f"{machine.cores}-cores"
    return f"{machine.date[:10]}-{family(machine.processor)}-{cores}" + (
        "" if result.mode == "full" else f"-{result.mode}"
    )


def family(processor: str) -> str:
    """The one word that people use for a processor: "xeon", "epyc", "i7"; "machine" where none is known."""
    plain = re.sub(r"\((r|tm)\)|@.*", " ", processor.lower())
    words = [word for word in re.split(r"[^a-z0-9]+", plain) if word not in _MAKERS_AND_NOISE]
    return next((word for word in words if re.fullmatch(r"[a-z]{3,}|[im]\d", word)), "machine")
