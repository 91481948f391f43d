"""What the audits share: small tables of users, sessions onto them, and sessions whose noise is
taken out.

`Swap` is an engine whose table can be exchanged, so that thousands of data sets pass through one
session.
"""

import math
from contextlib import contextmanager
from functools import cache
from unittest.mock import patch

import numpy as np

from fastdp.engines.local import local
from fastdp.privacy import crosscheck, noise
from fastdp.queries import AdaGrid, Grid
from fastdp.release import reserve
from fastdp.release.gateway import Request
from fastdp.schema import Schema
from fastdp.tables.table import Table

SIZES = {"a": 3, "b": 4, "c": 2}
SCHEMA = Schema.from_domain(SIZES, user="who")
EPSILON = 10.0
DELTA = 1e-5
CLIP = 200


def table(codes, users):
    return Table.from_codes(SCHEMA, dict(zip(SIZES, codes, strict=True)), user=users)


class Swap:
    """An engine onto whichever table was set last."""

    schema = SCHEMA
    has_users = True

    def __init__(self, content=None):
        self.content = content

    def marginals(self, cliques, clip, **recoding):
        return local(self.content, 1).marginals(cliques, clip, **recoding)

    def user_histogram(self, key, cap):
        return local(self.content, 1).user_histogram(key, cap)

    def user_sums(self, plan):
        return local(self.content, 1).user_sums(plan)


@contextmanager
def quick_accountant():
    """The second accountant's answers remembered: thousands of sessions ask it the same
    question."""
    agree = crosscheck.agree
    ask = cache(lambda events, epsilon, delta: agree(list(events), epsilon, delta))
    with patch.object(
        reserve.crosscheck, "agree", lambda e, epsilon, delta: ask(tuple(e), epsilon, delta)
    ):
        yield


@contextmanager
def no_noise():
    """Draws replaced by zeros, to look at what would have been covered by noise."""

    def nothing(scale, size, **_):
        return np.zeros(size, np.int64)

    with patch.object(noise, "gaussian", nothing), patch.object(noise, "laplace", nothing):
        yield


def open_session(engine, *, epsilon=EPSILON, delta=DELTA, clip=CLIP, seed=None, **options):
    reserved = reserve.reserve(
        SCHEMA,
        [reserve.BudgetRequest(epsilon=epsilon, delta=delta, clip=clip)],
        seed=seed,
        **options,
    )
    (session,) = reserved.sessions(engine)
    return session


def adagrid():
    """A structured query over (a, b): two fine cells, the rest by its children's own queries."""
    ones = {n: Grid((n,), (SIZES[n],), np.arange(SIZES[n])) for n in "ab"}
    return AdaGrid(Grid(("a", "b"), (3, 4), np.array([1, 6]), (ones["a"], ones["b"])))


QUERY = adagrid()


def ask_everything(session):
    """One run that spends all its mu: identity and structured queries, in two steps."""
    shares = [0.3, 0.2, 0.3, 0.2]
    a, b, ab, abc = (session.mu * math.sqrt(s) for s in shares)
    first = session.measure([Request(("a",), a), Request(("b",), b)], "first")
    return first + session.measure(
        [Request(("a", "b"), ab, QUERY), Request(("a", "b", "c"), abc)], "second"
    )


def loss_mean(with_user, without):
    """Sum of squared standardised differences: mu^2 of telling the two pre-noise answers apart."""
    return sum(
        float(np.sum(((x.values - y.values) / x.sigma) ** 2))
        for x, y in zip(with_user, without, strict=True)
    )
