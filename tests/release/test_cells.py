"""Partitions and bins from noisy counts: what is found, and that any counts give bins a schema
takes."""

import datetime
import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from fastdp.privacy.clip import noise_bound
from fastdp.release import cells, noisy_cells
from fastdp.release.cells import Line
from fastdp.release.domain_grids import Grid
from fastdp.release.noisy_cells import (
    CALENDAR_CELLS,
    calendar_edges,
    occupied_cells,
    reconciled_counts,
)
from fastdp.schema.kinds.numeric import Numeric
from fastdp.schema.transforms import CLOCK_STEPS, MIDNIGHT

SIGMA = 4.0


def counted(values, edges, sigma, rng):
    return np.diff(np.searchsorted(np.sort(values), edges)) + rng.normal(0, sigma, len(edges) - 1)


def found(values, line, bins=32, sigma=SIGMA, seed=0):
    """The bins after the rounds of a run, with noise of `sigma` rows a cell in each."""
    rng = np.random.default_rng(seed)
    edges = line.first()
    before = None
    span = None
    for _ in range(4):
        if before is not None:
            edges, span = line.refine(*before, sigma, 8 * bins, bins, span)
        counts = counted(values, edges, sigma, rng)
        if before is not None:
            counts = reconciled_counts(*before, sigma, edges, counts, sigma)
        before = (edges, counts)
    return line.bins(edges, counts, sigma, bins, span)


rng = np.random.default_rng(5)
SHAPES = {
    "far from zero": (rng.normal(-1e6, 1.0, 20_000), "float64"),
    "tiny": (rng.lognormal(-20, 0.5, 20_000), "float64"),
    "lognormal": (rng.lognormal(3, 1.5, 20_000), "float64"),
    "both signs": (rng.standard_cauchy(20_000), "float64"),
    "large whole": (rng.integers(10**12, 10**12 + 10**6, 20_000).astype(float), "int64"),
    "days": (np.floor(rng.normal(19_000, 300, 20_000)), "date32"),
    "seconds": (np.floor(rng.normal(1.6e9, 1e6, 20_000)), "timestamp[us]"),
    "float32": (np.float32(rng.normal(0, 0.1, 20_000)).astype(float), "float32"),
}


@pytest.mark.parametrize("name", SHAPES)
def test_bounds_are_near_the_values_and_bins_hold_equal_counts(name):
    values, dtype = SHAPES[name]
    edges = found(values, Line(dtype))
    inside = np.mean((values >= edges[0]) & (values < edges[-1]))
    assert inside > 0.97
    low, high = np.quantile(values, [0.02, 0.98])
    assert edges[-1] - edges[0] < 40 * (high - low)
    held = np.histogram(values, edges)[0]
    assert 25 <= len(held) <= 32 and held.max() < 3 * len(values) / 32
    assert dtype[:5] != "float" or all(
        Line(dtype).after(a) < b for a, b in itertools.pairwise(edges)
    )


def test_years_that_lie_thinly_are_found_beside_a_century_that_stands_out():
    """933 terms from 1867 to 2013: six a year, which noise hides, but 200 in the cell of 1800 to
    1899."""
    days = np.floor(np.random.default_rng(1).uniform(-37_600, 15_700, 933))
    runs = (found(days, Line("date32"), sigma=8.0, seed=seed) for seed in range(8))
    inside = [np.mean((days >= edges[0]) & (days < edges[-1])) for edges in runs]
    assert np.median(inside) > 0.9 and min(inside) > 0.65, "of the terms, or they are cut off"


@pytest.mark.parametrize("scale", [1e-5, 1.0, 1e8])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_amounts_that_lie_thinly_are_found_beside_many_zeros(dtype, scale):
    """Each cell of the first partition has fewer amounts than noise hides. Once such a column was
    cut into thirty bins near 1e-277: the next cells beside 0, of which there are 300 powers of
    ten."""
    draw = np.random.default_rng(3)
    amounts = np.where(draw.random(400) < 0.6, 0.0, scale * draw.lognormal(0, 1, 400))
    amounts = amounts.astype(np.float32).astype(float)
    runs = [found(amounts, Line(dtype, reach=True), sigma=12.0, seed=s) for s in range(8)]
    inside = [np.mean((amounts >= edges[0]) & (amounts < edges[-1])) for edges in runs]
    assert np.median(inside) > 0.9, "of the rows; the zeros alone are 0.6"
    apart = [np.sum(np.array(edges) > 0.01 * scale) for edges in runs]
    assert np.median(apart) >= 5, "bins where the amounts are"


def test_beside_a_zero_that_stands_out_alone_there_is_nothing():
    for seed in range(4):
        assert found(np.zeros(400), Line("float64", reach=True), sigma=12.0, seed=seed) == [
            0.0,
            5e-324,
        ]


def test_large_noise_cuts_no_bulk_off_and_makes_nothing_negative():
    """With 6,000 rows and noise of 100 a cell, more than half of the rows were cut off as noise."""
    values = np.round(np.random.default_rng(1).lognormal(3, 1, 6000), 2)
    runs = [found(values, Line("float64", reach=True), sigma=100.0, seed=seed) for seed in range(8)]
    assert np.median([np.mean((values < edges[0]) | (values >= edges[-1])) for edges in runs]) < 0.1
    assert min(edges[0] for edges in runs) >= 0


def test_a_value_that_carries_mass_is_a_bin_of_its_own():
    values = np.concatenate([np.zeros(9000), np.full(3000, 19.99), rng.lognormal(3, 1, 8000)])
    edges = found(values, Line("float64"))
    for value in (0.0, 19.99):
        assert (value, math.nextafter(value, math.inf)) in list(itertools.pairwise(edges))
    edges = found(np.concatenate([np.full(9000, 40.0), rng.integers(1, 999, 9000)]), Line("int64"))
    assert (40.0, 41.0) in list(itertools.pairwise(edges))


def test_bins_of_single_values_and_within_public_bounds():
    edges = found(rng.integers(3, 12, 5000).astype(float), Line("int32"))
    assert edges == [float(i) for i in range(3, 13)]
    edges = found(rng.lognormal(3, 1, 20_000), Line("float64", low=10.0, high=50.0))
    assert edges[0] >= 10.0 and edges[-1] <= math.nextafter(50.0, math.inf)


TYPES = [
    "float64",
    "float32",
    "int64",
    "uint8",
    "int32",
    "decimal128(10, 2)",
    "date32",
    "timestamp[ns]",
]
counts_of = st.lists(st.floats(-60, 60), min_size=1, max_size=30)


@given(
    st.sampled_from(TYPES),
    counts_of,
    st.integers(0, 10**6),
    st.integers(2, 40),
    st.booleans(),
    st.sampled_from([None, 0, 2]),
)
@settings(max_examples=30, deadline=None)
def test_any_counts_give_bins_that_a_schema_takes(dtype, pattern, seed, bins, bounded, digits):
    """Noise alone, or whatever was counted: partitions keep the ends, bins are finite and
    increase."""
    line = Line(dtype, low=1.0, high=90.0) if bounded and dtype[:2] != "da" else Line(dtype)
    rng = np.random.default_rng(seed)
    edges = line.first()
    before = None
    span = None
    for number in range(4):
        if before is not None:
            edges, span = line.refine(*before, SIGMA, 64, bins, span)
        assert (np.diff(edges) > 0).all() and tuple(edges[[0, -1]]) == line.range()
        Numeric(name="x", source="x", dtype=dtype, edges=tuple(edges))
        counts = rng.normal(0, SIGMA, len(edges) - 1)
        counts[: len(pattern)] += pattern[: len(counts)]
        before = (edges, counts)
        if dtype == "float64" and number == 0 and digits is not None:
            line, *before = line.grained(edges, counts, digits)
    edges, counts = before
    out = line.bins(edges, counts, SIGMA, bins, span)
    assert 2 <= len(out) <= bins + 1 and all(map(math.isfinite, out))
    Numeric(name="x", source="x", dtype=dtype, edges=tuple(out), whole=line.whole)


@pytest.mark.parametrize(
    "dtype, low, high",
    [
        ("int8", -128, 128),
        ("uint8", 0, 256),
        ("int16", -(2**15), 2**15),
        ("uint32", 0, 2**32),
        ("int64", -(2.0**63), 2.0**63),
        ("uint64", 0, 2.0**63),
        ("decimal128(10, 2)", -1e8, 1e8),
        ("decimal128(38, 0)", -1e38, 1e38),
        ("float64", -math.inf, math.inf),
    ],
)
def test_a_type_has_the_ends_of_its_values(dtype, low, high):
    """The first value and the one after the last; unsigned numbers beyond int64 are outside every
    domain."""
    assert Line(dtype).range() == (low, high)
    edges = Line(dtype).first()
    assert edges[0] == low and edges[-1] == high and (np.diff(edges) > 0).all()


def test_times_that_a_type_cannot_hold_are_no_edges():
    edges = Line("timestamp[ns]").first()
    assert edges[2] == (datetime.date(1701, 1, 1) - datetime.date(1970, 1, 1)).days * 86_400
    assert edges[-3] == (datetime.date(2200, 1, 1) - datetime.date(1970, 1, 1)).days * 86_400
    assert edges[1] == -(2**63 // 10**9) and edges[-2] == 2**63 // 10**9


@given(
    st.lists(st.integers(-30, 90), min_size=1, max_size=33),
    st.sampled_from([2.0, 7.0]),
    st.integers(0, 40),
)
@settings(max_examples=40, deadline=None)
def test_cells_with_rows_are_those_of_the_smallest_runs_that_stand_out(counts, sigma, few):
    counts = np.array(counts, float)
    bar = noise_bound(len(counts)) * sigma
    alive = np.zeros(len(counts), bool)
    used = np.zeros(len(counts), bool)
    runs = [
        (2**k, i)
        for k in range((len(counts) - 1).bit_length() + 1)
        for i in range(0, len(counts), 2**k)
    ]
    for n, i in runs:
        own = slice(i, i + n)
        left = n - used[i : i + n].sum()
        if left and counts[own][~used[own]].sum() > bar * math.sqrt(left):
            rest = np.where(alive[own], 0, counts[own])
            spans = itertools.combinations(range(len(rest) + 1), 2)
            best = max(spans, key=lambda s: rest[s[0] : s[1]].sum() / math.sqrt(s[1] - s[0]))
            alive[own][slice(*best)] = used[own] = True
    assert (occupied_cells(counts, sigma) == alive).all()
    sums = itertools.accumulate(counts)
    beyond = [n for n, held in enumerate(sums) if held > few + min(20, sigma * math.sqrt(n + 1))]
    assert noisy_cells.leading_sparse_cells(counts, sigma, few, 20) == (beyond[0] if beyond else 0)


@given(st.lists(st.integers(0, 50), min_size=1, max_size=9).filter(any), st.integers(0, 40))
def test_bins_are_dealt_in_proportion_and_the_rest_to_the_largest_remainders(masses, more):
    dealt = cells.shared(len(masses) + more, masses)
    exact = [1 + more * m / sum(masses) for m in masses]
    assert sum(dealt) == len(masses) + more
    assert all(math.floor(e + 1e-9) <= d <= math.floor(e + 1e-9) + 1 for d, e in zip(dealt, exact))
    given, missed = ([e % 1 for d, e in zip(dealt, exact) if (d > e) is up] for up in (True, False))
    assert min(given, default=1) >= max((m for m in missed if m < 1 - 1e-9), default=0) - 1e-9


def test_partitions_are_averaged_by_their_precision():
    """Between shared edges sums become the average by inverse variance; differences within stay."""
    coarse = np.array([0.0, 4, 8, 12, 20])
    fine = np.array([0.0, 2, 4, 5, 6, 20])
    above = np.array([10.0, 5, 3, 7])
    counts = np.array([4.0, 9, 2, 8, 1])
    out = reconciled_counts(coarse, above, 2.0, fine, counts, 3.0)
    for fines, coarses in ((slice(0, 2), slice(0, 1)), (slice(2, 5), slice(1, 4))):
        own, other = 9.0 * len(counts[fines]), 4.0 * len(above[coarses])
        mean = (counts[fines].sum() / own + above[coarses].sum() / other) / (1 / own + 1 / other)
        assert out[fines].sum() == pytest.approx(mean)
        assert np.diff(out[fines]) == pytest.approx(np.diff(counts[fines]))


ROUND = {"float64": [m * 10.0**d for d in range(-9, 12) for m in (1, 2, 5)]}
ROUND["int64"] = ROUND["date32"] = [r for r in ROUND["float64"] if r >= 1]
CLOCK = [1, 5, 15, 60, 300, 900, 1800, 3600, 10_800, 21_600, 43_200]
ROUND["timestamp[s]"] = [*CLOCK, *(86_400 * r for r in ROUND["int64"])]


WIDTHS = st.sampled_from([0.97 * c for c in CLOCK] + CLOCK) | st.floats(1e-6, 1e8)


@given(st.sampled_from(list(ROUND)), WIDTHS, st.integers(-40, 40), st.integers(1, 60))
def test_steps_are_round_and_multiples_are_complete(dtype, width, first, count):
    line = Line(dtype)
    step = line.step(width)
    assert step == pytest.approx(min(r for r in ROUND[dtype] if r >= width * (1 - 1e-12)))
    low = (first - 0.5) * step
    high = (first + count - 0.5) * step
    found = line.multiples(low, high, step)
    assert found == pytest.approx([i * step for i in range(first, first + count)])
    # The lower end belongs, the upper not.
    assert line.multiples(found[0], found[-1], step) == found[:-1]


@pytest.mark.parametrize("width", [1, 10, 64])
def test_even_rows_are_cut_at_even_distances(width):
    """Bins of 16 even cells; where a cut lies inside a cell it is a round value within 1/16 of the
    cell."""
    edges = np.arange(17.0) * width
    for line, bins in ((Line("float64"), 24), (Line("int64"), 8)):
        cuts = line._cut(edges, np.full(16, 50.0), [], bins)
        assert cuts == pytest.approx(np.linspace(0, 16 * width, bins + 1), abs=width / 16)
    # Three values, and the gaps after them, make six bins.
    mass = np.array([90.0, 1, 60, 1, 50, *[1] * 11])
    for bins, kept in ((6, [0, 2, 4]), (5, [0, 2]), (2, [])):
        assert line._atoms(edges, mass, 1.0, bins) == (kept if width == 1 else [])


@pytest.mark.parametrize("dtype", TYPES)
def test_a_first_partition_has_every_round_value_of_the_type(dtype):
    """1, 2 and 5 times powers of ten of both signs, and 0 alone; every year from 1900 on and every
    century. Where nothing stands out of the noise, the one bin is 0, or all values between public
    bounds."""
    line = Line(dtype)
    low, high = line.range()
    edges = set(line.first().tolist())
    rounds = [
        m * 10.0**d
        for d in range(-12, 39)
        for m in (1, 2, 5)
        if m * 10.0**d >= (line.unit or 1e-12)
    ]
    wanted = {0.0, line.after(0.0), *(s * r for r in rounds for s in (1, -1) if r < 1e38)}
    if line.family in ("date", "timestamp"):
        years = [y for y in (*range(1701, 1900, 100), *range(1900, 2100), 2100, 2200)]
        days = [(datetime.date(y, 1, 1) - datetime.date(1970, 1, 1)).days for y in years]
        wanted = {float(d * (1 if line.family == "date" else 86_400)) for d in days}
    assert {w for w in wanted if low < w < high} <= edges
    alone = line.bins(line.first(), np.zeros(len(edges) - 1), 1.0, 9)
    assert alone == [0.0, line.after(0.0)] if low <= 0 and math.isinf(high) else alone[0] < alone[1]
    bounded = Line(dtype, low=3.0, high=90.0)
    first = bounded.first()
    assert np.diff(first).max() <= max(2.5 * 87 / cells.COARSEST, 1) * 1.01 or dtype[:4] == "time"
    assert bounded.bins(first, np.zeros(len(first) - 1), 1.0, 9) == [3.0, bounded.after(90.0)]


@pytest.mark.parametrize("dtype", ["float64", "int64"])
def test_cells_are_split_by_their_share_of_the_rows(dtype):
    """A round step is at most 2.5 times the width asked for, and a round value and the gap after it
    are two cells: a cell that should have k parts has between 2 k / 2.5 - 2 and 2 k + 2. The rest
    is joined."""
    line = Line(dtype)
    edges = np.arange(13) * 1e4
    counts = np.zeros(12)
    counts[[4, 7]] = 8000.0, 2000.0
    out, span = line.refine(edges, counts, 1.0, 100, 10, (2e4, 1e5))
    assert span == (4e4, 8e4) and set(out[(out < 4e4) | (out > 8e4)]) == {0.0, 1.2e5}
    for cell, parts in ((4, 80), (7, 20)):
        assert (
            0.8 * parts - 2
            <= ((out > edges[cell]) & (out < edges[cell + 1])).sum()
            <= 2 * parts + 2
        )
    assert {4e4, 5e4, 6e4, 7e4, 8e4} <= set(out) and not (
        (out > 5e4) & (out < 7e4) & (out != 6e4)
    ).any()
    out, span = line.refine(edges, counts, 1.0, 100, 10)
    assert span == (4e4 - 1e4 * cells.MARGIN, 8e4 + 1e4 * cells.MARGIN)
    assert set(edges[2:11]) | {0.0, 1.2e5} <= set(out) and not {1e4, 1.1e5} & set(out)
    far = line.refine(np.arange(33) * 1e4, np.bincount([4, 24], [9e3, 9e3], 32), 1.0, 100, 10)[0]
    assert {2e4, 7e4, 2.2e5, 2.7e5} <= set(far) and not ((far > 7e4) & (far < 2.2e5)).any()
    for low, high, share in ((0.0, 77.0, 0.3), (-500.0, 1.0, 0.91), (10.0, 11.0, 0.7)):
        near = line._near(low, high, share)
        aim = low + share * (high - low)
        assert (
            low <= near <= high
            and abs(near - aim) <= max(2.5 * (high - low) / 32, line.unit or 0) / 2
        )


@given(
    st.lists(st.integers(-40_000, 40_000), min_size=1, max_size=60),
    st.integers(0, 2),
    st.lists(st.floats(-45, 45), min_size=2, max_size=12, unique=True),
)
def test_cells_of_values_with_few_digits_keep_their_rows(whole, digits, edges):
    values = np.round(np.array(whole) / 1000, digits)
    edges = np.sort(edges)
    counts = np.histogram(values[values < edges[-1]], edges)[0].astype(float)
    line, moved, joined = Line("float64").grained(edges, counts, digits)
    assert (line.digits, line.whole) == (digits, digits == 0)
    assert np.diff(np.searchsorted(np.sort(values), moved)).tolist() == joined.tolist()


def test_noise_puts_no_years_into_other_centuries():
    """With 1000, 2000 and 5000 as the only cuts nearby, half of such runs began before 1300."""
    values = np.minimum(1995 + np.random.default_rng(0).geometric(0.5, 8000), 2003)
    for seed in range(6):
        edges = found(values, Line("int64", reach=True), sigma=40.0, seed=seed)
        assert 1900 <= edges[0] and edges[-1] <= 2101


def fewest_digits(counts, sigma, most):
    """The fewest that at most one row in a hundred exceeds, or as many as noise; None where it
    hides them."""
    for digits in range(len(counts) - 1):
        beyond = sum(counts[digits + 1 :])
        noise = 3 * sigma * math.sqrt(len(counts) - 1 - digits)
        if noise < most * sum(counts) and beyond < max(noise, noisy_cells.FEW * sum(counts)):
            return digits
    return None


def calendar_range(counts, sigma, most):
    """The narrowest range that holds all that stands out, a fifth of it in its upper half, and from
    which no other such range differs by more than two standard errors of the cells that only one of
    them has."""
    within = {
        (low, high): {
            i
            for i, (a, b) in enumerate(itertools.pairwise(CALENDAR_CELLS))
            if low <= a and b <= high + 1
        }
        for low, high in noisy_cells.CALENDAR
    }
    full = {}
    for (low, high), own in within.items():
        held, upper = (
            sum(counts[i] for i in own if CALENDAR_CELLS[i] >= x) for x in (-9, (low + high) / 2)
        )
        alive = set(np.flatnonzero(occupied_cells(counts, sigma)))
        if (
            alive
            and alive <= own
            and held > noise_bound(len(counts)) * sigma
            and upper >= noisy_cells.UPPER * held
        ):
            full |= {(low, high): own} if high - low < most else {}
    for (low, high), own in full.items():
        differ = [
            (sum(counts[i] for i in other) - sum(counts[i] for i in own), len(own ^ other))
            for other in full.values()
        ]
        if all(more <= 2 * sigma * math.sqrt(n) for more, n in differ):
            return [float(v) for v in range(low, high + 2)]
    return None


@given(
    st.lists(st.sampled_from([0, 1, 5, 30, 60, 900, 9000]), min_size=8, max_size=8),
    st.sampled_from([0.1, 1.0, 6.0]),
    st.integers(0, 6),
    st.integers(-1, 62),
    st.integers(0, 400),
    st.sampled_from([1.0, 3.0, 12.0]),
    st.sampled_from([7, 12, 40, 60]),
)
@settings(max_examples=60, deadline=None)
def test_what_is_decided_by_counts_follows_the_rules(counts, sigma, low, high, other, more, most):
    """Digits, steps of times, clock times and ranges of the calendar, by plain words; the ranges at
    noise."""
    counts = np.array(counts, float)
    assert noisy_cells.digits_of(counts, sigma) == fewest_digits(counts, sigma, noisy_cells.LOUD)
    days = counts[0] - 3 * sigma > MIDNIGHT * sum(counts)
    found = 0 if days else fewest_digits(counts, sigma, noisy_cells.LOUD_STEP)
    assert noisy_cells.step_of(counts, sigma) == (1 if found is None else CLOCK_STEPS[found])
    total = sum(counts) + other
    near = max(3 * sigma * more, noisy_cells.FEW * total)
    clock = sum(sorted(counts)[-2:]) < total / 2 and other < near < noisy_cells.OTHERS * total
    assert noisy_cells.is_clock(counts, other, sigma * more) == clock
    rng = np.random.default_rng(high + 64 * low + 1)
    values = rng.integers(min(low, high), max(low, high) + 1, 4000) // rng.choice([1, 1, 2, 5])
    counts = np.histogram(values, CALENDAR_CELLS)[0] + np.rint(
        rng.normal(0, 9 * more, len(CALENDAR_CELLS) - 1)
    )
    assert calendar_edges(counts, 9 * more, most) == calendar_range(counts, 9 * more, most)
    # Worth asking: from 0 to 99.
    for found, public in itertools.product((values, values * 90), (None, 0.0)):
        line = Line("int64", public)
        whole = public is None and found.min() >= 0
        grid = Grid(line.first())
        grid.take(np.histogram(found, grid.edges)[0], 1.0, 0.0)
        assert line.may_be_calendar(grid) == (whole and found.max() < 100)
        assert line.may_be_clock(grid) == (whole and 1000 <= found.max() < 5000)
