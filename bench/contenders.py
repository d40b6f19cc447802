"""Who is measured: which script in which environment, in which dtype.

It knows names and where things lie. It does not know how a contender works, nor what it will have to do.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias, get_args

_BENCH = Path(__file__).parent
_ENVIRONMENTS = _BENCH.parent / ".venv" / "peers"

PeerDtype: TypeAlias = Literal["float32", "bfloat16"]
Dtype: TypeAlias = PeerDtype | Literal["float16"]
PEER_DTYPES: tuple[PeerDtype, ...] = get_args(PeerDtype)
DTYPES: tuple[Dtype, ...] = (*PEER_DTYPES, "float16")
_SHORT: Mapping[Dtype, str] = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}
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
        is_second_choice: Whether the same one takes part in a dtype that is faster here, too, so that a short run can
            do without this one.
        url: Where it runs already; None where the adapter starts it.
    """

    name: str
    label: str
    script: Path
    python: Path
    dtype: Dtype
    is_ours: bool = False
    is_server: bool = False
    is_second_choice: bool = False
    url: str | None = None

    @property
    def missing(self) -> str | None:
        """Why it cannot take part; None where it can."""
        if self.python.exists():
            return None
        return f"its environment {self.python.parents[1].name!r} is not installed: make bench-peers"


def entrants(ours: Dtype, best: PeerDtype, urls: Mapping[str, str]) -> Iterator[Entrant]:
    """Everyone, ours first.

    Args:
        ours: The dtype that Headrace takes on this machine where it is told none.
        best: Of those that peers have, the one in which this machine multiplies faster, for peers that nobody asked to
            be measured in both.
        urls: Of servers that run elsewhere, by their names in `REMOTE`.
    """
    yield from _headrace(ours)
    for dtype in PEER_DTYPES:
        yield _peer("sentence-transformers", "sentence-transformers", dtype, is_second_choice=dtype != best)
    yield _peer("onnxruntime", "ONNX Runtime (fastembed)", "float32", environment="fastembed")
    for dtype in PEER_DTYPES:
        yield _peer("openvino", "OpenVINO", dtype, is_second_choice=dtype != best)
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


def chosen(everyone: Iterable[Entrant], wanted: frozenset[str], *, both_dtypes: bool) -> Iterator[Entrant]:
    """Those that a run has.

    Args:
        everyone: Who may take part.
        wanted: Names of those that were asked for, second choices or not; empty asks for all.
        both_dtypes: Whether all includes second choices.
    """
    for entrant in everyone:
        if entrant.name in wanted or (not wanted and (both_dtypes or not entrant.is_second_choice)):
            yield entrant


def reference() -> Entrant:
    """What everyone is compared with: sentence-transformers in float32, in our own environment; never timed."""
    return Entrant(
        name="reference",
        label="sentence-transformers float32",
        script=_script("with_sentence_transformers.py"),
        python=Path(sys.executable),
        dtype="float32",
    )


def _headrace(dtype: Dtype) -> Iterator[Entrant]:
    """In process and over NATS; and in process in the format that peers compute in exactly, where that is not ours."""
    yield _in_process("headrace", dtype)
    if dtype != "float32":
        yield _in_process("headrace-fp32", "float32", is_second_choice=True)
    yield Entrant(
        name="headrace-nats",
        label=f"Headrace over NATS, {_SHORT[dtype]}",
        script=_script("with_headrace_nats.py"),
        python=Path(sys.executable),
        dtype=dtype,
        is_ours=True,
        is_server=True,
    )


def _in_process(name: str, dtype: Dtype, *, is_second_choice: bool = False) -> Entrant:
    return Entrant(
        name=name,
        label=f"Headrace, in process, {_SHORT[dtype]}",
        script=_script("with_headrace.py"),
        python=Path(sys.executable),
        dtype=dtype,
        is_ours=True,
        is_second_choice=is_second_choice,
    )


def _peer(
    name: str, label: str, dtype: PeerDtype, *, environment: str | None = None, is_second_choice: bool = False
) -> Entrant:
    environment = environment or name
    return Entrant(
        name=f"{name}-{_SHORT[dtype]}",
        label=f"{label} {_SHORT[dtype]}",
        script=_script(f"with_{environment.replace('-', '_')}.py"),
        python=_python(environment),
        dtype=dtype,
        is_second_choice=is_second_choice,
    )


def _script(name: str) -> Path:
    return _BENCH / "peers" / name


def _python(environment: str) -> Path:
    return _ENVIRONMENTS / environment / "bin" / "python"
