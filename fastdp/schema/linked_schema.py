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
from dataclasses import dataclass, field
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
CHILD_KEYS = ("parent", "key", "null", "max_rows", "orphans", "order", "levels")
LEAST_CODES = 8
"""Codes of an ordered column whose level is kept for each parent unless the schema says which."""
LEAST_ROWS = 24
"""Child tables without an order and with a smaller public bound of rows per parent have no levels unless
they declare them. Means of few rows are mostly chance (households: pairs .109 with them, .091 without)."""
LEAST_ORDERED = 4
"""The same of tables with an order, whose rows are measurements of one thing at several times."""
MOST_LEVELS = 3
"""Such columns of one child table, at most: each is a column more of the parents' table."""


@dataclass(frozen=True, eq=False, repr=False)
class LinkedSchema:
    """Public description of linked tables; frozen.

    `tables`: the schema of each table, the parent's first; its user column is the table's key.
    `orphans`: for each child table, what happens to rows whose key no parent row has. `drop` leaves
    them out; `keep` counts the key as a parent whose columns are all null. `order`: of child tables
    that declare it, the code column by which the rows of one parent are ordered. `declared_levels`: of
    child tables that declare them, the ordered columns in whose level parents differ. `across`:
    constraints of child tables that also name columns of the parent, as documents.
    """

    tables: Mapping[str, Schema]
    orphans: Mapping[str, str]
    order: Mapping[str, str]
    name: str = ""
    provenance: str = ""
    declared_levels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    across: Mapping[str, tuple[Mapping[str, Any], ...]] = field(default_factory=dict)

    @property
    def parent(self) -> str:
        """Name of the parent table."""
        return next(iter(self.tables))

    @property
    def children(self) -> tuple[str, ...]:
        """Names of the child tables."""
        return tuple(self.tables)[1:]

    def levels(self, child: str) -> tuple[str, ...]:
        """The ordered columns of a child table in whose level parents differ: those that the schema
        declares, else the first MOST_LEVELS of LEAST_CODES codes or more. Columns by which rows are
        ordered, or that are compared with the parent's, have none of themselves. Nor have tables
        whose parents have few rows each."""
        if child in self.declared_levels:
            return self.declared_levels[child]
        schema = self.tables[child]
        least = LEAST_ORDERED if child in self.order else LEAST_ROWS
        if schema.max_rows_per_user is not None and schema.max_rows_per_user < least:
            return ()
        timed = {
            self.order.get(child),
            *(n for c in self.across.get(child, ()) for n in _columns(c)),
        }
        likely = [
            name
            for name in schema.modelled
            if _is_summable(schema, name)
            and schema.columns[name].base >= LEAST_CODES
            and name not in timed
        ]
        return tuple(likely[:MOST_LEVELS])

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
            f"linked tables need a schema with a table [tables.NAME] for each of them: {forms}; "
            "columns of one table, by name, are a source as pyarrow.table(columns)"
        )

    @classmethod
    def load(cls, source: str | os.PathLike[str]) -> LinkedSchema:
        """The schema in a .toml or .json file, or a built-in one by its bare name."""
        return document.load_as(cls.from_dict, _path(source))

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> LinkedSchema:
        """The schema that a document describes; SchemaError names table, column and field."""
        tables, parent = _checked_tables(plain)
        learnt = tuple(plain.get("learnt", ()))
        root = _table(parent, tables[parent], KEYS, learnt)
        made = {parent: root}
        orphans = {}
        order = {}
        declared: dict[str, tuple[str, ...]] = {}
        across: dict[str, tuple[Mapping[str, Any], ...]] = {}
        for name, table in tables.items():
            if name == parent:
                continue
            table, over = _without_parent_constraints(name, table, parent)
            if over:
                across[name] = over
            own = _child_table(name, table, parent, root, learnt)
            made[name] = own
            orphans[name] = table.get("orphans", "drop")
            if "order" in table:
                order[name] = table["order"]
            if "levels" in table:
                declared[name] = _declared_levels(name, table["levels"], own)
        return cls(
            tables=made,
            orphans=orphans,
            order=order,
            name=plain.get("name", ""),
            provenance=plain.get("provenance", ""),
            declared_levels=declared,
            across=across,
        )

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
                if name in self.declared_levels:
                    about["levels"] = list(self.declared_levels[name])
            tables[name] = about | {k: own[k] for k in OWN if k in own}
            if name in self.across:
                held = tables[name].get("constraints", [])
                tables[name]["constraints"] = [*held, *map(dict, self.across[name])]
        head = {"fastdp": FORMAT, "name": self.name}
        return (
            head | ({"provenance": self.provenance} if self.provenance else {}) | {"tables": tables}
        )

    def to_dict(self) -> dict[str, Any]:
        """The schema as its JSON document."""
        plain = self.to_plain()
        for name, schema in self.tables.items():
            held = {k: v for k, v in schema.to_dict().items() if k in OWN}
            if name in self.across:
                own = held.get("constraints", [])
                held["constraints"] = [*own, *map(dict, self.across[name])]
            plain["tables"][name] |= held
        return plain

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the schema to a .json file."""
        if as_path(path, "a schema file").suffix != ".json":
            raise SchemaError(f"schema file {path}: a schema of linked tables is written as .json")
        document.save(self.to_plain(), self.to_dict(), as_path(path, "a schema file"))

    def digest(self) -> str:
        """SHA-256 (hex) of the tables' digests and of what links them."""
        about: list[Any] = [
            [n, s.digest(), self.orphans.get(n), self.order.get(n)] for n, s in self.tables.items()
        ]
        if self.declared_levels:
            about.append(["levels", {n: list(v) for n, v in self.declared_levels.items()}])
        if self.across:
            about.append(["across", {n: [dict(c) for c in v] for n, v in self.across.items()}])
        return hashlib.sha256(json.dumps(about).encode()).hexdigest()

    def __repr__(self) -> str:
        return f"LinkedSchema({self.name!r}, {self.parent} with {', '.join(self.children)})"

    def describe(self) -> str:
        """A readable list of the tables and their columns."""
        return "\n".join([repr(self), *(schema.describe() for schema in self.tables.values())])


def _is_summable(schema: Schema, name: str) -> bool:
    """Whether the column has numbers, of which a parent's rows can have a mean."""
    return schema.columns[name].summable


def _declared_levels(name: str, declared: Any, schema: Schema) -> tuple[str, ...]:
    """The columns that `levels` names; SchemaError if one is not an ordered column."""
    if not isinstance(declared, list | tuple) or len(set(map(str, declared))) < len(declared):
        raise SchemaError(f"table {name!r}, field 'levels': expected a list of different columns")
    for column in declared:
        if column not in schema.modelled or not _is_summable(schema, column):
            usable = [n for n in schema.modelled if _is_summable(schema, n)]
            raise SchemaError(
                f"table {name!r}, field 'levels': {column!r} is not an integer or numeric column; "
                f"use {', '.join(usable) or 'none: the table has no such column'}"
            )
    return tuple(declared)


def _checked_tables(plain: Mapping[str, Any]) -> tuple[Mapping[str, Any], str]:
    """(the tables of a document, the name of the parent): one table without `parent`, others with
    it."""
    for key in plain:
        if key not in TOP:
            raise SchemaError(
                f"schema of linked tables, field {key!r}: unknown; {', '.join(TOP)} exist"
            )
    if plain.get("fastdp", FORMAT) != FORMAT:
        raise SchemaError(f"schema, field 'fastdp': this fastdp reads format {FORMAT}")
    tables = plain.get("tables")
    if not isinstance(tables, Mapping) or not all(isinstance(t, Mapping) for t in tables.values()):
        raise SchemaError("linked tables: give a table [tables.NAME] for each of them")
    roots = [name for name, table in tables.items() if "parent" not in table]
    if len(roots) != 1 or len(tables) < 2:
        without = f"without `parent` are: {', '.join(map(str, roots)) or 'none'}"
        raise SchemaError(
            f"linked tables are one table without `parent` and one or more with it; {without}"
        )
    return tables, roots[0]


def _child_table(
    name: str,
    table: Mapping[str, Any],
    parent: str,
    root: Schema,
    learnt: tuple[str, ...],
) -> Schema:
    """The schema of a child table; SchemaError where it does not fit the parent's, `root`."""
    if table["parent"] != parent:
        levels = f"linked tables have two levels, so every child table names {parent!r}"
        where = f"table {name!r}, field 'parent': {table['parent']!r}"
        raise SchemaError(f"{where}; {levels}. Join deeper levels to their parents first")
    own = _table(name, table, CHILD_KEYS, learnt, root.user_dtype)
    orphans = table.get("orphans", "drop")
    if orphans not in ("drop", "keep"):
        raise SchemaError(f"table {name!r}, field 'orphans': neither 'drop' nor 'keep'")
    if own.null_user == "own" and orphans == "drop":
        raise SchemaError(
            f"table {name!r}, field 'null': 'own' makes each row without a key "
            "a parent of its own, which needs orphans = 'keep'"
        )
    if "order" in table and table["order"] not in own.modelled:
        names = ", ".join(own.modelled)
        raise SchemaError(f"table {name!r}, field 'order': not one of {names}: {table['order']!r}")
    if root.user in own.columns:
        raise SchemaError(
            f"table {name!r}, column {root.user!r}: it has the name of the key "
            f"of {parent!r}; give it another name, and this one as its `source`"
        )
    return own


def _without_parent_constraints(
    name: str, table: Mapping[str, Any], parent: str
) -> tuple[dict[str, Any], tuple[Mapping[str, Any], ...]]:
    """(the table's document without its constraints across tables, those constraints)."""
    listed = table.get("constraints", ())
    if not isinstance(listed, list | tuple):
        return dict(table), ()
    over = tuple(c for c in listed if isinstance(c, Mapping) and _names_parent(c, parent))
    for constraint in over:
        if not ({"order", "columns"} & set(constraint)) or "divide" in constraint:
            raise SchemaError(
                f"table {name!r}: a constraint with columns of {parent!r} has `order`, or "
                f"`columns` with `allowed` or `forbidden`; got {', '.join(map(str, constraint))}"
            )
    own = [c for c in listed if c not in over]
    plain = {key: value for key, value in table.items() if key != "constraints"}
    return (plain | {"constraints": own} if own else plain), over


def _names_parent(constraint: Mapping[str, Any], parent: str) -> bool:
    """Whether a constraint names a column of the parent: `PARENT.COLUMN`."""
    return any(name.startswith(f"{parent}.") for name in _columns(constraint))


def _columns(constraint: Mapping[str, Any]) -> list[str]:
    """The columns that a constraint lists."""
    listed = constraint.get("order") or constraint.get("columns") or ()
    return [n for n in listed if isinstance(n, str)] if isinstance(listed, list | tuple) else []


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
