"""Schema documents from other people's files: the NIST challenges', mbi's domain.json; and a first draft from
public data.

Everything here returns a plain document, as TOML would give it; `Schema.from_dict` makes the schema.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import SchemaError
from . import dtypes

# The scorer of sprint 3 bins money and miles by 10 and seconds by 200, with open ends.
_TAXI_STEP = {"fare": 10, "tips": 10, "trip_total": 10, "trip_miles": 10, "trip_seconds": 200}
# Mean distance beyond the last edge, from the City of Chicago's public trips of March and April 2022
# (for tips and miles, where those hold hardly any, the width of a bin).
_TAXI_TAIL = {"fare": 40, "tips": 10, "trip_total": 60, "trip_miles": 10, "trip_seconds": 1000}
# The scorer of sprint 2, for the columns whose range its parameters leave open.
_INCOME = ["-inf", *range(0, 105_000, 5_000), "inf"]
_WEIGHT = ["-inf", *range(0, 520, 20), "inf"]
_ACS_EDGES = {
    "HHWT": _WEIGHT,
    "PERWT": _WEIGHT,
    "INCTOT": _INCOME,
    "INCWAGE": _INCOME,
    "INCWELFR": _INCOME,
    "INCINVST": _INCOME,
    "INCEARN": _INCOME,
}


def _read(path: str | Path) -> dict[str, Any]:
    try:
        plain = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise SchemaError(f"file {path}: {error.strerror}") from None
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise SchemaError(f"file {path}: is no JSON ({error})") from None
    if not isinstance(plain, dict):
        raise SchemaError(f"file {path}: must hold a JSON object")
    return plain


def open_bins(step: float, count: int) -> list[Any]:
    """Edges -inf, 0, step, ..., count * step, inf."""
    return ["-inf", *(i * step for i in range(count + 1)), "inf"]


def from_deid2(path: str | Path) -> dict[str, Any]:
    """From a parameters.json of the DeID2 challenge, sprint 1, 2 or 3.

    The bound on rows per user is `max_records_per_individual`. Columns get exactly the codes of the file:
    a null or a value outside it counts as -1 (unknown) where the list has that, else the row is dropped.
    """
    plain = _read(path)
    columns, runs = plain.get("schema"), plain.get("runs")
    if not isinstance(columns, dict) or not isinstance(runs, list) or not runs:
        raise SchemaError(f"file {path}: no DeID2 parameters, 'schema' or 'runs' is missing")
    try:
        bound = min(int(run["max_records_per_individual"]) for run in runs)
    except (KeyError, TypeError, ValueError):
        raise SchemaError(f"file {path}: a run has no max_records_per_individual") from None
    outputs: dict[str, Any] = {}
    user: dict[str, Any] = {"max_rows": bound, "null": "drop"}
    if "periods" in columns:
        name, made = "incidents-deid2", _sprint1(path, columns)
        user["column"] = "sim_resident"
    elif "PUMA" in columns:
        name, made = "acs-deid2", {k: _deid2_column(path, k, c) for k, c in columns.items()}
        user["column"] = "sim_individual_id"
    else:
        name, made = "taxi-deid2", {}
        for key, column in columns.items():
            if key in ("trip_day_of_week", "trip_hour_of_day") and "shift" in columns:
                part = "day_of_week" if key == "trip_day_of_week" else "hour"
                outputs[key] = {"from": "shift", "part": part, "dtype": column.get("dtype", "int8")}
            elif column.get("kind") == "id":
                user.update(column=key, dtype=column.get("dtype", "int64"))
            else:
                made[key] = _deid2_column(path, key, column)
    if "column" not in user:
        raise SchemaError(f"file {path}: no column of kind 'id'")
    return {
        "name": name,
        "provenance": f"NIST DeID2 challenge, {Path(path).name}",
        "user": user,
        "columns": made,
        "outputs": outputs,
    }


def _sprint1(path: str | Path, columns: Mapping[str, Any]) -> dict[str, Any]:
    drop = {"null": "drop", "overflow": "drop"}
    made: dict[str, Any] = {}
    try:
        for key in ("neighborhood", "incident_type"):
            listed = columns[key]
            made[key] = {
                "kind": "categorical",
                "dtype": "int16",
                "values": [int(v["code"]) for v in listed],
                "names": [str(v["name"]) for v in listed],
                **drop,
            }
        for key in ("year", "month"):
            values = sorted({int(p[key]) for p in columns["periods"]})
            made[key] = {"kind": "categorical", "dtype": "int16", "values": values, **drop}
    except (KeyError, TypeError, ValueError):
        raise SchemaError(f"file {path}: sprint 1 needs periods, neighborhood, incident_type") from None
    made["neighborhood"]["role"] = "area"
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
        if name.endswith("community_area") or name == "PUMA":
            made["role"] = "area"
    elif name in _TAXI_STEP:
        step = _TAXI_STEP[name]
        made.update(
            kind="numeric",
            edges=open_bins(step, 9),
            min=min(-1, column.get("min", -1)),
            max=column.get("max"),
            tail={"mean": _TAXI_TAIL[name]},
            null={"value": -1},
        )
        if made["max"] is None:
            del made["max"]
    elif "min" in column and "max" in column:
        made.update(kind="integer", min=column["min"], max=column["max"])
    elif name in _ACS_EDGES:
        made.update(kind="numeric", edges=_ACS_EDGES[name])
    else:
        raise SchemaError(f"file {path}: column {name!r} has neither values nor min and max")
    return made


def from_domain(domain: Mapping[str, int] | str | Path, user: str | None = None) -> dict[str, Any]:
    """For data already coded 0..n-1, a mapping of sizes or a file that holds one (mbi's domain.json).
    Rows with nulls or codes outside are dropped."""
    name, origin = "", "numbers of codes"
    if isinstance(domain, str | Path):
        name, origin = Path(domain).stem, f"numbers of codes in {Path(domain).name}"
        domain = _read(domain)
    made = {}
    for key, size in domain.items():
        if isinstance(size, bool) or not isinstance(size, int | float) or size % 1 or size < 1:
            raise SchemaError(f"column {key!r}: its size must be a whole number >= 1, got {size!r}")
        small = "uint8" if size <= 256 else "uint16" if size <= 65_536 else "uint32"
        made[key] = {
            "kind": "integer",
            "dtype": small,
            "max": int(size) - 1,
            "null": "drop",
            "overflow": "drop",
        }
    document: dict[str, Any] = {"name": name, "provenance": origin, "columns": made}
    if user is not None:
        document["user"] = {"column": user}
    return document


def from_census2018(
    specs: str | Path, values: str | Path | None = None, *, wage: str = "incwage-classes"
) -> dict[str, Any]:
    """From the specs of the 2018 challenge's 1940 census (a maximum per column) and its value lists.

    A column without a list takes all whole numbers up to its maximum. INCWAGE becomes INCWAGE_A and
    INCWAGE_B (`wage`: incwage-classes or incwage-mod), VALUEH its 5003 classes.
    """
    limits = _read(specs)
    lists = {} if values is None else _read(values)
    made: dict[str, Any] = {}
    for key, spec in limits.items():
        drop = {"null": "drop", "overflow": "drop"}
        if not isinstance(spec, dict) or not isinstance(spec.get("maxval"), int):
            raise SchemaError(f"file {specs}: column {key!r}, field 'maxval' is missing")
        if key == "INCWAGE":
            parts = ["INCWAGE_A", "INCWAGE_B"]
            made[key] = {"kind": "derived", "dtype": "int32", "transform": wage, "parts": parts}
        elif key == "VALUEH":
            made[key] = {"kind": "derived", "dtype": "int32", "transform": "valueh", "parts": [key]}
        elif key in lists:
            made[key] = {"kind": "categorical", "dtype": "int32", "values": lists[key]}
        else:
            made[key] = {"kind": "integer", "dtype": "int32", "min": 0, "max": spec["maxval"]}
        made[key].update(drop)
    origin = "NIST 2018 synthetic data challenge, match 3 (IPUMS USA, 1940 census), specs and value lists"
    return {"name": "census1940", "provenance": origin, "columns": made}


def draft(public_frame: Any, *, user: str | None = None, bins: int = 20) -> dict[str, Any]:
    """A first schema from data that the caller declares public: its values and ranges go into the schema.

    Texts, booleans and dates become lists of their values; whole numbers with few values a range, others and
    floats about `bins` round bins with open ends. Read it, and edit it, before use.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    table = public_frame if isinstance(public_frame, pa.Table) else pa.table(public_frame)
    made: dict[str, Any] = {}
    for field in table.schema:
        if field.name == user:
            continue
        column = table.column(field.name).drop_null()
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        dtype = dtypes.name_of(field.type) or dtypes.name_of(kind)
        if dtype is None:
            raise SchemaError(f"column {field.name!r}: a {field.type} column cannot be drafted; drop it")
        entry: dict[str, Any] = {"dtype": dtype}
        entry["null"] = "code" if table.column(field.name).null_count else "drop"
        family = dtypes.family(dtype)
        if family in ("int", "float") and len(column):
            if family == "float":
                column = pc.filter(column, pc.is_finite(column))
            entry.update(_draft_number(column, family, bins))
        elif family == "timestamp" and len(column):
            ends = pc.min_max(column)
            entry.update(
                kind="timestamp",
                parts={part: f"{field.name}_{part}" for part in ("day_of_week", "hour")},
                min=ends["min"].as_py().date().isoformat(),
                max=ends["max"].as_py().date().isoformat(),
            )
        else:
            if pa.types.is_dictionary(field.type):
                column = column.cast(kind)
            values = sorted(column.unique().to_pylist()) or [_EMPTY.get(family, "")]
            if len(values) > 100_000:
                raise SchemaError(
                    f"column {field.name!r}: more than 100000 distinct values; is it the user column?"
                )
            entry.update(kind="categorical", values=[_plain(v) for v in values])
        made[field.name] = entry
    document: dict[str, Any] = {"provenance": "drafted from public data", "columns": made}
    if user is not None:
        if user not in table.column_names:
            raise SchemaError(f"user column {user!r} is not in the frame")
        document["user"] = {"column": user}
    return document


_EMPTY: dict[str, Any] = {"bool": False, "int": 0, "float": 0.0, "date": "1970-01-01", "decimal": "0"}
_EMPTY["timestamp"] = "1970-01-01T00:00:00"


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return value if isinstance(value, bool | int | float | str) else str(value)


def _draft_number(column: Any, family: str, bins: int) -> dict[str, Any]:
    import pyarrow.compute as pc

    if not len(column):
        return {"kind": "numeric", "edges": ["-inf", 0, "inf"]}
    ends = pc.min_max(column)
    low, high = ends["min"].as_py(), ends["max"].as_py()
    if family == "int" and high - low < 1000:
        return {"kind": "integer", "min": low, "max": high}
    inner = pc.quantile(column, q=[0.01, 0.99]).to_pylist()
    step = _round_step((inner[1] - inner[0]) / bins)
    if family == "int":
        step = max(1, math.ceil(step))
    first = math.floor(inner[0] / step)
    last = max(first + 1, math.ceil(inner[1] / step))
    edges = [round(i * step, 12) for i in range(first, last + 1)]
    made: dict[str, Any] = {"kind": "numeric", "edges": ["-inf", *edges, "inf"]}
    made["min"] = min(low, edges[0] - step)
    made["max"] = max(high, edges[-1] + step)
    return made


def _round_step(step: float) -> float:
    """The nearest of 1, 2, 5 times a power of ten, from above; 1 for a constant column."""
    if step <= 0:
        return 1
    power = 10.0 ** math.floor(math.log10(step))
    return next(m * power for m in (1, 2, 5, 10) if m * power >= step * 0.999)
