"""What a query is, and the queries that are one matrix: cells, weighted cells, any sparse matrix,
bins."""

import hashlib
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from .._util.lazy import sp
from ..domain import Clique
from ..errors import MeasurementError

Coef2 = tuple[np.ndarray, np.ndarray]
"""(numerators, denominators) of the squared scalar of each row: exact, as roots are not."""


class Entries(NamedTuple):
    """A matrix: entry i is `value[i]`, in row `line[i]` and column `cell[i]`."""

    rows: int
    line: np.ndarray
    cell: np.ndarray
    value: np.ndarray


class Block(NamedTuple):
    """Rows over plain marginals: row r is `m[plus][cells[r]] - sum of m[minus][fine[j]] over j with
    at[j] == r`.

    `cells is None` means every cell of `plus`, in order. A block from a matrix has `matrix`
    instead, applied to `m[plus]`. Blocks with equal `key` are the same linear functionals, so their
    measurements can be averaged.
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
    """Linear rows over the cells of one marginal: each is a scalar times a row of whole numbers."""

    cells: int
    rows: int

    def product(self, x: np.ndarray) -> np.ndarray:
        """The rows' answers on cells `x`, without their scalars."""
        ...

    def transpose(self, r: np.ndarray) -> np.ndarray:
        """The transpose of `product`: a number per cell from a number per row."""
        ...

    @property
    def coef2(self) -> Coef2:
        """The squared scalar of each row."""
        ...

    def column_norm2(self) -> Fraction:
        """The largest sum, over the rows that cover a cell, of their squared scalars: the squared L2
        sensitivity to one row of the table."""
        ...

    def blocks(self, clique: Clique) -> Iterator[Block]:
        """The same rows over plain marginals of the clique's columns."""
        ...


class QueryBase:
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
        """The noise per row, in the units of `product`, that equals noise `sigma` on the scaled
        rows."""
        num, den = self.coef2
        return sigma * np.sqrt(den / num)

    def column_norm2(self) -> Fraction:
        num, den = self.coef2
        turns = np.flatnonzero((num[1:] != num[:-1]) | (den[1:] != den[:-1]))
        # The last row of each run of equals.
        runs = np.append(turns, self.rows - 1) if self.rows else turns
        scalars = set(zip(num[runs].tolist(), den[runs].tolist()))
        common = math.lcm(*(d for _, d in scalars))
        scaled = [n * (common // d) for n, d in scalars]
        if max(scaled, default=0) * max(self.rows, 1) >= 2**62:
            raise MeasurementError(
                "the query's weights are too fine to add up exactly; use smaller fractions"
            )
        weights = num * (common // den)
        columns = self.transpose(weights.astype(np.int64))
        return Fraction(int(columns.max(initial=0)), common)

    def _check(self, x: np.ndarray, length: int, what: str) -> np.ndarray:
        x = np.asarray(x).reshape(-1)
        if x.shape[0] != length:
            raise MeasurementError(
                f"{type(self).__name__}: expected {length} {what}, got {x.shape[0]}"
            )
        return x

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.rows} x {self.cells})"


class Identity(QueryBase):
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


class Sparse(QueryBase):
    """Any `scipy.sparse` matrix (rows x cells), divided by `unit`. The session takes it only if its
    entries are 0 and 1, or, with a unit above 1, whole numbers from -unit to unit."""

    def __init__(self, matrix, unit: int = 1):
        self.matrix = sp.csr_array(matrix)
        self.unit = int(unit)
        if not 1 <= self.unit <= 1 << 20:
            raise MeasurementError(f"Sparse: unit must be in 1..2^20, got {unit!r}")
        self.matrix.sum_duplicates()
        self.rows, self.cells = map(int, self.matrix.shape)
        data = self.matrix.data
        if not np.isfinite(data).all():
            raise MeasurementError("Sparse: the matrix contains NaN or infinity")
        least = 0 if self.unit == 1 else -self.unit
        self._integer = bool(
            ((data == np.rint(data)) & (data >= least) & (data <= self.unit)).all()
        )

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
            raise MeasurementError(
                "Sparse: exact counting needs a matrix of zeros and ones; put the weights into "
                "the noise scale instead"
            )

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
        norms = (
            sum((Fraction(float(v)) ** 2 for v in columns.data[a:b]), Fraction(0)) for a, b in spans
        )
        return max(norms, default=Fraction(0))

    def blocks(self, clique):
        m = self.matrix
        key = digest(m.indptr, m.indices, m.data)
        line = np.repeat(np.arange(self.rows), np.diff(m.indptr))
        yield Block(
            ("matrix", clique, key), clique, matrix=Entries(self.rows, line, m.indices, m.data)
        )


class Binned(QueryBase):
    """Aggregates: axis i of the marginal is grouped by `maps[i]` (code -> bin), None leaves an axis
    as it is."""

    def __init__(self, shape: Sequence[int], maps: Sequence[Sequence[int] | np.ndarray | None]):
        if len(maps) != len(shape):
            raise MeasurementError(
                f"Binned: expected one map per axis ({len(shape)}), got {len(maps)}"
            )
        axes = []
        sizes = []
        for i, (n, bins) in enumerate(zip(shape, maps)):
            axis = np.arange(n, dtype=np.int64) if bins is None else np.asarray(bins, np.int64)
            if axis.shape != (n,) or (axis < 0).any():
                raise MeasurementError(f"Binned: axis {i}: expected {n} bin numbers >= 0")
            axes.append(axis)
            sizes.append(int(axis.max()) + 1)
        self.shape = tuple(shape)
        self.bins = tuple(sizes)
        self.maps = tuple(axes)
        self.cells = math.prod(shape)
        self.rows = math.prod(sizes)
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
        yield Block(("matrix", clique, digest(self._row)), clique, matrix=matrix)


def as_query(query, cells: int) -> Query:
    """The query that a measurement's `query` field stands for (None: every single cell)."""
    if query is None:
        return Identity(cells)
    if QueryBase in type(query).__mro__ or isinstance(query, Query):  # a protocol is slow to check
        return query
    from scipy.sparse import issparse

    if issparse(query) or isinstance(query, np.ndarray):
        return Sparse(query)
    raise MeasurementError(
        "query: expected None, a scipy.sparse matrix or a query of fastdp.queries, got "
        f"{type(query).__name__}"
    )


def digest(*arrays: np.ndarray) -> str:
    h = hashlib.sha256()
    for array in arrays:
        h.update(str((array.dtype, array.shape)).encode())
        h.update(np.ascontiguousarray(array).tobytes())
    return h.hexdigest()[:24]
