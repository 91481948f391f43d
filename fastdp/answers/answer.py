"""Answers to questions about rows, in the schema's values, each with an interval and what its error
is made of."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from statistics import NormalDist
from typing import Any

import numpy as np
from msgspec import Struct

from .._util.arrow import of_numpy, of_texts, takeable
from .._util.lazy import pa, sp
from .._util.texttable import plural
from ..errors import UsageError
from .cell_layout import Layout
from .clipping import Z95, Clipping
from .facts import MOST_CELLS, Facts
from .groups import COMPUTE, SHOWN, Groups
from .part_dates import FIRST, chosen_days
from .part_groups import DayGroups, groups_of
from .question import question
from .values import remark, select, values_of

UNMEASURED = (
    "not measured together, and no distance of the model was released (cliquetree does for pairs)"
)

BOUND = "bound"
"""The basis of intervals that hold wherever rows lie inside bins and merged values."""
APPROXIMATE = "approximate"
INSIDE = (
    'approximate: rows of a group lie inside their bins about as all rows do; basis="bound" gives'
    " an interval for any place in them"
)


def answer(
    facts: Facts,
    of: str = "count",
    by: Sequence[str] | str = (),
    where: Mapping[str, Any] | None = None,
    level: float = 0.95,
    *,
    simultaneous: bool = False,
    minus: Mapping[str, Any] | None = None,
    over: Mapping[str, Any] | None = None,
    population: bool = False,
    basis: str | None = None,
) -> pa.Table:
    """The table that `fastdp.Run.answer` describes."""
    names = groups_of(facts.schema, by)
    options: dict[str, Any] = {
        "minus": minus,
        "over": over,
        "population": population,
        "basis": basis,
        "simultaneous": simultaneous,
    }
    for place, one in enumerate(names):
        if isinstance(one, DayGroups):
            rest = [other.name if isinstance(other, DayGroups) else other for other in names]
            return _by_days(
                facts=facts,
                of=of,
                by=rest,
                place=place,
                groups=one,
                where=where,
                level=level,
                options=options,
            )
    by = [name for name in names if isinstance(name, str)]
    if basis not in (None, BOUND):
        raise UsageError(f"basis: expected 'bound' or nothing, got {basis!r}")
    if isinstance(level, bool) or not isinstance(level, int | float) or not 0 < level < 1:
        raise UsageError(f"level: expected a number between 0 and 1, got {level!r}")
    asked = question(facts.schema, of, by, where)
    columns = asked.columns
    sizes = facts.schema.modelled
    rows = math.prod(sizes[c.name] for c in asked.by)
    merged = math.prod(facts.merged_size(a) for a in columns)
    if max(rows, merged) > MOST_CELLS:
        cells = f"{max(rows, merged):,} cells, the limit is {MOST_CELLS:,}"
        raise UsageError(
            f"columns {', '.join(columns)}: the answer would have {cells}; use fewer columns"
        )
    table = facts.table(columns) or facts.guessed(columns)
    layout = Layout(facts, asked, table, basis == BOUND)
    groups = COMPUTE[asked.kind](layout)
    lines = _Lines.of(layout)
    numbers = _numbers(layout, groups, lines)
    if minus is not None and over is not None:
        raise UsageError("minus, over: give one of them, not both")
    if minus is not None or over is not None:
        numbers = _compared(layout, groups, lines, numbers, minus, over)
    compared = minus is not None or over is not None
    return _table(
        a=layout,
        lines=lines,
        n=numbers,
        level=float(level),
        jointly=simultaneous,
        population=population,
        compared=compared,
        unit=1.0 if over is not None else layout.unit,
    )


def _by_days(
    facts: Facts,
    of: str,
    by: list[str],
    place: int,
    groups: DayGroups,
    where: Mapping[str, Any] | None,
    level: float,
    options: Mapping[str, Any],
) -> pa.Table:
    """The answer by groups of days, which are at `place` of `by`. Each group is an answer of its
    own, under the condition that a row's day is one of the group's."""
    if options["minus"] is not None or options["over"] is not None:
        raise UsageError(
            f"minus, over: groups of {groups.name} are several answers and have no common error; "
            f"compare parts that the schema counts"
        )
    rest = by[:place] + by[place + 1 :]
    where = dict(where or {})
    days = _days_where(facts, groups, where.pop(groups.field, None))
    if options["simultaneous"]:
        level = 1 - (1 - level) / len(days)
    tables = []
    for text, of_group in days.items():
        found = answer(facts, of, rest, where | {groups.field: of_group}, level, **options)
        column = of_texts([text] * found.num_rows)
        tables.append(found.add_column(place, groups.name, column))
    return pa.concat_tables(tables)


def _days_where(facts: Facts, groups: DayGroups, condition: Any) -> dict[str, list[date]]:
    """The groups' days that a condition on the same field leaves, of groups that it leaves any."""
    if condition is None:
        return groups.days
    field: Any = facts.schema.fields[groups.field]
    first, last = field.span
    span = np.arange(first, last + 1)
    chosen = chosen_days(field, condition, span)
    kept = {FIRST + timedelta(days=int(number)) for number in span[chosen]}
    left = {text: [day for day in days if day in kept] for text, days in groups.days.items()}
    left = {text: days for text, days in left.items() if days}
    if not left:
        raise UsageError(f"where, column {groups.field!r}: no day of its span is selected")
    return left


class _Lines(Struct, eq=False):
    """The lines of the answer: a code of each column of `by`, and the group it lies in. Then the
    expected part of the group that it is, and whether it is all of the group."""

    codes: list[np.ndarray]
    group: np.ndarray
    part: np.ndarray
    whole: np.ndarray

    @classmethod
    def of(cls, a: Layout) -> _Lines:
        if not a.asked.by:
            return cls([], np.zeros(1, np.int64), np.ones(1), np.ones(1, bool))
        axes = []
        for axis, column in enumerate(a.asked.by):
            codes = a.table.maps[axis]
            weight = a.facts.weight(column.name)
            selection = a.asked.where.get(column.name)
            taken = (
                np.arange(column.size) if selection is None else np.flatnonzero(selection.touched)
            )
            alone = np.bincount(codes)[codes] == 1
            within = np.where(alone, 1.0, weight / np.bincount(codes, weight)[codes])
            if selection is not None:
                within = within * selection.part
                alone = alone & selection.sure
            axes.append((taken, codes[taken], within[taken], alone[taken]))
        flat = [
            [g.reshape(-1) for g in np.meshgrid(*x, indexing="ij")] for x in zip(*axes, strict=True)
        ]
        group = np.ravel_multi_index(flat[1], a.shape)
        return cls(flat[0], group, np.prod(flat[2], axis=0), np.all(flat[3], axis=0))


class _Numbers(Struct, eq=False):
    """Per line. `low`, `high` with their errors: the ends before the interval is added to them.
    `floor`, `possible` and `inside`: as in `Groups`. `sampling`: the standard error of a sample of
    users."""

    estimate: np.ndarray
    noise: np.ndarray
    clipping: np.ndarray
    bins: np.ndarray
    low: np.ndarray
    low_error: np.ndarray
    high: np.ndarray
    high_error: np.ndarray
    hidden: np.ndarray
    sampling: np.ndarray
    inside: np.ndarray
    possible: tuple[float, float]
    notes: list[str]
    floor: tuple[np.ndarray, np.ndarray] | None = None


def _numbers(a: Layout, groups: Groups, lines: _Lines) -> _Numbers:
    at = lines.group
    whole = lines.whole
    shown = groups.estimate if groups.shown is None else groups.shown
    estimate = shown[at] * (lines.part if groups.additive else 1.0)
    noise, bins = groups.noise[at], groups.bins[at]
    hidden = np.zeros(at.size, bool) if groups.hidden is None else groups.hidden[at]
    low, high = groups.low.estimate[at], groups.high.estimate[at]
    low_error, high_error = groups.low.error[at], groups.high.error[at]
    if not whole.all():
        low = np.where(whole, low, np.minimum(low, 0.0))
        low_error = np.where(whole, low_error, 0.0)
        high = np.where(whole, high, np.maximum(high, 0.0))
        bins = np.where(whole, bins, np.maximum(high - low, 0.0) / 2)
        if not groups.additive:
            hidden = hidden | ~whole
    floor = None
    if groups.floor is not None:
        floor = (
            np.where(whole, groups.floor.estimate[at], 0.0),
            np.where(whole, groups.floor.error[at], 0.0),
        )
    sampling = a.sampled(groups.linear, groups.less)[at]
    inside = np.where(whole, groups.inside[at], 0.0)
    return _Numbers(
        estimate=estimate,
        noise=noise,
        clipping=np.maximum(*groups.clipping)[at],
        bins=bins,
        low=low,
        low_error=low_error,
        high=high,
        high_error=high_error,
        hidden=hidden,
        sampling=sampling,
        inside=inside,
        possible=groups.possible,
        notes=groups.notes,
        floor=floor,
    )


def _reference(a: Layout, lines: _Lines, named: Any, what: str) -> int:
    """The line that `minus` or `over` names."""
    by = a.asked.by
    if not by or not isinstance(named, Mapping) or set(named) != {c.name for c in by}:
        raise UsageError(f"{what}: expected one value for each column of `by`, got {named!r}")
    chosen = np.ones(lines.group.size, bool)
    for column, codes in zip(by, lines.codes, strict=True):
        chosen &= select(column, named[column.name]).sure[codes]
    if chosen.sum() != 1:
        raise UsageError(
            f"{what}: expected a single group, but {named!r} selects {int(chosen.sum())}"
        )
    return int(np.flatnonzero(chosen)[0])


def _compared(
    a: Layout, groups: Groups, lines: _Lines, numbers: _Numbers, minus: Any, over: Any
) -> _Numbers:
    """Each line minus the line that `minus` names, or over that of `over`, with the covariance of
    the two. A ratio is linearised; it needs a denominator of 5 standard errors."""
    ref = _reference(a, lines, *((minus, "minus") if over is None else (over, "over")))
    at = lines.group
    one = np.full(at.size, at[ref])
    x, y = groups.estimate[at], groups.estimate[one]
    hidden = numbers.hidden | numbers.hidden[ref]
    scale = np.ones(at.size)
    times = np.ones(at.size)
    estimate = x - y
    if over is not None:
        clear = y[0] != 0 and abs(y[0]) >= SHOWN * float(groups.noise[one][0])
        hidden = hidden | (not clear)
        scale = np.full(at.size, 1 / y[0] if clear else 0.0)
        times = x * scale
        estimate = times if clear else np.full(at.size, np.nan)
    weigh = sp.diags_array
    linear = sp.csr_array(weigh(scale) @ (groups.linear[at] - weigh(times) @ groups.linear[one]))
    less = None if groups.less is None else scale * (groups.less[at] - times * groups.less[one])
    noise = a.error(linear, less, a.asked.kind)
    sampling = a.sampled(linear, less)
    (down, up), (down_one, up_one) = ([part[i] for part in groups.clipping] for i in (at, one))
    sides = ((down, up_one), (up, down_one))
    less_clip, more_clip = (abs(scale) * np.hypot(mine, times * other) for mine, other in sides)
    bins = abs(scale) * (groups.bins[at] + abs(times) * groups.bins[one])
    # Two groups that make up a bin are off by opposite amounts: errors inside bins add up.
    inside = abs(scale) * (groups.inside[at] + abs(times) * groups.inside[one])
    split = ~lines.whole | ~lines.whole[ref]
    compared = ["values that were counted together are not compared"] if split.any() else []
    notes = [*numbers.notes, *compared]
    same = np.arange(at.size) == ref
    noise, bins, inside, less_clip, more_clip = (
        np.where(same, 0.0, v) for v in (noise, bins, inside, less_clip, more_clip)
    )
    return _Numbers(
        estimate=estimate,
        noise=noise,
        clipping=np.maximum(less_clip, more_clip),
        bins=bins,
        low=estimate - bins,
        low_error=np.hypot(np.hypot(noise, inside), less_clip),
        high=estimate + bins,
        high_error=np.hypot(np.hypot(noise, inside), more_clip),
        hidden=hidden | split,
        sampling=sampling,
        inside=inside,
        possible=(-math.inf, math.inf),
        notes=notes,
    )


def _table(
    a: Layout,
    lines: _Lines,
    n: _Numbers,
    level: float,
    jointly: bool,
    population: bool,
    compared: bool,
    unit: float,
) -> pa.Table:
    """The answer. `unit`: what numbers are counted in."""
    clip = a.facts.clipping
    basis = a.table.basis
    unknown = n.hidden | (basis == "unknown") | (not clip.known)
    trials = max(1, int((~unknown).sum())) if jointly else 1
    z = NormalDist().inv_cdf(1 - (1 - level) / trials / 2)
    sampling = n.sampling if population else np.zeros(n.estimate.size)
    low = n.low - z * np.hypot(n.low_error, sampling)
    high = n.high + z * np.hypot(n.high_error, sampling)
    estimate = n.estimate
    error = np.hypot(np.hypot(n.noise, n.clipping), np.hypot(sampling, n.inside))
    if n.floor is not None:
        low = np.maximum(low, n.floor[0] - z * np.hypot(n.floor[1], sampling))
    high = high if population else _capped(a, lines, high, z)
    low, estimate, high = _in_order(*(np.clip(v, *n.possible) for v in (low, estimate, high)))
    nothing = np.zeros(estimate.size)
    noise, model = (nothing, n.noise) if basis == "model" else (n.noise, nothing)
    columns: dict[str, Any] = {}
    for column, codes in zip(a.asked.by, lines.codes, strict=True):
        columns[column.name] = takeable(values_of(column)).take(pa.array(codes))
    blank = ~np.isfinite(estimate)

    def shown(numbers: np.ndarray, without: np.ndarray) -> pa.Array:
        with np.errstate(over="ignore"):  # beyond the largest float: infinite
            return of_numpy(np.where(without, 0.0, numbers) * unit, without)

    columns["estimate"] = shown(estimate, blank)
    for name, numbers in (("error", error), ("low", low), ("high", high)):
        columns[name] = shown(numbers, unknown)
    columns["basis"] = of_texts(np.where(unknown, "unknown", _bases(a, n)))
    bins = np.where(n.inside > 0, n.inside, n.bins)
    parts = {"noise": noise, "clipping": n.clipping, "bins": bins, "model": model}
    for name, numbers in (parts | ({"sampling": sampling} if population else {})).items():
        columns[name] = shown(numbers, unknown)
    notes = _notes(a, lines, n, unknown)
    if a.asked.kind == "count" and not a.asked.by and not a.asked.where and not compared:
        rows = _in_two_parts(clip, z)
        columns |= {name: of_numpy(np.array([number])) for name, number in rows.items()}
        if rows:
            notes = ["; ".join(text for text in (_rows_apart(rows), *notes) if text)]
    columns["note"] = of_texts(notes)
    return pa.table(columns)


def _bases(a: Layout, n: _Numbers) -> np.ndarray:
    """What the interval of each line rests on. Counts and shares over merged values stay measured:
    their bounds are counts themselves."""
    lines = np.full(n.estimate.size, a.table.basis, dtype=object)
    if a.table.basis != "measured" or a.asked.value is None:
        return lines
    noise_only = a.released_means and len(a.table.axes) == 1 and a.exact
    lines[(n.bins > 0) & (not noise_only)] = BOUND
    lines[n.inside > 0] = APPROXIMATE
    return lines


def _in_two_parts(clip: Clipping, z: float) -> dict[str, Any]:
    """The number of rows, of each user at most `up_to`, with its interval. Apart from it are the
    rows beyond so many of a user, of whom too few are there to be seen. Empty where the run
    released no histogram of rows per user, or has no users."""
    seen = clip.seen
    if seen is None:
        return {}
    middle = (seen.low + seen.high) / 2
    half = (seen.high - seen.low) / 2 * z / Z95
    low = max(middle - half, 0.0)
    high = middle + half
    return {
        "up_to": seen.most,
        "rows_up_to": min(max(seen.rows, low), high),
        "rows_up_to_low": low,
        "rows_up_to_high": high,
        "beyond": seen.beyond,
        "beyond_high": seen.beyond_high,
    }


def _in_order(
    low: np.ndarray, estimate: np.ndarray, high: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The interval with its estimate inside. Each end is the best of several bounds, and noise may
    make one exceed another. Where the ends have changed places, they are exchanged, which leaves
    out no number between them. An estimate that a bound excludes moves to the bound."""
    known = np.isfinite(estimate)
    low, high = np.minimum(low, high), np.maximum(low, high)
    return low, np.where(known, np.clip(estimate, low, high), estimate), high


def _capped(a: Layout, lines: _Lines, high: np.ndarray, z: float) -> np.ndarray:
    """A count of a value inside a merged code is also at most the value's own count."""
    if a.asked.kind != "count" or lines.whole.all():
        return high
    clip = a.facts.clipping
    for column, codes in zip(a.asked.by, lines.codes, strict=True):
        one = a.facts.table((column.name,))
        if one is None or one.x.size != column.size or one.known is not None:
            continue
        noise = clip.factor * np.sqrt(one.cell_variances())
        error = np.hypot(noise, clip.allowance(one.x, float(one.x.sum()))[1])
        own = clip.factor * np.maximum(one.x, 0.0) + z * error
        high = np.where(lines.whole, high, np.minimum(high, own[codes]))
    return high


def _rows_apart(rows: Mapping[str, Any]) -> str:
    """A sentence of `_in_two_parts`: what is narrow, and what nobody sees."""
    first = f"of each user the first {rows['up_to']:,}"
    narrow = f"{rows['rows_up_to_low']:,.0f} to {rows['rows_up_to_high']:,.0f} rows"
    if not math.isfinite(rows["beyond_high"]):
        return f"{first}: {narrow}; nothing says how many there are beyond"
    return f"{first}: {narrow}; beyond these up to {rows['beyond_high']:,.0f}, by a Pareto tail"


def _notes(a: Layout, lines: _Lines, n: _Numbers, unknown: np.ndarray) -> list[str]:
    """One text per line: what a reader must know besides the numbers."""
    common = [text for text in n.notes if text]
    if a.table.basis == "unknown":
        common.append(UNMEASURED)
    elif a.table.basis == "model":
        common.append("approximate: from the model and its released distance from the data")
    if clamped := [name for name in a.asked.columns if a.facts.mostly_clamped(name)]:
        common.append(
            f"most numbers of {', '.join(clamped)} lie beyond the bounds that the run found"
        )
    if (n.inside > 0).any():
        common.append(INSIDE)
    if a.facts.clipping.text:
        common.append(a.facts.clipping.text)
    together = [(column, np.bincount(m)[m]) for column, m in zip(a.asked.by, a.table.maps)]
    out = []
    for line in range(lines.group.size):
        remarks = [
            remark(column, int(codes[line])) for (column, _), codes in zip(together, lines.codes)
        ]
        own = [text for text in remarks if text]
        for (column, members), codes in zip(together, lines.codes):
            if members[codes[line]] > 1:
                others = plural(int(members[codes[line]]) - 1, "other value")
                own.append(
                    f"{column.name}: counted together with {others}; the upper end is for all of"
                    " them"
                )
        out.append("; ".join(own + common))
    return out


def interval_note(table: pa.Table, level: float, simultaneous: bool = False) -> str:
    """One sentence on how often the intervals of an answer miss."""
    known = sum(b != "unknown" for b in table.column("basis").to_pylist())
    if known == 0:
        return "nothing is known of the error of these numbers"
    if simultaneous:
        return f"all {known} intervals hold together with probability {level:g}"
    each = f"each interval misses with probability {1 - level:.2g}"
    misses = known * (1 - level)
    return each if misses < 0.5 else f"{each}: of {known} about {misses:.1f} miss"
