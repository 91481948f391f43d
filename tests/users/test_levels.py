"""Levels: the part of the variance between users follows from released rates, and comes out."""

import numpy as np
import pytest

from fastdp.users.dealing import Dealer
from fastdp.users.levels import LEVEL_GROUPS, _agreement, _scores, levels_of
from fastdp.users.rates import GROUPS, Rates, Roles
from fastdp.users.trials import dealer

from .test_dealing import people

CODES = 64


def rates(found, pairs, error=0.001):
    none = np.empty(0)
    return Rates(
        (),
        none,
        error=none,
        by_group=np.empty((len(GROUPS), 0)),
        pairs=pairs,
        together=np.array(found),
        pairs_error=error,
    )


def rows(count, seed=1):
    """Codes of a skewed column, and of one that has nothing to do with it."""
    rng = np.random.default_rng(seed)
    amount = np.clip(rng.gamma(2.0, 8.0, count), 0, CODES - 1).astype(np.uint32)
    return {"amount": amount, "other": rng.integers(0, 5, count).astype(np.uint32)}


def between(user, x):
    """The part of the variance of x between users of equal size (analysis of variance)."""
    size = int(np.bincount(user)[0])
    mean = np.bincount(user, x) / size
    within = np.square(x - mean[user]).sum() / (len(x) - len(mean))
    outer = size * mean.var() * len(mean) / (len(mean) - 1)
    return (outer - within) / size / ((outer - within) / size + within)


@pytest.mark.parametrize("part", [0.2, 0.5, 0.8])
def test_the_part_between_users_is_read_from_rates_of_neighbouring_codes(part):
    """Rates of normal levels, exact, give the part back to within the grid that is tried."""
    codes = rows(100_000)
    pairs = (("amount", 4), ("amount", 16), ("other", "amount"))
    found = [_agreement(_scores(np.bincount(codes["amount"] // w)), part) for w in (4, 16)]
    there = [_agreement(_scores(np.bincount(codes["amount"] // w)), 0.0) for w in (4, 16)]
    released = rates([*found, 0.5], pairs)
    (level,) = levels_of(released, np.array([*there, 0.5]), ("amount",), codes)
    assert abs(level.between - part) < 0.02
    count = np.bincount(level.group[codes["amount"]], minlength=LEVEL_GROUPS)
    assert (np.diff(level.group) >= 0).all() and count.sum() == 100_000
    assert len(level.cuts) == LEVEL_GROUPS + 1 and level.cuts[0] == -np.inf


def test_no_level_where_rates_are_those_of_chance_or_were_not_asked_for():
    codes = rows(50_000)
    chance = _agreement(_scores(np.bincount(codes["amount"] // 4)), 0.0)
    pairs = (("amount", 4),)
    there = np.array([chance])
    assert levels_of(rates([chance + 0.001], pairs), there, ("amount",), codes) == ()
    assert levels_of(rates([chance + 0.2], pairs), there + 0.2, ("amount",), codes) == ()
    assert levels_of(rates([chance + 0.2], pairs), there, ("other",), codes) == ()
    assert levels_of(rates([chance + 0.2], pairs), there, (), codes) == ()


def test_a_level_stands_out_by_two_standard_errors():
    """Trials and the choice correct it, so it need not be as sure as what nobody corrects."""
    codes = rows(50_000)
    chance = _agreement(_scores(np.bincount(codes["amount"] // 4)), 0.0)
    there = np.array([chance])

    def found(times):
        released = rates([chance + times * 0.05], (("amount", 4),), error=0.05)
        return levels_of(released, there, ("amount",), codes)

    assert len(found(2.2)) == 1 and not found(1.8)


@pytest.mark.parametrize("part", [0.3, 0.7])
def test_dealt_users_differ_in_their_level_as_much_as_asked(part):
    """The part of the variance of normal scores, over users with 8 rows each: within 0.1, since a
    chunk's last users get the rows that are left. Every row is used once, for any number of threads
    alike; without levels users do not differ."""
    codes = rows(40_000)
    pairs = (("amount", 4),)
    agreement = _agreement(_scores(np.bincount(codes["amount"] // 4)), part)
    chance = _agreement(_scores(np.bincount(codes["amount"] // 4)), 0.0)
    found = levels_of(rates([agreement], pairs), np.array([chance]), ("amount",), codes)
    crowd = people()
    crowd.sizes.users[:] = 0
    crowd.sizes.users[list(crowd.sizes.edges).index(8)] = 1.0
    dealer = Dealer(crowd, Roles((), ()), np.empty((len(GROUPS), 0)), levels=found)
    dealt, owner = dealer.deal(codes, 5, 2)
    assert (dealer.deal(codes, 5, 1)[1] == owner).all()
    assert (dealt["amount"] == codes["amount"]).all()
    score = np.argsort(np.argsort(codes["amount"] + 1e-6 * np.arange(len(owner)) / len(owner)))
    from scipy.special import ndtri

    many = np.bincount(owner)[owner] >= 8
    user = np.unique(owner[many], return_inverse=True)[1]
    size = np.bincount(user)
    keep = size[user] == size.min()
    user = np.unique(user[keep], return_inverse=True)[1]
    x = ndtri((score[many][keep] + 0.5) / len(owner))
    assert abs(between(user, x) - part) < 0.1
    plain = Dealer(crowd, Roles((), ()), np.empty((len(GROUPS), 0))).deal(codes, 5, 2)[1]
    assert not (plain == owner).all()


def test_users_who_differ_in_a_level_alone_are_dealt():
    """Nothing is repeated column by column. The planted bug stacked the urns of no column, and a run
    ended after its charge: 700 users, one row in each of twelve months, 2 of 24 runs at epsilon 1."""
    codes = rows(20_000)
    agreement = _agreement(_scores(np.bincount(codes["amount"] // 4)), 0.5)
    released = rates([agreement], (("amount", 4),))
    found = dealer(people(), released, Roles((), ()), codes, 5, 1, numbers=("amount",))
    assert len(found.levels) == 1
    assert len(found.deal(codes, 5, 1)[1]) == 20_000
