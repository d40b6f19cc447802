"""How many attention heads there are, and how wide each is.

It knows which fields of config.json must fit each other. It does not know what a head computes.
"""

from headrace_engine.document import Document
from headrace_engine.errors import CheckpointError


def divide(document: Document, field: str, by: str) -> int:
    """How often one size goes into another: the width of a head in D, or the heads of keys in those of queries.

    Raises:
        CheckpointError: A field is missing or no size, or the first is no multiple of the second.
    """
    whole, part = document.require_size(field), document.require_size(by)
    if whole % part:
        message = f"{document.path}: {field}={whole} is no multiple of {by}={part}: correct the file"
        raise CheckpointError(message)
    return whole // part


def read_turning_head_dim(document: Document) -> int:
    """The width of a head that turns by position: what head_dim says, or else an even share of D.

    Raises:
        CheckpointError: A field is missing or no size, heads cannot share D evenly, or the width is odd.
    """
    if document.get("head_dim", int) is None:
        head_dim = divide(document, "hidden_size", "num_attention_heads")
    else:
        head_dim = document.require_size("head_dim")
    check_turning(document, head_dim)
    return head_dim


def check_turning(document: Document, head_dim: int) -> None:
    """Check that a head may turn by position.

    Raises:
        CheckpointError: Its width is odd.
    """
    if head_dim % 2:
        message = (
            f"{document.path}: head_dim={head_dim} is odd, and its halves turn against each other: "
            "take the file from the original checkpoint"
        )
        raise CheckpointError(message)
