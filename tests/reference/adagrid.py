"""AdaGrid's query matrix, written out literally from its definition: the slow twin of
`queries.AdaGrid`."""

import numpy as np


def explicit(grid, scaled=False):
    """Dense matrix of the query; rows in the order of `queries.AdaGrid`, with or without the
    scalars."""
    cells = int(np.prod(grid.shape))
    return _rows(grid, np.ones(cells, bool), np.arange(cells), grid, scaled, 1.0, cells)


def _rows(top, alive, position, grid, scaled, scalar, cells):
    """Rows asked by `grid` of those top cells that are alive; position[i] = the cell of `grid` that
    top cell i is in."""
    rows = []
    for cell in grid.fine:
        rows.append(((position == cell) & alive).astype(float) * (scalar if scaled else 1.0))
    rest = alive & ~np.isin(position, grid.fine)
    for child in grid.children:
        codes = dict(zip(top.clique, np.unravel_index(np.arange(cells), top.shape)))
        below = np.ravel_multi_index([codes[a] for a in child.clique], child.shape)
        factor = scalar / np.sqrt(len(grid.children))
        rows.extend(_rows(top, rest, below, child, scaled, factor, cells))
    return np.array(rows).reshape(-1, cells)
