"""Mutation testing: does the suite notice small faults?

    python -m tools.mutants --seed 1 --count 100

`sites` finds what can be changed in a source file, `places` says which files are mutated, `reach`
records which tests reach which line (`recorder`, a pytest plugin), `concerns` says which lines a
change is about, `trial` runs those tests (`chosen`, another plugin) on a copy of the tree with one
change, `__main__` draws and counts. Some survivors change nothing that a caller could see: read
them one by one.
"""
