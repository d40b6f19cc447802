"""How a call's sequences are split into chunks: by tokens, in order.

Pure. Knows the two limits of a chunk. Does not know what the tokens mean or where the chunks go.
"""

from collections.abc import Sequence


def split(lengths: Sequence[int], *, max_tokens: int, max_items: int) -> list[range]:
    """Cut the sequences into runs, each of at most `max_tokens` tokens and `max_items` sequences.

    Args:
        lengths: tokens of each sequence; none above `max_tokens`.
        max_tokens: tokens of one chunk at most.
        max_items: sequences of one chunk at most.

    Returns:
        Ranges of indices that cover all sequences in order.
    """
    runs: list[range] = []
    first = tokens = 0
    for index, length in enumerate(lengths):
        if index > first and (tokens + length > max_tokens or index - first == max_items):
            runs.append(range(first, index))
            first, tokens = index, 0
        tokens += length
    if len(lengths) > first:
        runs.append(range(first, len(lengths)))
    return runs
