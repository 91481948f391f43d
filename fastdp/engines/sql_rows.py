"""The rows of a query, coded and weighted in their database, as the one partition that counts them.

Opening makes temporary tables. The first has the codes of every row: a snapshot of the query. From
it comes one with each user's number u and number of rows R. The ids are removed before anything is
counted. All counts are over these tables, so that rows and weights are of one moment, whatever
others write. Weights are looked up by R in a table that `tables.bound` made; all divisions are made
here. So every integer is that of the local engine.

No number of rows raises an error, which would tell of rows. Sums have more than 64 bits in the
database, and are cut off when they leave it (docs/explain/bounds.md, "No overflow").

Temporary tables hold private rows, and a database keeps a history of statements and logs: those are
outside of the guarantee (docs/guide/databases.md)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from .. import user_views
from ..domain import Domain
from ..errors import UsageError
from ..measurement import SCALE
from ..schema import Schema
from ..tables import bound
from . import sql_codes, sql_ids, sql_users
from .partitioned import Answer, CellSums, MarginalRequest, Request, UserRequest, sparse
from .sql_database import Database
from .sql_table import CodedTable

CLIQUES_AT_ONCE = 32
"""Marginals that one statement counts."""


class SqlRows(CodedTable):
    """`partitioned.Partitions` over the rows of a query: one partition, which holds all users."""

    count = 1

    def __init__(self, database: Database, query: str, schema: Schema):
        self.database = database
        self.schema = schema
        self.dialect = database.dialect
        self.query = query.strip().rstrip(";")
        self.alias = {name: f"c{i}" for i, name in enumerate(schema.domain)}
        self._view: tuple[str, str, dict[str, str]] | None = None
        self._weighted: tuple[int, str] | None = None
        try:
            self.codes, self.who = coded(database, self.query, schema)
            self._open()
        except BaseException:  # nobody else knows this connection yet
            database.close()
            raise

    # --- opening

    def _open(self) -> None:
        """Make the snapshot of coded rows in the database, with lookups and users."""
        db = self.database
        d = self.dialect
        schema = self.schema
        for lookup, _ in self.codes.joins:
            db.load(lookup.name.removeprefix(db.prefix), lookup.keys, lookup.codes)
        more = {} if self.who is None else {"who": self.who.value}
        keep = [f"{name} >= 0" for name in self.codes.drops]
        if self.who is not None and schema.null_user == "drop":
            keep.append("who IS NOT NULL")
        small = []
        for name, column in self.alias.items():
            dropped = column in self.codes.drops
            code = f"CASE WHEN {column} < 0 THEN 0 ELSE {column} END" if dropped else column
            small.append(f"CAST({code} AS {d.small(schema.domain[name])}) AS {column}")
        kept = f"CASE WHEN {' AND '.join(keep) or '1 = 1'} THEN 1 ELSE 0 END AS kept"
        inner = self.codes.select(self.query, more)
        made = f"SELECT {', '.join([*small, *more, kept])} FROM ({inner}) AS coded"
        self.moment = db.moment()
        coded_rows = db.make("coded", made)
        ids = "count(*) - count(who)" if self.who is not None else "0"
        found = db.ask(f"SELECT count(*), COALESCE(sum(kept), 0), {ids} FROM {coded_rows}")
        every, self.rows, self.null_ids = (int(column[0] if len(column) else 0) for column in found)
        self.dropped = every - self.rows
        if self.who is None:
            self._without_users(coded_rows)
        else:
            self._with_users(coded_rows)
        db.drop(coded_rows)

    def _without_users(self, coded_rows: str) -> None:
        """Every row is a user of its own, and has no ties."""
        db = self.database
        columns = ", ".join(self.alias.values())
        number = "row_number() OVER () - 1 AS u"
        select = f"SELECT {columns}, 1 AS r, {number} FROM {coded_rows} WHERE kept = 1"
        self.table = db.make("rows", select)
        self.people = ""
        self.lengths, self.having = np.array([1]), np.array([self.rows])
        self.users = self.rows

    def _with_users(self, coded_rows: str) -> None:
        """Add to the coded rows the number of each row's user and its number of rows."""
        db = self.database
        d = self.dialect
        assert self.who is not None
        columns = [f"e.{name}" for name in self.alias.values()]
        counted = f"SELECT who, count(*) AS r FROM {coded_rows} WHERE kept = 1 AND who IS NOT NULL"
        hashed = f"SELECT who, r, {d.sha256(self.who.hashed)} AS h FROM ({counted} GROUP BY who) AS counted"
        words = sql_users.hash_words(d, "h", "a", "b")
        number = "CAST(row_number() OVER () - 1 AS BIGINT) AS u"
        ids = db.make("ids", f"SELECT who, r, {number}, {words} FROM ({hashed}) AS hashed")
        owned = f"SELECT {', '.join(columns)}, p.r, p.u FROM {coded_rows} AS e JOIN {ids} AS p"
        select = f"{owned} ON e.who = p.who WHERE e.kept = 1"
        if self.schema.null_user != "drop":
            alone = f"CAST(1 AS {d.whole}) AS r, CAST(-1 - row_number() OVER () AS {d.whole}) AS u"
            missing = f"FROM {coded_rows} AS e WHERE e.kept = 1 AND e.who IS NULL"
            select += f" UNION ALL SELECT {', '.join(columns)}, {alone} {missing}"
        self.table = db.make("rows", select)
        self.people = db.make("people", f"SELECT u, a, b FROM {ids}")
        lengths, having = db.ask(f"SELECT r, count(*) FROM {ids} GROUP BY r ORDER BY r")
        (alone_rows,) = db.ask(f"SELECT count(*) FROM {self.table} WHERE u < 0")
        db.drop(ids)
        # A number of rows is listed once: weights are joined by it.
        by_rows = dict(zip(lengths.tolist(), having.tolist(), strict=True))
        if alone_rows[0]:
            by_rows[1] = by_rows.get(1, 0) + int(alone_rows[0])
        self.lengths = np.array(list(by_rows), np.int64)
        self.having = np.array(list(by_rows.values()), np.int64)
        self.users = int(self.having.sum())

    # --- requests

    def answers(self, request: Request) -> Iterable[Answer]:
        """The one answer to a request."""
        if isinstance(request, MarginalRequest):
            tables = self._marginals(request)
        elif isinstance(request, UserRequest):
            tables = [sparse(sql_users.histogram(self, request.key, request.cap))]
        else:
            raise UsageError("engine='sql' does not count numbers that are asked for")
        yield Answer(0, request.digest(), tables)

    def close(self) -> None:
        self.database.close()

    def _marginals(self, request: MarginalRequest) -> list[CellSums]:
        """The marginals of a request, of the rows or of a view of users, with the weights of the
        clip."""
        view = request.view
        domain = self.schema.domain
        rows = self.table
        columns = dict(self.alias)
        if view is not None:
            domain = view.domain(domain)
            if view.per_user:
                rows, columns = self._users_table(view)
            else:
                columns[view.name] = sql_users.group_of("r", view.edges)
        weight = "1"
        if request.clip is not None:
            weight = str(SCALE)
            if self.who is not None and not (view is not None and view.per_user):
                rows = self._with_weights(request.clip)
                weight = "w"
        joins = ""
        lookups = []
        used = {name for clique in request.cliques for name in clique}
        for i, (name, codes) in enumerate(request.recode.items()):
            if name in used:
                lookups.append(self.database.load(f"recode{i}", np.arange(len(codes)), [codes]))
                joins += f" JOIN {lookups[-1]} ON {lookups[-1]}.k = {columns[name]}"
                columns[name] = f"{lookups[-1]}.v0"
        domain = domain.recoded(request.recode)
        try:
            return self._counted(request, domain, columns, rows + joins, weight)
        finally:
            for lookup in lookups:
                self.database.drop(lookup)

    def _counted(
        self,
        request: MarginalRequest,
        domain: Domain,
        columns: Mapping[str, str],
        rows: str,
        weight: str,
    ) -> list[CellSums]:
        """The cells of each clique that are not empty, with their sums: one statement, one part for
        each clique."""
        d = self.dialect
        whole = self.dialect.whole
        weighted = weight == "w"
        total = d.wide_sum("w") if weighted else f"{d.as_wide('count(*)')} * {weight}"
        # Small types: what leaves the database is one row for each cell that is not empty.
        narrow = all(domain.cells(clique) < 1 << 31 for clique in request.cliques)
        kind = "INTEGER" if narrow else whole
        selects = []
        for i, clique in enumerate(request.cliques):
            cell = self.cell(clique, domain, [columns[name] for name in clique])
            number = f"CAST({i % CLIQUES_AT_ONCE} AS SMALLINT) AS q"
            selects.append(
                f"SELECT {number}, CAST(cell AS {kind}) AS cell, {d.bounded(total)} AS n"
                f" FROM (SELECT {cell} AS cell{', w' if weighted else ''} FROM {rows}) AS cells"
                " GROUP BY cell"
            )
        out = []
        for start in range(0, len(selects), CLIQUES_AT_ONCE):
            some = selects[start : start + CLIQUES_AT_ONCE]
            which, cells, sums = self.database.ask(" UNION ALL ".join(some))
            for i in range(len(some)):
                own = which == i
                out.append(_sorted(cells[own], sums[own]))
        return out

    def _with_weights(self, clip: int) -> str:
        """The rows with their weights w for a clip; those of the last clip are held."""
        if self._weighted is not None and self._weighted[0] == clip:
            return self._weighted[1]
        if self._weighted is not None:
            self.database.drop(self._weighted[1])
            self._weighted = None
        weights = bound.weights(self.lengths, clip)
        lookup = self.database.load("weights", self.lengths, [weights])
        join = f"FROM {self.table} AS e JOIN {lookup} AS l ON l.k = e.r"
        columns = ", ".join(f"e.{name}" for name in (*self.alias.values(), "r"))
        weighted = f"SELECT {columns}, CAST(l.v0 AS INTEGER) AS w {join}"
        table = self.database.make("weighted", weighted)
        self.database.drop(lookup)
        self._weighted = (clip, table)
        return table

    def _users_table(self, view: user_views.View) -> tuple[str, dict[str, str]]:
        """The table of a view that has a row per user; the last one is held."""
        if self._view is None or self._view[0] != view.digest():
            if self._view is not None:
                self.database.drop(self._view[1])
                self._view = None
            table, columns = sql_users.view_table(self, view)
            self._view = (view.digest(), table, columns)
        return self._view[1], dict(self._view[2])


def coded(
    database: Database, query: str, schema: Schema
) -> tuple[sql_codes.CodedQuery, sql_ids.UserId | None]:
    """The codes of a query's rows and, where the schema has users, their ids. DataError, by
    public facts alone, where the database cannot make them; no row is read."""
    types, own = database.columns_of(f"SELECT * FROM ({query.strip().rstrip(';')}) AS q")
    codes = sql_codes.coded_query(schema, types, own, database.dialect, database.prefix)
    if schema.user is None:
        return codes, None
    return codes, sql_ids.id_value(schema, types, own, database.dialect)


def _sorted(cells: np.ndarray, sums: np.ndarray) -> CellSums:
    order = np.argsort(cells)
    cells = cells[order]
    sums = sums[order]
    there = sums != 0
    return cells[there], sums[there]
