"""Calibration: what a device was measured to do with a model, and the budgets that follow from it.

The measuring: plan.py says which batches, measure.py runs them, cost.py fits a law to them, choose.py picks budgets by
it, calibration.py is the record of it all, and run.py puts them in this order. The keeping: store.py and document.py.
The use: here.py says what is to be run and on what, loader.py loads an engine by what is stored for that. The showing:
summary.py, picture.py, terminal.py.
"""
