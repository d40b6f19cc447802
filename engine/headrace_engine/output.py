"""From a head's rows to what is sent: vectors cut, normalised and cast, scores activated.

It is plain NumPy, so that the CPU finishes one batch while the device runs the next. It knows nothing of models or
batches.
"""

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

Dtype: TypeAlias = Literal["f32", "f16", "i8", "b1"]
ScoreActivation: TypeAlias = Literal["sigmoid", "identity"]

_MAX_INT8 = 127.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputOptions:
    """What a caller asks its vectors to be.

    Attributes:
        dim: How many leading dimensions to keep, for models trained so (Matryoshka, arXiv:2205.13147); None keeps all.
        dtype: "f32" or "f16", sent little-endian; or for models trained to be read so (pplx-embed, arXiv:2602.11151)
            "i8", which is round(127·tanh x), halves to even, or "b1", one bit for each dimension, set where x ≥ 0, the
            first dimension in the highest bit of the first byte: the values of "int8" and "ubinary" in that model's own
            st_quantize.py. Its "f32" is x, what st_quantize.py is given: no tanh.
        normalize: Whether to scale each row to length 1, after the cut; "i8" and "b1" take the row as it is, since
            their scale is the model's own.

    Raises:
        ValueError: `dim` is below 1 or `dtype` is none of these.
    """

    dim: int | None = None
    dtype: Dtype = "f32"
    normalize: bool = True

    def __post_init__(self) -> None:
        if self.dim is not None and self.dim < 1:
            message = f"dim={self.dim} is below 1: set how many dimensions to keep, or None for all"
            raise ValueError(message)
        if self.dtype not in {"f32", "f16", "i8", "b1"}:
            message = f"dtype={self.dtype!r} is unknown: set 'f32', 'f16', 'i8' or 'b1'"
            raise ValueError(message)


def finish(rows: npt.NDArray[np.float32], options: OutputOptions) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """Cut the rows, then normalise in float32, then cast.

    A row that cannot be sent (a value or its length is not finite, a value overflows float16, or its length is zero
    when it should become 1) is filled with zeros and told apart in the mask; it spoils no other row and raises nothing.

    Args:
        rows: [n, D] float32; left unchanged.
        options: The cut, the format and whether to normalise.

    Returns:
        The rows, [n, dim] little-endian float32 or float16, [n, dim] int8 or [n, ⌈dim/8⌉] uint8, and the mask, [n]
        bool, true where a row is good.

    Raises:
        ValueError: `options.dim` is more than D.
    """
    if options.dim is not None and options.dim > rows.shape[1]:
        message = (
            f"dim={options.dim} is more than the model's {rows.shape[1]} dimensions: ask for fewer, or None for all"
        )
        raise ValueError(message)
    kept = rows[:, : options.dim]
    match options.dtype:
        case "i8":
            good = _finite_rows(kept)
            # NaN has no int8: the row is zeros before the cast, which would warn and give anything.
            sent: npt.NDArray[Any] = np.rint(_MAX_INT8 * np.tanh(np.where(good[:, None], kept, 0))).astype(np.int8)
        case "b1":
            good = _finite_rows(kept)
            sent = np.packbits(kept >= 0, axis=1)
        case _:
            sent, good = _floats(kept, options)
    sent[~good] = 0
    return sent, good


def _floats(kept: npt.NDArray[np.float32], options: OutputOptions) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    dtype = "<f2" if options.dtype == "f16" else "<f4"
    with np.errstate(all="ignore"):
        if not options.normalize:
            sent = kept.astype(dtype)
            return sent, _finite_rows(sent)
        norms = np.linalg.norm(kept, axis=1)
        # A value that is not finite makes a length that is not; no element is longer than its row, so the rest fits.
        return (kept / norms[:, None]).astype(dtype), np.isfinite(norms) & (norms > 0)


def finish_scores(
    logits: npt.NDArray[np.float32], activation: ScoreActivation, *, raw: bool = False
) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """Make scores of logits, each rounded to float32 once.

    Args:
        logits: [n, 1] float32; left unchanged.
        activation: The checkpoint's.
        raw: Whether to leave the activation out.

    Returns:
        The scores, [n, 1] little-endian float32, zero where a logit is not finite, and the mask, [n] bool, true where
        it is.
    """
    good = _finite_rows(logits)
    scores = np.where(good[:, None], logits, 0).astype("<f4")
    if activation == "sigmoid" and not raw:
        # In float64, since float32 is off by up to 3e-7 of a score. e to a negative power overflows nowhere, and keeps
        # scores near zero apart.
        power = np.exp(-np.abs(scores, dtype=np.float64))
        scores = (np.where(scores >= 0, 1, power) / (1 + power)).astype("<f4")
    scores[~good] = 0
    return scores, good


def _finite_rows(rows: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """[n] whether all values of a row are finite."""
    finite: npt.NDArray[np.bool_] = np.isfinite(rows).all(axis=1)
    return finite
