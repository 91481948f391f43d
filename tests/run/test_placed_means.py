"""Synthetic rows lie in their bins as the released counts say, so they add up to the true total."""

import numpy as np
import pyarrow as pa
import pytest

import fastdp

EDGES = [0, 5, 10, 20, 50, 100, 200, 400, 1000, 5000]
AMOUNT = {"kind": "numeric", "dtype": "float64", "digits": 2, "edges": EDGES, "null": "drop"}


def run_on(amounts, column, **more):
    schema = fastdp.Schema.from_dict(
        {"columns": {"kind": {"kind": "integer", "min": 0, "max": 2}, "amount": column}}
    )
    rows = pa.table({"kind": np.arange(len(amounts)) % 3, "amount": amounts})
    return fastdp.synthesize(
        rows, epsilon=4.0, delta=1e-6, schema=schema, seed=3, sample_seed=4, threads=1, **more
    )


@pytest.fixture(scope="module")
def amounts():
    return np.round(np.random.default_rng(5).gamma(0.6, 120.0, 12_000), 2)


def test_rows_add_up_to_the_true_total(amounts):
    """Most rows of a tail's bin lie near its inner edge: spread evenly, they add up to a tenth more. The
    schema of the run is what the owner wrote; the means are not part of it."""
    run = run_on(amounts, AMOUNT)
    even = run_on(amounts, {**AMOUNT, "means": "even"})
    total = run.data["amount"].to_numpy().sum()
    assert total == pytest.approx(amounts.sum(), rel=0.03)
    assert even.data["amount"].to_numpy().sum() > 1.07 * amounts.sum()
    assert run.schema.columns["amount"].means is None
    given = pa.table({"kind": np.arange(12_000) % 3})
    more = run.complete(given, seed=1)["amount"].to_numpy().sum()
    assert more == pytest.approx(amounts.sum(), rel=0.05), "rows on demand have the same means"


def test_what_is_stated_or_hidden_stays():
    """Stated means are kept. A column that noise hides is spread evenly, as is one with an open bin."""
    stated = [2.0, 7, 14, 30, 70, 140, 290, 600, 1500]
    few = run_on(np.round(np.random.default_rng(6).uniform(0, 5000, 30), 2), AMOUNT)
    for run, column in (
        (run_on(np.full(300, 600.0), {**AMOUNT, "means": stated}), None),
        (
            run_on(
                np.full(300, 600.0),
                {**AMOUNT, "edges": [*EDGES[:-1], "inf"], "tail": {"mean": 500.0}},
            ),
            None,
        ),
        (few, "middles"),
    ):
        written = run._written_schema.columns["amount"].means
        if column is None:
            assert written == run.schema.columns["amount"].means
        else:
            low, high = np.array(EDGES[:-1], float), np.array(EDGES[1:], float)
            assert np.abs(np.array(written) - (low + high) / 2).max() < 0.5 * (high - low).max()


@pytest.mark.parametrize(
    "edges, digits",
    [
        ([0, 0.22, 0.28, 5], 1),
        ([0.1, 0.2, 0.9, 5], 0),
        ([0, 1e-300, 2e-300, 1], 2),
        ([0, 3, 5, 9], 0),
    ],
)
def test_bins_without_a_number_of_the_column_end_no_run(edges, digits):
    """A bin between two numbers of a column with digits has no mean of its own: a charged run ended with an
    error of the schema that its rows are written by."""
    column = {
        "kind": "numeric",
        "dtype": "float64",
        "digits": digits,
        "edges": edges,
        "null": "drop",
    }
    values = np.random.default_rng(1).uniform(edges[0], edges[-1], 900).round(digits)
    run = run_on(values, column | {"overflow": "drop"}, mechanism="mst")
    means = run._written_schema.columns["amount"].means
    assert (means is not None) == (edges[-1] == 9), "bins that all have numbers get means"
    assert len(run.data)
