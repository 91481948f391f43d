"""Sums inside bins: what one user can change, in exact integers; what the means are made of.

The engine counts a finer partition of each column, and a query of whole numbers turns the counts
into sums. So the sensitivity is tested on the very integers that noise is added to.
"""

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st
from scipy.stats import norm

import fastdp
from fastdp.codec.encode import encode_batch
from fastdp.engines.local import local
from fastdp.errors import MeasurementError, PrivacyError
from fastdp.measurement import SCALE, Measurement, Request
from fastdp.queries import Sparse
from fastdp.release import sums
from fastdp.release.domaincosts import DomainCosts
from fastdp.release.marginal_plan import plan_marginal
from fastdp.run.plan_domain import domain_lines
from fastdp.schema import Schema
from fastdp.tables.ingest import read
from tests.tiers import first

COLUMNS = {
    "hours": {"dtype": "int64", "edges": [1, 20, 30, 50, 100], "atoms": [40]},
    "price": {"digits": 2, "edges": [0, 2, 5, 10, "inf"], "max": 5000, "overflow": "clamp"},
    "float": {"edges": [-5, 0, 0.5, 300], "overflow": "clamp"},
    "open": {"edges": ["-inf", 0, 1, "inf"], "min": -100},
    "money": {"dtype": "decimal128(10, 2)", "edges": [0, 1, 1000], "atoms": [0], "null": "drop"},
}


def column_of(plain):
    return Schema.from_dict({"columns": {"x": {"kind": "numeric", **plain}}}).columns["x"]


@pytest.mark.parametrize("plain", COLUMNS.values(), ids=COLUMNS)
def test_cells_refine_the_bins_and_offsets_are_places_in_them(plain):
    column = column_of(plain)
    cells = sums.cells_of(column)
    fine = cells.column
    assert set(column.edges) <= set(fine.edges)
    for code, (a, b) in enumerate(pairwise(fine.edges)):
        corner = cells.corner[code]
        if corner < 0:
            continue
        bin = cells.bin[corner]
        assert (
            column.edges[bin] <= a and b <= column.edges[bin + 1] and bin == cells.bin[corner + 1]
        )
        low, high = cells.at[corner : corner + 2]
        number = low + cells.offset[code] * (high - low)
        slack = (high - low) / sums.UNIT
        assert max(a, low) - slack <= number <= min(b, high) + slack
        unit = float(sums.unit_of(column.dtype, column.whole, column.digits) or 0)
        assert min(b, high) - max(a, low) <= ((high - low + unit) / sums.PARTS + unit) * (1 + 1e-9)
    for mine, own in ((fine.null, column.null), (fine.overflow, column.overflow)):
        assert mine == (sums.OWN_CODE if own.action == "drop" else own), (
            "dropped rows are counted apart"
        )
    for code, side in (
        (0, -1),
        (column.base - 1, 1),
    ):  # corners of a wide outer bin: distances double
        at = cells.at[cells.bin == code]
        beside = cells.at[cells.bin == code - side]
        if len(at) > 2:
            away = np.abs(at[::side] - at[::side][0])[1:]
            width = np.ptp(at)
            assert away[0] == pytest.approx(max(np.ptp(beside), width / 1024), abs=1)
            assert away[1:-1] == pytest.approx(2 * away[:-2], abs=1)
            assert width / 3 <= away[-2] + 1 and away[-2] < width / 1.5
    assert ((0 <= cells.offset) & (cells.offset <= 1)).all()
    assert all(cells.query(unit).column_norm2() <= 1 for unit in (8, 16, 32, 64))


def test_an_open_bin_without_a_bound_is_not_asked_about():
    assert sums.cells_of(column_of({"edges": [0, 1, "inf"]})).bin.tolist() == [0, 0]
    assert sums.cells_of(column_of({"edges": [0, 1, "inf"], "max": 9})).at.max() == 9


def planted(cells, bug):
    """The query with a bug that makes one row count for more than its weight."""
    matrix = cells.query().matrix.tolil()
    if bug == "offset above 1":
        matrix[0, int(np.flatnonzero(cells.corner == 0)[-1])] = sums.UNIT + 1
        return Sparse(matrix.tocsr(), sums.UNIT)
    if bug == "both ends":
        code = int(np.flatnonzero(cells.corner == 0)[-1])
        matrix[0, code] = matrix[1, code] = sums.UNIT
        return Sparse(matrix.tocsr(), sums.UNIT)
    # "unit": sums claimed in units that are too large.
    return Sparse(cells.query().matrix, sums.UNIT // 2)


@pytest.mark.parametrize("bug", ["offset above 1", "both ends", "unit"])
def test_planted_bugs_are_refused_before_anything_is_drawn(bug):
    cells = sums.cells_of(column_of(COLUMNS["price"]))
    domain = with_users([cells.column]).domain
    plan_marginal(domain, 3, Request(("x",), 1.0, cells.query()))
    with pytest.raises((PrivacyError, MeasurementError)):
        plan_marginal(domain, 3, Request(("x",), 1.0, planted(cells, bug)))


def with_users(columns):
    plain = {f"x{i}" if i else "x": c.to_plain() for i, c in enumerate(columns)}
    return Schema.from_dict({"columns": plain, "user": {"column": "who", "max_rows": 50}})


def counted(schema, cells, who, values, clip):
    table = read(pa.table({"who": who, "x": values}), schema)
    return cells.query().product(local(table).marginals([("x",)], clip)[("x",)].reshape(-1))


@pytest.mark.parametrize("clip", [1, 3])
@pytest.mark.parametrize("name", ["hours", "price", "float"])
def test_one_user_changes_the_sums_by_at_most_the_clip(name, clip):
    """Whatever the user's rows are: their number, and values far beyond every bound. A weight that
    is ignored would show with twelve rows, an observed maximum with the value 10^9."""
    column = column_of(COLUMNS[name])
    cells = sums.cells_of(column)
    schema = with_users([cells.column])
    rng = np.random.default_rng(7)
    whole = column.whole

    def numbers(n):
        drawn = rng.choice([rng.exponential(30, n), np.full(n, 1e9), np.full(n, 40.0)], axis=0)
        return np.floor(drawn).astype(np.int64) if whole else drawn

    for rows, same in ((1, False), (2, False), (12, False), (12, True)):
        others = numbers(200)
        own = numbers(rows)
        if same:
            own[:] = 35
        who = np.concatenate([rng.integers(0, 60, 200), np.full(rows, 99)])
        every = np.concatenate([others, own])
        change = counted(schema, cells, who, every, clip) - counted(
            schema, cells, who[:200], others, clip
        )
        squared = sum(int(v) ** 2 for v in change)
        bound = (clip * SCALE * sums.UNIT) ** 2
        assert squared <= bound
        # All rows in one cell: (1 - o)^2 + o^2 is at least 1/2, and weights are rounded down.
        if same:
            assert squared >= Fraction(49, 100) * bound


@pytest.mark.parametrize("name", ["hours", "price", "float", "money"])
def test_without_noise_means_are_those_of_the_rows(name):
    """Offsets are exact to a part of PARTS of the stretch that a row lies in."""
    column = column_of(COLUMNS[name])
    cells = sums.cells_of(column)
    rng = np.random.default_rng(3)
    values = np.round(np.abs(rng.standard_t(2, 30_000)) * 8, 2)
    values = np.floor(values) + 1 if column.whole else values
    values = values[values < 250]
    array = pa.array(values.astype(np.int64) if column.whole else values)
    if "decimal" in column.dtype:
        array = array.cast(pa.decimal128(20, 2), safe=False)
    codes, _ = encode_batch(
        Schema.from_dict({"columns": {"x": column.to_plain()}}), pa.table({"x": array})
    )
    fine, _ = encode_batch(
        Schema.from_dict({"columns": {"x": cells.column.to_plain()}}), pa.table({"x": array})
    )
    answers = cells.query().product(np.bincount(fine["x"], minlength=cells.column.size))
    answers = Measurement(("x",), answers.astype(float), 1e-3, cells.query())
    means, rows = cells.means(answers)
    numbers = np.array([float(v) for v in array.to_pylist()])
    for code in np.unique(cells.bin):
        own = numbers[codes["x"] == code]
        if len(own):
            widest = np.diff(cells.at[cells.bin == code]).max()
            assert abs(rows[code] - len(own)) < 1e-6 * len(own) + 0.01
            assert abs(means[code] - own.mean()) <= widest / sums.PARTS


TAILS = {
    "exponential": lambda rng: 10 + rng.exponential(20, 20_000),
    "light": lambda rng: 10 + rng.gamma(2, 3, 20_000),
    "lognormal": lambda rng: 10 + rng.lognormal(2.5, 1, 20_000),
    "one far value": lambda rng: np.append(10 + rng.exponential(5, 19_000), np.full(1_000, 190.0)),
}


@pytest.mark.parametrize("name", TAILS)
def test_tails_keep_their_means_and_do_not_depend_on_the_bound(name):
    """Noise of 0.25 % of the tail's rows on every corner. A bound that is a hundred times larger
    would make the noise of the bin's whole sum half of its mean, or more; here it moves the mean by
    10 % at most."""
    rng = np.random.default_rng(5)
    values = TAILS[name](rng)
    for bound in (200, 20_000):
        column = column_of({"edges": [0, 10, "inf"], "max": bound, "overflow": "clamp"})
        cells = sums.cells_of(column)
        schema = Schema.from_dict({"columns": {"x": cells.column.to_plain()}})
        codes, _ = encode_batch(schema, pa.table({"x": values}))
        exact = cells.query().product(np.bincount(codes["x"], minlength=cells.column.size))
        found = [
            cells.means(Measurement(("x",), noisy, 50 * sums.UNIT, cells.query()))[0][1]
            for noisy in exact + rng.normal(0, 50 * sums.UNIT, (40, len(exact)))
        ]
        true = np.minimum(values, bound).mean()
        assert abs(np.mean(found) / true - 1) < 0.1
        assert np.std(found) < 0.1 * true


@pytest.mark.parametrize("shape", sums.SHAPES)
def test_corners_share_a_tail_by_the_place_of_its_rows(shape):
    """Slow twin: the density summed over many places, each divided between its two corners. Answers
    without noise are kept, whatever tails were expected: rows and mean distance are those of the
    answers."""
    ends = np.array([0.0, 1, 3, 7])
    scales = np.array([0.7, 2.0])
    x = (np.arange(400_000) + 0.5) / 400_000 * ends[-1]
    for scale, made in zip(scales, sums._pareto(ends, scales, shape)):
        z = x / scale
        density = (1 + shape * z) ** (-1 / shape - 1) if shape else np.exp(-z)
        parts = (
            np.array([np.interp(x, ends, corner) @ density for corner in np.eye(4)]) / density.sum()
        )
        assert made == pytest.approx(parts, abs=1e-6)
        assert sums.tail_mean(ends, 500 * parts, 1e-4) == pytest.approx(
            (parts @ ends, 500), rel=1e-4
        )


def slow_tail(ends, parts, sigma):
    """The mean over tails, each weighted by its prior and by the likelihood of the parts, one by
    one."""
    seen = []
    for shape, chance in sums.SHAPES.items():
        for length in (2.0 ** (n / 4) for n in range(-12, 21)):
            tail = sums._pareto(ends, np.array([length * ends[1]]), shape)[0]
            rows = max((tail * parts).sum() / (tail * tail).sum(), sigma)
            prior = norm.pdf(math.log(length), math.log(sums.LENGTH), sums.LENGTHS) * chance
            likely = math.log(prior) + norm.logpdf(parts, rows * tail, sigma).sum()
            kept = []
            for part, expected in zip(parts, rows * tail):
                spread = max(
                    (sums.MISFIT * expected) ** 2, (part - expected) ** 2 - (sums.FAR * sigma) ** 2
                )
                trust = spread / (spread + sigma**2)
                kept.append(max(trust * part + (1 - trust) * expected, 1e-9 * sigma))
            seen.append((likely, np.average(ends, weights=kept), sum(kept)))
    weights = np.exp(np.array([s[0] for s in seen]) - max(s[0] for s in seen))
    return (
        math.exp(np.average([math.log(s[1]) for s in seen], weights=weights)),
        np.average([s[2] for s in seen], weights=weights),
    )


@given(st.lists(st.floats(-20, 200), min_size=3, max_size=5), st.sampled_from([0.5, 8.0, 60.0]))
@settings(max_examples=10, deadline=None)
def test_the_mean_of_a_tail_is_that_of_the_slow_twin(parts, sigma):
    ends = np.array([0.0, *np.cumsum(2.0 ** np.arange(len(parts) - 1))])
    assert sums.tail_mean(ends, np.array(parts), sigma) == pytest.approx(
        slow_tail(ends, np.array(parts), sigma)
    )


@given(st.lists(st.floats(-20, 200), min_size=4, max_size=4), st.sampled_from([0.5, 8.0, 60.0]))
def test_means_within_bins_are_drawn_to_the_middle_by_their_noise(parts, sigma):
    """Of a bin of two corners: the prior of a bin's mean is a Gaussian of SPREAD widths about the
    middle, the noise of the place sigma / sqrt(2) rows. Levels are halves of half a bin from the
    mean."""
    cells = sums.cells_of(column_of({"edges": [2, 4, 7]}))
    answer = Measurement(("x",), 64 * np.array(parts), 64 * sigma, cells.query())
    means, rows = cells.means(answer)
    for (low, high), (a, b), mean, counted in zip(
        ((2, 4), (4, 7)), (parts[:2], parts[2:]), means, rows
    ):
        assert counted == pytest.approx(max(a + b, sigma))
        noise = sigma / math.sqrt(2) / counted
        seen = 0.5 + (b - a) / 2 / counted
        place = np.average([seen, 0.5], weights=[noise**-2, sums.SPREAD**-2])
        assert mean == pytest.approx(low + (high - low) * min(1, max(0, place)))
    fine = cells.column.edges
    for code, level in enumerate(cells.levels(means)[: len(fine) - 1]):
        bin = int(fine[code] >= 4)
        middle = (fine[code] + fine[code + 1]) / 2
        away = (middle - means[bin]) / (2, 3)[bin]
        assert abs(level - 2 - min(2, max(-2, 4 * away))) <= 0.5 + 1e-9
    assert (cells.levels(means)[len(fine) - 1 :] == sums.LEVELS).all()


def test_ranks_are_shared_with_the_column_that_most_correlation_leads_to():
    """Even values that are equal in both columns have a product of 3/8 of 4 a row: a correlation of
    1."""
    found = {n: (np.zeros(2), np.array([600.0, 400.0])) for n in "abc"}
    alike = {("a", "b"): 0.9, ("a", "c"): 0.5, ("b", "c"): 0.2}

    def ranks(sigma):
        answers = [Measurement(c, np.array([1500.0 * s]), sigma) for c, s in alike.items()]
        return {
            n: (r.like, round(r.share, 6)) for n, r in sums.shared_ranks(answers, found).items()
        }

    assert ranks(1.0) == {"b": ("a", 0.9), "c": ("a", 0.5)}
    # `c` is within three standard errors of none.
    assert ranks(1500 * 0.5 / 3 * 1.01) == {"b": ("a", 0.9)}
    alike["a", "b"] = alike["a", "c"] = -1.0
    assert ranks(1.0) == {"c": ("b", 0.2)}
    asked = sums.rank_requests(dict.fromkeys("abc", np.arange(sums.LEVELS + 1)), 0.3)
    assert (
        sum(r.mu**2 for r in asked) == pytest.approx(0.09) and len({r.clique for r in asked}) == 3
    )
    assert all(r.query.column_norm2() == 1 for r in asked)
    # Levels of rows that are not asked about are last.
    rows = np.random.default_rng(1).integers(0, 9, (6, 6))
    away = [-2, -1, 0, 1, 2, 0]
    assert asked[0].query.product(rows.reshape(-1)) == [
        sum(rows[i, j] * away[i] * away[j] for i, j in np.ndindex(6, 6))
    ]
    assert [
        sums.unit_for(1, mu) for mu in (2.0**-13, 0.999 * 2.0**-13, 2.0**-15, 2.0**-16, 2.0**-17)
    ] == [
        64,
        32,
        16,
        8,
        0,
    ]


@pytest.mark.parametrize(
    "more, public",
    [({}, [5.0, 20.0]), ({"dtype": "int64"}, [4.5, 20.0]), ({"tail": {"mean": 3}}, [5.0, 13.0])],
)
def test_bins_without_an_answer_keep_their_public_mean(more, public):
    """The middle of a bin; of an open one the edge plus the tail's mean, by default the next bin's
    width."""
    column = column_of({"edges": [0, 10, "inf"], "max": 1000, **more})
    assert sums.finished(column, np.full(2, np.nan), None, None).means == pytest.approx(public)
    assert sums.finished(column, np.array([3.0, 2000.0]), None, None).means == (3.0, 1000.0)


def test_steps_are_shares_of_the_rows_in_wide_bins():
    """Rows at an atom are not counted: their bin has no steps. Of the rest, the share of multiples
    of 5 is known exactly without noise; classes that even values have by themselves are not kept.
    """
    column = column_of({"dtype": "int64", "edges": [0, 30, 50, 100], "atoms": [40]})
    cells = sums.cells_of(column)
    steps = sums.steps_of(column)
    values = np.concatenate(
        [np.full(5000, 40), np.tile([5, 15, 35, 95], 600), np.arange(100).repeat(16)]
    )
    fine = Schema.from_dict({"columns": {"x": cells.column.to_plain(), "s": steps.to_plain()}})
    codes, _ = encode_batch(fine.select(["x"]), pa.table({"x": values}))
    of_steps = Schema.from_dict({"columns": {"s": {**steps.to_plain(), "source": "x"}}})
    classes, _ = encode_batch(of_steps, pa.table({"x": values}))
    levels = cells.levels(np.full(column.base, 40.0))[codes["x"]]
    shape = (sums.LEVELS + 1, steps.size)
    counts = np.bincount(
        np.ravel_multi_index((levels, classes["s"]), shape), minlength=np.prod(shape)
    )
    query = sums.step_request("x", cells.levels(np.full(column.base, 40.0)), steps, 1.0).query
    assert query.column_norm2() == 1
    answer = Measurement(("x", "s"), query.product(counts).astype(float), 1e-3)
    (grid,) = sums.shares_of_steps(column, steps, answer)
    inside = values[values != 40]
    assert (grid.step, grid.at) == (10, 5)
    assert grid.share == pytest.approx(np.mean(inside % 10 == 5), abs=1e-6)
    # Floats that are not rounded have no steps.
    assert sums.steps_of(column_of({"edges": [0, 1]})) is None


def frame(rows=30_000):
    rng = np.random.default_rng(11)
    x = np.round(rng.lognormal(2, 1, rows), 2)
    return pa.table(
        {"who": np.arange(rows), "x": x, "y": np.round(3 * x + rng.normal(0, 0.1, rows), 2)}
    )


def private_means(domain):
    own = {
        "x": {"edges": [0, 3, 6, 12, "inf"], "max": 400},
        "y": {"edges": [-9, 9, 18, 36, "inf"], "max": 1200},
    }
    more = {"domain": "private"} if domain else {"means": "private"}
    plain = {
        n: {"kind": "numeric", "digits": 2, **({} if domain else c), **more} for n, c in own.items()
    }
    return Schema.from_dict({"columns": plain, "user": {"column": "who", "max_rows": 1}})


@pytest.mark.parametrize("domain", first(1, [False, True]), ids=["public bins", "private bins"])
def test_a_run_keeps_means_and_ranks_and_states_what_they_cost(domain, tmp_path):
    """Means within 5 % at epsilon 1 (8 % where the bound of the tail is found as well), where even
    bins give 12 % too much or too little; columns with matching bins share their ranks; the
    statement lists the sums; the folder verifies; answers are much narrower than the tail's bin,
    which reaches to 30 times the mean."""
    table = frame()
    run = fastdp.synthesize(
        table, schema=private_means(domain), epsilon=1.0, delta=1e-6, out=tmp_path / "run", seed=1
    )
    made = run.to_arrow()
    for name in ("x", "y"):
        true = np.mean(table[name].to_numpy())
        own = np.nanmean(made[name].to_numpy())
        assert abs(own / true - 1) < (0.08 if domain else 0.05)
    assert domain or any(c.rank is not None for c in run.schema.columns.values())
    stated = [r for r in run.privacy["parts"][0]["releases"] if r.get("of") == "sums"]
    assert [r["attributes"] for r in stated] == [["x"], ["y"]]
    assert all(r["sensitivity"] == r["clip"] for r in stated)
    costs = DomainCosts.of(private_means(domain), 1e-6)
    mu = run.privacy["parts"][0]["event"]["mu"]
    lines = [d for d in domain_lines(private_means(domain), mu, costs, 1) if "sums" in d.how]
    assert [line.sigma * sums.UNIT for line in lines] == pytest.approx(
        [r["sigma"] for r in stated], rel=1e-6
    )
    assert fastdp.verify(tmp_path / "run").problems == ()
    for name in ("x", "y"):
        answer = run.answer(f"mean({name})").to_pylist()[0]
        true = np.mean(table[name].to_numpy())
        # Values beyond a found bound are clamped.
        assert domain or answer["low"] <= true <= answer["high"]
        assert answer["high"] - answer["low"] < 0.6 * true


@pytest.mark.parametrize("domain", first(1, [False, True]), ids=["public bins", "private bins"])
def test_frequent_values_are_found_and_kept(domain, tmp_path):
    """Three prices of 8 % of the users each, far above the threshold; all other prices are rarer
    than one in a thousand. A bin of 10 would hold a price by chance in .1 % of its rows."""
    rng = np.random.default_rng(2)
    rows = 20_000
    frequent = [4.99, 9.99, 20.0]
    price = np.where(
        rng.random(rows) < 0.24, rng.choice(frequent, rows), np.round(rng.uniform(1, 40, rows), 2)
    )
    own = {"domain": "private"} if domain else {"edges": [0, 10, 20, 50]}
    plain = {"kind": "numeric", "digits": 2, "atoms": "private", **own}
    schema = Schema.from_dict({"columns": {"price": plain}})
    assert any("atoms" in line.how for line in fastdp.plan(schema, epsilon=1.0, rows=rows).domain)
    run = fastdp.synthesize(
        pa.table({"price": price}),
        schema=schema,
        epsilon=1.0,
        delta=1e-6,
        out=tmp_path / "run",
        seed=1,
    )
    assert set(frequent) <= set(run.schema.columns["price"].atoms)
    made = run.to_arrow()["price"].to_numpy()
    for value in frequent:
        assert abs(np.mean(made == value) - np.mean(price == value)) < 0.02
    assert fastdp.verify(tmp_path / "run").problems == ()


def of_users(rows=6_000):
    rng = np.random.default_rng(4)
    x = np.round(rng.lognormal(2, 1, rows), 2)
    return pa.table({"who": rng.integers(0, 900, rows), "x": x, "y": np.round(2 * x + 1, 2)})
