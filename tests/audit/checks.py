"""The checks that stand between a planted bug and a release. Each passes on the real program and
asserts otherwise.

They are functions, not tests, so that `test_planted` can run them against broken programs too.
"""

import math
from unittest.mock import patch

import numpy as np
import pytest
from scipy.stats import beta, chi2, norm

from fastdp.errors import FastdpError
from fastdp.privacy import noise

from . import world
from .world import CLIP, SIZES, Swap, ask_everything, loss_mean, no_noise, open_session, table


def small_table(rows=30):
    return table(random_codes(np.random.default_rng(1), rows), np.arange(rows) % 4)


def asked(ask):
    """The checks below with another run than `world.ask_everything`."""
    return patch(f"{__name__}.ask_everything", ask)


def fails(check, *arguments, **options):
    """The check's complaint; a test error if it has none."""
    with pytest.raises((AssertionError, FastdpError)) as caught:
        check(*arguments, **options)
    return str(caught.value)


def first_without_noise():
    """The planted bug: the first number of every draw gets no noise."""
    real = noise.gaussian

    def planted(sigma, size, **options):
        return real(sigma, size, **options) * (np.arange(size) > 0)

    return patch.object(noise, "gaussian", planted)


def random_codes(rng, rows, spread=True):
    """Codes of rows: uniform, or all of them equal (the worst user there is)."""
    if spread:
        return [rng.integers(0, n, rows) for n in SIZES.values()]
    return [np.full(rows, rng.integers(0, n)) for n in SIZES.values()]


def user_rows(rng):
    """1 to 20,000 rows, evenly in the logarithm, with the bound itself and its neighbours often."""
    if rng.random() < 0.2:
        return int(rng.choice([1, CLIP - 1, CLIP, CLIP + 1, 2 * CLIP, 20_000]))
    return int(np.exp(rng.uniform(0, math.log(20_000))))


def data_and_neighbour(rng, rows=60, users=8):
    """(codes, ids) of random rows, and of the same with the rows of user 99."""
    base = random_codes(rng, rng.integers(0, rows + 1))
    ids = 100 + rng.integers(0, users, len(base[0]))
    extra = random_codes(rng, user_rows(rng), spread=rng.random() < 0.5)
    both = [np.concatenate([x, y]) for x, y in zip(base, extra, strict=True)]
    return (base, ids), (both, np.concatenate([ids, np.full(len(extra[0]), 99)]))


def neighbours(pairs, seed, base_rows=60, base_users=8):
    """Pairs of data sets that differ in one user: the run's noise covers the difference of every
    pre-noise answer.

    With D the difference, sum over answers of (D / sigma)^2 is at most mu^2 of the run, and of each
    request its own; exactly, up to the 1e-12 that the run keeps in hand. The tightest pair comes
    close, so the bound is not loose either.
    """
    rng = np.random.default_rng(seed)
    closest = 0.0
    with world.quick_accountant(), no_noise():
        for start in range(0, pairs, 50):
            engine = Swap()
            for _ in range(start, min(start + 50, pairs)):
                base, both = data_and_neighbour(rng, base_rows, base_users)
                engine.content = table(*base)
                session = open_session(engine)
                without = ask_everything(session)
                engine.content = table(*both)
                with_user = ask_everything(open_session(engine))
                cost = loss_mean(with_user, without)
                assert cost <= session.cap.mu**2, (
                    "one user changes the answers by more than the noise covers"
                )
                closest = max(closest, cost / session.cap.mu**2)
    assert closest > 0.999, "the bound is never met: the noise is larger than it needs to be"


def audit(runs, seed=None, tightness=0.95, confidence=0.999):
    """Can one tell, from a whole run's released answers, whether a 200-row user was there? As well
    as mu says, no better.

    `runs` runs a side; the guess is the likelihood ratio, cut in the middle. Its errors are
    binomial, so a Clopper-Pearson bound on their rate p gives with this confidence mu >= -2
    Phi^-1(p): at least `tightness` of the claim, never above. Returns (lower bound, claim).
    """
    rng = np.random.default_rng(7)
    base = random_codes(rng, 40)
    ids = rng.integers(0, 6, 40)
    extra = random_codes(rng, 200, spread=False)
    both = [np.concatenate([x, y]) for x, y in zip(base, extra, strict=True)]
    sides = [table(base, ids), table(both, np.concatenate([ids, np.full(200, 99)]))]
    engine = Swap()
    with world.quick_accountant():
        with no_noise():
            exact = []
            for side in sides:
                engine.content = side
                exact.append(ask_everything(open_session(engine)))
        errors = 0
        for k in range(runs):
            for side in (0, 1):
                engine.content = sides[side]
                session = open_session(engine, seed=None if seed is None else seed + 2 * k + side)
                errors += guess(ask_everything(session), exact) != side
    claim = session.cap.mu
    p = beta.ppf(confidence, errors + 1, 2 * runs - errors)
    q = beta.ppf(1 - confidence, max(errors, 1), 2 * runs - errors + 1)
    lower, upper = -2 * norm.ppf(p), -2 * norm.ppf(q)
    assert lower <= claim, f"audit: the run leaks mu {lower:.4f}, it claims {claim:.4f}"
    assert lower >= tightness * claim, f"audit: only mu {lower:.4f} of {claim:.4f} can be shown"
    assert upper >= claim, f"audit: mu is at most {upper:.4f}, the claim {claim:.4f} wastes budget"
    return lower, claim


def guess(answers, exact):
    """1 if the answers are nearer to those with the user."""
    score = 0.0
    for got, without, there in zip(answers, *exact, strict=True):
        middle = (without.values + there.values) / 2
        score += float(
            np.sum((got.values - middle) * (there.values - without.values) / got.sigma**2)
        )
    return int(score > 0)


def residuals(runs=40, seed=None, alarm=1e-6):
    """Noise is there, of the stated size, in every cell and in every total: chi-square with a
    false-alarm rate of 1e-6.

    A total that was taken from the data, or an answer that went out without noise, has residuals
    that are too small.
    """
    engine = Swap(table(random_codes(np.random.default_rng(3), 500), np.arange(500) % 9))
    cells = []
    totals = []
    with world.quick_accountant():
        with no_noise():
            exact = ask_everything(open_session(engine))
        for k in range(runs):
            session = open_session(engine, seed=None if seed is None else seed + k)
            for got, true in zip(ask_everything(session), exact, strict=True):
                sigma = np.broadcast_to(got.sigma, got.values.shape)
                cells.append((got.values - true.values) / sigma)
                totals.append((got.values - true.values).sum() / math.sqrt(np.square(sigma).sum()))
    for name, standardised in (("cells", np.concatenate(cells)), ("totals", np.array(totals))):
        assert (standardised != 0).all(), f"{name} went out without noise"
        size = float(np.square(standardised).sum())
        low, high = chi2.ppf([alarm / 4, 1 - alarm / 4], len(standardised))
        assert low < size < high, f"the noise of the {name} is not of the stated size"
    return np.array([c[0] for c in cells])


def independence(seed=None):
    """No two draws share their noise: not across requests, steps or runs."""
    engine = Swap(table(random_codes(np.random.default_rng(4), 100), np.arange(100) % 9))
    seen = []
    with world.quick_accountant():
        with no_noise():
            exact = ask_everything(open_session(engine))
        for k in range(3):
            session = open_session(engine, seed=None if seed is None else seed + k)
            for got, true in zip(ask_everything(session), exact, strict=True):
                seen.append(
                    np.round(np.atleast_1d((got.values - true.values) / got.sigma)[:3], 4).tolist()
                )
    assert len({tuple(s) for s in seen}) == len(seen), "two draws have the same noise"
