"""The four suites: what is asked (plan.py), of whom (field.py), when (race.py), and whether it is right (judge.py).

They know contenders as processes that answer commands, and not what is inside.
"""
