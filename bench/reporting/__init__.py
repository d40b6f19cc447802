"""A result for people: in the terminal (console.py), as a page (markdown.py, plots/), in the README (readme.py).

What is compared with what is in ratios.py, what follows from it in verdicts.py, what tables hold in tables.py, how
numbers are written in words.py, and what files are called in names.py. They know a result, and nothing of how it came
about.
"""
