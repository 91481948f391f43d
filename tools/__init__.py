"""Development scripts: mutation testing (`tools.mutants`), kernels on the other processor (`tools.cross`).

Neither is part of the suite; docs/reliability.md says when to run them.
"""
