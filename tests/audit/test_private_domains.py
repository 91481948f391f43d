"""Private domains under attack: what one user can get released, as an exact probability against
delta.

One test for each way of finding a domain. Values of a column are the only release whose set of
candidates depends on the data, so they are audited by probability: the candidates, their counts,
the noise scale and the threshold are taken from the running code, and the probability that anything
of the attacker's is released is computed from them, not estimated. Every other way (cells of a
partition, digits, nulls, rows per user) releases one noisy number for each member of a fixed set:
there the set must be the same with and without the attacker, and the numbers must lie within their
sensitivity.
"""

import json
import math
import sqlite3
from collections import Counter
from contextlib import contextmanager
from unittest.mock import patch

import mpmath
import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest

import fastdp
from fastdp.errors import FastdpError
from fastdp.measurement import SCALE
from fastdp.privacy import noise
from fastdp.privacy.ledger import Reservation
from fastdp.release import domaincosts, domainsteps, key_counts, keyselect
from fastdp.release.marginal_plan import MarginalPlan
from fastdp.schema import Schema
from tests.tiers import first

from .world import quick_accountant

DELTA = 1e-5
CAP = 3
ATTACKER = 10**6


def others(users=300, seed=0):
    """Ordinary users, four rows each, of three cities that all share."""
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(users), 4)
    columns = {
        "who": pa.array(who, pa.int64()),
        "city": [f"city {i}" for i in rng.integers(0, 3, len(who))],
        "code": pa.array(rng.integers(0, 3, len(who)), pa.int64()),
        "x": rng.lognormal(2, 1, len(who)).round(2),
    }
    return pa.table(columns)


def own_rows(count):
    """One user's rows with `count` values of their own in every column."""
    columns = {
        "who": pa.array([ATTACKER] * count, pa.int64()),
        "city": [f"home {i}" for i in range(count)],
        "code": pa.array(range(10**9, 10**9 + count), pa.int64()),
        "x": np.arange(count) * 1e7 + 0.123,
    }
    return pa.table(columns)


@pytest.fixture(autouse=True, scope="module")
def quick():
    with quick_accountant():
        yield


ATTACKS = {"one value": 1, "as many values as count": CAP, "many values": 2_000}


class Watch:
    """What key selection did: for each column the candidates, their counts, the noise scale and the
    bar."""

    def __init__(self):
        self.columns = []

    @contextmanager
    def watching(self):
        """Noise is replaced by zeros, and what would have got noise is written down."""
        real_count = keyselect.count_keys
        real_bar = keyselect.threshold

        def count(source, schema, name, dtype, cap, known=(), places=None):
            values, counts = real_count(source, schema, name, dtype, cap, known, places)
            assert not set(values) & set(known)
            self.columns.append({"name": name, "cap": cap, "values": values, "counts": counts})
            return values, counts

        def bar(width, cap, delta):
            made = real_bar(width, cap, delta)
            self.bar = made
            self.allowed = delta
            return made

        def nothing(width, size, **_):
            if (
                self.columns
                and "width" not in self.columns[-1]
                and size == len(self.columns[-1]["counts"])
            ):
                self.columns[-1] |= {"width": width, "bar": self.bar, "delta": self.allowed}
            return np.zeros(size, np.int64)

        with (
            patch.object(keyselect, "count_keys", count),
            patch.object(keyselect, "threshold", bar),
            patch.object(noise, "gaussian", nothing),
        ):
            yield self


def released_probability(column, own):
    """The exact probability that one of the values `own` is released: noise is a Gaussian rounded
    to a whole number, so a weighted count c in grid units passes if the Gaussian exceeds bar - c +
    1/2. High precision, because the result is compared with 1e-6 and less."""
    with mpmath.workdps(40):
        stays = mpmath.mpf(1)
        for value, count in zip(column["values"], column["counts"]):
            if value in own:
                t = (column["bar"] - int(count) + mpmath.mpf("0.5")) / mpmath.mpf(column["width"])
                stays *= mpmath.ncdf(t)
        return float(1 - stays)


def check_exposure(watch, own):
    """Each round's probability that anything of `own` is released is at most its part of delta, the
    noise is that of a user of norm 1, and the attacker's squared weights add up to at most 1."""
    assert watch.columns, "no values were looked for"
    worst = 0.0
    for column in watch.columns:
        assert "width" in column, (
            "the noise was drawn for another number of values than were counted"
        )
        p = released_probability(column, own)
        assert p <= column["delta"], f"the attacker's values pass with probability {p:.3g}"
        norm2 = sum(int(c) ** 2 for v, c in zip(column["values"], column["counts"]) if v in own)
        assert norm2 <= SCALE**2, (
            f"the attacker's weights have a squared norm of {norm2 / SCALE**2:.4g}"
        )
        worst = max(worst, p / column["delta"])
    return worst


def city_schema(kind="string", name="city"):
    column = {"kind": kind, "domain": "private", "keys_per_user": CAP}
    if kind == "categorical":
        column["dtype"] = "int64"
    return Schema.from_dict({"user": {"column": "who", "max_rows": 8}, "columns": {name: column}})


def by_select_keys(table, folder):
    listed = {
        "kind": "categorical",
        "dtype": "string",
        "values": ["?"],
        "null": "drop",
        "overflow": "drop",
    }
    schema = Schema.from_dict(
        {"user": {"column": "who", "max_rows": 8}, "columns": {"city": listed}}
    )
    fastdp.select_keys(table, schema, "city", epsilon=1.0, delta=DELTA, keys_per_user=CAP)


def run(source, **options):
    return fastdp.synthesize(source, "mst", 1.0, DELTA, clip=4, sample_seed=1, **options)


def stored(form, table, folder):
    """The table as a source of this form; its name in the folder says how many rows it has."""
    path = folder / f"{table.num_rows}.{form}"
    if form == "parquet":
        pq.write_table(table, path, row_group_size=500)
    elif form == "csv":
        csv.write_csv(table, path)
    elif form == "sql":
        connection = sqlite3.connect(path)
        connection.execute(f"CREATE TABLE trips ({', '.join(table.column_names)})")
        marks = ", ".join("?" * table.num_columns)
        connection.executemany(
            f"INSERT INTO trips VALUES ({marks})", zip(*table.to_pydict().values())
        )
        connection.commit()
        return fastdp.sql(connection, "SELECT * FROM trips")
    return table if form == "arrow" else str(path)


def by_form(form, **options):
    def way(table, folder):
        run(stored(form, table.select(["who", "city"]), folder), schema=city_schema(), **options)

    return way


def by_whole_numbers(table, folder):
    run(table.select(["who", "code"]), schema=city_schema("categorical", "code"))


def by_types_alone(table, folder):
    run(table.select(["who", "city"]), domain="private", user="who")


def atoms_schema(**more):
    column = {"kind": "numeric", "dtype": "float64", "digits": 1, "atoms": "private", **more}
    return Schema.from_dict({"user": {"column": "who", "max_rows": 8}, "columns": {"code": column}})


def by_atoms(table, folder):
    run(table.select(["who", "code"]), schema=atoms_schema(edges=[0, 1, 10, "inf"], max=10**10))


def by_atoms_of_found_bins(table, folder):
    run(stored("csv", table.select(["who", "code"]), folder), schema=atoms_schema(domain="private"))


WAYS = {
    "select_keys": by_select_keys,
    "arrow": by_form("arrow"),
    "parquet": by_form("parquet", threads=2),
    "text": by_form("csv"),
    "sql": by_form("sql"),
    "whole numbers": by_whole_numbers,
    "types alone": by_types_alone,
    "atoms": by_atoms,
    "atoms of found bins": by_atoms_of_found_bins,
}


def attack(way, count, folder):
    """The worst of probability / delta over columns; an assertion where it exceeds 1."""
    table = pa.concat_tables([others(), own_rows(count)])
    own = {f"home {i}" for i in range(count)} | set(range(10**9, 10**9 + count))
    own |= {10 * v for v in own if isinstance(v, int)}  # atoms are in units of the last digit
    watch = Watch()
    with watch.watching():
        WAYS[way](table, folder)
    return check_exposure(watch, own)


@pytest.mark.parametrize(
    ("way", "count"),
    [
        *((way, ATTACKS["many values"]) for way in WAYS),
        *(("select_keys", t) for t in range(1, CAP + 1)),
        ("arrow", 1),
        ("text", CAP),
    ],
)
def test_the_chance_of_a_users_own_values_is_at_most_delta(way, count, tmp_path):
    assert attack(way, count, tmp_path) <= 1


@pytest.mark.parametrize("cap", first(3, [1, 5, 16, 2, 64]))
@pytest.mark.parametrize("sigma", first(2, [0.3, 3.0, 80.0]))
def test_the_worst_number_of_values_meets_delta_exactly(cap, sigma):
    """For users with t = 1..cap values of their own the exact chance is at most delta, and for one
    of them it is delta: the threshold is not needlessly high. Which t is the worst depends on the
    noise: 1 where it is small (a value then weighs much), cap where it is large (then the number of
    chances counts)."""
    width = sigma * SCALE
    delta = 2.5e-7
    bar = keyselect.threshold(width, cap, delta)
    chances = []
    for t in range(1, cap + 1):
        values, counts = keyselect.count_keys(own_rows(t), city_schema(), "city", "string", cap)
        column = {"values": values, "counts": counts, "bar": bar, "width": width}
        assert len(values) == t and set(counts.tolist()) == {key_counts.weight(t)}
        chances.append(released_probability(column, set(values)) / delta)
    assert max(chances) <= 1 and max(chances) > 0.99
    assert int(np.argmax(chances)) + 1 == (1 if sigma < 1 else cap)


def test_the_number_of_values_per_user_is_public(tmp_path):
    """It is that of the schema, or the constant, whatever the attacker's rows are."""
    caps = []
    for table in (others(), pa.concat_tables([others(), own_rows(400)])):
        watch = Watch()
        with watch.watching():
            by_types_alone(table, tmp_path)
        caps.append({c["name"]: c["cap"] for c in watch.columns})
    assert caps[0] == caps[1] == {"city": domaincosts.KEYS_PER_USER}


REAL_COUNT = keyselect.count_keys


def zero_counts_too(source, schema, name, dtype, cap, known=(), places=None):
    """The bug of 0.1.0 before this audit: values that the cap cut off stay candidates with a count
    of 0."""
    values, counts = REAL_COUNT(source, schema, name, dtype, cap, known, places)
    every, _ = REAL_COUNT(source, schema, name, dtype, 1 << 20, known, places)
    have = dict(zip(values, counts.tolist()))
    return every, np.array([have.get(v, 0) for v in every], np.int64)


def uncapped(source, schema, name, dtype, cap, known=(), places=None):
    """Every value of a user counts."""
    return REAL_COUNT(source, schema, name, dtype, 1 << 20, known, places)


def data_dependent_cap(source, schema, name, dtype, cap, known=(), places=None):
    """As many values of a user count as the user with most values has."""
    most = max(count for _, count in Counter(source.given["who"].to_pylist()).items())
    return REAL_COUNT(source, schema, name, dtype, most, known, places)


@pytest.mark.parametrize("way", first(1, ["select_keys", "arrow"]))
def test_planted_candidates_without_users_are_caught(way, tmp_path):
    """By the program, which refuses to draw; and by the audit where that check is planted away
    too."""
    with (
        patch.object(keyselect, "count_keys", zero_counts_too),
        pytest.raises(FastdpError, match="has no users"),
    ):
        attack(way, ATTACKS["many values"], tmp_path)
    with (
        patch.object(keyselect, "count_keys", zero_counts_too),
        patch.object(keyselect, "check_candidates", lambda counts: None),
        pytest.raises(AssertionError, match="pass with probability"),
    ):
        attack(way, ATTACKS["many values"], tmp_path)


@pytest.mark.parametrize("planted", [uncapped, data_dependent_cap])
@pytest.mark.parametrize("way", first(1, ["arrow", "atoms"]))
def test_planted_wrong_caps_are_caught(planted, way, tmp_path):
    with (
        patch.object(keyselect, "count_keys", planted),
        pytest.raises(AssertionError, match="pass with probability"),
    ):
        attack(way, ATTACKS["many values"], tmp_path)


def test_planted_weights_that_are_not_normalised_are_caught(tmp_path):
    """Every value of a user weighs 1, as if the user had one."""
    with (
        patch.object(key_counts, "weight", lambda values: SCALE),
        pytest.raises(AssertionError, match=r"pass with probability|squared norm of 3"),
    ):
        attack("select_keys", CAP, tmp_path)


def test_planted_threshold_for_one_value_is_caught(tmp_path):
    """The threshold forgets that a user has several values."""
    real = keyselect.threshold
    with (
        patch.object(keyselect, "threshold", lambda width, cap, delta: real(width, 1, delta)),
        pytest.raises(AssertionError, match="pass with probability"),
    ):
        attack("select_keys", CAP, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("count", [1_000_000, 3_000_000])
def test_the_reproduction_at_full_size(count, tmp_path):
    """3,000 users and one with a million or three million values, epsilon 1, defaults of `--domain
    private`: before the fix the chance of a leak was .2 and .49. The exact chance now, and three
    runs with real noise."""
    base = others(3000).select(["who", "city"])
    table = pa.concat_tables([base, own_rows(count).select(["who", "city"])])
    watch = Watch()
    with watch.watching():
        run(table, domain="private", user="who")
    assert check_exposure(watch, {f"home {i}" for i in range(count)}) <= 1
    for _ in range(3):
        found = run(table, domain="private", user="who").schema.columns["city"].values
        assert not [v for v in found if str(v).startswith("home")]


# With and without one user: the other table is read, the stored answers are replayed, every other
# byte must be the same.


def files(folder):
    """The released bytes of a run folder, by name. Left out of the statement: the random names of
    the ledger and of the run in it, and the hash of the ledger's entries, which contains both."""
    made = {
        p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()
    }
    statement = json.loads(made["privacy.json"])
    for name in ("id", "run", "hash"):
        del statement["ledger"][name]
    return made | {"privacy.json": json.dumps(statement).encode()}


@contextmanager
def replayed(answers):
    """Fills `answers` with a run's answers, or, where it holds any, gives these to the run instead
    of its own. The run counts its own table all the same."""
    real = Reservation.store
    recording = not answers

    def store(self, part, number, arrays):
        if recording:
            answers[part, number] = [a.copy() for a in arrays]
        return real(self, part, number, answers.pop((part, number)) if not recording else arrays)

    with patch.object(Reservation, "store", store):
        yield


COLUMNS = {
    "city": {"kind": "string", "domain": "private"},
    "x": {"kind": "numeric", "domain": "private", "bins": 8},
    "code": {"kind": "categorical", "dtype": "int64", "domain": "private"},
}
OPEN = Schema.from_dict({"user": {"column": "who"}, "columns": COLUMNS})


def two_folders(form, attacker_rows, folder):
    """The released files of a run without and of one with the attacker, with the same answers."""
    answers: dict = {}
    made = []
    for name, table in (
        ("without", others()),
        ("with", pa.concat_tables([others(), own_rows(attacker_rows)])),
    ):
        with replayed(answers):
            run(stored(form, table, folder), schema=OPEN, out=folder / name / "run")
        made.append(files(folder / name / "run"))
    assert not answers, "the two runs took different steps"
    return made


@pytest.mark.parametrize("form", first(1, ["csv", "arrow", "parquet", "sql"]))
def test_a_user_changes_no_released_byte_but_the_noisy_answers(form, tmp_path):
    without, there = two_folders(form, 400, tmp_path)
    assert without.keys() == there.keys()
    differing = [name for name in without if without[name] != there[name]]
    assert differing == []


def test_planted_size_in_the_output_is_seen(tmp_path):
    """A number that depends on the un-noised table, the size of the list of values, in the
    statement."""
    real = keyselect.release_keys

    def count(*arguments, **options):
        values, counts = REAL_COUNT(*arguments, **options)
        count.size = len(values)
        return values, counts

    def leaky(*arguments, **options):
        values, users, facts = real(*arguments, **options)
        return values, users, facts | {"threshold": facts["threshold"] + 1e-3 * count.size}

    with (
        patch.object(keyselect, "count_keys", count),
        patch.object(domainsteps, "release_keys", leaky),
    ):
        without, there = two_folders("arrow", 400, tmp_path)
    assert without["privacy.json"] != there["privacy.json"]


def test_cells_and_rows_per_user_are_fixed_sets_within_their_sensitivity(tmp_path):
    """Bounds, digits, nulls, hours, steps of times and rows per user: the answers have the same
    places with and without the attacker, and differ by at most the sensitivity, clip or 1 (exact,
    noise taken out)."""
    taken = []
    real = MarginalPlan.noisy

    def noisy(plan, counts, seed):
        taken[-1].append((plan, np.array(counts), plan.clip))
        return real(plan, counts, seed)

    answers: dict = {}
    timed = OPEN.to_dict()
    timed["columns"] |= {"at": {"kind": "timestamp", "dtype": "timestamp[s]", "domain": "private"}}
    for table in (others(), pa.concat_tables([others(), own_rows(500)])):
        taken.append([])
        at = pa.array(np.arange(len(table)) * 5_000, pa.timestamp("s"))
        with replayed(answers), patch.object(MarginalPlan, "noisy", noisy):
            out = tmp_path / str(len(taken)) / "run"
            made = run(table.append_column("at", at), schema=Schema.from_dict(timed), out=out)
    stated = made.privacy["parts"][0]["releases"]
    assert ["at"] in [
        release["attributes"] for release in stated if release.get("of") == "clock times"
    ]
    without, there = taken
    assert len(without) == len(there) > 5
    for (plan, counts, clip), (_, other_counts, other_clip) in zip(without, there):
        assert counts.shape == other_counts.shape and clip == other_clip
        distance = math.sqrt(sum(int(d) ** 2 for d in (other_counts - counts).ravel()))
        assert distance <= clip * SCALE * (1 + 1e-12), (plan, distance / SCALE)


def test_the_delta_of_all_columns_adds_up(tmp_path):
    """Two columns of values, of two rounds each, and one whose atoms are found share the run's part
    of delta for thresholds."""
    plain = OPEN.to_plain()
    plain["columns"]["x"]["atoms"] = "private"
    watch = Watch()
    with watch.watching():
        made = run(others(), schema=Schema.from_dict(plain), out=tmp_path / "run")
    assert {c["name"] for c in watch.columns} == {"city", "code", "x"} and len(watch.columns) <= 5
    assert sum(c["delta"] for c in watch.columns) <= domaincosts.KEYS_SHARE * DELTA
    stated = made.privacy["parts"][0]["releases"]
    assert [r["attributes"] for r in stated if r["label"].startswith("atoms")] == [["x"]]
    assert fastdp.verify(tmp_path / "run").problems == ()
