"""The error of each set of columns in a workload: as the statement predicts it, and, if the truth
is given, as measured against the truth.

Errors are total variations: the share of rows that would have to move to another cell of the set.
"""

from collections.abc import Mapping

from ..metrics.inputs import Pair
from ..metrics.total_variation import total_variation
from ..significance import Z95
from ..tables.table import Table
from .blocks import folded_table, per_table, section, sections_said
from .svg import percent

SHOWN = 12
"""Sets that are shown at once; the others are shown when the reader opens the list."""


def collect(
    truth: Table | None, table: Table, statement: Mapping | None, sizes: Mapping[str, int]
) -> list[dict] | None:
    """One entry per set of the run's workload whose columns the table has, by decreasing weight;
    None if the run had no workload. `off`, the total variation from the truth, is None without the
    truth."""
    mechanism = (statement or {}).get("mechanism")
    items = mechanism.get("workload") if isinstance(mechanism, Mapping) else None
    out = []
    for item in items or []:
        columns = tuple(item["columns"])
        if not set(columns) <= set(sizes):
            continue
        off = None
        if truth is not None:
            own = {name: sizes[name] for name in columns}
            pair = Pair(truth.codes, table.codes, own, {}, {}, (truth.rows, table.rows))
            off = float(f"{total_variation(pair, [columns])[0]:.4g}")
        noted = {key: item.get(key) for key in ("expected_error", "distance", "distance_error")}
        out.append(
            {
                "columns": list(columns),
                "weight": float(item.get("weight", 1.0)),
                "off": off,
                **noted,
            }
        )
    return sorted(out, key=lambda item: -item["weight"]) or None


def sets(data: dict) -> str:
    """The HTML of the section; empty if no table has a workload."""
    heads = ("set", *(["off"] if data["with_truth"] else []), "model", "noise alone")

    def draw(i: int) -> str:
        items = data["workload"][i] or []
        several = len({item["weight"] for item in items}) > 1
        rows = [_row(item, several, data["with_truth"]) for item in items]
        return folded_table(heads, rows, SHOWN, "worst asked") if rows else ""

    said = sections_said()["workload"]
    lead = said["lead"] + (said["truth"] if data["with_truth"] else "")
    return section("workload", per_table(data, draw), lead)


def _row(item: dict, several: bool, with_truth: bool) -> list[str]:
    names = " × ".join(item["columns"])
    weight = f" (weight {item['weight']:g})" if several else ""
    seen = item["distance"]
    error = item["distance_error"]
    model = "–" if seen is None else percent(seen)
    if seen is not None and error:
        model += f" ± {percent(Z95 * error)}"
    if item["expected_error"] is None:
        noise = "from smaller sets"
    else:
        noise = percent(item["expected_error"])
    return [names + weight, *([percent(item["off"])] if with_truth else []), model, noise]
