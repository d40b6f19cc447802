"""Headrace under online traffic and stress: a nats-server, a worker and clients, each in processes of their own.

overload.py, mix.py, floor.py, large.py, fairness.py and gateway.py are the parts that online_run.py runs; traffic.py and
http_traffic.py are what clients' processes run; fleet.py starts what serves them. The others say what a word means:
plan.py, call.py, tally.py, arrivals.py, recovery.py, memory.py, cores.py, finding.py.
"""
