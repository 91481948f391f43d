"""Counting under public recodings: exact, no more sensitive than before, part of a step's
identity."""

import numpy as np
import pytest

from fastdp.engines.local import local
from fastdp.errors import LedgerError, SchemaError, UsageError
from fastdp.release import reserve
from fastdp.release.gateway import Request
from fastdp.schema import Schema
from fastdp.tables.table import Table

SIZES = {"a": 300, "b": 5, "c": 2}
SCHEMA = Schema.from_domain(SIZES, user="who")


def table(seed=0, rows=400, users=30):
    rng = np.random.default_rng(seed)
    return Table.from_codes(
        SCHEMA,
        {n: rng.integers(0, k, rows) for n, k in SIZES.items()},
        user=rng.integers(0, users, rows),
    )


def session_of(content, clip=3, **options):
    reserved = reserve.reserve(
        SCHEMA, [reserve.BudgetRequest(epsilon=1.0, delta=1e-6, clip=clip)], **options
    )
    return reserved, reserved.sessions(local(content, 1))[0]


@pytest.mark.parametrize(
    "recode",
    [{"nobody": np.zeros(3, int)}, {"b": np.zeros(4, int)}, {"b": np.array([0, 1, -1, 0, 0])}],
)
def test_bad_recodings_are_refused_before_anything_is_charged(recode):
    _, session = session_of(table())
    with pytest.raises(SchemaError, match="recoding"):
        session.measure([Request(("b",), session.mu)], "x", recode=recode)
    with pytest.raises(UsageError, match="whole numbers"):
        session.measure([Request(("b",), session.mu)], "x", recode={"b": np.zeros(5)})
    assert session.left["mu"] == pytest.approx(session.mu)


def test_a_resumed_step_with_another_recoding_fails_closed(tmp_path):
    content = table()
    one, two = ({"b": np.array(codes)} for codes in ([0, 0, 1, 1, 1], [0, 1, 1, 1, 1]))
    _, session = session_of(content, run="r", work=tmp_path)
    first = session.measure([Request(("b",), session.mu)], "x", recode=one)
    _, again = session_of(content, run="r", work=tmp_path)
    assert (
        again.measure([Request(("b",), session.mu)], "x", recode=one)[0].values == first[0].values
    ).all()
    for other in (two, None):
        _, changed = session_of(content, run="r", work=tmp_path)
        with pytest.raises(LedgerError, match="different question"):
            changed.measure([Request(("b",), session.mu)], "x", recode=other)
