"""Everything the engine refuses, as one small tree.

    EngineError
    ├── ModelNotFound           the model argument names nothing that can be loaded
    ├── DeviceNotFound          the device asked for is not there
    ├── Misconfigured           a setting that this model or this processor cannot have
    ├── CheckpointError         a model directory that is incomplete or contradicts itself
    │   └── UnsupportedModel    a sound checkpoint of a kind this engine cannot run
    └── BatchError              a batch that cannot be run

Catch `EngineError` to catch them all. Every message names the field and the value, and says what to do next. Arguments
a programmer got wrong (`EngineConfig`, `OutputOptions`) are a plain `ValueError`. It knows nothing of error codes on a
wire.
"""

_MAX_TEXT = 2000


class EngineError(Exception):
    """Any refusal of the engine."""

    def __init__(self, message: str) -> None:
        # It quotes names of files, of tensors and of fields, which strangers may have made long, or of no text at all.
        text = message.encode("utf-8", "backslashreplace").decode()
        super().__init__(text if len(text) <= _MAX_TEXT else f"{text[: _MAX_TEXT // 2]} … {text[-_MAX_TEXT // 2 :]}")


class ModelNotFound(EngineError):
    """The model argument resolves to no directory, installed package or hub repository."""


class DeviceNotFound(EngineError):
    """The device asked for is not on this machine, or this build of torch cannot use it."""


class Misconfigured(EngineError):
    """`EngineConfig`, or a variable of the environment, asks for what this model or processor cannot have."""


class CheckpointError(EngineError):
    """The model directory is wrong: a file or field is missing, or a tensor is missing, unused or misshapen."""


class UnsupportedModel(CheckpointError):
    """The checkpoint asks for a model family, module or setting that the engine does not have; lists what it has."""


class BatchError(EngineError):
    """The batch is empty, its lengths do not add up, it is too long, or an id lies outside its vocabulary."""
