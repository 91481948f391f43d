"""Private domains in a database: how many users have each value, and what a run will ask of columns
whose domain is still to be found.

Each user counts in the `cap` values that most of their rows have; ties go by the numbers of
docs/explain/ties.md. The database returns (value, number of values in which the user counts, users),
PRIVATE, and `release.key_counts` makes weights, `release.keyselect` noise and the threshold."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import closing

import numpy as np

from .._util.lazy import pa
from ..errors import DataError, UsageError
from ..schema import Schema, dtypes
from ..schema.bins import digits
from ..schema.columns import OWN_CODE, Column
from ..schema.fields import Field
from ..schema.kinds.numeric import Numeric
from ..schema.kinds.places import Places
from ..schema.pending import ANY
from . import sql_codes, sql_ids, sql_users
from .engine import ValueUsers
from .sql_database import Database
from .sql_dialects import Dialect

MOST_EXACT = (1 << 53) - 1
"""The largest whole number below which floats hold all of them."""


class KeysInDatabase:
    """Counts users by value, over the rows of a query (`engine.KeySource`)."""

    def __init__(self, database: Database, query: str):
        self.database = database
        self.query = query.strip().rstrip(";")

    def users_by_value(
        self,
        schema: Schema,
        name: str,
        dtype: str,
        cap: int,
        known: Collection[int | str],
        places: int | None,
    ) -> ValueUsers:
        """See `engine.KeySource`. Afterwards the database is closed."""
        with closing(self.database):
            texts = places is None and dtypes.family(dtype) == "string"
            select, who = self._rows_of(schema, name, dtype, known, places)
            return self._asked(self._counts_of(schema, select, who, cap, texts), texts)

    def _rows_of(
        self,
        schema: Schema,
        name: str,
        dtype: str,
        known: Collection[int | str],
        places: int | None,
    ) -> tuple[str, sql_ids.UserId | None]:
        """(a select (v, who) of the rows that count, how ids are written); without users, (v)."""
        db = self.database
        d = self.database.dialect
        types, own = db.columns_of(f"SELECT * FROM ({self.query}) AS q")
        key = key_value(types, own, d, name, dtype, places)
        texts = places is None and dtypes.family(dtype) == "string"
        who = None if schema.user is None else sql_ids.id_value(schema, types, own, d)
        columns = f"{key} AS v" + ("" if who is None else f", {who.value} AS who")
        select = f"SELECT * FROM (SELECT {columns} FROM ({self.query}) AS source) AS read"
        kept = "v IS NOT NULL"
        if who is not None and schema.null_user == "drop":
            kept += " AND who IS NOT NULL"
        select = f"{select} WHERE {kept}"
        if known:
            listed = sorted(known)
            keys = pa.array([str(v).encode() for v in listed], pa.binary()) if texts else listed
            lookup = db.load("known", keys, [np.zeros(len(listed), np.int64)])
            unknown = f"LEFT JOIN {lookup} AS l ON l.k = t.v WHERE l.k IS NULL"
            select = f"SELECT t.* FROM ({select}) AS t {unknown}"
        return select, who

    def _counts_of(
        self, schema: Schema, select: str, who: sql_ids.UserId | None, cap: int, texts: bool
    ) -> str:
        """A select (v, t, n): so many users who count in t values count in this one."""
        if who is None:
            return f"SELECT v, 1, count(*) FROM ({select}) AS alone GROUP BY v"
        alone = f"SELECT v, 1 AS t, count(*) AS n FROM ({select}) AS r WHERE who IS NULL GROUP BY v"
        counted = f"SELECT who, v, count(*) AS n FROM ({select}) AS r WHERE who IS NOT NULL"
        pairs = self.database.make("pairs", f"{counted} GROUP BY who, v")
        number = "count(*) OVER (PARTITION BY who) AS t"
        few = f"SELECT v, t FROM (SELECT v, {number} FROM {pairs}) AS every WHERE t <= {cap}"
        first = self._first(f"SELECT who, v, n, {number} FROM {pairs}", cap, texts, who.hashed)
        both = f"SELECT v, t, count(*) AS n FROM ({few} UNION ALL {first}) AS kept GROUP BY v, t"
        return both if schema.null_user == "drop" else f"{both} UNION ALL {alone}"

    def _first(self, select: str, cap: int, texts: bool, who: str) -> str:
        """A select (v, t): of users with more than `cap` values those that they count in."""
        d = self.database.dialect
        many = f"SELECT who, v, n FROM ({select}) AS every WHERE t > {cap}"
        value = "v" if texts else d.bytes_of(f"CAST(v AS {d.texts})")
        hashed = f"SELECT *, {d.sha256(who)} AS h, {d.sha256(value)} AS g FROM ({many}) AS many"
        words = sql_users.hash_words(d, "h", "a", "b") + ", "
        words += sql_users.hash_words(d, "g", "c", "e")
        tied = sql_users.tie_number(
            d, f"SELECT who, v, n, {words} FROM ({hashed}) AS hashed", ["c", "e"]
        )
        place = "row_number() OVER (PARTITION BY who ORDER BY n DESC, z, v) AS i"
        ranked = f"SELECT v, {place} FROM ({tied}) AS tied_values"
        return f"SELECT v, {cap} AS t FROM ({ranked}) AS ranked WHERE i <= {cap}"

    def _asked(self, statement: str, texts: bool) -> ValueUsers:
        values, (sizes, users) = self.database.ask_values(statement)
        return [value.decode() if texts else value for value in values], sizes, users


def key_value(
    types: pa.Schema,
    own_types: dict[str, str],
    dialect: Dialect,
    name: str,
    dtype: str,
    places: int | None,
) -> str:
    """A value as `key_values.keys_of` reads it: bytes of a text, or a whole number; NULL if it is
    neither. DataError, by its type, where the database cannot make it."""
    found = types.get_all_field_indices(name)
    if len(found) != 1:
        raise DataError(f"<sql>: column {name!r} is missing, or occurs more than once")
    kind = types.field(found[0]).type
    own = own_types.get(name, "").upper()
    t = pa.types
    d = dialect
    x = dialect.quoted(name)

    def refused(what: str) -> DataError:
        return DataError(
            f"column {name!r}: engine='sql' does not find {what} of {own or kind}; cast the column in"
            " the query, or use engine='local' on the same query"
        )

    inner = kind.value_type if t.is_dictionary(kind) else kind
    text = t.is_string(inner) or t.is_large_string(inner)
    if places is None and dtypes.family(dtype) == "string":
        if text:
            return d.bytes_of(d.text_of(x, own))
        if t.is_integer(kind):
            return d.bytes_of(f"CAST({x} AS {d.texts})")
        raise refused("texts")
    if t.is_boolean(kind) and places is None:
        return f"CASE WHEN {x} THEN CAST(1 AS {d.whole}) WHEN NOT {x} THEN CAST(0 AS {d.whole}) END"
    if t.is_integer(kind):
        if t.is_uint64(kind):
            raise refused("numbers")
        whole = f"CAST({x} AS {d.whole})"
        if places is None:
            return whole
        units = 10**places
        most = MOST_EXACT // units
        return f"CASE WHEN {whole} BETWEEN -{most} AND {most} THEN {whole} * {units} END"
    if t.is_float64(kind) and own != "NUMERIC":
        most = d.double(float(1 << 53))
        scale = d.double(10.0 ** (places or 0))
        finite = f"CASE WHEN NOT ({d.is_nan(x)}) AND {x} < {most} AND {x} > -{most} THEN {x} END"
        units = d.rounded(f"({finite} * {scale})")
        near = f"{units} / {scale} = {finite} AND abs({units}) < {most}"
        return f"CASE WHEN {near} THEN {d.to_whole(f'CASE WHEN {near} THEN {units} END')} END"
    raise refused("numbers")


def check_domains(
    database: Database, types: pa.Schema, own: dict[str, str], schema: Schema
) -> None:
    """DataError or UsageError, by public facts alone, where a run could not find a private domain of
    the schema in the database."""
    d = database.dialect
    for name, column in schema.pending.items():
        if column.wanted == ANY:
            raise UsageError(
                f"engine='sql' does not find what the texts of column {name!r} are: state its kind, or"
                " use engine='local' on the same query. Nothing was charged"
            )
        if column.keyed:
            key_value(types, own, d, column.source, column.dtype, None)
    for name in schema.atomic:
        about = schema.pending.get(name) or schema.columns[name]
        places = 0 if about.in_bins is None else digits(about.in_bins)
        if about.dtype == "float32":
            raise DataError(
                f"column {name!r}: engine='sql' does not find frequent values of float32; cast the"
                " column in the query, or use engine='local' on the same query"
            )
        key_value(types, own, d, about.source, about.dtype, places)
    for field in _counted_fields(schema):
        one = Schema({field.name: field}, dialect=schema.dialect)
        sql_codes.coded_query(one, types, own, d, database.prefix)


def _counted_fields(schema: Schema) -> Iterator[Field]:
    """The fields that a run counts before the domain is known: see `release.private_domain`."""
    numbers = [c for c in schema.pending.values() if not c.keyed]
    for column in numbers:
        yield Numeric(
            name=column.name,
            source=column.source,
            dtype=column.dtype,
            nan=column.nan,
            edges=(0.0, 1.0),
            null=OWN_CODE,
            overflow=OWN_CODE,
        )
        if column.may_have_step or dtypes.family(column.dtype) in ("int", "float"):
            yield column.clock
    measured: list[Column] = [schema.columns[name] for name in schema.measured]
    for one in [*numbers, *measured]:
        if dtypes.family(one.dtype) in ("int", "float", "decimal"):
            yield Places(name=one.name, source=one.source, dtype=one.dtype)
