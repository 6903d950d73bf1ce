"""The parts of ``benchmarks/fuzz.py``: what is mutated, how, and how a failure is found and made small."""
