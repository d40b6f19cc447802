"""What crosses the wire between producers and workers: messages, codec, subjects, topology, errors.

Knows nothing of engines, clients or event loops; contracts/wire.md says the same for other languages.
"""

from headrace_contracts.codec import (
    decode_cancel,
    decode_chunk,
    decode_reply,
    decode_spec,
    encode_cancel,
    encode_chunk,
    encode_reply,
    encode_spec,
)
from headrace_contracts.errors import ContractError, DecodeError, ErrorCode, InvalidName
from headrace_contracts.headers import Envelope
from headrace_contracts.messages import (
    DTYPES,
    PRIORITIES,
    TASKS,
    VERSION,
    BadItem,
    Cancel,
    Chunk,
    Dtype,
    ErrorReply,
    ModelSpec,
    Options,
    PairTemplate,
    Priority,
    Reply,
    Rows,
    SegmentIds,
    Task,
    TokenIds,
    Usage,
)

__all__ = [
    "DTYPES",
    "PRIORITIES",
    "TASKS",
    "VERSION",
    "BadItem",
    "Cancel",
    "Chunk",
    "ContractError",
    "DecodeError",
    "Dtype",
    "Envelope",
    "ErrorCode",
    "ErrorReply",
    "InvalidName",
    "ModelSpec",
    "Options",
    "PairTemplate",
    "Priority",
    "Reply",
    "Rows",
    "SegmentIds",
    "Task",
    "TokenIds",
    "Usage",
    "decode_cancel",
    "decode_chunk",
    "decode_reply",
    "decode_spec",
    "encode_cancel",
    "encode_chunk",
    "encode_reply",
    "encode_spec",
]
