"""The section about people: who comes back, when they began, how long they stay, and how much the
largest users hold. Of the tables themselves and of the released numbers; the true figures stand
beside them on the owner's page alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..answers.answer import answer
from ..answers.facts import Facts
from ..answers.people_facts import ROWS, people_facts
from ..answers.values import numbers_of
from ..errors import UsageError
from ..measurement import Measurement
from ..schema import Schema
from ..tables.table import Table
from . import runs as running
from .blocks import folded_table, halves, nice, per_table, section, table_html

MOST_COHORTS = 40
"""Periods of the order column up to which cohorts are listed."""
SHOWN = 12
"""Cohorts that are shown before the reader opens the rest."""
SPANS = (2, 3, 4, 6)
TOP = 0.1
CLEAR = 5.0
"""The share that comes back is given where a cohort has so many half-widths of its interval."""


def collect(
    truth: Table | None, tables: Sequence[Table], schema: Schema, runs: Sequence[Any]
) -> dict[str, Any] | None:
    """Figures about the users of every table, the truth's first if it is there, and what each run
    released of them; None if a table has no users."""
    every = [t for t in (truth, *tables) if t is not None]
    if not isinstance(schema, Schema) or schema.user is None:
        return None
    if any(t.user is None or not t.rows for t in every):
        return None
    lead = schema.order_columns[0] if schema.order_columns else None
    if lead is not None and (schema.columns[lead].size > MOST_COHORTS or _lacks(every, lead)):
        lead = None
    amounts = [name for name in schema.user_amounts if not _lacks(every, name)]
    released = [_released(run, schema, lead, amounts) for run in runs]
    return {
        "tables": [_figures(t, schema, lead, amounts) for t in every],
        "released": released,
        "cohorts": None if lead is None else {"of": lead, "names": schema.columns[lead].labels()},
        "amounts": amounts,
    }


def _lacks(tables: Sequence[Table], name: str) -> bool:
    return any(name not in t.codes for t in tables)


def _figures(
    table: Table, schema: Schema, lead: str | None, amounts: Sequence[str]
) -> dict[str, Any]:
    """What the users of one table are like."""
    assert table.user is not None
    rows = np.bincount(table.user)
    there = rows > 0
    own = rows[there]
    out: dict[str, Any] = {"repeat": float((own > 1).mean()), "top": {ROWS: _top(own)}}
    for name in amounts:
        numbers = np.nan_to_num(numbers_of(schema.columns[name]).middle)
        # Shares have no unit; divided like this, no sum overflows.
        numbers = numbers / max(float(np.abs(numbers).max()), 1.0)
        sums = np.bincount(table.user, numbers[table.codes[name]], len(rows))[there]
        out["top"][name] = _top(sums)
    if lead is None:
        return out
    size = schema.columns[lead].size
    periods = table.codes[lead].astype(np.int64)
    first = np.full(len(rows), size)
    last = np.full(len(rows), -1)
    np.minimum.at(first, table.user, periods)
    np.maximum.at(last, table.user, periods)
    span = (last - first)[there] + 1
    seen = np.unique(table.user.astype(np.int64) * size + periods) // size
    active = np.bincount(seen, minlength=len(rows))[there]
    cohort = np.bincount(first[there], minlength=size)
    back = np.bincount(first[there][own > 1], minlength=size)
    out["share"] = (cohort / max(cohort.sum(), 1)).tolist()
    out["back"] = [float(b / c) if c else None for b, c in zip(back, cohort)]
    out["active"] = [float((active >= least).mean()) for least in SPANS]
    out["span"] = [float((span >= least).mean()) for least in SPANS]
    out["last"] = (np.bincount(last[there], minlength=size) / max(there.sum(), 1)).tolist()
    return out


def _top(numbers: np.ndarray) -> float | None:
    """The part of all that the largest tenth of users has."""
    total = float(numbers.sum())
    largest = np.sort(numbers)[::-1][: max(1, round(TOP * len(numbers)))]
    return float(largest.sum()) / total if total > 0 else None


Span = tuple[float, float] | None


def _released(
    run: Any, schema: Schema, lead: str | None, amounts: Sequence[str]
) -> dict[str, Any] | None:
    """95 % intervals of the true users' figures, from what the run released."""
    statement = running.statement_of(run)
    measured = running.get(run, "measurements") if run is not None else None
    if statement is None or not measured or not isinstance(measured[0], Measurement):
        return None
    try:
        own = running.get(run, "schema") or schema
        facts = people_facts(statement, own, measured, running.get(run, "tables") or {})
    except UsageError:
        return None
    out: dict[str, Any] = {
        "repeat": (_spans(facts, "share", (), {ROWS: (2, None)}) or [None])[0],
        "top": {name: _released_top(run, name) for name in amounts},
    }
    first = f"first({lead})"
    active = f"active({lead})"
    if lead is None or first not in facts.schema.columns:
        return out
    out["share"] = _spans(facts, "share", (first,))
    out["last"] = _spans(facts, "share", (f"last({lead})",))
    users, back = (_spans(facts, "count", (first,), w) for w in (None, {ROWS: (2, None)}))
    out["back"] = None if not users or not back else [*map(_ratio, back, users)]
    if active in facts.schema.columns:
        conditions: list[dict[str, Any]] = [{active: (least, None)} for least in SPANS]
        out["active"] = [(_spans(facts, "share", (), c) or [None])[0] for c in conditions]
    return out


def _released_top(run: Any, name: str) -> Span:
    """The interval of the part of a total that the largest tenth of true users has; None if the run
    released no sums per user."""
    top_share = running.get(run, "top_share")
    try:
        found = None if top_share is None else top_share(name, TOP)
    except UsageError:
        return None
    return None if found is None else (found.low, found.high)


def _spans(
    facts: Facts, of: str, by: Sequence[str], where: Mapping[str, Any] | None = None
) -> list[Span] | None:
    """The intervals of an answer, None where there is none."""
    try:
        found = answer(facts, of, by, where)
    except UsageError:
        return None
    lines = zip(found["low"].to_pylist(), found["high"].to_pylist())
    spans: list[Span] = [
        None if low is None or high is None else (low, high) for low, high in lines
    ]
    return spans if any(spans) else None


def _ratio(part: Span, whole: Span) -> Span:
    """An interval of the ratio that holds wherever both intervals do."""
    if part is None or whole is None:
        return None
    middle = (whole[0] + whole[1]) / 2
    half = (whole[1] - whole[0]) / 2
    if whole[1] <= 0 or middle < CLEAR * half:
        return None
    return max(0.0, part[0] / whole[1]), min(1.0, part[1] / max(whole[0], 1e-9))


def draw(data: dict) -> str:
    """The section's HTML."""
    found = data.get("people")
    if not found:
        return ""

    def one(i: int) -> str:
        tables = found["tables"]
        released = found["released"][i]
        columns = [tables[0], tables[1 + i]] if data["with_truth"] else [tables[i]]
        shown = ["truth", "synthetic"] if data["with_truth"] else ["synthetic"]
        shown += [] if released is None else ["released, 95 %"]
        cards = [("Users in all", _whole(columns, released, shown))]
        if found["cohorts"] is not None:
            of = nice(found["cohorts"]["of"])
            titles = {
                "share": f"By first {of}",
                "back": f"Come back, by first {of}",
                "last": f"By last {of}",
            }
            for what, title in titles.items():
                cards.append((title, _cohorts(found, columns, released, shown, what)))
        return halves(cards)

    return section("people", per_table(data, one))


def _cell(value: float | None) -> str:
    """A share in per cent: the unit is in the heading, so that narrow screens hold the table."""
    return "–" if value is None else f"{100 * value:.1f}"


def _interval(spans: Sequence[Span] | Span, at: int | None = None) -> str:
    span: Any = spans if at is None or spans is None else spans[at]
    return "–" if span is None else f"{_cell(span[0])} to {_cell(span[1])}"


def _whole(columns: Sequence[dict], released: dict | None, heads: Sequence[str]) -> str:
    known = released or {}
    lines = [
        ["one row", *(_cell(1 - c["repeat"]) for c in columns)],
        ["two rows or more", *(_cell(c["repeat"]) for c in columns)],
    ]
    back = known.get("repeat")
    spans = [_interval(None if back is None else (1 - back[1], 1 - back[0])), _interval(back)]
    for k, least in enumerate(SPANS if "active" in columns[0] else ()):
        lines.append([f"rows in {least}+ periods", *(_cell(c["active"][k]) for c in columns)])
        spans.append(_interval(known.get("active"), k))
    for k, least in enumerate(SPANS if "span" in columns[0] else ()):
        lines.append(
            [f"{least}+ periods from first to last", *(_cell(c["span"][k]) for c in columns)]
        )
        spans.append("–")
    for name in columns[0]["top"]:
        what = "rows" if name == ROWS else name
        lines.append([f"{what} of top 10 %", *(_cell(c["top"][name]) for c in columns)])
        spans.append(_interval(known.get("top", {}).get(name)))
    rows = lines if released is None else [[*x, span] for x, span in zip(lines, spans)]
    return table_html(("per cent", *heads), rows, "quotes numbers")


def _cohorts(
    found: dict, columns: Sequence[dict], released: dict | None, heads: Sequence[str], what: str
) -> str:
    known = (released or {}).get(what)
    rows = []
    for k, name in enumerate(found["cohorts"]["names"]):
        if any(c["share"][k] for c in columns):
            cells = [name, *(_cell(c[what][k]) for c in columns)]
            rows.append(cells if released is None else [*cells, _interval(known, k)])
    head = "ended" if what == "last" else "began"
    return folded_table((head, *heads), rows, SHOWN, "quotes numbers")
