"""Linear queries over the cells of one marginal.

Every query is a matrix whose rows are a scalar times a row of zeros and ones (`Sparse` may hold any numbers,
but then only the estimator takes it, not the session). `product` and `transpose` leave the scalars out: the
session measures whole counts and carries a row's scalar in the noise, `sigma / scalar`. So a query knows

* `cells`, `rows`: its shape;
* `product(x)`: one number per row, exact on int64;
* `transpose(r)`: one number per cell, exact on int64;
* `coef2`: the squares of the scalars as integer numerators and denominators;
* `column_norm2()`: the largest over cells of the sum of squared scalars in its column, as an exact
  `Fraction`: the square of the L2 sensitivity to one unit of weight;
* `blocks(clique)`: the same rows as sums and differences of cells of plain marginals, for the
  estimator.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from ._util.lazy import sp
from .domain import Clique
from .errors import MeasurementError

Coef2 = tuple[np.ndarray, np.ndarray]


class Entries(NamedTuple):
    """A matrix: entry i is `value[i]`, in row `line[i]` and column `cell[i]`."""

    rows: int
    line: np.ndarray
    cell: np.ndarray
    value: np.ndarray


class Block(NamedTuple):
    """Rows over plain marginals: row r is `m[plus][cells[r]] - sum of m[minus][fine[j]] over j with at[j] ==
    r`.

    `cells is None` means every cell of `plus`, in order. A block from a matrix has `matrix` instead, applied
    to `m[plus]`. Blocks with equal `key` are the same linear functionals, so their measurements can be
    averaged.
    """

    key: tuple
    plus: Clique
    cells: np.ndarray | None = None
    minus: Clique | None = None
    fine: np.ndarray | None = None
    at: np.ndarray | None = None
    matrix: Entries | None = None


@runtime_checkable
class Query(Protocol):
    cells: int
    rows: int

    def product(self, x: np.ndarray) -> np.ndarray: ...
    def transpose(self, r: np.ndarray) -> np.ndarray: ...
    @property
    def coef2(self) -> Coef2: ...
    def column_norm2(self) -> Fraction: ...
    def blocks(self, clique: Clique) -> Iterator[Block]: ...


class _Base:
    """What all queries share: the scalars as floats, and the column norm from the transpose."""

    cells: int
    rows: int

    def transpose(self, r: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    @property
    def coef2(self) -> Coef2:
        ones = np.ones(self.rows, np.int64)
        return ones, ones

    def single_cells(self) -> np.ndarray:
        """Flat cell numbers of the leading rows that are single cells of the marginal."""
        return np.empty(0, np.int64)

    def row_sigma(self, sigma: float) -> np.ndarray:
        """The noise per row, in the units of `product`, that equals noise `sigma` on the scaled rows."""
        num, den = self.coef2
        return sigma * np.sqrt(den / num)

    def column_norm2(self) -> Fraction:
        num, den = self.coef2
        turns = np.flatnonzero((num[1:] != num[:-1]) | (den[1:] != den[:-1]))
        runs = np.append(turns, self.rows - 1) if self.rows else turns  # the last row of each run of equals
        scalars = set(zip(num[runs].tolist(), den[runs].tolist()))
        common = math.lcm(*(d for _, d in scalars))
        scaled = [n * (common // d) for n, d in scalars]
        if max(scaled, default=0) * max(self.rows, 1) >= 2**62:
            raise MeasurementError("the query's weights are too fine to add up; use smaller fractions")
        weights = num * (common // den)
        columns = self.transpose(weights.astype(np.int64))
        return Fraction(int(columns.max(initial=0)), common)

    def _check(self, x: np.ndarray, length: int, what: str) -> np.ndarray:
        x = np.asarray(x).reshape(-1)
        if x.shape[0] != length:
            raise MeasurementError(f"{type(self).__name__}: expected {length} {what}, got {x.shape[0]}")
        return x

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.rows} x {self.cells})"


class Identity(_Base):
    """Every single cell."""

    def __init__(self, cells: int):
        self.cells = self.rows = int(cells)

    def product(self, x):
        return self._check(x, self.cells, "cells")

    def transpose(self, r):
        return self._check(r, self.rows, "rows")

    def single_cells(self):
        return np.arange(self.cells)

    def blocks(self, clique):
        yield Block(("cells", frozenset(clique), None), clique)


class Weighted(Identity):
    """Every single cell, cell i scaled by sqrt(num[i] / den[i])."""

    def __init__(self, num: Sequence[int], den: Sequence[int] | int = 1):
        self._num = np.array(num, np.int64).reshape(-1)
        self._den = np.broadcast_to(np.array(den, np.int64), self._num.shape)
        if (self._num <= 0).any() or (self._den <= 0).any():
            raise MeasurementError("Weighted: the squared weights must be positive fractions")
        super().__init__(self._num.shape[0])

    @property
    def coef2(self):
        return self._num, self._den


class Sparse(_Base):
    """Any `scipy.sparse` matrix (rows x cells), divided by `unit`. The session takes it only if its entries
    are 0 and 1, or, with a unit above 1, whole numbers from -unit to unit."""

    def __init__(self, matrix, unit: int = 1):
        self.matrix, self.unit = sp.csr_array(matrix), int(unit)
        if not 1 <= self.unit <= 1 << 20:
            raise MeasurementError(f"Sparse: unit must be in 1..2^20, got {unit!r}")
        self.matrix.sum_duplicates()
        self.rows, self.cells = map(int, self.matrix.shape)
        data = self.matrix.data
        if not np.isfinite(data).all():
            raise MeasurementError("Sparse: the matrix contains NaN or infinity")
        least = 0 if self.unit == 1 else -self.unit
        self._integer = bool(((data == np.rint(data)) & (data >= least) & (data <= self.unit)).all())

    @property
    def coef2(self):
        return np.ones(self.rows, np.int64), np.full(self.rows, self.unit**2, np.int64)

    def product(self, x):
        x = self._check(x, self.cells, "cells")
        if x.dtype.kind in "iu":
            self._need_binary()
            if self.unit > 1 and float(np.abs(x).sum(dtype=np.float64)) * self.unit >= 2.0**62:
                raise MeasurementError("Sparse: the sums exceed 64 bits; use a smaller unit")
            return self.matrix.astype(np.int64) @ x
        return self.matrix @ x

    def transpose(self, r):
        r = self._check(r, self.rows, "rows")
        if r.dtype.kind in "iu":
            self._need_binary()
            return self.matrix.T.astype(np.int64) @ r
        return self.matrix.T @ r

    def single_cells(self):
        ends = self.matrix.indptr
        several = np.flatnonzero(np.diff(ends) != 1)
        leading = int(several[0]) if several.size else self.rows
        other = np.flatnonzero(self.matrix.data[:leading] != 1)
        return self.matrix.indices[: int(other[0]) if other.size else leading].astype(np.int64)

    def _need_binary(self):
        if not self._integer:
            raise MeasurementError("Sparse: exact counting needs zeros and ones; weights go into the noise")

    def squared(self):
        """The matrix of squared entries, without the unit."""
        matrix = self.matrix.astype(np.float64)
        return matrix.multiply(matrix)

    def column_norm2(self):
        if self._integer:  # entries are at most 2^20
            columns = self.squared().astype(np.int64).sum(axis=0)
            return Fraction(int(np.max(columns, initial=0)), self.unit**2)
        if self.unit > 1:
            self._need_binary()
        columns = self.matrix.tocsc()
        spans = pairwise(columns.indptr)
        norms = (sum((Fraction(float(v)) ** 2 for v in columns.data[a:b]), Fraction(0)) for a, b in spans)
        return max(norms, default=Fraction(0))

    def blocks(self, clique):
        m = self.matrix
        key = _digest(m.indptr, m.indices, m.data)
        line = np.repeat(np.arange(self.rows), np.diff(m.indptr))
        yield Block(("matrix", clique, key), clique, matrix=Entries(self.rows, line, m.indices, m.data))


class Binned(_Base):
    """Aggregates: axis i of the marginal is grouped by `maps[i]` (code -> bin), None leaves an axis as it
    is."""

    def __init__(self, shape: Sequence[int], maps: Sequence[Sequence[int] | np.ndarray | None]):
        if len(maps) != len(shape):
            raise MeasurementError(f"Binned: expected one map per axis ({len(shape)}), got {len(maps)}")
        axes, sizes = [], []
        for i, (n, bins) in enumerate(zip(shape, maps)):
            axis = np.arange(n, dtype=np.int64) if bins is None else np.asarray(bins, np.int64)
            if axis.shape != (n,) or (axis < 0).any():
                raise MeasurementError(f"Binned: axis {i}: expected {n} bin numbers >= 0")
            axes.append(axis)
            sizes.append(int(axis.max()) + 1)
        self.shape, self.bins, self.maps = tuple(shape), tuple(sizes), tuple(axes)
        self.cells, self.rows = math.prod(shape), math.prod(sizes)
        index = np.zeros((), np.int64)
        for axis, size in zip(axes, sizes):
            index = index[..., None] * size + axis
        self._row = index.reshape(-1)

    def product(self, x):
        x = self._check(x, self.cells, "cells")
        out = np.zeros(self.rows, x.dtype)
        np.add.at(out, self._row, x)
        return out

    def transpose(self, r):
        return self._check(r, self.rows, "rows")[self._row]

    def blocks(self, clique):
        matrix = Entries(self.rows, self._row, np.arange(self.cells), np.ones(self.cells))
        yield Block(("matrix", clique, _digest(self._row)), clique, matrix=matrix)


@dataclass(frozen=True, eq=False)
class Grid:
    """Which cells of one marginal are measured one by one, and the grids of its children.

    `fine` holds flat cell numbers, ascending. `children` are the grids of the clique's subsets with one
    attribute less (none for a single attribute, whose cells must then all be fine). Every fine cell must
    project to a fine cell of each child: this is what makes a remainder's remainder independent of the level
    above (see `AdaGrid`). `rests` are the remainders of the children, made once for all queries that ask for
    them; their `at` says which fine cell of the child lies below each fine cell of this grid.
    """

    clique: Clique
    shape: tuple[int, ...]
    fine: np.ndarray
    children: tuple[Grid, ...] = ()
    key: str = field(init=False, repr=False)
    rests: tuple[Block, ...] = field(init=False, repr=False)

    def __post_init__(self):
        rests, own = [], frozenset(self.clique)
        fine = np.ascontiguousarray(self.fine, np.int64)
        object.__setattr__(self, "fine", fine)
        object.__setattr__(self, "key", _digest(fine))
        cells = math.prod(self.shape)
        if fine.size and (fine[0] < 0 or fine[-1] >= cells or (np.diff(fine) <= 0).any()):
            raise MeasurementError(f"Grid {self.clique}: fine cells must be ascending in 0..{cells - 1}")
        if not self.children and fine.size != cells:
            raise MeasurementError(f"Grid {self.clique}: without children every cell must be fine")
        for child in self.children:
            if not set(child.clique) < set(self.clique):
                raise MeasurementError(f"Grid {self.clique}: {child.clique} is not contained in it")
            if tuple(child.shape) != tuple(self.shape[self.clique.index(a)] for a in child.clique):
                raise MeasurementError(f"Grid {self.clique}: {child.clique} has another size of an attribute")
            projected = self.project(fine, child)
            spot = np.searchsorted(child.fine, projected)
            if (spot >= child.fine.size).any() or (child.fine[spot] != projected).any():
                raise MeasurementError(f"Grid {self.clique}: a fine cell is not fine in {child.clique}")
            key = ("rest", own, frozenset(child.clique), self.key, child.key)
            rests.append(Block(key, child.clique, child.fine, self.clique, fine, spot))
        object.__setattr__(self, "rests", tuple(rests))

    def project(self, cells: np.ndarray, child: Grid) -> np.ndarray:
        """Flat numbers, in the child's marginal, of the cells that these cells project to."""
        return project_cells(cells, self.clique, self.shape, child.clique, child.shape)


class AdaGrid(_Base):
    """AdaGrid's query of one marginal S: fine cells one by one; of the rest, each child's own query, scaled.

    Rows: the fine cells of S; then for each child T the rows T's own query would ask of the remainder (S
    without its fine cells), scaled by 1/sqrt(number of children), recursively. Every column has L2 norm
    exactly 1.

    The matrix is never built. Since a fine cell of S lies over fine cells of T, the remainder of S has
    `m_T[t] - sum of m_S over the fine cells above t` at a fine cell t, and `m_T[t]` itself elsewhere; so the
    next level down asks the same of m_T as T's own query did, whichever S it came from. Each level is a
    gather and a small scatter.
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
        yield Block(("cells", frozenset(grid.clique), fine if fine is None else grid.key), grid.clique, fine)
        yield from (rest for _, _, rest, _ in self._steps)


def as_query(query, cells: int) -> Query:
    """The query that a measurement's `query` field stands for (None: every single cell)."""
    if query is None:
        return Identity(cells)
    if _Base in type(query).__mro__ or isinstance(query, Query):  # a protocol is slow to check
        return query
    from scipy.sparse import issparse

    if issparse(query) or isinstance(query, np.ndarray):
        return Sparse(query)
    raise MeasurementError(f"query: expected None, a sparse matrix or a query, got {type(query).__name__}")


def fresh(query, made: dict[int, tuple]):
    """A query made again from the data of one of these classes, so that what was checked when it was made
    holds, and nothing that happens to the original afterwards, or happened to its methods, matters. `made`
    remembers what was made."""
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


def _descend(grid: Grid, share: Fraction) -> Iterator[tuple[Grid, Grid, Block, Fraction]]:
    """(parent, child, the child's remainder, squared scalar) of every part below the fine cells, in the
    order of the rows."""
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


def _digest(*arrays: np.ndarray) -> str:
    h = hashlib.sha256()
    for array in arrays:
        h.update(str((array.dtype, array.shape)).encode())
        h.update(np.ascontiguousarray(array).tobytes())
    return h.hexdigest()[:24]
