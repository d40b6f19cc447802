"""A fleet under faults, with a proof from its history: whatever breaks, each call ends once and says what is true.

worker.py is a worker whose ailing_engine.py an ailment.py makes ill; its ledger.py says what became of all that it was
handed. caller.py calls, about texts.py, and writes a history.py; checker.py proves from histories, ledgers and
digests.py what a fleet promises. wiretap.py listens to whom replies go, stranger.py sends what forger.py makes,
by raw_line.py what no client would write. clock.py sets the clocks of processes; errand.py runs those with a plan.
"""
