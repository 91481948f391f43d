"""The best linear unbiased estimate of one marginal from every released one, with exact Gaussian
errors.

All noise is Gaussian and independent from cell to cell and from measurement to measurement. A
marginal over a superset of the wanted columns gives, by summing, an independent answer to every
wanted cell; these are averaged by inverse variance. A marginal that shares only some of the
columns, or counts codes together, says what sums of wanted cells are. With v the variances after
averaging, A the 0/1 matrix of those sums, y their answers and R their variances, the estimate x
becomes

    x + V A' M^-1 (y - A x),     covariance  V - V A' M^-1 A V,     V = diag(v),  M = A V A' + diag(R),

which is exact (conditioning of a Gaussian): the interval covers at its level whatever the table is.

Columns of two values may have contrasts in place of marginals. These are further rows of A, with entries
1, -1 and 0. If nothing else is over all wanted columns, but contrasts of all their subsets are, then x
starts with variances that are VAGUE times the largest of R: what this adds to an error is one part in
VAGUE of it. Of cells with the sign 0, contrasts say nothing. They have no more rows than the code of
their column with that sign, so they start at 0 with what the 1-way says at most, as their error.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import combinations
from typing import Any

import numpy as np

from .._util.lazy import sp
from ..domain import Clique
from .evidence import Contrast, Contrasts, Maps, Marginal

VAGUE = 1e4
"""Variance of a cell of which only sums are known, relative to the largest variance of a sum."""
Matrix = Any
"""A numpy array, or a sparse one of scipy, which has no types."""
Sums = tuple[list[np.ndarray | None], np.ndarray, np.ndarray]
"""Measured sums of cells: the group of each position by axis (None: summed over), precisions, and
answers times precisions."""

MOST_SUMS = 4000
"""Sums of cells that one estimate takes in; of more, those over the most columns are left out,
which widens intervals and leaves them valid."""
CHUNK = 1 << 24
"""Numbers in memory at once while variances are worked out."""
FEW = 1 << 16
"""Entries up to which a matrix is dense. Small runs then need no scipy, whose modules for sparse
matrices and linear algebra take a quarter of a second to import."""


@dataclass(frozen=True, eq=False)
class Table:
    """Estimated rows in the cells over `axes`, flattened, and the covariance of their errors.

    `maps`: as in `Marginal`. `spread` holds v; `factor` holds L^-1 A V with M = L L', or None.
    `known`: which cells have an estimate. `basis` says what the errors are: "measured" (noise,
    exact) or "model". `scale`: what the cells were multiplied by.
    """

    axes: Clique
    maps: Maps
    x: np.ndarray
    spread: np.ndarray
    factor: tuple[np.ndarray, Matrix] | None = None
    known: np.ndarray | None = None
    basis: str = "measured"
    inflation: dict[str, float] = field(default_factory=dict)
    scale: np.ndarray | float = 1.0

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(int(m.max()) + 1 for m in self.maps)

    def variances(self, weights: sp.csr_array, less: np.ndarray | None = None) -> np.ndarray:
        """Variance of each row of `weights` (functionals x cells) applied to the cells. With
        `less`, it is that of row i minus less[i] times the sum of all cells."""
        every = None if less is None else self._pulled(np.ones((1, self.x.size)))[:, 0]
        out = np.asarray(weights.power(2) @ self.spread).reshape(-1)
        if less is not None:
            out += less * less * self.spread.sum() - 2 * less * (weights @ self.spread)
        step = max(1, CHUNK // max(1, 1 if self.factor is None else self.factor[0].shape[0]))
        for start in range(0, weights.shape[0], step) if self.factor is not None else ():
            pulled = self._pulled(weights[start : start + step])
            if less is not None and every is not None:
                pulled = pulled - np.multiply.outer(every, less[start : start + step])
            out[start : start + step] -= np.square(pulled).sum(0)
        return np.maximum(out, 0.0)

    def cell_variances(self) -> np.ndarray:
        """Variance of each single cell."""
        out = self.spread.copy()
        if self.factor is None:
            return out
        lower, sums = self.factor
        if isinstance(sums, np.ndarray):
            out -= np.square(_solve(lower, sums)).sum(0)
        else:
            out -= _quadratic(_inverse(lower), sums)
        return np.maximum(out, 0.0)

    def scaled(self, by: np.ndarray, noise: float) -> Table:
        """The table with its cells times `by`, and `noise` times their variances."""
        root = by * noise**0.5
        pulled = None if self.factor is None else (self.factor[0], _times(self.factor[1], root))
        return replace(self, x=self.x * by, spread=self.spread * root**2, factor=pulled, scale=by)

    def _pulled(self, weights: Matrix) -> np.ndarray:
        """L^-1 A V w for every row w: what the sums take off the variance is its square."""
        if self.factor is None:
            return np.zeros((0, weights.shape[0]))
        lower, sums = self.factor
        return _solve(lower, _dense(sums @ weights.T))


def sum_matrix(groups: Sequence[np.ndarray], sizes: Sequence[int]) -> Matrix:
    """Rows of zeros and ones, sums x cells: for each partition `groups[i]` (cell -> group) its
    `sizes[i]` sums."""
    first = np.cumsum([0, *sizes])
    lines = np.concatenate([g + at for g, at in zip(groups, first[:-1], strict=True)])
    columns = np.tile(np.arange(groups[0].size), len(groups))
    shape = int(first[-1]), groups[0].size
    if shape[0] * shape[1] <= FEW:
        out = np.zeros(shape)
        out[lines, columns] = 1.0
        return out
    return sp.csr_array((np.ones(lines.size), (lines, columns)), shape=shape)


def factor(matrix: Matrix, v: np.ndarray, errors: np.ndarray | float) -> tuple[np.ndarray, Matrix]:
    """L and A V of sums A (rows of `matrix`) of cells with variances `v`, known up to variances
    `errors`: L L' = A V A' + diag(errors)."""
    scaled = _times(matrix, v)
    middle = _dense(scaled @ matrix.T)
    middle[np.diag_indices_from(middle)] += errors
    return np.linalg.cholesky(middle), scaled


def _times(matrix: Matrix, v: np.ndarray) -> Matrix:
    return matrix * v if isinstance(matrix, np.ndarray) else matrix.multiply(v[None, :]).tocsr()


def _dense(matrix: Matrix) -> np.ndarray:
    return matrix if isinstance(matrix, np.ndarray) else matrix.toarray()


def _solve(lower: np.ndarray, right: np.ndarray, transposed: bool = False) -> np.ndarray:
    """L^-1 right, or L'^-1 right."""
    if lower.size <= FEW:
        return np.linalg.solve(lower.T if transposed else lower, right)
    from scipy.linalg import solve_triangular

    return solve_triangular(lower, right, lower=True, trans="T" if transposed else "N")


def _inverse(lower: np.ndarray) -> np.ndarray:
    """(L L')^-1."""
    from scipy.linalg.lapack import dpotri

    half = np.tril(dpotri(lower, lower=1)[0])
    return half + np.tril(half, -1).T


def _quadratic(inverse: np.ndarray, columns: Matrix) -> np.ndarray:
    """c' inverse c for every column c of a sparse matrix. A cell is in one sum of each partition,
    so a column has as few entries as there are partitions. Only their products are added up; a
    triangular system for each cell would take the square of the number of sums."""
    by_cell = columns.tocsc()
    entries = np.diff(by_cell.indptr)
    out = np.zeros(entries.size)
    for i in range(int(entries.max(initial=0))):
        for j in range(i + 1):
            both = entries > i
            a, b = by_cell.indptr[:-1][both] + i, by_cell.indptr[:-1][both] + j
            rows = inverse[by_cell.indices[a], by_cell.indices[b]]
            out[both] += (1 if i == j else 2) * by_cell.data[a] * by_cell.data[b] * rows
    return out


def estimate(
    marginals: Sequence[Marginal], wanted: Clique, contrasts: Contrasts | None = None
) -> Table | None:
    """The table over `wanted`, in the finest partition of its codes that one marginal has.

    None if no marginal holds all of these columns, and contrasts of all their subsets do not exist either."""
    over = [m for m in marginals if set(wanted) <= set(m.axes)]
    holding = [m for m in over if m.complete or len(m.axes) == len(wanted)]
    signed = _within(wanted, contrasts or {})
    if not holding and (start := _vague(marginals, wanted, signed)) is not None:
        marginals = [*marginals, start]
        holding = [start]
    if not holding:
        return None
    summed = [m.summed(wanted) for m in holding]
    finest = max(summed, key=lambda m: (m.complete, m.values.size))
    target = finest.maps
    precision = np.zeros(finest.values.shape)
    weighted = np.zeros(finest.values.shape)
    sums: dict[tuple, Sums] = {}
    for m in marginals:
        if not m.complete and not (finest.complete is False and set(m.axes) == set(wanted)):
            continue
        part = tuple(a for a in wanted if a in m.axes)
        fitted = _aligned(m.summed(part), [target[wanted.index(a)] for a in part])
        if fitted is None:
            continue
        aligned, coarser = fitted
        if len(part) == len(wanted) and all(c is None for c in coarser):
            with np.errstate(divide="ignore"):
                precision += 1 / aligned.variances
            weighted += np.where(
                np.isfinite(aligned.variances), aligned.values / aligned.variances, 0.0
            )
        elif finest.complete:
            key = (part, *(None if c is None else c.tobytes() for c in coarser))
            groups: list[np.ndarray | None] = [None] * len(wanted)
            for a, c in zip(part, coarser, strict=True):
                groups[wanted.index(a)] = (
                    np.arange(finest.values.shape[wanted.index(a)]) if c is None else c
                )
            before = sums.get(key)
            p = 1 / aligned.variances
            q = aligned.values / aligned.variances
            sums[key] = (groups, p, q) if before is None else (groups, before[1] + p, before[2] + q)
    known = precision.reshape(-1) > 0
    with np.errstate(divide="ignore", invalid="ignore"):
        x = (weighted / precision).reshape(-1)
        v = (1 / precision).reshape(-1)
    if not known.all():
        return Table(wanted, target, np.where(known, x, 0.0), np.where(known, v, 0.0), known=known)
    rows = [c for c in signed if all(np.array_equal(*m) for m in _maps_of(c, wanted, target))]
    return _updated(wanted, target, x, v, tuple(sums.values()), rows)


def _within(wanted: Clique, contrasts: Contrasts) -> list[Contrast]:
    """The contrasts of subsets of these columns."""
    sets = [c for size in range(1, len(wanted) + 1) for c in combinations(wanted, size)]
    found = (contrasts.get(frozenset(c)) for c in (sets if contrasts else ()))
    return [c for c in found if c is not None]


def _maps_of(c: Contrast, wanted: Clique, target: Maps) -> list[tuple[np.ndarray, np.ndarray]]:
    """(its map, that of the target) by column of a contrast."""
    return [(m, target[wanted.index(a)]) for a, m in zip(c.axes, c.maps, strict=True)]


def _vague(
    marginals: Sequence[Marginal], wanted: Clique, signed: Sequence[Contrast]
) -> Marginal | None:
    """A marginal over the wanted columns that says next to nothing, for contrasts of all their subsets
    of two columns or more to be added to; None if one is missing."""
    several = [c for c in signed if len(c.axes) > 1]
    if len(wanted) < 2 or len(several) < (1 << len(wanted)) - 1 - len(wanted):
        return None
    ones = [estimate(marginals, (a,)) for a in wanted]
    if any(one is None for one in ones):
        return None
    by_column = {a: m for c in several for a, m in zip(c.axes, c.maps, strict=True)}
    maps = tuple(by_column[a] for a in wanted)
    known = [one for one in ones if one is not None]
    # of each cell, the most rows that a column's code without a sign leaves it
    most = reduce(
        np.minimum.outer, [_most_rows(one, m) for one, m in zip(known, maps, strict=True)]
    )
    has_sign = np.isinf(most)
    largest = max(
        *(c.variance for c in several),
        *(float(one.cell_variances().max()) for one in known),
        float(np.square(most[~has_sign]).max(initial=0.0)),
    )
    rows = float(np.mean([one.x.sum() for one in known])) / 2 ** len(wanted)
    variances = np.where(has_sign, VAGUE * largest, np.square(most))
    return Marginal(wanted, maps, np.where(has_sign, rows, 0.0), variances)


def _most_rows(one: Table, codes: np.ndarray) -> np.ndarray:
    """By position of the codes: the rows with a code without a sign by its 1-way, and one standard error
    more. Of codes with a sign, without bound."""
    size = int(codes.max()) + 1
    out = np.full(size, math.inf)
    if size > 2:
        weights = np.zeros((size, one.x.size))
        weights[codes, one.maps[0]] = 1.0
        errors = np.sqrt(one.variances(sp.csr_array(weights)))
        out[2:] = (np.maximum(weights @ one.x, 0.0) + errors)[2:]
    return out


def _aligned(
    m: Marginal, target: Sequence[np.ndarray]
) -> tuple[Marginal, list[np.ndarray | None]] | None:
    """The marginal with axes summed to a partition that the target has too, and for axes where this
    is coarser than the target's the map from the target's positions; None if neither partition is
    coarser.

    Which codes were merged follows from the noise of 1-ways. Of codes near the limit, those with
    noise above 0 stay alone and those with noise below 0 are merged. So 1-ways over all codes and
    marginals over merged ones are compared in two ways only. One is by codes that any noise would
    leave alone, the other by all others together."""
    coarser: list[np.ndarray | None] = []
    for axis, wanted in enumerate(target):
        mine = m.maps[axis]
        unsure = m.unsure.get(m.axes[axis])
        both = mine if map_between(mine, wanted) is None else wanted
        if map_between(wanted, both) is None:
            return None
        if unsure is not None and (mine.max() + 1 == mine.size) != (
            wanted.max() + 1 == wanted.size
        ):
            mixed = np.bincount(both, unsure)[both] > 0
            both = np.unique(np.where(mixed, -1, both), return_inverse=True)[1]
        up, down = map_between(mine, both), map_between(wanted, both)
        assert up is not None and down is not None  # `both` is coarser than either
        if not np.array_equal(up, np.arange(up.size)):
            m = m.grouped(axis, up, int(both.max()) + 1)
        coarser.append(None if np.array_equal(down, np.arange(down.size)) else down)
    return m, coarser


def map_between(fine: np.ndarray, coarse: np.ndarray) -> np.ndarray | None:
    """Position in `coarse` of each position in `fine`, where all codes of it agree on one; else
    None."""
    out = np.zeros(int(fine.max()) + 1, np.int64)
    out[fine] = coarse
    return out if np.array_equal(out[fine], coarse) else None


def _updated(
    wanted: Clique,
    maps: Maps,
    x: np.ndarray,
    v: np.ndarray,
    sums: Sequence[Sums],
    signed: Sequence[Contrast] = (),
) -> Table:
    """The estimate updated by measured sums of its cells, and by contrasts of these columns (see the
    module's text)."""
    kept = []
    count = 0
    for groups, p, q in sorted(sums, key=lambda s: s[1].size):
        if count + p.size <= MOST_SUMS:
            kept.append((groups, p, q))
            count += p.size
    if not kept and not signed:
        return Table(wanted, maps, x, v)
    shape = tuple(int(m.max()) + 1 for m in maps)
    index = np.indices(shape).reshape(len(shape), -1) if shape else np.zeros((0, 1), np.int64)
    flat = []
    for groups, p, _ in kept:
        named = [g[index[i]] for i, g in enumerate(groups) if g is not None]
        flat.append(np.ravel_multi_index(named, p.shape) if named else np.zeros(x.size, np.int64))
    matrix = sum_matrix(flat, [p.size for _, p, _ in kept]) if kept else np.zeros((0, x.size))
    answers = np.concatenate(
        [*((q / p).reshape(-1) for _, p, q in kept), [c.value for c in signed]]
    )
    errors = np.concatenate(
        [*((1 / p).reshape(-1) for _, p, _ in kept), [c.variance for c in signed]]
    )
    if signed:
        signs = [
            c.signs[tuple(index[[wanted.index(a) for a in c.axes]])].reshape(1, -1) for c in signed
        ]
        matrix = np.concatenate([_dense(matrix), *signs])
    lower, scaled = factor(matrix, v, errors)
    x = x + scaled.T @ _solve(lower, _solve(lower, answers - matrix @ x), transposed=True)
    return Table(wanted, maps, x, v, (lower, scaled))
