"""Facts of a run for the page: the privacy promise, and the noise of each measurement.

A run is an object (`run.privacy`, `run.measurements`, ...) or a dict with those keys; every fact is
optional. Nothing here reads a table, so all facts may be released like the statement they come
from.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..answers.measurements_file import StoredMeasurements, released_tables
from ..errors import RunError, UsageError
from ..mechanisms.with_users import NULLS_LABEL, ROWS_LABEL
from ..model.graphical_model import Model
from ..schema import Schema
from .blocks import folded_table, halves, per_table, section
from .svg import big, percent

MAX_MEASUREMENTS = 400
"""Measured sets of columns that a page lists."""
ROWS_BEFORE_FOLD = 10
"""Rows of a long table that are shown before the reader opens it."""
SETS = {0: "counts of users", 1: "single columns", 2: "pairs", 3: "triples"}
NAMED_MARGINALS = 12
"""Marginals that are named in a text; of the others only the number is given."""


def get(run: Any, name: str) -> Any:
    """A fact of a run, which is an object or a mapping; None if it does not have it."""
    return run.get(name) if isinstance(run, Mapping) else getattr(run, name, None)


def facts(run: Any, sizes: Mapping[str, int] | None = None) -> dict | None:
    """What the page shows of one run: `{"promise", "noise"}`, each None if unknown.

    `sizes` are the numbers of codes of the columns; their products are the numbers of cells.
    """
    if run is None:
        return None
    privacy = statement_of(run)
    return {
        "promise": None if privacy is None else promise(privacy),
        "noise": noise(run, privacy or {}, sizes or {}),
    }


def statement_of(run: Any) -> Mapping | None:
    """The privacy statement of a run; a mapping that is itself a statement is returned as it is."""
    if isinstance(run, Mapping) and "epsilon" in run:
        return run  # the content of a privacy.json
    return None if run is None else get(run, "privacy")


def promise(statement: Mapping) -> dict:
    """The facts of the statement that the page shows, under the key names of the page.

    `epsilon`, `delta` and `mu` hold for all parts of the run together; if there are several parts,
    `asked` is the epsilon of the part whose rows are shown.
    """
    parts = statement.get("parts") or []
    part = _part(statement)
    unit = statement.get("unit") or {}
    mechanism = statement.get("mechanism")
    asked = (part.get("asked") or {}).get("epsilon")
    return {
        **{key: _number(statement.get(key)) for key in ("epsilon", "delta", "mu")},
        "asked": _number(asked) if len(parts) > 1 else None,
        "parts": len(parts),
        "unit": {
            "column": unit.get("column"),
            "kind": unit.get("kind") or "user",
            "period": unit.get("period"),
        },
        "user_epsilon": _number(
            ((statement.get("protection") or {}).get("user") or {}).get("epsilon")
        ),
        "bound": _number(part.get("clip")),
        "mechanism": mechanism.get("name") if isinstance(mechanism, Mapping) else mechanism,
        "private": statement.get("private"),
        "not_protected": [str(x) for x in statement.get("not_protected") or []],
        "public_data": [
            str(p.get("name") or "public data") for p in statement.get("public_data") or []
        ],
        "public_use": _public_use(mechanism),
        "alone": (statement.get("ledger") or {}).get("counts_other_runs") is not True,
    }


def _part(statement: Mapping) -> Mapping:
    """The part of the statement that describes the rows shown; an empty mapping if the statement
    has no parts."""
    parts = statement.get("parts") or []
    index = statement.get("part") or 0
    return parts[index] if index < len(parts) else {}


def _public_use(mechanism: Any) -> str:
    """A text that names the marginals which rely on public data; empty if none do."""
    used = (mechanism.get("public") if isinstance(mechanism, Mapping) else None) or {}
    parts = []
    for key, what in (
        ("prior_only", "on it alone"),
        ("prior_and_answers", "on it and on private answers"),
    ):
        if cliques := used.get(key):
            shown = ", ".join(" x ".join(map(str, c)) for c in cliques[:NAMED_MARGINALS])
            if len(cliques) > NAMED_MARGINALS:
                more = f" and {len(cliques) - NAMED_MARGINALS} more"
            else:
                more = ""
            parts.append(f"{len(cliques)} marginals rest {what}: {shown}{more}")
    return ". ".join(parts)


def _number(value: Any) -> float | None:
    """A finite float, or None."""
    known = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if known else None


def noise(run: Any, statement: Mapping, sizes: Mapping[str, int]) -> list[dict] | None:
    """One entry per measured set of columns: label, order (number of columns; 0: a histogram of
    users), cells, sigma in the unit, copies, unit. They come from the measurements, or else from the
    statement.

    If the answers of one measurement have different sigmas (sums of cells), the smallest is given,
    which is that of a single cell. A set that was measured n times has copies = n and the sigma of
    n equal measurements that are together as precise as these.
    """
    by_label: dict[tuple, dict] = {}
    row_units = _row_units(statement.get("mechanism"))
    facts = {str(f.get("name")) for f in _users(statement.get("mechanism")).get("people", ())}
    for clique, label, cells, sigma in _measured(run, statement):
        # A histogram of users is not a marginal of the table. Columns may be groups of users by
        # rows.
        order = 0 if not clique or clique[0].startswith("users by ") else len(clique)
        if order:
            label = " × ".join(clique)
            cells = math.prod(sizes[c] for c in clique) if set(clique) <= set(sizes) else cells
        elif label in row_units:
            sigma *= row_units[label]
        about_users = order and set(clique) <= facts
        unit = "rows" if (order or label in row_units) and not about_users else "users"
        entry = {
            "label": label,
            "order": order,
            "cells": cells,
            "sigma": sigma,
            "copies": 1,
            "unit": unit,
        }
        before = by_label.setdefault((label, order > 0), entry)
        if before is not entry:
            precision = before["copies"] / before["sigma"] ** 2 + 1 / sigma**2
            before["copies"] += 1
            before["sigma"] = math.sqrt(before["copies"] / precision)
    return (
        sorted(by_label.values(), key=lambda e: (e["order"], e["label"]))[:MAX_MEASUREMENTS] or None
    )


def _users(mechanism: Any) -> Mapping:
    return (mechanism.get("users") if isinstance(mechanism, Mapping) else None) or {}


def _row_units(mechanism: Any) -> dict[str, float]:
    """Counts of rows that are released in units of several rows: label, and rows in a unit."""
    users = _users(mechanism)
    places = {ROWS_LABEL: ("rows_up_to", "most"), NULLS_LABEL: ("without_id", "together")}
    return {label: users[key][unit] for label, (key, unit) in places.items() if key in users}


def _measured(run: Any, statement: Mapping) -> Iterator[tuple[tuple[str, ...], str, int, float]]:
    """(columns, label, answers, smallest sigma) of every measurement; no columns if it counts
    users."""
    if measurements := get(run, "measurements"):
        for m in measurements:
            if m.values.size:  # a filtered marginal may keep no cell
                yield (
                    m.clique,
                    m.label or " × ".join(m.clique),
                    m.values.size,
                    float(np.min(m.sigma)),
                )
        return
    for r in _part(statement).get("releases") or []:
        if r.get("sigma") is not None:
            if r.get("kind") in ("user_histogram", "grid", "keys"):
                columns = ()
            else:
                columns = r.get("attributes") or ()
            yield tuple(columns), str(r.get("label") or "total"), r.get("count"), float(r["sigma"])


def noise_html(entries: Sequence[dict], rows: int | None) -> str:
    """A table of the measured sets for each number of columns: the noise of a cell next to the mean
    count of a cell. Of a long table, only the first ten rows are shown until it is opened."""
    out = []
    for order in sorted({e["order"] for e in entries}, key=lambda order: order or math.inf):
        title = SETS.get(order, f"{order} columns together")
        found = [_noise_row(e, rows) for e in entries if e["order"] == order]
        lines = [line for _, line in sorted(found, reverse=True)]
        heads = ("set", "cells", "noise of a cell", "of the average cell")
        out.append(
            (
                f"{title} <small>{len(lines)} measured</small>",
                folded_table(heads, lines, ROWS_BEFORE_FOLD),
            )
        )
    return halves(out)


def noise_section(data: dict) -> str:
    def draw(i: int) -> str:
        run = data["runs"][i]
        return noise_html(run["noise"], data["tables"][i]["rows"]) if run and run["noise"] else ""

    return section("noise", per_table(data, draw))


def _noise_row(entry: dict, rows: int | None) -> tuple[float, tuple[str, ...]]:
    """(noise divided by the mean count of a cell, the texts of one row)."""
    sigma = entry["sigma"] / math.sqrt(entry["copies"])
    copies = entry["copies"]
    cells = entry["cells"]
    name = entry["label"] + (f" (mean of {copies})" if copies > 1 else "")
    noise = f"± {big(round(sigma, 1))} {entry['unit']}"
    counted = bool(rows and cells and entry["order"])  # order 0: a histogram of users, not of rows
    ratio = sigma * cells / rows if rows and counted else 0.0
    return ratio, (name, big(cells) if cells else "–", noise, percent(ratio, 0) if counted else "–")


def folder(place: Path) -> dict[str, Any]:
    """What a finished run folder released: statement, schema, measurements, further tables, model.
    What is large is read when it is first used."""
    try:
        statement = json.loads((place / "privacy.json").read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise RunError(
            f"{place} is not a finished run folder: privacy.json is missing or damaged"
        ) from error
    if (place / "tables.json").is_file():
        raise UsageError(
            f"{place} holds linked tables: name one of its folders, {place / 'table-NAME'}"
        )
    kept = place / "model.fastdp"  # mechanisms that count users have none
    return {
        "privacy": statement,
        "schema": Schema.load(place / "schema.json"),
        "measurements": StoredMeasurements(place),
        "tables": released_tables(place),
        "model": Model.load(kept) if kept.exists() else None,
    }
