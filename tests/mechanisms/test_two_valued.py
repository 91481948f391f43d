"""Tables of two values per column: contrasts of all pairs and triples take the place of the tree."""

from itertools import combinations
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
import pytest

import fastdp
from fastdp.measurement import Measurement
from fastdp.mechanisms.cliquetree import CliqueTree, two_valued
from fastdp.mechanisms.cliquetree.two_valued import Contrasts
from fastdp.model.marginals import marginals

from .growing import RowsSession, job_of


def answers(rows=4000, columns=7, classes=3, seed=0):
    """Yes and no, in hidden classes, so that all columns depend on each other."""
    rng = np.random.default_rng(seed)
    hidden = rng.choice(classes, rows)
    chance = rng.random((classes, columns))
    made = {
        f"c{i}": (rng.random(rows) < chance[hidden, i]).astype(np.int64) for i in range(columns)
    }
    return dict.fromkeys(made, 2), made


def run(domain, columns, mu=0.4, seed=4, config=None):
    session = RowsSession(domain, columns, mu=mu, seed=seed)
    return session, (config or CliqueTree()).run(session, job_of(session))


def off(columns, outcome, size):
    """The mean total variation of all sets of `size` columns."""
    rows = outcome.rows.some(4000, 1)
    gaps = []
    for names in combinations(columns, size):
        tables = []
        for codes in (columns, rows):
            cells = np.ravel_multi_index([codes[a] for a in names], (2,) * size)
            tables.append(np.bincount(cells, minlength=2**size) / len(cells))
        gaps.append(np.abs(tables[0] - tables[1]).sum() / 2)
    return np.mean(gaps)


@pytest.fixture(scope="module")
def classes():
    domain, columns = answers()
    return domain, columns, *run(domain, columns)


def test_pairs_and_triples_are_nearer_than_by_a_tree(classes):
    """At the same budget: tables of pairs have four times the variance, and a tree misses pairs."""
    domain, columns, session, outcome = classes
    assert {"contrasts of pairs", "contrasts of triples"} <= set(session.steps)
    assert outcome.details["contrasts"] == {"1": 7, "2": 21, "3": 35}
    with patch.object(two_valued, "names_of", lambda _: []):
        other, tree = run(domain, columns)
    assert "contrasts of pairs" not in other.steps
    assert off(columns, outcome, 2) < off(columns, tree, 2)
    assert off(columns, outcome, 3) < off(columns, tree, 3)


def test_all_of_the_budget_is_spent_and_no_more(classes):
    _, _, session, _ = classes
    assert session.spent == pytest.approx(session.mu**2, rel=1e-9)


def test_columns_that_know_nothing_of_each_other_get_the_budget():
    """Where noise explains the first contrasts, and more than chance could be, no others are bought,
    and the model is that of independent columns."""
    rng = np.random.default_rng(1)
    columns = {f"c{i}": (rng.random(3000) < 0.3).astype(np.int64) for i in range(6)}
    session, outcome = run(dict.fromkeys(columns, 2), columns, mu=0.01)
    assert "contrasts of columns" in session.steps
    assert not {"contrasts of pairs again", "contrasts of triples again"} & set(session.steps)
    table = marginals(outcome.model, [("c0", "c1")], 1)["c0", "c1"]
    product = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
    assert np.abs(table - product).sum() < 0.01 * table.sum()


def test_who_is_not_served(classes):
    """Other numbers of codes, a target, a workload and weights are left to the tree."""
    domain, columns, *_ = classes
    for config in (CliqueTree(target="c0"), CliqueTree(workload=(("c0", "c1"),))):
        session, _ = run(domain, columns, config=config)
        assert "contrasts of pairs" not in session.steps
    third = columns | {"c0": columns["c0"] + columns["c1"]}
    session, _ = run(domain | {"c0": 3}, third)
    assert "contrasts of pairs" not in session.steps
    assert [two_valued.possible(count) for count in (2, 3, 16, 17)] == [False, True, True, False]


def even(names):
    """Merged codes of columns with half of 1,000 rows in each value."""
    shape = dict.fromkeys(names, np.full(2, 500.0))
    released = [Measurement((a,), shape[a], 1.0) for a in names]
    compression = SimpleNamespace(measurement=lambda m: m)
    return SimpleNamespace(
        fitted_total=1000.0, ones_shape=shape, released=released, compression=compression
    )


def test_what_is_shrunk_is_a_part_of_what_columns_allow():
    """Contrasts of rare values are small by themselves: the same noise hides more of theirs. With one
    contrast beyond all noise, that one stays."""
    merged = even("abcd")
    merged.ones_shape["d"] = np.array([990.0, 10.0])
    kind = Contrasts.of(merged, "abcd", 2)
    assert kind.scale[:2] == pytest.approx(1000.0)
    assert kind.scale[2] == pytest.approx(2000 * np.sqrt(0.99 * 0.01))
    kind.add(np.array([0.0, 900.0, 100.0, 0.0, 100.0, 0.0]), 50.0**2)
    kind.compare(np.zeros(6))
    assert kind.known
    assert kind.means()[1] > 800
    noise = Contrasts.of(merged, "abcd", 2)
    noise.add(np.array([40.0, -30.0, 10.0, 20.0, -50.0, 0.0]), 50.0**2)
    noise.compare(np.zeros(6))
    assert not noise.known
    assert np.abs(noise.means()).max() < 15


def test_the_rest_goes_where_errors_are():
    """Precise columns need nothing more; pairs that say nothing get nothing."""
    names = ["a", "b", "c", "d"]
    ones = [SimpleNamespace(clique=(a,), variances=np.full(2, 1e-6)) for a in names]
    merged = even(names)
    merged.ones = ones
    session = SimpleNamespace(mu=1.0, clip=1)
    state = SimpleNamespace(session=session, merged=merged)
    table = two_valued.TwoValuedTable(state, names)
    table.pairs.add(np.full(6, 100.0), 100.0)
    table.pairs.spread = 0.5
    assert table.division(0.5)[:2] == (0.0, 1.0)
    table.pairs.spread = 1e-12
    ones[:] = [SimpleNamespace(clique=(a,), variances=np.full(2, 100.0)) for a in names]
    assert table.division(0.5) == (1.0, 0.0, 0.0)


def test_answers_about_the_same_contrasts_are_averaged_by_precision():
    kind = Contrasts.of(even("ab"), "ab", 2)
    kind.add(np.array([10.0]), 4.0)
    kind.add(np.array([20.0]), 12.0)
    assert kind.values == pytest.approx([12.5])
    assert kind.variance == pytest.approx(3.0)


def test_answers_of_a_run_rest_on_contrasts(tmp_path):
    """Intervals of pairs are measured, hold the truth, and are the same from the run and from its
    folder, which `verify` accepts. The verdict and the list of losses count the pairs as measured."""
    domain, columns = answers(rows=3000, columns=5, seed=2)
    table = fastdp.Table.from_codes(domain, columns)
    done = fastdp.synthesize(table, "cliquetree", 5.0, 1e-6, seed=3, out=tmp_path / "run")
    assert fastdp.verify(tmp_path / "run")
    inside = []
    for a, b in combinations(columns, 2):
        asked = done.answer("count", where={a: 1, b: 0}).table
        again = fastdp.load_run(tmp_path / "run").answer("count", where={a: 1, b: 0}).table
        assert asked["basis"].to_pylist() == ["measured"]
        assert asked["low"].to_pylist() == pytest.approx(again["low"].to_pylist())
        truth = np.sum((columns[a] == 1) & (columns[b] == 0))
        inside.append(asked["low"][0].as_py() <= truth <= asked["high"][0].as_py())
    assert np.mean(inside) >= 0.8
    assert any("pairs: 10 of 10 are measured" in line for line in done.verdict.figures)
    lost = " ".join(done.notes)
    assert "10 of 10 pairs of columns were measured" in lost
    assert "10 sets of three columns or more were measured" in lost
