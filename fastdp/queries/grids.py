"""AdaGrid's queries: the likely cells of a marginal one by one, and what is left through its
subsets."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from ..domain import Clique
from ..errors import MeasurementError
from .linear import Block, QueryBase, digest


@dataclass(frozen=True, eq=False)
class Grid:
    """Which cells of one marginal are measured one by one, and the grids of its children.

    `fine` holds flat cell numbers, ascending. `children` are the grids of the clique's subsets with
    one attribute less. A single attribute has none, and all of its cells must be fine. Every fine
    cell must project to a fine cell of each child: this is what makes a remainder's remainder
    independent of the level above (see `AdaGrid`). `rests` are the remainders of the children, made
    once for all queries that ask for them. Their `at` says which fine cell of the child lies below
    each fine cell of this grid.
    """

    clique: Clique
    shape: tuple[int, ...]
    fine: np.ndarray
    children: tuple[Grid, ...] = ()
    key: str = field(init=False, repr=False)
    rests: tuple[Block, ...] = field(init=False, repr=False)

    def __post_init__(self):
        rests = []
        own = frozenset(self.clique)
        fine = np.ascontiguousarray(self.fine, np.int64)
        object.__setattr__(self, "fine", fine)
        object.__setattr__(self, "key", digest(fine))
        cells = math.prod(self.shape)
        if fine.size and (fine[0] < 0 or fine[-1] >= cells or (np.diff(fine) <= 0).any()):
            raise MeasurementError(
                f"Grid {self.clique}: fine cells must be ascending numbers in 0..{cells - 1}"
            )
        if not self.children and fine.size != cells:
            raise MeasurementError(f"Grid {self.clique}: without children every cell must be fine")
        for child in self.children:
            if not set(child.clique) < set(self.clique):
                raise MeasurementError(f"Grid {self.clique}: {child.clique} is not contained in it")
            if tuple(child.shape) != tuple(self.shape[self.clique.index(a)] for a in child.clique):
                raise MeasurementError(
                    f"Grid {self.clique}: {child.clique} has another size of an attribute"
                )
            projected = self.project(fine, child)
            spot = np.searchsorted(child.fine, projected)
            if (spot >= child.fine.size).any() or (child.fine[spot] != projected).any():
                raise MeasurementError(
                    f"Grid {self.clique}: a fine cell projects to a cell of "
                    f"{child.clique} that is not fine"
                )
            key = ("rest", own, frozenset(child.clique), self.key, child.key)
            rests.append(Block(key, child.clique, child.fine, self.clique, fine, spot))
        object.__setattr__(self, "rests", tuple(rests))

    def project(self, cells: np.ndarray, child: Grid) -> np.ndarray:
        """Flat numbers, in the child's marginal, of the cells that these cells project to."""
        return project_cells(cells, self.clique, self.shape, child.clique, child.shape)


class AdaGrid(QueryBase):
    """AdaGrid's query of one marginal S: fine cells one by one; of the rest, each child's own
    query, scaled.

    Rows: first the fine cells of S. Then, for each child T, the rows that T's own query would ask
    of the remainder (S without its fine cells), scaled by 1/sqrt(number of children), recursively.
    Every column has L2 norm exactly 1.

    The matrix is never built. A fine cell of S lies over fine cells of T. So the remainder of S has
    `m_T[t] - sum of m_S over the fine cells above t` at a fine cell t, and `m_T[t]` itself
    elsewhere. The next level down therefore asks the same of m_T as T's own query did, whichever S
    it came from. Each level is a gather and a small scatter.
    """

    def __init__(self, grid: Grid):
        self.grid = grid
        self.cells = math.prod(grid.shape)
        self._steps = list(_descend(grid, Fraction(1)))
        sizes = [grid.fine.size] + [child.fine.size for _, child, _, _ in self._steps]
        self._offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        self.rows = int(self._offsets[-1])

    @property
    def coef2(self):
        shares = [Fraction(1)] + [share for _, _, _, share in self._steps]
        sizes = np.diff(self._offsets)
        num = np.repeat([s.numerator for s in shares], sizes).astype(np.int64)
        den = np.repeat([s.denominator for s in shares], sizes).astype(np.int64)
        return num, den

    def product(self, x):
        x = self._check(x, self.cells, "cells")
        marginals = {self.grid.clique: x}
        out = np.empty(self.rows, x.dtype)
        out[: self.grid.fine.size] = x[self.grid.fine]
        for i, (parent, child, rest, _) in enumerate(self._steps):
            above = marginals[parent.clique]
            if child.clique not in marginals:
                marginals[child.clique] = _project(above, parent, child)
            rows = marginals[child.clique][child.fine]
            np.subtract.at(rows, rest.at, above[parent.fine])
            out[self._offsets[i + 1] : self._offsets[i + 2]] = rows
        return out

    def transpose(self, r):
        r = self._check(r, self.rows, "rows")
        grids = {self.grid.clique: self.grid}
        total = {self.grid.clique: np.zeros(self.cells, r.dtype)}
        source = {}
        total[self.grid.clique][self.grid.fine] = r[: self.grid.fine.size]
        for i, (parent, child, rest, _) in enumerate(self._steps):
            part = r[self._offsets[i + 1] : self._offsets[i + 2]]
            if child.clique not in total:
                total[child.clique] = np.zeros(math.prod(child.shape), r.dtype)
                grids[child.clique] = child
                source[child.clique] = parent.clique
            total[child.clique][child.fine] += part
            total[parent.clique][parent.fine] -= part[rest.at]
        for clique in sorted(source, key=len):
            above = grids[source[clique]]
            total[above.clique] += _expand(total[clique], above, grids[clique])
        return total[self.grid.clique]

    def single_cells(self):
        return self.grid.fine

    def blocks(self, clique):
        grid = self.grid
        fine = None if grid.fine.size == self.cells else grid.fine
        yield Block(
            ("cells", frozenset(grid.clique), fine if fine is None else grid.key), grid.clique, fine
        )
        yield from (rest for _, _, rest, _ in self._steps)


def _descend(grid: Grid, share: Fraction) -> Iterator[tuple[Grid, Grid, Block, Fraction]]:
    """(parent, child, the child's remainder, squared scalar) of every part below the fine cells, in
    the order of the rows."""
    for child, rest in zip(grid.children, grid.rests):
        part = share / len(grid.children)
        yield grid, child, rest, part
        yield from _descend(child, part)


def project_cells(cells, clique: Clique, shape, onto: Clique, onto_shape) -> np.ndarray:
    """Flat cell numbers of `clique`'s marginal as flat cell numbers of `onto`'s."""
    codes = dict(zip(clique, np.unravel_index(np.asarray(cells, np.int64), shape)))
    out = np.zeros(np.shape(cells), np.int64)
    for name, n in zip(onto, onto_shape):
        out = out * n + codes[name]
    return out


def _project(x: np.ndarray, parent: Grid, child: Grid) -> np.ndarray:
    keep = [a for a in parent.clique if a in child.clique]
    drop = tuple(i for i, a in enumerate(parent.clique) if a not in child.clique)
    summed = x.reshape(parent.shape).sum(axis=drop, dtype=x.dtype)
    return np.ascontiguousarray(summed.transpose([keep.index(a) for a in child.clique])).reshape(-1)


def _expand(x: np.ndarray, parent: Grid, child: Grid) -> np.ndarray:
    keep = [a for a in parent.clique if a in child.clique]
    ordered = x.reshape(child.shape).transpose([child.clique.index(a) for a in keep])
    shape = [n if a in child.clique else 1 for a, n in zip(parent.clique, parent.shape)]
    return np.broadcast_to(ordered.reshape(shape), parent.shape).reshape(-1)
