"""Attacks on the session: queries that lie or change, facts that are overwritten, units that are
mixed, errors that tell."""

import numpy as np
import pytest

from fastdp.errors import FastdpError, MeasurementError, PrivacyError
from fastdp.queries import Binned, Grid, Identity, Sparse, Weighted
from fastdp.release import reserve
from fastdp.release.gateway import Request
from fastdp.userkeys import Groups, MostCommon, RowsPerUser

from .world import SCHEMA, SIZES, Swap, adagrid, no_noise, open_session, table

CELLS = SIZES["a"] * SIZES["b"]


@pytest.fixture(scope="module")
def engine():
    rng = np.random.default_rng(3)
    return Swap(table([rng.integers(0, n, 200) for n in SIZES.values()], np.arange(200) % 7))


def negative(query):
    query.matrix.data[:] = -3


def doubled(query):
    query.grid.fine[:] = 6


def louder(query):
    query.product = lambda x: np.repeat(x.sum() * 10, query.rows)


def mirrored(query):
    query.transpose = lambda r: np.zeros(query.cells, r.dtype)
    query.matrix = query.matrix * 5


@pytest.mark.parametrize(
    ("make", "spoil"),
    [
        (lambda: Sparse(np.eye(CELLS)), negative),
        (lambda: Sparse(np.eye(CELLS)), mirrored),
        (adagrid, doubled),
        (adagrid, louder),
        (lambda: Identity(CELLS), louder),
        (lambda: Weighted(np.ones(CELLS, np.int64)), louder),
        (lambda: Binned((3, 4), [None, [0, 0, 1, 1]]), louder),
    ],
)
def test_a_query_that_was_tampered_with_is_refused_or_answered_as_it_was(engine, make, spoil):
    """The session takes a query by its data, not by its methods: a changed method does nothing,
    changed data is checked again."""
    with no_noise():
        honest = open_session(engine).measure([Request(("a", "b"), 0.1, make())], "q")[0]
        query = make()
        spoil(query)
        try:
            answer = open_session(engine).measure([Request(("a", "b"), 0.1, query)], "q")[0]
        except (PrivacyError, MeasurementError):
            return
    assert (answer.values == honest.values).all()


def test_a_query_that_changes_after_it_was_checked_is_answered_as_it_was(engine, monkeypatch):
    query = Sparse(np.eye(CELLS))
    with no_noise():
        honest = open_session(engine).measure(
            [Request(("a", "b"), 0.1, Sparse(np.eye(CELLS)))], "q"
        )[0]

        def late(point):
            if point == "entered":
                query.matrix.data[:] = 1000

        session = open_session(engine, _trace=late)
        answer = session.measure([Request(("a", "b"), 0.1, query)], "q")[0]
    assert (answer.values == honest.values).all()


def test_a_childs_sizes_must_be_the_parents():
    """With sizes swapped a column had entries of -1, which the sum of squares counted as if they
    made it shorter."""
    part = Grid(("b", "c"), (2, 4), np.arange(8), (one("b", 2), one("c", 4)))
    with pytest.raises(MeasurementError, match="size"):
        Grid(("a", "b", "c"), (3, 4, 2), np.array([0, 13]), (part,))


def one(name, size):
    return Grid((name,), (size,), np.arange(size))


def test_a_request_that_changes_its_mu_is_covered_by_its_noise(engine):
    class Shifty(Request):
        reads = 0

        def __getattribute__(self, name):
            if name != "mu":
                return object.__getattribute__(self, name)
            Shifty.reads += 1
            return 1.0 if Shifty.reads % 2 else 0.001

    session = open_session(engine)
    for _ in range(4):
        answer = session.measure([Shifty(("a",), 1.0)], "q")[0]
        charged = session.releases[-1]["event"]["mu"]
        assert float(np.min(answer.sigma)) * charged >= session.clip * (1 - 1e-12)


@pytest.mark.parametrize(
    "fact", ["clip", "unit", "mu", "pure", "cap", "private", "domain", "schema", "epsilon", "delta"]
)
def test_a_sessions_facts_cannot_be_overwritten(engine, fact):
    """unit = "event" in a run that promises users would have switched the clip off."""
    session = open_session(engine)
    before = getattr(session, fact)
    with pytest.raises(PrivacyError, match="fixed"):
        setattr(session, fact, "event")
    assert getattr(session, fact) is before
    with pytest.raises(TypeError):
        session.asked["epsilon"] = 0.1


def test_only_the_sessions_own_user_keys_are_taken(engine):
    class Wide(Groups):
        def bind(self, domain):
            return self

        @property
        def size(self):
            return 1

    with pytest.raises(PrivacyError, match="user key"):
        open_session(engine).user_histogram(Wide(("a", "b"), t_max=3), cap=12, mu=0.1, label="x")


def test_units_of_an_event_run_are_not_mixed():
    """One row is no unit of a histogram of groups (it moves a user from one cell to another), and
    one user's rows of one group are no unit of a marginal, nor of a histogram over other groups: a
    run promises one of them."""
    rng = np.random.default_rng(4)
    content = table([rng.integers(0, n, 200) for n in SIZES.values()], np.arange(200) % 7)
    groups = Groups(("a", "b"), t_max=3)

    def session():
        ask = reserve.BudgetRequest(epsilon=1.0, delta=1e-5, unit="event")
        return reserve.reserve(SCHEMA, [ask]).sessions(Swap(content))[0]

    first = session()
    first.user_histogram(groups, mu=0.1, label="x")
    first.user_histogram(Groups(("b", "a"), t_max=1), mu=0.1, label="same groups")
    with pytest.raises(PrivacyError, match="unit"):
        first.measure([Request(("a",), 0.1)], "x")
    with pytest.raises(PrivacyError, match="unit"):
        first.user_histogram(Groups(("a",), t_max=3), mu=0.1, label="x")
    second = session()
    second.measure([Request(("a",), 0.1)], "x")
    second.select_l1([("b",)], {("b",): np.zeros(4)}, epsilon=0.01, label="rows too")
    with pytest.raises(PrivacyError, match="unit"):
        second.user_histogram(groups, mu=0.1, label="x")
    for key in (RowsPerUser((1, 2)), MostCommon(("a",))):
        with pytest.raises(FastdpError):
            session().user_histogram(key, mu=0.1, label="x")


def test_a_session_does_not_work_in_a_forked_process(engine):
    """The child's charges would go to its own copy of a ledger in memory, beside the parent's."""
    import os

    session = open_session(engine)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            session.measure([Request(("a",), session.mu)], "twice")
            os.write(write, b"measured")
        except PrivacyError:
            os.write(write, b"refused")
        finally:
            os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    assert os.read(read, 20) == b"refused"
    session.measure([Request(("a",), session.mu)], "once")


def test_the_same_request_twice_has_two_noises_and_two_charges(engine):
    session = open_session(engine)
    one, two = session.measure([Request(("a", "b"), session.mu * 0.7)] * 2, "copies")
    assert not np.array_equal(one.values, two.values)
    assert session.left["mu"] < 0.2 * session.mu
