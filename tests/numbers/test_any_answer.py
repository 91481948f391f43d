"""Whatever noise makes of the answers, a number has lines: a run never fails after its charge."""

import warnings

import numpy as np
import pytest

from fastdp.numbers import typed
from fastdp.numbers.declared import Declared
from fastdp.numbers.measure_numbers import measure_numbers
from fastdp.release.user_vectors import plan_vector
from fastdp.schema import Schema
from tests.tiers import first

SCHEMA = Schema.from_dict(
    {
        "user": {"column": "who", "max_rows": 100},
        "columns": {
            "x": {"kind": "numeric", "edges": [0, 10, 100], "digits": 2},
            "g": {"kind": "string", "values": list("abc"), "null": "drop"},
        },
    }
)
ASKED = ("sum(x)", "sum(x) by g", "mean(x)", "mean(x) by g", "median(sum(x)) per user")
ANSWERS = {
    "nothing": lambda rng, size: np.zeros(size),
    "all alike": lambda rng, size: np.full(size, 10.0 ** rng.uniform(-3, 9)),
    "noise alone": lambda rng, size: rng.standard_normal(size),
    "all negative": lambda rng, size: -np.abs(rng.standard_normal(size)) * 1e3,
    "one large": lambda rng, size: 1e12 * (np.arange(size) == rng.integers(size)),
    "the last large": lambda rng, size: 1e9 * (np.arange(size) == size - 1),
    "all huge": lambda rng, size: rng.choice([-1, 1], size) * 10.0 ** rng.uniform(0, 17, size),
    "a heavy tail": lambda rng, size: 1e6 * np.exp(-rng.uniform(0, 1.2) * np.arange(size)),
}
"""Answers of any encoding, in standard deviations of its noise. Some no table has."""


class Answered:
    """Checks each question as a session does, and gives such answers."""

    def __init__(self, rng, answers):
        self.rng = rng
        self.answers = answers

    def user_vector(self, plan, *, mu, label):
        asked = plan_vector("user", plan, mu, label)
        exact = asked.sigma * self.answers(self.rng, plan.encoding.size)
        return asked.released(np.rint(exact).clip(-(2.0**61), 2.0**61).astype(np.int64))


@pytest.mark.parametrize("seed", first(1, range(8)))
@pytest.mark.parametrize("text", ASKED)
@pytest.mark.parametrize("answers", ANSWERS)
def test_every_answer_becomes_lines_with_finite_ordered_ends(text, answers, seed):
    number = typed.check(text, SCHEMA)
    rng = np.random.default_rng([seed, ASKED.index(text), *answers.encode()])
    for signed in (True, False):
        for most in (None, int(rng.choice([1, 7, 10_000, 1 << 45]))):
            session = Answered(rng, ANSWERS[answers])
            allowed = rng.choice([0, 1, 2, 3, 60, 10_001, (1 << 33) + 1, 1 << 40])
            facts = Declared(signed, most, int(allowed) or None)
            mu = 10.0 ** rng.uniform(-4, 0)
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                lines = measure_numbers(session, [number], [facts], mu=mu, seed=5)
            for line in lines:
                ends = (line.low, line.estimate, line.high)
                if line.estimate is not None:
                    assert np.isfinite(ends).all() and list(ends) == sorted(ends)
                if line.capped is not None:
                    assert np.isfinite((line.capped_low, line.capped, line.capped_high)).all()
