"""The session: what comes out, what it costs, what it refuses, and that nothing private shows."""

import copy
import math
import pickle

import numpy as np
import pytest

from fastdp.engines.local import local
from fastdp.errors import (
    BudgetError,
    FastdpError,
    MeasurementError,
    PrivacyError,
    SchemaError,
    UsageError,
)
from fastdp.privacy import scale
from fastdp.queries import Binned, Sparse, Weighted
from fastdp.release import marginal_plan, reserve
from fastdp.release.gateway import Request
from fastdp.release.half_sets import HalfSets
from fastdp.schema import Schema
from fastdp.tables.table import Table
from fastdp.userkeys import Groups, MostCommon, RowsPerUser

from ..audit.world import SCHEMA, SIZES, Swap, ask_everything, no_noise, open_session, table
from ..builders import open_ledger


@pytest.fixture(scope="module")
def engine():
    rng = np.random.default_rng(2)
    return Swap(table([rng.integers(0, n, 300) for n in SIZES.values()], np.arange(300) % 11))


@pytest.fixture
def session(engine):
    return open_session(engine)


def test_shares_of_the_budget_add_up(session):
    shares = np.random.default_rng(0).dirichlet(np.ones(50))
    session.measure([Request(("a",), session.mu * math.sqrt(s)) for s in shares], "fifty shares")
    assert session.left["mu"] < 1e-5 * session.mu


def test_over_budget_nothing_is_read(engine):
    class Untouchable(Swap):
        def marginals(self, cliques, clip):
            raise AssertionError("read")

    session = open_session(Untouchable())
    with pytest.raises(BudgetError, match="reservation has mu"):
        session.measure([Request(("a",), session.mu), Request(("b",), session.mu)], "too much")
    with pytest.raises(BudgetError):
        session.select_l1([("a",)], {("a",): np.zeros(3)}, epsilon=50.0, label="too much")
    with pytest.raises(BudgetError):
        session.user_histogram(RowsPerUser((1,)), mu=session.mu * 2, label="too much")
    assert session.releases == []


@pytest.mark.parametrize(
    ("query", "error"),
    [
        (Weighted([2] * 3, 1), PrivacyError),
        (Sparse(np.ones((2, 3))), PrivacyError),
        (Sparse(np.full((1, 3), 0.5)), FastdpError),
        (Binned((4,), [None]), MeasurementError),
        (np.eye(3), PrivacyError),
    ],
)
def test_queries_beyond_the_bound_are_refused(session, query, error):
    with pytest.raises(error):
        session.measure([Request(("a",), session.mu, query)], "wrong")
    assert session.left["mu"] == pytest.approx(session.mu)


def test_bad_requests_are_refused_before_anything_is_charged(session):
    with pytest.raises(SchemaError):
        session.measure([Request(("nobody",), 0.1)], "wrong")
    with pytest.raises(UsageError, match="label"):
        session.measure([Request(("a",), 0.1)], "")
    with pytest.raises(PrivacyError, match="noise scales"):
        session.measure([Request(("a",), 1e-9)], "hopeless")
    assert session.measure([], "nothing") == []


def test_user_histograms_count_users_and_their_noise_has_its_scale(engine, session):
    with no_noise():
        exact = open_session(engine).user_histogram(RowsPerUser((1, 20, 28)), mu=0.1, label="rows")
    assert exact.values.tolist() == [0, 8, 3]
    histogram = session.user_histogram(RowsPerUser((1, 20, 28)), mu=0.5, label="rows")
    assert histogram.sigma == pytest.approx(2.0)
    assert histogram.values.size == 3 and "RowsPerUser" in histogram.clique[0]
    many = session.user_histogram(Groups(("a", "b"), t_max=2), cap=4, mu=0.5, label="groups")
    assert many.sigma == pytest.approx(2 / 0.5)
    pure = session.user_histogram(MostCommon(("a",)), epsilon=0.5, label="pure")
    assert (pure.values == np.round(pure.values)).all()
    assert pure.sigma == pytest.approx(scale.laplace_std(2.0))
    with pytest.raises(UsageError):
        session.user_histogram(MostCommon(("a",)), label="neither")
    with pytest.raises(UsageError):
        session.user_histogram(MostCommon(("a",)), 0, mu=0.1, label="cap")


def test_pure_runs_take_pure_releases_only(engine):
    session = open_session(engine, epsilon=1.0, delta=0.0)
    assert session.mu is None
    with pytest.raises(BudgetError):
        session.measure([Request(("a",), 0.1)], "Gaussian")
    for share in (0.1, 0.2, 0.7):
        session.user_histogram(MostCommon(("a",)), epsilon=session.pure * share, label="part")
    with pytest.raises(BudgetError):
        session.user_histogram(MostCommon(("a",)), epsilon=0.01, label="more")


def test_selection_follows_the_distance(engine):
    session = open_session(engine, epsilon=40.0, clip=1)
    exact = local(engine.content, 1).marginals([("a",), ("b",), ("c",)], 1)
    near = {c: exact[c] / 2**20 for c in exact}
    near[("b",)] = near[("b",)] + 40.0
    picks = [session.select_l1(list(near), near, epsilon=2.0, label=f"pick {i}") for i in range(5)]
    assert picks == [1] * 5
    assert session.select_l1(list(near), near, epsilon=2.0, label="others", allowed=[2]) == 2
    far = [0.0, 200.0, 0.0]
    assert session.select_l1(list(near), near, epsilon=2.0, label="penalty", penalties=far) != 1
    tilt = [1.0, 1e-3, 1.0]
    near[("c",)] = near[("c",)] + 30.0
    assert session.select_l1(list(near), near, epsilon=2.0, label="weight", weights=tilt) == 2
    assert [r["law"] for r in session.releases] == ["exponential"] * 8


def test_selection_of_half_sets_is_that_of_the_same_cliques(engine):
    """Two groups a column: what is far is picked, what is not allowed is not, and a form that the
    proof does not cover is refused before the charge."""
    recode = {"a": np.array([0, 1, 1]), "b": np.array([0, 0, 1, 1])}
    sets = HalfSets(("a", "b"), np.array([[0, 1]]))
    each = HalfSets(("a", "b"), np.array([[0], [1]]))
    exact = local(engine.content, 1).marginals([("a",), ("b",)], 1, recode=recode)
    near = np.array([exact["a",], exact["b",] + (40 << 20)]) / 2**20
    asked = {"epsilon": 2.0, "recode": recode, "penalties": np.zeros(2), "allowed": np.arange(2)}
    session = open_session(engine, epsilon=40.0, clip=1)
    assert [session.select_half_set(each, near, label=f"{i}", **asked) for i in "123"] == [1] * 3
    assert session.select_half_set(each, near, label="0", **asked | {"allowed": np.array([0])}) == 0
    left = session.left["mu"]
    wrong = [
        (each, near, {"recode": {"a": recode["a"]}}),
        (each, near[:1], {}),
        (each, near * np.nan, {}),
        (each, near + 1e18, {}),
        (each, near, {"allowed": np.array([2])}),
        (each, near, {"allowed": np.array([], np.int64)}),
        (each, near, {"penalties": np.array([0.0, np.inf])}),
        (HalfSets(("a", "b"), np.array([[1, 0]])), np.zeros((1, 4)), {"penalties": np.zeros(1)}),
        (HalfSets(("a", "b"), np.array([[0, 2]])), np.zeros((1, 4)), {"penalties": np.zeros(1)}),
        (HalfSets(("a", "a"), np.array([[0, 1]])), np.zeros((1, 4)), {"penalties": np.zeros(1)}),
        (
            HalfSets(("a", "b"), np.array([[0.0, 1.0]])),
            np.zeros((1, 4)),
            {"penalties": np.zeros(1)},
        ),
    ]
    for candidates, estimates, options in wrong:
        with pytest.raises(FastdpError):
            session.select_half_set(candidates, estimates, label="wrong", **asked | options)
    alone = {"penalties": np.zeros(1), "allowed": np.zeros(1, np.int64), "label": "one"}
    assert session.select_half_set(sets, np.zeros((1, 4)), **asked | alone) == 0
    assert session.left["mu"] < left


def test_selection_refuses_what_is_not_public_and_finite(session):
    wrong = [
        ({("a",): np.zeros(2)}, {}),
        ({("a",): np.array([0, np.nan, 0])}, {}),
        ({}, {}),
        ({("a",): np.zeros(3)}, {"allowed": []}),
        ({("a",): np.zeros(3)}, {"allowed": [1]}),
        ({("a",): np.zeros(3)}, {"weights": [0.0]}),
        ({("a",): np.zeros(3)}, {"penalties": [math.inf]}),
        ({("a",): np.zeros(3)}, {"penalties": [1.0, 2.0]}),
        ({("a",): np.full(3, 1e18)}, {}),
    ]
    for estimates, options in wrong:
        with pytest.raises(FastdpError):
            session.select_l1([("a",)], estimates, epsilon=0.1, label="wrong", **options)
    assert session.left["mu"] == pytest.approx(session.mu)


def test_nothing_private_shows_also_in_errors(engine, session):
    assert str(engine.content.rows) not in repr(session)
    public = {n for n in dir(session) if not n.startswith("_")}
    assert not any(isinstance(getattr(session, n), Swap | Table) for n in public)
    assert not hasattr(session, "__dict__")
    for copier in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(PrivacyError):
            copier(session)

    class Chatty(Swap):
        def marginals(self, cliques, clip):
            raise ValueError("user 4711 has 1234 rows")

    session = open_session(Chatty())
    with pytest.raises(PrivacyError) as caught:
        session.measure([Request(("a",), 0.1)], "step")
    error = caught.value
    while error is not None:
        assert "4711" not in str(error) and "1234" not in str(error)
        error = error.__context__ or error.__cause__


@pytest.mark.parametrize(
    "counts", [np.zeros(3), np.zeros(3, np.float32), np.zeros(4, np.int64), [0, 0, 0]]
)
def test_engines_that_do_not_count_in_integers_are_refused(counts):
    class Wrong(Swap):
        def marginals(self, cliques, clip):
            return {("a",): counts}

    with pytest.raises(PrivacyError, match="int64"):
        open_session(Wrong()).measure([Request(("a",), 0.1)], "step")


def test_who_is_a_user(engine):
    plain = Schema.from_domain(SIZES)
    codes = engine.content.codes
    rows = local(Table.from_codes(plain, codes), 1)
    reserved = reserve.reserve(plain, [reserve.BudgetRequest(epsilon=1.0, delta=1e-5, clip=50)])
    (session,) = reserved.sessions(rows)
    assert session.clip == 1
    assert reserved.statement()["unit"]["kind"] == "row"
    with pytest.raises(UsageError, match="number of rows of one user"):
        reserve.reserve(SCHEMA, [reserve.BudgetRequest(epsilon=1.0, delta=1e-5)])
    nobody = local(Table(SCHEMA, codes, rows=300), 1)
    stranger = copy.copy(engine)  # an engine of any kind is asked, not only one with a table
    stranger.has_users = False
    for other, text in (
        (nobody, "has no user column"),
        (stranger, "no user column"),
        (rows, "different schema"),
    ):
        with pytest.raises(PrivacyError, match=text):
            open_session(other)


def test_events_are_protected_one_by_one_and_the_statement_says_so(engine):
    reserved = reserve.reserve(
        SCHEMA, [reserve.BudgetRequest(epsilon=1.0, delta=1e-5, unit="event")]
    )
    (session,) = reserved.sessions(engine)
    (other,) = reserve.reserve(
        SCHEMA, [reserve.BudgetRequest(epsilon=1.0, delta=1e-5, unit="event")]
    ).sessions(engine)
    with no_noise():
        (answer,) = session.measure([Request(("a",), 0.1)], "rows")
        groups = other.user_histogram(Groups(("a", "b"), t_max=3), mu=0.1, label="groups")
    assert answer.values.sum() == 300 and groups.sigma == pytest.approx(10.0)
    assert reserved.statement()["unit"]["kind"] == "event"
    with pytest.raises(UsageError, match="per event"):
        session.user_histogram(RowsPerUser((1,)), mu=0.1, label="users")


def test_seeds_repeat_and_ledgers_refuse_them(engine, tmp_path):
    first, again, other = (ask_everything(open_session(engine, seed=s)) for s in (3, 3, 4))
    assert all((x.values == y.values).all() for x, y in zip(first, again, strict=True))
    assert not any((x.values == y.values).any() for x, y in zip(first, other, strict=True))
    ledger = open_ledger(tmp_path, epsilon=20.0, delta=1e-5)
    with pytest.raises(UsageError, match="seed"):
        open_session(engine, seed=1, ledger=ledger)
    assert ledger.entries() == []


def test_a_query_that_lacks_a_scalar_is_refused():
    """Planted: one row less than it answers, in numerators or in denominators."""
    whole = Weighted([1, 1, 1], 2)

    class Short(Weighted):
        def __init__(self, at):
            super().__init__([1, 1, 1], 2)
            self.at = at

        @property
        def coef2(self):
            return tuple(part[:-1] if i == self.at else part for i, part in enumerate(whole.coef2))

    marginal_plan.check_columns(whole, ("a",))
    for at in (0, 1):
        with pytest.raises(PrivacyError, match="does not state the weight of every row"):
            marginal_plan.check_columns(Short(at), ("a",))
