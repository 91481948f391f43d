"""Mutation testing: does the suite notice small faults?

    python -m tests.mutants --seed 1 --count 100

`sites` finds what can be changed in a source file, `places` says which files are mutated and which tests
concern each, `reach` records which tests reach which line (`recorder`, a pytest plugin), `concerns` says
which lines a change is about, `trial` runs those tests (`chosen`, another plugin) on a copy of the tree with
one change, `__main__` draws and counts. Mutants that change nothing that a caller could see are named, with
the reason, in equivalent.toml. See docs/reliability.md.
"""
