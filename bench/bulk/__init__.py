"""Bulk jobs at length and under faults: documents, a nats-server, workers and `headrace reindex`, each a process.

million.py, real.py, throughput.py and chaos.py are the parts that bulk_run.py runs, on ground.py. corpus.py makes the
documents; stand_in.py is the worker that answers with hashed.py's vectors, by stand_in_engine.py; oracle.py makes these
again and checker.py holds a sink against them. Each of the others has the word for its name.
"""
