"""Hostile input to all of Headrace that reads what others wrote: `python bench/fuzz_run.py`.

target.py says what a target is, and targets.py has all of them: messages.py, frames.py, deliveries.py, letters.py,
answers.py and records.py read what comes off the wire (framing.py, vectors.py); texts.py is what callers hand in, for
the tokenizers of kinds.py and a fleet in memory (echo.py), and tokenizer_files.py the tokenizers themselves;
checkpoints.py is a model's directory (directory.py), read by a process of its own (nursery.py, checkpoint_child.py);
bodies.py is what a gateway is sent, over a real connection (gateway_child.py). Inputs are made by mutation.py, which
knows MessagePack (packing.py), JSON (jsonish.py) and headers, out of trees.py. plain.py draws them from a seed;
guided.py has libFuzzer draw them by what they reach; corpus.py keeps those worth keeping, which minimise.py chooses,
and campaign.py runs many processes (memory.py, last_words.py).
"""
