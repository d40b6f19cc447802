"""Kernels of our own for CPUs, in C++: how they are compiled, found and called.

No compiler is needed to run: a library came with the package, was compiled before, or is compiled at first use, and
where there is none, torch computes the same. `processor.py` says which kernels this processor runs, `compiler.py`
compiles them, `library.py` finds them.
"""
