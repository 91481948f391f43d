"""Dense tables: when a model of hidden factors takes the place of the clique tree, and what it
costs."""

import math
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
import pytest

from fastdp.mechanisms.cliquetree import CliqueTree, dense_tables
from fastdp.mechanisms.cliquetree.dense_tables import DenseTable
from fastdp.mechanisms.shared import merged_codes
from tests.tiers import slow_cases

from .growing import RowsPublic, RowsSession, dependent_rows, job_of

HIDDEN = dense_tables.HIDDEN


def questionnaire(rows=6000, columns=10, correlation=0.7, seed=0, size=6):
    """Columns that all depend on one hidden number."""
    rng = np.random.default_rng(seed)
    common = rng.normal(size=(rows, 1)) * np.sqrt(correlation)
    numbers = common + rng.normal(size=(rows, columns)) * np.sqrt(1 - correlation)
    codes = numbers.argsort(axis=0).argsort(axis=0) * size // rows
    names = [f"c{i}" for i in range(columns)]
    return dict.fromkeys(names, size), dict(zip(names, codes.T))


def unequal(rows=6000, columns=10, seed=0):
    """Such columns with codes of unequal counts."""
    domain, made = questionnaire(rows, columns, seed=seed, size=60)
    ends = np.array([3, 9, 22, 41, 50])
    return dict.fromkeys(domain, 6), {a: np.searchsorted(ends, c) for a, c in made.items()}


def run(domain, columns, mu=0.4, config=None, **job):
    session = RowsSession(domain, columns, mu=mu, seed=4)
    config = config or CliqueTree()
    outcome = config.run(session, job_of(session, **job))
    return session, outcome


def forced():
    """Hidden factors whatever the distances say."""
    return patch.multiple(
        dense_tables, chance_distance=lambda _: -math.inf, distance=lambda *_: (-math.inf, 0.0)
    )


def correlations(columns):
    values = np.corrcoef([np.asarray(codes, float) for codes in columns.values()])
    return values[np.triu_indices(len(values), 1)]


@pytest.fixture(scope="module")
def dense():
    domain, columns = questionnaire()
    return domain, columns, *run(domain, columns)


def test_a_questionnaire_keeps_its_correlations(dense):
    """Forty-five correlations of .7, of which a tree of ten columns holds few: the mean error is
    that of the contrasts and of the rows, both about .01."""
    domain, columns, session, outcome = dense
    assert outcome.model.ended == "hidden factors"
    rows = outcome.rows.some(6000, 1)
    assert list(rows) == list(domain)
    assert np.abs(correlations(rows) - correlations(columns)).mean() < 0.025
    assert {"contrasts", "distances of hidden factors", "contrasts again"} <= set(session.steps)
    assert outcome.details["hidden_factors"]["factors"] == 1
    assert not outcome.details.get("left_out")


def test_all_of_the_budget_is_spent_and_no_more(dense):
    _, _, session, _ = dense
    assert session.spent == pytest.approx(session.mu**2, rel=1e-9)


def test_single_columns_are_by_all_that_is_released_about_them():
    """The sums of measured pairs, and 1-ways that are measured again, as far as they are worth more than
    contrasts. The planted bug: with the first 1-ways alone columns are off by more."""
    domain, columns = unequal()
    outcomes = [run(domain, columns, mu=0.4)]
    with (
        patch.object(DenseTable, "part_of_ones", lambda *_: 0.0),
        patch.object(merged_codes, "sums_of_columns", lambda *_: {}),
    ):
        outcomes.append(run(domain, columns, mu=0.4))
    off = []
    for session, outcome in outcomes:
        assert outcome.model.ended == "hidden factors"
        assert session.spent == pytest.approx(session.mu**2, rel=1e-9)
        tables = [(outcome.model.marginal((a,)), session.marginal((a,))) for a in domain]
        off.append(np.mean([np.abs(made - true).sum() for made, true in tables]))
    assert "1-ways at last" in outcomes[0][0].steps
    assert "1-ways at last" not in outcomes[1][0].steps
    assert off[0] < 0.8 * off[1]


def test_columns_of_equal_counts_leave_the_last_batch_to_contrasts(dense):
    """Noise explains all of what they differ by, so they are known without measuring them again."""
    _, _, session, _ = dense
    assert "1-ways at last" not in session.steps


@pytest.mark.parametrize(
    ("part", "left_out"),
    [
        (0.9999, "contrasts again"),
        (0.0, "1-ways at last"),
        *slow_cases((1.0, "contrasts again")),
    ],
)
def test_a_division_that_leaves_one_side_nothing_gives_the_other_all(part, left_out):
    """Columns of very many codes may be worth the whole batch. Contrasts were then asked for with no
    budget, which ended a run that was charged."""
    with patch.object(DenseTable, "part_of_ones", lambda *_: part):
        session, outcome = run(*unequal(), mu=0.4)
    assert outcome.model.ended == "hidden factors"
    assert left_out not in session.steps
    assert session.spent == pytest.approx(session.mu**2, rel=1e-9)


def test_the_last_batch_is_divided_where_pairs_are_off_least():
    """By the stated errors on a grid of divisions. The planted bug: half and half."""
    domain, columns = unequal()
    seen = []
    real = DenseTable.part_of_ones

    def noting(self, share):
        ones = [m.variances.mean() for m in self.merged.released]
        each = self.state.session.clip**2 / self.state.session.mu**2 / share
        part = real(self, share)
        noise = np.mean(list(self.merged.noise_tv.values()))
        x = np.linspace(0, 1, 1001)[:-1]
        old = np.mean(ones)
        first = 2 * noise**2 / (1 + x * old / (10 * each))
        pairs = 45
        rows = self.merged.total
        again = 1 / (1 + (1 - x) * self.noise**2 * rows**2 / (pairs * each))
        second = 10 / pairs * (2 / math.pi * self.noise**2 / 4) * (1 + math.pi**2) * again
        seen.append((part, x[np.argmin(first + second)]))
        return part

    with patch.object(DenseTable, "part_of_ones", noting):
        run(domain, columns, mu=0.4)
    ((part, best),) = seen
    assert part == pytest.approx(best, abs=2e-3) and 0.05 < part and abs(part - 0.5) > 0.01


def test_the_finished_distances_are_from_the_model_of_hidden_factors(dense):
    """Of all pairs: also of those that a batch had measured for the tree."""
    _, _, session, outcome = dense
    lines = outcome.tables["distances"].to_pylist()
    assert len(lines) == 45 and all(HIDDEN not in line["columns"] for line in lines)
    for line in lines:
        exact = session.marginal(tuple(line["columns"]))
        far = np.abs(exact - outcome.model.marginal(tuple(line["columns"])).reshape(-1)).sum()
        assert abs(line["distance"] - far) < 6 * line["standard_error"]


def test_a_chain_stays_a_tree_and_asks_nothing_more():
    domain, columns = dependent_rows()
    session, outcome = run(domain, columns)
    assert HIDDEN not in outcome.model.domain
    assert not any("contrasts" in step or "hidden" in step for step in session.steps)


def test_a_table_that_factors_cannot_explain_stays_a_tree_for_a_small_share():
    """Columns that repeat one column up to a shuffle of its codes: dense, but without an order. The
    probe and the test are paid for, the rest goes to the batch."""
    rng = np.random.default_rng(1)
    common = rng.integers(0, 6, 6000)
    codes = [
        np.where(rng.random(6000) < 0.7, rng.permutation(6)[common], rng.integers(0, 6, 6000))
        for _ in range(10)
    ]
    names = [f"c{i}" for i in range(10)]
    few = CliqueTree(max_cells=10_000)  # the fit would take most of the time
    session, outcome = run(dict.fromkeys(names, 6), dict(zip(names, codes)), config=few)
    assert "contrasts again" not in session.steps
    assert HIDDEN not in outcome.model.domain
    assert session.spent == pytest.approx(session.mu**2, rel=1e-9)


@pytest.mark.parametrize("why", ["workload", "target", "public"])
def test_it_is_off_where_it_cannot_serve(why):
    domain, columns = questionnaire(rows=1500, columns=4)
    config = {"workload": CliqueTree(workload=(("c0", "c1"),)), "target": CliqueTree(target="c0")}
    public = {"public": RowsPublic(domain, columns)} if why == "public" else {}
    session, outcome = run(domain, columns, config=config.get(why), **public)
    assert not any("contrasts" in step for step in session.steps)
    assert HIDDEN not in outcome.model.domain


@pytest.mark.parametrize("constraints", [(), ("b follows from a",)])
def test_months_outside_a_span_do_not_switch_it_off_and_constraints_do(constraints):
    """Such months are zeros of every model of a tree. A dense table whose dates end in August must
    not lose its factors for them."""
    state = SimpleNamespace(
        workload=SimpleNamespace(items=()),
        priors=None,
        merged=SimpleNamespace(zeros={("at_year", "at_month"): np.eye(3, 12, dtype=bool)}),
        session=SimpleNamespace(schema=SimpleNamespace(constraints=constraints)),
    )
    assert dense_tables.possible(state) is not bool(constraints)


def test_a_column_of_the_schema_may_have_the_hidden_ones_name():
    domain, columns = questionnaire(rows=3000, columns=6)
    domain, columns = (
        {HIDDEN if a == "c0" else a: value for a, value in of.items()} for of in (domain, columns)
    )
    with forced():
        _, outcome = run(domain, columns, mu=1.0)
    assert outcome.model.ended == "hidden factors"
    assert list(outcome.rows.some(100, 1)) == list(domain)


def test_the_first_contrasts_count_by_their_precision():
    """Two answers about the same numbers, averaged: the error is that of both together. The planted
    bug, to keep the first alone, has 5 times the error."""
    domain, columns = questionnaire(rows=3000, columns=6)
    noises = []
    real = DenseTable.finished

    def noting(self):
        noises.append((self.noise, self.contrasts.copy()))
        return real(self)

    with forced(), patch.object(DenseTable, "finished", noting):
        session, _ = run(domain, columns, mu=1.0)
    signs = [np.where(codes < 3, -1, 1) for codes in columns.values()]
    exact = [np.mean(a * b) for i, a in enumerate(signs) for b in signs[i + 1 :]]
    noise, made = noises[0]
    assert np.sqrt(np.mean((made - exact) ** 2)) < 2 * noise + 0.02
    assert noise < 0.5 * np.sqrt(15 / dense_tables.QUESTION) / session.mu / 3000
