"""Parents differ in the level of their rows as they do in truth, and children keep to their parents."""

import numpy as np
import pytest

import fastdp
from bench.linked import PANEL, SCHEMAS, between, of_panel, panel
from fastdp.measurement import Measurement
from fastdp.metrics.linked_scores import between_parents
from fastdp.run.linked_levels import (
    Level,
    level_share,
    levels_of_parents,
    possible_rows,
    variance_of,
    with_levels,
)
from fastdp.schema import Schema
from fastdp.tables.linked_tables import LEVELS


@pytest.mark.parametrize("part", [0.2, 0.7])
def test_the_part_between_parents_comes_out_and_the_columns_stay(part):
    """800 parents with 4 to 20 rows and levels of which the mean codes are known, in two columns of
    which rows of one parent are correlated. The estimate of the part has a standard error of
    about .02; bins of levels and of codes add as much."""
    rng = np.random.default_rng(5)
    wanted = rng.integers(4, 21, 800)
    owner = np.repeat(np.arange(800), wanted)
    mean = rng.normal(0, np.sqrt(part), 800)
    deviation = rng.normal(0, np.sqrt(1 - part), (2, len(owner)))
    deviation[1] = 0.6 * deviation[0] + 0.8 * deviation[1]
    true = np.clip(np.rint(30 + 8 * (mean[owner] + deviation)), 0, 59).astype(int)
    sums = [np.bincount(owner, column) / wanted for column in true]
    levels = [(s * LEVELS / 60).astype(int) for s in sums]
    shuffled = rng.permutation(len(owner))  # drawn rows know nothing of their parents
    codes = {"x": true[0][shuffled], "y": true[1][shuffled]}
    codes["x"][:50] = 60  # missing
    given = {name: Level(level, 60) for name, level in zip("xy", levels)}
    out = with_levels(codes, owner, wanted, given, seed=1)
    for name, column in zip("xy", true):
        assert (np.sort(out[name]) == np.sort(codes[name])).all()
        made = np.where(out[name] < 60, out[name], np.nan).astype(float)
        assert between(owner, made) == pytest.approx(between(owner, column.astype(float)), abs=0.08)
    assert (out["x"][:50] == 60).all()
    kept = slice(50, None)
    want = np.corrcoef(codes["x"][kept], codes["y"][kept])[0, 1]
    assert np.corrcoef(out["x"][kept], out["y"][kept])[0, 1] == pytest.approx(want, abs=0.1)


def test_rows_keep_what_their_place_says_of_them():
    """A number grows by one from row to row of a parent, as a worker's experience does from year to year:
    deviations are those of the drawn rows, so it still does. Deviations at random would leave a
    correlation of 0 inside parents."""
    rng = np.random.default_rng(3)
    wanted = np.full(600, 8)
    owner = np.repeat(np.arange(600), 8)
    place = np.tile(np.arange(8), 600)
    codes = {"x": np.clip(place + rng.integers(0, 12, 600)[rng.permutation(owner)], 0, 19)}
    levels = Level(rng.integers(3, 9, 600), 20, (0.6, 0.05))
    out = with_levels(codes, owner, wanted, {"x": levels}, seed=1)["x"]
    inside = out - (np.bincount(owner, out) / 8)[owner]
    assert np.corrcoef(inside, place)[0, 1] > 0.4
    assert between(owner, out.astype(float)) == pytest.approx((0.6 - 1 / 8) / (7 / 8), abs=0.08)


@pytest.mark.parametrize("shape", ["normal", "even"])
def test_the_variance_of_a_code_is_known_from_counts_that_are_mostly_noise(shape):
    """500 parents in twelve parts, counts with a standard error of 20. A normal distribution's variance
    has a standard error of some 15 % then, a sum over all counts one of 40 to 60 %, and that of drawn
    codes, where counts below 0 are left out, is too large by as much. An even distribution is not
    normal: with standard errors of 2 sums notice it, with 20 one that is cut off at the ends fits."""
    at = np.arange(12)
    part = np.exp(-np.square(at - 4.2) / 2 / 1.6**2) if shape == "normal" else np.ones(12)
    part = part / part.sum()
    truth = float(part @ np.square(at - part @ at))
    rng = np.random.default_rng(7)
    for sigma, margin in ((20.0, 0.15), (2.0, 0.06)):
        counts = 500 * part + rng.normal(0, sigma, (200, 12))
        found = np.array([variance_of(c, np.full(12, sigma**2))[0] for c in counts])
        assert np.median(found) == pytest.approx(truth, rel=margin)
        assert np.median(np.abs(found / truth - 1)) < 2 * margin
    assert variance_of(rng.normal(0, 20.0, 12), np.full(12, 400.0)) == (0, 0)


def test_a_code_that_many_rows_have_does_not_hide_what_the_others_vary():
    """32 codes with 75 rows each and one, of no value, with 1,475; standard errors of 99. The normal
    distribution nearest to that is the one code, whose variance is far below that of the parents' means.
    Means vary less than codes, so that cannot be: they would be taken for all that differs."""
    rng = np.random.default_rng(2)
    at = np.arange(12)
    levels = 550 * np.exp(-np.square(at - 7.5) / 2 / 2**2) / (2 * np.sqrt(2 * np.pi))
    found = []
    for _ in range(40):
        known = np.append(levels + rng.normal(0, 8, 12), 0.0), np.full(13, 64.0)
        codes = np.append(np.full(32, 75.0), 1475.0) + rng.normal(0, 99, 33), np.full(33, 99.0**2)
        share = level_share(known, codes)
        found.append(0.0 if share is None else share[0])
    assert 0.05 < np.median(found) < 0.6  # the truth is .29; it was .98


@pytest.mark.parametrize("rows", [2, 3, 4])
def test_levels_of_few_rows_count_where_parents_differ_by_more_than_chance(rows):
    """Routes with a fare in each of four years, a few in three: nine tenths of the variance lies between
    routes, which came back as nothing while an average of four rows was asked for. Where rows say nothing of
    their parent, means of two rows differ by half of the variance, and nothing moves."""
    rng = np.random.default_rng(4)
    wanted = np.maximum(rows - (rng.random(1000) < 0.02), 1)
    owner = np.repeat(np.arange(1000), wanted)
    for part in (0.9, 0.0):
        number = rng.normal(0, np.sqrt(part), 1000)[owner]
        number = number + rng.normal(0, np.sqrt(1 - part), len(owner))
        true = np.clip(np.rint(16 + 6 * number), 0, 31).astype(int)
        mean = np.bincount(owner, true) / wanted
        levels = Level((mean * LEVELS / 32).astype(int), 32, (mean.var() / true.var(), 0.03))
        codes = {"x": rng.permutation(true)}
        out = with_levels(codes, owner, wanted, {"x": levels}, seed=1)
        if part:
            assert between(owner, out["x"].astype(float)) == pytest.approx(part, abs=0.08)
        else:
            assert out == {}


def test_the_share_between_parents_is_that_of_the_analysis_of_variance():
    """Without chance in it: parents of one number each have 1, rows dealt at random about 0, and
    equal rows, single rows and no rows 0."""
    rng = np.random.default_rng(1)
    owner = np.repeat(np.arange(500), 8)
    assert between_parents(owner, rng.normal(size=500)[owner]) == pytest.approx(1.0)
    assert between_parents(owner, rng.normal(size=4000)) < 0.02
    half = rng.normal(size=500)[owner] + rng.normal(size=4000)
    assert between_parents(owner, half) == pytest.approx(0.5, abs=0.08)
    assert between_parents(owner, np.ones(4000)) == between_parents(owner[:0], half[:0]) == 0
    assert between_parents(np.arange(9), np.arange(9.0)) == 0


def test_nothing_moves_where_levels_say_nothing_or_parents_have_few_rows():
    rng = np.random.default_rng(0)
    wanted = np.full(300, 10)
    owner = np.repeat(np.arange(300), wanted)
    codes = {"x": rng.integers(0, 60, 3000)}
    same = np.full(300, 6)
    assert with_levels(codes, owner, wanted, {"x": Level(same, 2)}, 1) == {}
    none = np.full(300, LEVELS)
    assert with_levels(codes, owner, wanted, {"x": Level(none, 600)}, 1) == {}
    spread = rng.integers(0, LEVELS, 3000)
    assert (
        with_levels(codes, np.arange(3000), np.ones(3000, int), {"x": Level(spread, 60)}, 1) == {}
    )


def test_rows_in_an_order_have_levels_where_parents_have_few_of_them():
    """Rows in an order are measurements of one thing at several times; members of a household are not."""
    plain = {**PANEL, "tables": {n: dict(t) for n, t in PANEL["tables"].items()}}
    plain["tables"]["visits"]["max_rows"] = 8
    assert fastdp.LinkedSchema.from_dict(plain).levels("visits") == ()
    plain["tables"]["visits"]["order"] = "month"
    assert fastdp.LinkedSchema.from_dict(plain).levels("visits") == ("score", "spent")
    plain["tables"]["visits"]["max_rows"] = 3
    assert fastdp.LinkedSchema.from_dict(plain).levels("visits") == ()


def test_levels_that_are_noise_get_no_parents():
    values = np.zeros(LEVELS + 1)
    values[[4, 5, 11]] = 300.0, 200.0, 15.0
    levels = np.repeat([4, 5, 11, LEVELS], [300, 200, 12, 3])
    found = levels_of_parents(levels, [Measurement(("l",), values, 10.0)], "l", seed=2)
    assert set(found.tolist()) == {4, 5} and (found[:500] == levels[:500]).all()
    assert levels_of_parents(levels, [], "l", seed=2) is levels


def test_rows_that_cannot_occur_get_the_nearest_code():
    schema = Schema.from_dict(
        {
            "columns": {
                n: {"kind": "integer", "max": 5, "null": "drop", "overflow": "drop"} for n in "ab"
            },
            "constraints": [{"order": ["a", "b"]}],
        }
    )
    codes = {"a": np.array([3, 2, 5]), "b": np.array([1, 4, 0])}
    assert possible_rows(codes, schema, frozenset("a"))["b"].tolist() == [3, 4, 5]
    assert possible_rows(codes, schema, frozenset())["b"].tolist() == [1, 4, 0]


def test_a_panel_keeps_its_persons_and_nobody_comes_before_joining():
    """1,500 persons with about 15 visits, epsilon 3: the part of the variance between persons is .8
    of the truth's at least (without levels it is below .15), and no visit precedes joining."""
    truth = panel(1500, seed=4)
    options = {"epsilon": 3.0, "delta": 1e-6, "seed": 4, "sample_seed": 4}
    run = fastdp.synthesize(truth, schema=SCHEMAS["panel"], **options)
    found = of_panel(truth, run.data)
    scores = fastdp.evaluate(truth, run.data, schema=SCHEMAS["panel"], metrics="tv2", baselines=())
    between_persons = scores["links"]["visits"]["between"]
    assert set(between_persons) == {"score", "spent"}
    assert all(abs(x["synthetic"] - x["truth"]) < 0.25 for x in between_persons.values())
    assert found["early"] == 0 and found["visits"] < 0.1
    assert 0.8 < found["score"] < 1.2 and 0.75 < found["spent"] < 1.3
    plain = {**PANEL, "tables": {n: dict(t) for n, t in PANEL["tables"].items()}}
    plain["tables"]["visits"] |= {"levels": [], "constraints": []}
    before = fastdp.synthesize(truth, schema=fastdp.LinkedSchema.from_dict(plain), **options)
    old = of_panel(truth, before.data)
    assert old["score"] < 0.15 and old["spent"] < 0.3 and old["early"] > 0.02
