"""The choice of whole users from a pool: the kernel, exact numbers of rows, planted cohorts, and a
pool that is left alone where targets are noise."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from fastdp._core import choose as core
from fastdp.schema import Schema
from fastdp.user_views import UserFacts
from fastdp.users import user_choice
from fastdp.users.gaps import Gaps
from fastdp.users.pool import Pool
from fastdp.users.row_tables import RowTables
from fastdp.users.siblings import Likeness, _sorted_together, with_siblings
from fastdp.users.user_choice import Agreements, Choice, _asked, _at_most_one, _drawn, _exact
from fastdp.users.user_facts import agreement, distinct
from fastdp.users.user_table import Marginal, combined, octaves, pool_facts, whole_numbers
from fastdp.users.user_weights import Cells, Shares, raked, surplus
from tests import tiers
from tests.reference import choosing

SCHEMA = Schema.from_domain({"month": 6, "shop": 5})
SIZES = SCHEMA.domain
VIEW = UserFacts(
    (1, 2, 4),
    "rows",
    (
        ("first", "first", "month", (6,), ()),
        ("again", "active", "month", (6,), (2, 3)),
        ("spent", "sum", "shop", (1, 2, 4, 8, 16), (4, 16)),
    ),
)


def pool(rng, users):
    """Codes and owners of a pool: rows of one user anywhere."""
    rows = rng.geometric(0.4, users)
    owner = np.repeat(np.arange(users), rows)
    start = rng.integers(0, 6, users)
    month = np.minimum(start[owner] + rng.integers(0, 3, len(owner)), 5)
    order = rng.permutation(len(owner))
    codes = {"month": month[order], "shop": rng.integers(0, 5, len(owner))[order]}
    return {n: c.astype(np.uint32) for n, c in codes.items()}, owner[order].astype(np.uint32)


def sorted_facts(codes, owner):
    order = np.argsort(owner, kind="stable")
    start = np.append(0, np.cumsum(np.bincount(owner)))
    return pool_facts(VIEW, SCHEMA, {n: c[order] for n, c in codes.items()}, start)


def first_shares(codes, owner):
    first = sorted_facts(codes, owner)["first"]
    return np.bincount(first, minlength=6) / len(first)


def each_column(count):
    """Tables of rows, one of each column."""
    return np.array([[i, -1, 1] for i in range(count)], np.int64)


def test_tables_of_rows_are_counted_and_chosen_by_as_if_they_were_written_out():
    """Over no column, one and two: the counts are those of weighted cells, and users are chosen as from a
    column of these cells."""
    rng = np.random.default_rng(9)
    start = np.append(0, np.cumsum(rng.integers(1, 5, 60)))
    codes = {"a": rng.integers(0, 3, start[-1]), "b": rng.integers(0, 4, start[-1])}
    every = [("b",), ("a", "b"), ()]
    rows = RowTables.of(codes, every, {"a": 3, "b": 4})
    cells = [codes["b"], codes["a"] * 4 + codes["b"], np.zeros(start[-1], np.int64)]
    weight = rng.random(60)
    of_row = np.repeat(weight, np.diff(start))
    for tables in (slice(None), slice(1, 3)):
        counted = rows.counts(start, weight, tables)
        slow = [np.bincount(x, of_row, n) for x, n in zip(cells[tables], rows.sizes[tables])]
        assert all(np.allclose(x, y) for x, y in zip(counted, slow, strict=True))
    chosen = []
    for codes_of, of in (
        (rows.codes, rows.of_rows),
        (np.array(cells, np.uint32), each_column(3)),
    ):
        made = (np.arange(60) % 3 == 0).astype(np.uint8)
        first = np.append(0, np.cumsum(rows.sizes))
        none = np.zeros((0, 60), np.uint32)
        about = (np.full(17, 8.0), np.ones(17), np.ones(60), 0, 5, 3)
        core.choose(none, codes_of, of, start, first, *about, made)
        chosen.append(made.tolist())
    assert chosen[0] == chosen[1]


@pytest.mark.parametrize("seed", range(4))
def test_the_kernel_lowers_what_it_says(seed):
    """Errors are those of the slow sum, no larger than before, and as many users are chosen."""
    rng = np.random.default_rng(seed)
    users = 60
    steps = int(seed > 1)
    rows = rng.integers(1, 5, users)
    start = np.append(0, np.cumsum(rows))
    facts = rng.integers(0, 4, (2, users)).astype(np.uint32)
    codes = rng.integers(0, 3, (2, start[-1])).astype(np.uint32)
    first = np.array([0, 4, 8, 11, 14])
    target = 5 * rng.random(14)
    weight = rng.random(14)
    step = 1 / np.maximum(rows - 1.0, 1)
    chosen = (np.arange(users) % 3 == 0).astype(np.uint8)

    def errors(chosen):
        count = np.zeros(14)
        for u in np.flatnonzero(chosen):
            for t in range(2):
                count[first[t] + facts[t, u]] += 1
            for r in range(start[u], start[u + 1]):
                count[first[2] + codes[0, r]] += 1
                count[first[3] + codes[1, r]] += step[u] if steps else 1
        each = weight * np.square(count - target)
        return np.array([each[a:b].sum() for a, b in pairwise(first)])

    before = errors(chosen)
    made = chosen.copy()
    found = np.zeros(4)
    about = (facts, codes, each_column(2), start, first, target, weight, step, steps, 10, 7)
    core.choose(*about, made, error=found)
    assert np.allclose(found, errors(made), rtol=1e-9, atol=1e-9)
    assert made.sum() == chosen.sum() and (made != chosen).any()
    assert found.sum() < before.sum()
    again = chosen.copy()
    core.choose(*about, again)
    assert (again == made).all()


@pytest.mark.parametrize("parts", [1, 2])
def test_the_kernel_chooses_as_its_slow_twin_with_any_number_of_threads(parts):
    """Weights, targets and steps are parts of powers of 2, so that all sums are exact."""
    rng = np.random.default_rng(parts)
    users = 80
    rows = np.sort(rng.choice([1, 2, 3, 5, 9], users))
    start = np.append(0, np.cumsum(rows))
    facts = rng.integers(0, 4, (2, users)).astype(np.uint32)
    codes = rng.integers(0, 3, (3, start[-1])).astype(np.uint32)
    first = np.array([0, 4, 8, 11, 14, 17])
    target = rng.integers(0, 64, 17) / 4
    weight = rng.integers(1, 64, 17) / 16
    step = 1 / np.maximum(rows - 1.0, 1)
    chosen = (np.arange(users) % 10 < 4).astype(np.uint8)
    of_users: list[Counter] = [Counter() for _ in range(users)]
    for u, count in enumerate(of_users):
        count.update(first[:2] + facts[:, u])
        for r in range(start[u], start[u + 1]):
            count.update({first[2] + codes[0, r]: 1.0, first[3] + codes[1, r]: 1.0})
            count.update({first[4] + codes[2, r]: step[u]})
    for least in (0.0, 0.5):
        slow = choosing.choose(of_users, target, weight, chosen, 6, least, 11, parts)
        assert slow != chosen.tolist()
        for threads in (1, 3):
            made = chosen.copy()
            tables = (facts, codes, each_column(3), start, first, target, weight, step)
            core.choose(*tables, 1, 6, 11, made, least, parts, threads)
            assert made.tolist() == slow


def test_distinct_codes_are_those_of_sets():
    rng = np.random.default_rng(5)
    start = np.append(0, np.cumsum(rng.integers(0, 6, 40)))
    codes = rng.integers(0, 4, start[-1])
    each = [len(set(codes[a:b].tolist())) for a, b in pairwise(start)]
    assert distinct(codes, start).tolist() == each


def test_cells_outside_their_table_are_refused():
    one = np.zeros((1, 1), np.uint32)
    args = (np.array([0, 1]), np.array([0, 1, 2]), *(np.ones(2) for _ in range(2)), np.ones(1))
    chosen = np.ones(1, np.uint8)
    of = each_column(1)
    core.choose(one, one, of, *args, 0, 1, 1, chosen)
    for facts, codes in ((one + 1, one), (one, one + 1)):
        with pytest.raises(Exception, match="choosing users"):
            core.choose(facts, codes, of, *args, 0, 1, 1, chosen)
    with pytest.raises(Exception, match="counting rows"):
        core.row_counts(one + 1, of, args[0], args[0], np.ones(1))


def test_rows_are_exact_and_users_whole_but_for_few():
    rng = np.random.default_rng(3)
    rows = np.sort(rng.geometric(0.2, 400))
    for part, wanted in ((0.3, 600), (0.3, 150), (0.9, 20), (0.1, 1_900), (0.5, 1)):
        chosen = rng.random(400) < part
        keep = _exact(rows, chosen, wanted)
        assert keep.sum() == wanted and (keep <= rows).all() and (keep >= 0).all()
    chosen = np.arange(400) % 4 == 0
    keep = _exact(rows, chosen, int(rows[chosen].sum()) + 3)
    assert ((keep != np.where(chosen, rows, 0)).sum()) == 1


@pytest.mark.parametrize("wanted", [4_000, 4_001])
def test_planted_cohorts_come_out_of_a_pool_that_does_not_have_them(wanted):
    """Nobody begins in month 0, and month 4 is twice as large. That contradicts the rows' months,
    which are to stay: users come five times as near. All are in the pool with just these
    rows."""
    rng = np.random.default_rng(1)
    codes, owner = pool(rng, 5_000)
    shares = np.array([0.0, 0.15, 0.15, 0.15, 0.35, 0.2])
    marginal = Marginal(("first",), (np.arange(6),), 1_700 * shares, np.full(6, 3.0))
    choice = Choice(VIEW, [marginal], SCHEMA, 3, 1_700.0)
    before = 0.5 * np.abs(first_shares(codes, owner) - shares).sum()
    made, user = choice.choose(codes, owner, wanted, 5)
    assert len(user) == wanted and (np.bincount(user) > 0).all()
    after = 0.5 * np.abs(first_shares(made, user) - shares).sum()
    assert after < 0.04 < 0.19 < before
    rows, pool_rows = (np.bincount(np.bincount(x), minlength=30)[:30] for x in (user, owner))
    assert 0.5 * np.abs(rows / rows.sum() - pool_rows / pool_rows.sum()).sum() < 0.02
    kept = {
        tuple(sorted(zip(made["month"][user == u], made["shop"][user == u]))) for u in range(50)
    }
    there = {
        tuple(sorted(zip(codes["month"][owner == u], codes["shop"][owner == u])))
        for u in set(owner)
    }
    assert len(kept - there) <= 1
    again, same = choice.choose(codes, owner, wanted, 5)
    assert (same == user).all() and all((again[n] == made[n]).all() for n in made)


def test_rows_per_user_are_not_given_up_for_tables_of_rows():
    """Users of one row are in shop 0 alone, and the model has twice as many rows there as the pool. Users
    were exchanged for such ones: of 315,000 results of athletes, 8 % more had one than was released."""
    rng = np.random.default_rng(2)
    codes, owner = pool(rng, 6_000)
    alone = np.bincount(owner)[owner] == 1
    codes["shop"] = np.where(alone, 0, 1 + codes["shop"] % 4).astype(np.uint32)
    shop = np.where(rng.random(20_000) < 2 * alone.mean(), 0, rng.integers(1, 5, 20_000))
    others = {"month": rng.permutation(codes["month"])[: len(shop)]}
    others |= {"shop": shop[: len(others["month"])].astype(np.uint32)}
    choice = Choice(VIEW, [], SCHEMA, 3, 2_000.0, agreed=ONE_SHOP, others=others)
    _, user = choice.choose(codes, owner, len(owner) // 3, 1)
    rows, pool_rows = (np.bincount(np.bincount(x), minlength=30)[:30] for x in (user, owner))
    assert abs(rows[1] / rows.sum() - pool_rows[1] / pool_rows.sum()) < 0.005


ONE_SHOP = Agreements(("shop",), np.array([0.25]), np.array([0.01]))


def fickle_pool(users=4_000, seed=3):
    """Users of 6 rows each, in one country and any shops; 1 in 50 is loyal to one shop."""
    rng = np.random.default_rng(seed)
    loyal = rng.random(users) < 0.02
    owner = np.repeat(np.arange(users), 6)
    country = rng.integers(0, 3, users)[owner]
    shop = rng.integers(0, 5, len(owner))
    shop = np.where(loyal[owner], shop[6 * owner], shop)
    month = rng.integers(0, 6, len(owner))
    order = np.lexsort((month, owner))
    codes = {
        "country": country,
        "month": month,
        "shop": shop,
        "paid": rng.integers(0, 9, len(owner)),
    }
    return {n: c[order].astype(np.uint32) for n, c in codes.items()}, owner.astype(np.uint32)


SHOPS = Schema.from_domain({"country": 3, "month": 6, "shop": 5, "paid": 9})
LOYAL = UserFacts((1, 2, 4), "rows", (("shops", "distinct", "shop", (), (2,)),))
ALIKE = Likeness(("country",), ("shop",), ("month",), 6, 6)


@pytest.mark.parametrize("alike", [ALIKE, None])
def test_a_kind_of_user_that_the_pool_lacks_gets_siblings(monkeypatch, alike):
    """Of 800 users 200 should be loyal; the pool has some 80 of them. Without siblings those are
    all there can be. The standard error of 200 among 800 users is 12."""
    codes, owner = fickle_pool()
    there = (distinct(codes["shop"], np.arange(0, len(owner) + 1, 6)) == 1).sum()
    asked = Marginal(("shops",), (np.arange(2),), np.array([200.0, 600.0]), np.full(2, 5.0))
    monkeypatch.setattr(user_choice, "MOST_TURNS", 3 if alike else 0)
    choice = Choice(LOYAL, [asked], SHOPS, 5, 800.0, alike=alike or Likeness())
    made, user = choice.choose(codes, owner, 4_800, 1)
    order = np.argsort(user, kind="stable")
    rows = np.stack([made[n][order] for n in SHOPS.domain], axis=1).reshape(-1, 6, 4)
    loyal = (rows[:, :, 2] == rows[:, :1, 2]).all(axis=1)
    if alike is None:
        assert loyal.sum() <= there < 100
        return
    assert abs(loyal.sum() - 200) < 36
    assert (rows[:, :, 0] == rows[:, :1, 0]).all()  # one country each
    assert (np.diff(rows[:, :, 1].astype(int), axis=1) >= 0).all()  # in the order of months
    assert len(np.unique(rows.reshape(len(rows), -1), axis=0)) == len(rows)  # nobody twice


def test_siblings_are_like_their_users_count_as_one_with_them_and_have_other_rows():
    codes, owner = fickle_pool()
    pool = Pool.of(codes, owner)
    odds = np.where(pool.to_rows(np.arange(pool.users)).reshape(-1, 6)[:, 0] % 100 == 0, 2.5, 0.2)
    more, siblings, user = with_siblings(pool, odds, ALIKE, 7)
    assert more.users == pool.users + 2 * 40 and siblings.users == 2 * 40
    assert np.sort(user).tolist() == np.sort(more.number).tolist() == list(range(more.users))
    assert more.part.sum() == pytest.approx(pool.users)
    assert np.sort(more.part)[:120] == pytest.approx(1 / 3)
    for name in ("country", "month"):
        facts = [np.sort(p.codes[name].reshape(-1, 6), axis=1) for p in (pool, more)]
        kinds = [Counter(map(tuple, f)) for f in facts]
        assert set(kinds[1]) == set(kinds[0])
    again, _, _ = with_siblings(pool, odds, ALIKE, 7)
    assert all((again.codes[n] == more.codes[n]).all() for n in more.codes)
    # nobody is like anybody: no siblings, rather than copies
    alone = Likeness(("person",))
    own = {**pool.codes, "person": pool.to_rows(np.arange(pool.users))}
    lonely = Pool.of({n: c[::6] for n, c in own.items()}, np.arange(pool.users, dtype=np.uint32))
    assert with_siblings(lonely, odds, alone, 7)[0].users == pool.users


@pytest.mark.parametrize("most", [3, 1 << 40])
def test_rows_are_sorted_by_one_number_as_by_column_after_column(most):
    """Codes that 63 bits hold together, and more: one by one, as Python sorts and compares them."""
    rng = np.random.default_rng(most)
    columns = [rng.choice([0, 1, most], 200).astype(np.uint64) for _ in range(3)]
    order, same = _sorted_together(columns, 200)
    rows = list(zip(*(column.tolist() for column in columns)))
    assert order.tolist() == sorted(range(200), key=rows.__getitem__)
    ordered = [rows[i] for i in order]
    assert same[0] == 0
    for x, y, agree in zip(ordered, ordered[1:], same[1:].tolist(), strict=False):
        assert agree == next((k for k in range(3) if x[k] != y[k]), 3)


def test_what_releases_see_of_users_is_worked_out_once_for_each():
    """What was found of a pool's users and of siblings is what would be found of all of them anew."""
    codes, owner = fickle_pool(900)
    pool = Pool.of(codes, owner)
    odds = np.where(np.arange(pool.users) % 7 == 0, 2.5, 0.2)
    more, siblings, user = with_siblings(pool, odds, ALIKE, 3)
    asked = Marginal(("shops",), (np.arange(2),), np.array([200.0, 600.0]), np.full(2, 5.0))
    gaps = Gaps(("month",), np.array([0.5, 0.3, 0.2]), 0.01)
    choice = Choice(LOYAL, [asked], SHOPS, 3, 800.0, gaps, ONE_SHOP, alike=ALIKE)
    joined = choice._seen(pool).joined(choice._seen(siblings), user)
    anew = choice._seen(more)
    for kind in ("cells", "agreement", "gaps"):
        pairs = zip(getattr(joined, kind), getattr(anew, kind), strict=True)
        assert all((x == y).all() for x, y in pairs)


def test_rows_are_given_back_by_their_place_and_users_by_their_number():
    codes, owner = fickle_pool(300)
    pool = Pool.of(codes, owner)
    more, _, _ = with_siblings(pool, np.full(pool.users, 1.5), ALIKE, 3)
    for one in (pool, more):
        count = np.random.default_rng(1).integers(0, 7, one.users)
        made, of = one.first_rows(count)
        users = np.argsort(one.number)
        expected = [range(one.start[u], one.start[u] + count[u]) for u in users]
        assert of.tolist() == [i for i, rows in enumerate(filter(len, expected)) for _ in rows]
        rows = [row for of_user in expected for row in of_user]
        assert all((made[n] == one.codes[n][rows]).all() for n in made)


def test_siblings_have_at_most_as_many_rows_as_the_pool():
    codes, owner = fickle_pool(500)
    pool = Pool.of(codes, owner)
    more, _, _ = with_siblings(pool, np.full(500, 9.0), ALIKE, 1)
    assert more.rows <= 2 * pool.rows and more.part.sum() == pytest.approx(500)


@pytest.mark.parametrize("most", [1e18, 1e30, np.inf])
def test_odds_beyond_whole_numbers_make_no_more_rows_than_the_pool_has(most):
    """As whole numbers they were negative, or a billion siblings: a charged run ended, or took all memory."""
    pool = Pool.of(*fickle_pool(500))
    more, siblings, _ = with_siblings(pool, np.append(most, np.full(pool.users - 1, 0.5)), ALIKE, 1)
    assert siblings.rows <= pool.rows and more.users == pool.users + siblings.users


def test_the_pool_is_left_alone_where_targets_are_noise():
    """Targets that are the pool's plus noise of less than their standard errors: the choice does not
    follow them. The same differences with small errors are followed."""
    rng = np.random.default_rng(2)
    codes, owner = pool(rng, 6_000)
    shares = first_shares(codes, owner)
    noisy = shares + rng.normal(0, 0.03, 6) * 0.4
    apart = {}
    for error in (0.03, 0.0005):
        first = Marginal(("first",), (np.arange(6),), 2_000 * noisy, np.full(6, 2_000 * error))
        choice = Choice(VIEW, [first], SCHEMA, 3, 2_000.0)
        made, user = choice.choose(codes, owner, len(owner) // 3, 5)
        moved = first_shares(made, user) - shares
        asked = noisy - shares
        apart[error] = moved @ asked / (asked @ asked)  # the part of the way that was gone
    assert apart[0.03] < 0.5 and apart[0.0005] > 0.7


def test_releases_know_as_many_counts_as_stand_out_of_a_sample():
    def known(error, agreed=None):
        cells = np.full(6, 100.0)
        marginal = Marginal(("first",), (np.arange(6),), cells, np.full(6, error))
        return Choice(VIEW, [marginal], SCHEMA, 3, 600.0, None, agreed or Agreements()).known()

    assert known(1e-3) == pytest.approx(6)  # all of them
    assert known(10.0) == pytest.approx(3)  # as noisy as counts of a sample: half of each
    assert known(1e3) < 1e-3
    assert known(1e9, Agreements(("shop",), np.array([0.4]), np.array([1e-6]))) == pytest.approx(1)


def test_gaps_are_those_of_rows_in_order_and_are_chosen_for():
    codes = {"month": np.array([0, 0, 3, 5, 1, 2], np.uint32)}
    gaps = Gaps(("month",), np.full(4, 0.25), 0.01)
    assert gaps.bins(codes, SIZES, np.array([0, 4, 6])).tolist() == [4, 0, 2, 2, 4, 1]
    rng = np.random.default_rng(4)
    codes, owner = pool(rng, 3_000)
    order = np.lexsort((codes["month"], owner))
    codes = {n: c[order] for n, c in codes.items()}
    owner = owner[order]

    def shares(codes, owner):
        start = np.append(0, np.cumsum(np.bincount(owner)))
        bins = gaps.bins(codes, SIZES, start)
        size = np.diff(start)
        weight = np.repeat(1 / np.maximum(size - 1.0, 1), size)
        return np.bincount(bins, weight, 5)[:4] / (size > 1).sum()

    goal = np.array([0.6, 0.3, 0.1, 0.0])
    gaps = Gaps(("month",), goal, 0.001)
    chosen = Choice(VIEW, [], SCHEMA, 3, 1_000.0, gaps).choose(codes, owner, 2_500, 1)
    assert np.abs(shares(*chosen) - goal).sum() < 0.5 * np.abs(shares(codes, owner) - goal).sum()


def test_amounts_are_whole_numbers_in_octaves():
    whole = whole_numbers(np.array([0.5, 3.0, np.nan, 8000.0]))
    assert whole[3] > 1 << 30 and whole[2] == 0 and abs(whole[1] / whole[0] - 6) < 1e-3
    edges = octaves(whole, 100 * whole[3])
    assert edges[0] == whole[0] and edges[-1] > 100 * whole[3]
    assert all(b == 2 * a for a, b in pairwise(edges))
    signed = octaves((-3, 0, 5), 50)
    assert signed == [-e for e in reversed(signed)] and signed == sorted(signed)


def test_weights_are_the_nearest_to_the_pool_that_meet_the_tables():
    """At the minimum the derivative of the sum is 0: the count of each cell is the one wanted less
    k sigma^2 times the cell's factor, and weights are products of factors. Exact tables are met."""
    rng = np.random.default_rng(6)
    pool = 3_000
    users = 500.0
    a, b = rng.integers(0, 4, pool), rng.integers(0, 5, pool)
    part = rng.random(pool)
    wanted = rng.dirichlet(np.full(20, 3.0)) * users
    tables = [
        Cells(a * 5 + b, wanted, np.full(20, 4.0)),
        Shares(np.array([part, 1 - part]), np.array([0.4, 0.6]) * users, np.full(2, 8.0)),
        Cells(a, np.full(4, users / 4), np.zeros(4)),
    ]
    weights, _ = raked(tables, users, np.ones(pool))
    assert np.allclose(tables[2].tally(weights), users / 4)
    k = 1 / surplus(tables, np.full(pool, users / pool))
    logs = np.log(weights * pool / users)
    factors = [(t.wanted - t.tally(weights)) / (k * np.square(t.error)) for t in tables[:2]]
    rest = logs - sum(t.change(f) for t, f in zip(tables, factors))
    spread = [np.ptp(rest[a == code]) for code in range(4)]  # the factors of the exact table
    assert max(spread) < 0.1 < np.ptp(logs)


def test_contradictions_meet_in_between_by_precision():
    """Two answers to one question, of standard errors 10 and 20, count as 4 to 1."""
    cells = np.arange(1_000) % 2
    said = [np.array([900.0, 100.0]), np.array([500.0, 500.0])]
    both = [Cells(cells, y, np.full(2, e)) for y, e in zip(said, (10.0, 20.0))]
    once = [Marginal(("x",), (np.arange(2),), y, np.full(2, e)) for y, e in zip(said, (10.0, 20.0))]
    (one,) = combined(once)
    assert np.allclose(one.users, [820, 180])
    found, _ = raked(both, 1_000.0, np.ones(1_000))
    assert np.allclose(both[0].tally(found), [820, 180], rtol=0.02)


def test_odds_keep_rows_per_user_and_nobody_is_drawn_twice():
    """Weights far above 1 are cut off, and others of as many rows take their place."""
    rng = np.random.default_rng(7)
    like = np.sort(rng.integers(0, 5, 3_000))
    weights = np.exp(2 * rng.standard_normal(3_000) + like)
    odds = _at_most_one(_asked(weights, np.ones(3_000), like, np.bincount(like) / 3), like)
    assert odds.max() <= 1 and np.allclose(np.bincount(like, odds), np.bincount(like) / 3)
    drawn = _drawn(odds, rng)
    assert drawn.sum() == 1_000
    assert np.abs(np.bincount(like, drawn) - np.bincount(like) / 3).max() < 2


@pytest.mark.parametrize("seed", tiers.first(2, range(8)))
def test_tables_that_nobody_can_meet_leave_every_kind_its_users(seed):
    """One table wants everybody, another nobody: factors of cells then grow without end, and all
    users of a kind may lose their weight. Each is asked for by a finite number for all that."""
    rng = np.random.default_rng(seed)
    like = np.sort(rng.integers(0, 3, 40))
    part = rng.choice([1.0, 0.5, 0.1], 40)
    cells = rng.integers(0, 5, 40)
    nobody = Cells(cells, np.zeros(5), np.full(5, 1e-3))
    some = Cells(rng.integers(0, 60, 40), rng.dirichlet(np.ones(60)) * 1e4, np.full(60, 3.0))
    own = 1e4 * np.bincount(like, part) / part.sum()
    weights, _ = raked([nobody, some, Cells(like, own, np.zeros(3))], 1e4, part)
    wanted = np.bincount(like, part) / 5
    asked = _asked(weights, part, like, wanted)
    assert np.bincount(like, asked) == pytest.approx(wanted)
    odds = _at_most_one(asked, like)
    assert (odds >= 0).all() and (odds <= 1).all()
    assert _drawn(odds, rng).sum() >= 1


def test_a_kind_without_weight_is_asked_for_by_what_each_counts():
    like = np.array([0, 0, 1, 1])
    part = np.array([1.0, 0.5, 1.0, 1.0])
    asked = _asked(np.array([0.0, 0.0, 3.0, 1.0]), part, like, np.array([3.0, 2.0]))
    assert asked.tolist() == [2.0, 1.0, 1.5, 0.5]


def test_agreement_is_that_of_the_slow_twin_and_is_chosen_for():
    rng = np.random.default_rng(8)
    codes, owner = pool(rng, 4_000)
    order = np.argsort(owner, kind="stable")
    start = np.append(0, np.cumsum(np.bincount(owner)))
    shop = codes["shop"][order]
    slow = []
    for first, last in pairwise(start[:41]):
        rows = shop[first:last]
        pairs = [x == y for i, x in enumerate(rows) for y in rows[:i]]
        slow.append(np.mean(pairs) if pairs else 0.0)
    assert np.allclose(agreement(shop, start)[:40], slow)

    def rate(codes, owner):
        order = np.argsort(owner, kind="stable")
        start = np.append(0, np.cumsum(np.bincount(owner)))
        return agreement(codes["shop"][order], start)[np.diff(start) > 1].mean()

    aim = rate(codes, owner) + 0.1
    agreed = Agreements(("shop",), np.array([aim]), np.array([0.003]))
    choice = Choice(VIEW, [], SCHEMA, 3, 1_300.0, None, agreed)
    made = choice.choose(codes, owner, len(owner) // 3, 1)
    assert abs(rate(*made) - aim) < 0.03


def test_a_cell_whose_only_user_is_not_in_the_sample_does_not_upset_the_weights():
    """Factors are found on some of the users. A cell that is empty there and exact has no factor:
    with one, the dual would have no minimum, and all weights would be wrong."""
    pool = 4_000
    number = np.arange(pool)
    first = number // 2 % 4
    wanted = np.array([400.0, 300.0, 200.0, 100.0])
    alone = np.where(number == 1, 1, 0)  # the sample takes every second user, from 0 on
    tables = [
        Cells(first, wanted, np.full(4, 5.0)),
        Cells(alone, np.array([1_000.0 - 0.25, 0.25]), np.zeros(2)),
    ]
    weights, _ = raked(tables, 1_000.0, np.ones(pool), most=2_000)
    assert np.bincount(first, weights) == pytest.approx(wanted, abs=10)


def test_pairs_of_wide_columns_do_not_fill_the_memory():
    """All pairs of sixty columns of 250 values would have 115 million cells; of narrow columns all
    pairs are balanced."""
    for size, all_pairs in ((250, False), (3, True)):
        names = [f"c{i}" for i in range(60)]
        schema = Schema.from_domain(dict.fromkeys(names, size))
        pairs = Choice(UserFacts((1,)), [], schema, 3, 500.0)._pairs(names, 1_500)
        assert sum(schema.domain[a] * schema.domain[b] for a, b in pairs) <= 1 << 22
        assert (len(pairs) == 60 * 59 // 2) == all_pairs and len(pairs) >= 12
