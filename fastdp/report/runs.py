"""Facts of a run for the page: the privacy promise, noise of each measurement, trace of the fit.

A run is an object (`run.privacy`, `run.measurements`, ...) or a dict with those keys; every fact is optional.
Nothing here reads a table, so all facts may be released like the statement they come from.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..answers.measurements_file import StoredMeasurements, released_tables
from ..errors import RunError
from ..model import Model
from ..schema import Schema
from .charts import versus
from .svg import big, percent, text

MAX_MEASUREMENTS = 400
MOST_SHOWN = 12  # marginals that are named in a text; of the others only the number is given


def get(source: Any, *names: str) -> Any:
    """The first of `names` that the object or mapping has and that is not None."""
    for name in names:
        value = source.get(name) if isinstance(source, Mapping) else getattr(source, name, None)
        if value is not None:
            return value
    return None


def facts(run: Any, sizes: Mapping[str, int] | None = None) -> dict | None:
    """What the page shows of one run: `{"promise", "noise", "fit"}`, each None if unknown.

    `sizes` are the numbers of codes of the columns; their products are the numbers of cells.
    """
    if run is None:
        return None
    privacy = statement_of(run)
    return {
        "promise": None if privacy is None else promise(privacy),
        "noise": noise(run, privacy, sizes or {}),
        "fit": fit(run),
    }


def statement_of(run: Any) -> Mapping | None:
    """The privacy statement of a run; a mapping that is itself a statement is returned as it is."""
    privacy = None if run is None else get(run, "privacy", "statement")
    if privacy is None and isinstance(run, Mapping) and "epsilon" in run:
        return run  # the content of a privacy.json
    return privacy


def promise(statement: Mapping) -> dict:
    """The facts of the statement that the page shows, under the key names of the page.

    `epsilon`, `delta` and `mu` hold for all parts of the run together; if there are several parts, `asked` is
    the epsilon of the part whose rows are shown.
    """
    parts = get(statement, "parts") or []
    part = _part(statement)
    unit = get(statement, "unit") or {}
    bound = get(part, "clip") or get(statement, "clip")
    limits = get(statement, "not_protected") or []
    ledger = get(statement, "ledger") or {}
    asked = get(get(part, "asked") or {}, "epsilon")
    return {
        "epsilon": _number(get(statement, "epsilon")),
        "delta": _number(get(statement, "delta")),
        "mu": _number(get(statement, "mu")),
        "asked": _number(asked) if len(parts) > 1 else None,
        "parts": len(parts),
        "unit": {"column": get(unit, "column"), "kind": get(unit, "kind") or "user"},
        "bound": _number(bound),
        "lost": _number(get(get(part, "clip_choice") or {}, "lost")),
        "mechanism": _mechanism(statement),
        "private": get(statement, "private"),
        "not_protected": [limits] if isinstance(limits, str) else [str(x) for x in limits],
        "public_data": [
            str(get(p, "name", "path", "what") or "public data") for p in get(statement, "public_data") or []
        ],
        "public_use": _public_use(get(statement, "mechanism")),
        "alone": get(ledger, "counts_other_runs") is not True,
    }


def _part(statement: Mapping | None) -> Mapping:
    """The part of the statement that describes the rows shown; an empty mapping if the statement has no
    parts."""
    parts = get(statement or {}, "parts") or []
    index = get(statement or {}, "part") or 0
    return parts[index] if index < len(parts) else {}


def _public_use(mechanism: Any) -> str:
    """A text that names the marginals which rely on public data; empty if none do."""
    used = get(mechanism, "public") if isinstance(mechanism, Mapping) else None
    parts = []
    for key, what in (("prior_only", "on it alone"), ("prior_and_answers", "on it and on private answers")):
        cliques = get(used or {}, key)
        if isinstance(cliques, list) and cliques:
            shown = ", ".join(" x ".join(map(str, c)) for c in cliques[:MOST_SHOWN] if isinstance(c, list))
            more = f" and {len(cliques) - MOST_SHOWN} more" if len(cliques) > MOST_SHOWN else ""
            parts.append(f"{len(cliques)} marginals rest {what}: {shown}{more}")
    return ". ".join(parts)


def _mechanism(statement: Mapping) -> str | None:
    mechanism = get(statement, "mechanism")
    return get(mechanism, "name") if isinstance(mechanism, Mapping) else mechanism


def _number(value: Any) -> float | None:
    """A finite float, or None."""
    try:
        number = math.nan if value is None or isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def noise(run: Any, privacy: Mapping | None, sizes: Mapping[str, int]) -> list[dict] | None:
    """One entry per measured set of columns: columns, cells, sigma in rows, copies; taken from the
    measurements, or else from the statement.

    If the answers of one measurement have different sigmas (sums of cells), the smallest is given, which is
    that of a single cell. A set that was measured n times has copies = n and the sigma of n equal
    measurements that are together as precise as these.
    """
    by_label: dict[tuple, dict] = {}
    for m in get(run, "measurements") or get(_part(privacy), "releases") or []:
        sigma = _error(m)
        if sigma is None:
            continue
        clique = get(m, "clique", "attributes") or ()
        clique = (clique,) if isinstance(clique, str) else tuple(clique)
        values = get(m, "values")
        cells = get(m, "count") if values is None else np.asarray(values).size
        # A histogram of users is not a marginal of the table: its keys are not columns of the schema.
        counted = get(m, "kind") in ("user_histogram", "grid", "keys")
        histogram = counted or not clique or any(c not in sizes for c in clique)
        if not histogram:
            cells = math.prod(sizes[c] for c in clique)
        label = " × ".join(clique) if not histogram else str(get(m, "label") or " × ".join(clique) or "total")
        entry = by_label.setdefault(
            (label, histogram),
            {
                "label": label,
                "order": 0 if histogram else len(clique),
                "sigma": sigma,
                "cells": None,
                "copies": 0,
            },
        )
        entry["cells"] = None if cells is None else int(cells)
        if entry["copies"] and sigma != entry["sigma"]:
            precision = entry["copies"] / entry["sigma"] ** 2 + 1 / sigma**2
            entry["sigma"] = math.sqrt((entry["copies"] + 1) / precision)
        entry["copies"] += 1
    if not by_label:
        return None
    return sorted(by_label.values(), key=lambda e: (e["order"], e["label"]))[:MAX_MEASUREMENTS]


def _error(measurement: Any) -> float | None:
    """The smallest standard error of a measurement's answers: from `variances` if it has them (they include
    the factor of each row of the query), else `sigma`."""
    variances = get(measurement, "variances")
    sigma = get(measurement, "sigma") if variances is None else np.sqrt(np.asarray(variances, dtype=float))
    return None if sigma is None or np.size(sigma) == 0 else float(np.min(np.asarray(sigma, dtype=float)))


def noise_html(entries: Sequence[dict], rows: int | None) -> str:
    """One dot per measured set of columns: sigma of a cell divided by the mean count of a cell. Sets are
    grouped by their number of columns; of a long group, only the first ten are shown until it is opened."""
    ratios = {id(e): _ratio(e, rows) for e in entries}
    finite = [r for r in ratios.values() if r is not None]
    span = (min([*finite, 0.1]) / 1.5, max([*finite, 10.0]) * 1.5)
    groups: dict[int, list[dict]] = {}
    for e in entries:
        groups.setdefault(e["order"], []).append(e)
    out = []
    for order, group in sorted(groups.items(), key=lambda g: (g[0] == 0, g[0])):
        title = {0: "counts of users", 1: "single columns", 2: "pairs", 3: "triples"}.get(
            order, f"{order} columns together"
        )
        group.sort(key=lambda e: -(ratios[id(e)] or 0.0))
        drawn = [_noise_row(e, ratios[id(e)], rows) for e in group]
        level = [_mean_sigma(e) for e in group]
        low, high = round(min(level)), round(max(level))
        unit = "rows" if order else "users"
        flat = f"each ± {big(high)} {unit}" if low == high else f"± {big(low)} to {big(high)} {unit}"
        body = versus(drawn[:10], span)
        if len(drawn) > 10:
            body += f"<details><summary>{len(drawn) - 10} more</summary>{versus(drawn[10:], span)}</details>"
        out.append(
            f'<div class="card"><h3>{text(title)} <small>{len(group)} measured, '
            f"{flat}</small></h3>{body}</div>"
        )
    return f'<div class="halves">{"".join(out)}</div>'


def _mean_sigma(entry: dict) -> float:
    """Standard error, in rows, of the mean of all copies of a measurement."""
    return entry["sigma"] / math.sqrt(entry["copies"])


def _ratio(entry: dict, rows: int | None) -> float | None:
    if not rows or not entry["cells"] or not entry["order"]:  # order 0: a histogram of users, not of rows
        return None
    return _mean_sigma(entry) * entry["cells"] / rows


def _noise_row(entry: dict, ratio: float | None, rows: int | None) -> tuple[str, float | None, str, str]:
    sigma, copies = _mean_sigma(entry), entry["copies"]
    tip = (
        entry["label"]
        + (f", mean of {copies}" if copies > 1 else "")
        + f"\n± {big(round(sigma, 1))} {'rows' if entry['order'] else 'users'} in a cell"
    )
    if entry["cells"]:
        tip += f", {big(entry['cells'])} cells"
    if ratio is not None:
        tip += f"\n{ratio:.2g} times the average cell"
    if rows and entry["order"]:
        tip += f"\n{percent(sigma / rows)} of all rows"
    name = entry["label"].replace("_", " ") + (f" (×{copies})" if copies > 1 else "")
    return name, ratio, f"± {big(round(sigma))}", tip


def fit(run: Any) -> dict | None:
    """`{"trace": [{iteration, loss, seconds}], "stop", "rows"}`; None if the run has no trace of its fit.

    From `run["fit"]` in that form, or from `run.model`, whose trace holds (calls, loss, seconds). `rows` is
    the number of answers that the model was fitted to; half of it is the expected loss from noise alone.
    """
    source = get(run, "fit", "trace")
    if source is None:
        source = get(get(run, "model") or {}, "trace")
        if source is None:
            return None
    stop = get(get(run, "model") or {}, "ended")
    rows = None
    if isinstance(source, Mapping):
        stop = get(source, "stop") or stop
        rows = _number(get(source, "rows"))
        source = get(source, "trace") or []
    steps = []
    for s in source:
        step = s if isinstance(s, Mapping) else dict(zip(("iteration", "loss", "seconds"), s, strict=False))
        iteration, loss = _number(get(step, "iteration")), _number(get(step, "loss"))
        if iteration is not None and loss is not None:
            steps.append({"iteration": iteration, "loss": loss, "seconds": _number(get(step, "seconds"))})
    if rows is None:
        domain = get(get(run, "model") or {}, "domain")
        fitted = [
            m
            for m in get(run, "measurements") or []
            if domain is None or set(get(m, "clique") or ()) <= set(domain)
        ]
        counts = [get(m, "count") if get(m, "values") is None else np.size(get(m, "values")) for m in fitted]
        if counts and all(counts):
            rows = float(sum(counts))
    return {"trace": steps, "stop": None if stop is None else str(stop), "rows": rows} if steps else None


def folder(place: Path) -> dict:
    """What a finished run folder released: statement, schema, measurements, further tables, model."""
    try:
        statement = json.loads((place / "privacy.json").read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise RunError(f"{place} is not a finished run folder: privacy.json is missing or broken") from error
    kept = place / "model.fastdp"
    return {
        "privacy": statement,
        "schema": Schema.load(place / "schema.json"),
        "measurements": StoredMeasurements(place),
        "tables": released_tables(place),
        "model": Model.load(kept) if kept.exists() else None,
    }
