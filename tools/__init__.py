"""Development scripts: mutation testing, kernels on the other processor, attacks, soaks, fuzzing,
the tables of the noise kernel.

Each is a command (`python -m tools.mutants`); none is part of the suite.
docs/research/reliability.md has the results.
"""
