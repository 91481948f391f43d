"""Reads and writes schemas as TOML and JSON. Every error names the column and the field."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .._util.files import as_path
from ..errors import SchemaError, nearest
from . import constraints, dtypes
from .dialect import Dialect
from .entry import hint, kind_of
from .fields import parse_field
from .toml_write import document, learnt_marks

FORMAT = 1
BUILTIN = Path(__file__).parent / "builtin"


@dataclass(frozen=True)
class Output:
    """A column of the output that is not modelled: day or hour of the shift in column `of`; the hour is drawn
    within the shift."""

    name: str
    of: str
    part: str
    dtype: str = "int8"

    def to_plain(self) -> dict[str, Any]:
        return {"from": self.of, "part": self.part, "dtype": self.dtype}


def _output(name: str, plain: Any) -> Output:
    if not isinstance(plain, Mapping) or not set(plain) <= {"from", "part", "dtype"}:
        raise SchemaError(f"output {name!r}: must be a table with from, part and dtype")
    dtype = dtypes.canonical(str(plain.get("dtype", "int8")))
    if dtype is None or dtypes.family(dtype) != "int":
        raise SchemaError(f"output {name!r}, field 'dtype': must be an integer type")
    if plain.get("part") not in ("hour", "day_of_week"):
        raise SchemaError(f"output {name!r}, field 'part': expected hour or day_of_week")
    return Output(name, str(plain.get("from", "")), plain["part"], dtype)


def parse(plain: Mapping[str, Any]) -> dict[str, Any]:
    """The keyword arguments of `Schema` that a whole document describes."""
    if not isinstance(plain, Mapping):
        raise SchemaError(f"expected a schema with a table [columns], got {kind_of(plain)}")
    keys = ("fastdp", "name", "provenance", "learnt", "user", "dialect", "columns", "outputs", "constraints")
    if "tables" in plain:
        raise SchemaError(
            "this is a schema of linked tables (fastdp.LinkedSchema), and the schema of one table is needed "
            "here; synthesize takes it with a source for each table, {NAME: source, ...}"
        )
    for key in plain:
        if key not in keys:
            raise SchemaError(f"schema, field {key!r}: unknown field{hint(str(key), keys)}")
    version = plain.get("fastdp", FORMAT)
    if version != FORMAT:
        raise SchemaError(f"schema, field 'fastdp': this fastdp reads format {FORMAT}, got {version!r}")
    columns, outputs = plain.get("columns"), plain.get("outputs", {})
    for key, table in (("columns", columns), ("outputs", outputs)):
        if not isinstance(table, Mapping):
            raise SchemaError(f"schema, field {key!r}: expected a table of columns, got {kind_of(table)}")
    user = plain.get("user")
    if isinstance(user, str):
        user = {"column": user}
    user = {} if user is None else user
    if not isinstance(user, Mapping):
        raise SchemaError(f"schema, field 'user': expected a table or a name, got {kind_of(user)}")
    for key in user:
        if key not in ("column", "max_rows", "null", "dtype", "order"):
            raise SchemaError(f"user, field {key!r}: expected column, max_rows, null, dtype or order")
    column = user.get("column")
    if user and (not isinstance(column, str) or not column):
        raise SchemaError("user, field 'column': the name of the user column is missing")
    dtype = user.get("dtype")
    if dtype is not None and (dtype := dtypes.canonical(str(dtype))) is None:
        raise SchemaError(f"user, field 'dtype': {user['dtype']!r} is not a known type")
    order = user.get("order", ())
    order = (order,) if isinstance(order, str) else order
    if not isinstance(order, list | tuple) or not all(isinstance(name, str) for name in order):
        raise SchemaError("user, field 'order': expected the name of a column or a list of names")
    learnt = plain.get("learnt", [])
    if not isinstance(learnt, list | tuple) or not all(isinstance(item, str) for item in learnt):
        raise SchemaError("schema, field 'learnt': must be a list of texts")
    for key in ("name", "provenance"):
        if not isinstance(plain.get(key, ""), str):
            raise SchemaError(f"schema, field {key!r}: must be text")
    return {
        "fields": {name: parse_field(name, item) for name, item in (columns or {}).items()},
        "user": column,
        "max_rows_per_user": user.get("max_rows"),
        "null_user": user.get("null", "drop"),
        "user_dtype": dtype,
        "order": tuple(order),
        "name": plain.get("name", ""),
        "provenance": plain.get("provenance", ""),
        "outputs": {name: _output(name, item) for name, item in outputs.items()},
        "dialect": Dialect.from_plain(plain.get("dialect", {})),
        "constraints": constraints.parse(plain.get("constraints", ())),
        "learnt": tuple(sorted(set(learnt))),
    }


def builtin_names() -> list[str]:
    """Names of the schemas that ship with fastdp."""
    return sorted(p.stem for p in BUILTIN.glob("*.toml"))


def load(source: str | Path) -> tuple[Path, dict[str, Any]]:
    """(path, document) of a .toml or .json file, or of a built-in schema given by its bare name."""
    path = as_path(source, "a schema file")
    if not path.suffix and not path.exists():
        path = BUILTIN / f"{source}.toml"
        if not path.exists():
            near = nearest(str(source), builtin_names())
            meant = f" (did you mean {near!r}?)" if near else ""
            names = ", ".join(builtin_names())
            raise SchemaError(
                f"there is no file and no built-in schema {str(source)!r}{meant}; built in are {names}"
            )
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise SchemaError(f"schema file {path}: {reason}") from None
    try:
        if path.suffix == ".toml":
            plain = tomllib.loads(text)
            if marks := learnt_marks(text):
                plain["learnt"] = [*plain.get("learnt", ()), *marks]
            return path, plain
        if path.suffix == ".json":
            return path, json.loads(text)
    except (tomllib.TOMLDecodeError, json.JSONDecodeError) as error:
        raise SchemaError(f"schema file {path}: {error}") from None
    raise SchemaError(f"schema file {path}: the name must end in .toml or .json")


def save(plain: dict[str, Any], json_plain: dict[str, Any], path: str | Path) -> None:
    """Writes `plain` as TOML or `json_plain` as JSON, as the suffix of the path says."""
    path = Path(path)
    if path.suffix == ".toml":
        text = document(plain)
    elif path.suffix == ".json":
        text = json.dumps(json_plain, indent=1, allow_nan=False) + "\n"
    else:
        raise SchemaError(f"schema file {path}: the name must end in .toml or .json")
    path.write_text(text, encoding="utf-8")
