"""MST: merged rare values, the tree, what it costs; and its quality on a real table where that is
at hand."""

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st
from msgspec.structs import replace

import fastdp
from fastdp.domain import Domain
from fastdp.mechanisms import mst
from fastdp.mechanisms.aim import AIM
from fastdp.mechanisms.base import Job
from fastdp.mechanisms.cliquetree import CliqueTree
from fastdp.mechanisms.limits.model_size import tree_size
from fastdp.mechanisms.mst import MST
from fastdp.mechanisms.shared import one_ways, spanning_tree
from fastdp.privacy.accountant import BoundedRange, mu_of
from fastdp.significance import onto_simplex
from tests.mechanisms.fakes import FakeModel, FakeSession
from tests.tiers import slow_cases

from .growing import RowsSession, dependent_rows, job_of


def chain(rows=4000, seed=0):
    """a - b - c - d in a chain of strong dependence."""
    joint = np.zeros((4, 4, 4, 4), np.int64)
    np.add.at(joint, tuple(dependent_rows(rows, 4, seed=seed)[1].values()), 1)
    return FakeSession(dict.fromkeys("abcd", 4), joint, mu=2.0)


def run(session, **fields):
    kept = {}

    def fit(domain, measurements, **options):
        kept.update(measurements=measurements)
        return FakeModel(1.0)

    return mst.MST(**fields).run(session, Job(schema=session.schema, epsilon=1.0, fit=fit)), kept


def test_the_tree_of_a_chain_is_the_chain_and_costs_the_budget():
    outcome, kept = run(session := chain())
    assert sorted(map(tuple, outcome.details["tree"])) == [("a", "b"), ("b", "c"), ("c", "d")]
    assert len(kept["measurements"]) == 7
    cost = sum(
        mu_of(BoundedRange(r)) ** 2 if isinstance(r, float) else r.mu**2 for r in session.asked
    )
    assert session.mu**2 * 0.999 < cost <= session.mu**2 * (1 + 1e-12)


@given(st.lists(st.floats(-50, 50), min_size=1, max_size=20), st.floats(0, 100))
@settings(max_examples=30, deadline=None)
def test_the_simplex_projection_is_the_nearest_point(values, total):
    values = np.array(values)
    nearest = onto_simplex(values, total)
    assert (nearest >= 0).all()
    assert math.isclose(nearest.sum(), total, abs_tol=1e-6)
    # Optimal: what is above zero moved by one common amount, what is at zero would have moved below
    # it.
    moved = values[nearest > 0] - nearest[nearest > 0]
    if moved.size:
        assert np.ptp(moved) < 1e-6
        assert (values[nearest == 0] <= moved[0] + 1e-6).all()


def test_pairs_too_large_leave_a_forest_and_one_column_needs_no_tree(monkeypatch):
    monkeypatch.setattr(spanning_tree, "MAX_PAIR_CELLS", 20)
    session = FakeSession({"a": 4, "b": 4, "c": 10}, np.ones((4, 4, 10), np.int64))
    ones = one_ways.measure_ones(session, 0.5)
    assert spanning_tree.spanning_tree(session, ones, 0.5) == [("a", "b"), ("c",)]
    session = FakeSession({"b": 4, "c": 10}, np.full((4, 10), 50), mu=1.5)
    assert run(session)[0].details["tree"] == [] and session.spent == pytest.approx(1.5**2)
    assert [m.clique for m in run(session)[1]["measurements"]] == [("b",), ("c",)] * 2


@pytest.mark.parametrize(
    "mechanism, public",
    [
        ("adagrid", False),
        *slow_cases(("adagrid", True), ("mst", True), ("mst", False)),
        *slow_cases(("tworound", False), ("tworound", True)),
    ],
)
def test_where_no_pair_can_be_chosen_the_budget_is_spent_nevertheless(mechanism, public, tmp_path):
    """One column, two of which one follows from the other, and two whose pair has too many cells.
    Statement and releases agree about it; one column is measured once, as planned."""
    for rules, b in ([], None), ([{"column": "b", "follows": "a // 10"}], 3), ([], 449_999):
        columns = {
            n: {"kind": "integer", "max": top}
            for n, top in (("a", 39), ("b", b))
            if top is not None
        }
        schema = fastdp.Schema.from_dict({"columns": columns, "constraints": rules})
        private, known = (
            pa.table({"a": x, "b": x // 10}).select([*columns])
            for x in np.arange(1800).reshape(2, -1) % 40
        )
        options = {
            "schema": schema,
            "public": known if public else None,
            "seed": 1,
            "out": tmp_path / f"{b}",
        }
        made = fastdp.synthesize(private, mechanism, 1.0, 1e-6, **options)
        part = made.privacy["parts"][0]
        assert part["event"]["mu"] * (1 - 1e-9) < part["spent"]["mu"] <= part["event"]["mu"]
        assert fastdp.verify(tmp_path / f"{b}").ok
        if b is None and mechanism != "adagrid":
            (line,) = fastdp.plan(schema, mechanism, 1.0, 1e-6, rows=900, public=public).lines
            assert [m.sigma for m in made.measurements] == pytest.approx([line.sigma], rel=1e-6)


# Mechanisms that merge rare codes release which codes were merged, and only where any were.


@pytest.mark.parametrize(
    "config", [AIM(rounds=6), MST(), CliqueTree()], ids=lambda c: type(c).__name__
)
@pytest.mark.parametrize("crowded", [True, False])
def test_a_table_of_codes_is_released_where_the_model_has_fewer(config, crowded):
    """Columns of 40 codes of which 3 occur, or of 3 codes."""
    rng = np.random.default_rng(3)
    first = rng.integers(0, 3, 3000)
    rows = np.stack([first, (first + (rng.random(3000) < 0.1)) % 3, rng.integers(0, 3, 3000)], 1)
    domain = Domain(dict.fromkeys("abc", 40 if crowded else 3))
    session = RowsSession(domain, dict(zip("abc", rows.T)), mu=1.0)

    outcome = config.run(session, job_of(session))
    merged = dict(outcome.model.domain) != dict(domain)
    assert merged == crowded == ("codes" in outcome.tables)
    if merged:
        codes = outcome.tables["codes"]
        assert sum(outcome.model.domain.values()) < 120 and len(codes) > 0


# AIM: what it spends, what it picks, how its weights add up.


@pytest.mark.parametrize("mu, most", [(0.1, 70), (3.0, 150), (3.0, 10**6)])
def test_every_round_of_aim_is_that_of_its_definition(mu, most):
    """Which sets may be chosen, with which weights, penalties and budget, and when a round costs
    four times as much: if it moved the model by less than its noise. All is spent; what depends is
    measured."""
    asked = []
    models = []

    class Spy(RowsSession):
        def select_l1(self, cliques, estimates, **options):
            asked.append((cliques, options))
            return super().select_l1(cliques, estimates, **options)

    domain, rows = dependent_rows(columns=4)
    # nothing to choose in it
    domain = domain | {"one": 1}
    rows = rows | {"one": np.zeros(6000, int)}
    session = Spy(domain, rows, mu=mu, clip=2)
    config = AIM(rounds=20, rare=0.0, max_cells=most)
    job = job_of(session)
    fitted = replace(
        job, fit=lambda *args, **options: models.append(job.fit(*args, **options)) or models[-1]
    )
    outcome = config.run(session, fitted)
    held = []
    whole = 1 - 5 * (1 - config.selection) / 20
    assert sum(r.mu**2 for r in session.asked[:5]) == pytest.approx((1 - whole) * mu**2)
    left = whole
    step = 1 / 20
    closure = config.closure(session.domain)
    for i, ((cliques, options), request) in enumerate(zip(asked, session.asked[5:], strict=True)):
        step = left if left < 2 * step else step
        assert request.mu**2 / mu**2 == pytest.approx(step * (1 - config.selection))
        assert mu_of(BoundedRange(options["epsilon"])) ** 2 / mu**2 == pytest.approx(
            step * config.selection
        )
        singles = [(a,) for a in domain]
        room = max(
            most * (1 - (left - step) / whole), tree_size(session.domain, singles + held).cells
        )
        fit = [c for c in closure if tree_size(session.domain, [*singles, *held, c]).cells <= room]
        fit = [c for c in fit if "one" not in c]
        assert cliques == fit and request.clique in fit
        assert options["weights"] == pytest.approx(
            [closure[c] / max(map(closure.get, fit)) for c in fit]
        )
        noise = math.sqrt(2 / math.pi) * session.clip / request.mu
        assert options["penalties"] == pytest.approx([noise * session.domain.cells(c) for c in fit])
        held.append(request.clique)
        left -= step
        if left > 1e-9:
            moved = np.abs(models[i + 1].marginal(held[-1]) - models[i].marginal(held[-1])).sum()
            step *= 4 if moved <= noise * session.domain.cells(held[-1]) else 1
    assert abs(left) < 1e-9 and session.spent == pytest.approx(mu**2)
    assert [list(c) for c in held] == outcome.details["rounds"]
    assert session.steps[1:] == [
        f"{what} {i + 1}" for i in range(len(held)) for what in ("choice", "round")
    ]
    assert mu < 1 or all(any({f"c{i}", f"c{i + 1}"} <= set(c) for c in held) for i in range(3))
    alone = RowsSession({"one": 1}, {"one": np.zeros(9, int)})
    assert config.run(alone, job_of(alone)).details["rounds"] == []


def test_weights_are_columns_in_common_with_the_workload():
    domain = Domain(dict.fromkeys("abcd", 2))
    weights = AIM(workload=(("a", "b"), ("b", "c", "d"))).closure(domain)
    assert weights["b",] == 2 and weights["a",] == 1 and weights["a", "b"] == 3
    assert weights["b", "c", "d"] == 4
    assert ("a", "c") not in weights
    assert len(AIM(degree=3).closure(domain)) == 4 + 6 + 4


def test_a_span_that_ends_within_a_year_keeps_the_shares_of_its_years():
    """Days are uniform, so years and months depend on each other only in that months after August
    do not exist in the last year. Where the model drew them, that year lost a quarter of its rows."""
    days = np.arange(np.datetime64("2016-01-01"), np.datetime64("2021-08-31") + 1)
    times = np.random.default_rng(0).choice(days, 20_000)
    schema = fastdp.Schema.from_dict(
        {
            "columns": {
                "on": {
                    "kind": "timestamp",
                    "dtype": "date32",
                    "min": "2016-01-01",
                    "max": "2021-08-31",
                    "parts": ["year", "month", "day_of_week"],
                }
            }
        }
    )
    run = fastdp.synthesize(
        pa.table({"on": times}), "mst", schema=schema, user=None, epsilon=10.0, delta=1e-6, seed=1
    )

    def share(values):
        return (np.asarray(values) >= np.datetime64("2021-01-01")).mean()

    assert abs(share(run.data["on"]) - share(times)) < 0.01
