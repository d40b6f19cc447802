"""Who is measured: which script in which environment, in which dtype.

It knows names and where things lie. It does not know how a contender works, nor what it will have to do.
"""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

_BENCH = Path(__file__).parent
_ENVIRONMENTS = _BENCH.parent / ".venv" / "peers"

Dtype = Literal["float32", "bfloat16"]
DTYPES: tuple[Dtype, ...] = ("float32", "bfloat16")
_SHORT: Mapping[Dtype, str] = {"float32": "fp32", "bfloat16": "bf16"}
# Those that nobody starts here: a user tells where they are.
REMOTE = {"vllm": ("vLLM", "with_vllm.py"), "tei": ("text-embeddings-inference", "with_tei.py")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Entrant:
    """One who may take part.

    Attributes:
        name: Short and unique.
        label: For people.
        script: The adapter.
        python: The interpreter that runs it.
        dtype: To compute in.
        is_ours: Whether it is a way of using Headrace.
        is_server: Whether its users call it over a network.
        has_both_dtypes: Whether it takes part in each dtype.
        url: Where it runs already; None where the adapter starts it.
    """

    name: str
    label: str
    script: Path
    python: Path
    dtype: Dtype
    is_ours: bool = False
    is_server: bool = False
    has_both_dtypes: bool = False
    url: str | None = None

    def is_second_choice(self, best: Dtype) -> bool:
        """Whether the same peer is there in the dtype that is faster, too, so that a short run can do without it."""
        return not self.is_ours and self.dtype != best and self.has_both_dtypes

    @property
    def missing(self) -> str | None:
        """Why it cannot take part; None where it can."""
        if self.python.exists():
            return None
        return f"its environment {self.python.parents[1].name!r} is not installed: make bench-peers"


def entrants(best: Dtype, urls: Mapping[str, str]) -> Iterator[Entrant]:
    """Everyone, ours first.

    Args:
        best: The dtype in which this machine multiplies faster by torch, for contenders that run on torch and that
            nobody asked to be measured in both.
        urls: Of servers that run elsewhere, by their names in `REMOTE`.
    """
    python = Path(sys.executable)
    yield Entrant(
        name="headrace",
        label="Headrace, in process",
        script=_script("with_headrace.py"),
        python=python,
        dtype=best,
        is_ours=True,
    )
    yield Entrant(
        name="headrace-nats",
        label="Headrace over NATS",
        script=_script("with_headrace_nats.py"),
        python=python,
        dtype=best,
        is_ours=True,
        is_server=True,
    )
    for dtype in DTYPES:
        yield _peer("sentence-transformers", "sentence-transformers", "sentence-transformers", dtype, has_both=True)
    yield _peer("onnxruntime", "ONNX Runtime (fastembed)", "fastembed", "float32")
    for dtype in DTYPES:
        yield _peer("openvino", "OpenVINO", "openvino", dtype, has_both=True)
    yield Entrant(
        name=f"infinity-{_SHORT[best]}",
        label=f"Infinity {_SHORT[best]}",
        script=_script("with_infinity.py"),
        python=_python("http"),
        dtype=best,
        is_server=True,
    )
    for name, url in urls.items():
        label, script = REMOTE[name]
        yield Entrant(
            name=name,
            label=label,
            script=_script(script),
            python=_python("http"),
            dtype=best,
            is_server=True,
            url=url,
        )


def reference() -> Entrant:
    """What everyone is compared with: sentence-transformers in float32, in our own environment; never timed."""
    return Entrant(
        name="reference",
        label="sentence-transformers float32",
        script=_script("with_sentence_transformers.py"),
        python=Path(sys.executable),
        dtype="float32",
    )


def _peer(name: str, label: str, environment: str, dtype: Dtype, *, has_both: bool = False) -> Entrant:
    return Entrant(
        name=f"{name}-{_SHORT[dtype]}",
        label=f"{label} {_SHORT[dtype]}",
        script=_script(f"with_{environment.replace('-', '_')}.py"),
        python=_python(environment),
        dtype=dtype,
        has_both_dtypes=has_both,
    )


def _script(name: str) -> Path:
    return _BENCH / "peers" / name


def _python(environment: str) -> Path:
    return _ENVIRONMENTS / environment / "bin" / "python"
