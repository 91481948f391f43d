"""Linked tables as tables with users: the unit of privacy is a key with its rows in all tables.

The parents' table has one row per key with the parent's columns. For each child table it has the
number of the key's rows, in bins, and the key's level of some of the child's columns. A level is
the mean code of the key's rows, in LEVELS parts of the column. A child's table has the key's rows
of that table. Each has the columns of its parent and the number of the key's rows beside its own.
Where an order is declared, it also has its place among them. Every row of these tables is a
function of the rows of its own key, whatever the data holds:

- of several parent rows of one key the first by a hash of the key's value and the row's codes
  counts;
- a parent without child rows is a parent with 0 rows;
- child rows whose key no parent row has are left out, or their key is a parent whose columns are
  all null;
- rows without a key are left out, or each is a key of its own.

So a data set with one key more has one more row in the parents' table. Each child's table has the
rows of one more user. No other row changes. Proof of the guarantee:
docs/explain/linked-releases.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .._core import bound
from .._util import threads as _threads
from .._util.lazy import pa
from ..codec import encode
from ..domain import Columns, code_dtype
from ..errors import DataError, SchemaError
from ..privacy.clip import choice_bound
from ..schema import Schema, dtypes
from ..schema.derived import Derived
from ..schema.linked_schema import LinkedSchema
from ..users.people import size_bins
from .ingest import guarded, read_parts
from .part_checks import source_types
from .sources.source import open_parts
from .table import Table
from .userids import UserIndex

LEVELS = 12
"""Parts of a column in which the mean of a key's rows may lie. Chosen by `python -m bench.linked
--tables panel`: see docs/research/linked.md."""
LEFT_OUT = ("source", "rank", "user", "role")
"""What the document of a parent's column does not say beside a child's row."""


@dataclass(frozen=True, eq=False)
class Links:
    """What a linked schema makes of its tables; public facts only.

    `schemas`: of the parents' table and of each child's table, as they are counted. `counts`: the
    column of each child's number of rows. `places`: the column of a row's place among the rows of
    its parent, of children that declare an order. `joined`: of each child, the parent's columns by
    their names beside its rows. `levels`: of each child, the columns of the parents' table that hold
    the key's level of a child's column.
    """

    linked: LinkedSchema

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.linked.tables)

    @cached_property
    def counts(self) -> dict[str, str]:
        return {name: f"rows of {name}" for name in self.linked.children}

    @cached_property
    def places(self) -> dict[str, str]:
        return {name: f"place in {name}" for name in self.linked.order}

    @cached_property
    def levels(self) -> dict[str, dict[str, str]]:
        children = self.linked.children
        return {n: {f"level of {n}.{a}": a for a in self.linked.levels(n)} for n in children}

    @cached_property
    def joined(self) -> dict[str, dict[str, str]]:
        linked = self.linked
        own = linked.tables[linked.parent].modelled
        return {name: {f"{linked.parent}.{a}": a for a in own} for name in linked.children}

    def most_rows(self, child: str) -> int:
        """The most rows of one parent that are told apart: the schema's bound, or the largest
        clip."""
        return choice_bound(self.linked.tables[child])

    def edges(self, child: str) -> np.ndarray:
        """Lower edges of the bins of a child's number of rows: 0, 1, 2, ..., then four per
        octave."""
        return np.array((0, *size_bins(self.most_rows(child))), np.int64)

    def place_codes(self, place: np.ndarray, child: str) -> np.ndarray:
        """Codes of places (1, 2, ...) in the bins of a child's number of rows."""
        edges = self.edges(child)[1:]
        return (np.searchsorted(edges, place, "right") - 1).astype(code_dtype(len(edges)))

    def given(self, child: str) -> frozenset[str]:
        """The columns of a child's table that are known when its rows are drawn."""
        own = (table[child] for table in (self.counts, self.places) if child in table)
        return frozenset((*own, *self.joined[child]))

    @cached_property
    def schemas(self) -> tuple[Schema, ...]:
        """The schemas by which the parts of the run are counted, the parents' first. Parents have
        the numbers of their child rows as columns; child rows have further columns about their
        parent."""
        linked = self.linked
        parent = linked.tables[linked.parent].to_plain()
        columns = parent["columns"] | {
            self.counts[c]: self._count_entry(c) for c in linked.children
        }
        columns |= {n: _level_entry(a) for c in linked.children for n, a in self.levels[c].items()}
        made = [
            Schema.from_dict(
                {**parent, "user": {**parent["user"], "max_rows": 1}, "columns": columns}
            )
        ]
        for name in linked.children:
            own = linked.tables[name].to_plain()
            user = {k: v for k, v in parent["user"].items() if k != "max_rows"}
            if "max_rows" in own["user"]:
                user["max_rows"] = own["user"]["max_rows"]
            columns = {
                n: {k: v for k, v in e.items() if k != "source"} for n, e in own["columns"].items()
            }
            more = {self.counts[name]: self._count_entry(name)}
            if name in self.places:
                more[self.places[name]] = self._count_entry(name, first=1)
            for column, entry in (more | self._entries(name)).items():
                if column in columns:
                    raise SchemaError(
                        f"table {name!r}, column {column!r}: linked tables use this name"
                    )
                columns[column] = entry
            whole = {**own, "user": user, "columns": columns}
            if name in linked.across:
                held = own.get("constraints", [])
                whole["constraints"] = [*held, *map(dict, linked.across[name])]
            try:
                made.append(Schema.from_dict(whole))
            except SchemaError as error:
                raise SchemaError(f"table {name!r}: {error}") from None
        return tuple(made)

    def _count_entry(self, child: str, first: int = 0) -> dict[str, Any]:
        edges = [*self.edges(child)[first:].tolist(), np.inf]
        policies = {"overflow": "clamp", "null": "drop", "note": f"rows of {child} of one parent"}
        most = self.most_rows(child)
        return {"kind": "numeric", "dtype": "int64", "edges": edges, "max": most, **policies}

    def _entries(self, child: str) -> dict[str, Any]:
        """Documents of the parent's columns beside a child's rows. Parts of derived columns are
        codes."""
        parent = self.linked.tables[self.linked.parent]
        plain = {n: f.to_plain() for n, f in parent.fields.items() if not isinstance(f, Derived)}
        simple = {n: {k: v for k, v in e.items() if k not in LEFT_OUT} for n, e in plain.items()}
        sizes = {
            name: parent.domain[a] for name, a in self.joined[child].items() if a not in simple
        }
        codes = Schema.from_domain(sizes).to_plain()["columns"] if sizes else {}
        joined = self.joined[child].items()
        return {name: codes[name] if name in codes else simple[a] for name, a in joined}

    def check_policies(self) -> None:
        """Raise SchemaError if a column of the parent leaves out the rows that orphans stand
        for."""
        _ = self.no_parent

    @cached_property
    def no_parent(self) -> dict[str, int] | None:
        """Codes of a parent whose columns are all null; None if no table keeps orphans. SchemaError
        if a column leaves out rows with nulls."""
        parent = self.linked.tables[self.linked.parent]
        if "keep" not in self.linked.orphans.values():
            return None
        types = {
            source: pa.nulls(1, dtypes.arrow(kind)) for source, kind in source_types(parent).items()
        }
        codes, keep = encode.encode_batch(parent, pa.record_batch(types))
        if keep is not None and not keep.all():
            raise SchemaError(
                "orphans = 'keep' counts a key without a parent row as a parent whose columns are"
                f" all null, but a column of {self.linked.parent!r} has null = 'drop'; give it"
                " another policy"
            )
        return {name: int(column[0]) for name, column in codes.items()}


def _level_entry(column: str) -> dict[str, Any]:
    """The document of a column of levels; the last code: no row has a number."""
    note = f"level of {column} of one parent"
    policies = {"overflow": "clamp", "null": "drop", "note": note}
    return {"kind": "integer", "dtype": "int64", "min": 0, "max": LEVELS, **policies}


def level_codes(owner: np.ndarray, codes: np.ndarray, base: int, keys: int) -> np.ndarray:
    """The level of each key: the mean code of its rows that have a number, of `base` codes, in
    LEVELS equal parts; LEVELS for keys without such rows. Whole numbers, so the same everywhere."""
    there = codes < base
    rows = np.bincount(owner[there], minlength=keys)
    sums = np.bincount(owner[there], codes[there], keys).astype(np.int64)  # exact below 2^53
    level = sums * LEVELS // np.maximum(rows * base, 1)
    return np.where(rows > 0, level, LEVELS)


def read_linked(
    sources: Mapping[str, Any], links: Links, threads: int | None = None
) -> tuple[list[Table], dict[str, dict[str, int]]]:
    """(the parents' table and each child's table, PRIVATE numbers of rows that were read by
    table)."""
    return guarded(lambda: _read(sources, links, _threads.resolve(threads)))


def _read(sources: Mapping[str, Any], links: Links, threads: int):
    linked = links.linked
    index = UserIndex(linked.key, threads=threads)
    read: dict[str, Table] = {}
    for name, schema in linked.tables.items():
        index.column = str(schema.user)
        parts = open_parts(sources[name], schema.dialect)
        read[name] = read_parts(parts, schema, threads=threads, users=index)
    counts = {"rows": "rows", "dropped_rows": "_dropped", "malformed_lines": "_malformed"}
    numbers = {name: {k: getattr(t, v) for k, v in counts.items()} for name, t in read.items()}
    return link(read, links, index.hashes()), numbers


def link(read: Mapping[str, Table], links: Links, hashes: np.ndarray) -> list[Table]:
    """The parents' table and each child's table. `read`: the tables as they are, whose users are
    numbered alike; `hashes`: of the users' id values."""
    linked = links.linked
    keys = len(hashes)
    parents = read[linked.parent]
    if parents.user is None or any(t.user is None for t in read.values()):
        raise DataError("linked tables need their keys")
    row = first_rows(parents, hashes, keys)
    known = row >= 0
    kept = known.copy()
    counts = {}
    for name in linked.children:
        users = read[name].user
        assert users is not None
        counted = np.bincount(users, minlength=keys)
        counts[name] = np.where(known, counted, 0) if linked.orphans[name] == "drop" else counted
        kept |= counts[name] > 0
    own = {}
    for name, column in parents.codes.items():
        own[name] = np.full(
            keys, 0 if links.no_parent is None else links.no_parent[name], column.dtype
        )
        own[name][known] = column[row[known]]
    for name in linked.children:
        bins = np.searchsorted(links.edges(name), counts[name], "right") - 1
        own[links.counts[name]] = bins.astype(code_dtype(len(links.edges(name))))
        child = read[name]
        there = counts[name] > 0
        for level, of in links.levels[name].items():
            assert child.user is not None
            base = linked.tables[name].columns[of].base
            found = level_codes(child.user, child.codes[of], base, keys)
            own[level] = np.where(there, found, LEVELS).astype(code_dtype(LEVELS + 1))
    at = np.flatnonzero(kept)
    codes = {name: np.ascontiguousarray(own[name][at]) for name in links.schemas[0].domain}
    numbers = np.arange(len(at), dtype=np.uint32)
    own_hashes = np.ascontiguousarray(hashes[at])
    parent = Table(
        links.schemas[0], codes, rows=len(at), user=numbers, users=len(at), user_hash=own_hashes
    )
    children = zip(links.schemas[1:], linked.children)
    return [
        parent,
        *(
            _child(
                table=read[n],
                schema=s,
                own=own,
                kept=counts[n] > 0,
                hashes=hashes,
                links=links,
                name=n,
            )
            for s, n in children
        ),
    ]


def _child(
    table: Table, schema: Schema, own: Columns, kept: np.ndarray, hashes, links: Links, name
) -> Table:
    """A child's rows of the keys that are kept, with their parents' columns."""
    assert table.user is not None
    here = kept[table.user]
    key = table.user[here]
    codes = {n: np.ascontiguousarray(column[here]) for n, column in table.codes.items()} | {
        n: own[a][key] for n, a in links.joined[name].items()
    }
    codes[links.counts[name]] = own[links.counts[name]][key]
    if name in links.places:
        place = places(key, codes[links.linked.order[name]], row_hashes(table, hashes)[here])
        codes[links.places[name]] = links.place_codes(place, name)
    number = (np.cumsum(kept) - 1).astype(np.uint32)
    modelled = {n: codes[n] for n in schema.domain}
    user_hash = np.ascontiguousarray(hashes[np.flatnonzero(kept)])
    return Table(
        schema,
        modelled,
        rows=len(key),
        user=number[key],
        users=int(kept.sum()),
        user_hash=user_hash,
    )


def first_rows(table: Table, hashes: np.ndarray, keys: int) -> np.ndarray:
    """int64[keys]: the row of each key that counts, -1 if it has none. It is the first by a hash of
    the key's value and the row's codes."""
    assert table.user is not None
    order = np.lexsort((row_hashes(table, hashes), table.user))
    user = table.user[order]
    first = np.append(True, user[1:] != user[:-1])[: len(user)]
    row = np.full(keys, -1, np.int64)
    row[user[first]] = order[first]
    return row


def row_hashes(table: Table, hashes: np.ndarray) -> np.ndarray:
    """uint64: a hash of each row's key value and codes."""
    mixed = hashes[table.user] if table.rows else np.empty(0, np.uint64)
    for column in table.codes.values():
        mixed = bound.hash_words(np.ascontiguousarray(mixed ^ column.astype(np.uint64)))
    return mixed


def places(key: np.ndarray, codes: np.ndarray, ties: np.ndarray) -> np.ndarray:
    """int64: the place (1, 2, ...) of each row among the rows of its key, by code, then by
    `ties`."""
    order = np.lexsort((ties, codes, key))
    of = key[order]
    out = np.empty(len(key), np.int64)
    out[order] = np.arange(len(key)) - np.searchsorted(of, of) + 1
    return out
