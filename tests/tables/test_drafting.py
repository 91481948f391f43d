"""First schemas from anybody's table: what is recognised, what is left out, what is marked."""

import datetime as dt
import re
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import fastdp
from fastdp.errors import FastdpError, SchemaError
from fastdp.tables import drafting
from tests.cli.test_app import fastdp_cli

ROWS = 3000


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    times = [
        dt.datetime(2013, 1, 1) + dt.timedelta(minutes=15 * int(m)) for m in rng.integers(0, 35_000, ROWS)
    ]
    return pl.DataFrame(
        {
            "flight_id": np.arange(ROWS) + 10**6,
            "tailnum": [f"N{i:05d}" for i in rng.integers(0, 150, ROWS)],
            "carrier": rng.choice(["AA", "B6", "DL"], ROWS),
            "scheduled": times,
            "day": [t.date() for t in times],
            "delay": [
                None if r < 0.03 else int(v) for r, v in zip(rng.random(ROWS), rng.normal(10, 30, ROWS))
            ],
            "distance": np.round(rng.lognormal(6.5, 0.7, ROWS)).astype(int) * 3,
            "fare": np.round(rng.lognormal(5, 0.5, ROWS), 2),
            "cancelled": rng.random(ROWS) < 0.02,
            "zip": [f"{i:05d}" for i in rng.integers(500, 520, ROWS)],
            "code": rng.choice([1, 5, 9000], ROWS),
            "remark": [f"free text {i}" for i in range(ROWS)],
        }
    )


@pytest.fixture(scope="module")
def place(tmp_path_factory, frame):
    folder = tmp_path_factory.mktemp("draft")
    frame.write_csv(folder / "flights.csv")
    frame.write_parquet(folder / "flights.parquet")
    frame.write_ndjson(folder / "flights.jsonl")
    texts = frame.with_columns(pl.col("scheduled").cast(str), pl.col("fare").cast(pl.Decimal(12, 2)))
    texts.write_parquet(folder / "texts.parquet")
    return folder


@pytest.mark.parametrize("name", ["flights.csv", "flights.parquet", "flights.jsonl", "texts.parquet"])
def test_kinds_are_recognised_whatever_the_file(place, name):
    drafted = fastdp.draft(place / name)
    fields = drafted.schema.fields
    kinds = {k: (f.kind, f.dtype.split("[")[0]) for k, f in fields.items()}
    assert kinds["scheduled"] == ("timestamp", "timestamp") and fields["scheduled"].step == 900
    assert kinds["distance"][0] == "numeric" and kinds["delay"][0] == "integer"
    assert fields["fare"].kind == "numeric" and fields["fare"].digits == 2
    assert fields["code"].values == (1, 5, 9000)
    assert fields["zip"].values[0] == "00500"  # digits with leading zeros are no number
    assert kinds["cancelled"] == ("categorical", "bool")
    assert fields["day"].kind == "timestamp" and set(fields["day"].names) == {"year", "month", "day_of_week"}
    assert fields["delay"].null.action == "code" and fields["carrier"].null.action == "drop"
    # names of something are no categories; one that repeats may be a user
    assert set(drafted.left_out) == {"flight_id", "tailnum", "remark"}
    assert [u.name for u in drafted.users] == ["tailnum"]
    # the draft knows all of the data that it came from
    report = fastdp.check(place / name, drafted.schema)
    assert all(c.outside == c.wrong == 0 for c in report.columns) and report.dropped == 0


def test_every_line_learnt_is_marked_and_the_file_loads(place, tmp_path):
    drafted = fastdp.draft(place / "flights.csv")
    drafted.save(tmp_path / "flights.toml")
    text = (tmp_path / "flights.toml").read_text()
    assert fastdp.Schema.load(tmp_path / "flights.toml") == drafted.schema
    learnt = re.findall(r"^(?:# LEARNT\n)?(values|min|max|edges) = ", text, re.M)
    assert len(learnt) == text.count("# LEARNT\n") == text.count("LEARNT\n") > 10
    assert '# column = "tailnum"' in text and "# max_rows = " in text and "public bound" in text
    # what is proposed is a schema once the marks are taken off
    on = re.sub(r"^# (?=\[user\]|column|max_rows)", "", text, flags=re.M)
    (tmp_path / "on.toml").write_text(on)
    assert fastdp.Schema.load(tmp_path / "on.toml").user == "tailnum"
    drafted.save(tmp_path / "flights.json")
    assert fastdp.Schema.load(tmp_path / "flights.json") == drafted.schema


def test_all_that_is_unsupported_is_said_at_once(place, frame):
    money = [f"${v:.2f}" for v in frame["fare"]]
    dates = [f"{d.day:02d}.{d.month:02d}.{d.year}" for d in frame["day"]]
    odd = frame.with_columns(
        pl.struct("carrier").alias("nested"), money=pl.Series(money), on=pl.Series(dates)
    )
    with pytest.raises(SchemaError) as refused:
        fastdp.draft(odd)
    text = str(refused.value)
    assert "'nested'" in text and "'money'" in text and "'on'" in text
    assert "--drop nested --drop money --drop on" in text
    assert set(fastdp.draft(odd, drop=["nested", "money", "on"]).schema.fields) >= {"carrier", "fare"}
    with pytest.raises(SchemaError, match="did you mean 'tailnum'"):
        fastdp.draft(frame, user="tail_num")
    with pytest.raises(SchemaError, match="did you mean 'remark'"):
        fastdp.draft(frame, drop=["remarks"])


def test_one_broken_line_changes_no_other(place, tmp_path):
    lines = (place / "flights.csv").read_text().splitlines()
    lines.insert(5, 'x,"open quote')
    (tmp_path / "broken.csv").write_text("\n".join(lines) + "\n")
    assert fastdp.draft(tmp_path / "broken.csv").schema == fastdp.draft(place / "flights.csv").schema
    scores = fastdp.evaluate(tmp_path / "broken.csv", place / "flights.csv", metrics="tv1", baselines=())
    assert scores["tv1"]["max"] == 0 and scores["rows"] == {"truth": ROWS, "synthetic": ROWS}


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("twice.csv", "a,a,b\n1,2,3\n", "column 'a' is there more than once"),
        ("empty.csv", "", "the first line is empty"),
        ("blank.tsv", "\n1\t2\n", "the first line is empty"),
        ("other.csv", "a;b;c\n1;2;3\n", "looks delimited by ';'"),
        ("nested.jsonl", '{"a": 1, "b": {"c": 2}, "d": [1]}\n{"a": 2}\n', "--drop b --drop d"),
        ("deep.jsonl", '{"a": [1]}\n', "--drop a"),
    ],
)
def test_files_that_are_no_table_are_refused_in_words(tmp_path, name, text, says):
    (tmp_path / name).write_text(text)
    with pytest.raises(FastdpError, match=says):
        fastdp.draft(tmp_path / name)


def test_what_was_refused_can_be_drafted_as_the_text_advises(tmp_path):
    (tmp_path / "nested.jsonl").write_text('{"a": 1, "b": {"c": 2}}\n{"a": 2, "b": null}\n')
    assert list(fastdp.draft(tmp_path / "nested.jsonl", drop=["b"]).schema.fields) == ["a"]
    (tmp_path / "other.csv").write_text("a;b\n1;2\n")
    assert list(fastdp.draft(tmp_path / "other.csv", dialect={"delimiter": ";"}).schema.fields) == ["a", "b"]
    assert list(fastdp.draft(tmp_path / "other.csv", dialect={"delimiter": ","}).schema.fields) == ["a;b"]


def test_on_the_command_line(place):
    done = fastdp_cli(
        "schema", "draft", "flights.csv", "--user", "tailnum", "--drop", "remark", "-o", "f.toml", cwd=place
    )
    assert "LEARNT" in done.stdout and "max_rows" in done.stdout
    schema = fastdp.Schema.load(place / "f.toml")
    assert schema.user == "tailnum"


@settings(max_examples=100, deadline=None)
@given(
    values=st.lists(st.integers(-1000, 100_000), min_size=1, max_size=60),
    scale=st.sampled_from([1, 1, 1000, 0.01]),
    bins=st.integers(1, 30),
)
@example(values=[5] * 10, scale=1, bins=10)
@example(values=[-7], scale=1, bins=3)
@example(values=[0], scale=0.01, bins=3)
def test_drafted_bins_are_round_and_hold_all_values(values, scale, bins):
    """Edges are multiples of one round step, at least one bin lies between two of them, hardly more bins than
    asked for cover the middle 98 %, and the bounds hold every value with a step to spare."""
    whole = scale >= 1
    numbers = pl.Series([int(v * scale) if whole else v * scale for v in values])
    made = drafting._bins(numbers, whole, bins)
    edges = [float(e) for e in made["edges"] if not isinstance(e, str)]
    steps = [b - a for a, b in pairwise(edges)]
    assert len(edges) >= 2 and min(steps) > 0
    assert max(steps) == pytest.approx(min(steps)), "one step"
    step = min(steps)
    digits = f"{step:.12g}".replace("0", "").replace(".", "").replace("e+", "").replace("e-", "")
    assert digits[:1] in "125" and (not whole or step >= 1)
    assert all(abs(e / step - round(e / step)) < 1e-6 for e in edges)
    assert len(steps) <= bins + 2
    inner = [float(numbers.quantile(q, "linear")) for q in (0.01, 0.99)]
    assert edges[0] <= inner[0] + 1e-9 and inner[1] <= edges[-1] + 1e-9
    assert made["max"] >= max(float(numbers.max()), edges[-1] + step - 1e-9)
    if "min" in made:
        assert made["edges"][0] == "-inf" and made["min"] <= min(float(numbers.min()), edges[0] - step + 1e-9)
    else:
        assert made["edges"][0] == 0 and numbers.min() >= 0
    assert made["edges"][-1] == "inf"
