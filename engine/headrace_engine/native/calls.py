"""The functions of the compiled kernels, called with tensors.

It knows their arguments as sources/ declares them, and what they do not check themselves. It does not know who calls,
nor where the library came from.
"""

import ctypes
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch

from headrace_engine.native.library import Library, Missing, library

ActivationName: TypeAlias = Literal["identity", "gelu", "gelu_tanh", "relu", "silu"]

DTYPES = (torch.float32, torch.bfloat16)
PANEL_DTYPES = (torch.float32, torch.float16)
_ACTIVATIONS: dict[ActivationName, int] = {"identity": 0, "gelu": 1, "gelu_tanh": 2, "relu": 3, "silu": 4}
_WHOLE_SEQUENCE = -1
HEAD_STEP = 32  # a head is a multiple of it wide

_POINTER, _LONG, _INT, _FLOAT = ctypes.c_void_p, ctypes.c_long, ctypes.c_int, ctypes.c_float
_ARGUMENTS = {
    "headrace_attend": (_INT, *(_POINTER,) * 4, *(_LONG,) * 3, _POINTER, *(_LONG,) * 4, _FLOAT, _INT, _LONG, _INT),
    "headrace_panels_size": (_LONG, _LONG),
    "headrace_pack_panels": (_INT, _POINTER, _POINTER, _LONG, _LONG),
    "headrace_linear": (_INT, *(_POINTER,) * 4, *(_LONG,) * 3, _INT, _INT),
    "headrace_add_norm": (_INT, *(_POINTER,) * 4, _FLOAT, _LONG, _LONG, _INT),
    "headrace_embed": (_INT, *(_POINTER,) * 8, _FLOAT, _POINTER, _LONG, _LONG, _INT),
    "headrace_layers": (_POINTER, _LONG, _POINTER, _POINTER, _POINTER, _LONG, _INT),
    "headrace_mean": (_INT, *(_POINTER,) * 4, _LONG, _LONG, _INT),
}


class _Part(ctypes.Structure):
    _fields_ = (("weight", _POINTER), ("bias", _POINTER), ("is_float16", _INT))


# As LayerParts has them, in the order of sources/layer.cpp; an activation follows.
_PARTS = ("qkv", "attended", "attended_norm", "up", "down", "norm")
_WHOLES, _FRACTIONS = ("width", "num_heads", "inner"), ("scale", "attended_eps", "eps")


class _Layer(ctypes.Structure):
    _fields_ = (
        *((name, _Part) for name in _PARTS),
        *((name, _LONG) for name in _WHOLES),
        *((name, _FLOAT) for name in _FRACTIONS),
        ("activation", _INT),
    )


Part: TypeAlias = tuple[torch.Tensor, torch.Tensor | None]
"""The weight and bias of a normalisation, or the panels and bias of a linear layer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerParts:
    """What a layer of BERT consists of; all in float32, but panels, which may be float16.

    Attributes:
        qkv: D → 3·D.
        attended: D → D.
        attended_norm: Of D.
        up: D → inner.
        down: inner → D.
        norm: Of D.
        width: D.
        num_heads: They share D evenly.
        inner: The width inside the feed-forward part.
        scale: What attention scores are multiplied by.
        attended_eps: Of the first normalisation.
        eps: Of the second.
        activation: The function inside the feed-forward part.
    """

    qkv: Part
    attended: Part
    attended_norm: Part
    up: Part
    down: Part
    norm: Part
    width: int
    num_heads: int
    inner: int
    scale: float
    attended_eps: float
    eps: float
    activation: ActivationName


class Kernels:
    """A loaded library; each call runs on as many threads as torch is set to, without Python's lock.

    Attributes:
        level: What it is compiled for.
        name: Of the library's file, which tells it from one of other sources.
        origin: Where it came from, for people.
        multiplies_float16: Whether float16 is multiplied as it is, not widened first.
    """

    def __init__(self, found: Library) -> None:
        """Declare the functions' arguments."""
        self.level = found.level
        self.name = found.path.stem
        self.origin = found.origin
        self.multiplies_float16 = found.level == "avx512fp16"
        for name, arguments in _ARGUMENTS.items():
            getattr(found.cdll, name).argtypes = arguments
        self._attend = found.cdll.headrace_attend
        self._panels_size = found.cdll.headrace_panels_size
        self._panels_size.restype = _LONG
        self._pack_panels = found.cdll.headrace_pack_panels
        self._linear = found.cdll.headrace_linear
        self._add_norm = found.cdll.headrace_add_norm
        self._embed = found.cdll.headrace_embed
        self._layers = found.cdll.headrace_layers
        self._mean = found.cdll.headrace_mean

    def attend(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        cu_seqlens: torch.Tensor,
        *,
        scale: float,
        causal: bool = False,
        window: int | None = None,
    ) -> torch.Tensor:
        """Attention within each sequence: softmax(scale · Q Kᵀ) V over what each token sees.

        Args:
            query: [T, num_heads, head_dim] float32 or bfloat16, head_dim a multiple of 32. The heads of a token lie
                side by side; tokens may be any way apart.
            key: [T, num_kv_heads, head_dim], the same.
            value: The same.
            cu_seqlens: [N+1] int32, contiguous, from 0 to T.
            scale: What the scores are multiplied by.
            causal: Whether a token sees only itself and those before it.
            window: The farthest that a token sees, to either side; None is as far as its sequence goes.

        Returns:
            [T, num_heads, head_dim], contiguous, of the same dtype.

        Raises:
            ValueError: A tensor or a number is not so. What is in `cu_seqlens` is not looked at.
            MemoryError: There is none for what the threads work in.
        """
        (num_tokens, num_heads, head_dim), num_kv_heads = query.shape, key.shape[1]
        strides = [
            _token_stride(name, rows, (num_tokens, head_dim), query.dtype)
            for name, rows in (("query", query), ("key", key), ("value", value))
        ]
        if value.shape[1] != num_kv_heads or num_heads % num_kv_heads or head_dim % HEAD_STEP or not scale > 0:
            message = (
                f"{num_heads} heads of {head_dim}, {num_kv_heads} of keys, {value.shape[1]} of values, scale {scale}: "
                f"give as many keys as values, a multiple of them of queries, heads of multiples of {HEAD_STEP}, and "
                "a scale above 0"
            )
            raise ValueError(message)
        _check_offsets(cu_seqlens)
        out = torch.empty(query.shape, dtype=query.dtype, device="cpu")
        failed = self._attend(
            query.dtype == torch.bfloat16,
            query.data_ptr(),
            key.data_ptr(),
            value.data_ptr(),
            out.data_ptr(),
            *strides,
            cu_seqlens.data_ptr(),
            len(cu_seqlens) - 1,
            num_heads,
            num_kv_heads,
            head_dim,
            scale,
            causal,
            _WHOLE_SEQUENCE if window is None else window,
            torch.get_num_threads(),
        )
        _check(failed)
        return out

    def pack(self, weight: torch.Tensor, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """Lay out the weight of a linear layer as `linear` reads it.

        Args:
            weight: [outputs, inputs] float32.
            dtype: What to hold it in, float32 or float16, in which what is too large becomes infinite.

        Returns:
            [·] of that dtype; it holds the only copy that is needed.
        """
        outputs, inputs = weight.shape
        if weight.dtype != torch.float32 or inputs == 0:
            message = f"weight is {weight.dtype} {list(weight.shape)}: give float32 of one input or more"
            raise ValueError(message)
        weight = weight.contiguous()
        panels = torch.empty(self._panels_size(inputs, outputs), dtype=dtype, device="cpu")
        self._pack_panels(_is_float16(panels), weight.data_ptr(), panels.data_ptr(), inputs, outputs)
        return panels

    def linear(
        self,
        rows: torch.Tensor,
        panels: torch.Tensor,
        bias: torch.Tensor | None,
        outputs: int,
        activation: ActivationName = "identity",
    ) -> torch.Tensor:
        """activation(x·Wᵀ + b); with panels of float16 to about 1/1000 where the processor multiplies float16.

        Args:
            rows: [T, inputs] float32.
            panels: What `pack` made of a weight [outputs, inputs].
            bias: [outputs] float32, contiguous, or None.
            outputs: The width of the result.
            activation: "gelu" is exact, "gelu_tanh" its approximation.

        Returns:
            [T, outputs] float32.

        Raises:
            ValueError: A tensor is not so.
            MemoryError: There is none for what the threads work in.
        """
        rows = rows.contiguous()
        num_rows, inputs = rows.shape
        if rows.dtype != torch.float32 or len(panels) != self._panels_size(inputs, outputs):
            message = f"rows are {rows.dtype} {list(rows.shape)}: give float32, as wide as the weight has inputs"
            raise ValueError(message)
        out = torch.empty(num_rows, outputs, dtype=torch.float32, device="cpu")
        failed = self._linear(
            _is_float16(panels),
            rows.data_ptr(),
            panels.data_ptr(),
            _pointer(bias),
            out.data_ptr(),
            num_rows,
            inputs,
            outputs,
            _ACTIVATIONS[activation],
            torch.get_num_threads(),
        )
        _check(failed)
        return out

    def add_norm(
        self,
        rows: torch.Tensor,
        residual: torch.Tensor | None,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        eps: float,
    ) -> torch.Tensor:
        """Layer normalisation of rows + residual, in the place of `rows`; sum, mean and variance in float32.

        Args:
            rows: [T, D] float32 or bfloat16, contiguous; overwritten.
            residual: [T, D] of the same dtype, or None.
            weight: [D], the same.
            bias: [D], the same, or None.
            eps: Added to the variance.

        Returns:
            `rows`.

        Raises:
            MemoryError: There is none for what the threads work in.
        """
        _check_dtypes(rows, residual, weight, bias)
        residual = None if residual is None else residual.contiguous()
        failed = self._add_norm(
            rows.dtype == torch.bfloat16,
            rows.data_ptr(),
            _pointer(residual),
            weight.data_ptr(),
            _pointer(bias),
            eps,
            len(rows),
            rows.shape[1],
            torch.get_num_threads(),
        )
        _check(failed)
        return rows

    def embed(
        self,
        lookups: Sequence[tuple[torch.Tensor | None, torch.Tensor | None]],
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        eps: float,
    ) -> torch.Tensor:
        """The sum of some rows of tables for each token, through layer normalisation; all of it in float32.

        Args:
            lookups: Three tables, [·, D] float32 or bfloat16, contiguous, each with the row of each token in it, [T]
                int64, contiguous. The first is there; the others may be None. Ids may be None where all are 0.
            weight: [D], of the tables' dtype.
            bias: [D], the same, or None.
            eps: Added to the variance.

        Returns:
            [T, D] of the same dtype.

        Raises:
            MemoryError: There is none for what the threads work in.
        """
        _check_dtypes(weight, bias, *(table for table, _ in lookups))
        num_tokens = len(next(ids for _, ids in lookups if ids is not None))
        out = torch.empty(num_tokens, len(weight), dtype=weight.dtype, device="cpu")
        failed = self._embed(
            weight.dtype == torch.bfloat16,
            *(_pointer(tensor) for lookup in lookups for tensor in lookup),
            weight.data_ptr(),
            _pointer(bias),
            eps,
            out.data_ptr(),
            *out.shape,
            torch.get_num_threads(),
        )
        _check(failed)
        return out

    def layers(self, parts: Sequence[LayerParts]) -> "Layers":
        """Layers of BERT that are computed in one call."""
        return Layers(self._layers, parts)

    def mean(self, rows: torch.Tensor, cu_seqlens: torch.Tensor, skips: torch.Tensor | None = None) -> torch.Tensor:
        """The mean of the rows of each sequence, summed in float32 in their order.

        Args:
            rows: [T, D] float32 or bfloat16.
            cu_seqlens: [N+1] int32, contiguous, from 0 to T.
            skips: [N] int32, contiguous, the rows that each sequence leaves out at its beginning, fewer than it has;
                or None.

        Returns:
            [N, D] float32.
        """
        rows = rows.contiguous()
        _check_dtypes(rows)
        _check_offsets(cu_seqlens, skips)
        out = torch.empty(len(cu_seqlens) - 1, rows.shape[1], dtype=torch.float32, device="cpu")
        self._mean(
            rows.dtype == torch.bfloat16,
            rows.data_ptr(),
            cu_seqlens.data_ptr(),
            _pointer(skips),
            out.data_ptr(),
            *out.shape,
            torch.get_num_threads(),
        )
        return out


class Layers:
    """Layers of BERT, with their tensors."""

    def __init__(self, function: Callable[..., int], parts: Sequence[LayerParts]) -> None:
        """Hold the function, the tensors, and their description for the function; `Kernels.layers` is the way."""
        self._function = function
        self._parts = parts  # whose memory is described
        self._described = (_Layer * len(parts))(*map(_describe, parts))
        self._work_width = max(5 * each.width + each.inner for each in parts)

    def __call__(self, rows: torch.Tensor, cu_seqlens: torch.Tensor) -> torch.Tensor:
        """[T, D] float32 → the same tensor, overwritten.

        Args:
            rows: Contiguous.
            cu_seqlens: [N+1] int32, contiguous, from 0 to T.

        Raises:
            MemoryError: There is none for what the threads work in.
        """
        _check_offsets(cu_seqlens)
        work = torch.empty(len(rows), self._work_width, dtype=torch.float32, device="cpu")
        failed = self._function(
            self._described,
            len(self._parts),
            rows.data_ptr(),
            work.data_ptr(),
            cu_seqlens.data_ptr(),
            len(cu_seqlens) - 1,
            torch.get_num_threads(),
        )
        _check(failed)
        return rows


def _describe(parts: LayerParts) -> _Layer:
    return _Layer(
        **{name: _describe_part(*getattr(parts, name)) for name in _PARTS},
        **{name: getattr(parts, name) for name in (*_WHOLES, *_FRACTIONS)},
        activation=_ACTIVATIONS[parts.activation],
    )


def _describe_part(weight: torch.Tensor, bias: torch.Tensor | None) -> _Part:
    return _Part(weight.data_ptr(), _pointer(bias), _is_float16(weight))


def kernels_for(tensor: torch.Tensor) -> Kernels | None:
    """The kernels, where there are any for a tensor's device and dtype."""
    if tensor.device.type != "cpu" or tensor.dtype not in DTYPES:
        return None
    found = kernels()
    return found if isinstance(found, Kernels) else None


@functools.cache
def kernels() -> Kernels | Missing:
    """The kernels for this process, looked for once.

    Raises:
        Misconfigured: $HEADRACE_KERNELS_LEVEL is no level, or above what this processor runs.
    """
    found = library()
    return found if isinstance(found, Missing) else Kernels(found)


def describe(found: Kernels | Missing) -> str:
    """What computes on a CPU, for people."""
    if isinstance(found, Missing):
        return f"torch's kernels: {found.reason}"
    return f"Headrace's kernels for {found.level}, {found.origin}"


def _pointer(tensor: torch.Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()


def _is_float16(panels: torch.Tensor) -> bool:
    if panels.dtype not in PANEL_DTYPES:
        message = f"panels are {panels.dtype}: give float32 or float16"
        raise ValueError(message)
    return panels.dtype == torch.float16


def _token_stride(name: str, rows: torch.Tensor, sizes: tuple[int, int], dtype: torch.dtype) -> int:
    num_tokens, head_dim = sizes
    if rows.dtype != dtype or dtype not in DTYPES or rows.shape[0] != num_tokens or rows.shape[2] != head_dim:
        message = (
            f"{name} is {rows.dtype} {list(rows.shape)} beside a query of {dtype} [{num_tokens}, ·, {head_dim}]: give "
            "all in one dtype, float32 or bfloat16, of as many tokens and of one width"
        )
        raise ValueError(message)
    token, head, number = rows.stride()
    if number != 1 or (head != head_dim and rows.shape[1] > 1):
        message = f"{name} has strides {rows.stride()} for heads of {head_dim}: a token's heads must lie side by side"
        raise ValueError(message)
    return token


def _check_dtypes(first: torch.Tensor, *others: torch.Tensor | None) -> None:
    found = {first.dtype, *(tensor.dtype for tensor in others if tensor is not None)}
    if len(found) > 1 or first.dtype not in DTYPES:
        message = f"tensors are {', '.join(sorted(map(str, found)))}: give all in one dtype, float32 or bfloat16"
        raise ValueError(message)


def _check_offsets(cu_seqlens: torch.Tensor, skips: torch.Tensor | None = None) -> None:
    for name, numbers in (("cu_seqlens", cu_seqlens), ("skips", skips)):
        if numbers is not None and (numbers.dtype != torch.int32 or not numbers.is_contiguous()):
            message = f"{name} is {numbers.dtype}, strides {numbers.stride()}: give int32, contiguous"
            raise ValueError(message)


def _check(failed: int) -> None:
    if failed:
        message = "no memory for what a kernel works in: give the process more, or fewer threads"
        raise MemoryError(message)
