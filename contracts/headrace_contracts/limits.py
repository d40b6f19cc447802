"""How many bytes a message may take: the arithmetic that lets the broker enforce a token budget.

Knows sizes only. A pull's `max_bytes` counts subject, ack subject, headers and body of each message; token ids take
four bytes each, so a worker that asks for 4 × B bytes can never be handed more than B tokens.
"""

from headrace_contracts.messages import Dtype, numpy_dtype, row_elements

TOKEN_BYTES = 4
# Subject, headers and the body's map keys of a chunk, rounded up: names are bounded by subjects.py.
_CHUNK_OVERHEAD = 1536
# The ack subject, which the broker counts against a pull but not against a NATS stream's max_msg_size.
_ACK_SUBJECT = 512
# Segment id (1 byte) beside each token id.
_PAIR_TOKEN_BYTES = 5
# What a chunk of one text usually takes besides its ids, as the broker stores it: see wire.md, section 9.
_STORED_OVERHEAD = 330
_REPLY_OVERHEAD = 1024
# [index, code, text] of a bad item, its text cut by the worker.
MAX_BAD_TEXT = 120
_BAD_ITEM = MAX_BAD_TEXT + 40
# Ids in one message of hr.cancel: far below the max_payload of any server.
MAX_CANCEL_IDS = 1000


def max_message_bytes(max_chunk_tokens: int, max_chunk_items: int) -> int:
    """Largest chunk as the broker stores it: the NATS stream's max_msg_size."""
    return _PAIR_TOKEN_BYTES * max_chunk_tokens + TOKEN_BYTES * max_chunk_items + _CHUNK_OVERHEAD


def min_pull_bytes(max_chunk_tokens: int, max_chunk_items: int) -> int:
    """Smallest pull that any message of the NATS stream fits into; a smaller one would end at once, again and again."""
    return max_message_bytes(max_chunk_tokens, max_chunk_items) + _ACK_SUBJECT


def max_reply_items(max_payload: int, dim: int, dtype: Dtype = "f32") -> int:
    """Sequences whose reply fits the server's max_payload even if every one of them is bad; at least 1."""
    row = row_elements(dtype, dim) * numpy_dtype(dtype).itemsize
    return max(1, (max_payload - _REPLY_OVERHEAD) // (row + _BAD_ITEM))


def estimated_tokens(num_messages: int, num_bytes: int) -> int:
    """About how many tokens wait in a NATS stream, from what the broker says of it without anybody reading a message.

    Too many, by 4 bytes for each further text of a chunk, 70 for a traceparent, a quarter where pairs carry segment
    ids; too few, by the shorter names of a chunk: a hundred bytes, so 25 tokens a message. Queues of full chunks come
    out right to some percent, queues of short queries to a factor of some, and a message is one token at least.

    Args:
        num_messages: in the NATS stream.
        num_bytes: that they take, as the broker counts.
    """
    return max(num_messages, (num_bytes - num_messages * _STORED_OVERHEAD) // TOKEN_BYTES)
