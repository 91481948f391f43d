"""The table of an answer: an interval, its basis, the parts of its error and a note for each line."""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import NormalDist
from typing import Any

import numpy as np

from .._util.arrow import of_numpy, of_texts, takeable
from .._util.lazy import pa
from .._util.texttable import plural
from .answer_lines import Lines, Numbers
from .cell_layout import Layout
from .clipping import Z95, Clipping
from .values import remark, values_of

UNMEASURED = (
    "not measured together, and no distance of the model was released (cliquetree does for pairs)"
)

TOTALS = ("count", "sum")
"""Kinds of numbers that all rows add to."""
WITHHELD = (
    "withheld: noise may hide users who have more rows than all that are seen; set max_rows in the"
    " schema as low as you publicly know"
)

BOUND = "bound"
"""The basis of intervals that hold wherever rows lie inside bins and merged values."""
APPROXIMATE = "approximate"
INSIDE = (
    'approximate: rows of a group lie inside their bins about as all rows do; basis="bound" gives'
    " an interval for any place in them"
)


def answer_table(
    a: Layout,
    lines: Lines,
    n: Numbers,
    level: float,
    jointly: bool,
    population: bool,
    compared: bool,
    unit: float,
) -> pa.Table:
    """The answer. `unit`: what numbers are counted in."""
    clip = a.facts.clipping
    basis = a.table.basis
    withheld = clip.hides and a.asked.kind in TOTALS
    unknown = n.hidden | (basis == "unknown") | (not clip.known) | withheld
    trials = max(1, int((~unknown).sum())) if jointly else 1
    z = NormalDist().inv_cdf(1 - (1 - level) / trials / 2)
    sampling = n.sampling if population else np.zeros(n.estimate.size)
    low = n.low - z * np.hypot(n.low_error, sampling)
    high = n.high + z * np.hypot(n.high_error, sampling)
    estimate = n.estimate
    low, high = _kept_wide(n, low, high)
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
            notes = ["; ".join(text for text in (_rows_apart(rows, clip.claim), *notes) if text)]
    columns["note"] = of_texts(notes)
    return pa.table(columns)


def _bases(a: Layout, n: Numbers) -> np.ndarray:
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


def _kept_wide(n: Numbers, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where noise puts an estimate outside what is possible, the interval moves with it to the bound. It
    would else end near the bound or beyond it: "0 to 0" for a value of which nothing is certain."""
    least, most = n.possible
    below = np.where(n.estimate < least, least - n.estimate, 0.0)
    above = np.where(n.estimate > most, n.estimate - most, 0.0)
    return low - above, high + below


def _in_order(
    low: np.ndarray, estimate: np.ndarray, high: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The interval with its estimate inside. Each end is the best of several bounds, and noise may
    make one exceed another. Where the ends have changed places, they are exchanged, which leaves
    out no number between them. An estimate that a bound excludes moves to the bound."""
    known = np.isfinite(estimate)
    low, high = np.minimum(low, high), np.maximum(low, high)
    return low, np.where(known, np.clip(estimate, low, high), estimate), high


def _capped(a: Layout, lines: Lines, high: np.ndarray, z: float) -> np.ndarray:
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


def _rows_apart(rows: Mapping[str, Any], claim: int) -> str:
    """A sentence of `_in_two_parts`: what is narrow, and what nobody sees."""
    first = f"of each user the first {rows['up_to']:,}"
    narrow = f"{rows['rows_up_to_low']:,.0f} to {rows['rows_up_to_high']:,.0f} rows"
    if not math.isfinite(rows["beyond_high"]):
        return f"{first}: {narrow}; nothing says how many there are beyond"
    how = f"if no user has more than {claim:,}" if claim else "by a Pareto tail"
    return f"{first}: {narrow}; beyond these up to {rows['beyond_high']:,.0f}, {how}"


def _notes(a: Layout, lines: Lines, n: Numbers, unknown: np.ndarray) -> list[str]:
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
    clip = a.facts.clipping
    totals = a.asked.kind in TOTALS
    if clip.hides and totals:
        common.append(WITHHELD)
    common += [text for text in (clip.text, clip.of_totals if totals else clip.of_shares) if text]
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
