"""Numbers asked for before a run: where they are asked, what they cost, how they come back, and what
is refused before anything is charged."""

import json
import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastdp
from fastdp.answers.measurements_file import RELEASED
from fastdp.answers.question import conditions
from fastdp.errors import RunError, UsageError
from fastdp.numbers.allocation import default_share
from fastdp.numbers.measure_numbers import measure_numbers
from fastdp.numbers.typed import check
from fastdp.privacy.statement import file_hash
from fastdp.release.gateway import Session
from fastdp.run.answer_numbers import (
    advised_question,
    line_questions,
    question_of,
    with_advice,
    with_numbers,
)
from fastdp.run.number_options import number_options
from fastdp.run.number_table import Replayed, number_table
from fastdp.run.verify import verify
from fastdp.schema import Schema

from ..builders import open_ledger
from ..cli.test_app import fastdp_cli

SCHEMA = fastdp.Schema.from_dict(
    {
        "user": {"column": "who", "order": "date"},
        "columns": {
            "amount": {"kind": "numeric", "edges": [0, 10, 50, 1000], "digits": 2, "min": 0},
            "country": {
                "kind": "categorical",
                "dtype": "string",
                "values": ["UK", "FR"],
                "user": "constant",
            },
            "date": {
                "kind": "timestamp",
                "dtype": "date32",
                "min": "2024-01-01",
                "max": "2024-12-31",
                "step": 86400,
                "parts": {"date": "day", "month": "month"},
            },
        },
    }
)
NUMBERS = [
    "sum(amount)",
    "sum(amount) by month",
    "mean(amount)",
    "share of users where rows > 1",
    "count of users by country",
    "share of users where first(date) < '2024-02-01' and last(date) - first(date) > 30 days",
    "median(sum(amount)) per user",
    "count of users where sum(amount) > 1000",
]
FEW = ["sum(amount)", "share of users where rows > 1", "count of users by country"]
COLUMNS = ["estimate", "low", "high", "cap", "capped", "capped_low", "capped_high", "mu", "note"]
OPTIONS = {"mechanism": "mst", "epsilon": 3.0, "delta": 1e-6, "schema": SCHEMA}


def data(rows=6000, seed=0):
    rng = np.random.default_rng(seed)
    who = rng.integers(0, 2000, rows)
    days = np.datetime64("2024-01-01") + rng.integers(0, 360, rows)
    return pa.table(
        {
            "who": who,
            "amount": np.round(rng.lognormal(3, 1, rows), 2),
            "country": np.array(["UK", "FR"])[who % 2],
            "date": pa.array(days.astype("datetime64[D]")),
        }
    )


def go(table=None, **more):
    return fastdp.synthesize(data() if table is None else table, **{**OPTIONS, **more})


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    out = tmp_path_factory.mktemp("numbers") / "run"
    ledger = fastdp.Ledger(out.parent / "budget.db")
    ledger.open("shop", epsilon=4.0, delta=1e-5)
    return go(numbers=NUMBERS, out=out, ledger=ledger, dataset="shop"), ledger


def test_the_table_is_that_of_the_contract(made):
    run, _ = made
    table = run.numbers
    assert table.column_names == ["number", "month", "country", *COLUMNS]
    rows = table.to_pylist()
    assert list(dict.fromkeys(row["number"] for row in rows)) == NUMBERS
    assert {row["month"] for row in rows if "by month" not in row["number"]} == {None}
    assert [row["country"] for row in rows if row["number"] == NUMBERS[4]] == [
        "UK",
        "FR",
        "(other)",
        "(null)",
    ]
    for row in rows:
        assert row["estimate"] is None or row["low"] <= row["estimate"] <= row["high"]
        assert row["number"][:3] != "sum" or row["capped_low"] <= row["capped"] < row["capped_high"]


def test_numbers_are_near_the_truth():
    """Intervals of exact Gaussian noise hold the truth but for one in a million at 5 sigma."""
    table = data(20_000, seed=4)
    run = go(table, numbers=FEW, epsilon=8.0)
    whole, share, uk = (run.numbers.to_pylist()[i] for i in (0, 1, 2))
    users = np.unique(np.asarray(table["who"]), return_counts=True)[1]
    for row, truth in ((share, (users > 1).mean()), (uk, 1000)):
        sigma = (row["high"] - row["low"]) / 2 / 1.96
        assert abs(row["estimate"] - truth) < 6 * sigma + 1e-9
    spent = np.bincount(np.asarray(table["who"]), np.asarray(table["amount"]))
    sigma = (whole["capped_high"] - whole["capped"]) / 1.96
    assert abs(whole["capped"] - np.minimum(spent, whole["cap"]).sum()) < 6 * sigma


def test_they_cost_their_share_and_the_rows_have_the_rest(made):
    """One entry of the ledger and one release for each vector; shares of mu^2 add up."""
    run, ledger = made
    (part,) = run.privacy["parts"]
    vectors = [r for r in part["releases"] if r["kind"] == "user_vector"]
    assert {r["attributes"][0] for r in vectors} == set(NUMBERS)
    spent = math.fsum(r["event"]["mu"] ** 2 for r in vectors)
    asked = run.privacy["mechanism"]["numbers"]
    share = default_share([check(text, SCHEMA) for text in NUMBERS])
    assert asked["list"] == NUMBERS and asked["share"] == share
    assert spent == pytest.approx(asked["mu"] ** 2, rel=1e-6)
    assert spent == pytest.approx(share * part["event"]["mu"] ** 2, rel=1e-6)
    rest = part["spent"]["mu"] ** 2 - spent
    assert rest <= (1 - share) * part["event"]["mu"] ** 2 * (1 + 1e-9)
    labels = [s["label"] for entry in ledger.entries("shop") for s in entry["steps"]]
    assert {r["label"] for r in vectors} <= set(labels)


def test_the_folder_verifies_loads_and_answers(made):
    run, ledger = made
    assert verify(run.out, ledger=ledger).ok
    loaded = fastdp.load_run(run.out)
    assert loaded.numbers.equals(
        run.numbers.replace_schema_metadata(loaded.numbers.schema.metadata)
    )
    (total,) = loaded.answer("sum(amount)").to_pylist()
    row = run.numbers.to_pylist()[0]
    assert (total["estimate"], total["low"], total["high"]) == (
        row["estimate"],
        row["low"],
        row["high"],
    )
    assert total["basis"] == "measured" and "asked for before the run" in total["note"]
    by_month = loaded.answer("sum(amount)", by="month").to_pylist()
    first = next(r for r in run.numbers.to_pylist() if r["month"] == "1")
    if first["estimate"] is not None:
        assert by_month[0]["estimate"] == first["estimate"]
    wide = loaded.answer("sum(amount)", by="country").to_pylist()
    assert any("add 'sum(amount) by country' to numbers=" in r["note"] for r in wide)


@pytest.mark.parametrize(
    ("of", "by", "where", "users", "question"),
    [
        ("count", (), None, False, "count of rows"),
        ("count", "month", {"country": "UK"}, False, "count of rows where country = 'UK' by month"),
        ("share", (), {"month": 3}, False, "share of rows where month = 3"),
        ("share", "month", None, False, None),
        ("share", (), None, False, None),
        ("share", (), {"rows": (2, 9)}, True, "share of users where (rows >= 2) and (rows < 9)"),
        ("share", (), conditions("rows > 1"), True, "share of users where rows > 1"),
        ("count", (), conditions("rows <= 9"), True, "count of users where rows <= 9"),
        (
            "count",
            ("country", "first(month)"),
            None,
            True,
            "count of users by country, first(month)",
        ),
        ("mean(rows)", (), None, True, "mean(rows) per user"),
        ("count", (), {"active(month)": 2}, True, "count of users where distinct(month) = 2"),
        ("mean(sum(amount))", (), None, True, "mean(sum(amount)) per user"),
    ],
)
def test_answers_are_said_in_the_language_of_numbers(of, by, where, users, question):
    assert question_of(of, by, where, users) == question
    if question is not None:
        check(question, SCHEMA)


def test_wide_answers_of_every_kind_name_the_number_to_ask_for():
    wide = pa.table({"estimate": [100.0], "low": [20.0], "high": [180.0], "note": ["x"]})
    for question in ("count of rows", "count of users by country", "share of rows where month = 3"):
        (row,) = with_advice(wide, None, question, SCHEMA, 0.7).to_pylist()
        assert (
            row["note"] == f"x; too wide to print: add {question!r} to numbers= before the next run"
        )
    narrow = pa.table({"estimate": [100.0], "low": [99.0], "high": [101.0], "note": ["x"]})
    assert with_advice(narrow, None, "count of rows", SCHEMA, 0.7) is narrow
    # a number would have more noise than the answer has: nothing is gained by asking
    assert with_advice(wide, None, "count of users by country", SCHEMA, 0.01) is wide
    assert with_advice(wide, None, "count of users by amount", SCHEMA, 0.7) is not None
    assert advised_question("share", "month", None) == "count of rows by month"


def test_a_number_by_a_part_of_a_time_is_found_by_its_column():
    """`sum(amount) by month(day)` was measured, and the answer by month said to ask for it."""
    day = {"kind": "timestamp", "parts": {"year": "y", "month": "m"}}
    day |= {"min": "2024-01-01", "max": "2024-12-31"}
    by_day = Schema.from_dict({"columns": {"day": day}})
    asked = {"number": "count of rows by month(day)", "m": "1", "estimate": 9.0, "low": 8.0}
    numbers = pa.Table.from_pylist([asked | {"high": 10.0, "note": ""}])
    lines = {"m": ["1"], "estimate": [7.0], "low": [0.0], "high": [90.0], "note": [""]}
    question = question_of("count", ["m"], None)
    (row,) = with_numbers(pa.table(lines), numbers, question, by_day).to_pylist()
    assert (row["low"], row["high"]) == (8.0, 10.0)
    assert with_advice(pa.table(lines), numbers, question, by_day) == pa.table(lines)


def test_shares_by_groups_say_of_whom_they_are(made):
    """In numbers a share by groups is of the group, in answers of all: both were called the same."""
    run, _ = made
    notes = run.answer("share", by="country", where={"month": (1, 3)})["note"].to_pylist()
    assert all("shares of all rows, not of a group" in note for note in notes)


def test_a_question_about_users_that_the_run_has_no_facts_for_says_what_to_ask(made):
    run, _ = made
    found = run.answer("count of users", by="country")  # by the number alone
    asked = [row for row in run.numbers.to_pylist() if row["number"] == "count of users by country"]
    assert [row["low"] for row in found] == [row["low"] for row in asked]
    assert found["country"].to_pylist() == [row["country"] for row in asked]
    with pytest.raises(UsageError, match=r"run\.numbers has 'count of users by country'"):
        run.answer("count of users", by="country", level=0.9)
    with pytest.raises(UsageError, match=r"add 'count of users by first\(month\)' to numbers="):
        run.answer("count of users", by="first(month)")


def test_answers_by_a_number_of_users_name_a_question_for_each_line(made):
    """Numbers have no groups by rows: the bin of a line becomes its condition. A number that asks
    for one line takes its place."""
    facts = Schema.from_dict(
        {
            "columns": {
                "rows": {"kind": "numeric", "dtype": "int64", "edges": [1, 2, 4, 9]},
                "sum(amount)": {"kind": "numeric", "edges": [0, 12.5, 100]},
            }
        }
    )
    labels = facts.columns["rows"].labels()
    lines = len(labels)
    answer = pa.table(
        {
            "rows": labels,
            "estimate": [50.0] * lines,
            "low": [0.0] * lines,
            "high": [100.0] * lines,
            "basis": ["measured"] * lines,
            "note": [""] * lines,
        }
    )
    asked = line_questions("count", "rows", {"country": "UK"}, facts, answer)
    assert asked[:3] == [
        "count of users where (country = 'UK') and (rows = 1)",
        "count of users where (country = 'UK') and (rows >= 2) and (rows < 4)",
        "count of users where (country = 'UK') and (rows >= 4)",
    ]
    assert line_questions("count", "country", None, facts, answer) is None
    shares = line_questions("share", "rows", None, facts, answer)
    assert shares[0] == "share of users where rows = 1"
    sums = line_questions(
        "count",
        ["sum(amount)", "country"],
        None,
        facts,
        pa.table({"sum(amount)": facts.columns["sum(amount)"].labels()[:1], "country": ["UK"]}),
    )
    assert sums == ["count of users where (sum(amount) >= 0) and (sum(amount) < 12.5) by country"]
    notes = with_advice(answer, None, shares, SCHEMA, None)["note"].to_pylist()
    assert "add 'share of users where rows = 1' to numbers=" in notes[0]
    number = {"number": "share of users where rows=1", "estimate": 0.5, "low": 0.4, "high": 0.6}
    table = pa.Table.from_pylist([number | {"note": ""}])
    first, second = with_numbers(answer, table, shares, SCHEMA).to_pylist()[:2]
    assert (first["low"], first["high"], second["high"]) == (0.4, 0.6, 100.0)
    run, _ = made
    with pytest.raises(UsageError, match=r"add 'count of users where distinct\(month\) = 1' to"):
        run.answer("count of users", by="distinct(month)")
    assert "rows" in run.answer("count of users", by="rows").column_names


def _rewrite(place, name, change):
    """Change a released table and state its new hash, as a forger would."""
    path = place / f"{name}{RELEASED}"
    table = pq.read_table(path)
    pq.write_table(change(table), path)
    statement = json.loads((place / "privacy.json").read_text())
    statement["files"][path.name] = file_hash(path)
    (place / "privacy.json").write_text(json.dumps(statement))


def test_numbers_that_do_not_follow_from_the_vectors_do_not_verify(tmp_path):
    """Every column of figures, and the vectors themselves."""
    run = go(numbers=FEW, out=tmp_path / "run")
    assert verify(run.out).ok

    def moved(column):
        def change(table):
            values = [None if v is None else v + 1 for v in table[column].to_pylist()]
            place = table.column_names.index(column)
            return table.set_column(place, column, pa.array(values, pa.float64()))

        return change

    for name, column in (("numbers", "high"), ("number_vectors", "value"), ("numbers", "capped")):
        kept = (run.out / f"{name}{RELEASED}").read_bytes()
        text = (run.out / "privacy.json").read_text()
        _rewrite(run.out, name, moved(column))
        with pytest.raises(RunError, match="does not follow from the released vectors"):
            verify(run.out)
        (run.out / f"{name}{RELEASED}").write_bytes(kept)
        (run.out / "privacy.json").write_text(text)
    assert verify(run.out).ok


def test_vectors_that_were_not_drawn_do_not_verify_with_the_ledger(tmp_path):
    """A forger can compute numbers from other vectors; the ledger has hashes of those drawn."""
    ledger = open_ledger(tmp_path, epsilon=20.0, delta=1e-5)
    run = go(numbers=FEW, out=tmp_path / "run", ledger=ledger, dataset="d")
    assert verify(run.out, ledger).ok
    forged = run.tables["number_vectors"]
    found = run.tables["numbers"]
    place = forged.column_names.index("value")
    moved = pa.array(forged["value"].to_numpy() + 1.0)
    forged = forged.set_column(place, "value", moved)
    about = run.privacy["mechanism"]["numbers"]
    options = number_options({k: v for k, v in about.items() if k != "mu"})
    numbers = options.typed(run.schema, ())
    results = measure_numbers(
        Replayed(forged), numbers, options.declared(numbers), mu=about["mu"], seed=0
    )
    found = number_table(numbers, results)
    _rewrite(run.out, "number_vectors", lambda _: forged)
    _rewrite(run.out, "numbers", lambda _: found)
    assert verify(run.out).ok, "nothing in the folder tells"
    with pytest.raises(RunError, match="differs from the one that was drawn"):
        verify(run.out, ledger)


def test_a_run_that_was_interrupted_gives_the_same_numbers(tmp_path, monkeypatch):
    """Vectors that were drawn before the interruption are not drawn again."""
    user_vector = Session.user_vector
    before = {}

    def breaks(self, plan, *, mu, label):
        if len(before) == 2:
            raise KeyboardInterrupt
        before[label] = user_vector(self, plan, mu=mu, label=label)
        return before[label]

    options = {"numbers": FEW, "out": tmp_path / "run", "sample_seed": 1}
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Session, "user_vector", breaks)
        go(**options)
    with pytest.raises(RunError, match="numbers"):
        go(**{**options, "numbers": FEW[:1]}, resume=True)
    after = {}

    def watches(self, plan, *, mu, label):
        after[label] = user_vector(self, plan, mu=mu, label=label)
        return after[label]

    monkeypatch.setattr(Session, "user_vector", watches)
    run = go(**options, resume=True)
    assert verify(run.out).ok and run.numbers.num_rows == 6
    assert len(before) == 2 and len(after) > 2
    for label, vector in before.items():
        assert np.array_equal(vector.values, after[label].values)


def test_threads_give_the_same_numbers():
    one, three = (go(numbers=FEW, seed=5, sample_seed=5, threads=n).numbers for n in (1, 3))
    assert one.equals(three)


def test_numbers_of_a_recipe_and_of_a_mapping_are_measured_alike(tmp_path):
    recipe = tmp_path / "shop.toml"
    recipe.write_text(
        'mechanism = "mst"\n[numbers]\nlist = ["sum(amount)", "count of users"]\nshare = 0.05\n'
        'max = { "sum(amount)" = 200 }\nsigned = false\n'
    )
    run = go(mechanism=recipe, seed=1)
    asked = run.privacy["mechanism"]["numbers"]
    assert asked["share"] == 0.05 and asked["max"] == {"sum(amount)": 200}
    total = run.numbers.to_pylist()[0]
    assert total["cap"] <= 200
    recipe.write_text('mechanism = "mst"\nnumbers = ["count of users"]\n')
    assert go(mechanism=recipe, seed=1).numbers.num_rows == 1
    assert go(mechanism=recipe, seed=1, numbers=["sum(amount)", "count"]).numbers.num_rows == 2
    assert go().numbers is None


def test_domains_that_the_run_finds():
    schema = fastdp.Schema.from_dict(
        {
            "user": {"column": "who", "max_rows": 64},
            "columns": {
                "amount": {"kind": "numeric", "domain": "private", "digits": 2},
                "country": {"kind": "categorical", "dtype": "string", "domain": "private"},
            },
        }
    )
    run = go(
        data(20_000),
        schema=schema,
        epsilon=8.0,
        numbers=["sum(amount)", "share of users where any(country = 'UK')", "count by country"],
    )
    rows = run.numbers.to_pylist()
    assert {"UK", "FR"} <= {row["country"] for row in rows}
    assert rows[1]["low"] < 0.5 < rows[1]["high"] or abs(rows[1]["estimate"] - 0.5) < 0.1


def test_a_table_that_was_read_before():
    with pytest.raises(UsageError, match=r"exact=\['amount'\]"):
        go(fastdp.read(data(), SCHEMA), numbers=["sum(amount)"], schema=None)
    read = fastdp.read(data(), SCHEMA, exact=["amount"])
    again = go(read, numbers=["sum(amount)"], schema=None, seed=3, sample_seed=3)
    plain = go(numbers=["sum(amount)"], seed=3, sample_seed=3)
    assert again.numbers.equals(plain.numbers)


@pytest.mark.parametrize(
    ("numbers", "why"),
    [
        (["sum(amont)"], "did you mean 'amount'"),
        (["sum(amount)", "sum( amount )"], "is asked twice"),
        ({"list": ["count"], "shares": 0.1}, "did you mean 'share'"),
        ({"list": ["count"], "share": 1.5}, "between 0 and 1"),
        ({"list": ["count"], "max": {"sum(amount)": 3}}, "is not among the questions"),
        ({"list": ["sum(amount)"], "max": 0.001}, "expected between 0.01"),
        ({"list": ["sum(amount)"], "max": -1}, "positive amounts"),
        ({"list": [3]}, "numbers:"),
        (7, "expected a list of questions"),
        (["quantile(rows, 0.5) per user by country"], "not measured by group"),
    ],
)
def test_what_is_refused_before_anything_is_charged(tmp_path, numbers, why):
    ledger = fastdp.Ledger(tmp_path / "budget.db")
    ledger.open("shop", epsilon=4.0, delta=1e-5)
    with pytest.raises(UsageError) as caught:
        go(numbers=numbers, ledger=ledger, dataset="shop", out=tmp_path / "run")
    assert why in str(caught.value)
    assert ledger.entries("shop") == [] and not (tmp_path / "run").exists()


def test_runs_that_cannot_measure_numbers():
    with pytest.raises(UsageError, match="Gaussian noise"):
        go(delta=0.0, numbers=FEW)


def test_rows_as_units_and_linked_tables_are_refused_before_the_charge(tmp_path):
    """Numbers are of users of one table. A run that protects events, or several tables, says so."""
    ledger = fastdp.Ledger(tmp_path / "budget.db")
    ledger.open("shop", epsilon=4.0, delta=1e-5)
    own = {"numbers": FEW, "ledger": ledger, "dataset": "shop", "out": tmp_path / "run"}
    with pytest.raises(UsageError, match="set unit = 'user'"):
        go(
            mechanism={
                "mechanism": "usercounts",
                "unit": "event",
                "noise": "gaussian",
                "columns": ["country"],
            },
            **own,
        )
    homes = fastdp.simulate.households(50, seed=1)
    with pytest.raises(UsageError, match="ask them of one table that has the user column"):
        fastdp.synthesize(homes, "households", epsilon=1.0, delta=1e-6, **own)
    assert ledger.entries("shop") == [] and not (tmp_path / "run").exists()


def test_a_table_without_users_counts_each_row_as_one():
    schema = fastdp.Schema.from_dict(
        {"columns": {"x": {"kind": "numeric", "edges": [0, 10, 100], "digits": 0, "min": 0}}}
    )
    rows = pa.table({"x": np.arange(4000) % 50})
    run = go(rows, schema=schema, numbers=["sum(x)", "share of rows where x < 10"])
    total, share = run.numbers.to_pylist()
    assert total["low"] <= 98_000 <= total["high"]
    assert abs(share["estimate"] - 0.2) < 4 * (share["high"] - share["low"]) / 2 / 1.96 + 1e-9


def test_the_plan_says_what_to_expect():
    options = {"mechanism": "mst", "epsilon": 1.0, "delta": 1e-6, "rows": 100_000}
    plan = fastdp.plan(SCHEMA, **options, users=24_000, numbers=FEW[:2])
    plain = fastdp.plan(SCHEMA, **options, users=24_000)
    assert [n.number for n in plan.numbers] == FEW[:2]
    share = default_share([check(text, SCHEMA) for text in FEW[:2]])
    assert plan.numbers_share == share
    assert plan.lines[0].sigma == pytest.approx(plain.lines[0].sigma / math.sqrt(1 - share))
    assert f"numbers: {share:.1%} of mu^2" in str(plan) and "points" in str(plan)
    assert json.dumps(plan.to_dict()["numbers"])
    few = fastdp.plan(SCHEMA, **options, users=30, numbers=["sum(amount)"])
    assert "declare a maximum per user" in str(few)
    with pytest.raises(UsageError, match="users= is missing"):
        fastdp.plan(SCHEMA, **options, numbers=FEW)
    with pytest.raises(UsageError, match="amont"):
        fastdp.plan(SCHEMA, **options, users=10, numbers=["sum(amont)"])


def test_the_command_line_and_the_page(tmp_path):
    pq.write_table(data(), tmp_path / "shop.parquet")
    SCHEMA.save(tmp_path / "shop.toml")
    asked = [word for text in FEW for word in ("--numbers", text)]
    fastdp_cli(
        *("synth", "shop.parquet", "-m", "mst", "-e", "2", "-d", "1e-6", "--out", "run", "-q"),
        *asked,
        cwd=tmp_path,
    )
    shown = fastdp_cli("numbers", "run", cwd=tmp_path).stdout
    assert "95 % interval" in shown and "each user up to" in shown and " %" in shown
    plain = json.loads(fastdp_cli("numbers", "run", "--json", cwd=tmp_path).stdout)["numbers"]
    assert [row["number"] for row in plain][:2] == FEW[:2]
    lines = fastdp_cli("numbers", "run", "--csv", cwd=tmp_path).stdout.splitlines()
    assert lines[0] == "number,country,estimate,low,high,cap,capped,capped_low,capped_high,mu,note"
    assert len(lines) == len(plain) + 1
    fastdp_cli("evaluate", "run", "--without-truth", "--out", "page.html", cwd=tmp_path)
    page = (tmp_path / "page.html").read_text()
    assert page.index('<section id="quotes"') < page.index('<section id="limits"')
    assert "each user counts up to" in page
    wrong = fastdp_cli("numbers", "page.html", cwd=tmp_path, check=False)
    assert wrong.returncode != 0
    fastdp_cli(
        *("synth", "shop.parquet", "-m", "mst", "-e", "2", "-d", "1e-6", "--out", "bare", "-q"),
        cwd=tmp_path,
    )
    bare = fastdp_cli("numbers", "bare", cwd=tmp_path, check=False)
    assert bare.returncode == 2 and "asked for no numbers" in bare.stderr
