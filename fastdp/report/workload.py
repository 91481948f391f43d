"""The error of each set of columns in a workload: as the statement predicts it, and, if the truth is given,
as measured against the truth.

Errors are total variations: the share of rows that would have to move to another cell of the set.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from .blocks import nice, per_table, section
from .collect import Coded
from .svg import num, percent, text

DENSE_CELLS = 1 << 26
SHOWN = 12
"""Sets that are shown at once; the others are shown when the reader opens the list."""


def collect(
    truth: Coded | None, table: Coded, statement: Mapping | None, sizes: Mapping[str, int]
) -> list[dict] | None:
    """One entry per set of the run's workload whose columns the table has, by decreasing weight; None if the
    run had no workload. `off`, the total variation from the truth, is None without the truth."""
    mechanism = (statement or {}).get("mechanism")
    items = mechanism.get("workload") if isinstance(mechanism, Mapping) else None
    out = []
    for item in items or []:
        columns = tuple(item["columns"])
        if not set(columns) <= set(sizes):
            continue
        off = None
        if truth is not None:
            off = float(f"{distance(truth.codes, table.codes, columns, sizes):.4g}")
        noted = {key: item.get(key) for key in ("expected_error", "distance", "distance_error")}
        out.append({"columns": list(columns), "weight": float(item.get("weight", 1.0)), "off": off, **noted})
    return sorted(out, key=lambda item: -item["weight"]) or None


def distance(
    a: Mapping[str, np.ndarray], b: Mapping[str, np.ndarray], columns: Sequence[str], sizes: Mapping[str, int]
) -> float:
    """Total variation between two tables' marginals; 1 if one of the tables has no rows."""
    keys, size = [np.zeros(len(side[columns[0]]), np.int64) for side in (a, b)], 1
    rows = [len(key) for key in keys]
    if 0 in rows:
        return 1.0
    for name in columns:
        if size * sizes[name] > DENSE_CELLS:  # too many cells: renumber those that occur
            values, joined = np.unique(np.concatenate(keys), return_inverse=True)
            keys, size = np.split(joined, [rows[0]]), len(values)
        keys = [key * sizes[name] + side[name] for key, side in zip(keys, (a, b), strict=True)]
        size *= sizes[name]
    if size > DENSE_CELLS:
        values, joined = np.unique(np.concatenate(keys), return_inverse=True)
        keys, size = np.split(joined, [rows[0]]), len(values)
    p, q = (np.bincount(key, minlength=size) / n for key, n in zip(keys, rows, strict=True))
    return float(np.abs(p - q).sum() / 2)


def sets(data: dict) -> str:
    """The HTML of the section; empty if no table has a workload."""

    def draw(i: int) -> str:
        items = data["workload"][i]
        if not items:
            return ""
        ends = [_high(item) for item in items]
        top = max(ends) or 1.0
        several = len({item["weight"] for item in items}) > 1
        rows = [_row(item, top, several, data["with_truth"]) for item in items]
        names = ["set", "", *(["off"] if data["with_truth"] else []), "model", "noise alone"]
        head = "".join(f'<th scope="col"{_strip(k)}>{name}</th>' for k, name in enumerate(names))
        body = _table(head, rows[:SHOWN])
        if len(rows) > SHOWN:
            more = _table(head, rows[SHOWN:])
            body += f"<details><summary>{len(rows) - SHOWN} more sets</summary>{more}</details>"
        return body

    lead = (
        "Share of rows in a wrong cell of each set that the run was asked to get right, measured privately "
        "on the finished model: the line spans plus and minus two standard errors. It is the model's, over "
        "values that were counted together; the released rows are off by more. Sets of many small cells "
        "are off by nature: a model gives each of them a fraction of a row. The grey bar is what the noise "
        "of a measurement that contains the set leads one to expect, where there was one."
    )
    if data["with_truth"]:
        lead += " Discs are what the released rows are off."
    return section("workload", "What was asked for", lead, per_table(data, draw))


def _strip(k: int) -> str:
    return ' class="duo-cell"' if k == 1 else ""


def _table(head: str, rows: Sequence[str]) -> str:
    return (
        f'<div class="scroll"><table class="worst asked"><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _high(item: dict) -> float:
    """The largest value that is drawn for one set."""
    seen = item["distance"]
    whisker = None if seen is None else seen + 2 * (item["distance_error"] or 0.0)
    return max(value for value in (item["off"], item["expected_error"], whisker, 0.0) if value is not None)


def _row(item: dict, top: float, several: bool, with_truth: bool) -> str:
    names = " × ".join(nice(name) for name in item["columns"])
    weight = f" <em>weight {item['weight']:g}</em>" if several else ""
    seen = _seen(item)
    noise = "from smaller sets" if item["expected_error"] is None else percent(item["expected_error"])
    off = "" if not with_truth else f"<td><b>{percent(item['off'])}</b></td>"
    return (
        f'<tr><th scope="row">{names}{weight}</th><td class="duo-cell">{_mark(item, top)}</td>{off}'
        f"<td>{text(seen)}</td><td>{text(noise)}</td></tr>"
    )


def _seen(item: dict) -> str:
    if item["distance"] is None:
        return "–"
    error = item["distance_error"]
    return percent(item["distance"]) + (f" ± {percent(2 * error)}" if error else "")


def _mark(item: dict, top: float) -> str:
    """One set on an axis from 0 to `top`: a bar (error from noise alone), a line (the model's distance with
    two standard errors) and a disc (total variation from the truth)."""

    def x(value: float) -> str:
        return num(100 * min(1.0, max(0.0, value / top))) + "%"

    parts = ['<line class="rule thin" x1="0" x2="100%" y1="10" y2="10"/>']
    tip = [" × ".join(item["columns"])]
    if item["expected_error"] is not None:
        parts.append(f'<rect class="n" y="5" height="10" rx="1" width="{x(item["expected_error"])}"/>')
        tip.append(f"noise alone {percent(item['expected_error'])}")
    if item["distance"] is not None and math.isfinite(item["distance"]):
        half = 2 * (item["distance_error"] or 0.0)
        low, high = x(item["distance"] - half), x(item["distance"] + half)
        middle = x(item["distance"])
        parts.append(f'<line class="e" x1="{low}" x2="{high}" y1="10" y2="10"/>')
        parts.append(f'<line class="e" x1="{middle}" x2="{middle}" y1="5" y2="15"/>')
        tip.append(f"model {_seen(item)}")
    if item["off"] is not None:
        parts.append(f'<circle class="n over" cx="{x(item["off"])}" cy="10" r="5"/>')
        tip.append(f"off by {percent(item['off'])}")
    return f'<svg class="bar" data-tip="{text(chr(10).join(tip))}" aria-hidden="true">{"".join(parts)}</svg>'
