"""Reads and writes schemas as TOML and JSON. Every error names the column and the field."""

import json
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from .._util.files import as_path
from .._util.invalid import explain_invalid
from ..errors import SchemaError, did_you_mean
from . import constraints, dtypes
from .dialect import Dialect
from .entry import kind_of
from .fields import parse_field
from .ordering import parse_features
from .periods import Period
from .toml_write import document, learnt_marks

FORMAT = 1
"""Number of the format of schema documents (`fastdp = 1`)."""
BUILTIN = Path(__file__).parent / "builtin"


class Output(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"of": "from"}):
    """A column of the output that is not modelled: day or hour of the shift in column `of`; the
    hour is drawn within the shift."""

    of: str
    part: Literal["hour", "day_of_week"]
    dtype: str = "int8"
    name: str = ""

    def to_plain(self) -> dict[str, Any]:
        return {"from": self.of, "part": self.part, "dtype": self.dtype}


class _User(msgspec.Struct, forbid_unknown_fields=True):
    column: Annotated[str, msgspec.Meta(min_length=1)]
    max_rows: Any = None
    null: str = "drop"
    dtype: str | None = None
    order: str | list[str] = []
    amounts: list[str] = []
    features: Any = {}


class _Document(msgspec.Struct, forbid_unknown_fields=True):
    columns: dict[str, Any]
    fastdp: int = FORMAT
    name: str = ""
    provenance: str = ""
    learnt: list[str] = []
    user: str | _User | None = None
    unit: Any = None
    dialect: Any = {}
    outputs: dict[str, Output] = {}
    constraints: Any = ()
    exact: list[str] = []


def _dtype(where: str, named: str) -> str:
    dtype = dtypes.canonical(named)
    if dtype is None or (where != "user" and dtypes.family(dtype) != "int"):
        kind = "known type" if where == "user" else "type of integers"
        raise SchemaError(f"{where}, field 'dtype': {named!r} is not a {kind}")
    return dtype


def parse(plain: Mapping[str, Any]) -> dict[str, Any]:
    """The keyword arguments of `Schema` that a whole document describes."""
    if not isinstance(plain, Mapping):
        raise SchemaError(f"expected a schema with a table [columns], got {kind_of(plain)}")
    if "tables" in plain:
        needed = (
            "the schema of one table is needed here; synthesize takes it with {NAME: source, ...}"
        )
        raise SchemaError(f"this is a schema of linked tables (fastdp.LinkedSchema), and {needed}")
    keys = _Document.__struct_fields__
    for key in plain:
        if key not in keys:
            raise SchemaError(f"schema, field {key!r}: unknown field{did_you_mean(str(key), keys)}")
    try:
        made = msgspec.convert({**plain, "user": plain.get("user") or None}, _Document)
    except msgspec.ValidationError as error:
        raise SchemaError(f"schema: {explain_invalid(error, _Document)}") from None
    if made.fastdp != FORMAT:
        raise SchemaError(
            f"schema, field 'fastdp': this fastdp reads format {FORMAT}, got {made.fastdp!r}"
        )
    user = _User(made.user) if isinstance(made.user, str) else made.user
    outputs = {}
    for name, output in made.outputs.items():
        integers = _dtype(f"output {name!r}", output.dtype)
        outputs[name] = msgspec.structs.replace(output, name=name, dtype=integers)
    about: dict[str, Any] = {}
    if user is not None:
        dtype = user.dtype and _dtype("user", user.dtype)
        order = (user.order,) if isinstance(user.order, str) else tuple(user.order)
        about = {
            "user": user.column,
            "max_rows_per_user": user.max_rows,
            "null_user": user.null,
            "user_dtype": dtype,
            "order": order,
            "user_amounts": tuple(user.amounts),
        }
        about["user_features"] = parse_features(user.features)
    if made.unit is not None:
        about["period"] = Period.parse(made.unit)
    return about | {
        "fields": {name: parse_field(name, item) for name, item in made.columns.items()},
        "name": made.name,
        "provenance": made.provenance,
        "outputs": outputs,
        "dialect": Dialect.from_plain(made.dialect),
        "constraints": constraints.parse(made.constraints),
        "learnt": tuple(sorted(set(made.learnt))),
        "exact": tuple(sorted(set(made.exact))),
    }


def builtin_names() -> list[str]:
    """Names of the schemas that ship with fastdp."""
    return sorted(p.stem for p in BUILTIN.glob("*.toml"))


def load_as(make: Callable[[dict[str, Any]], Any], source: str | Path) -> Any:
    """What `make` makes of the document in a file; a SchemaError names the file."""
    path, plain = load(source)
    try:
        return make(plain)
    except SchemaError as error:
        raise SchemaError(f"schema file {path}: {error}") from None


def load(source: str | Path) -> tuple[Path, dict[str, Any]]:
    """(path, document) of a .toml or .json file, or of a built-in schema given by its bare name."""
    path = as_path(source, "a schema file")
    if not path.suffix and not path.exists():
        path = BUILTIN / f"{source}.toml"
        if not path.exists():
            meant = did_you_mean(str(source), builtin_names())
            raise SchemaError(f"there is no file or built-in schema {str(source)!r}{meant}")
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
    """Write `plain` as TOML or `json_plain` as JSON, as the suffix of the path says."""
    path = as_path(path, "a schema file")
    if path.suffix == ".toml":
        text = document(plain)
    elif path.suffix == ".json":
        text = json.dumps(json_plain, indent=1, allow_nan=False) + "\n"
    else:
        raise SchemaError(f"schema file {path}: the name must end in .toml or .json")
    path.write_text(text, encoding="utf-8")
