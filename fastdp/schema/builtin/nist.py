"""Schema documents from the files of the NIST challenge of 2020-21 (DeID2, three sprints)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...errors import SchemaError
from .. import dtypes
from ..importers import read_json

# The scorer of sprint 3 bins money and miles by 10 and seconds by 200, with open ends.
_TAXI_STEP = {"fare": 10, "tips": 10, "trip_total": 10, "trip_miles": 10, "trip_seconds": 200}
# Mean distance beyond the last edge, from the City of Chicago's public trips of March and April
# 2022 (for tips and miles, which hardly ever lie beyond it in these trips, the width of a bin).
_TAXI_TAIL = {"fare": 40, "tips": 10, "trip_total": 60, "trip_miles": 10, "trip_seconds": 1000}
# Bins of the scorer of sprint 2, for the columns whose range is not in its parameters.
_INCOME = ["-inf", *range(0, 105_000, 5_000), "inf"]
_WEIGHT = ["-inf", *range(0, 520, 20), "inf"]
_INCOMES = ("INCTOT", "INCWAGE", "INCWELFR", "INCINVST", "INCEARN")
_ACS_EDGES = {"HHWT": _WEIGHT, "PERWT": _WEIGHT, **dict.fromkeys(_INCOMES, _INCOME)}


def from_deid2(path: str | Path) -> dict[str, Any]:
    """From a parameters.json of the DeID2 challenge, sprint 1, 2 or 3.

    The bound on rows per user is `max_records_per_individual`. A column has exactly the values that
    the file lists. A null or a value outside the list counts as -1 (unknown) if the list has -1;
    else the row is dropped.
    """
    plain = read_json(path)
    columns = plain.get("schema")
    runs = plain.get("runs")
    if not isinstance(columns, dict) or not isinstance(runs, list) or not runs:
        raise SchemaError(
            f"file {path}: not a file of DeID2 parameters: 'schema' or 'runs' is missing"
        )
    try:
        bound = min(int(run["max_records_per_individual"]) for run in runs)
    except (KeyError, TypeError, ValueError):
        raise SchemaError(f"file {path}: a run lacks max_records_per_individual") from None
    outputs: dict[str, Any] = {}
    user: dict[str, Any] = {"max_rows": bound, "null": "drop"}
    if "periods" in columns:
        name = "incidents-deid2"
        made = _sprint1(path, columns)
        user["column"] = "sim_resident"
    elif "PUMA" in columns:
        name = "acs-deid2"
        made = {k: _deid2_column(path, k, c) for k, c in columns.items()}
        user["column"] = "sim_individual_id"
    else:
        name = "taxi-deid2"
        made = {}
        for key, column in columns.items():
            if key in ("trip_day_of_week", "trip_hour_of_day") and "shift" in columns:
                part = "day_of_week" if key == "trip_day_of_week" else "hour"
                outputs[key] = {"from": "shift", "part": part, "dtype": column.get("dtype", "int8")}
            elif column.get("kind") == "id":
                user.update(column=key, dtype=column.get("dtype", "int64"))
            else:
                made[key] = _deid2_column(path, key, column)
    if "column" not in user:
        raise SchemaError(f"file {path}: there is no column of kind 'id'")
    provenance = f"NIST DeID2 challenge, {Path(path).name}"
    return {
        "name": name,
        "provenance": provenance,
        "user": user,
        "columns": made,
        "outputs": outputs,
    }


def _sprint1(path: str | Path, columns: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of sprint 1, whose file lists neighbourhoods and periods."""
    drop = {"null": "drop", "overflow": "drop"}
    made: dict[str, Any] = {}
    try:
        for key in ("neighborhood", "incident_type"):
            listed = columns[key]
            values = [int(v["code"]) for v in listed]
            names = [str(v["name"]) for v in listed]
            made[key] = {
                "kind": "categorical",
                "dtype": "int16",
                "values": values,
                "names": names,
                **drop,
            }
        for key in ("year", "month"):
            values = sorted({int(p[key]) for p in columns["periods"]})
            made[key] = {"kind": "categorical", "dtype": "int16", "values": values, **drop}
    except (KeyError, TypeError, ValueError):
        raise SchemaError(
            f"file {path}: sprint 1 needs periods, neighborhood, incident_type"
        ) from None
    return made


def _deid2_column(path: str | Path, name: str, column: Any) -> dict[str, Any]:
    if not isinstance(column, dict) or "dtype" not in column:
        raise SchemaError(f"file {path}: column {name!r}, field 'dtype' is missing")
    dtype = dtypes.canonical(str(column["dtype"])) or str(column["dtype"])
    made: dict[str, Any] = {"dtype": dtype, "null": "drop", "overflow": "drop"}
    if "values" in column:
        made.update(kind="categorical", values=column["values"])
        if "names" in column:
            made["names"] = column["names"]
        unknown = column.get("null_value", -1)
        if unknown in column["values"]:
            made.update(null={"value": unknown}, overflow={"value": unknown})
    elif name in _TAXI_STEP:
        step = _TAXI_STEP[name]
        edges = ["-inf", *(i * step for i in range(10)), "inf"]
        made |= {"kind": "numeric", "edges": edges, "min": min(-1, column.get("min", -1))}
        made |= {"tail": {"mean": _TAXI_TAIL[name]}, "null": {"value": -1}}
        if "max" in column:
            made["max"] = column["max"]
    elif "min" in column and "max" in column:
        made.update(kind="integer", min=column["min"], max=column["max"])
    elif name in _ACS_EDGES:
        made.update(kind="numeric", edges=_ACS_EDGES[name])
    else:
        raise SchemaError(f"file {path}: column {name!r} has neither values nor min and max")
    return made
