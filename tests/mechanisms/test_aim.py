"""AIM: what it spends, what it picks, how its weights add up."""

import math

import pytest

import fastdp
from fastdp.domain import Domain
from fastdp.mechanisms.aim import AIM, _Rounds
from fastdp.mechanisms.base import Job

from .growing import RowsSession, dependent_rows


def run(session, **fields):
    def fit(domain, measurements, **options):
        return fastdp.fit(domain, measurements, threads=1, **options)

    return AIM(**fields).run(session, Job(schema=session.schema, epsilon=1.0, fit=fit, threads=1))


@pytest.mark.parametrize("mu", [0.1, 2.0])
def test_the_budget_is_spent_and_never_exceeded(mu):
    domain, rows = dependent_rows(columns=5)
    session = RowsSession(domain, rows, mu=mu)
    outcome = run(session, rounds=10)
    assert mu**2 * (1 - 1e-6) < session.spent <= mu**2 * (1 + 1e-9)
    assert outcome.details["rounds"]


def test_it_measures_what_depends():
    domain, rows = dependent_rows(columns=5)
    outcome = run(RowsSession(domain, rows, mu=3.0), rounds=10)
    joined = {frozenset(c) for c in outcome.details["rounds"]}
    assert all(any({f"c{i}", f"c{i + 1}"} <= c for c in joined) for i in range(4))


def test_weights_are_columns_in_common_with_the_workload():
    domain = Domain(dict.fromkeys("abcd", 2))
    weights = AIM(workload=(("a", "b"), ("b", "c", "d"))).closure(domain)
    assert (
        weights["b",] == 2 and weights["a",] == 1 and weights["a", "b"] == 3 and weights["b", "c", "d"] == 4
    )
    assert ("a", "c") not in weights
    assert len(AIM(degree=3).closure(domain)) == 4 + 6 + 4


def test_the_outline_adds_up():
    outline = AIM().outline(Domain(dict.fromkeys("abcd", 4)), user=True)
    spent = sum(p.share * p.times for p in outline.measurements) + sum(s for _, s in outline.charges)
    assert math.isclose(spent, 1.0)


@pytest.mark.parametrize("fields", [{"max_marginal": 1}, {"workload": (("c0",),), "max_marginal": 1}])
def test_it_ends_where_no_candidate_is_small_enough(fields, monkeypatch):
    """After one round that chose nothing; what is left of the budget is not spent."""
    rounds, calls = _Rounds.round, []

    def counted(self):
        assert len(calls) < 3, "it goes round and round"
        calls.append(rounds(self))
        return calls[-1]

    monkeypatch.setattr(_Rounds, "round", counted)
    domain, rows = dependent_rows(columns=3)
    session = RowsSession(domain, rows, mu=1.0)
    outcome = run(session, rounds=10, **fields)
    assert calls == [False] and not outcome.details["rounds"] and session.spent < 0.9
    assert {m.clique for m in outcome.measurements} == {(a,) for a in domain}
