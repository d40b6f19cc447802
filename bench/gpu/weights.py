"""Random weights: what a model takes its tensors from where there is no checkpoint.

It knows which tensors should be about one and which should be small, so that activations stay sane through many layers.
It does not know the model.
"""

import math
import zlib

import torch

_EMBEDDINGS = ("embed_tokens.weight", "word_embeddings.weight")
# Sharp attention makes a row depend on its own text: with plain ones all texts of a BERT come out nearly the same.
_SHARP = ("query.weight", "key.weight")


class RandomWeights:
    """Tensors drawn by name: the same name and seed give the same numbers, whatever was taken before.

    All are numbers that bfloat16 has, in whatever dtype they are handed out: so a float32 model made of them is the
    reference of a bfloat16 one.
    """

    def __init__(self, dtype: torch.dtype, device: torch.device, seed: int = 0) -> None:
        """Draw on a device.

        Args:
            dtype: Of the tensors handed out.
            device: Where they are drawn and stay; another kind of device draws other numbers.
            seed: Of the model.
        """
        self._dtype = dtype
        self._device = device
        self._seed = seed

    @property
    def product_dtype(self) -> torch.dtype:
        """That of all tensors."""
        return self._dtype

    def take(self, name: str, *shape: int) -> torch.Tensor:
        """Draw a tensor."""
        generator = torch.Generator(self._device).manual_seed(zlib.crc32(name.encode()) + self._seed)
        drawn = torch.randn(shape, generator=generator, device=self._device)
        if len(shape) == 1:
            drawn = drawn / 50 + name.endswith("weight")
        elif "embed" not in name:
            drawn *= (2 if name.endswith(_SHARP) else 1) / math.sqrt(shape[1])
        if name.endswith(_EMBEDDINGS):
            drawn[poison_id(shape[0])] = math.nan
        return drawn.to(torch.bfloat16).to(self._dtype)

    def has(self, name: str) -> bool:  # noqa: ARG002 - the interface's
        """Whatever is asked for can be drawn."""
        return True


def poison_id(vocab_size: int) -> int:
    """The token whose embedding is NaN, so that it leaves NaN in every buffer on its way: the last one."""
    return vocab_size - 1
