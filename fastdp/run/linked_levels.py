"""Child rows whose parents differ in level as they do in truth.

The parents' model says in which part of a child's column the mean of a parent's rows lies: its
level. Rows of one parent that are drawn independently, given its columns, all have the same mean
but for chance. So each row gets the level of its parent plus a normal deviation of its own, in
standard deviations of the codes. The codes that were drawn before are handed out in this order. The
distribution of the column stays as it was. All of it is post-processing.

Variances. Let a row be the sum of its parent's level, of variance b, and of a deviation, of variance
w = 1 - b. The mean of n rows then varies by B = b + w / n. The drawn levels say B, so w = (1 - B) /
(1 - h), h being the mean over rows of 1 / n. Deviations in several columns are correlated as the
rows that were drawn before, less what the levels bring about.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from ..codec.possible import compiled_constraints
from ..measurement import Measurement
from ..schema import Schema
from ..significance import LIKELY
from ..tables.linked_tables import LEVELS

LEAST_BETWEEN = 0.02
"""Levels that explain a smaller part of the variance are left alone."""
MOST_INVERSE = 0.25
"""Levels are used where the parent of an average row has four rows or more, by the mean over rows
of one over the rows of their parent. With fewer, a mean is mostly chance."""
LEAST_WITHIN = 0.02
"""The least variance of a row's deviation from its parent's level."""


def clear_levels(measurements: Sequence[Measurement], column: str) -> np.ndarray | None:
    """bool [LEVELS + 1]: the levels whose parents stand out of the noise; None: not measured."""
    own = [m for m in measurements if m.clique == (column,) and m.query is None]
    ones = [m for m in own if m.values.size == LEVELS + 1]
    if not ones:
        return None
    precision = sum(1 / m.variances for m in ones)
    return sum(m.values / m.variances for m in ones) > LIKELY * np.sqrt(precision)


def standing(
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


def levelled(
    codes: Mapping[str, np.ndarray],
    owner: np.ndarray,
    wanted: np.ndarray,
    columns: Mapping[str, tuple[np.ndarray, int]],
    seed: int,
) -> dict[str, np.ndarray]:
    """The columns with their numbers handed out anew. `owner`: the parent of each row; `wanted`: the
    rows of each parent; `columns`: by name the parents' levels and the number of ordered codes.
    Codes beyond these (missing values) stay where they are. Columns whose levels say nothing are
    left out."""
    generator = np.random.Generator(np.random.Philox(key=[seed, 8]))
    targets: dict[str, np.ndarray] = {}
    rows: dict[str, np.ndarray] = {}
    within: dict[str, float] = {}
    for name, (levels, base) in columns.items():
        there = codes[name] < base
        own = codes[name][there].astype(float)
        if not len(own) or not own.std():
            continue
        target = (_mean_codes(levels, base, generator)[owner] - own.mean()) / own.std()
        spread = float(np.var(target[there]))
        # the middle of a part of width d has d^2 / 12 more variance (Sheppard), a place in it again
        means = spread - (base / LEVELS / own.std()) ** 2 / 6
        if means < LEAST_BETWEEN:
            continue
        inverse = float(np.mean(1 / wanted[owner]))
        if inverse > MOST_INVERSE:
            continue
        deviation = np.clip((1 - means) / max(1 - inverse, 1e-3), LEAST_WITHIN, 1.0)
        if 1 - deviation < LEAST_BETWEEN:
            continue
        targets[name] = (target - target[there].mean()) * np.sqrt((1 - deviation) / spread)
        rows[name] = np.where(there, (codes[name] - own.mean()) / own.std(), 0.0)
        within[name] = float(deviation)
    if not targets:
        return {}
    noise = _deviations(targets, rows, within, generator)
    out = {}
    for name, deviation in zip(targets, noise):
        at = np.flatnonzero(codes[name] < columns[name][1])
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


def _deviations(
    targets: Mapping[str, np.ndarray],
    rows: Mapping[str, np.ndarray],
    within: Mapping[str, float],
    generator: np.random.Generator,
) -> np.ndarray:
    """[columns, rows]: deviations of rows from their parents' levels."""
    names = list(targets)
    count = len(next(iter(rows.values())))
    size = np.sqrt([within[name] for name in names])
    wanted = np.atleast_2d(np.cov([rows[n] for n in names])) if count > 1 else np.eye(len(names))
    levels = np.atleast_2d(np.cov([targets[n] for n in names])) if count > 1 else 0.0
    left = (wanted - levels) / np.outer(size, size)
    correlation = np.clip(left, -0.98, 0.98)
    np.fill_diagonal(correlation, 1.0)
    values, vectors = np.linalg.eigh(correlation)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    drawn = root @ generator.standard_normal((len(names), count))
    return drawn / np.maximum(np.linalg.norm(root, axis=1), 1e-9)[:, None] * size[:, None]
