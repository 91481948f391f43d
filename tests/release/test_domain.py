"""Private domains: what one user can change, what is charged, what a killed run does, planted
bugs."""

import math
from contextlib import contextmanager
from itertools import pairwise
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

import fastdp
from fastdp.engines.local import LocalCounter, local
from fastdp.errors import LedgerError, PrivacyError, UsageError
from fastdp.measurement import SCALE
from fastdp.privacy import recompute, statement
from fastdp.privacy.accountant import Gaussian, Threshold
from fastdp.privacy.budget import mu2
from fastdp.privacy.ledger import Ledger, Reservation
from fastdp.privacy.scale import least_threshold
from fastdp.release import domaincosts, keyselect, reserve
from fastdp.release.domain_grids import Grid, LaterEngine, line_of
from fastdp.release.private_domain import Learning
from fastdp.run.plan_domain import domain_lines
from fastdp.schema import Schema, kind_of_text
from tests.audit.world import no_noise, quick_accountant
from tests.tiers import first

COLUMNS = {
    "x": {"kind": "numeric", "domain": "private", "bins": 8},
    "n": {"kind": "numeric", "dtype": "int64", "domain": "private", "bins": 8},
    "city": {"kind": "string", "domain": "private", "keys_per_user": 2},
}
ASKED = Schema.from_dict({"user": {"column": "who"}, "columns": COLUMNS})


@pytest.fixture(autouse=True, scope="module")
def quick():
    with quick_accountant():
        yield


def trips(users=300, rows=4, seed=0):
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(users), rows)
    size = len(who)
    columns = {
        "who": who,
        "x": rng.lognormal(2, 1, size),
        "n": np.where(rng.random(size) < 0.5, 7, rng.integers(0, 500, size)),
        "city": [f"city {i}" for i in rng.integers(0, 3, size)],
    }
    return pa.table(columns)


def opener(source):
    @contextmanager
    def engine(schema):
        yield local(fastdp.read(source, schema, threads=1), 1)

    return engine


def learn(source, asked=ASKED, *, epsilon=20.0, delta=1e-6, clip="private", **options):
    """(finished schema, the reservation) of a run that finds domains and no more, within their
    share."""
    ask = reserve.BudgetRequest(epsilon=epsilon, delta=delta, clip=clip)
    reserved = reserve.reserve(asked, [ask], **options)
    schema = reserved.learn(source, opener(source))
    learnt = reserved.learnt
    assert sum(r["event"]["mu"] ** 2 for r in learnt.releases) <= learnt.costs.share * learnt.mu**2
    return schema, reserved


def test_private_domains_are_charged_as_planned():
    _, reserved = learn(trips(), seed=3)
    part = reserved.asks[0]
    learning = reserved.learnt
    cap = reserved.caps[0]
    assert isinstance(cap, Threshold) and cap.delta == part.domain.keys_delta
    assert cap.delta == pytest.approx(domaincosts.KEYS_SHARE * 1e-6)
    entry = reserved.reservation.describe()["entry"]
    labels = [s["label"] for s in entry["steps"]]
    first = ["domain of rows per user", "domain 1", "domain 2", "domain 3"]
    assert labels[:4] == first and set(labels[4:]) - {"domain 4", "more values of city"} == {
        "values of city",
        "domain of values not found",
        "sums inside bins",
        "ranks inside bins",
        "finished schema",
    }
    spent = mu2(reserved.reservation.ledger._store._state.runs[reserved.run].drawn())
    assert float(spent) <= part.domain.share * cap.mu**2
    (session,) = reserved.sessions(local(fastdp.read(trips(), reserved.schema, threads=1), 1))
    assert session.mu**2 == pytest.approx(cap.mu**2 - float(spent), rel=1e-6)
    assert session.mu**2 >= (1 - part.domain.share) * cap.mu**2 * (1 - 1e-6)
    assert [r["label"] for r in session.releases][:2] == ["domain of rows per user", "domain 1"]
    assert learning.left <= cap.mu


def test_a_bound_on_the_rows_of_a_user_is_found_where_the_schema_has_none():
    """Of users with 4 rows each, and of their noisy histogram up to 16,384: the end of a bin near
    4."""
    schema, reserved = learn(trips(3000), seed=3)
    assert schema.max_rows_per_user in (4, 5) and reserved.clips == [schema.max_rows_per_user]
    assert reserved.learnt.clip <= 5
    given = Schema.from_dict({**ASKED.to_dict(), "user": {"column": "who", "max_rows": 50}})
    assert learn(trips(3000), given, seed=3)[0].max_rows_per_user == 50
    assert (
        domaincosts.rows_bound([5.0, 900, 0, 3, -4], 2.0, 7) == 2
    )  # bins 1, 2, 3, 4, 6 up to the bound
    assert domaincosts.rows_bound([0.0, 0, 0, 0, 90], 2.0, 7) == 7
    assert domaincosts.rows_bound([0.0] * 5, 2.0, 7) == 2


def test_the_run_s_statement_lists_it_and_adds_up():
    _, reserved = learn(trips(), seed=3)
    reserved.sessions(local(fastdp.read(trips(), reserved.schema, threads=1), 1))
    made = reserved.statement()
    assert recompute.problems({**made, "files": {}}) == []
    assert made["schema"]["found"]["columns"] == ["x", "n", "city"]
    assert made["schema"]["found"]["asked"] == ASKED.digest() != made["schema"]["sha256"]
    assert made["not_protected"][0] == statement.schema_not_protected(found=True)
    keys = next(r for r in made["parts"][0]["releases"] if r["kind"] == "keys")
    for changed, word in (
        ({"threshold": keys["threshold"] - 3}, "threshold is too low"),
        ({"sigma": keys["sigma"] / 2}, "noise is too small"),
        ({"cap": 8}, "threshold is too low"),
        ({"sensitivity": math.sqrt(2)}, "does not follow from its cap"),
        ({"cap": 1 << 40}, "does not follow from its cap"),
    ):
        wrong = {**made, "parts": [{**made["parts"][0], "releases": [keys | changed]}]}
        assert any(word in text for text in recompute.problems(wrong))


def test_nothing_can_be_counted_before_the_domain_is_found():
    reserved = reserve.reserve(
        ASKED, [reserve.BudgetRequest(epsilon=1.0, delta=1e-6, clip=3)], seed=1
    )
    with pytest.raises(PrivacyError, match="not found yet"):
        reserved.sessions(local(fastdp.read(trips(), ASKED.stand_in(), threads=1), 1))


def test_runs_that_cannot_find_domains_are_refused_before_anything_is_charged():
    for wrong in ({"delta": 0.0}, {"delta": 1e-6, "unit": "event"}):
        with pytest.raises(UsageError, match="private domain"):
            reserve.reserve(ASKED, [reserve.BudgetRequest(epsilon=1.0, clip=3, **wrong)], seed=1)


@given(
    st.floats(0, 0.2),
    st.floats(1e-4, 0.05),
    st.lists(st.tuples(st.floats(-0.1, 1), st.floats(0, 0.3)), min_size=1, max_size=6),
)
@settings(max_examples=50, deadline=None)
def test_the_second_round_spends_at_most_what_is_left(left, first, missing):
    """It never gives a column a share that could find nothing, and a column that misses more gets
    more."""
    named = dict(enumerate(missing))
    shares = domaincosts.second_round(left, first, named)
    assert sum(shares.values()) <= left * (1 + 1e-12)
    assert all(
        s >= domaincosts.WORTH * first and named[n][0] > 2 * named[n][1] for n, s in shares.items()
    )
    ordered = sorted(shares, key=lambda n: named[n][0])
    assert all(shares[a] <= shares[b] * (1 + 1e-12) for a, b in pairwise(ordered))


PLANNED = {
    "text": {"kind": "string", "domain": "private"},
    "any": {"kind": "any", "domain": "private"},
    "int": {"kind": "numeric", "dtype": "int64", "domain": "private"},
    "between": {"kind": "numeric", "dtype": "int64", "domain": "private", "min": 0, "max": 9},
    "float": {"kind": "numeric", "domain": "private"},
    "price": {"kind": "numeric", "digits": 2, "domain": "private", "means": "even"},
    "time": {"kind": "timestamp", "dtype": "timestamp[s]", "domain": "private"},
    "hours": {"kind": "timestamp", "dtype": "timestamp[s]", "domain": "private", "step": 3600},
    "atoms": {"kind": "numeric", "edges": [0, 1], "atoms": "private"},
    "means": {"kind": "numeric", "edges": [0, 1], "means": "private"},
}


@given(st.lists(st.sampled_from(list(PLANNED)), min_size=1, max_size=12), st.booleans())
@settings(max_examples=30, deadline=None)
def test_shares_of_private_columns_add_up(kinds, users):
    """What each kind of column costs, in columns' shares, by the texts of the constants; sums,
    atoms and all columns together stay within MOST_DOMAINS; a forecast of values spends what a run
    may spend; a value with as many users as are named passes the threshold in 95 % of draws."""
    plain = {f"{kind}{i}": PLANNED[kind] for i, kind in enumerate(kinds)}
    plain = {"columns": plain} | ({"user": {"column": "who", "max_rows": 9}} if users else {})
    schema = Schema.from_dict(plain)
    n = kinds.count
    cost = domaincosts
    keyed = n("text") + n("any")
    found = len(kinds) - n("atoms") - n("means")
    rows = cost.ROWS if users else 0
    steps = cost.CALENDARS * (n("int") + n("float") + n("price") + n("time"))
    steps += (
        (found - keyed) * (1 + cost.EXTRA) + cost.PLACES * n("float") + cost.KINDS * n("any") + rows
    )
    paid = steps + cost.VALUES * keyed
    assert cost.columns_paid(schema) == pytest.approx(paid)
    costs = cost.DomainCosts.of(schema, 1e-6)
    atoms = min(cost.MOST_ATOMS, cost.ATOMS * n("atoms"))
    sums = min(
        cost.MOST_BIN_SUMS, cost.BIN_SUMS * (n("int") + n("between") + n("float") + n("means"))
    )
    assert (costs.sums, costs.atoms) == pytest.approx((sums, atoms))
    whole = sums + atoms + cost.PER_DOMAIN * paid
    assert costs.share == pytest.approx(
        cost.MOST_DOMAINS if keyed else min(cost.MOST_DOMAINS, whole)
    )
    assert costs.keys_delta == pytest.approx(cost.KEYS_SHARE * 1e-6 if keyed or atoms else 0)
    unit = min(cost.PER_DOMAIN, (cost.MOST_DOMAINS - sums - atoms) / max(paid, cost.ROWS))
    assert cost.column_mu(schema, 0.5) ** 2 == pytest.approx(unit / 4)
    cap = cost.KEYS_PER_USER if users else 1
    measured = n("int") + n("between") + n("float") + n("means")
    for line in domain_lines(schema, 0.5, costs, 3):
        kind = line.column.rstrip("0123456789")
        means = "sums" in line.how
        atom = "atoms" in line.how
        share = sums * (1 - cost.RANKS) / measured if means else unit * cost.ROUNDS[-1]
        want = 6 / math.sqrt(share), 6 / math.sqrt(share) * (10 / math.sqrt(2) if means else 3)
        if kind in ("text", "any") or atom:
            own = (atoms / n("atoms"), cost.keys_delta(costs, n("atoms"))) if atom else ()
            want = cost.users_needed(cap, 0.5, *(own or cost.expected_keys(schema, costs)))
            assert ("sqrt(t)" in line.how) == (users and not atom)
        assert (line.sigma, line.bar) == pytest.approx(want)
        assert ("span of time" in line.how) == (kind in ("time", "hours"))
        assert ("between public" in line.how) == (kind == "between" and not means)
    if not keyed:
        return
    share, delta = cost.expected_keys(schema, costs)
    bounds = found - keyed + cost.PLACES * n("float") + cost.KINDS * n("any")
    left = costs.share - sums - atoms - unit * (keyed * (cost.FIRST + cost.MISSING) + bounds + rows)
    second = left / keyed
    worth = cost.WORTH * cost.FIRST * unit
    if not math.isclose(second, worth):  # on a tie, rounding decides
        assert share == pytest.approx(second if second > worth else cost.FIRST * unit)
    rounds = keyed * (3 if atoms else 2)  # two of values and one of atoms share delta
    assert delta * rounds == pytest.approx(costs.keys_delta) and delta * rounds < costs.keys_delta
    sigma, needed = cost.users_needed(3, 0.5, share, delta)
    passes = 1 - math.erfc((needed - least_threshold(sigma, 3, delta)) / sigma / math.sqrt(2)) / 2
    assert (sigma, passes) == pytest.approx((2 / math.sqrt(share), 0.95), rel=1e-3)
    assert [cost.keys_cap(schema, c) for c in schema.pending.values()] == [cap] * found
    alone = cost.users_needed(
        cap, 0.5, cost.MOST_DOMAINS - cost.PER_DOMAIN, cost.keys_delta(costs, 1)
    )[1]
    crowded = cost.users_needed(cap, 0.5, share, delta)[1] > cost.CROWDING * alone
    assert bool(cost.crowding_warning(schema, 0.5, costs)) == crowded


@given(
    st.lists(st.sampled_from([0, 3, 30, 49, 51, 900]), min_size=6, max_size=6),
    st.booleans(),
    st.sampled_from([0.5, 6.0, 70.0]),
)
def test_texts_are_read_as_the_first_kind_that_nearly_all_are_of(counts, typed, sigma):
    """Whole numbers are numbers, dates are times with or without a zone."""
    total = sum(counts)
    whole, number, date, time, zoned, _ = counts
    for name, rows, of in (
        ("int", whole, 1),
        ("float", whole + number, 2),
        ("date", date, 1),
        ("time", date + time, 2),
        ("zoned", zoned, 1),
        ("time", date + zoned + time, 3),
    ):
        noise = 3 * sigma * math.sqrt(6 - of)
        if name in ("int", "float") and typed:
            continue
        if noise < total / 2 and total - rows < max(noise, domaincosts.ODD * total):
            break
    else:
        name = "text"
    names = dict(zip(("int", "float", "date", "time", "zoned", "text"), kind_of_text.VALUE_KINDS))
    assert domaincosts.kind_of(np.array(counts, float), sigma, typed) == names[name]


@pytest.mark.parametrize("users", first(1, [False, True]))
def test_without_noise_what_is_found_is_what_the_rows_have(users):
    """Every release has its share of a column's mu^2; what is said to lie outside the domain found
    are the rows outside it, to the standard error of the cells that they were counted in; means are
    those of the rows, to the offsets and what noise of 5 % of a bin's rows would have drawn them to
    its middle."""
    rng = np.random.default_rng(0)
    size = 21_000
    made = {
        "city": np.minimum(rng.geometric(0.3, size), 500),
        "t": rng.integers(0, 24, size) * 100 + 7,
    }
    made["t"][::200] = 1275  # no minutes of an hour
    made |= {"m": rng.integers(1, 13, size), "k": rng.integers(0, 400, size) * 2}
    made["x"] = rng.lognormal(2, 1, size)
    made["p"] = np.where(rng.random(size) < 0.2, 9.99, np.round(rng.uniform(1, 40, size), 2))
    nulls = {n: rng.random(size) < share for n, share in (("m", 0.2), ("k", 0.1), ("t", 0.002))}
    table = pa.table({n: pa.array(v, mask=nulls.get(n)) for n, v in made.items()})
    table = table.set_column(0, "city", table["city"].cast(pa.string()))
    table = table.append_column("date", [[f"2024-03-{d:02}" for d in rng.integers(1, 29, size)]])
    plain = {
        n: {"kind": "numeric", "dtype": str(table[n].type), "domain": "private"} for n in "tmkxp"
    }
    plain["p"] |= {"digits": 2, "atoms": "private"}
    texts = {
        "city": {"kind": "string", "domain": "private"},
        "date": {"kind": "any", "domain": "private"},
    }
    plain = {"columns": texts | plain}
    if users:
        table = table.append_column("who", [np.arange(size) // 3])
        plain = plain | {"user": {"column": "who"}}
    asked = Schema.from_dict(plain)
    with no_noise():
        schema, reserved = learn(table, asked, epsilon=3.0, seed=1)
    learnt = reserved.learnt
    unit = domaincosts.column_mu(asked, learnt.mu) ** 2
    paid = {
        "domain 1": domaincosts.ROUNDS[0],
        "domain 2": domaincosts.ROUNDS[1],
        "domain of calendars": domaincosts.CALENDARS,
        "domain 3": domaincosts.ROUNDS[2],
        "domain of clock times": domaincosts.CALENDARS,
        "domain of values not found": domaincosts.MISSING,
        "values of city": domaincosts.FIRST,
    }
    paid |= {"domain of rows per user": domaincosts.ROWS} if users else {}
    paid |= {"domain of kinds of text": domaincosts.KINDS}
    sigma = {}
    for release in learnt.releases:
        if (label := release["label"]) in paid:
            assert release["event"]["mu"] ** 2 == pytest.approx(paid[label] * unit, rel=1e-6)
            sigma[label] = release["sigma"]
    assert set(sigma) == set(paid)
    assert [r["attributes"] for r in learnt.releases if r.get("of") == "digits"] == [["x"]]
    inside = {
        n: (made[n] >= schema.columns[n].edges[0]) & (made[n] < schema.columns[n].edges[-1])
        for n in "kx"
    } | {"t": made["t"] != 1275, "m": np.ones(size, bool)}
    inside["city"] = np.isin(made["city"].astype(str), schema.columns["city"].values)
    weight = 3 if users else 1
    for name, label in (("city", "domain of values not found"), ("t", "domain of clock times")):
        rows = size - nulls.get(name, np.zeros(1)).sum()
        assert learnt.missing[name][1] == pytest.approx(sigma[label] * weight / rows, rel=1e-3)
    for name, there in inside.items():
        rows = ~nulls.get(name, np.zeros(size, bool))
        assert learnt.missing[name][0] == pytest.approx(
            (rows & ~there).sum() / rows.sum(), rel=2e-3
        )
        column = schema.columns["t_hour" if name == "t" else name]
        assert (column.null.action == "code") == (name in ("m", "k", "city"))
    assert (schema.columns["m"].min, schema.columns["m"].max) == (1, 12)
    assert "texts read: 'date' as date32" in schema.provenance
    assert ("users have at most 3 rows" in schema.provenance) == users
    assert schema.columns["p"].atoms == (9.99,) and schema.columns["p"].digits == 2
    planned = domain_lines(asked, learnt.mu, learnt.costs, learnt.clip)
    noise = {d.column: d.sigma for d in planned if "bounds" in d.how}
    assert noise == {n: pytest.approx(sigma["domain 3"]) for n in "tmkxp"}
    assert learnt.clip == weight
    x = schema.columns["x"]
    for low, high, mean in list(zip(x.edges, x.edges[1:], x.means))[1:-1]:
        own = made["x"][(made["x"] >= low) & (made["x"] < high)]
        assert abs(mean - own.mean()) < 0.05 * (high - low)


@pytest.mark.parametrize(("rows", "cells"), [(20, 10), (200, 50), (4000, 80)])
def test_the_next_partition_has_cells_of_four_standard_errors_of_its_noise(rows, cells):
    """At four times the budget the noise is half; at least one and at most eight cells a bin."""
    asked = []
    grid = Grid(np.arange(5.0))
    line = SimpleNamespace(
        refine=lambda *about: asked.append(about[3]) or (grid.edges, None), after=lambda x: x + 1
    )
    grid.take(np.array([0.6, 0.0, 0.4, 0.0]) * rows, 2.0, 0.0)
    grid.refined(line, 10, 4.0)
    assert asked == [cells] and not grid.crowded(line)  # every cell is one value
    line.after = lambda x: x + (0.5 if x == 2 else 1)
    assert grid.crowded(line) and grid.outside([0, 2]) == pytest.approx(
        (0.4, 2 * math.sqrt(2) / rows)
    )


def test_a_second_round_finds_what_the_first_one_misses():
    """60 cities that 3,000 users visit alike: every user has weight 1/4 in each of 16 cities, so
    that a city weighs about 200 = 16/60 of 3,000 / 4. At epsilon 0.5 the first round's threshold is
    above that and the second's below."""
    rng = np.random.default_rng(1)
    cities = np.concatenate([rng.permutation(60)[:16] for _ in range(3000)])
    table = pa.table({"who": np.repeat(np.arange(3000), 16), "c": [f"c{i}" for i in cities]})
    schema, reserved = learn(table, ALONE, epsilon=0.5, seed=4)
    first, second = (r for r in reserved.learnt.releases if r["kind"] == "keys")
    assert first["threshold"] > 200 > second["threshold"] and first["count"] < second["count"]
    assert len(schema.columns["c"].values) > 50


# What one user can change.

values = st.sampled_from([0.0, -3.5, 7.25, 1e30, -1e-9, math.nan, math.inf, 42.0])
rows = st.lists(
    st.tuples(st.integers(0, 4), values, st.integers(-3, 10**9)), min_size=1, max_size=30
)
EDGES = {
    "x": np.array([-math.inf, -5.0, 0.0, 5e-324, 10.0, math.inf]),
    "n": np.array([-math.inf, 0.0, 3.0, 1e6, math.inf]),
}


def counted(pairs, clip, first):
    """The answers of one partition, without noise, in grid units."""
    columns = {
        "who": pa.array([u for u, _, _ in pairs], pa.int64()),
        "x": pa.array([x for _, x, _ in pairs], pa.float64()),
        "n": pa.array([n for _, _, n in pairs], pa.int64()),
        "city": pa.array(["a"] * len(pairs), pa.string()),
    }
    table = pa.table(columns)
    reserved = reserve.reserve(
        ASKED, [reserve.BudgetRequest(epsilon=1.0, delta=1e-6, clip=clip)], seed=1
    )
    learning = Learning(
        ASKED,
        reserved.reservation,
        0,
        0.1,
        domaincosts.DomainCosts(0.1, 1e-7),
        clip,
        "user",
        {"epsilon": 1.0, "delta": 1e-6},
        reserved.caps[0],
        table,
        opener(table),
        seed=1,
    )
    columns = {name: ASKED.pending[name] for name in ("x", "n")}
    lines = {name: line_of(c) for name, c in columns.items()}
    grids = {name: Grid(lines[name].first() if first else EDGES[name]) for name in columns}
    answers = []
    with (
        no_noise(),
        patch.object(Grid, "take", lambda s, c, sigma, n: answers.append(np.append(c, n))),
    ):
        learning._measure(columns, grids, 0.5, "domain")
    return answers, learning.releases


def largest_change(pairs, out, clip, first):
    """L2 change of one column's answers that user `out` makes, in rows."""
    whole, releases = counted(pairs, clip, first)
    rest, _ = counted([p for p in pairs if p[0] != out], clip, first)
    return max(np.linalg.norm(a - b) for a, b in zip(whole, rest, strict=True)), releases


@given(rows, st.integers(0, 4), st.integers(1, 5), st.booleans())
@settings(max_examples=20, deadline=None)
def test_one_user_moves_a_partition_s_counts_by_at_most_the_clip(pairs, out, clip, first):
    change, releases = largest_change(pairs, out, clip, first)
    assert change <= clip + 1e-9
    assert all(r["sensitivity"] == clip and r["sigma"] * r["event"]["mu"] >= clip for r in releases)


def test_planted_an_unclipped_user_is_caught():
    """An engine that counts every row fully moves by the user's rows: the check above sees it."""
    pairs = [(0, 7.25, 5)] * 20 + [(1, 0.0, 1)]
    marginals = LocalCounter.marginals

    def unclipped(self, cliques, clip, **more):
        return {c: a * SCALE for c, a in marginals(self, cliques, None, **more).items()}

    assert largest_change(pairs, 0, 3, True)[0] <= 3 + 1e-9
    with patch.object(LocalCounter, "marginals", unclipped):
        assert largest_change(pairs, 0, 3, True)[0] > 3


# A value held by one user.

ALONE = Schema.from_dict(
    {"user": {"column": "who"}, "columns": {"c": {"kind": "string", "domain": "private"}}}
)


def test_planted_a_step_that_is_not_charged_is_caught(tmp_path):
    """A step entered at half its price: the statement's releases no longer agree with the
    ledger."""
    ledger = Ledger(tmp_path / "b.db")
    ledger.open("d", epsilon=30.0, delta=1e-5, keys=1e-6)
    enter = Reservation.enter

    def cheap(self, part, number, digest, label, events, **more):
        half = [Gaussian(e.mu / 2) if isinstance(e, Gaussian) else e for e in events]
        return enter(self, part, number, digest, label, half, **more)

    def statement(dataset):
        _, reserved = learn(trips(), ledger=ledger, dataset=dataset)
        reserved.sessions(local(fastdp.read(trips(), reserved.schema, threads=1), 1))
        return reserved.statement()

    ledger.verify(statement("d"))
    ledger.open("e", epsilon=30.0, delta=1e-5, keys=1e-6)
    with patch.object(Reservation, "enter", cheap):
        wrong = statement("e")
    with pytest.raises(LedgerError, match="different charge"):
        ledger.verify(wrong)


# A run that dies.


class Died(Exception):
    pass


def test_a_killed_run_draws_nothing_twice(tmp_path):
    """Killed along the domain's steps: what was stored is what the resumed run goes on with."""
    asks = [reserve.BudgetRequest(epsilon=20.0, delta=1e-6, clip="private")]

    def attempt(folder, at):
        points = 0

        def trace(point):
            nonlocal points
            points += 1
            if at is not None and points > at:
                raise Died

        ledger = Ledger(folder / "b.db")
        reserved = reserve.reserve(ASKED, asks, ledger=ledger, dataset="d", run="r", _trace=trace)
        schema = reserved.learn(trips(), opener(trips()))
        return schema, reserved, points

    def fresh(name):
        folder = tmp_path / name
        folder.mkdir()
        Ledger(folder / "b.db").open("d", epsilon=30.0, delta=1e-5, keys=1e-6)
        return folder

    total = attempt(fresh("whole"), None)[2]
    assert total >= 3 * 4 + 2
    for at in range(0, total, 5):  # a step has three points: every kind of point is among them
        folder = fresh(f"at-{at}")
        with pytest.raises(Died):
            attempt(folder, at)
        stored = [
            [a["sha256"] for a in s["answers"]]
            for s in Ledger(folder / "b.db").entries("d")[0]["steps"]
            if s["answered"]
        ]
        schema, _, _ = attempt(folder, None)
        steps = Ledger(folder / "b.db").entries("d")[0]["steps"]
        assert [[a["sha256"] for a in s["answers"]] for s in steps][: len(stored)] == stored
        with (
            patch.object(LaterEngine, "_opened", lambda self: 1 / 0),
            patch.object(keyselect, "count_keys", lambda *a: 1 / 0),
        ):
            assert attempt(folder, None)[0] == schema  # all is stored: no data is read


@pytest.mark.parametrize(
    "user, cap", [(None, 1), ({"column": "who", "max_rows": 1}, 1), ({"column": "who"}, None)]
)
def test_a_user_of_one_row_has_one_value_and_a_clip_of_1(user, cap):
    column = {"kind": "string", "domain": "private"}
    plain = {"columns": {"c": column, "d": {**column, "keys_per_user": 7}}}
    schema = Schema.from_dict(plain | ({} if user is None else {"user": user}))
    caps = [domaincosts.keys_cap(schema, c) for c in schema.pending.values()]
    assert caps == ([1, 1] if cap == 1 else [domaincosts.KEYS_PER_USER, 7])
    clips = [domaincosts.clip_of(clip, schema) for clip in (5, "private", None)]
    assert clips == ([1, 1, 1] if cap == 1 else [5, None, None])
