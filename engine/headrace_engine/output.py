"""From pooled rows to what is sent: cut, normalise, cast.

It is plain NumPy, so that the CPU finishes one batch while the device runs the next. It knows nothing of models or
batches.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputOptions:
    """What a caller asks its vectors to be.

    Attributes:
        dim: How many leading dimensions to keep, for models trained so (Matryoshka, arXiv:2205.13147); None keeps all.
        dtype: "f32" or "f16", sent little-endian.
        normalize: Whether to scale each row to length 1, after the cut.

    Raises:
        ValueError: `dim` is below 1 or `dtype` is neither.
    """

    dim: int | None = None
    dtype: Literal["f32", "f16"] = "f32"
    normalize: bool = True

    def __post_init__(self) -> None:
        if self.dim is not None and self.dim < 1:
            message = f"dim={self.dim} is below 1: set how many dimensions to keep, or None for all"
            raise ValueError(message)
        if self.dtype not in {"f32", "f16"}:
            message = f"dtype={self.dtype!r} is unknown: set 'f32' or 'f16'"
            raise ValueError(message)


def finish(rows: npt.NDArray[np.float32], options: OutputOptions) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """Cut the rows, then normalise in float32, then cast.

    A row that cannot be sent (a value or its length is not finite, a value overflows float16, or its length is zero
    when it should become 1) is filled with zeros and told apart in the mask; it spoils no other row and raises nothing.

    Args:
        rows: [n, D] float32; left unchanged.
        options: The cut, the format and whether to normalise.

    Returns:
        The rows, [n, dim] little-endian float32 or float16, and the mask, [n] bool, true where a row is good.

    Raises:
        ValueError: `options.dim` is more than D.
    """
    if options.dim is not None and options.dim > rows.shape[1]:
        message = (
            f"dim={options.dim} is more than the model's {rows.shape[1]} dimensions: ask for fewer, or None for all"
        )
        raise ValueError(message)
    kept = rows[:, : options.dim]
    with np.errstate(all="ignore"):
        good = np.ones(len(kept), np.bool_)
        if options.normalize:
            norms = np.linalg.norm(kept, axis=1)
            # An infinite length would make zeros of the row; a length of zero makes NaN of it, found below.
            good = np.isfinite(norms)
            kept = kept / norms[:, None]
        sent = kept.astype("<f2" if options.dtype == "f16" else "<f4")
    good &= np.isfinite(sent).all(axis=1)
    sent[~good] = 0
    return sent, good
