"""No number of rows raises an error or wraps: either would tell of private rows. Databases here hold a
few rows, and statements count each as billions of equal ones."""

from types import SimpleNamespace

import numpy as np
import pytest

import fastdp
from fastdp import user_views, userkeys as keys
from fastdp.domain import Domain
from fastdp.engines import sql_rows
from fastdp.engines.partitioned import Answer, PartitionedCounter, Sums, project, sparse
from fastdp.engines.sql_database import DuckDbConnection
from fastdp.engines.sql_dialects import DuckDb
from fastdp.engines.sql_rows import SqlRows
from fastdp.errors import DataError
from fastdp.measurement import MOST
from fastdp.release.counts import Counts
from fastdp.release.score_grids import SCORE_LIMIT, l1_distance

duckdb = pytest.importorskip("duckdb")
TIMES = 5_000_000_000
"""Rows that a row stands for: the square is beyond 2^63."""
UNITS = 1 << 20


class Magnified(DuckDbConnection):
    """Statements count every row TIMES times."""

    def _execute(self, statement):
        super()._execute(_magnified(statement))

    def _fetch(self, statement):
        return super()._fetch(_magnified(statement))


def _magnified(statement):
    statement = statement.replace("count(*) AS n", f"{TIMES} * count(*) AS n")
    statement = statement.replace("count(*) AS r ", f"{TIMES} * count(*) AS r ")
    statement = statement.replace("-count(*) AS n", f"-{TIMES} * count(*) AS n")
    return statement.replace("sum(l.v0)", f"{TIMES} * sum(l.v0)")


def opened(kind, rows, schema):
    database = duckdb.connect(config={"threads": 1})
    database.execute("CREATE TABLE t (who VARCHAR, a INTEGER, b INTEGER)")
    database.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
    return PartitionedCounter(schema, SqlRows(kind(database), "from t", schema))


ROWS = [("x", 0, 0), ("x", 0, 1), ("x", 1, 1), ("y", 1, 1), ("y", 1, 0), ("z", 0, 0)]
DOMAIN = {"a": 2, "b": 2}


def test_pairs_of_a_users_rows_need_more_than_64_bits():
    """The share of pairs that agree is exact; with 64 bits the statement would fail."""
    schema = fastdp.Schema.from_domain(DOMAIN, user="who")
    r = {"x": 3 * TIMES, "y": 2 * TIMES, "z": TIMES}
    same = {"x": (2, 1), "y": (2,), "z": (1,)}  # rows by their code of a
    with opened(Magnified, ROWS, schema) as counter:
        told = counter.user_histogram(keys.Agreement((("a",),), (2,)), 1)
        shares = [
            sum(n * TIMES * (n * TIMES - 1) for n in same[u]) * UNITS // (r[u] * (r[u] - 1))
            for u in r
        ]
        assert told.tolist() == [2 * sum(shares) - 3 * UNITS, 3 * UNITS]
        facts = user_views.UserFacts(
            (1, 2), facts=(("total", "sum", "a", (0, 1 << 31), (1, 1 << 62)),)
        )
        view = counter.marginals([("total",)], 1, view=facts)
        assert view["total",].tolist() == [UNITS, 0, 2 * UNITS]  # z; x and y are beyond 2^62
        groups = counter.user_histogram(keys.RowsPerUser((1, 2 * TIMES, 3 * TIMES)), 1)
        assert groups.tolist() == [1, 1, 1]
        assert counter.user_histogram(keys.RowsUpTo(7), 1).tolist() == [3 * UNITS]
        counter.user_histogram(keys.Succession(("a",), (("a", "b"),), 3, 2), 1)


def test_products_of_64_bits_would_fail(monkeypatch):
    monkeypatch.setattr(DuckDb, "as_wide", lambda self, x: x)
    schema = fastdp.Schema.from_domain(DOMAIN, user="who")
    with opened(Magnified, ROWS, schema) as counter, pytest.raises(DataError):
        counter.user_histogram(keys.Agreement((("a",),), (2,)), 1)


def test_sums_are_cut_off_and_so_are_sums_of_them(monkeypatch):
    """A row weighs 2^60: two reach the cut, and no projection wraps."""
    monkeypatch.setattr(sql_rows, "SCALE", 1 << 60)
    schema = fastdp.Schema.from_domain(DOMAIN)
    exact = {("a", "b"): [[2, 1], [1, 2]], ("a",): [3, 3], ("b",): [3, 3], (): 6}
    for hint in (False, True):
        with opened(DuckDbConnection, ROWS, schema) as counter:
            if hint:
                counter.expect([("a", "b")])
            cliques = [*exact, ("b", "a")]
            told = counter.marginals(cliques, 1)
            for clique, rows in exact.items():
                want = np.minimum(np.array(rows, object) << 60, MOST).astype(np.int64)
                assert np.array_equal(told[clique], want), clique
            assert np.array_equal(told["b", "a"], told["a", "b"].T)


def test_a_database_makes_the_wide_numbers_of_python():
    check_wide(DuckDbConnection(duckdb.connect()))


def check_wide(database):
    d = database.dialect
    for n in (0, 1, 3_037_000_500, (1 << 55) - 1):
        pairs = f"{d.as_wide(str(n))} * ({n} - 1)" if n else d.as_wide("0")
        high, low = d.halves(pairs)
        found = database.ask(f"SELECT {high}, {low}, {d.bounded(pairs)}")
        many, rest, cut = (int(column[0]) for column in found)
        assert (many << 60) + rest == n * max(n - 1, 0) and cut == min(n * max(n - 1, 0), MOST)
    (made,) = database.ask(
        f"SELECT {d.bounded(d.wide_sum('x'))} FROM (SELECT {MOST} AS x UNION ALL SELECT {MOST}"
        f" UNION ALL SELECT {MOST} UNION ALL SELECT {MOST}) AS four"
    )
    assert made.tolist() == [MOST]


def test_partitions_are_added_without_wrapping():
    sums = Sums("d", 5, [2])
    for i in range(5):
        sums.add(Answer(i, "d", [(np.array([0, 1]), np.array([MOST, -MOST]))]))
    assert sums.whole()[0].tolist() == [MOST, -MOST]


def test_projections_and_scores_do_not_wrap():
    domain = Domain({"a": 2, "b": 4})
    cells = np.full(8, MOST, np.int64)
    for clique, size in ((("a",), 2), ((), 1)):
        assert project(domain, ("a", "b"), sparse(cells), clique).tolist() == [MOST] * size
    assert l1_distance(cells, np.zeros(8, np.int64)) == SCORE_LIMIT
    assert l1_distance(cells[:1], np.full(1, MOST - 5)) == 5
    engine = SimpleNamespace(marginals=lambda cliques, clip: {("a", "b"): cells.reshape(2, 4)})
    told = Counts(engine, domain, {}, 1).guessed([("a", "b")], {})
    assert told.tolist() == [SCORE_LIMIT]
