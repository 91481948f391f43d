"""How far synthetic rows are from the *original* values, at worst: what a schema's lists, bins and
bounds lost counts as lost.

Seven kinds: single columns and pairs (total variation), correlations, group means (in standard
deviations), gaps between a user's rows, identities (a number that is a sum of others) and
dependencies (a value that follows from another). `wrong` is 0 if a thing is kept and at most 1. A
random sample of a tenth of the truth is scored in the same way, for comparison.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from msgspec import Struct

from .._util.lazy import pa, pc
from .baselines import rows_of_sample
from .compare import Comparison
from .inputs import Pair, by_values
from .metric import metric
from .total_variation import (
    Cells,
    cells_of,
    counted_marginals,
    total_variation,
    variation_of_counts,
)

SAMPLE = 0.1
MOST_COLUMNS = 40
"""Columns whose pairs are compared: those furthest off."""
LISTED = 8
LARGEST = 1e100
"""Columns with a number beyond this, or an infinite one, have no means, correlations or sums: their squares
would not fit a float. Their values are compared as those of all columns are."""
MAX_GROUPS = 30
"""Columns with at most this many values make groups."""
MIN_GROUP_SHARE = 0.01
"""The smallest share of the true rows that a group must have."""
MIN_GROUP_ROWS = 30
"""The fewest true rows that a group must have."""
MIN_DEPENDENT_SHARE = 0.98
"""A dependency is reported if it holds in at least this share of the true rows."""
MIN_IDENTICAL_SHARE = 0.75
"""An identity is reported if it holds in at least this share of the true rows."""
CONSTANT = 0.9
"""Skip near-constant columns: those with one value in more than this share of the rows."""
MOST_ROWS = 1 << 21
"""Of more rows, correlations, means and identities use every second, third, ... row."""

# The search for identities: a number that is a weighted sum of others.
TRIAL_ROWS = 4000
"""Rows on which an identity is searched for."""
MAX_SUMMANDS = 12
"""The most columns that an identity may add up."""
REWEIGHTINGS = 20
"""Steps of reweighted least squares."""
MAX_MISSING_SHARE = 0.1
"""Columns with a larger share of missing numbers are left out."""
GAPS = np.linspace(0, 1, 21)[1:-1]
"""Quantiles at which the gaps between two times are cut into bins."""


class _Side(Struct, frozen=True, eq=False):
    """One table: numbers by column (nan: missing; times in seconds) of every `step`-th row, times
    and user of each row."""

    numbers: dict[str, np.ndarray]
    times: dict[str, np.ndarray]
    user: np.ndarray | None
    step: int

    def take(self, rows: np.ndarray) -> _Side:
        """Rows that are multiples of the step."""
        user = None if self.user is None else self.user[rows]
        numbers = {n: v[rows // self.step] for n, v in self.numbers.items()}
        return _Side(numbers, {n: v[rows] for n, v in self.times.items()}, user, 1)


def score(
    truth: pa.Table,
    synthetic: pa.Table,
    user: str | None,
    seed: int = 0,
    threads: int | None = None,
) -> dict[str, Any] | None:
    """How wrong the synthetic table is in the data's own values. None if there are no rows to compare.

    `worst`: {kind, what, wrong}. `kinds`: for each kind {what, wrong, mean, sample, items}. These are the
    worst of it, the mean, what is wrong with a 10 % sample of the truth at worst, and its worst items.
    `columns`: total variation of each column."""
    if not truth.num_rows or not synthetic.num_rows:
        return None
    plain, pair = in_cells(truth, synthetic, user)
    sides = [_side(t, times, user) for t, times in plain]
    step = sides[0].step
    rows = step * rows_of_sample(-(-truth.num_rows // step), SAMPLE, seed)
    sample = pair.with_synthetic({n: c[rows] for n, c in pair.truth.items()}, len(rows))
    columns = total_variation(pair, [(n,) for n in pair.names], threads)
    chosen = [pair.names[i] for i in sorted(np.argsort(-columns, kind="stable")[:MOST_COLUMNS])]
    found = _items(pair, sides[0], sides[1], chosen, threads)
    of_sample = _items(sample, sides[0], sides[0].take(rows), chosen, threads)
    kinds: dict[str, dict[str, Any]] = {}
    for kind, items in found.items():
        items.sort(key=lambda i: -i["wrong"])
        wrong = [i["wrong"] for i in items]
        same = max((i["wrong"] for i in of_sample.get(kind, ())), default=None)
        kinds[kind] = {
            **items[0],
            "mean": float(np.mean(wrong)),
            "sample": same,
            "items": items[:LISTED],
        }
    if not kinds:
        return None
    worst = max(kinds, key=lambda kind: kinds[kind]["wrong"])
    shown = {"kind": worst, **{k: kinds[worst][k] for k in ("what", "wrong")}}
    return {"worst": shown, "kinds": kinds, "columns": dict(zip(pair.names, columns.tolist()))}


def in_cells(
    truth: pa.Table, synthetic: pa.Table, user: str | None
) -> tuple[list[tuple[pa.Table, tuple[str, ...]]], Pair]:
    """Both tables with times as numbers, each with the names of these columns; and both in codes of
    the original values."""
    plain = [_with_numeric_times(t) for t in _aligned(truth, synthetic)]
    times = set(plain[0][1]) & set(plain[1][1])
    return plain, by_values(plain[0][0], plain[1][0], user, times)


def _items(
    pair: Pair, truth: _Side, other: _Side, chosen: list[str], threads: int | None
) -> dict[str, list[dict[str, Any]]]:
    """Everything that is compared, by kind."""
    out: dict[str, list[dict[str, Any]]] = {}
    for kind, what, wrong, *names in (
        *_marginals(pair, chosen, threads),
        *_correlations(truth, other),
        *_means(pair, truth, other),
        *_gaps(truth, other),
        *_identities(truth, other),
    ):
        item: dict[str, Any] = {"what": what, "wrong": float(f"{min(1.0, wrong):.4g}")}
        out.setdefault(kind, []).append(item | ({"columns": names} if names else {}))
    return out


Item = tuple[Any, ...]
"""(kind, what, how wrong), and for columns and pairs their names."""


def _marginals(pair: Pair, chosen: list[str], threads: int | None) -> Iterator[Item]:
    """Single columns and pairs of the chosen ones by total variation; pairs also by what follows
    from what."""
    for name, tv in zip(
        pair.names, total_variation(pair, [(n,) for n in pair.names], threads), strict=True
    ):
        yield "column", f"{name}: {tv:.1%} of the rows have a wrong value", tv, name
    for (x, y), a, b in counted_marginals(pair, list(combinations(chosen, 2)), threads):
        tv = variation_of_counts(a, b, pair.rows)
        yield "pair", f"{x} with {y}: {tv:.1%} of the rows are in a wrong cell", tv, x, y
        if pair.encoding[x] == pair.encoding[y] == "values":
            true_cells = cells_of(a)
            synthetic_cells = cells_of(b)
            yield from _dependency(x, y, true_cells, synthetic_cells)
            yield from _dependency(y, x, _transposed(true_cells), _transposed(synthetic_cells))


def _transposed(cells: Cells) -> Cells:
    """The same cells with the two columns exchanged."""
    first, second, rows = cells
    return second, first, rows


def _dependency(one: str, other: str, true: Cells, synthetic: Cells) -> Iterator[Item]:
    """Whether `other` follows from `one`: non-empty cells (code of `one`, code of `other`, rows) of
    both tables."""
    source, target, count = true
    rows = count.sum()
    order = np.lexsort((target, -count, source))
    # The commonest cell of each code of `one`.
    commonest = order[np.flatnonzero(np.diff(source[order], prepend=-1))]
    real = count[commonest].sum() / rows
    constant = np.bincount(target, count).max() / rows > CONSTANT
    if real < MIN_DEPENDENT_SHARE or constant or rows < 5 * len(commonest):
        return
    usual = np.full(max(source.max(), synthetic[0].max()) + 1, -1)
    usual[source[commonest]] = target[commonest]
    source, target, count = synthetic
    made = count[usual[source] == target].sum() / count.sum()
    text = (
        f"{other} follows from {one} in {real:.1%} of the true rows, in {made:.1%} of the synthetic"
        " ones"
    )
    yield "dependency", text, max(0.0, real - made)


def _correlations(truth: _Side, other: _Side) -> Iterator[Item]:
    names = [n for n in truth.numbers if n in other.numbers]
    if len(names) < 2:
        return
    real, made = (_pearson([s.numbers[n] for n in names]) for s in (truth, other))
    for i, j in combinations(range(len(names)), 2):
        text = (  # z: never -0.00
            f"correlation of {names[i]} and {names[j]}: {real[i, j]:z.2f}, synthetic"
            f" {made[i, j]:z.2f}"
        )
        yield "correlation", text, abs(real[i, j] - made[i, j])


def _pearson(columns: list[np.ndarray]) -> np.ndarray:
    """Correlations; missing numbers count as the mean, a constant column has correlation 0."""
    x = np.stack(columns)
    with np.errstate(all="ignore"):
        known = np.maximum((~np.isnan(x)).sum(1, keepdims=True), 1)
        x -= np.nansum(x, axis=1, keepdims=True) / known
        np.nan_to_num(x, copy=False)
        scale = np.sqrt(np.square(x).sum(1))
        return np.nan_to_num((x @ x.T) / np.outer(scale, scale), posinf=0.0, neginf=0.0)


def _means(pair: Pair, truth: _Side, other: _Side) -> Iterator[Item]:
    """Means of numbers by group, apart in standard deviations of the truth."""
    both = {n for n in truth.numbers if n in other.numbers and n not in truth.times}
    sums = {n for n in both if not np.isnan(truth.numbers[n]).all()}
    scales = {n: float(np.nanstd(truth.numbers[n])) or 1.0 for n in sums}
    for by in pair.names:
        if not 1 < pair.sizes[by] <= MAX_GROUPS:
            continue
        for name in sorted(sums - {by}):
            real = _group_means(pair.truth[by][:: truth.step], truth.numbers[name], pair.sizes[by])
            made = _group_means(
                pair.synthetic[by][:: other.step], other.numbers[name], pair.sizes[by]
            )
            scale = scales[name]
            for g in np.flatnonzero(
                real[1] >= max(MIN_GROUP_ROWS, MIN_GROUP_SHARE * real[1].sum())
            ).tolist():
                where = f"mean of {name} where {by} is {pair.label(by, g)}: {real[0][g]:.4g}"
                if made[1][g]:
                    yield (
                        "mean",
                        f"{where}, synthetic {made[0][g]:.4g}",
                        abs(real[0][g] - made[0][g]) / scale,
                    )
                else:
                    yield "mean", f"{where}, no synthetic rows", 1.0


def _group_means(codes: np.ndarray, values: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """(means, rows) by code, of rows that have a number."""
    known = ~np.isnan(values)
    rows = np.bincount(codes[known], minlength=size)
    return np.bincount(codes[known], values[known], size) / np.maximum(rows, 1), rows


def _gaps(truth: _Side, other: _Side) -> Iterator[Item]:
    """Time from one row of a user to the next, in bins of equally many true gaps."""
    for name in truth.times:
        if truth.user is None or other.user is None or name not in other.times:
            continue
        gaps = []
        for side in (truth, other):
            assert side.user is not None
            order = np.lexsort((side.times[name], side.user))
            gap = np.diff(side.times[name][order])[np.diff(side.user[order]) == 0]
            gaps.append(gap[~np.isnan(gap)])
        if not len(gaps[0]) or not len(gaps[1]):
            continue
        edges = np.unique(np.quantile(gaps[0], GAPS, method="inverted_cdf"))
        edges = np.union1d(edges, np.nextafter(edges, np.inf))  # a frequent gap is a bin of its own
        shares = [
            np.bincount(np.searchsorted(edges, g, "right"), minlength=len(edges) + 1) for g in gaps
        ]
        tv = float(np.abs(shares[0] / len(gaps[0]) - shares[1] / len(gaps[1])).sum() / 2)
        hours = " and ".join(f"{np.median(g) / 3600:.3g}" for g in gaps)
        yield (
            "gap",
            f"{name} from one row of a user to the next: {tv:.1%} wrong (medians {hours} hours)",
            tv,
        )


def _identities(truth: _Side, other: _Side) -> Iterator[Item]:
    """Numbers that are sums and differences of others in nearly all true rows."""
    names = [n for n in truth.numbers if n in other.numbers and n not in truth.times]
    sums = [(name, _sum_of(name, names, truth.numbers)) for name in names]
    seen: set[frozenset[str]] = set()
    for name, parts in sorted(sums, key=lambda found: sum(sign < 0 for sign in found[1].values())):
        if not parts or frozenset((name, *parts)) in seen:
            continue
        seen.add(frozenset((name, *parts)))
        real, made = (_holding(name, parts, side.numbers) for side in (truth, other))
        if real >= MIN_IDENTICAL_SHARE:
            text = " ".join(
                f"{'+' if sign > 0 else '-'} {n}" for n, sign in parts.items()
            ).removeprefix("+ ")
            text = (
                f"{name} = {text} in {real:.1%} of the true rows, in {made:.1%} of the synthetic"
                " ones"
            )
            yield "identity", text, max(0.0, real - made)


def _sum_of(name: str, names: list[str], numbers: Mapping[str, np.ndarray]) -> dict[str, int]:
    """Columns with signs whose sum is `name`, by least absolute deviations over some rows; empty if
    there is no such sum."""
    rows = np.unique(np.linspace(0, len(numbers[name]) - 1, TRIAL_ROWS).astype(np.int64))
    some = {n: numbers[n][rows] for n in names}
    some = {
        n: v
        for n, v in some.items()
        if np.mean(np.isnan(v)) < MAX_MISSING_SHARE and np.nanstd(v) > 0
    }
    rest = [n for n in some if n != name]
    if name not in some or not rest:
        return {}
    target = some[name]
    rest.sort(key=lambda n: -abs(_pearson([target, some[n]])[0, 1]))
    rest = rest[:MAX_SUMMANDS]
    x = np.stack([some[n] for n in rest], 1)
    known = np.isfinite(target) & np.isfinite(x).all(1)
    if known.sum() < 2 * len(rest) + 10:
        return {}
    x = x[known]
    target = target[known]
    weight = np.ones(len(target))
    # Reweighting tends to least absolute deviations, which rows that differ do not move.
    for _ in range(REWEIGHTINGS):
        factors = np.linalg.lstsq(x * weight[:, None], target * weight, rcond=None)[0]
        weight = 1 / np.sqrt(np.maximum(np.abs(x @ factors - target), 1e-3))
    signs = np.rint(factors)
    if np.abs(factors - signs).max() > 0.02 or np.abs(signs).max() != 1:
        return {}
    return {n: int(s) for n, s in zip(rest, signs, strict=True) if s}


def _holding(name: str, parts: Mapping[str, int], numbers: Mapping[str, np.ndarray]) -> float:
    """Share of the rows in which the sum is right, to a part in 10^6 and within rounding of
    cents."""
    total = sum(sign * numbers[n] for n, sign in parts.items())
    known = np.isfinite(total) & np.isfinite(numbers[name])
    off = np.abs(total - numbers[name])[known]
    if known.any():
        return float(np.mean(off <= 0.0051 + 1e-6 * np.abs(numbers[name][known])))
    return 0.0


def _aligned(truth: pa.Table, synthetic: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The columns that both tables have, of one type; columns whose types do not meet are left
    out."""
    names = [n for n in truth.column_names if n in synthetic.column_names]
    tables = [truth.select(names), synthetic.select(names)]
    for name in tables[0].column_names:
        kinds = [_family(t.schema.field(name).type) for t in tables]
        if kinds[0] == kinds[1]:
            continue
        for mine, its in ((0, 1), (1, 0)) if kinds[0] == "text" else ((1, 0), (0, 1)):
            try:
                cast = tables[mine].column(name).cast(tables[its].schema.field(name).type)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
                continue
            tables[mine] = tables[mine].set_column(
                tables[mine].column_names.index(name), name, cast
            )
            break
        else:
            tables = [t.drop_columns([name]) for t in tables]
    return tables[0], tables[1]


def _family(kind: pa.DataType) -> str:
    kind = getattr(kind, "value_type", kind)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return "number"
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return "time"
    return "text" if "string" in str(kind) else str(kind)


def _with_numeric_times(table: pa.Table) -> tuple[pa.Table, tuple[str, ...]]:
    """The table with dates and times as seconds, and the names of these columns."""
    times = []
    for i, part in enumerate(table.schema):
        if pa.types.is_timestamp(part.type) or pa.types.is_date(part.type):
            seconds = pc.cast(table.column(i).cast(pa.timestamp("us"), safe=False), pa.int64())
            seconds = pc.divide(seconds, 1_000_000)
            table = table.set_column(i, part.name, seconds)
            times.append(part.name)
    return table, tuple(times)


def _side(table: pa.Table, times: tuple[str, ...], user: str | None) -> _Side:
    """What the comparison needs of one table: numbers (of every `step`th row where it is long),
    times and users."""
    ids = None
    step = -(-table.num_rows // MOST_ROWS)
    if user is not None and user in table.column_names:
        coded = pc.dictionary_encode(table.column(user).combine_chunks())
        ids = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)

    def numbers(of: pa.Table, names: Sequence[str]) -> dict[str, np.ndarray]:
        columns = {n: of.column(n).cast(pa.float64(), safe=False) for n in names}
        found = {n: column.to_numpy(zero_copy_only=False) for n, column in columns.items()}
        return {n: x for n, x in found.items() if not (np.abs(x) > LARGEST).any()}

    kinds = {f.name: f.type for f in table.schema if f.name != user}
    wanted = [n for n, t in kinds.items() if pa.types.is_integer(t) or pa.types.is_floating(t)]
    thin = table if step == 1 else table.select(wanted).take(np.arange(0, table.num_rows, step))
    return _Side(numbers(thin, wanted), numbers(table, times), ids, step)


def _in_values(comparison: Comparison) -> bool:
    return comparison.in_values


@metric("original", applies=_in_values, default="yes", rank=0)
def found_in(comparison: Comparison) -> dict[str, Any] | None:
    if not comparison.in_values:
        return None

    def scores() -> dict[str, Any] | None:
        return score(
            comparison.truth,
            comparison.synthetic,
            _user(comparison),
            comparison.seed,
            comparison.threads,
        )

    return comparison.once("original", scores)


def values_of(comparison: Comparison) -> Pair | None:
    """Both tables in codes of their original values; None if one of them has codes only."""
    if not comparison.in_values or not all(comparison.rows.values()):
        return None

    def pair() -> Pair:
        return in_cells(comparison.truth, comparison.synthetic, _user(comparison))[1]

    return comparison.once("original values", pair)


def _user(comparison: Comparison) -> str | None:
    """The user column, if both tables have it."""
    schema = comparison.schema
    own = comparison.user or (None if schema is None else schema.user)
    both = (comparison.truth, comparison.synthetic)
    return own if all(own in table.column_names for table in both) else None
