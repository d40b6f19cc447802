"""A fleet under mixed load for as long as one likes: does anything grow, drift, reconnect or get lost?

crew.py is all that runs, load.py all that is asked of it, by jobs.py for re-indexing. watch.py looks at it meanwhile,
page.py reads what it says of itself, slope.py knows what flat is, drift.py what of latencies, accounts.py asks workers
in the end what became of all that they were handed, and soak.py puts it together and judges.
"""
