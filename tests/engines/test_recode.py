"""Counting under public recodings: exact, no more sensitive than before, part of a step's identity."""

import numpy as np
import pytest

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
