"""Development scripts: mutation testing, kernels on the other processor, attacks, soaks, fuzzing.

Each is a command (`python -m tools.mutants`); none is part of the suite.
docs/research/reliability.md has the results.
"""
