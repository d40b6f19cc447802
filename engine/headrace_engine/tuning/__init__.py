"""What only the device that a model runs on can tell: which attention is fastest there, and up to where graphs pay.

    attention      the attention-backend table, measured
    graph_tokens   the token count above which graphs stop paying, measured
    mix            which batches stand for use
    ranking        from times to rows of the table
    ladder         from times to a token count
    stopwatch      medians of turns taken one after the other
    apart          a function run in a process of its own; apart_child.py is that process
    target         the device, the dtype and what the model asks there

It measures steps of `headrace_engine` and decides from them. It keeps nothing: whoever asks writes the results down.
"""

from headrace_engine.tuning.attention import measure_attention
from headrace_engine.tuning.graph_tokens import measure_graph_tokens

__all__ = ["measure_attention", "measure_graph_tokens"]
