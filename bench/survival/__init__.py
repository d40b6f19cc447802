"""A fleet under faults, with a proof from its history: whatever breaks, each call ends once and says what is true.

worker.py is a worker whose ailing_engine.py an ailment.py makes ill; its ledger.py says what became of all that it was
handed. caller.py calls, by a wish.py, about texts.py, and writes a history.py; checker.py proves from histories,
ledgers and digests.py what a fleet promises. wiretap.py listens to whom replies go, stranger.py sends what forger.py
makes, by raw_line.py what no client would write. clock.py sets the clocks of processes, passes.py and issuer.py
give them credentials that expire; errand.py runs those with a plan.

A cluster.py has nodes (node.py: process_node.py, or container_node.py of containers.py, by settings.py) in places
(place.py), between which links.py break, with stores that store.py damages. A fleet.py of workers, callers.py and a
bulk job is broken by a plan of faults.py, of kinds that are possible.py: breaking.py does each breakage.py when it is
due. trial.py is all of it together, queues.py what is left in the end, seeds.py those that have failed, gap.py the time
without an answer when one server or worker is lost.
"""
