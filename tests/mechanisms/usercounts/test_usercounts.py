"""User counts: the query set, honest units, the collapse against a slow twin, post-processing,
outputs, bad input."""

import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st
from scipy.stats import norm

import fastdp
from fastdp.engines.local import local
from fastdp.errors import DataError, UsageError
from fastdp.measurement import Measurement
from fastdp.mechanisms.base import Job
from fastdp.mechanisms.shared.histogram_noise import HistogramNoise
from fastdp.mechanisms.usercounts import count_estimates, group_cells as cells_of
from fastdp.mechanisms.usercounts.mechanism import UserCounts
from fastdp.public.data import PublicTable
from fastdp.release.histogram_plan import plan_users
from fastdp.run.plan import plan
from fastdp.significance import spread_beyond_noise
from tests.reference import usercounts as slow

COLUMNS = ["area", "year", "month", "type"]
DELTA = 1.2244e-11


def schema(
    user="who", areas=4, years=(2018, 2019), types=3, months=range(1, 13), bound=20, **policy
):
    lists = {"area": range(areas), "type": range(types), "year": years, "month": months}
    policy = {"null": "drop", "overflow": "drop"} | policy
    columns = {
        name: {"kind": "categorical", "dtype": "int16", "values": list(values), **policy}
        for name, values in lists.items()
    }
    plain = {"fastdp": 1, "name": "calls", "columns": columns}
    if user is not None:
        plain["user"] = {"column": user, "null": "drop", "max_rows": bound}
    return fastdp.Schema.from_dict(plain)


def calls(rows=400, seed=0, users=60, areas=4, years=(2018, 2019), types=3, months=(1, 12)):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "who": rng.integers(0, users, rows),
            "area": rng.integers(0, areas, rows),
            "year": rng.choice(years, rows),
            "month": rng.integers(months[0], months[1] + 1, rows),
            "type": rng.integers(0, types, rows),
        }
    )


def read(frame, s, public=False):
    return fastdp.read(pa.Table.from_pandas(frame, preserve_index=False), s, public=public)


class ExactSession:
    """Test mode: the engine's own counts, without noise."""

    def __init__(self, table, cap=None):
        self.engine = local(table, 1)
        self.schema = table.schema
        self.domain = table.schema.domain
        self.pure = 1.0
        self.mu = 1.0
        self.cap = cap
        self.asked = []

    def user_histogram(self, key, cap=1, *, mu=None, epsilon=None, label):
        self.asked.append((key, cap, mu, epsilon))
        counts = self.engine.user_histogram(
            key.bind(self.domain), cap if self.cap is None else self.cap
        )
        return Measurement((label,), counts.astype(float), 1e-6, label=label)


def job(s, public=None, **more):
    return Job(
        schema=s,
        epsilon=1.0,
        fit=None,
        public=None if public is None else PublicTable(public),
        **more,
    )


def run(session, j, **fields):
    fields = {"noise": "laplace"} | fields
    return UserCounts(**fields).resolved(j.schema, 1.0, DELTA).run(session, j)


# The query set and the collapse, against the slow twin


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    rows=st.integers(1, 60),
    months=st.integers(0, 4),
    t_max=st.sampled_from([None, 2, 3]),
)
def test_query_set_and_collapse_are_those_of_the_slow_twin(seed, rows, months, t_max):
    s = schema()
    public = calls(rows, seed, users=9)
    private = calls(300, seed + 1, users=30)
    j = job(s, read(public, s, public=True))
    config = UserCounts(
        columns=tuple(COLUMNS), kind="type", months=months, t_max=t_max, noise="laplace"
    )
    config = config.resolved(s, 1.0, DELTA)
    asked = config.query_set(j)
    twin = slow.cells(public, COLUMNS, "who", {2018, 2019}, months, t_max=t_max)
    codes = np.unravel_index(asked.cells // asked.t_max, asked.shape)
    t = asked.cells % asked.t_max + 1
    cells = set(zip(codes[0], codes[1] + 2018, codes[2] + 1, codes[3], t, strict=True))
    assert {tuple(int(v) for v in c) for c in cells} == twin

    outcome = config.run(ExactSession(read(private, s)), j)
    # With a bound, the engine counts more than t_max rows as t_max; the twin does not.
    if t_max is None:
        capped = private.groupby(["who", *COLUMNS]).head(asked.t_max)
        want = slow.histogram(capped, COLUMNS, "who", twin)
        area, year, month, kind = (outcome.rows.shard(0)[c] for c in outcome.rows.columns)
        made = zip(zip(area, year.astype(int) + 2018, month + 1, kind), outcome.counts(0))
        assert dict(made) == want


# Units


@pytest.mark.parametrize("method", ["clip", "hierarchy"])
def test_removing_one_user_changes_a_whole_run_by_the_cap_at_most(method):
    s = schema()
    private = calls(600, 4, users=30)
    public = calls(100, 5)
    fields = {"mechanism": "usercounts", "method": method, "cap": 4, "noise": "laplace"}
    both = [
        fastdp.synthesize(
            read(f, s), fields, 1.0, DELTA, public=read(public, s, True), seed=3
        ).measurements
        for f in (private, private[private["who"] != 7])
    ]
    assert len(both[0]) == (1 if method == "clip" else 4)
    for one, other in zip(*both, strict=True):
        change = one.values - other.values
        assert set(change.tolist()) == {0.0, 1.0}
        assert change.sum() <= (1 if one.label == "rows per user" else 4)


@pytest.mark.parametrize("cap", [1, 5, 20, 200])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 10.0])
@pytest.mark.parametrize("delta", [0.0, 1e-11, 1e-3])
def test_the_law_with_less_variance_is_taken(cap, epsilon, delta):
    s = schema(bound=cap)
    config = UserCounts().resolved(s, epsilon, delta)
    laplace = math.sqrt(2) * cap / epsilon
    gaussian = math.inf
    if delta:
        gaussian = fastdp.calibrate(epsilon, delta, math.sqrt(cap))
    if abs(laplace / gaussian - 1) > 0.02:
        assert config.noise == ("laplace" if laplace < gaussian else "gaussian")
    assert config.cap == cap and config.pure == (config.noise == "laplace")


@pytest.mark.parametrize(("pure", "whole"), [(True, 1.5), (False, 0.4)])
def test_a_histogram_costs_its_share_and_has_the_noise_that_is_said(pure, whole):
    def histogram(key, cap, *, label, mu=None, epsilon=None):
        return plan_users(cap, mu, epsilon)

    asked = SimpleNamespace(user_histogram=histogram)
    noise = HistogramNoise(pure, 5, whole)
    event, _, sigma, _ = noise.ask(asked, None, 0.3, "x")
    assert (event.epsilon / whole if pure else (event.mu / whole) ** 2) == pytest.approx(0.3)
    assert noise.std(0.3) == pytest.approx(sigma)


# Post-processing


def crossed(seed=0, places=12, times=6, kinds=5):
    """Counts of places x times x kinds that are a product up to Poisson noise, as flat groups with
    their levels."""
    rng = np.random.default_rng(seed)
    shape = (places, times, kinds)
    mean = 40 * rng.gamma(1, 1, (places, 1, kinds)) * rng.gamma(8, 1 / 8, (1, times, kinds))
    truth = rng.poisson(mean).astype(float).reshape(-1)
    groups = np.arange(truth.size)
    cells = cells_of.Cells(("place", "time", "kind"), shape, 1)
    from fastdp.mechanisms.usercounts.mechanism import level_of

    return rng, truth, [level_of(cells, groups, c) for c in (("time", "kind"), ("place", "kind"))]


def test_the_hierarchy_is_consistent_and_better_than_clipping():
    rng, truth, levels = crossed()
    noisy = truth + rng.normal(0, 30, truth.size)
    measured = []
    for level in levels:
        sums = np.bincount(level.at, weights=truth)
        measured.append(level.measured(sums + rng.normal(0, 30, sums.size), 900.0))
    x, variance = count_estimates.hierarchy(noisy, 900.0, measured)
    assert (x >= 0).all()
    # What is known beforehand can only help.
    assert (0 <= variance).all() and (variance <= 900).all()

    def error(estimate):
        return float(np.abs(estimate - truth).sum())

    assert error(x) < 0.6 * error(np.maximum(noisy, 0))
    assert error(x) < error(count_estimates.hierarchy(noisy, 900.0, levels)[0])
    by_time = np.bincount(levels[0].at, weights=x)
    assert by_time == pytest.approx(np.bincount(levels[0].at, weights=truth), abs=5 * 30)
    kinds = [np.bincount(lv.codes[1][lv.at], weights=x) for lv in levels]
    assert kinds[0] == pytest.approx(kinds[1], rel=1e-9)


def test_public_people_are_counted_once_per_group():
    s = schema()
    public = calls(300, 8, users=20)
    groups = np.arange(0, 4 * 2 * 12 * 3, 2)
    people = cells_of.public_people(PublicTable(read(public, s, True)), s, COLUMNS, groups)
    want = public.groupby(COLUMNS)["who"].nunique()
    flat = {((a * 2 + y - 2018) * 12 + m - 1) * 3 + i: n for (a, y, m, i), n in want.items()}
    assert people.tolist() == [flat.get(g, 0) for g in groups.tolist()]


# Outputs


@pytest.mark.parametrize("public", [True, False])
def test_events_have_people_within_the_bound(public):
    s = schema(bound=5)
    private = calls(4000, 1, users=2000)
    got = fastdp.synthesize(
        read(private, s),
        {"mechanism": "usercounts", "method": "hierarchy", "output": "events", "cap": 2},
        5.0,
        1e-6,
        public=read(calls(800, 2, users=400), s, True) if public else None,
        seed=1,
        sample_seed=1,
    ).data.to_pandas()
    assert abs(len(got) - 4000) < 800
    sizes = got.groupby("who").size()
    assert 800 < len(sizes) and (public or sizes.max() <= 5)


def test_rows_asked_for_are_made():
    s = schema()
    for method in ("clip", "hierarchy"):
        got = fastdp.synthesize(
            read(calls(), s),
            {"mechanism": "usercounts", "method": method},
            5.0,
            1e-6,
            rows=1234,
            seed=2,
        )
        assert got.data["count"].to_numpy().sum() == 1234


@pytest.mark.parametrize("delta", [0.0, DELTA, 1e-2])
@pytest.mark.parametrize("method", ["clip", "hierarchy"])
def test_the_plan_is_what_the_run_does(delta, method):
    s = schema()
    fields = {"mechanism": "usercounts", "method": method, "cap": 3}
    planned = plan(s, fields, 1.0, delta, rows=10_000_000)
    done = fastdp.synthesize(read(calls(), s), fields, 1.0, delta, seed=2).privacy["parts"][0][
        "releases"
    ]
    done = [r for r in done if r["label"] != "rows per user"]
    assert [ln.sigma for ln in planned.lines] == pytest.approx([r["sigma"] for r in done], rel=1e-6)
    assert [ln.cells for ln in planned.lines] == [r["count"] for r in done]


# Bad input


def test_empty_public_data_is_a_data_error():
    s = schema()
    for nothing in (calls(0), calls(30).assign(year=1999)):
        with pytest.raises(DataError, match="no row of the public data fits"):
            fastdp.synthesize(
                read(calls(), s),
                {"mechanism": "usercounts"},
                1.0,
                DELTA,
                public=read(nothing, s, True),
            )


def test_units_that_cannot_be_promised_are_refused():
    frame = calls().drop(columns="who")
    s = schema(user=None)
    with pytest.raises(UsageError, match="needs a user column"):
        fastdp.synthesize(read(frame, s), {"mechanism": "usercounts"}, 1.0, DELTA)
    with pytest.raises(UsageError, match="needs a user column"):
        plan(s, "usercounts", 1.0, DELTA, rows=10_000_000)
    event = {"mechanism": "usercounts", "unit": "event"}
    for method in ("clip", "hierarchy"):
        for public in (None, read(frame, s, True)):
            done = fastdp.synthesize(
                read(frame, s), event | {"method": method}, 20.0, DELTA, public=public, seed=1
            )
            assert done.privacy["unit"]["kind"] == "row"
            notes = " ".join(done.privacy["notes"])
            assert (
                "rows in n groups epsilon is n times" in notes and "counts in at most" not in notes
            )
            assert abs(done.data["count"].to_numpy().sum() - len(frame)) < 60
    with pytest.raises(UsageError, match="delta above 0"):
        fastdp.synthesize(
            read(calls(), schema()), {"mechanism": "usercounts", "noise": "gaussian"}, 1.0, 0.0
        )
    bound = schema()
    free = SimpleNamespace(
        user="who", max_rows_per_user=None, domain=bound.domain, columns=bound.columns
    )
    with pytest.raises(UsageError, match="set `cap`"):
        UserCounts().resolved(free, 1.0, DELTA)


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.floats(0, 40)), min_size=1, max_size=12),
    st.lists(st.floats(0, 60), min_size=3, max_size=3),
    st.floats(0.1, 9),
    st.floats(0.1, 9),
    st.sampled_from([1.0, 0.01]),
)
def test_a_total_is_the_mean_by_precision_of_both(groups, answers, variance, own, size):
    """What was measured is first brought to the groups' sum; sums below 1 count as 1."""
    at = np.array([g for g, _ in groups])
    fine = size * np.array([x for _, x in groups])
    level = count_estimates.Level(("a",), np.arange(len(at)), at, (np.arange(3),))
    plain, around = level.estimate(fine, variance)
    asked = size * np.array(answers)
    totals, errors = level.measured(asked, own).estimate(fine, variance)
    factor = max(1.0, fine.sum()) / max(1.0, asked.sum())
    for k in range(3):
        here = [x for g, x in zip(at, fine) if g == k]
        assert plain[k] == pytest.approx(sum(here)) and around[k] == pytest.approx(
            len(here) * variance
        )
        if not here:
            continue
        weights = 1 / (len(here) * variance), 1 / (own * factor**2)
        mean = (weights[0] * sum(here) + weights[1] * asked[k] * factor) / sum(weights)
        assert totals[k] == pytest.approx(mean) and errors[k] == pytest.approx(1 / sum(weights))


@given(st.integers(0, 1000), st.sampled_from([0.0, 1.0, 1.7]), st.sampled_from([2.0, 60.0, None]))
def test_counts_are_shrunk_by_the_spread_that_the_answers_show(seed, poisson, variance):
    """Of a count with prior mean p and variance poisson p + rho p^2, the best linear estimate; no
    rho nearby is likelier."""
    rng = np.random.default_rng(seed)
    prior = rng.uniform(1, 50, 6)
    answers = prior * rng.gamma(4, 0.25, 6) + rng.normal(0, 3, 6)
    # Of public counts: their own Poisson noise.
    noise = prior if variance is None else np.full(6, variance)
    known = noise + poisson * prior
    rho = spread_beyond_noise(answers - prior, known, prior**2)
    spread = poisson * prior + rho * prior**2
    best = np.maximum(0, (answers * spread + prior * noise) / (spread + noise))
    assert count_estimates.shrink(answers, noise, prior, poisson) == pytest.approx(best)
    near = np.array([rho * 0.98, rho, rho * 1.02 + 1e-6])[:, None]
    whole = known + near * prior**2
    likely = -(np.log(whole) + np.square(answers - prior) / whole).sum(axis=1)
    assert likely.argmax() == 1 or np.ptp(likely) < 1e-4


@given(st.integers(0, 1000), st.floats(0.01, 0.9), st.floats(0.01, 0.5))
def test_large_shares_stay_only_where_the_true_count_is_surely_that_large(seed, share, rate):
    """By a normal distribution around the count, of the noise's variance and that of a Poisson
    count."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 60, 40)
    variance = rng.uniform(0, 50, 40)
    block = rng.integers(0, 3, 40)
    made = count_estimates.hold_back(counts.astype(float), variance, block, share, rate)
    for count, spread, b, kept in zip(counts, variance, block, made, strict=True):
        bar = share * counts[block == b].sum()
        sure = norm.cdf(count, bar, math.sqrt(spread + count * (1 - share) + 1e-9)) >= 1 - rate
        assert kept == (count if sure else min(count, max(math.ceil(bar) - 1, 0)))
