"""First schemas from anybody's table: what is recognised, what is left out, what is marked."""

import datetime as dt
import re
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import fastdp
from fastdp.errors import DataError, FastdpError, SchemaError
from fastdp.schema.dialect import Dialect
from fastdp.tables import whole_table as whole
from tests.tiers import first

ROWS = 3000


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    start = dt.datetime(2013, 1, 1)
    quarters = rng.integers(0, 35_000, ROWS)
    times = [start + dt.timedelta(minutes=15 * int(m)) for m in quarters]
    return pl.DataFrame(
        {
            "flight_id": np.arange(ROWS) + 10**6,
            "tailnum": [f"N{i:05d}" for i in rng.integers(0, 150, ROWS)],
            "carrier": rng.choice(["AA", "B6", "DL"], ROWS),
            "scheduled": times,
            "day": [t.date() for t in times],
            "delay": [
                None if r < 0.03 else int(v)
                for r, v in zip(rng.random(ROWS), rng.normal(10, 30, ROWS))
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
    texts = frame.with_columns(
        pl.col("scheduled").cast(str), pl.col("fare").cast(pl.Decimal(12, 2))
    )
    texts.write_parquet(folder / "texts.parquet")
    return folder


@pytest.mark.parametrize(
    "name", first(2, ["flights.csv", "flights.parquet", "flights.jsonl", "texts.parquet"])
)
def test_kinds_are_recognised_whatever_the_file(place, name):
    drafted = fastdp.draft(place / name)
    fields = drafted.schema.fields
    kinds = {k: (f.kind, f.dtype.split("[")[0]) for k, f in fields.items()}
    assert kinds["scheduled"] == ("timestamp", "timestamp") and fields["scheduled"].step == 900
    assert set(fields["scheduled"].names) == {"date", "hour"}
    assert kinds["distance"][0] == "numeric" and kinds["delay"][0] == "integer"
    assert fields["fare"].kind == "numeric" and fields["fare"].digits == 2
    assert fields["code"].values == (1, 5, 9000)
    assert fields["zip"].values[0] == "00500"  # digits with leading zeros are no number
    assert kinds["cancelled"] == ("categorical", "bool")
    assert fields["day"].kind == "timestamp" and set(fields["day"].names) == {"date"}
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
    learnt = re.findall(
        r"^(?:# LEARNT\n)?(values|min|max|edges|atoms|order|require) = (?!\[false)", text, re.M
    )
    assert len(learnt) == text.count("# LEARNT\n") == text.count("LEARNT\n") > 10
    assert len(fastdp.Schema.load(tmp_path / "flights.toml").learnt) == len(learnt)
    (tmp_path / "less.toml").write_text(text.replace('"DL"]  # LEARNT', '"DL"]'))
    less = fastdp.Schema.load(tmp_path / "less.toml").learnt
    assert set(drafted.schema.learnt) - set(less) == {"columns.carrier.values"}, (
        "a mark deleted is gone"
    )
    assert '# column = "tailnum"' in text and "# max_rows = " in text and "public bound" in text
    # what is proposed is a schema once the marks are taken off
    on = re.sub(r"^# (?=\[user\]|column|max_rows)", "", text, flags=re.M)
    (tmp_path / "on.toml").write_text(on)
    assert fastdp.Schema.load(tmp_path / "on.toml").user == "tailnum"
    drafted.save(tmp_path / "flights.json")
    assert fastdp.Schema.load(tmp_path / "flights.json") == drafted.schema
    assert (
        "LEARNT"
        not in fastdp.draft(place / "flights.csv", public=True).text().partition("[columns")[2]
    )


def test_a_column_that_cannot_be_drafted_is_left_out_with_the_reason(place, frame):
    money = [f"${v:.2f}" for v in frame["fare"]]
    dates = [f"{d.day:02d}.{d.month:02d}.{d.year}" for d in frame["day"]]
    odd = frame.with_columns(
        pl.struct("carrier").alias("nested"),
        money=pl.Series(money),
        on=pl.Series(dates),
        amount=pl.Series([f"{i % 5000:,}" for i in range(ROWS)]),  # 999 and 1,234
        speed=pl.Series([1.0, 2.0] + [None] * (ROWS - 2)),
    )
    drafted = fastdp.draft(odd)
    assert {"nested", "money", "on", "speed", "amount"} < set(drafted.left_out)
    assert "plain numbers" in drafted.left_out["amount"]
    assert "99.9% of its values are null" in drafted.text() and "'money'" in drafted.text()
    assert set(drafted.schema.fields) == set(fastdp.draft(frame).schema.fields)
    with pytest.raises(SchemaError, match="did you mean 'tailnum'"):
        fastdp.draft(frame, user="tail_num")
    with pytest.raises(SchemaError, match="did you mean 'remark'"):
        fastdp.draft(frame, drop=["remarks"])


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("twice.csv", "a,a,b\n1,2,3\n", "column 'a' occurs more than once"),
        ("empty.csv", "", "the file is empty, or its first line"),
        ("blank.tsv", "\n1\t2\n", "or its first line is"),
        ("other.csv", "a;b;c\n1;2;3\n", "looks delimited by ';'"),
        ("deep.jsonl", '{"a": [1]}\n', "the draft would have no column: no row can be read"),
        ("later.jsonl", '{"a": 1}\n{"a": {}}\n{"a": 2}', "the draft would have no column"),
    ],
)
def test_files_that_are_no_table_are_refused_in_words(tmp_path, name, text, says):
    (tmp_path / name).write_text(text)
    with pytest.raises(FastdpError, match=says):
        fastdp.draft(tmp_path / name)


def test_a_missing_column_says_what_to_do(tmp_path):
    """A stranger's schema names another column than the file, or the file has another delimiter: one
    text each, with the way out."""
    schema = fastdp.Schema.from_domain({"town": 3, "age": 5})
    (tmp_path / "a.csv").write_text("city,age\n1,2\n")
    (tmp_path / "b.csv").write_text("town;age\n1;2\n")
    with pytest.raises(FastdpError, match=r"it has city, age; .*change one of them"):
        fastdp.read(tmp_path / "a.csv", schema, public=True)
    with pytest.raises(FastdpError, match=r"delimited by ';'(?!.*change one of them)"):
        fastdp.read(tmp_path / "b.csv", schema, public=True)


def people(rows=2000):
    """Dates at midnight over 140 years, clock times, parts of a time in another zone, towns that
    say more."""
    rng = np.random.default_rng(1)
    start = [
        dt.datetime(1870, 1, 1) + dt.timedelta(days=int(d)) for d in rng.integers(0, 51_000, rows)
    ]
    times = [
        dt.datetime(2013, 1, 1, tzinfo=dt.UTC) + dt.timedelta(hours=int(h))
        for h in rng.integers(0, 8760, rows)
    ]
    local = [t.astimezone(ZoneInfo("America/New_York")) for t in times]
    town = rng.integers(0, 3, rows)
    return pl.DataFrame(
        {
            "start": start,
            "when": times,
            "day": [t.day for t in local],
            "hour": [t.hour for t in local],
            "weekday": [t.weekday() for t in local],
            "end": [
                s + dt.timedelta(days=int(d)) for s, d in zip(start, rng.integers(0, 9000, rows))
            ],
            "dep": [t.hour * 100 + int(m) for t, m in zip(local, rng.integers(0, 60, rows))],
            "town": np.array(["Aix", "Bonn", "Ulm"])[town],
            "height": np.array([173.5, 60.25, 478.0])[town],
            "grade": pl.Series([None if r < 0.05 else float(int(r * 8)) for r in rng.random(rows)]),
            "skew": np.round(rng.lognormal(0, 2, rows), 3),
        }
    )


def test_relations_between_columns_are_proposed_and_hold_in_the_output():
    """Every property is exact: what is written follows the constraints, whatever the noise."""
    frame = people()
    drafted = fastdp.draft(frame)
    texts = {c.text for c in drafted.schema.constraints}
    assert {
        "day = day(when)",
        "hour = hour(when)",
        "dep_hour == hour(when)",
        "start <= end",
    } <= texts
    assert {"height follows from town", "weekday = day_of_week(when)"} <= texts
    assert len([name for name in drafted.schema.learnt if name.startswith("constraint")]) == len(
        texts
    )
    assert drafted.schema.fields["grade"].kind == "integer", "whole floats with nulls are listed"
    schema = fastdp.draft(frame, drop=["skew"]).schema
    run = fastdp.synthesize(frame.drop("skew"), "mst", 1.0, 1e-5, schema=schema, seed=1)
    made = pl.DataFrame(pl.from_arrow(run.data))
    local = made["when"].dt
    assert (made["weekday"] == local.weekday() - 1).all()  # Polars counts from 1
    assert (made["day"] == local.day()).all() and (made["start"] <= made["end"]).all()
    # a local hour that the clock skips in spring is written as the next one
    assert (made["hour"] == local.hour()).mean() > 0.99
    assert (made["dep"] % 100 < 60).all() and (made["dep"] // 100 == made["hour"]).all()
    assert made["start"].dtype == pl.Date
    heights = {"Aix": 173.5, "Bonn": 60.25, "Ulm": 478.0}
    assert made["height"].to_list() == [heights[t] for t in made["town"]]
    assert any("LEARNT" in note for note in run.privacy["notes"])
    assert run.privacy["schema"]["learnt"] == list(schema.learnt)


@pytest.mark.parametrize("public", [False, True])
def test_a_frequent_number_gets_a_code_of_its_own(tmp_path, public):
    """Most people have no affair, and the others any number of them: without a code for 0, the
    zeros would be spread over the lowest bin."""
    rng = np.random.default_rng(0)
    hours = np.where(rng.random(2000) < 0.7, 0.0, rng.exponential(3, 2000))
    drafted = fastdp.draft(pl.DataFrame({"hours": hours, "b": hours > 3}), public=public)
    drafted.save(tmp_path / "draft.toml")
    text = (tmp_path / "draft.toml").read_text()
    assert f"atoms = [0]{'' if public else '  # LEARNT'}\n" in text
    assert "e-324" not in text, "where the bin of 0 ends is not for people"
    schema = fastdp.Schema.load(tmp_path / "draft.toml")
    assert schema.columns["hours"] == drafted.schema.columns["hours"]
    assert schema.columns["hours"].base_labels()[0] == "0"
    rows = pl.DataFrame({"hours": hours, "b": hours > 3})
    run = fastdp.synthesize(rows, "mst", epsilon=20.0, delta=1e-6, schema=schema, seed=1)
    made = run.data["hours"].to_numpy()
    assert abs((made == 0).mean() - (hours == 0).mean()) < 0.02


def test_whole_numbers_in_equal_steps_are_listed():
    """A score of 50, 60 to 100 has 6 values and not 51, each with a third of the noise. All steps of
    the range are listed, also one that nobody has."""
    rng = np.random.default_rng(0)
    frame = {
        "score": rng.choice([50, 60, 80, 90, 100], 300).astype(float),
        "code": rng.choice([1, 3], 300),
        "age": rng.integers(20, 60, 300),
        "many": 2 * rng.integers(0, 300, 300),
    }
    columns = fastdp.draft(pl.DataFrame(frame)).schema.columns
    assert [float(v) for v in columns["score"].values] == [50, 60, 70, 80, 90, 100]
    assert list(columns["code"].values) == [1, 3]
    assert columns["age"].kind == columns["many"].kind == "integer"


def test_numbers_of_things_are_not_taken_for_ids():
    """`card` may say whose row it is; `open_cards` and `cards` say how many cards somebody has."""
    rng = np.random.default_rng(0)
    names = ("card", "open_cards", "cards", "cards_opened")
    frame = pl.DataFrame({name: rng.integers(0, 15, 600) for name in names})
    assert [user.name for user in fastdp.draft(frame).users] == ["card"]


def test_a_column_may_have_the_name_of_what_is_counted():
    """Polars refuses to count the values of a column named `count` under that name."""
    for name in ("count", "value", "len", "index", "literal"):
        frame = pl.DataFrame({name: [*range(100)] * 3, "id": [*range(150)] * 2})
        draft = fastdp.draft(frame)
        assert draft.users and (name in draft.schema.columns or name in draft.left_out)
    hours = pl.DataFrame({"count": [100 * (i % 24) + 30 * (i % 2) for i in range(300)]})
    assert "count" in fastdp.draft(hours).schema.fields


def test_ids_that_repeat_in_few_rows_may_be_users():
    """Most patients are tested once. A row number never repeats, and a clinic is not a person."""
    rng = np.random.default_rng(0)
    frame = pl.DataFrame(
        {
            "test_id": rng.permutation(3000),
            "clinic_name": [f"clinic {i}" for i in rng.integers(0, 80, 3000)],
            "subject_id": rng.integers(0, 8000, 3000),
            "age": rng.integers(0, 90, 3000),
        }
    )
    assert [one.name for one in fastdp.draft(frame).users] == ["subject_id", "clinic_name"]


def test_a_name_of_few_values_is_proposed_after_one_of_many():
    """Lifters have names, and so have the 30 meets that they came to: those were proposed as the users,
    since each has more rows."""
    rng = np.random.default_rng(0)
    frame = pl.DataFrame(
        {
            "name": [f"Lifter {i}" for i in rng.integers(0, 1500, ROWS)],
            "meet_name": [f"Games {i}" for i in rng.integers(0, 30, ROWS)],
            "kilos": rng.integers(40, 200, ROWS),
        }
    )
    assert [one.name for one in fastdp.draft(frame).users] == ["name", "meet_name"]


AMOUNTS = ["1,5", "-2,25", "1.234,5", ",5", "3", "1,5e3", "1.000.000"]
READ = [1.5, -2.25, 1234.5, 0.5, 3.0, 1500.0, 1000000.0]


def test_decimal_commas_are_found_and_read(tmp_path):
    """A number must not depend on where its file was written: an export with commas is drafted, read
    and checked as one with points. Texts, dates and ids with commas stay as they are."""
    names = ["Aix, Sud", "12.03.2024", "x,5", "1,2,3", "3.5", "b", ""]
    head = "who;amount;town\n"
    rows = [f"a,{i};{AMOUNTS[i % 7]};{names[i % 7]}" for i in range(140)]
    path = tmp_path / "a.csv"
    path.write_text(head + "\n".join(rows) + "\n")
    drafted = fastdp.draft(path, dialect={"delimiter": ";"}, user="who")
    assert drafted.schema.dialect.decimal == ","
    assert any("decimal commas" in note for note in drafted.notes)
    frame = whole.read_whole(path, drafted.schema.dialect)
    assert frame.column("amount").to_pylist() == READ * 20
    texts = [None if name == "" else name for name in names]
    assert frame.column("town").to_pylist() == texts * 20
    edges = [-10, 0, 1, 2, 100, 2000, 1e7]
    amount = {"kind": "numeric", "dtype": "float64", "edges": edges, "null": "code"}
    schema = fastdp.Schema.from_dict({"user": "who", "columns": {"amount": amount}})
    commas = {"delimiter": ";", "decimal": ","}
    table = fastdp.read(path, schema, dialect=commas)
    frame = pl.DataFrame({"who": [f"a,{i}" for i in range(140)], "amount": READ * 20})
    assert np.array_equal(table.codes["amount"], fastdp.read(frame, schema).codes["amount"])
    assert table.users == 140, "ids with commas are not numbers"
    assert fastdp.check(path, schema, dialect=commas).columns[0].wrong == 0
    points = fastdp.check(path, schema, dialect={"delimiter": ";", "decimal": "."})
    assert 'decimal = ","' in str(points)


def test_commas_between_thousands_are_not_decimals(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("x\n" + "\n".join(f'"{i},{i:03}"' for i in range(1, 200)) + "\n")
    with pytest.raises(FastdpError, match="number with commas"):
        fastdp.draft(path)


def test_dates_of_other_forms_are_not_taken_for_numbers(tmp_path):
    """27.03.2024 has digits and points as 1.234 has; the note says what to convert it to."""
    days = [f"{1 + i % 28:02}.{1 + i % 12:02}.2024;{i % 7},5" for i in range(60)]
    (tmp_path / "a.csv").write_text("day;x\n" + "\n".join(days) + "\n")
    left_out = fastdp.draft(tmp_path / "a.csv", dialect={"delimiter": ";"}).left_out
    assert "date in another form" in left_out["day"] and "2024-12-31" in left_out["day"]


def test_an_encoding_is_named_beside_a_delimiter_and_from_the_header_alone(tmp_path):
    """A dialect that says nothing of the encoding leaves it to be found, also where only the
    names of columns are beyond ASCII."""
    path = tmp_path / "a.csv"
    path.write_bytes(
        "größe;x\n".encode("cp1252") + b"".join(b"%d;%d\n" % (i % 3, i % 5) for i in range(60))
    )
    for dialect in ({"delimiter": ";"}, Dialect(delimiter=";")):
        drafted = fastdp.draft(path, dialect=dialect)
        assert drafted.schema.dialect.encoding == "cp1252" and "größe" in drafted.schema.columns
    with pytest.raises(FastdpError, match="may be cp1252: give --dialect 'encoding = \"cp1252\"'"):
        fastdp.draft(path, dialect={"delimiter": ";", "encoding": "utf-8"})


@pytest.mark.parametrize("how", ["schema", "private", "linked", "read", "tabs"])
def test_an_undeclared_decimal_mark_is_refused_before_the_charge(tmp_path, how):
    """Whether a file has points or commas nobody can ask its rows for free: numbers that cannot be
    read would show after the first noisy counts. So the declaration is asked for where no comma
    stands between values. The refusal is public: it looks at no row."""
    mark = "\t" if how == "tabs" else ";"
    path = tmp_path / ("a.tsv" if how == "tabs" else "a.csv")
    path.write_text(f"who{mark}x\n" + "\n".join(f"{i}{mark}1,5" for i in range(300)) + "\n")
    ledger = fastdp.Ledger(tmp_path / "b.db")
    ledger.open("t", epsilon=3.0, delta=1e-6, unit="user:who" if how == "linked" else "row")
    columns = {"x": {"kind": "numeric", "dtype": "float64", "edges": [0, 1, 2]}}
    semicolons = {} if how == "tabs" else {"delimiter": ";"}
    given = {"epsilon": 1.0, "delta": 1e-6, "ledger": tmp_path / "b.db", "dataset": "t"}
    given |= {"out": tmp_path / "run"}
    with pytest.raises(FastdpError, match='declare decimal = ","'):
        if how in ("schema", "tabs"):
            schema = {"columns": columns, "dialect": semicolons}
            fastdp.synthesize(path, schema=fastdp.Schema.from_dict(schema), **given)
        elif how == "private":
            fastdp.synthesize(path, domain="private", dialect=semicolons, **given)
        elif how == "linked":
            parent = {"columns": columns, "key": "who", "dialect": semicolons}
            tables = {"a": parent, "b": {**parent, "parent": "a"}}
            schema = fastdp.LinkedSchema.from_dict({"tables": tables})
            fastdp.synthesize({"a": path, "b": path}, schema=schema, **given)
        else:
            fastdp.read(path, fastdp.Schema.from_dict({"columns": columns, "dialect": semicolons}))
    assert not fastdp.Ledger(tmp_path / "b.db").entries("t")
    whole_numbers = {"x": {"kind": "integer", "dtype": "int64", "max": 9}}
    schema = {"columns": whole_numbers, "dialect": semicolons}
    assert fastdp.read(path, fastdp.Schema.from_dict(schema)).rows == 300


@pytest.mark.parametrize("mark", [",", "."])
def test_a_draft_of_text_with_tabs_declares_its_mark(tmp_path, mark):
    """Else the run that follows would be refused."""
    path = tmp_path / "a.tsv"
    path.write_text("x\ty\n" + "\n".join(f"{i}{mark}25\tb" for i in range(140)) + "\n")
    drafted = fastdp.draft(path)
    assert drafted.schema.dialect.decimal == mark
    assert drafted.schema.fields["x"].dtype == "float64"
    assert fastdp.read(path, drafted.schema).rows == 140


@pytest.mark.parametrize(
    ("encoding", "guess"), [("latin-1", "cp1252"), ("utf-16", "utf-16"), ("utf-8", None)]
)
def test_an_encoding_is_named(tmp_path, encoding, guess):
    rows = "\n".join(f"{town},{i % 7}" for i, town in enumerate(["Köln", "Aix", "Besançon"] * 40))
    (tmp_path / "a.csv").write_bytes(f"town,n\n{rows}\n".encode(encoding))
    drafted = fastdp.draft(tmp_path / "a.csv")
    assert drafted.schema.fields["town"].values == ("Aix", "Besançon", "Köln")
    assert drafted.schema.dialect.encoding == (guess or "utf-8")
    if encoding == "latin-1":
        report = fastdp.check(tmp_path / "a.csv", drafted.schema, dialect={"encoding": "utf-8"})
        assert report.encoding == guess and 'encoding": "cp1252"' in str(report)
        assert not fastdp.check(tmp_path / "a.csv", drafted.schema).malformed
    (tmp_path / "b.csv").write_text("town,n\n" + "Aix,3\n" * 60)
    both = [tmp_path / "b.csv", tmp_path / "a.csv"]
    assert whole.other_encoding(both) == guess
    assert guess or whole.read_whole(both).num_rows == 180
    (tmp_path / "b.csv").write_text("town,n\nAix,three\n")
    with pytest.raises(
        FastdpError, match=r"is string in one, int64 in another|column names, is not utf-16"
    ):
        whole.read_whole(both, guess and {"encoding": guess})


def test_a_guessed_encoding_reads_every_byte(tmp_path):
    """Windows' where it has a character for the byte, as is more common; else Latin-1, which has
    all."""
    path = tmp_path / "a.csv"
    for byte in range(0x80, 0x100):
        path.write_bytes(b"town\n\xff" + bytes([byte]) + b"x\n")
        known = bytes([byte]).decode("cp1252", "ignore")
        assert whole.other_encoding(path) == ("cp1252" if known else "latin-1")


def test_what_is_left_out_of_a_draft_says_what_to_do():
    """Columns of types that no schema reads, and the index of a frame, in which ids may be."""
    rows = 60
    table = pa.table(
        {
            "lasted": pa.array(range(rows), pa.duration("s")),
            "at": pa.array(range(rows), pa.time32("s")),
            "tags": [[1, 2]] * rows,
            "k": ["a", "b"] * (rows // 2),
        }
    )
    left_out = fastdp.draft(table).left_out
    assert left_out["lasted"].endswith("write it as a number, such as its seconds")
    assert left_out["at"].endswith("such as its minutes since midnight")
    assert left_out["tags"].endswith("columns of their own")
    frame = pd.DataFrame({"who": np.arange(rows) // 3, "k": ["a", "b"] * (rows // 2)})
    assert not any("index" in note for note in fastdp.draft(frame).notes)
    indexed = frame.set_index("who")
    assert "The frame's index of 'who' is not read" in fastdp.draft(indexed).notes[0]
    with pytest.raises(SchemaError, match=r"no column 'who'.*index.*reset_index"):
        fastdp.draft(indexed, user="who")
    schema = fastdp.draft(frame, user="who").schema
    with pytest.raises(DataError, match=r"'who' is missing.*index.*reset_index"):
        fastdp.read(indexed, schema)
    with pytest.raises(SchemaError, match="has no rows"):
        fastdp.draft(frame.head(0))
