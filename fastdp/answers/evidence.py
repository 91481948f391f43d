"""The released marginals of a run, each with the partition of the schema's codes that it was
measured over."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from .._util.lazy import pa
from ..domain import Clique, Columns, Domain
from ..measurement import Measurement
from ..queries import Binned
from ..significance import SURE

Maps = tuple[np.ndarray, ...]
CERTAIN = 2 * SURE
"""Values that are `SURE` to be there keep a code of their own; from this many errors on, all do."""


class Marginal(Struct, frozen=True, eq=False):
    """Noisy rows in the cells over `axes`, with independent Gaussian noise.

    `maps[i]` takes a code of column `axes[i]` in the schema to a position on axis i; codes that
    share a position were counted together. `variances` is infinite in cells that have no answer of
    their own. `unsure`: by column with merged codes, the codes of which noise decided whether they
    were merged.
    """

    axes: Clique
    maps: Maps
    values: np.ndarray
    variances: np.ndarray
    unsure: Mapping[str, np.ndarray] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        """Whether every cell has an answer."""
        return bool(np.isfinite(self.variances).all())

    def summed(self, keep: Clique) -> Marginal:
        """The marginal over fewer columns, in the order of `keep`: sums of cells, variances
        added."""
        drop = tuple(i for i, a in enumerate(self.axes) if a not in keep)
        left = [a for a in self.axes if a in keep]
        order = [left.index(a) for a in keep]
        values, variances = (x.sum(drop).transpose(order) for x in (self.values, self.variances))
        maps = tuple(self.maps[self.axes.index(a)] for a in keep)
        return Marginal(keep, maps, values, variances, self.unsure)

    def grouped(self, axis: int, groups: np.ndarray, size: int) -> Marginal:
        """The marginal with positions p of an axis summed into groups[p]; `size` is the number of
        groups."""
        shape = list(self.values.shape)
        shape[axis] = size
        at: Any = (slice(None),) * axis + (groups,)
        summed = []
        for array in (self.values, self.variances):
            out = np.zeros(shape)
            np.add.at(out, at, array)
            summed.append(out)
        maps = list(self.maps)
        maps[axis] = groups[maps[axis]]
        return Marginal(self.axes, tuple(maps), summed[0], summed[1], self.unsure)


class Contrast(Struct, frozen=True, eq=False):
    """Rows of a set of columns by the product of their signs: the noisy number of those with 1 less that
    of those with -1. `maps[i]` takes a code of column `axes[i]` to position 0, with the sign 1, to
    position 1, with the sign -1, or to a further one, with the sign 0."""

    axes: Clique
    maps: Maps
    value: float
    variance: float

    @property
    def signs(self) -> np.ndarray:
        """The sign of each cell."""
        out = np.ones(())
        for codes in self.maps:
            out = np.multiply.outer(out, np.append((1.0, -1.0), np.zeros(codes.max() - 1)))
        return out


Contrasts = Mapping[frozenset[str], Contrast]
"""By set of columns."""


def contrasts_of(table: pa.Table | None, domain: Domain, codes: Columns) -> Contrasts:
    """The contrasts of these columns, from the table `contrasts` that a run releases. The first two
    merged codes of a column have the signs 1 and -1, others 0."""
    out = {}
    for row in [] if table is None else table.to_pylist():
        axes = tuple(row["columns"])
        if not set(domain).issuperset(axes):
            continue  # with groups of users, which are no column of the table
        maps = tuple(codes.get(a, np.arange(domain[a])) for a in axes)
        out[frozenset(axes)] = Contrast(axes, maps, row["contrast"], row["standard_error"] ** 2)
    return out


def marginals_of(
    measurements: Iterable[Measurement], domain: Domain, codes: Columns
) -> list[Marginal]:
    """The measurements of rows, as marginals over the schema's columns. `codes` maps each code to
    its merged code, for every column with merged values. The size of a measurement says whether it
    is over all codes or over merged ones."""
    measurements = list(measurements)
    # A run may measure its rows together with a column of groups of users, which the schema does
    # not have.
    extra = {a for m in measurements if len(m.clique) > 1 for a in m.clique if a not in domain}
    sizes = {
        m.clique[0]: m.values.size
        for m in measurements
        if len(m.clique) == 1 and m.clique[0] in extra
    }
    found = [_marginal(m, Domain({**domain, **sizes}), codes) for m in measurements]
    # Sum over that column. What is then left without any column was a marginal of the groups alone.
    own = [(m, tuple(a for a in m.axes if a in domain)) for m in found if m is not None]
    summed = [
        m if columns == m.axes else m.summed(columns) for m, columns in own if columns or not m.axes
    ]
    # Noise decides which values near the limit are merged: mark them in all marginals.
    fine = {a: [m for m in summed if m.axes == (a,) and m.values.size == domain[a]] for a in codes}
    unsure = {a: _unsure(ones) for a, ones in fine.items() if ones}
    return [replace(m, unsure=unsure) for m in summed]


def _unsure(ones: Sequence[Marginal]) -> np.ndarray:
    """The codes with fewer than `CERTAIN` standard errors of rows, by 1-ways over all codes of a
    column."""
    precision = sum(1 / m.variances for m in ones)
    return sum(m.values / m.variances for m in ones) <= CERTAIN * np.sqrt(precision)


def _marginal(m: Measurement, domain: Domain, codes: Columns) -> Marginal | None:
    """The measurement as a marginal over all codes or over merged ones; None if it is not of
    rows."""
    if not all(a in domain for a in m.clique):
        return None  # a histogram of users
    whole = [np.arange(domain[a]) for a in m.clique]
    merged = [codes.get(a, whole[i]) for i, a in enumerate(m.clique)]
    cells = m.values.size
    if m.query is not None:
        cells = getattr(m.query, "cells", None) or m.query.shape[1]
    for maps in (whole, merged):
        shape = tuple(int(c.max()) + 1 for c in maps)
        if math.prod(shape) == cells:
            return _answered(m, shape, maps)
    return None


def _answered(m: Measurement, shape: tuple[int, ...], maps: list[np.ndarray]) -> Marginal | None:
    """The measured cells of a table of this shape; None if the query has no rows that are single
    cells."""
    if m.query is None:
        return Marginal(m.clique, tuple(maps), m.values.reshape(shape), m.variances.reshape(shape))
    if isinstance(m.query, Binned):
        grouped = tuple(bins[codes] for bins, codes in zip(m.query.maps, maps, strict=True))
        shape = m.query.bins
        return Marginal(m.clique, grouped, m.values.reshape(shape), m.variances.reshape(shape))
    singles = m.query.single_cells() if hasattr(m.query, "single_cells") else np.empty(0, np.int64)
    if not len(singles):
        return None
    values = np.zeros(math.prod(shape))
    variances = np.full(math.prod(shape), np.inf)
    values[singles] = m.values[: len(singles)]
    variances[singles] = m.variances[: len(singles)]
    return Marginal(m.clique, tuple(maps), values.reshape(shape), variances.reshape(shape))


def code_maps(table: pa.Table | None) -> dict[str, np.ndarray]:
    """Code -> merged code by column, from the table `codes` that a run releases."""
    if table is None:
        return {}
    names = np.asarray(table.column("column").to_pylist(), object)
    code, merged = (np.array(table.column(c).to_pylist(), np.int64) for c in ("code", "compressed"))
    rows = {name: np.flatnonzero(names == name) for name in dict.fromkeys(names.tolist())}
    return {name: merged[at[np.argsort(code[at], kind="stable")]] for name, at in rows.items()}
