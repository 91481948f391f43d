"""AIM: what it spends, what it picks, how its weights add up."""

import pytest

import fastdp
from fastdp.domain import Domain
from fastdp.mechanisms.aim import AIM
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
