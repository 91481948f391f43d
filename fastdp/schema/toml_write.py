"""Writes a schema's document as readable TOML: several items of a list per line, one table per
column.

The libraries that write TOML put every item of a long list on a separate line; a column of 500
values would take 500 lines.
"""

import json
import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+$")
_MARK = re.compile(r"#\s*LEARNT\b")
_TABLE = re.compile(r"\[((?:columns|outputs)\..+|user|dialect)\]")
_KEY = re.compile(r"(\"(?:[^\"\\]|\\.)*\"|[A-Za-z0-9_-]+)\s*=")


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
    return _list(value) if isinstance(value, list) else repr(value)


def _list(values: list[Any]) -> str:
    items = [_value(v) for v in values]
    line = "[" + ", ".join(items) + "]"
    if len(line) <= 88:
        return line
    lines = []
    current = ""
    for item in items:
        if current and len(current) + len(item) > 94:
            lines.append(current.rstrip())
            current = ""
        current += item + ", "
    lines.append(current.rstrip())
    return "[\n" + textwrap.indent("\n".join(lines), "    ", lambda _: True) + "\n]"


_ENDS = ("min", "max")
LEARNT_KEYS = {
    "integer": _ENDS,
    "numeric": ("edges", "atoms", *_ENDS),
    "timestamp": _ENDS,
    "categorical": ("values",),
    "string": ("values",),
}
"""By kind of column: the keys of its table that a draft takes from the data."""


def document(
    plain: Mapping[str, Any], head: Sequence[str] = (), before_columns: Sequence[str] = ()
) -> str:
    """The TOML text of a schema's plain form: scalars, then [user], [unit], [dialect], [columns.*],
    [outputs.*], [[constraints]]. `head`, `before_columns`: comments. Lines that `plain["learnt"]`
    names are marked."""
    out = [f"# {line}" for line in head]
    marks = set(plain.get("learnt", ()))

    def lines(place: str, table: Mapping[str, Any]) -> list[str]:
        made = []
        for k, v in table.items():
            line = f"{toml_key(k)} = {_value(v)}"
            made += _marked(line) if {f"{place}.{k}", f"{place} {k}"} & marks else [line]
        return made

    skip = ("constraints", "learnt")
    out += lines(
        "", {k: v for k, v in plain.items() if not isinstance(v, Mapping) and k not in skip}
    )
    for key in ("user", "unit", "dialect"):
        if key in plain:
            out += ["", f"[{key}]", *lines(key, plain[key])]
    if before_columns:
        out += ["", *(f"# {line}" for line in before_columns)]
    for key in ("columns", "outputs"):
        for name, table in plain.get(key, {}).items():
            out += ["", f"[{key}.{toml_key(name)}]", *lines(f"{key}.{toml_key(name)}", table)]
    for number, table in enumerate(plain.get("constraints", ()), 1):
        out += ["", "[[constraints]]", *lines(f"constraint {number}:", table)]
    return "\n".join(out) + "\n"


def learnt_by_draft(plain: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of the lines that a draft took from the data, as in `learnt` of a document."""
    columns = plain["columns"].items()
    keys = {name: LEARNT_KEYS.get(t["kind"], ()) for name, t in columns if t["dtype"] != "bool"}
    made = [
        f"columns.{toml_key(n)}.{key}" for n, t in columns for key in t if key in keys.get(n, ())
    ]
    rules = ("follows", "table", "order", "require")
    for number, table in enumerate(plain.get("constraints", ()), 1):
        made += [f"constraint {number}: {key}" for key in table if key in rules]
    return tuple(sorted(made))


def learnt_marks(text: str) -> list[str]:
    """Names of the lines of a TOML schema that carry the mark LEARNT: `KEY = VALUE  # LEARNT`, or a
    line `# LEARNT` before a value of several lines."""
    made = []
    place = ""
    key = ""
    waiting = False
    number = 0
    for line in map(str.strip, text.splitlines()):
        if line.startswith("#"):
            waiting = waiting or bool(_MARK.match(line))
            continue
        if line.startswith("[[constraints]]"):
            number += 1
            place = f"constraint {number}: "
        elif table := _TABLE.match(line):
            place = f"{table[1]}."
        elif named := _KEY.match(line):
            key = named[1]
        if _MARK.search(line) or (waiting and line):
            made.append(place + key)
            waiting = False
    return made


def _marked(line: str) -> list[str]:
    """A line with the mark that it was learnt from data; if it has several lines, the mark precedes
    them."""
    return [f"{line}  # LEARNT"] if "\n" not in line else ["# LEARNT", line]
