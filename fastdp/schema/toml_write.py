"""Writes a schema's document as readable TOML: several items of a list per line, one table per column.

The libraries that write TOML put every item of a long list on a separate line; a column of 500 values would
take 500 lines.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+$")


def toml_key(name: str) -> str:
    """A key as TOML writes it: bare, or quoted where it has other characters."""
    return name if _BARE.match(name) else quoted(name)


def quoted(value: str) -> str:
    """A TOML basic string. Its escapes are those of JSON, except that DEL must be escaped too."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{toml_key(k)} = {_value(v)}" for k, v in value.items()) + " }"
    if isinstance(value, list):
        return _list(value)
    return repr(value)


def _list(values: list[Any]) -> str:
    items = [_value(v) for v in values]
    line = "[" + ", ".join(items) + "]"
    if len(line) <= 88:
        return line
    lines, current = [], ""
    for item in items:
        if current and len(current) + len(item) > 94:
            lines.append(current.rstrip())
            current = ""
        current += item + ", "
    lines.append(current.rstrip())
    return "[\n" + textwrap.indent("\n".join(lines), "    ", lambda _: True) + "\n]"


LEARNT_KEYS = {
    "categorical": ("values",),
    "string": ("values",),
    "integer": ("min", "max"),
    "numeric": ("edges", "min", "max"),
    "timestamp": ("min", "max"),
}
"""By kind of column: the keys of its table that a draft takes from the data."""


def document(
    plain: Mapping[str, Any],
    head: Sequence[str] = (),
    *,
    learnt: bool = False,
    before_columns: Sequence[str] = (),
) -> str:
    """The TOML text of a schema's plain form: scalars, then [user], [dialect], [columns.*], [outputs.*],
    [[constraints]]. `head`, `before_columns`: comments; `learnt`: mark the keys that a draft took from
    data."""
    out = [f"# {line}" for line in head]
    scalars = {k: v for k, v in plain.items() if not isinstance(v, Mapping) and k != "constraints"}
    out += [f"{toml_key(k)} = {_value(v)}" for k, v in scalars.items()]
    for key in ("user", "dialect"):
        if key in plain:
            out += ["", f"[{key}]", *(f"{toml_key(k)} = {_value(v)}" for k, v in plain[key].items())]
    if before_columns:
        out += ["", *(f"# {line}" for line in before_columns)]
    for key in ("columns", "outputs"):
        for name, table in plain.get(key, {}).items():
            marked = LEARNT_KEYS.get(table.get("kind", ""), ()) if learnt and key == "columns" else ()
            out += ["", f"[{key}.{toml_key(name)}]"]
            for k, v in table.items():
                out += (
                    _marked(f"{toml_key(k)} = {_value(v)}")
                    if k in marked
                    else [f"{toml_key(k)} = {_value(v)}"]
                )
    for table in plain.get("constraints", ()):
        out += ["", "[[constraints]]", *(f"{toml_key(k)} = {_value(v)}" for k, v in table.items())]
    return "\n".join(out) + "\n"


def _marked(line: str) -> list[str]:
    """A line with the mark that it was learnt from data; if it has several lines, the mark precedes them."""
    return [f"{line}  # LEARNT"] if "\n" not in line else ["# LEARNT", line]
