"""Arguments that cannot be meant are refused with a sentence that names them, before anything is charged or
written; limits are inclusive."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import fastdp
from fastdp.domain import Domain
from fastdp.engines import spark
from fastdp.engines.partitioned import Answer, Sums
from fastdp.errors import DataError, LedgerError, RunError, UsageError
from fastdp.mechanisms.adagrid import AdaGrid
from fastdp.model.total import estimate_total
from fastdp.privacy import forms, gdp
from fastdp.tables import bound, columns, split
from fastdp.tables.table import Table
from fastdp.userkeys import RowsPerUser

SCHEMA = fastdp.Schema.from_domain({"a": 3, "b": 2})


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    return Table.from_codes(SCHEMA, {"a": rng.integers(0, 3, 500), "b": rng.integers(0, 2, 500)})


@pytest.fixture(scope="module")
def run(table):
    return fastdp.synthesize(table, "mst", 2.0, 1e-6, seed=1, sample_seed=1)


@pytest.mark.parametrize("argument", ["resume", "report", "diagnose"])
def test_what_belongs_to_a_folder_needs_one(table, argument):
    with pytest.raises(UsageError, match="out="):
        fastdp.synthesize(table, "mst", 2.0, 1e-6, **{argument: True})


def test_a_run_without_rows_or_folder_says_so(run):
    with pytest.raises(RunError, match="neither written nor kept"):
        _ = replace(run, _output=None).data
    with pytest.raises(UsageError, match="in memory"):
        fastdp.verify(run)


def test_a_seeded_run_is_no_deployment(run):
    with pytest.raises(UsageError, match="known seed"):
        forms.registry(run.privacy)
    assert forms.registry(run.privacy | {"private": True})


@pytest.mark.parametrize("reference", [None, "a.db", 7])
def test_a_statement_without_a_ledger_is_not_in_one(tmp_path, run, reference):
    ledger = fastdp.Ledger(tmp_path / "b.db")
    ledger.open("people", epsilon=1.0, delta=1e-6)
    with pytest.raises(LedgerError, match="names no ledger"):
        ledger.verify(run.privacy | {"ledger": reference})


def test_a_column_of_lists_has_no_domain():
    with pytest.raises(UsageError, match="has no domain"):
        columns.asked_of(pa.table({"a": [[1], [2]]}), None)


@pytest.mark.parametrize("value", [True, False, "x", None, -1.0, float("nan"), float("inf")])
def test_a_number_of_privacy_is_a_finite_number(value):
    with pytest.raises(UsageError, match="mu"):
        gdp.nonnegative("mu", value)


def test_a_histogram_needs_edges():
    with pytest.raises(UsageError, match="at least one"):
        RowsPerUser(())


@pytest.mark.parametrize(
    "check, most",
    [(split.check_partitions, 512), (spark.check_partitions, 2**15), (bound.check_clip, 2**43 - 1)],
)
def test_limits_are_inclusive(check, most):
    assert check(1) == 1 and check(most) == most
    for value in (0, most + 1):
        with pytest.raises(UsageError):
            check(value)


@pytest.mark.parametrize("cells", [[5], [0, 5], [-1], [-1, 2], [2, 2], [3, 1], [0, 1, 2, 3, 4, 5]])
def test_a_partition_names_each_cell_of_the_request_at_most_once(cells):
    sums = Sums("q", 1, [5])
    with pytest.raises(DataError):
        sums.add(Answer(0, "q", [(np.array(cells), np.ones(len(cells), np.int64))]))
    whole = Sums("q", 1, [5])
    whole.add(Answer(0, "q", [(np.arange(5), np.arange(5))]))
    assert whole.whole()[0].tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("answer", [-50.0, 0.0, 0.2, 1.0])
def test_a_total_is_at_least_one_row(answer):
    seen = [fastdp.Measurement(("a",), np.array([answer, 0.0]), 1.0)]
    assert estimate_total(Domain({"a": 2}), seen) == (1.0, pytest.approx(2**0.5))


@pytest.mark.parametrize("epsilon, iterations", [(1.0, 600), (10.0, 3696), (0.5, 428)])
def test_published_iterations(epsilon, iterations):
    assert AdaGrid(stop="published").stopping(epsilon)["iters"] == iterations
