"""Schema documents from numbers of codes (mbi's domain.json).

Each function returns a plain document, as parsed from TOML; `Schema.from_dict` makes the schema of
it.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .._util.files import as_path
from ..errors import SchemaError


def read_json(path: str | Path) -> dict[str, Any]:
    """The object that a JSON file holds; SchemaError if it holds none."""
    try:
        plain = json.loads(as_path(path, "a schema file").read_text(encoding="utf-8"))
    except OSError as error:
        raise SchemaError(f"file {path}: {error.strerror}") from None
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise SchemaError(f"file {path}: not valid JSON ({error})") from None
    if not isinstance(plain, dict):
        raise SchemaError(f"file {path}: expected a JSON object")
    return plain


def from_domain(domain: Mapping[str, int] | str | Path, user: str | None = None) -> dict[str, Any]:
    """The document for data that is already coded 0..n-1. `domain`: the number of codes n by
    column, or the path of a JSON file with such a mapping (mbi's domain.json). Rows with nulls or
    codes outside 0..n-1 are dropped."""
    name = ""
    origin = "numbers of codes"
    if isinstance(domain, str | Path):
        name = Path(domain).stem
        origin = f"numbers of codes in {Path(domain).name}"
        domain = read_json(domain)
    made = {}
    drop = {"null": "drop", "overflow": "drop"}
    for key, size in domain.items():
        if isinstance(size, bool) or not isinstance(size, int | float) or size % 1 or size < 1:
            raise SchemaError(
                f"column {key!r}: expected a size that is a whole number >= 1, got {size!r}"
            )
        if size <= 256:
            small = "uint8"
        elif size <= 65_536:
            small = "uint16"
        else:
            small = "uint32"
        made[key] = {"kind": "integer", "dtype": small, "max": int(size) - 1, **drop}
    document: dict[str, Any] = {"name": name, "provenance": origin, "columns": made}
    if user is not None:
        document["user"] = {"column": user}
    return document
