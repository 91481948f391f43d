"""The estimator: measurements in, a graphical model out, rows from it.

`estimate` fits (over `lower`, `tree`, `layout`, `optimise`, `staged`), `total` estimates the number of rows,
`adjust` moves tables to given sums, `model` answers and samples, `store` keeps arrays in a file. Never sees
private data: imports `domain`, `queries`, `measurement` and the kernels; no schema, no table, nothing of
privacy.
"""

from .estimate import fit
from .model import Model

__all__ = ["Model", "fit"]
