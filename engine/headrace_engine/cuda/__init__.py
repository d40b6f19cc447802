"""The CUDA edge: all that touches torch.cuda, and nothing else does.

    device      which devices there are
    copies      batches in, rows out, through page-locked memory
    graph       a model on a device: launch by launch, or captured
    runner      one step: run, copy back, return at once
    load        the runner of a model, with its attention and its graphs

These files hold calls, not decisions: what is captured and when is in `headrace_engine.graphs`, what is padded in
`buckets`, whose buffer it is in `staging`, and which attention is used in `attention`.
"""
