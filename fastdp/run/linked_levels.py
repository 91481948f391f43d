"""Child rows whose parents differ in level as they do in truth.

The parents' model says in which part of a child's column the mean of a parent's rows lies: its
level. Rows of one parent that are drawn independently, given its columns, all have the same mean
but for chance. So each row gets the level of its parent plus its own deviation from the mean of the
parent's rows, as it was drawn. What a row's place among them and its other columns say of it stays. The
codes that were drawn before are handed out in this order. The distribution of the column stays as it
was. All of it is post-processing.

How much levels weigh. Levels are means, so their variance is a part B of the column's, and the
deviations have 1 - B. Noise makes the codes that are drawn more spread than they are in truth, since
counts below 0 cannot be drawn. It makes levels less spread, since those that do not stand out are left
out. So B is the ratio of two variances by the released counts themselves, in which noise cancels
(`variance_of`). Means of few rows differ by chance too: of rows that say nothing of their parent, B is the
mean over rows of one over the rows of their parent. Levels are used where B stands out of that.
Deviations in several columns are correlated as the rows that were drawn before, less what the levels
bring about.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct

from ..codec.possible import compiled_constraints
from ..measurement import Measurement
from ..schema import Schema
from ..significance import LIKELY, SURE
from ..tables.linked_tables import LEVELS

LEAST_BETWEEN = 0.02
"""Levels that explain a smaller part of the variance than this, beyond what chance does, are left alone."""
MOST_BETWEEN = 0.98
"""The largest part of the variance of levels."""
MOST_PARTS = 64
"""Codes are counted together in so many parts at most, to find the nearest normal distribution."""
STEPS = 16
"""Spreads that are tried, by octave."""


def counts_of(
    measurements: Sequence[Measurement], column: str, size: int
) -> tuple[np.ndarray, np.ndarray] | None:
    """(the released counts of a column of so many codes, their variances); None: not measured."""
    own = [m for m in measurements if m.clique == (column,) and m.query is None]
    ones = [m for m in own if m.values.size == size]
    if not ones:
        return None
    precision = np.sum([1 / m.variances for m in ones], axis=0)
    return np.sum([m.values / m.variances for m in ones], axis=0) / precision, 1 / precision


def variance_of(counts: np.ndarray, variances: np.ndarray) -> tuple[float, float]:
    """The variance of a code, by noisy counts of the codes, and its standard error; 0 if they say nothing.

    Sums over all counts have no bias, since noise cancels, but much noise where codes at the ends are
    rare. The normal distributions that are near in standard errors are known far better. Their variance
    counts, unless that by sums differs from it by SURE standard errors."""
    total = float(counts.sum())
    if total <= LIKELY * np.sqrt(variances.sum()):
        return 0.0, 0.0
    plain, error = _plain_variance(counts, variances)
    width = -(-len(counts) // MOST_PARTS)
    parts = [np.add.reduceat(x, np.arange(0, len(counts), width)) for x in (counts, variances)]
    fitted, doubt = (x * width**2 for x in _normal_variance(*parts))
    return (fitted, doubt) if abs(plain - fitted) < SURE * error else (max(plain, 0.0), error)


def _plain_variance(counts: np.ndarray, variances: np.ndarray) -> tuple[float, float]:
    """The variance of a code by sums over noisy counts of the codes, and its standard error."""
    total = float(counts.sum())
    at = np.arange(len(counts))
    mean = float(np.clip(counts @ at / total, 0, len(at) - 1))
    plain = float(counts @ np.square(at - mean)) / total
    error = float(np.sqrt(variances @ np.square(np.square(at - mean) - plain))) / total
    return plain, error


def _normal_variance(counts: np.ndarray, variances: np.ndarray) -> tuple[float, float]:
    """The variance of normal distributions, cut off at the ends, by how likely they make these counts, and
    its standard error. They have as many rows in all: else one count that noise has made large would do."""
    at = np.arange(len(counts))
    means = np.linspace(0, len(at) - 1, 4 * len(at) - 3)
    spreads = np.exp2(np.arange(-1, np.log2(len(at)) + 2, 1 / STEPS))
    shape = np.exp(-0.5 * np.square((at - means[:, None, None]) / spreads[:, None]))
    shape = shape.reshape(-1, len(at))
    shape *= counts.sum() / shape.sum(axis=1, keepdims=True)
    apart = np.square(shape) @ (1 / variances) - 2 * shape @ (counts / variances)
    likely = np.exp(-0.5 * (apart - apart.min()))
    likely /= likely.sum()
    shape /= counts.sum()
    own = shape @ np.square(at) - np.square(shape @ at)
    mean = float(likely @ own)
    return mean, float(np.sqrt(likely @ np.square(own - mean)))


def level_share(
    levels: tuple[np.ndarray, np.ndarray] | None, codes: tuple[np.ndarray, np.ndarray] | None
) -> tuple[float, float] | None:
    """The part of a column's variance that levels have, by the released counts of both, and its standard
    error; None: not measured. The last level is of parents without numbers, and codes are without missing
    values. The middle of a part of width d has d^2 / 12 more variance (Sheppard)."""
    if levels is None or codes is None:
        return None
    width = len(codes[0]) / LEVELS
    known = levels[0][:-1], levels[1][:-1]
    whole, doubt = variance_of(*codes)
    own, error = (x * width**2 for x in variance_of(*known))
    own -= width**2 / 12
    if whole <= 0:
        return None
    if own <= 0:
        return 0.0, 0.0
    if (
        own > whole
    ):  # means vary less than codes: a code that many rows have is not a normal distribution
        plain = _plain_variance(*codes)
        whole, doubt = plain if plain[0] > whole else (whole, doubt)
    share = min(own / whole, MOST_BETWEEN)
    return share, share * float(np.hypot(error / own, doubt / whole))


def clear_levels(measurements: Sequence[Measurement], column: str) -> np.ndarray | None:
    """bool [LEVELS + 1]: the levels whose parents stand out of the noise; None: not measured."""
    found = counts_of(measurements, column, LEVELS + 1)
    return None if found is None else found[0] > LIKELY * np.sqrt(found[1])


def levels_of_parents(
    levels: np.ndarray, measurements: Sequence[Measurement], column: str, seed: int
) -> np.ndarray:
    """The parents' levels. Parents in parts that do not stand out of the noise get the level of
    another. A few at the ends would make parents differ more than they do."""
    clear = clear_levels(measurements, column)
    if clear is None:
        return levels
    kept = np.flatnonzero(clear[levels])
    if not len(kept):
        return levels
    generator = np.random.Generator(np.random.Philox(key=[seed, 9]))
    out = levels.copy()
    lacking = np.flatnonzero(~clear[levels])
    out[lacking] = levels[generator.choice(kept, len(lacking))]
    return out


class Level(Struct, frozen=True, eq=False):
    """The `levels` of parents in a column with `base` ordered codes. `between`: the variance of parents'
    levels as a part of the column's, and its standard error, if it was measured."""

    levels: np.ndarray
    base: int
    between: tuple[float, float] | None = None


def with_levels(
    codes: Mapping[str, np.ndarray],
    owner: np.ndarray,
    wanted: np.ndarray,
    columns: Mapping[str, Level],
    seed: int,
) -> dict[str, np.ndarray]:
    """The columns with their numbers handed out anew. `owner`: the parent of each row; `wanted`: the
    rows of each parent. Codes beyond the ordered ones (missing values) stay where they are. Columns whose
    levels say nothing are left out."""
    generator = np.random.Generator(np.random.Philox(key=[seed, 8]))
    targets: dict[str, np.ndarray] = {}
    rows: dict[str, np.ndarray] = {}
    by_chance = float(np.mean(1 / wanted[owner])) if len(owner) else 1.0
    of_parents = float(np.mean(1 / wanted[wanted > 0])) if len(owner) else 1.0
    for name, level in columns.items():
        there = codes[name] < level.base
        own = codes[name][there].astype(float)
        if not len(own) or not own.std():
            continue
        means = _mean_codes(level.levels, level.base, generator)[owner]
        spread = float(np.var(means[there]))
        # a place in a part of width d has d^2 / 12 more variance than the middle, which has as much more
        # than the means (Sheppard)
        drawn = (spread - (level.base / LEVELS) ** 2 / 6) / own.var()
        part, error = min(drawn, MOST_BETWEEN), 0.0
        if level.between is not None:  # as parents of rows have it: those with few rows vary more
            fewer = (1 - by_chance) / max(1 - of_parents, 1e-9)
            part, error = 1 - (1 - level.between[0]) * fewer, level.between[1] * fewer
        if part - by_chance < max(LEAST_BETWEEN * (1 - by_chance), error) or not spread:
            continue
        targets[name] = (means - means[there].mean()) * np.sqrt(part / spread)
        rows[name] = np.zeros(len(owner))
        rows[name][there] = _normal(own + generator.random(len(own)))
    if not targets:
        return {}
    out = {}
    for name, deviation in zip(targets, _deviations(targets, rows, owner)):
        at = np.flatnonzero(codes[name] < columns[name].base)
        place = at[np.argsort(targets[name][at] + deviation[at], kind="stable")]
        out[name] = codes[name].copy()
        out[name][place] = np.sort(codes[name][at])
    return out


def possible_rows(
    codes: Mapping[str, np.ndarray], schema: Schema, given: frozenset[str]
) -> dict[str, np.ndarray]:
    """The rows, where a combination with the parent's columns that cannot occur gets the nearest
    code that can. The model excludes these combinations. What remains comes from codes that were
    merged, and from parents whose combination of codes the model has no rows of."""
    out = dict(codes)
    if not schema.constraints:
        return out
    for clique, impossible in compiled_constraints(schema).impossible.items():
        own = [name for name in clique if name not in given]
        if len(own) != 1 or len(own) == len(clique):
            continue
        axis = clique.index(own[0])
        bad = np.flatnonzero(impossible[tuple(out[name] for name in clique)])
        if not len(bad):
            continue
        others = tuple(out[name][bad] for name in clique if name != own[0])
        cannot = np.moveaxis(impossible, axis, -1)[others]
        far = np.abs(np.arange(cannot.shape[1]) - out[own[0]][bad, None].astype(np.int64))
        nearest = np.argmin(np.where(cannot, cannot.shape[1] + 1, far), axis=1)
        out[own[0]] = out[own[0]].copy()
        out[own[0]][bad] = nearest
    return out


def _mean_codes(levels: np.ndarray, base: int, generator: np.random.Generator) -> np.ndarray:
    """A mean code of each parent's rows, somewhere in the part of the column that is its level.
    Parents without a level get that of another one."""
    known = np.flatnonzero(levels < LEVELS)
    filled = levels.astype(np.int64)
    lacking = np.flatnonzero(levels >= LEVELS)
    filled[lacking] = filled[generator.choice(known, len(lacking))] if len(known) else 0
    return (filled + generator.random(len(filled))) * base / LEVELS


def _normal(numbers: np.ndarray) -> np.ndarray:
    """The numbers' quantiles of the standard normal distribution, by their ranks."""
    from scipy.special import ndtri

    rank = np.empty(len(numbers))
    rank[np.argsort(numbers, kind="stable")] = (np.arange(len(numbers)) + 0.5) / len(numbers)
    return ndtri(rank)


def _deviations(
    targets: Mapping[str, np.ndarray], rows: Mapping[str, np.ndarray], owner: np.ndarray
) -> np.ndarray:
    """[columns, rows]: deviations of rows from their parents' levels: those that were drawn, turned such
    that with the levels they are correlated as before."""
    count = np.maximum(np.bincount(owner), 1)
    drawn = np.array([x - (np.bincount(owner, x) / count)[owner] for x in rows.values()])
    wanted = np.atleast_2d(np.cov(list(rows.values())))
    levels = np.atleast_2d(np.cov(list(targets.values())))
    size = np.sqrt(np.maximum(np.diag(wanted) - np.diag(levels), 0.0))
    left = (wanted - levels) / np.maximum(np.outer(size, size), 1e-9)
    correlation = np.clip(left, -0.98, 0.98)
    np.fill_diagonal(correlation, 1.0)
    turn = _root(correlation) @ np.linalg.pinv(_root(np.atleast_2d(np.cov(drawn))))
    return size[:, None] * (turn @ drawn)


def _root(matrix: np.ndarray) -> np.ndarray:
    """The symmetric square root of a covariance matrix."""
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
