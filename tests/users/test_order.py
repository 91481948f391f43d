"""Rows of synthetic users in order: what an exchange of rows keeps, and that it brings about what
is asked."""

import itertools

import numpy as np
import pytest
from msgspec.structs import replace

from fastdp._core import deal as core
from fastdp.engines.user_histograms import gap_bins
from fastdp.errors import SchemaError, UsageError
from fastdp.measurement import Measurement
from fastdp.mechanisms.cliquetree import CliqueTree
from fastdp.mechanisms.with_users import check_users
from fastdp.schema import Schema
from fastdp.users.order import KINDS, Goal, OrderPlan, order_of, to_ask
from fastdp.users.rates import GROUPS, Rates, Roles
from fastdp.users.trials import dealer

from .test_dealing import people

SIZES = {"day": 20, "hour": 24, "from": 8, "to": 8, "pay": 3}
GAPS = 10
ENDS = 20


def random_chunks(rng, users=(40, 3, 25)):
    wanted = rng.integers(1, 12, sum(users)).astype(np.uint32)
    user_start = np.concatenate([[0], np.cumsum(users)]).astype(np.int64)
    row_start = np.concatenate([[0], np.cumsum(wanted)])[user_start].astype(np.int64)
    owner = np.repeat(np.arange(len(wanted), dtype=np.uint32), wanted)
    for a, b in itertools.pairwise(row_start):
        rng.shuffle(owner[a:b])
    return wanted, user_start, row_start, owner


def exchange(rng, chunks, shift, tries, threads=1, seed=5, values=3, kinds=1):
    wanted, user_start, row_start, owner = chunks
    rows = len(owner)
    draws = np.random.default_rng(rng)
    time = draws.integers(0, SIZES["day"] * SIZES["hour"], rows).astype(np.uint32)
    sides = [draws.integers(0, 8, (1, rows)).astype(np.uint32) for _ in range(2)]
    features = draws.integers(0, values, (2, rows)).astype(np.uint32)
    owner = owner.copy()
    group = np.maximum(np.searchsorted(GROUPS, wanted, "right") - 1, 0).astype(np.uint32)
    kind = ((wanted > 6) * (kinds - 1)).astype(np.uint32)
    plan = OrderPlan(
        row_start=row_start,
        user_start=user_start,
        codes=features,
        timed=np.zeros(2, np.uint8),
        wanted=wanted,
        group=group,
        groups=len(GROUPS),
        kind=kind,
        kinds=kinds,
        time=time,
        end=time // 24,
        ends=ENDS,
        this=sides[0],
        that=sides[1],
        keys=np.array([8], np.uint32),
        gaps=GAPS,
        shift=shift,
        tries=tries,
        least=0.0,
    )
    made = core.order_rows(plan, owner, seed, threads)
    return owner, *made, time, sides, features


def near(sequence, owner, sides, wanted):
    """How often the first side of a row is the second of the next row of the same user: one by
    one."""
    steps = [(a, b) for a, b in itertools.pairwise(sequence) if owner[a] == owner[b]]
    return np.mean([sides[0][0, a] == sides[1][0, b] for a, b in steps])


def agreement(owner, values):
    """Mean over users with two rows or more of the share of agreeing pairs."""
    out = []
    for u in np.unique(owner):
        own = values[owner == u]
        same = (own[:, None] == own).sum() - len(own)
        out += [same / (len(own) * (len(own) - 1))] if len(own) > 1 else []
    return np.mean(out)


@pytest.mark.parametrize("seed", range(3))
def test_exchanges_keep_rows_order_and_agreement_and_bring_about_what_is_asked(seed):
    """Random rows follow in one case of eight; half is asked for. Exchanges stop within 0.002 of
    the users of each goal or at the last try; agreement is held by the same sum of squares, whose
    size at the end is at most that of the shortfall at the start times the share that is left (both
    sums are in users)."""
    chunks = random_chunks(np.random.default_rng(seed), (300, 3, 150))
    wanted, user_start, row_start, before = chunks
    shift = np.zeros(1 + GAPS + 2 * ENDS)
    shift[0] = 0.375
    owner, sequence, was, now, time, sides, features = exchange(seed, chunks, shift, 60)
    assert sorted(sequence) == list(range(len(owner)))
    assert (np.bincount(owner, minlength=len(wanted)) == wanted).all()
    for a, b, u, v in zip(row_start, row_start[1:], user_start, user_start[1:]):
        assert ((owner[a:b] >= u) & (owner[a:b] < v)).all()  # nobody gets rows of another chunk
    ordered = owner[sequence]
    assert (np.diff(ordered.astype(np.int64)) >= 0).all()
    same = ordered[1:] == ordered[:-1]
    assert (np.diff(time[sequence].astype(np.int64))[same] >= 0).all()
    many = (wanted > 1).sum()
    assert abs(now[0] / 2**20 / many - near(sequence, owner, sides, wanted)) < 0.01
    assert abs(was[0] / 2**20 / many - 1 / 8) < 4 * np.sqrt(7 / 64 / same.sum())
    assert abs((now[0] - was[0]) / 2**20 / many - 0.375) < 0.02
    for feature in features:
        assert abs(agreement(owner, feature) - agreement(before, feature)) < 0.03
    # Every user's gaps are shares.
    assert int(now[1 : 1 + GAPS].sum()) == pytest.approx(many << 20, rel=1e-4)
    assert now[1 + GAPS :].sum() == 2 * len(wanted) << 20
    again = exchange(seed, chunks, shift, 60, threads=3)
    assert (again[0] == owner).all() and (again[1] == sequence).all()


def test_each_kind_of_users_has_its_own_sums():
    """Three tenths more is asked for of users with many rows, nothing of the others. A kind's sum
    is the share of its own users' steps that follow, one by one."""
    chunks = random_chunks(np.random.default_rng(4), (300, 150))
    wanted = chunks[0]
    shift = np.zeros(2 + GAPS + 2 * ENDS)
    shift[1] = 0.3
    owner, sequence, was, now, _, sides, _ = exchange(4, chunks, shift, 60, kinds=2)
    for kind, moved in enumerate((0.0, 0.3)):
        own = (wanted > 6) == kind
        shares = [sums[kind] / 2**20 / (wanted[own] > 1).sum() for sums in (was, now)]
        assert abs(shares[1] - shares[0] - moved) < 0.02
        assert abs(shares[1] - near(sequence[own[owner[sequence]]], owner, sides, wanted)) < 0.01


def distinct(owner, values):
    """Mean over users of values per row."""
    return np.mean(
        [len(np.unique(values[owner == u])) / (owner == u).sum() for u in np.unique(owner)]
    )


@pytest.mark.parametrize("values", [4, 5000])
def test_exchanges_keep_the_number_of_values_and_end(values):
    """Numbers of values per user stay within 0.01 (held as agreement is, CLOSE in the kernel),
    while two in five steps are made to follow. With 5,000 values nearly every row that is looked at
    is one that a user does not have: places for counts run out where such looks take one."""
    chunks = random_chunks(np.random.default_rng(2), (400,))
    shift = np.zeros(1 + GAPS + 2 * ENDS)
    shift[0] = 0.275
    owner, _, was, now, _, _, features = exchange(2, chunks, shift, 60, values=values)
    assert (now[0] - was[0]) / 2**20 / (chunks[0] > 1).sum() > 0.2
    for feature in features:
        assert abs(distinct(owner, feature) - distinct(chunks[3], feature)) < 0.01


def test_gaps_and_ends_move_as_asked_and_nothing_is_exchanged_without_need():
    """Rows of a day later for one first row in ten, and short gaps for one in ten more."""
    chunks = random_chunks(np.random.default_rng(9), (600,))
    nothing = np.zeros(1 + GAPS + 2 * ENDS)
    owner, _, was, now, *_ = exchange(9, chunks, nothing, 60)
    assert (owner == chunks[3]).all() and (was == now).all()
    shift = nothing.copy()
    shift[1 + GAPS + np.array([0, 1])] = -0.02, 0.02
    shift[[1 + 8, 1 + 3]] = -0.05, 0.05
    _, _, was, now, *_ = exchange(9, chunks, shift, 60)
    moved = (now - was) / 2**20 / np.where(np.arange(len(shift)) > GAPS, 600, (chunks[0] > 1).sum())
    assert np.abs(moved - shift)[shift != 0].max() < 0.01


def schema(**user):
    plain = Schema.from_domain(SIZES, user="who").to_dict()
    plain["user"] |= {"order": ["day", "hour"], "max_rows": 60, **user}
    return Schema.from_dict(plain)


def rates():
    return Rates(
        ("from", "to", "pay"), np.full(3, 0.2), np.full(3, 0.001), np.full((len(GROUPS), 3), 0.2)
    )


def released(key, near, gaps=None, sigma=0.5, users=(500.0, 300.0, 100.0)):
    """Answers in which each pair's neighbours agree as often as `near` says, and any two rows in
    one of eight."""
    users = np.array(users)
    across = [2 / 8 * users.sum() - users.sum() for x, y in key.pairs if x != y]
    gaps = np.full(key.gaps, users.sum() / key.gaps) if gaps is None else gaps
    ends = np.full(2 * key.ends, users.sum() / key.ends)
    values = [
        *(np.outer([2 * near[p] - 1 for p in key.pairs], users).ravel(), users, across, gaps, ends)
    ]
    return Measurement(("order",), np.concatenate(values), sigma)


@pytest.mark.parametrize("bins", [1, 2, 5, 62, 63, 70])
def test_gaps_have_bins_of_powers_of_two(bins):
    gaps = [0, *(2**k + d for k in range(62) for d in (-1, 0, 1))]
    assert gap_bins(np.array(gaps), bins).tolist() == [
        min(g.bit_length(), bins - 1, 62) for g in gaps
    ]


def test_chains_are_chosen_from_released_numbers():
    key = to_ask(schema(), schema().modelled, Roles(("pay",), ("from",)))
    pairs = [("from", "to"), ("to", "from"), ("from", "from"), ("to", "to")]
    assert key.order == ("day", "hour") and key.pairs == tuple(pairs)
    assert key.numbers == 4 + 2 + 4 and key.edges == KINDS
    rate = dict(zip(pairs, (0.125, 0.6, 0.21, 0.1)))
    order, goal = order_of(key, released(key, rate), rates(), SIZES)
    assert order.key.pairs == (("to", "from"), ("to", "to"))
    assert np.allclose(goal.rates[:6], [0.6] * 3 + [0.1] * 3)
    noisy, _ = order_of(key, released(key, rate, sigma=300.0), rates(), SIZES)
    assert noisy.key.pairs == ()  # nothing stands out


def test_dealt_users_follow_the_goal():
    """Rows whose `to` and `from` are drawn evenly: dealing makes two in five steps follow, and
    keeps every row."""
    rng = np.random.default_rng(4)
    codes = {name: rng.integers(0, n, 12_000).astype(np.uint32) for name, n in SIZES.items()}
    key = to_ask(schema(), schema().modelled, Roles((), ()))
    rate = dict.fromkeys(key.pairs, 0.2) | {("to", "from"): 0.4, ("from", "to"): 0.125}
    order = order_of(key, released(key, rate), rates(), SIZES)
    made = dealer(people(), rates(), Roles((), ("pay",)), codes, 3, 1, order=order)
    assert made.order is not None and ("to", "from") in made.order.key.pairs
    dealt, owner = made.deal(codes, 7, 1)
    want = np.sort(np.ravel_multi_index([codes[n] for n in SIZES], tuple(SIZES.values())))
    have = np.ravel_multi_index([dealt[n] for n in SIZES], tuple(SIZES.values()))
    assert (np.sort(have) == want).all()
    same = owner[1:] == owner[:-1]
    assert same.sum() == len(owner) - len(np.unique(owner))  # each user's rows are together
    time = dealt["day"].astype(np.int64) * 24 + dealt["hour"]
    assert (np.diff(time)[same] >= 0).all()
    assert 0.36 < (dealt["to"][:-1] == dealt["from"][1:])[same].mean() < 0.44
    without = replace(made, order=replace(made.order, shift=np.zeros_like(made.order.shift)))
    dealt, owner = without.deal(codes, 7, 1)
    assert (dealt["to"][:-1] == dealt["from"][1:])[owner[1:] == owner[:-1]].mean() < 0.15


def test_differences_within_noise_are_left_alone():
    """Three standard errors and less are noise. First and last rows are counted for all users, here
    as many as have two rows."""
    key = to_ask(schema(), schema().modelled, Roles((), ()))
    order, _ = order_of(key, released(key, dict.fromkeys(key.pairs, 0.5)), rates(), SIZES)
    size = len(order.shift)
    wanted = np.full(1000, 5)
    before = np.full(size, 0.5) * 1000 * 2**20
    aimed = order.aimed(before, wanted, Goal(np.full(size, 0.58), np.full(size, 0.03)))
    assert not aimed.shift.any()
    aimed = order.aimed(before, wanted, Goal(np.full(size, 0.6), np.full(size, 0.03)))
    there = np.ones(size, bool)
    there[: len(order.key.pairs) * len(KINDS)] = np.tile([True, False, False], len(order.key.pairs))
    # There are users of the first kind only.
    assert np.allclose(aimed.shift, np.where(there, 0.1, 0.0))


def test_kinds_of_users_are_taken_for_alike_unless_they_surely_differ():
    """Few users have many rows, so little is known of their steps: they follow as often as others' do.
    Where each kind is known well, each has its own rate."""
    key = to_ask(schema(), schema().modelled, Roles((), ()))
    rate = dict.fromkeys(key.pairs, 0.2) | {("to", "from"): 0.4}
    answers = released(key, rate, sigma=20.0, users=(2000.0, 500.0, 20.0))
    at = key.pairs.index(("to", "from")) * len(KINDS)
    values = answers.values.copy()
    values[at + 2] = -20.0  # that nobody's of 128 rows or more follow, by a standard error
    found, errors = chain(key, values, 20.0)
    assert np.allclose(found, 0.4, atol=0.02) and errors.max() < 0.02
    values[[at + 2, 3 * len(key.pairs) + 2]] = -2000.0, 2000.0
    assert np.allclose(chain(key, values, 2.0)[0], [0.4, 0.4, 0.0], atol=0.02)


def chain(key, values, sigma):
    """(goals of the chain from `to` to `from` by kind of users, their standard errors)."""
    order, goal = order_of(key, Measurement(("order",), values, sigma), rates(), SIZES)
    at = order.key.pairs.index(("to", "from")) * len(KINDS)
    return goal.rates[at : at + len(KINDS)], goal.errors[at : at + len(KINDS)]


def test_noise_in_empty_bins_does_not_move_first_rows():
    """All users begin in the first two of 20 bins; noise of 3 % in each bin. Goals that count only
    what is positive would take a fifth of the users out of the first two bins."""
    key = to_ask(schema(), schema().modelled, Roles((), ()))
    users = 900.0
    moved = []
    for seed in range(40):
        values = released(key, dict.fromkeys(key.pairs, 0.5)).values.copy()
        values[-2 * key.ends :] = np.tile(np.append([0.6, 0.4], np.zeros(key.ends - 2)), 2) * users
        values += np.random.default_rng(seed).normal(0, 27.0, len(values))
        order, goal = order_of(key, Measurement(("order",), values, 27.0), rates(), SIZES)
        before = np.zeros(len(order.shift))
        before[-2 * key.ends :] = (
            np.tile(np.append([0.6, 0.4], np.zeros(key.ends - 2)), 2) * 1000 * 2**20
        )
        aimed = order.aimed(before, np.full(1000, 5), goal)
        moved.append(np.abs(aimed.shift[-2 * key.ends : -key.ends]).sum())
    # 20 bins at three standard errors: .05, the users' noise more.
    assert np.mean(np.array(moved) > 0) < 0.25


@pytest.mark.parametrize(
    "order, text",
    [
        ("dya", "did you mean 'day'"),
        (["day", "day"], "twice"),
        (3, "user.order"),
        ("when", "the part 'date'"),
    ],
)
def test_orders_that_put_nothing_in_order_are_refused(order, text):
    plain = schema().to_dict()
    plain["columns"]["when"] = {"kind": "timestamp", "parts": ["hour"], "output": "parts"}
    plain["user"]["order"] = order
    with pytest.raises(SchemaError, match=text):
        Schema.from_dict(plain)


@pytest.mark.parametrize(
    ("last", "parts", "order"),
    [
        ("2024", ("year", "month", "day", "hour"), ("month", "day", "hour")),
        ("2025", ("year", "month", "day", "hour"), ("year", "month", "day", "hour")),
        ("2024", ("month", "date"), ("month", "date")),
        ("2025", ("month", "date"), ("date",)),
        ("2025", ("year", "month", "date"), ("year", "month", "date")),
    ],
)
def test_parts_that_order_nothing_or_wrongly_are_left_out(last, parts, order):
    """Cohorts of one year were all of that year; January of a second year came before the first
    year's February."""
    when = {"kind": "timestamp", "parts": {part: part for part in parts}}
    span = {"min": "2024-01-01", "max": f"{last}-12-31"}
    made = Schema.from_dict(
        {"user": {"column": "who", "order": "when"}, "columns": {"when": when | span}}
    )
    assert made.order_columns == order


def test_the_order_is_part_of_the_schema():
    made = schema()
    assert made.order_columns == ("day", "hour") and Schema.from_dict(made.to_dict()) == made
    assert made != schema(order="day") and schema(order="day").to_dict()["user"]["order"] == "day"
    assert made.select(["pay", "day"]).order == ()
    plain = made.to_dict()
    span = {"min": "2024-01-01", "max": "2024-01-09", "step": 900}
    plain["columns"]["when"] = {"kind": "timestamp", "parts": ["hour", "minute", "date"], **span}
    plain["user"]["order"] = "when"
    timed = Schema.from_dict(plain)
    assert timed.order_columns == ("when_date", "when_hour", "when_minute")
    assert timed.domain["when_minute"] == 4 + 2
    when = timed.fields["when"]
    values = np.arange(0, 86_400 * 9, 900) + 19_723 * 86_400
    parts, good = when.split(values)
    assert (
        good.all()
        and (when.join(parts, lambda purpose: np.full(len(values), 0.999)) == values).all()
    )


def test_an_order_of_too_many_times_is_refused():
    plain = Schema.from_domain({"t": 1 << 20, "s": 1 << 12, "x": 3}, user="who").to_dict()
    plain["user"] |= {"order": ["t", "s"], "max_rows": 10}
    with pytest.raises(UsageError, match="2\\^32 combinations"):
        check_users(CliqueTree(), Schema.from_dict(plain))
