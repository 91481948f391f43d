"""Marginals over groups of neighbouring codes, wide pairs, columns that follow, small tables."""

import math
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from fastdp.domain import Domain
from fastdp.estimate.estimator import fit
from fastdp.measurement import Measurement
from fastdp.mechanisms.base import whole_total
from fastdp.mechanisms.cliquetree import dense_tables, resolutions, tree_state, trends
from fastdp.mechanisms.shared import dependencies
from fastdp.mechanisms.shared.code_partitions import CODES, Partition
from fastdp.mechanisms.shared.merged_codes import merge
from fastdp.mechanisms.shared.one_ways import effective_cells
from fastdp.mechanisms.shared.screening import candidates, least_cells
from fastdp.mechanisms.shared.steering import Steering
from fastdp.queries import Binned
from fastdp.release.filtered_marginals import Filtered

from .growing import RowsSession
from .test_cliquetree import run

COUNTS = st.lists(st.tuples(st.floats(0, 1000), st.booleans()), min_size=2, max_size=60)


@pytest.fixture(autouse=True, scope="module")
def tree_alone():
    """Tables of correlated columns, on which hidden factors would take the tree's place."""
    with patch.object(dense_tables, "possible", lambda _: False):
        yield


@given(COUNTS, st.integers(2, 12))
def test_groups_are_runs_of_neighbours_with_about_equally_many_rows(codes, count):
    rows = np.array([r for r, _ in codes])
    alone = np.array([a for _, a in codes])
    groups = resolutions.neighbour_groups(rows, alone, count)
    assert sorted(set(groups.tolist())) == list(range(groups.max() + 1))
    body = np.flatnonzero(~alone)
    assert (np.diff(groups[body]) >= 0).all()
    each = rows[body].sum() / count
    for g in set(groups[body].tolist()):
        inside = body[groups[body] == g]
        # The middles of its codes lie within 1 / count; half of the first and last code may stick
        # out.
        assert rows[inside].sum() <= each + rows[inside].max() + 1e-6
    for code in np.flatnonzero(alone & (rows > 0.5 * max(rows[body].sum(), 1e-9) / count)):
        assert (groups == groups[code]).sum() == 1


MAPS = {"a": np.array([0, 0, 1, 2, 2]), "c": np.array([1, 0, 1])}


SIZES = {"a": 5, "b": 4, "c": 3}
COUNTED = [Measurement(a, np.arange(1.0, n + 1) * 60 / n / (n + 1), 0.1) for a, n in SIZES.items()]
MERGED = merge(Domain(SIZES), COUNTED, 0.0)


def test_a_model_over_groups_is_the_model_over_all_codes():
    """As long as all marginals of a column are over groups. The planted bug: with a marginal over
    all codes of the column, the model over groups is another one."""
    rng = np.random.default_rng(2)
    table = rng.gamma(1.0, 1.0, (5, 4, 3)) * 3
    query = Binned((5, 4), [MAPS["a"], None])
    over_groups = Measurement(("a", "b"), query.product(table.sum(2).reshape(-1)), 0.5, query)
    pairs = [over_groups, Measurement(("b", "c"), table.sum(0).reshape(-1), 0.5)]
    ones = [Measurement(("a",), table.sum((1, 2)), 0.5)]
    merged = replace(MERGED, shape={**MERGED.shape, "a": table.sum((1, 2))})
    codes = resolutions.ModelCodes(merged, {"a": MAPS["a"]})
    assert codes.domain == Domain({"a": 3, "b": 4, "c": 3})
    fine = fit(merged.domain, [*ones, *pairs], stop="tol")
    coarse = fit(codes.domain, [codes.measurement(m) for m in (*ones, *pairs)], stop="tol")
    for clique in (("a",), ("a", "b"), ("a", "c"), ("a", "b", "c")):
        expanded = codes.expanded(clique, coarse.marginal(clique))
        assert expanded.shape == merged.domain.shape(clique)
        assert np.allclose(
            expanded, fine.marginal(clique).reshape(expanded.shape), rtol=0.02, atol=0.02
        )
        back = Binned(expanded.shape, [codes.groups.get(a) for a in clique]).product(
            expanded.reshape(-1)
        )
        assert np.allclose(back, coarse.marginal(clique).reshape(-1))
    fine = fit(
        merged.domain, [*ones, Measurement(("a", "b"), table.sum(2).reshape(-1), 0.5)], stop="tol"
    )
    expanded = codes.expanded(("a", "b"), coarse.marginal(("a", "b")))
    assert not np.allclose(expanded, fine.marginal(("a", "b")).reshape(5, 4), rtol=0.02, atol=0.02)


def test_columns_are_over_groups_until_a_marginal_over_all_their_codes_is_measured():
    class State:
        priors = None
        groups = Partition("groups", MAPS)
        merged = replace(MERGED, zeros={("b",): np.zeros(4, bool)})

    def groups(*keys, state=State):
        return set(tree_state.CliqueTreeState.over_groups_given(state, keys))

    coarse = State.groups
    assert groups((("a", "b"), coarse)) == {"a", "c"}
    assert groups((("b",), CODES), (("a", "c"), coarse)) == {"a", "c"}
    assert groups((("a", "b"), CODES)) == {"c"}
    assert groups((("a", "c"), CODES), (("a", "c"), coarse)) == set()
    halves = {"a": np.array([0, 0, 0, 1, 1]), "c": np.array([0, 1, 1])}  # c's cut a group in two
    assert groups((("a", "c"), Partition("halves", halves)), (("a", "b"), coarse)) == {"a"}

    class Constrained(State):
        merged = replace(MERGED, zeros={("a", "b"): np.zeros((5, 4), bool)})

    assert groups((("b", "c"), coarse), state=Constrained) == {"c"}  # zeros are of merged codes


def test_sums_over_what_groups_make_up_are_sums_over_groups():
    """An answer over halves, each of whole groups, read over the codes of a model over groups."""
    table = np.random.default_rng(3).gamma(1.0, 1.0, (5, 4)) * 3
    halves = Binned((5, 4), [np.array([0, 0, 0, 1, 1]), np.array([0, 0, 1, 1])])
    answer = Measurement(("a", "b"), halves.product(table.reshape(-1)), 0.5, halves)
    codes = resolutions.ModelCodes(MERGED, {"a": MAPS["a"]})
    read = codes.measurement(answer)
    over_groups = np.add.reduceat(table, [0, 2, 3], axis=0)
    assert read.query.shape == (3, 4)
    assert np.allclose(read.query.product(over_groups.reshape(-1)), answer.values)


def correlated(rows, bins, rho, seed):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(rows, 4))
    z[:, 1] = rho * z[:, 0] + math.sqrt(1 - rho * rho) * z[:, 1]
    edges = [np.quantile(z[:, i], np.arange(1, bins) / bins) for i in range(4)]
    return {a: np.searchsorted(edges[i], z[:, i]) for i, a in enumerate("abcd")}


def correlation(outcome):
    rows = outcome.rows.shard(0)
    return np.corrcoef(rows["a"].astype(float), rows["b"].astype(float))[0, 1]


@pytest.mark.slow
def test_fine_bins_keep_a_moderate_correlation(monkeypatch):
    """64 bins a side: the noise of 4,096 cells exceeds what the pair tells, that of groups does
    not. The planted bug: without groups the correlation is lost."""
    domain = dict.fromkeys("abcd", 64)
    rows = correlated(20_000, 64, 0.3, seed=3)
    outcome, _ = run(session := RowsSession(domain, rows, mu=0.2, seed=1))
    assert ["a", "b"] in outcome.details["over_groups"]
    # The standard error of 8 x 8 noisy cells is about 0.03.
    assert abs(correlation(outcome) - 0.3) < 0.1
    assert math.isclose(session.spent, 0.04, rel_tol=1e-9), "both releases of a round are paid for"
    assert any("over groups" in step for step in session.steps)
    domain_of = outcome.model.domain
    codes = outcome.tables["codes"].to_pydict()
    assert domain_of["a"] < 16 and "a" in codes["column"]  # groups here, all codes in the rows
    shares = np.bincount(outcome.rows.shard(0)["a"], minlength=64) / outcome.rows.total
    grouped = {m.values.size for m in outcome.measurements if m.clique == ("a", "b")}
    assert np.abs(shares - 1 / 64).max() < 0.01 and grouped == {domain_of.cells(("a", "b"))}
    monkeypatch.setattr(tree_state.CliqueTreeState, "asked_over_groups", lambda *_: False)
    monkeypatch.setattr(trends, "TRENDS", 0.0)
    outcome, _ = run(RowsSession(domain, rows, mu=0.2, seed=1))
    assert "over_groups" not in outcome.details and correlation(outcome) < 0.2


@pytest.mark.slow
def test_a_strong_trend_survives_noise_in_cells(monkeypatch):
    """64 x 64 codes of five rows a cell, noise of about six: a fit of the cells alone keeps half of
    it. Over groups, or with hidden factors, it would be kept anyway."""
    monkeypatch.setattr(tree_state.CliqueTreeState, "asked_over_groups", lambda *_: False)
    monkeypatch.setattr(dense_tables, "decided", lambda *_: (None, 0.0))
    given = dict.fromkeys("abcd", 64), correlated(20_000, 64, 0.9, seed=3)
    kept = correlation(run(RowsSession(*given, mu=0.2, seed=1))[0])
    monkeypatch.setattr(tree_state, "summed", lambda *_: [])
    assert kept > correlation(run(RowsSession(*given, mu=0.2, seed=1))[0]) + 0.08


@pytest.mark.slow
def test_rows_keep_weak_trends_of_pairs_that_are_not_measured(monkeypatch):
    """.1 is not worth the noise of 32 x 32 cells. The planted bug: without trends it is lost."""
    domain = dict.fromkeys("abcd", 32)
    rows = correlated(50_000, 32, 0.1, seed=3)
    monkeypatch.setattr(tree_state.CliqueTreeState, "asked_over_groups", lambda *_: False)
    for share, low, high in ((0.1, 0.05, 0.13), (0.0, -0.04, 0.04)):
        monkeypatch.setattr(trends, "TRENDS", share)
        outcome, _ = run(session := RowsSession(domain, rows, mu=0.2, seed=1))
        assert (
            ("trends" in session.steps)
            == (["a", "b"] in outcome.details.get("trends", []))
            == (share > 0)
        )
        assert low < correlation(outcome) < high and math.isclose(session.spent, 0.04, rel_tol=1e-9)


def test_trends_are_drawn_to_zero_as_far_as_noise_explains_them():
    """The error is about the least that is possible. The planted bug: each trend by itself."""
    rng = np.random.default_rng(4)
    noise = np.where(np.arange(400) % 4, 0.01, 0.1)
    for spread in (0.03, 0.0):
        true = spread * rng.standard_normal(400)
        lacks = dict(enumerate(zip(true + noise * rng.standard_normal(400), noise**2)))
        together = np.array(list(trends.drawn_to_zero(lacks).values()))
        alone = np.array([trends.drawn_to_zero({p: lack})[p] for p, lack in lacks.items()])
        most = 1.3 * np.mean(spread**2 * noise**2 / (spread**2 + noise**2)) + 1e-5
        assert np.square(together - true).mean() < most < np.square(alone - true).mean()


def test_exchanges_reach_a_trend_and_leave_the_counts_of_cliques(monkeypatch):
    """The planted bug: where rows that differ in b exchange codes too, counts of cliques change."""
    rng = np.random.default_rng(1)
    pairs = [("a", "b"), ("b", "c")]
    model = fit(
        Domain({"a": 3, "b": 4, "c": 3}),
        [Measurement(p, rng.gamma(2.0, 50.0, 12), 1.0) for p in pairs],
    )
    rows = model.sample(40_000, seed=2)
    score = np.array([-1.2, 1.2, 0.0])
    steering = Steering(dict.fromkeys("ac", score), {("a", "c"): 0.1})
    made = [rows, steering(model, rows, rng)]
    monkeypatch.setattr(
        "fastdp.mechanisms.shared.steering.row_keys", lambda _, __, n: np.zeros(n, np.int64)
    )
    made.append(steering(model, rows, rng))
    before, after, _ = (np.mean(score[m["a"]] * score[m["c"]]) for m in made)
    counts = [[np.bincount(m[a].astype(int) * 4 + m[b]).tolist() for a, b in pairs] for m in made]
    assert abs(after - before - 0.1) < 0.01 and counts[0] == counts[1] != counts[2]


def test_pairs_that_are_too_large_are_named():
    rng = np.random.default_rng(4)
    a = rng.integers(0, 40, 20_000)
    rows = {"a": a, "b": a.copy(), "c": rng.integers(0, 3, 20_000)}
    outcome, _ = run(RowsSession({"a": 40, "b": 40, "c": 3}, rows, mu=2.0), max_cells=1500)
    assert outcome.details["left_out"] == [["a", "b"]] and "a and b" in outcome.notes[0]
    outcome, _ = run(RowsSession({"a": 40, "b": 40, "c": 3}, rows, mu=2.0), max_cells=2000)
    assert "left_out" not in outcome.details and not outcome.notes
    made = outcome.rows.shard(0)
    assert np.mean(made["a"] == made["b"]) > 0.9


@given(st.lists(st.floats(0, 100), min_size=12, max_size=12), st.floats(0.1, 50), st.floats(0, 1))
def test_no_table_has_fewer_effective_cells_than_its_sums_call_for(cells, sigma, far):
    table = np.array(cells).reshape(3, 4)
    assert least_cells(table, sigma) <= max(1.0, effective_cells(table, sigma)) + 1e-9
    pair = ("a", "b")
    rows = table.sum()
    (c,) = candidates([pair], {pair: table}, [2 * far * rows], sigma, rows, {pair: 1})
    expected = max(least_cells(table, sigma), (1 - far) * effective_cells(table, sigma))
    assert c.cells == pytest.approx(expected if rows > 1e-9 else c.cells, rel=1e-6, abs=1e-6)
    assert least_cells(np.full((50, 30), 2.0), 1.0) == 50, (
        "those of a column that determines the other"
    )


def test_a_table_is_never_empty_by_noise():
    assert [whole_total(t, None) for t in (-40.0, 0.2, 0.0, 7.6)] == [
        1,
        1,
        1,
        8,
    ] and not whole_total(5.0, 0)


# Columns that follow from another one with many codes


def following(rows=40_000, values=600, kept=1.0, seed=1):
    """A code, a column that follows from it in this part of the rows, and one of five values that
    depends on it."""
    rng = np.random.default_rng(seed)
    a = rng.integers(0, values, rows)
    f = rng.permutation(values)
    b = np.where(rng.random(rows) < kept, f[a], rng.integers(0, values, rows))
    c = np.where(rng.random(rows) < 0.6, a % 5, rng.integers(0, 5, rows))
    return {"a": values, "b": values, "c": 5}, {"a": a, "b": b, "c": c}, f


@pytest.mark.parametrize(
    "mu", [0.2, pytest.param(0.1, marks=pytest.mark.slow)]
)  # 0.1: a third of the values seem rare, in each column others
def test_a_column_that_follows_is_drawn_given_the_other(mu):
    """About 67 rows a value and noise of 1.6 / mu rows: nearly every value's largest cell is the
    right one. The relation to a third column comes with the column that it is drawn from."""
    domain, rows, f = following()
    outcome, _ = run(session := RowsSession(domain, rows, mu=mu, seed=1))
    (column, source), *more = outcome.details["drawn_given"].items()
    assert not more and {column, source} == {"a", "b"}
    made = outcome.rows.again(10_000, 1).shard(0)
    assert np.mean(f[made["a"]] == made["b"]) > 0.9
    assert math.isclose(session.spent, mu**2, rel_tol=1e-9)
    assert f"{column} follows from {source}" in outcome.notes[0]
    other = np.argsort(f)[made["b"]]
    # 0.68 in the table, 0.2 if they were unrelated.
    assert np.mean(other % 5 == made["c"]) > 0.1 + 2 * mu


def test_columns_that_do_not_follow_stay_in_the_model():
    """Related in some rows or none; a value of its own in every row (it is the most frequent); one
    value."""
    rng = np.random.default_rng(3)
    one = np.where(rng.random(40_000) < 0.95, 0, rng.integers(0, 600, 40_000))
    own = {"a": rng.permutation(20_000), "b": rng.integers(0, 400, 20_000)}
    tables = [(*following(kept=kept)[:2], 0.2) for kept in (0.0, 0.4)] + [
        ({"a": 20_000, "b": 400}, own, 0.3)
    ]
    tables.append(({"a": 600, "b": 600}, {"a": rng.integers(0, 600, 40_000), "b": one}, 1.0))
    for domain, rows, mu in tables:
        outcome, _ = run(session := RowsSession(domain, rows, mu=mu, seed=1))
        assert "drawn_given" not in outcome.details and "dependencies" in session.steps
        assert math.isclose(session.spent, mu**2, rel_tol=1e-9)


def test_drawing_follows_the_table_and_what_it_leaves():
    """Value 0 has two sure cells of 30 and 10 rows, value 1 one cell below the sure threshold,
    value 2 none: its rows get what the cells leave of the column's 1-way, and all of it if they
    leave nothing."""
    cells = np.array([0, 1, 6, 12, 14])
    rows = np.array([30.0, 10.0, 3.0, 15.0, 45.0])
    table = Filtered(("a", "b"), (4, 4), cells, rows, 1.0, 2.0)
    shape = {"b": np.array([45.0, 10.0, 48.0, 17.0])}
    drawn = dependencies.drawn_column(dependencies.Dependency("b", "a", 1.0), table, shape)
    rng = np.random.default_rng(1)
    for value, (often, seldom) in ((0, (0, 1)), (3, (2, 0))):
        made = drawn.draw(np.full(4000, value, np.uint8), rng)
        assert set(made.tolist()) == {often, seldom}
        assert abs(np.mean(made == often) - 0.75) < 5 * math.sqrt(0.1875 / 4000)
    assert (np.array([drawn.draw(np.full(50, v), rng) for v in (1, 2)]) == [[2], [3]]).all()
    whole = {"b": np.array([45.0, 10.0, 48.0, 0.0])}
    rest = dependencies.drawn_column(dependencies.Dependency("b", "a", 1.0), table, whole)
    shares = np.bincount(rest.draw(np.full(9000, 2), rng), minlength=4) / 9000
    assert shares == pytest.approx(whole["b"] / 103, abs=5 * 0.5 / math.sqrt(9000))
