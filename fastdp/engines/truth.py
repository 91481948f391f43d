"""Counting without privacy: public tables, and tables the caller hands over as the truth.

Nothing here is differentially private. Mechanisms cannot reach this module.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from ..domain import Clique
from ..errors import UsageError
from ..tables.table import Table
from .local import local


def marginals(
    table: Table,
    cliques: Sequence[Clique],
    clip: int | None = None,
    threads: int | None = None,
    sparse: bool | None = None,
    recode: Mapping[str, np.ndarray] | None = None,
) -> dict:
    """Exact marginals of a table the caller hands over as the truth: NOT private, never to be
    released as such.

    Returns {clique: int64 array of shape domain.shape(clique)} in units of 2^-20 rows. Each row of
    a user with R rows weighs min(1, clip/R) rounded down; with clip=None, these are plain counts. A
    clique of more than 2^27 cells comes as a `SparseMarginal` (sparse=True: all do; sparse=False:
    none, at your memory's risk). recode: count rows whose code c of the named column became
    `recode[name][c]`.
    """
    if not isinstance(table, Table):
        raise UsageError(
            "marginals(table, cliques): expected a fastdp.Table (see fastdp.read) as the "
            f"first argument, got a {type(table).__name__}"
        )
    return local(table, threads).marginals(cliques, clip, sparse, recode=recode)
