"""`fastdp check`: what the owner is told of rows that do not fit, and what never leaves."""

import json

import numpy as np
import pyarrow as pa
import pytest

import fastdp
from fastdp.errors import DataError, StoppedEarly, UsageError
from tests.builders import open_ledger
from tests.cli.test_app import fastdp_cli

LINES = """id;age;when;colour;fare
1;33;2024-01-05 10:00;red;12.5
1;;2024-01-06 11:00;Red;$12.5
2;4O;05/01/2024;blue ;3
3;200;2024-02-01;secret-word;0.5
3;12;2024-02-01;green
"4;12;2024-02-01;green;4
"""
COLUMNS = {
    "age": {"kind": "integer", "max": 120, "overflow": "clamp"},
    "when": {
        "kind": "timestamp",
        "dtype": "timestamp[us]",
        "parts": ["month", "hour"],
        "min": "2024-01-01",
        "max": "2024-12-31",
    },
    "colour": {"kind": "string", "values": ["red", "green", "blue"], "null": "drop"},
    "fare": {"kind": "numeric", "dtype": "float64", "edges": [0, 10, 20], "overflow": "drop"},
}
SEMICOLONS = {"delimiter": ";", "decimal": "."}


def schema(**more):
    plain = {"user": {"column": "id", "max_rows": 1}, "dialect": SEMICOLONS, "columns": COLUMNS}
    return fastdp.Schema.from_dict(plain | more)


@pytest.fixture
def place(tmp_path):
    (tmp_path / "people.csv").write_text(LINES)
    schema().save(tmp_path / "people.toml")
    return tmp_path


def test_every_column_is_told_apart(place):
    report = fastdp.check(place / "people.csv", place / "people.toml")
    by_name = {c.name: c for c in report.columns}
    age, when, colour, fare = (by_name[n] for n in COLUMNS)
    assert (age.null, age.outside, age.wrong, age.kinds) == (0.25, 0.25, 0.25, {"word": 1})
    assert (when.null, when.wrong, when.kinds) == (0, 0.25, {"date in another form": 1})
    assert (colour.outside, colour.nearly, colour.wrong) == (0.75, 0.5, 0)
    assert fare.kinds == {"money": 1}
    assert [n for _, n in report.lines] == [6, 7] and report.malformed == 2
    assert (report.rows, report.users.users, report.users.most, report.users.beyond) == (
        4,
        3,
        2,
        0.25,
    )
    assert report.to_dict()["private"] is False
    # kinds are told, and values are not
    for text in (str(report), json.dumps(report.to_dict()), report._repr_html_()):
        assert "secret-word" not in text and "4O" not in text and "12.5" not in text
    assert "not for release" in str(report)


def test_text_and_arrow_agree():
    rng = np.random.default_rng(0)
    frame = pa.table(
        {
            "u": rng.integers(0, 50, 500),
            "n": pa.array(rng.integers(0, 9, 500), mask=rng.random(500) < 0.1),
            "x": pa.array(rng.random(500) * 3, mask=rng.random(500) < 0.2),
        }
    )
    plain = {
        "user": {"column": "u"},
        "columns": {
            "n": {"kind": "integer", "max": 5},
            "x": {"kind": "numeric", "dtype": "float64", "edges": [1, 2]},
        },
    }
    wanted = fastdp.check(frame, fastdp.Schema.from_dict(plain), threads=1)
    n, x = wanted.columns
    truth = frame["n"].to_pylist()
    assert n.null == truth.count(None) / 500
    assert n.outside == sum(v is not None and v > 5 for v in truth) / 500
    assert x.outside == pytest.approx(
        np.mean([v is not None and not 1 <= v < 2 for v in frame["x"].to_pylist()])
    )
    assert wanted.users.users == len(set(frame["u"].to_pylist()))
    words = frame.set_column(1, "n", frame["n"].cast(pa.string()))
    assert fastdp.check(words, fastdp.Schema.from_dict(plain), threads=3).columns[0] == n


def test_the_command_writes_only_where_told(place):
    before = sorted(p.name for p in place.iterdir())
    done = fastdp_cli("check", "people.csv", cwd=place)
    assert "lines 6, 7" in done.stdout and "wants whole numbers" in done.stdout
    assert sorted(p.name for p in place.iterdir()) == before
    done = fastdp_cli(
        "check", "people.csv", "--schema", "people.toml", "--out", "c.json", "--json", cwd=place
    )
    assert json.loads(done.stdout) == json.loads((place / "c.json").read_text())
    assert (place / "c.json").stat().st_mode & 0o077 == 0
    assert "fastdp check DATA" in fastdp_cli("schema", "check", "people.toml", cwd=place).stdout


@pytest.mark.parametrize(
    ("more", "mechanism", "text"),
    [
        ({}, {"mechanism": "mst", "ids": {"columns": ["nobody"]}}, "nobody"),
        ({}, {"mechanism": "cliquetree", "workload": [["age", "hue"]]}, "hue"),
        ({"order": "left"}, "auto", "computed from others"),
    ],
)
def test_what_a_run_refuses_is_refused_by_checks_and_plans(place, more, mechanism, text):
    """A mechanism's fields, and what a schema says of users; before the rows are looked at."""
    facts = {"user": {"column": "id", **more}}
    if more:
        facts["columns"] = {**COLUMNS, "left": COLUMNS["age"]}
        facts["constraints"] = [{"column": "left", "follows": "120 - age"}]
    asked = schema(**facts)
    data = place / "people.csv"
    if more:
        data.write_text("id;age;when;colour;fare;left\n1;33;2024-01-05 10:00;red;12.5;33\n")
    for call in (
        lambda: fastdp.check(data, asked, mechanism=mechanism),
        lambda: fastdp.plan(asked, mechanism, 1.0, 1e-6, rows=1000),
        lambda: fastdp.synthesize(data, mechanism, 1.0, 1e-6, schema=asked),
    ):
        with pytest.raises(fastdp.errors.FastdpError, match=text):
            call()
    if more:
        asked.save(place / "people.toml")
        for command in (("check", "people.csv"), ("schema", "check", "people.toml")):
            assert fastdp_cli(*command, cwd=place, check=False).returncode != 0


def test_names_and_delimiters_are_guessed(place):
    wrong = schema(columns={"Age ": COLUMNS["age"], "color": COLUMNS["colour"]})
    with pytest.raises(
        DataError, match=r"'Age ' is missing \(did you mean 'age'\?\).*'color'.*'colour'"
    ):
        fastdp.check(place / "people.csv", wrong)
    with pytest.raises(DataError, match=r"looks delimited by ';': give dialect="):
        fastdp.read(place / "people.csv", schema(dialect={}))
    with pytest.raises(fastdp.errors.SchemaError, match="did you mean 'colour'"):
        schema().select(["color"])


def test_a_type_that_cannot_fit_its_list_is_refused_before_anything_is_charged(tmp_path):
    columns = {
        "a": {"kind": "string", "values": ["x", "y"]},
        "b": {"kind": "string", "values": ["1", "y"]},
        "c": {"kind": "categorical", "dtype": "bool", "values": [True, False]},
    }
    listed = fastdp.Schema.from_dict({"columns": columns})
    ledger = open_ledger(tmp_path, "people", epsilon=1.0, delta=1e-6)
    options = {"schema": listed, "ledger": ledger, "dataset": "people"}
    both = pa.table({"a": [1, 2], "b": [1, 2], "c": [["x"], []]})
    with pytest.raises(DataError, match=r"'a' is int64, which can hold none.*'c' is list"):
        fastdp.synthesize(both, "mst", 1.0, 1e-6, **options)
    assert ledger.spent("people")["epsilon"] == 0
    fine = pa.table({"a": pa.array([1, 1]).cast(pa.string()), "b": [1, 2], "c": [True, None]})
    assert fastdp.check(fine, listed).columns[1].outside == 0.5


def test_a_diagnosis_lies_beside_the_run(place):
    rows = "".join(
        f"{i // 2};{i % 90};2024-03-{i % 28 + 1:02d} 08:00;{'RED'};5\n" for i in range(20000)
    )
    (place / "many.csv").write_text(LINES.splitlines()[0] + "\n" + rows)
    options = {"schema": schema(), "out": place / "run", "diagnose": True}
    with pytest.raises(StoppedEarly, match="colour"):
        fastdp.synthesize(place / "many.csv", "mst", 4.0, 1e-6, **options)
    kept = json.loads((place / "run.private" / "check.json").read_text())
    assert kept["columns"][2]["nearly"] == 1 and not (place / "run").exists()
    fastdp.synthesize(place / "many.csv", "mst", 4.0, 1e-6, **options, ignore_empty_columns=True)
    assert "for case or blanks" in (place / "run.private" / "check.txt").read_text()
    assert all(f.stat().st_mode & 0o077 == 0 for f in (place / "run.private").glob("check.*")), (
        "its owner's alone"
    )
    assert not list((place / "run").glob("check*")) and fastdp.verify(place / "run").ok
    with pytest.raises(UsageError, match="reads the values twice"):
        reader = pa.table({"a": [1]}).to_reader()
        fastdp.synthesize(
            reader, "mst", 1.0, 1e-6, schema=schema(), out=place / "other", diagnose=True
        )
