"""Tables of two values per column: contrasts of all pairs and triples take the place of the tree."""

import math
from itertools import combinations
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest

import fastdp
from fastdp.division import CONTRASTS
from fastdp.measurement import Measurement
from fastdp.mechanisms.cliquetree import CliqueTree, two_valued
from fastdp.mechanisms.cliquetree.two_valued import Contrasts
from fastdp.model.marginals import marginals
from fastdp.run.plan_verdict import _with_contrast

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


def off(columns, outcome, sizes):
    """The mean total variation of all sets of columns, by the size of the sets."""
    rows = outcome.rows.some(400_000, 1)  # so many that chance in the rows is small
    shape = (2,) * len(columns)
    true, made = (
        np.bincount(
            np.ravel_multi_index([codes[a] for a in columns], shape), minlength=2 ** len(shape)
        )
        / len(codes["c0"])
        for codes in (columns, rows)
    )
    gap = (true - made).reshape(shape)
    axes = range(len(shape))
    return [
        np.mean(
            [np.abs(gap.sum(axis=left)).sum() / 2 for left in combinations(axes, gap.ndim - size)]
        )
        for size in sizes
    ]


@pytest.fixture(scope="module")
def classes():
    domain, columns = answers()
    return domain, columns, *run(domain, columns)


def test_pairs_and_triples_are_nearer_than_by_a_tree(classes):
    """At the same budget: tables of pairs have four times the variance, and a tree misses pairs."""
    domain, columns, session, outcome = classes
    assert {"contrasts of pairs", "contrasts of triples"} <= set(session.steps)
    assert outcome.details["contrasts"] == {"1": 7, "2": 21, "3": 35}
    found = [outcome, run(domain, columns, seed=5)[1]]
    with patch.object(two_valued, "names_of", lambda _: []):
        trees = [run(domain, columns, seed=seed) for seed in (4, 5)]
    assert all("contrasts of pairs" not in other.steps for other, _ in trees)
    # One run alone may be lucky.
    by_contrasts = np.mean([off(columns, o, (2, 3)) for o in found], axis=0)
    assert (by_contrasts < np.mean([off(columns, o, (2, 3)) for _, o in trees], axis=0)).all()


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
    assert np.abs(table - product).sum() < table.sum() / np.sqrt(3000)  # no more than chance


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
    assert kind.means[1] > 800
    noise = Contrasts.of(merged, "abcd", 2)
    noise.add(np.array([40.0, -30.0, 10.0, 20.0, -50.0, 0.0]), 50.0**2)
    noise.compare(np.zeros(6))
    assert not noise.known
    assert np.abs(noise.means).max() < 15


def pairs_of(correlations, sigma, seed):
    """Noisy contrasts of pairs of columns with half of the rows in each value."""
    d = len(correlations)
    names = [f"c{i}" for i in range(d)]
    truth = 1000 * correlations[np.triu_indices(d, 1)]
    kind = Contrasts.of(even(names), names, 2)
    noise = np.random.default_rng(seed).normal(size=len(truth))
    kind.add(truth + sigma * noise, sigma**2)
    kind.compare(np.zeros(len(truth)))
    return truth, kind


@pytest.mark.parametrize("seed", range(3))
def test_pairs_follow_factors_where_these_say_more(seed):
    """One hidden number that all columns follow, or three dependent pairs among others: Stein's estimate
    takes the means that are nearer to the truth. The planted bug: the others are further off."""
    weights = np.linspace(0.3, 0.6, 12)
    alone = np.eye(12)
    for i in range(0, 6, 2):
        alone[i, i + 1] = alone[i + 1, i] = 0.6
    for correlations, factors in ((np.outer(weights, weights), True), (alone, False)):
        truth, kind = pairs_of(correlations, 80.0, seed)
        away = kind.values - kind.expected
        ways = [way(away)[0] for way in (kind.alone, kind.by_factors)]
        risks = [kind.risk(way) for way in (kind.alone, kind.by_factors)]
        assert (risks[1] < risks[0]) == factors
        off = [np.square(means - truth).sum() for means in ways]
        assert np.square(kind.means - truth).sum() == pytest.approx(min(off))
        assert min(off) < 0.9 * max(off)


@pytest.mark.slow
def test_the_estimate_of_a_risk_is_that_of_a_known_rule():
    """Half of every value: the squared error is (truth / 2)^2 and a quarter of the noise on average, and
    Stein's estimate differs from it by a constant, the noise's own square."""
    found = []
    for seed in range(200):
        truth, kind = pairs_of(np.full((8, 8), 0.2), 100.0, seed)
        found.append(kind.risk(lambda away: (away / 2, away)) - 28 * 100.0**2)
    expected = np.sum(np.square(truth / 2)) + 28 * 100.0**2 / 4
    assert np.mean(found) == pytest.approx(expected, rel=0.1)


def test_what_more_precision_leaves():
    """A contrast that is known to be about nothing gains nothing; one that is known as well as noise
    allows gains as precisions add up."""
    kind = Contrasts.of(even("abc"), "abc", 2)
    kind.errors = np.array([0.0, 100.0, 100.0])
    assert kind.left(0.0) == pytest.approx(200 / 3)
    assert kind.left(0.01) == pytest.approx(100 / 3)


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
    table.pairs.errors = np.full(6, 1e4)
    assert table.division(0.5)[:2] == (0.0, 1.0)
    table.pairs.errors = np.full(6, 1e-6)
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


def test_a_plan_says_what_the_run_measures():
    """One number for each set, in place of screening rounds and batches, with or without a code for
    nulls. All shares add up to the budget. With a target, or a third value, the plan is the tree's."""
    names = [f"c{i}" for i in range(5)]
    two = fastdp.Schema.from_domain(dict.fromkeys(names, 2), user=None)
    rows = pa.table({a: np.arange(60) // (i + 1) % 2 for i, a in enumerate(names)})
    drafted = fastdp.draft(rows).schema
    assert set(drafted.domain.values()) == {3}
    tree = CliqueTree().outline(two.domain, user=False)
    for schema in (two, drafted):
        outline = CliqueTree().planned(schema)
        contrasts = {p.note: (p.times, p.cells) for p in outline.measurements if p.contrast}
        assert contrasts == {
            "contrasts of columns": (1, 1),
            "contrasts of pairs": (10, 1),
            "contrasts of triples": (10, 1),
        }
        assert math.fsum(s.share for s in outline.steps) == pytest.approx(1.0)
        assert outline.share("1-ways") == pytest.approx(tree.share("1-ways"))
        for step in outline.steps:
            assert math.fsum(p.share * p.times for p in step.lines) == pytest.approx(
                step.share if step.lines else 0.0
            )
    many = fastdp.Schema.from_domain({f"c{i}": 2 for i in range(14)}, user=None)
    of_tree = CliqueTree().outline(many.domain, user=False).share("1-ways")
    assert CliqueTree().planned(many).share("1-ways") == CONTRASTS < of_tree  # contrasts say more
    third = fastdp.Schema.from_domain(dict.fromkeys(names, 2) | {"c2": 3}, user=None)
    for config, schema in ((CliqueTree(target="c0"), two), (CliqueTree(), third)):
        assert config.planned(schema) == config.outline(schema.modelled, user=False)


def test_a_plan_expects_the_errors_of_answers():
    """The error of a single column that the plan states is that of the run's answers, about: how the run
    divides its budget is not known before."""
    domain, columns = answers(rows=3000, columns=6, seed=3)
    table = fastdp.Table.from_codes(domain, columns)
    schema = fastdp.Schema.from_domain(domain, user=None)
    done = fastdp.synthesize(table, "cliquetree", 1.0, 1e-6, seed=3, sample_seed=3)
    asked = done.answer("count", by=("c1",)).table
    half = (asked["high"][0].as_py() - asked["low"][0].as_py()) / 2
    figures = fastdp.plan(schema, epsilon=1.0, delta=1e-6, rows=3000).verdict.figures
    line = next(line for line in figures if "a count is known within" in line)
    assert float(line.split("about ")[1].split(" ")[0]) == pytest.approx(half, rel=0.3)


def test_of_two_values_the_sum_is_known_as_well_as_other_codes():
    """By hand: without other codes the sum of both counts is the number of rows; with two of them, it has
    the error of both counts or of the two others, averaged."""
    assert _with_contrast(10.0, 2, 1e9) == pytest.approx(math.sqrt(200) / 2)
    assert _with_contrast(10.0, 2, 1e-3) == pytest.approx(5e-4, rel=1e-3)
    assert _with_contrast(10.0, 4, 1e-3) == pytest.approx(math.sqrt(100) / 2, rel=1e-3)
