"""Linear queries over the cells of one marginal.

Every query is a matrix whose rows are a scalar times a row of zeros and ones. (`Sparse` may hold
any numbers, but then only the estimator takes it, not the session.). `product` and `transpose`
leave the scalars out: the session measures whole counts and carries a row's scalar in the noise,
`sigma / scalar`. So a query knows

* `cells`, `rows`: its shape;
* `product(x)`: one number per row, exact on int64;
* `transpose(r)`: one number per cell, exact on int64;
* `coef2`: the squares of the scalars as integer numerators and denominators;
* `column_norm2()`: the largest over cells of the sum of squared scalars in its column, as an exact
  `Fraction`: the square of the L2 sensitivity to one unit of weight;
* `blocks(clique)`: the same rows as sums and differences of cells of plain marginals, for the
  estimator.
"""

import numpy as np

from ..errors import MeasurementError
from .grids import AdaGrid, Grid, project_cells
from .linear import Binned, Block, Coef2, Entries, Identity, Query, Sparse, Weighted, as_query

__all__ = [
    "AdaGrid",
    "Binned",
    "Block",
    "Coef2",
    "Entries",
    "Grid",
    "Identity",
    "Query",
    "Sparse",
    "Weighted",
    "as_query",
    "fresh",
    "project_cells",
]


def fresh(query, made: dict[int, tuple]):
    """A query made again from the data of one of these classes. So everything that was checked when
    it was made holds. Nothing that happens to the original afterwards, or happened to its methods,
    matters. `made` remembers what was made."""
    if id(query) not in made:
        made[id(query)] = (query, _remade(query, made))
    return made[id(query)][1]


def _remade(query, made: dict[int, tuple]):
    kind = type(query)
    if kind is Identity:
        return Identity(query.cells)
    if kind is Weighted:
        return Weighted(query._num, query._den)
    if kind is Sparse:
        return Sparse(query.matrix.copy(), query.unit)
    if kind is Binned:
        return Binned(query.shape, [np.array(axis) for axis in query.maps])
    if kind is AdaGrid:
        return AdaGrid(fresh(query.grid, made))
    if kind is Grid:
        children = tuple(fresh(child, made) for child in query.children)
        return Grid(tuple(query.clique), tuple(query.shape), np.array(query.fine), children)
    raise MeasurementError(f"expected a query of fastdp.queries, got {kind.__name__}")
