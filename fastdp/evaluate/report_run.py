"""Facts of a run on the page: the promise, noise of each measurement, the fit's course, stage times.

A run comes as an object (`run.privacy`, `run.measurements`, ...) or as a dict with those keys; every fact is
optional. Nothing here touches a table, so everything is as releasable as the statement it came from, except
stage times, which depend on the data.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .report_charts import amounts, versus
from .report_svg import big, percent, text

MAX_MEASUREMENTS = 400


def get(source: Any, *names: str) -> Any:
    """The first of `names` that the object or mapping has and that is not None."""
    for name in names:
        value = source.get(name) if isinstance(source, Mapping) else getattr(source, name, None)
        if value is not None:
            return value
    return None


def facts(run: Any, sizes: Mapping[str, int] | None = None) -> dict | None:
    """What the page says about one run: `{"promise", "noise", "fit", "stages"}`, each None where unknown.

    `sizes` are the numbers of codes of the columns, from which cells are counted.
    """
    if run is None:
        return None
    privacy = get(run, "privacy", "statement")
    if privacy is None and isinstance(run, Mapping) and "epsilon" in run:
        privacy = run  # a bare privacy.json
    return {
        "promise": None if privacy is None else promise(privacy),
        "noise": noise(run, privacy, sizes or {}),
        "fit": fit(run),
        "stages": stages(run),
    }


def promise(statement: Mapping) -> dict:
    """The statement's facts that a reader needs, under this page's own names."""
    unit = get(statement, "unit")
    if isinstance(unit, Mapping):
        column, kind = get(unit, "column", "user", "name"), get(unit, "kind", "unit") or "user"
    else:
        column, kind = get(statement, "user", "user_column"), "event" if unit == "event" else "user"
        if column is None and isinstance(unit, str) and unit not in ("user", "event", "row"):
            column = unit
    bound = get(statement, "clip", "bound", "max_rows_per_user")
    if isinstance(bound, Mapping):
        bound = get(bound, "clip", "rows", "max_rows_per_user", "value", "cap")
    limits = get(statement, "not_protected") or []
    ledger = get(statement, "ledger")
    alone = ledger is None or (isinstance(ledger, Mapping) and get(ledger, "kind", "scope") in ("run", "run-local", "local"))
    return {
        "epsilon": _number(get(statement, "epsilon")),
        "delta": _number(get(statement, "delta")),
        "mu": _number(get(statement, "mu")),
        "unit": {"column": column, "kind": kind},
        "bound": _number(bound),
        "mechanism": _mechanism(statement),
        "private": get(statement, "private"),
        "not_protected": [limits] if isinstance(limits, str) else [str(x) for x in limits],
        "alone": alone,
    }


def _mechanism(statement: Mapping) -> str | None:
    found = get(statement, "mechanism")
    return get(found, "name") if isinstance(found, Mapping) else found


def _number(value: Any) -> float | None:
    try:
        return None if value is None or isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        return None


# --- noise ---------------------------------------------------------------------------------------------


def noise(run: Any, privacy: Mapping | None, sizes: Mapping[str, int]) -> list[dict] | None:
    """One entry per measured set: columns, cells, sigma in rows, copies; from measurements or the statement."""
    found: dict[tuple, dict] = {}
    source = get(run, "measurements")
    if source is None and privacy is not None:
        source = get(privacy, "measurements")
    for m in source or []:
        clique = get(m, "clique", "columns", "attributes") or ()
        clique = (clique,) if isinstance(clique, str) else tuple(clique)
        sigma = get(m, "sigma", "scale")
        if sigma is None:
            continue
        sigma = float(np.sqrt(np.mean(np.square(np.asarray(sigma, dtype=float)))))
        values = get(m, "values")
        cells = get(m, "cells", "rows", "size") if values is None else len(np.asarray(values).ravel())
        if clique and all(c in sizes for c in clique):
            cells = math.prod(sizes[c] for c in clique)
        label = " × ".join(clique) if clique else str(get(m, "label", "name", "key") or "total")
        key = (label, round(sigma, 6))
        entry = found.setdefault(
            key,
            {"label": label, "order": len(clique), "sigma": sigma, "cells": None if cells is None else int(cells), "copies": 0},
        )
        entry["copies"] += int(get(m, "count", "times") or 1) if values is None else 1
    if not found:
        return None
    return sorted(found.values(), key=lambda e: (e["order"], e["label"]))[:MAX_MEASUREMENTS]


def noise_html(entries: Sequence[dict], rows: int | None) -> str:
    """A dot per measured set: noise of a cell against the average cell; a group per order, long groups fold."""
    ratios = {id(e): _ratio(e, rows) for e in entries}
    known = [r for r in ratios.values() if r is not None]
    span = (min([*known, 0.1]) / 1.5, max([*known, 10.0]) * 1.5)
    groups: dict[int, list[dict]] = {}
    for e in entries:
        groups.setdefault(e["order"], []).append(e)
    out = []
    for order, group in sorted(groups.items()):
        title = {0: "other", 1: "single columns", 2: "pairs", 3: "triples"}.get(order, f"{order} columns together")
        group.sort(key=lambda e: -(ratios[id(e)] or 0.0))
        drawn = [_noise_row(e, ratios[id(e)], rows) for e in group]
        level = [_mean_sigma(e) for e in group]
        low, high = round(min(level)), round(max(level))
        flat = f"each ± {big(high)} rows" if low == high else f"± {big(low)} to {big(high)} rows"
        body = versus(drawn[:10], span)
        if len(drawn) > 10:
            body += f"<details><summary>{len(drawn) - 10} more</summary>{versus(drawn[10:], span)}</details>"
        out.append(f'<div class="card"><h3>{text(title)} <small>{len(group)} measured, {flat}</small></h3>{body}</div>')
    return f'<div class="halves">{"".join(out)}</div>'


def _mean_sigma(entry: dict) -> float:
    """Noise of the mean of all copies of a measurement, in rows."""
    return entry["sigma"] / math.sqrt(entry["copies"])


def _ratio(entry: dict, rows: int | None) -> float | None:
    if not rows or not entry["cells"]:
        return None
    return _mean_sigma(entry) * entry["cells"] / rows


def _noise_row(entry: dict, ratio: float | None, rows: int | None) -> tuple[str, float | None, str, str]:
    sigma, copies = _mean_sigma(entry), entry["copies"]
    tip = entry["label"] + (f", mean of {copies}" if copies > 1 else "") + f"\n± {big(round(sigma, 1))} rows in a cell"
    if entry["cells"]:
        tip += f", {big(entry['cells'])} cells"
    if ratio is not None:
        tip += f"\n{ratio:.2g} times the average cell"
    if rows:
        tip += f"\n{percent(sigma / rows)} of all rows"
    name = entry["label"].replace("_", " ") + (f" (×{copies})" if copies > 1 else "")
    return name, ratio, f"± {big(round(sigma))}", tip


# --- fit and stages ------------------------------------------------------------------------------------


def fit(run: Any) -> dict | None:
    """`{"trace": [{iteration, loss, seconds}], "stop", "rows"}` where the run kept its fit's course."""
    source = get(run, "fit", "trace")
    if source is None:
        model = get(run, "model")
        source = None if model is None else get(model, "trace", "history")
        if source is None:
            return None
    stop = get(run, "stop")
    rows = None
    if isinstance(source, Mapping):
        stop = get(source, "stop", "stopped", "reason") or stop
        rows = _number(get(source, "rows", "measured"))
        source = get(source, "trace", "steps", "history") or []
    steps = []
    for s in source:
        iteration, loss = _number(get(s, "iteration")), _number(get(s, "loss"))
        if iteration is not None and loss is not None:
            steps.append({"iteration": iteration, "loss": loss, "seconds": _number(get(s, "seconds", "time"))})
    if rows is None:
        measured = get(run, "measurements")
        values = [get(m, "values") for m in measured or []]
        if values and all(v is not None for v in values):
            rows = float(sum(len(np.asarray(v).ravel()) for v in values))
    return {"trace": steps, "stop": None if stop is None else str(stop), "rows": rows} if steps else None


def stages(run: Any) -> dict[str, float] | None:
    """Seconds per stage, in the order given."""
    found = get(run, "stages", "times", "timings")
    if not isinstance(found, Mapping) or not found:
        return None
    return {str(k): float(v) for k, v in found.items() if _number(v) is not None}


def stages_html(found: Mapping[str, float]) -> str:
    whole = sum(found.values())
    rows = [(k, v, f"{v:.3g} s", f"{k}\n{v:.3f} s, {percent(v / whole if whole else 0)}") for k, v in found.items()]
    return f'<div class="card">{amounts(rows)}<p class="note">{whole:.3g} s in all</p></div>'


def errors(run: Any, labels: Mapping[str, tuple[list[str], bool]], rows: int) -> dict[str, np.ndarray]:
    """Standard error of each single-column share, from released measurements alone; columns never measured are absent.

    A measured set that holds the column gives the count of one of its codes as a sum over the other columns, of
    variance sigma^2 times their cells; independent sets combine by inverse variance. Only plain (identity)
    measurements are used, so this overstates the error of a model that also learns from the others.
    """
    weight: dict[str, float] = {}
    for m in get(run, "measurements") or []:
        clique, sigma = get(m, "clique"), get(m, "sigma")
        if not clique or sigma is None or get(m, "query") is not None or np.ndim(sigma) != 0 or any(c not in labels for c in clique):
            continue
        cells = math.prod(len(labels[c][0]) for c in clique)
        for c in clique:
            weight[c] = weight.get(c, 0.0) + len(labels[c][0]) / (float(sigma) ** 2 * cells)
    return {c: np.full(len(labels[c][0]), 1 / math.sqrt(w) / max(rows, 1)) for c, w in weight.items()}
