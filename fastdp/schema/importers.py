"""Schema documents from numbers of codes (mbi's domain.json), and a first draft from public data.

Everything here returns a plain document, as TOML would give it; `Schema.from_dict` makes the schema.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import DataError, SchemaError
from . import dtypes


def read_json(path: str | Path) -> dict[str, Any]:
    """The object that a JSON file holds; SchemaError where it holds none."""
    try:
        plain = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise SchemaError(f"file {path}: {error.strerror}") from None
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise SchemaError(f"file {path}: is no JSON ({error})") from None
    if not isinstance(plain, dict):
        raise SchemaError(f"file {path}: must hold a JSON object")
    return plain


def from_domain(domain: Mapping[str, int] | str | Path, user: str | None = None) -> dict[str, Any]:
    """For data already coded 0..n-1, a mapping of sizes or a file that holds one (mbi's domain.json).
    Rows with nulls or codes outside are dropped."""
    name, origin = "", "numbers of codes"
    if isinstance(domain, str | Path):
        name, origin = Path(domain).stem, f"numbers of codes in {Path(domain).name}"
        domain = read_json(domain)
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


def _frame(source: Any) -> Any:
    """A file or frame that the caller declares public, whole, as an Arrow table."""
    import pyarrow as pa

    if isinstance(source, pa.Table):
        return source
    if not isinstance(source, str | os.PathLike):
        try:
            return pa.table(source)
        except (TypeError, ValueError):
            raise SchemaError(
                f"a draft needs public data as a path or frame, not {type(source).__name__}"
            ) from None
    import pyarrow.dataset as ds

    path = os.fspath(source)
    form = "csv" if path.endswith((".csv", ".csv.gz")) else "parquet" if path.endswith(".parquet") else "ipc"
    try:
        return ds.dataset(path, format=form).to_table()
    except (OSError, pa.ArrowInvalid) as error:
        raise DataError(f"{path}: cannot be read as {form} ({type(error).__name__})") from error


def draft(public_frame: Any, *, user: str | None = None, bins: int = 20) -> dict[str, Any]:
    """A first schema from data that the caller declares public: its values and ranges go into the schema.

    Texts, booleans and dates become lists of their values; whole numbers with few values a range, others and
    floats about `bins` round bins with open ends. Read it, and edit it, before use.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    table = _frame(public_frame)
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
            values = sorted(set(column.unique().to_pylist())) or [_EMPTY.get(family, "")]
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
