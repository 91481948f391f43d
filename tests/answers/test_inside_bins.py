"""Intervals of means and sums by group where numbers lie in bins: they cover, and are narrow."""

import numpy as np
import pytest

import fastdp
from fastdp.answers.answer import answer
from fastdp.answers.bin_means import bin_means
from fastdp.answers.facts import Facts
from fastdp.answers.inside_bins import Bins, sum_errors
from fastdp.measurement import Measurement
from tests.tiers import first

EDGES = np.array([0, 10, 20, 30, 45, 60, 80, 100.0])
GROUPS = 6
SIGMA = 20.0
DROP = {"null": "drop", "overflow": "drop"}
SCHEMA = {
    "fastdp": 1,
    "name": "groups",
    "columns": {
        "g": {"kind": "integer", "dtype": "int64", "min": 0, "max": GROUPS - 1} | DROP,
        "x": {"kind": "numeric", "dtype": "float64", "edges": EDGES.tolist()} | DROP,
    },
}
SHAPES = {
    "shifted": lambda rng, g: rng.normal(30 + 6 * g, 15, len(g)),
    "exponential": lambda rng, g: rng.exponential(10 + 4 * g),
    "ages": lambda rng, g: 18 + 70 * rng.beta(1.5 + 0.2 * g, 3),
    "round numbers": lambda rng, g: 5 * np.round(rng.normal(30 + 5 * g, 15, len(g)) / 5),
}


def drawn(shape, seed, rows=30_000):
    rng = np.random.default_rng(seed)
    g = rng.choice(GROUPS, rows, p=np.arange(1, GROUPS + 1) / 21)
    x = np.clip(SHAPES[shape](rng, g), 0, 99.99)
    counts = np.histogram2d(g, x, [np.arange(GROUPS + 1), EDGES])[0]
    return g, x, counts + SIGMA * rng.standard_normal(counts.shape)


def facts_of(noisy, x, released):
    """What a run released of these rows; `released`: also means inside the bins, with noise."""
    columns = SCHEMA["columns"]
    statement = {}
    if released:
        places = np.digitize(x, EDGES) - 1
        counts = np.bincount(places, minlength=len(EDGES) - 1)
        sums = np.bincount(places, x, len(EDGES) - 1)
        means = np.where(counts > 0, sums / np.maximum(counts, 1), (EDGES[:-1] + EDGES[1:]) / 2)
        columns = columns | {"x": columns["x"] | {"means": means.tolist()}}
        release = {"of": "sums", "attributes": ["x"], "sigma": SIGMA, "unit": 1.0, "clip": 1}
        statement = {"parts": [{"clip": 1, "releases": [release]}]}
    schema = fastdp.Schema.from_dict(SCHEMA | {"columns": columns})
    measured = [Measurement(("g", "x"), noisy.reshape(-1), SIGMA)]
    return Facts.of(statement, schema, measured, {}, None)


@pytest.mark.parametrize("released", [True, False])
@pytest.mark.parametrize("shape", first(2, SHAPES))
def test_means_and_sums_by_group_are_covered(shape, released):
    """Six groups whose numbers differ smoothly, or are heaped at multiples of 5 (the lower edge of
    most bins, which a mean of all rows tells and the middle of a bin does not). The groups of a run
    share their bins, so the tolerance counts runs: 8 of them, at most a third may miss a line."""
    missed = []
    widths = []
    bounds = []
    for seed in range(8):
        g, x, noisy = drawn(shape, seed)
        facts = facts_of(noisy, x, released)
        wrong = 0
        for of, truth in (
            ("mean(x)", [x[g == i].mean() for i in range(GROUPS)]),
            ("sum(x)", [x[g == i].sum() for i in range(GROUPS)]),
        ):
            lines = answer(facts, of, "g").to_pylist()
            wide = answer(facts, of, "g", basis="bound").to_pylist()
            assert {line["basis"] for line in lines} == {"approximate"}
            assert {line["basis"] for line in wide} == {"bound"}
            for line, bound, true in zip(lines, wide, truth, strict=True):
                wrong += not line["low"] <= true <= line["high"]
                widths.append(line["high"] - line["low"])
                bounds.append(bound["high"] - bound["low"])
        missed.append(wrong)
    assert np.mean(np.array(missed) > 0) <= 1 / 3, missed
    assert np.mean(missed) / (2 * GROUPS) <= 0.08
    assert np.median(np.array(widths) / np.array(bounds)) < (0.45 if released else 0.8)


def test_differences_of_means_are_covered():
    missed = 0
    for seed in range(8):
        g, x, noisy = drawn("shifted", 100 + seed)
        facts = facts_of(noisy, x, True)
        lines = answer(facts, "mean(x)", "g", minus={"g": 0}).to_pylist()
        for i, line in enumerate(lines[1:], 1):
            true = x[g == i].mean() - x[g == 0].mean()
            missed += not line["low"] <= true <= line["high"]
    assert missed <= 0.1 * 8 * (GROUPS - 1)


def test_a_group_that_is_everything_has_the_released_mean():
    """Then nothing is left to assume but that rows are few: only the sampling of places remains."""
    rows = np.array([[1000.0, 2000.0, 500.0]])
    low, high = np.array([0.0, 10, 20]), np.array([10.0, 20, 30])
    bins = Bins(low, (low + high) / 2, high, np.zeros(3, bool), rows[0], np.zeros(3))
    few = np.sqrt(np.sum(rows) * 100 / 12)
    assert sum_errors(rows, bins, 1.0, 1.0) == pytest.approx(few)
    assert sum_errors(rows / 2, bins, 1.0, 1.0)[0] > 3 * few


def test_a_slope_that_goes_on_moves_means_like_an_exponential_density():
    """All rows lie evenly, and those of a group fall by half from bin to bin: the mean of each bin
    lies below the middle as it does for an exponential density. The error is at least that."""
    rate = np.log(2) / 10
    edges = np.arange(0, 101, 10.0)
    rows = 1e6 * np.diff(-np.exp(-rate * edges))[None]
    low = edges[:-1]
    high = edges[1:]
    bins = Bins(low, (low + high) / 2, high, np.zeros(10, bool), np.full(10, 1e9))
    exact = 1 / rate - 10 / (np.exp(rate * 10) - 1)  # mean inside a bin, from its lower edge
    shift = rows.sum() * (5 - exact)
    assert sum_errors(rows, bins, 1.0, 1.0)[0] >= shift
    anywhere = np.sqrt(np.sum(np.square(rows * 10 / np.sqrt(12))))
    assert sum_errors(rows, bins, 1.0, 1.0)[0] == pytest.approx(np.hypot(shift, anywhere), rel=0.02)


WIDE = np.array([0, 10, 20, 50, 100, 200, 500, 5000.0])
AMOUNTS = {
    "log-normal 1": lambda rng: 26 * np.exp(rng.standard_normal(400_000)),
    "log-normal .7": lambda rng: 60 * np.exp(0.7 * rng.standard_normal(400_000)),
    "gamma": lambda rng: rng.gamma(2.0, 40.0, 400_000),
    "Pareto 2": lambda rng: 10 * (rng.pareto(2.0, 400_000) + 1),
}


@pytest.mark.parametrize("shape", AMOUNTS)
@pytest.mark.parametrize("sign", [1, -1])
def test_neighbours_show_where_rows_lie_in_wide_bins(shape, sign):
    """Amounts in bins of a factor of 2 to 10: the mean of each bin with 50 rows or more is within a
    fifth of the bin's width of the guess, the mean of all rows within 5 % (the middles of bins are 15
    to 60 % off). Negated amounts have negated means."""
    x = np.clip(AMOUNTS[shape](np.random.default_rng(5)), 0.01, 4999)
    counts = np.histogram(x, WIDE)[0].astype(float)
    sums = np.histogram(x, WIDE, weights=x)[0]
    low = WIDE[:-1]
    high = WIDE[1:]
    if sign == 1:
        guess = bin_means(low, high, counts, 1.0)
        mixed = np.random.default_rng(1).permutation(len(low))
        assert bin_means(low[mixed], high[mixed], counts[mixed], 1.0) == pytest.approx(guess[mixed])
    else:
        # Nothing is known of logarithms below zero: even rows in each bin would do there.
        guess = -bin_means(-high, -low, counts, 1.0)
    filled = counts >= 50
    true = sums[filled] / counts[filled]
    assert (guess >= low).all() and (guess <= high).all()
    if sign == 1:
        assert (abs(guess[filled] - true) <= (high - low)[filled] / 5).all()
        assert guess @ counts == pytest.approx(x.sum(), rel=0.05)
    assert abs(guess @ counts - x.sum()) < abs((low + high) / 2 @ counts - x.sum())


def test_bins_of_a_power_law_have_its_means():
    """Exact counts of Pareto 2 above its least amount: the guess is the mean itself."""
    edges = 2.0 ** np.arange(0, 13)
    counts = 1e9 * -np.diff(edges**-2.0)
    low = edges[:-1]
    high = edges[1:]
    exact = 2 * (1 / low - 1 / high) / (low**-2.0 - high**-2.0)
    guess = bin_means(low, high, counts, 1.0)
    assert guess[1:] == pytest.approx(exact[1:], rel=0.02)


def test_rows_below_the_noise_show_nothing():
    """One bin holds all rows: no neighbour says where in it they lie."""
    low, high = np.array([0.0, 10, 20]), np.array([10.0, 20, 30])
    assert bin_means(low, high, np.array([3.0, 900, -5]), 10.0) == pytest.approx([5, 15, 25])
    assert bin_means(low, low, np.ones(3), 1.0) == pytest.approx(low)


def test_intervals_in_wide_bins_cover_and_are_narrow():
    """Groups of log-normal amounts in bins of 10 to 4,500. Counted at the middle of the last bin, as
    before, noise alone made intervals as wide as the mean."""
    schema = {"x": {"kind": "numeric", "dtype": "float64", "edges": WIDE.tolist()} | DROP}
    schema = fastdp.Schema.from_dict(SCHEMA | {"columns": SCHEMA["columns"] | schema})
    missed = 0
    widths = []
    bounds = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        g = rng.choice(GROUPS, 30_000, p=np.arange(1, GROUPS + 1) / 21)
        x = np.clip((20 + 3 * g) * np.exp(rng.standard_normal(len(g))), 0.01, 4999)
        counts = np.histogram2d(g, x, [np.arange(GROUPS + 1), WIDE])[0]
        noisy = counts + SIGMA * rng.standard_normal(counts.shape)
        measured = [Measurement(("g", "x"), noisy.reshape(-1), SIGMA)]
        facts = Facts.of({}, schema, measured, {}, None)
        for i, line in enumerate(answer(facts, "mean(x)", "g").to_pylist()):
            true = x[g == i].mean()
            missed += not line["low"] <= true <= line["high"]
            widths.append((line["high"] - line["low"]) / 2 / true)
        for i, line in enumerate(answer(facts, "mean(x)", "g", basis="bound").to_pylist()):
            bounds.append((line["high"] - line["low"]) / 2 / x[g == i].mean())
    assert missed <= 0.1 * len(widths)
    assert np.median(widths) < 0.3 and np.median(widths) < 0.5 * np.median(bounds)


QUESTIONS = (
    ("mean(x)", {"by": "g"}),
    ("sum(x)", {"by": "g"}),
    ("mean(x)", {}),
    ("sum(x)", {}),
    ("mean(x)", {"by": "g", "basis": "bound"}),
    ("mean(x)", {"by": "g", "minus": {"g": 0}}),
    ("sum(x)", {"by": "g", "over": {"g": 0}}),
)


def scaled(power, low):
    """What a run released of rows whose numbers are times 2^power."""
    counts = drawn("ages", 1)[2]
    edges = np.ldexp(np.concatenate([[low], EDGES[1:]]), power).tolist()
    columns = SCHEMA["columns"] | {"x": SCHEMA["columns"]["x"] | {"edges": edges}}
    schema = fastdp.Schema.from_dict(SCHEMA | {"columns": columns})
    measured = [Measurement(("g", "x"), counts.reshape(-1), SIGMA)]
    return Facts.of({}, schema, measured, {}, None)


@pytest.mark.parametrize("low", [0.0, -30.0])
@pytest.mark.parametrize("power", [950, -950])
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_answers_about_huge_and_tiny_numbers_are_those_of_ordinary_ones(power, low):
    """Squares of numbers near 1e300 overflowed: answers had warnings, and ends that are no numbers.
    Those near 1e-300 became 0."""
    plain = scaled(0, low)
    other = scaled(power, low)
    for of, asked in QUESTIONS:
        expected = answer(plain, of, **asked)
        found = answer(other, of, **asked)
        for name in ("estimate", "low", "high", "error", "noise", "clipping", "bins"):
            one, two = (np.array(t[name].to_pylist(), float) for t in (expected, found))
            times = 0 if "over" in asked else power
            assert np.allclose(np.ldexp(two, -times), one, rtol=1e-9, equal_nan=True), (of, name)
        assert found["basis"].to_pylist() == expected["basis"].to_pylist()


@pytest.mark.parametrize(
    "draw",
    [
        lambda rng: rng.gamma(0.6, 120.0, 200_000),
        lambda rng: rng.gamma(2.0, 10.0, 200_000),
        lambda rng: rng.lognormal(3.0, 1.2, 200_000),
        lambda rng: rng.exponential(50.0, 200_000),
    ],
)
def test_amounts_that_end_sooner_than_a_power_law_lie_further_up(draw):
    """Edges 1, 2, 5, 10, ...: by the middles of bins the total is 9 to 13 % too large, by a power of the
    amount in each bin 2 to 6 % too small, and by the curve through all of them within 1 %."""
    edges = np.array([0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 100_000.0])
    x = draw(np.random.default_rng(0))
    counts = np.histogram(x, edges)[0].astype(float)
    for noise in (0.0, 30.0):
        noisy = counts + noise * np.random.default_rng(1).standard_normal(len(counts))
        guess = bin_means(edges[:-1], edges[1:], noisy, noise)
        assert counts @ guess == pytest.approx(x.sum(), rel=0.01)


def test_many_bins_of_noise_are_no_tail():
    """Amounts that end at 100, and empty bins above: noise in these adds up, and less than two standard
    errors of all of them together is no sign that amounts go on. Two of one bin would be."""
    edges = np.array([0, 20, 50, 100, *range(200, 3000, 100)], float)
    counts = np.append([4000.0, 6000, 10_000], np.zeros(len(edges) - 4))
    for seed in range(20):
        noise = 100 * np.random.default_rng(seed).standard_normal(len(counts))
        means = bin_means(edges[:-1], edges[1:], counts + noise, 100.0)
        assert 60 < means[2] < 90, "amounts of 50 to 100, of which the mean is 75"
