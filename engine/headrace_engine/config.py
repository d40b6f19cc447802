"""How one engine runs: its device, its number format, its threads.

It knows what may be asked for. It does not know which model will run, nor what this processor is good at.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """The settings of an `Engine`, checked once here.

    Attributes:
        device: Where the model runs; only "cpu" for now.
        dtype: The number format of weights and activations: "float32", "bfloat16", or "auto", which is the one this
            processor multiplies faster, measured when the model is loaded.
        threads: The most threads an operation may use; 0 leaves torch's own choice.

    Raises:
        ValueError: A field holds a value outside these.
    """

    device: str = "cpu"
    dtype: str = "auto"
    threads: int = 0

    def __post_init__(self) -> None:
        if self.device != "cpu":
            message = f"device={self.device!r} is not supported yet: set device='cpu'"
            raise ValueError(message)
        if self.dtype not in {"auto", "float32", "bfloat16"}:
            message = f"dtype={self.dtype!r} is unknown: set 'auto', 'float32' or 'bfloat16'"
            raise ValueError(message)
        if self.threads < 0:
            message = f"threads={self.threads} is negative: set a number of threads, or 0 for torch's own choice"
            raise ValueError(message)
