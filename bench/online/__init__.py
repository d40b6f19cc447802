"""Headrace under online traffic and stress: a nats-server, a worker and clients, each in processes of their own.

overload.py, mix.py, floor.py, large.py, gateway.py and fairness.py are the parts that online_run.py runs; traffic.py
and http_traffic.py are what clients' processes run, as plan.py says and driver.py does; fleet.py and gateway_process.py
(web_process.py) start what serves them. Each of the others has the word for its name: call.py, tally.py, arrivals.py,
capacity.py, left.py, recovery.py, memory.py, cores.py, amount.py, ground.py, finding.py, report.py, kept.py.
"""
