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
from hypothesis import assume, given, settings, strategies as st

import fastdp
from fastdp import division
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
    # Bins 1, 2, 3, 4, 6 up to the bound.
    assert domaincosts.rows_bound([5.0, 900, 0, 3, -4], 2.0, 7) == 2
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
        s >= division.WORTH * first and named[n][0] > 2 * named[n][1] for n, s in shares.items()
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


class PlannedColumns:
    """A schema of private columns of these kinds, and what they cost by the texts of the constants.
    Shares are of a column's mu^2 where nothing else is said."""

    def __init__(self, kinds, users):
        n = kinds.count
        user = {"user": {"column": "who", "max_rows": 9}} if users else {}
        columns = {f"{kind}{i}": PLANNED[kind] for i, kind in enumerate(kinds)}
        self.schema = Schema.from_dict({"columns": columns} | user)
        self.users = users
        self.with_atoms = n("atoms")
        self.keyed = n("text") + n("any")
        self.with_means = n("int") + n("between") + n("float") + n("means")
        self.found = len(kinds) - n("atoms") - n("means")
        self.rows = division.ROWS_PER_USER if users else 0
        self.calendars = division.CALENDARS * (n("int") + n("float") + n("price") + n("time"))
        self.digits_and_kinds = division.DIGITS * n("float") + division.KINDS_OF_TEXT * n("any")
        bounds = (self.found - self.keyed) * (1 + division.FOURTH_PARTITION)
        steps = bounds + self.calendars + self.digits_and_kinds + self.rows
        self.paid = steps + division.VALUES * self.keyed
        self.costs = domaincosts.DomainCosts.of(self.schema, 1e-6)
        self.atoms = min(domaincosts.MOST_ATOMS, domaincosts.ATOMS * self.with_atoms)
        self.sums = min(domaincosts.MOST_BIN_SUMS, division.BIN_SUMS * self.with_means)
        left = domaincosts.MOST_DOMAINS - self.sums - self.atoms
        self.unit = min(division.PER_DOMAIN, left / max(self.paid, division.ROWS_PER_USER))
        """The share of mu^2 of one column."""
        self.cap = domaincosts.KEYS_PER_USER if users else 1


private_columns = given(
    st.builds(
        PlannedColumns,
        st.lists(st.sampled_from(list(PLANNED)), min_size=1, max_size=12),
        st.booleans(),
    )
)


@private_columns
@settings(max_examples=30, deadline=None)
def test_shares_of_private_columns_add_up_to_what_is_paid(planned):
    assert domaincosts.columns_paid(planned.schema) == pytest.approx(planned.paid)
    assert planned.costs.sums == pytest.approx(planned.sums)
    assert planned.costs.atoms == pytest.approx(planned.atoms)


@private_columns
@settings(max_examples=30, deadline=None)
def test_private_columns_get_at_most_their_part_of_the_budget(planned):
    """Columns of values get all of it, so that as many values as possible are found."""
    whole = planned.sums + planned.atoms + division.PER_DOMAIN * planned.paid
    if planned.keyed:
        whole = domaincosts.MOST_DOMAINS
    assert planned.costs.share == pytest.approx(min(domaincosts.MOST_DOMAINS, whole))
    of_one = domaincosts.column_mu(planned.schema, 0.5) ** 2
    assert of_one == pytest.approx(planned.unit * 0.5**2)
    delta = domaincosts.KEYS_SHARE * 1e-6 if planned.keyed or planned.with_atoms else 0
    assert planned.costs.keys_delta == pytest.approx(delta)


@private_columns
@settings(max_examples=30, deadline=None)
def test_a_plan_states_the_noise_and_the_least_rows_of_each_private_column(planned):
    """`mu` is .5, so a share s has noise 2 / sqrt(s); a user counts in three rows."""
    costs = planned.costs
    for line in domain_lines(planned.schema, 0.5, costs, 3):
        kind = line.column.rstrip("0123456789")
        means = "sums" in line.how
        atom = "atoms" in line.how
        share = planned.unit * division.PARTITIONS[-1]
        bar = 3.0
        if means:
            share = planned.sums * (1 - division.RANKS) / max(planned.with_means, 1)
            bar = 10 / math.sqrt(2)
        sigma = 6 / math.sqrt(share)
        want = sigma, sigma * bar
        if kind in ("text", "any") or atom:
            if atom:
                number = planned.with_atoms
                found = planned.atoms / number, domaincosts.keys_delta(costs, number)
            else:
                found = domaincosts.expected_keys(planned.schema, costs)
            want = domaincosts.users_needed(planned.cap, 0.5, *found)
            assert ("sqrt(t)" in line.how) == (planned.users and not atom)
        assert (line.sigma, line.bar) == pytest.approx(want)
        assert ("span of time" in line.how) == (kind in ("time", "hours"))
        assert ("between public" in line.how) == (kind == "between" and not means)


@private_columns
@settings(max_examples=30, deadline=None)
def test_a_forecast_of_values_spends_what_a_run_may_spend(planned):
    """What the other steps leave is divided among columns of values, if that is worth a second round."""
    assume(planned.keyed)
    keyed = planned.keyed
    costs = planned.costs
    share, delta = domaincosts.expected_keys(planned.schema, costs)
    bounds = planned.found - keyed + planned.digits_and_kinds
    first_round = keyed * (division.FIRST_VALUES + division.MISSING_VALUES)
    others = planned.unit * (first_round + bounds + planned.rows)
    second = (costs.share - planned.sums - planned.atoms - others) / keyed
    first = division.FIRST_VALUES * planned.unit
    worth = division.WORTH * first
    if not math.isclose(second, worth):  # on a tie, rounding decides
        assert share == pytest.approx(second if second > worth else first)
    rounds = keyed * (3 if planned.with_atoms else 2)  # two of values and one of atoms share delta
    assert delta * rounds == pytest.approx(costs.keys_delta)
    assert delta * rounds < costs.keys_delta
    caps = [domaincosts.keys_cap(planned.schema, c) for c in planned.schema.pending.values()]
    assert caps == [planned.cap] * planned.found


@private_columns
@settings(max_examples=30, deadline=None)
def test_a_value_with_as_many_users_as_are_named_passes_in_95_of_100_draws(planned):
    assume(planned.keyed)
    share, delta = domaincosts.expected_keys(planned.schema, planned.costs)
    sigma, needed = domaincosts.users_needed(3, 0.5, share, delta)
    above = (needed - least_threshold(sigma, 3, delta)) / sigma
    passes = 1 - math.erfc(above / math.sqrt(2)) / 2
    assert sigma == pytest.approx(2 / math.sqrt(share), rel=1e-3)
    assert passes == pytest.approx(0.95, rel=1e-3)


@private_columns
@settings(max_examples=30, deadline=None)
def test_a_warning_says_when_values_need_far_more_users_than_in_a_table_of_their_own(planned):
    assume(planned.keyed)
    share, delta = domaincosts.expected_keys(planned.schema, planned.costs)
    all_of_it = domaincosts.MOST_DOMAINS - division.PER_DOMAIN
    own_delta = domaincosts.keys_delta(planned.costs, 1)
    alone = domaincosts.users_needed(planned.cap, 0.5, all_of_it, own_delta)[1]
    here = domaincosts.users_needed(planned.cap, 0.5, share, delta)[1]
    warning = domaincosts.crowding_warning(planned.schema, 0.5, planned.costs)
    assert bool(warning) == (here > domaincosts.CROWDING * alone)


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


class WithoutNoise:
    """A run without noise that finds every kind of private column: texts (`city`), dates as texts, whole
    numbers (`m`, `k`), clock times (`t`), numbers (`x`) and prices (`p`). Some values are null, and
    some of `t` are no clock times."""

    def __init__(self, users):
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
        nulls = {n: rng.random(size) < p for n, p in (("m", 0.2), ("k", 0.1), ("t", 0.002))}
        table = pa.table({n: pa.array(v, mask=nulls.get(n)) for n, v in made.items()})
        table = table.set_column(0, "city", table["city"].cast(pa.string()))
        days = [f"2024-03-{d:02}" for d in rng.integers(1, 29, size)]
        table = table.append_column("date", [days])
        columns = {
            "city": {"kind": "string", "domain": "private"},
            "date": {"kind": "any", "domain": "private"},
        }
        for n in "tmkxp":
            columns[n] = {"kind": "numeric", "dtype": str(table[n].type), "domain": "private"}
        columns["p"] |= {"digits": 2, "atoms": "private"}
        plain = {"columns": columns}
        if users:
            table = table.append_column("who", [np.arange(size) // 3])
            plain["user"] = {"column": "who"}
        self.users = users
        self.size = size
        self.made = made
        self.not_null = {n: ~nulls.get(n, np.zeros(size, bool)) for n in made}
        self.asked = Schema.from_dict(plain)
        with no_noise():
            self.schema, reserved = learn(table, self.asked, epsilon=3.0, seed=1)
        self.learnt = reserved.learnt

    def sigma(self, label):
        """The noise that the releases of this label would have had."""
        (sigma,) = {r["sigma"] for r in self.learnt.releases if r["label"] == label}
        return sigma


@pytest.fixture(scope="module", params=first(1, [False, True]))
def without_noise(request, quick):
    return WithoutNoise(users=request.param)


def test_every_release_of_a_private_domain_has_its_share_of_a_columns_mu2(without_noise):
    learnt = without_noise.learnt
    shares = {
        "domain 1": division.PARTITIONS[0],
        "domain 2": division.PARTITIONS[1],
        "domain of calendars": division.CALENDARS,
        "domain 3": division.PARTITIONS[2],
        "domain of clock times": division.CALENDARS,
        "domain of values not found": division.MISSING_VALUES,
        "values of city": division.FIRST_VALUES,
        "domain of kinds of text": division.KINDS_OF_TEXT,
    }
    if without_noise.users:
        shares["domain of rows per user"] = division.ROWS_PER_USER
    unit = domaincosts.column_mu(without_noise.asked, learnt.mu) ** 2
    labelled = [r for r in learnt.releases if r["label"] in shares]
    assert {r["label"] for r in labelled} == set(shares)
    for release in labelled:
        share = shares[release["label"]]
        assert release["event"]["mu"] ** 2 == pytest.approx(share * unit, rel=1e-6)
    assert [r["attributes"] for r in learnt.releases if r.get("of") == "digits"] == [["x"]]


def test_rows_outside_a_found_domain_are_the_rows_outside_it(without_noise):
    made = without_noise.made
    columns = without_noise.schema.columns
    inside = {"t": made["t"] != 1275, "m": np.ones(without_noise.size, bool)}
    for name in "kx":
        low, *_, high = columns[name].edges
        inside[name] = (made[name] >= low) & (made[name] < high)
    inside["city"] = np.isin(made["city"].astype(str), columns["city"].values)
    for name, there in inside.items():
        rows = without_noise.not_null[name]
        outside = (rows & ~there).sum() / rows.sum()
        assert without_noise.learnt.missing[name][0] == pytest.approx(outside, rel=2e-3)


def test_their_standard_error_is_that_of_the_cells_that_they_were_counted_in(without_noise):
    learnt = without_noise.learnt
    assert learnt.clip == (3 if without_noise.users else 1)
    for name, label in (("city", "domain of values not found"), ("t", "domain of clock times")):
        rows = without_noise.not_null[name].sum()
        error = without_noise.sigma(label) * learnt.clip / rows
        assert learnt.missing[name][1] == pytest.approx(error, rel=1e-3)


def test_a_found_column_keeps_nulls_where_rows_have_them(without_noise):
    columns = without_noise.schema.columns
    expected = {"t_hour": "drop", "m": "code", "k": "code", "x": "value", "city": "code"}
    assert {name: columns[name].null.action for name in expected} == expected


def test_nulls_that_noise_hides_take_no_rows_from_other_columns():
    """Of 202 countries, 18 columns with some nulls each left 64 rows: those of which no value is
    missing. A null that gets no code counts as a number near the median."""
    rng = np.random.default_rng(2)
    rows = rng.normal(100, 10, (400, 12))
    rows[rng.random(rows.shape) < 0.05] = np.nan
    whole = np.round(rows[:, 0])
    table = pa.table({f"c{i}": pa.array(c, from_pandas=True) for i, c in enumerate(rows.T)})
    table = table.append_column("n", pa.array(whole, from_pandas=True).cast(pa.int64()))
    run = fastdp.synthesize(
        table, "cliquetree", 8.0, 1e-6, domain="private", seed=3, progress=False
    )
    (count,) = run.answer("count").to_pylist()
    assert count["low"] <= 400 <= count["high"], "rows without a null are 400 * .95 ** 12 = 216"
    columns = run.schema.columns.values()
    hidden = [c for c in columns if c.null.action == "value"]
    assert hidden, "or this test says nothing"
    for column in hidden:
        assert column.code_of(column.null.value) is not None


def test_sums_inside_bins_of_a_column_whose_codes_are_all_numbers():
    """Nulls that count as a number and overflow at the nearest bound leave no code that is not
    asked about. Such a run ended after its charge: the query was over a level more."""
    column = {
        "kind": "numeric",
        "dtype": "float64",
        "edges": [0, 50, 500, 2000],
        "means": "private",
        "null": {"value": 50},
        "overflow": "clamp",
    }
    schema = fastdp.Schema.from_dict({"columns": {"a": column, "b": column}})
    draw = np.random.default_rng(1)
    table = pa.table({n: np.round(draw.lognormal(5, 1, 3000)) for n in "ab"})
    run = fastdp.synthesize(table, "cliquetree", 5.0, 1e-6, schema=schema, seed=1, progress=False)
    (mean,) = run.answer("mean(a)").to_pylist()
    true = np.clip(table["a"].to_numpy(), 0, 2000).mean()
    assert mean["low"] <= true <= mean["high"]


def test_what_is_found_without_noise_is_what_the_rows_have(without_noise):
    schema = without_noise.schema
    assert (schema.columns["m"].min, schema.columns["m"].max) == (1, 12)
    assert "texts read: 'date' as date32" in schema.provenance
    assert ("users have at most 3 rows" in schema.provenance) == without_noise.users
    assert schema.columns["p"].atoms == (9.99,)
    assert schema.columns["p"].digits == 2


def test_a_plan_states_the_noise_by_which_bounds_are_found(without_noise):
    learnt = without_noise.learnt
    planned = domain_lines(without_noise.asked, learnt.mu, learnt.costs, learnt.clip)
    noise = {line.column: line.sigma for line in planned if "bounds" in line.how}
    assert noise == {n: pytest.approx(without_noise.sigma("domain 3")) for n in "tmkxp"}


def test_means_of_bins_are_those_of_the_rows_without_noise(without_noise):
    """To the offsets, and what noise of 5 % of a bin's rows would have drawn them to its middle."""
    x = without_noise.schema.columns["x"]
    values = without_noise.made["x"]
    for low, high, mean in list(zip(x.edges, x.edges[1:], x.means))[1:-1]:
        own = values[(values >= low) & (values < high)]
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
    for at in range(0, total, 7):  # a step has three points: every kind of point is among them
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
