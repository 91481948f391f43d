"""Counting under public recodings: exact, no more sensitive than before, part of a step's identity."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastdp.engines import truth
from fastdp.engines.local import local
from fastdp.errors import LedgerError, SchemaError, UsageError
from fastdp.privacy import statement
from fastdp.queries import Binned
from fastdp.release import reserve
from fastdp.release.gateway import Request
from fastdp.schema import Schema
from fastdp.tables.table import Table

from ..audit.world import no_noise

SIZES = {"a": 300, "b": 5, "c": 2}
SCHEMA = Schema.from_domain(SIZES, user="who")


def table(seed=0, rows=400, users=30):
    rng = np.random.default_rng(seed)
    return Table.from_codes(
        SCHEMA, {n: rng.integers(0, k, rows) for n, k in SIZES.items()}, user=rng.integers(0, users, rows)
    )


def door_to(content, clip=3, **options):
    reserved = reserve.reserve(SCHEMA, [reserve.BudgetRequest(epsilon=1.0, delta=1e-6, clip=clip)], **options)
    return reserved, reserved.sessions(local(content, 1))[0]


maps = st.builds(
    lambda a, b: {"a": np.array(a), "b": np.array(b)},
    st.lists(st.integers(0, 7), min_size=300, max_size=300),
    st.lists(st.integers(0, 4), min_size=5, max_size=5),
)


@given(maps, st.sampled_from([None, 1, 4]))
@settings(max_examples=30, deadline=None)
def test_recoded_counts_are_binned_counts(recode, clip):
    content = table()
    cliques = [("a",), ("b", "a"), ("c", "b"), ()]
    counts = local(content, 2).marginals(cliques, clip, recode=recode)
    plain = local(content, 2).marginals(cliques, clip)
    domain = content.domain.recoded(recode)
    for clique in cliques:
        assert counts[clique].shape == domain.shape(clique)
        if clique:
            slow = Binned(content.domain.shape(clique), [recode.get(a) for a in clique])
            assert (slow.product(plain[clique].reshape(-1)) == counts[clique].reshape(-1)).all()
    assert (truth.marginals(content, [("a",)], clip, recode=recode)["a",] == counts["a",]).all()


@given(maps, st.integers(0, 29))
@settings(max_examples=20, deadline=None)
def test_one_user_changes_recoded_counts_by_at_most_the_clip(recode, who):
    content = table()
    rest = content.take(content.user != content.user[who])
    with_user, without = (
        local(t, 1).marginals([("a", "b")], 3, recode=recode)["a", "b"] for t in (content, rest)
    )
    gap = with_user - without
    assert (gap >= 0).all() and gap.sum() <= 3 * 2**20


def test_the_door_answers_over_the_new_codes():
    content = table()
    recode = {"a": np.minimum(np.arange(300) // 100, 1), "b": np.array([0, 0, 1, 1, 2])}
    with no_noise():
        reserved, session = door_to(content)
        wage = Binned((2, 3), [None, [0, 1, 1]])
        answers = session.measure(
            [
                Request(("a", "b"), session.mu / 2),
                Request(("a", "b"), session.mu / 2, wage),
                Request(("c",), session.mu / 2),
            ],
            "round 2",
            recode=recode,
        )
    exact = local(content, 1).marginals([("a", "b"), ("c",)], 3, recode=recode)
    assert (answers[0].values * 2**20 == exact["a", "b"].reshape(-1)).all()
    assert (answers[1].values * 2**20 == wage.product(exact["a", "b"].reshape(-1))).all()
    assert answers[0].sigma == pytest.approx(3 / (session.mu / 2))
    assert [r.get("recoded") for r in session.releases] == [{"a": 2, "b": 3}, {"a": 2, "b": 3}, None]
    stated = reserved.statement()
    assert statement.problems(stated) == []


@pytest.mark.parametrize(
    "recode",
    [{"nobody": np.zeros(3, int)}, {"b": np.zeros(4, int)}, {"b": np.array([0, 1, -1, 0, 0])}],
)
def test_bad_recodings_are_refused_before_anything_is_charged(recode):
    _, session = door_to(table())
    with pytest.raises(SchemaError, match="recoding"):
        session.measure([Request(("b",), session.mu)], "x", recode=recode)
    with pytest.raises(UsageError, match="whole numbers"):
        session.measure([Request(("b",), session.mu)], "x", recode={"b": np.zeros(5)})
    assert session.left["mu"] == pytest.approx(session.mu)


def test_a_resumed_step_with_another_recoding_fails_closed(tmp_path):
    content = table()
    one, two = ({"b": np.array(codes)} for codes in ([0, 0, 1, 1, 1], [0, 1, 1, 1, 1]))
    _, session = door_to(content, run="r", work=tmp_path)
    first = session.measure([Request(("b",), session.mu)], "x", recode=one)
    _, again = door_to(content, run="r", work=tmp_path)
    assert (again.measure([Request(("b",), session.mu)], "x", recode=one)[0].values == first[0].values).all()
    for other in (two, None):
        _, changed = door_to(content, run="r", work=tmp_path)
        with pytest.raises(LedgerError, match="different question"):
            changed.measure([Request(("b",), session.mu)], "x", recode=other)
