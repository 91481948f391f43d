"""The public schema of linked tables: one parent table with a key, and child tables whose rows name
a parent.

A document has a table [tables.NAME] for each table: that table's own schema, with `key` in place of
[user]. The table without `parent` is the parent table (docs/reference/schema.md).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .._util.files import as_path
from ..errors import SchemaError, UsageError
from . import document
from .document import FORMAT
from .schema import Schema

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
"""Names of tables: they are names of folders too."""
TOP = ("fastdp", "name", "provenance", "learnt", "tables")
OWN = ("columns", "outputs", "constraints", "dialect", "learnt")
KEYS = ("key", "null", "dtype")
CHILD_KEYS = ("parent", "key", "null", "max_rows", "orphans", "order")


@dataclass(frozen=True, eq=False, repr=False)
class LinkedSchema:
    """Public description of linked tables; frozen.

    `tables`: the schema of each table, the parent's first; its user column is the table's key.
    `orphans`: for each child table, what happens to rows whose key no parent row has. `drop` leaves
    them out; `keep` counts the key as a parent whose columns are all null. `order`: of child tables
    that declare it, the code column by which the rows of one parent are ordered.
    """

    tables: Mapping[str, Schema]
    orphans: Mapping[str, str]
    order: Mapping[str, str]
    name: str = ""
    provenance: str = ""

    @property
    def parent(self) -> str:
        """Name of the parent table."""
        return next(iter(self.tables))

    @property
    def children(self) -> tuple[str, ...]:
        """Names of the child tables."""
        return tuple(self.tables)[1:]

    @property
    def key(self) -> str:
        """The parent table's key."""
        return str(self.tables[self.parent].user)

    @classmethod
    def of(cls, source: LinkedSchema | Mapping[str, Any] | str | os.PathLike[str]) -> LinkedSchema:
        """A LinkedSchema unchanged, or one made of a document or loaded from a path."""
        if isinstance(source, cls):
            return source
        if isinstance(source, Mapping):
            return cls.from_dict(source)
        if isinstance(source, str | os.PathLike):
            return cls.load(source)
        forms = f"a fastdp.LinkedSchema, a document or a path, not {type(source).__name__}"
        raise UsageError(
            f"linked tables need a schema with a table [tables.NAME] for each of them: {forms}"
        )

    @classmethod
    def load(cls, source: str | os.PathLike[str]) -> LinkedSchema:
        """The schema in a .toml or .json file, or a built-in one by its bare name."""
        return document.load_as(cls.from_dict, _path(source))

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> LinkedSchema:
        """The schema that a document describes; SchemaError names table, column and field."""
        for key in plain:
            if key not in TOP:
                raise SchemaError(
                    f"schema of linked tables, field {key!r}: unknown; {', '.join(TOP)} exist"
                )
        if plain.get("fastdp", FORMAT) != FORMAT:
            raise SchemaError(f"schema, field 'fastdp': this fastdp reads format {FORMAT}")
        tables = plain.get("tables")
        if not isinstance(tables, Mapping) or not all(
            isinstance(t, Mapping) for t in tables.values()
        ):
            raise SchemaError("linked tables: give a table [tables.NAME] for each of them")
        roots = [name for name, table in tables.items() if "parent" not in table]
        if len(roots) != 1 or len(tables) < 2:
            without = f"without `parent` are: {', '.join(map(str, roots)) or 'none'}"
            raise SchemaError(
                f"linked tables are one table without `parent` and one or more with it; {without}"
            )
        parent = roots[0]
        learnt = tuple(plain.get("learnt", ()))
        made = {parent: _table(parent, tables[parent], KEYS, learnt)}
        root = made[parent]
        orphans = {}
        order = {}
        for name, table in tables.items():
            if name == parent:
                continue
            if table["parent"] != parent:
                levels = f"linked tables have two levels, so every child table names {parent!r}"
                where = f"table {name!r}, field 'parent': {table['parent']!r}"
                raise SchemaError(f"{where}; {levels}. Join deeper levels to their parents first")
            made[name] = _table(name, table, CHILD_KEYS, learnt, root.user_dtype)
            orphans[name] = table.get("orphans", "drop")
            if orphans[name] not in ("drop", "keep"):
                raise SchemaError(f"table {name!r}, field 'orphans': neither 'drop' nor 'keep'")
            if made[name].null_user == "own" and orphans[name] == "drop":
                raise SchemaError(
                    f"table {name!r}, field 'null': 'own' makes each row without a key "
                    "a parent of "
                    "its own, which needs orphans = 'keep'"
                )
            if "order" in table:
                order[name] = table["order"]
                if order[name] not in made[name].modelled:
                    names = ", ".join(made[name].modelled)
                    raise SchemaError(
                        f"table {name!r}, field 'order': not one of {names}: {order[name]!r}"
                    )
            if root.user in made[name].columns:
                raise SchemaError(
                    f"table {name!r}, column {root.user!r}: it has the name of the key "
                    f"of {parent!r}; "
                    "give it another name, and this one as its `source`"
                )
        return cls(made, orphans, order, plain.get("name", ""), plain.get("provenance", ""))

    def to_plain(self) -> dict[str, Any]:
        """The schema as its TOML document."""
        tables = {}
        for name, schema in self.tables.items():
            own = schema.to_plain()
            user = own.pop("user")
            about = {"key": user.pop("column"), **user}
            if name != self.parent:
                about = {"parent": self.parent, **about, "orphans": self.orphans[name]}
                about |= {"order": self.order[name]} if name in self.order else {}
                about.pop("dtype", None)
            tables[name] = about | {k: own[k] for k in OWN if k in own}
        head = {"fastdp": FORMAT, "name": self.name}
        return (
            head | ({"provenance": self.provenance} if self.provenance else {}) | {"tables": tables}
        )

    def to_dict(self) -> dict[str, Any]:
        """The schema as its JSON document."""
        plain = self.to_plain()
        for name, schema in self.tables.items():
            plain["tables"][name] |= {k: v for k, v in schema.to_dict().items() if k in OWN}
        return plain

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the schema to a .json file."""
        if as_path(path, "a schema file").suffix != ".json":
            raise SchemaError(f"schema file {path}: a schema of linked tables is written as .json")
        document.save(self.to_plain(), self.to_dict(), as_path(path, "a schema file"))

    def digest(self) -> str:
        """SHA-256 (hex) of the tables' digests and of what links them."""
        about = [
            [n, s.digest(), self.orphans.get(n), self.order.get(n)] for n, s in self.tables.items()
        ]
        return hashlib.sha256(json.dumps(about).encode()).hexdigest()

    def __repr__(self) -> str:
        return f"LinkedSchema({self.name!r}, {self.parent} with {', '.join(self.children)})"

    def describe(self) -> str:
        """A readable list of the tables and their columns."""
        return "\n".join([repr(self), *(schema.describe() for schema in self.tables.values())])


def is_linked(schema: Any) -> bool:
    """Whether this is a schema of linked tables: the object, its document, or the path of one."""
    if isinstance(schema, Mapping):
        return "tables" in schema
    if isinstance(schema, str | os.PathLike) and _path(schema).suffix in (".toml", ".json"):
        return "tables" in document.load(_path(schema))[1]
    return isinstance(schema, LinkedSchema)


def _path(source: str | os.PathLike[str]) -> Path:
    """The path, or that of the built-in schema of linked tables with this bare name."""
    path = as_path(source, "a schema file")
    inside = document.BUILTIN / "linked" / f"{path.name}.toml"
    return inside if not path.suffix and not path.exists() and inside.exists() else path


def _table(
    name: str, plain: Mapping[str, Any], keys: tuple[str, ...], learnt, dtype: Any = None
) -> Schema:
    """The schema of one table, with its key as the user column."""
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise SchemaError(
            f"table {name!r}: names are up to 64 letters, digits, _ and -, a letter first"
        )
    for key in plain:
        if key not in (*keys, *OWN):
            raise SchemaError(
                f"table {name!r}, field {key!r}: unknown; {', '.join((*keys, *OWN))} exist"
            )
    if not isinstance(plain.get("key"), str) or not plain["key"]:
        raise SchemaError(f"table {name!r}, field 'key': the name of its key column is missing")
    user = {
        "column": plain["key"],
        **{k: plain[k] for k in ("null", "max_rows", "dtype") if k in plain},
    }
    if dtype is not None:
        user["dtype"] = dtype
    own = {k: plain[k] for k in OWN if k in plain}
    # A mark that stands under no [tables.NAME] counts for all tables.
    here = f"tables.{name}."
    marks = [
        m.removeprefix(here) for m in learnt if m.startswith(here) or not m.startswith("tables.")
    ]
    try:
        head = {
            "fastdp": FORMAT,
            "name": name,
            "user": user,
            "learnt": [*own.get("learnt", ()), *marks],
        }
        schema = Schema.from_dict(own | head)
    except SchemaError as error:
        raise SchemaError(f"table {name!r}: {error}") from None
    if schema.unfinished:
        how = (
            "private domains and means are not found in linked tables; find them in a run on that"
            " table"
        )
        raise SchemaError(f"table {name!r}, column {schema.unfinished[0]!r}: {how}")
    return schema
