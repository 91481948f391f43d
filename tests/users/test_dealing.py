"""Dealing rows to users: the kernel against its slow twin, and what dealing keeps whatever the rows."""

import numpy as np
import pytest

from fastdp._core import deal as core
from fastdp.users import dealing
from fastdp.users.dealing import Dealer, dealer
from fastdp.users.people import People, last_bin, size_bins, total_rows
from fastdp.users.rates import GROUPS, Rates, Roles, chance, rates_of, roles, urn

from ..reference import dealing as slow


class Drawn:
    """Rows of a table of users, by plain draws: bins with these weights, constants by bin."""

    def __init__(self, weights, constants=None):
        self.weights, self.constants = np.array(weights, float), constants or {}

    def again(self, total, seed):
        other = Drawn(self.weights, self.constants)
        other.total, other.seed = total, seed
        return other

    def shard(self, i):
        rng = np.random.default_rng(self.seed)
        bins = rng.choice(len(self.weights), self.total, p=self.weights / self.weights.sum())
        values = {name: rng.integers(0, n, self.total) for name, n in self.constants.items()}
        return {"rows per user": bins, **{n: v.astype(np.uint32) for n, v in values.items()}}


def people(weights=(3, 3, 3, 2, 2, 1, 1), constants=None, bound=60):
    edges = size_bins(bound)[: len(weights)]
    source = Drawn(weights, constants)
    return People(source, "rows per user", edges, len(edges) - 1, bound, tuple(constants or ()))


def random_rows(rng, rows, sizes):
    return {name: (rng.random(rows) ** 2 * n).astype(np.uint32) for name, n in sizes.items()}


@pytest.mark.parametrize("seed", range(6))
def test_the_kernel_deals_like_its_slow_twin(seed):
    rng = np.random.default_rng(seed)
    features, chunks = int(rng.integers(1, 5)), 3
    wanted = rng.integers(0, 12, 30).astype(np.uint32)
    user_start = np.array([0, 4, 17, 30])
    row_start = np.concatenate([[0], np.cumsum(wanted)])[user_start].astype(np.int64)
    size = rng.integers(1, 6, features).astype(np.uint32)
    codes = np.stack([rng.integers(0, n, row_start[-1]).astype(np.uint32) for n in size])
    alpha = np.sort(rng.random((2, features)) * 8, axis=1)
    group = rng.integers(0, 2, 30).astype(np.uint32)
    made = [core.deal(row_start, user_start, codes, size, wanted, group, alpha, 11 + seed, t) for t in (1, 3)]
    assert (made[0][0] == made[1][0]).all() and (made[0][1] == made[1][1]).all()
    equal = np.zeros((2, features), np.int64)
    for c in range(chunks):
        rows = [tuple(r) for r in codes[:, row_start[c] : row_start[c + 1]].T.tolist()]
        users = range(user_start[c], user_start[c + 1])
        alphas = [alpha[group[u]].tolist() for u in users]
        owner = slow.deal_chunk(c, rows, wanted[users].tolist(), alphas, 11 + seed)
        assert [o + users[0] for o in owner] == made[0][0][row_start[c] : row_start[c + 1]].tolist()
        for f in range(features):
            for user, share in slow.agreement(rows, owner, f).items():
                equal[group[users[user]], f] += share
    assert (equal == made[0][1]).all()


def test_rows_that_are_not_those_wanted_are_refused():
    start, one = np.array([0, 1], np.int64), np.ones(1, np.uint32)
    codes, alpha = np.zeros((1, 3), np.uint32), np.ones((1, 1))
    for rows, number in ((3, 0), (1, 1)):
        to, group = np.array([0, rows], np.int64), np.full(1, number, np.uint32)
        with pytest.raises(Exception, match="dealing rows to users"):
            core.deal(to, start, codes, one, one, group, alpha, 1, 1)


@pytest.mark.parametrize("constants", [{}, {"a": 4}, {"a": 4, "c": 9}])
def test_users_get_their_rows_and_one_value_of_each_constant(constants, monkeypatch):
    """Every row that comes out came in, but for constants; users have what they were drawn with; chunks
    change nothing of this."""
    monkeypatch.setattr(dealing, "CHUNK_ROWS", 700)
    rng = np.random.default_rng(3)
    sizes = {"a": 4, "b": 6, "c": 5, "d": 1000}
    codes = random_rows(rng, 5000, sizes) | {"d": np.arange(5000, dtype=np.uint32)}
    spare = random_rows(rng, 5000, sizes) | {"d": np.arange(5000, 10000, dtype=np.uint32)}
    crowd = people(constants=constants)
    made = Dealer(crowd, Roles(tuple(constants), ("b",)), np.full((len(GROUPS), 1), 2.0))
    dealt, owner = made.deal(codes, 5, 2, spare)
    wanted, _ = crowd.draw(5000, 5)
    assert sorted(np.bincount(owner)) == sorted(wanted) and owner.size == 5000
    for name in constants:
        pairs = np.unique(np.stack([owner, dealt[name]]), axis=1)
        assert (np.diff(pairs[0]) > 0).all()  # one value per user
    both = {n: np.concatenate([codes[n], spare[n]]) for n in codes}
    free = [n for n in sizes if n not in constants]
    assert all((dealt[n] == both[n][dealt["d"]]).all() for n in free)
    again, same = made.deal(codes, 5, 1, spare)
    assert (owner == same).all() and all((again[n] == dealt[n]).all() for n in sizes)
    if not constants:
        assert sorted(made.deal(codes, 5, 1)[0]["d"]) == list(range(5000))  # every row once


def test_a_segment_without_rows_takes_those_that_others_leave():
    codes = {"a": np.zeros(300, np.uint32), "d": np.arange(300, dtype=np.uint32)}
    made = Dealer(people(constants={"a": 2}), Roles(("a",), ()), np.empty((len(GROUPS), 0)))
    dealt, owner = made.deal(codes, 2, 1)
    assert set(dealt["a"]) == {0, 1} and len(owner) == 300


def test_trial_dealings_reach_the_rates_asked_for():
    """Agreement of the dealt rows is that of the goal in each group. A group has a mean over at least 100
    users, each in [0, 1]: its standard deviation is at most .05. The trials see other draws than the check
    (twice the variance), so .05 * 1.5 * 3 covers it. Without the trials the rare column stays further off."""
    rng = np.random.default_rng(1)
    codes = random_rows(rng, 60_000, {"a": 9, "b": 40, "c": 300})
    goal = np.tile([0.6, 0.4, 0.2], (len(GROUPS), 1))
    rates = Rates(("a", "b", "c"), goal[0], 0.001, goal)
    decided = roles(rates, chance(codes, rates.columns))
    assert decided == Roles((), ("a", "b", "c"))
    made = dealer(people(), rates, decided, codes, 4, 2)
    _, _, (wanted, equal) = made._dealt(codes, 99, 2)
    group = np.searchsorted(GROUPS, wanted, "right") - 1
    users = np.bincount(group[wanted > 1], minlength=len(GROUPS))
    there = users >= 100
    assert there.sum() >= 3
    assert np.abs(equal[there] / users[there, None] / 2**20 - goal[there]).max() < 0.05 * 1.5 * 3
    assert (np.diff(made.alpha, axis=1) >= 0).all()


class Released:
    def __init__(self, values, sigma):
        self.values, self.sigma = np.array(values, float), sigma


def test_roles_follow_from_rates_and_noise():
    """Constant: agreement near 1 that chance does not explain. Repeated: above chance by more than noise."""
    columns = ("fixed", "almost", "one value", "habit", "free")
    sums = [995, 940, 999, 300, 105, 1000]
    by_chance = np.array([0.2, 0.2, 0.998, 0.1, 0.1])
    groups = np.tile([0.5, 0.5, 0.5, 0.5, 0.5, 1.0], len(GROUPS)) * 100
    rates = rates_of(columns, Released(sums, 1.0), Released(groups, 1.0))
    assert roles(rates, by_chance) == Roles(("fixed",), ("almost", "habit"))
    assert roles(rates, by_chance, ("fixed",)).repeated[0] == "fixed"
    noisy = rates_of(columns, Released(sums, 30.0), Released(groups, 1.0))
    assert "almost" in roles(noisy, by_chance).constant  # cannot be told from a constant
    lost = rates_of(columns, Released(sums, 400.0), Released(groups, 1.0))
    assert roles(lost, by_chance).repeated == ()


def test_rates_of_groups_are_drawn_towards_the_overall_rate_by_their_noise():
    groups = np.tile([50.0, 100.0], len(GROUPS))
    sharp = rates_of(("a",), Released([200, 1000], 1.0), Released(groups, 0.1))
    rough = rates_of(("a",), Released([200, 1000], 1.0), Released(groups, 1000.0))
    assert np.allclose(sharp.by_group, 0.5, atol=1e-3) and np.allclose(rough.by_group, 0.2, atol=1e-3)
    empty = rates_of(("a",), Released([-5, -3], 1.0), Released(-groups, 1.0))
    assert 0 <= empty.overall[0] <= 1 and (empty.by_group >= 0).all() and (empty.by_group <= 1).all()


def test_an_urn_has_the_agreement_that_it_was_made_for():
    for rate, by_chance in ((0.9, 0.1), (0.5, 0.3), (0.2, 0.19)):
        alpha = float(urn(rate, by_chance))
        assert (1 + alpha * by_chance) / (1 + alpha) == pytest.approx(rate, abs=1e-6)


def test_bins_start_at_1_and_end_at_the_bound():
    for bound in (1, 2, 7, 64, 100_000):
        edges = size_bins(bound)
        assert edges[0] == 1 and edges[-1] <= bound and (np.diff(edges) > 0).all()
        assert bound < 2 * edges[-1]


def test_noise_in_empty_bins_makes_no_giants():
    """Bins beyond the last one with users are left out but for noise above three standard deviations: of 20
    empty bins and three widths, fewer than 2 % of the runs."""
    rng = np.random.default_rng(0)
    far = 0
    for _ in range(300):
        values = np.concatenate([[500, 400, 90, 60], np.zeros(20)]) + rng.normal(0, 10, 24)
        far += last_bin(Released(values, 10.0)) > 3 + 2
    assert far <= 0.06 * 300
    assert last_bin(Released([100.0, 25, 25, 25, 0, 0], 10.0)) == 3  # thin, but together enough
    assert last_bin(Released([0.0, 0, 0], 10.0)) == 0


def test_the_number_of_rows_has_its_stated_error():
    """The noisy sum over bins, up to the last with users. An empty bin next to the last is taken for one with
    users where its noise exceeds one standard deviation: in 16 % of the runs, with 1.5 of them on average.
    That moves the mean by .16 * 1.5 * 10 * 45 rows, less than half of the stated error."""
    edges, bound = (1, 2, 4, 8, 16, 32), 63
    users = np.array([900.0, 700, 500, 300, 200, 0])
    means = [sum(r * np.log1p(1 / r) for r in range(e, 2 * e)) / np.log(2) for e in edges]
    rng = np.random.default_rng(0)
    made = [total_rows(Released(users + rng.normal(0, 10, 6), 10.0), edges, bound) for _ in range(400)]
    totals, errors = np.array(made).T
    assert abs(totals.mean() - users @ means) < 0.5 * np.median(errors)
    assert np.median(errors) == pytest.approx(10 * np.linalg.norm(means[:5]), rel=1e-9)
    assert 0.8 < totals.std() / np.median(errors) < 1.6


def test_drawn_users_stay_within_their_bins_and_fill_the_rows():
    crowd = people()
    wanted, fixed = crowd.draw(10_000, 1)
    assert wanted.sum() == 10_000 and wanted.min() >= 1 and wanted.max() <= crowd.most_rows and fixed == {}
    again, _ = crowd.draw(10_000, 1)
    assert (wanted == again).all()
    assert len(crowd.draw(0, 1)[0]) == 0
