"""The parts of gpu_check.py: whether the engine is right on a CUDA device, and how fast.

What is run:
    blueprint     the models: shapes of three that matter
    weights       random weights
    model         a model built of both
    batches       lengths and ids
    backend       a model run by one attention backend
    older_torch   a backend for a torch without varlen_attn
    ways          in float32, eagerly, padded eagerly, replayed

The stages, a file each:
    attention, rows, leaks, races       whether it is right
    steps, captures, host, bulk         how fast it is
    memory                              whether it stays

What they share:
    bench         what a stage is given
    likeness      how far rows are from others
    floor         what no step can beat
    rates         what the device reaches at most
    complaints    what the engine logs meanwhile
    device        what is asked of torch.cuda
    deadline      when to stop

How they are run:
    plan          what comes before what
    schedule      within the budget
    crew          all processes
    process       one of them, from outside
    child         the same, from inside
    prepare       what it does first
    crowd         several at once

What comes of it:
    finding       what the stages say
    facts         what device and versions these are
    result        all of it, as JSON
    report        all of it, as tables
"""
