"""Runs on linked tables: what comes out, what is charged, what is refused."""

import importlib
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastdp
from fastdp.errors import BudgetError, Cancelled, RunError, SchemaError, UsageError
from fastdp.measurement import Measurement
from fastdp.privacy.statement import write as write_statement
from fastdp.run import linked_check, linked_children, linked_spec
from tests.cli.test_app import fastdp_cli

HOUSEHOLDS = 1500


@pytest.fixture(scope="module")
def truth():
    return fastdp.simulate.households(HOUSEHOLDS, seed=3)


@pytest.fixture(scope="module")
def run(truth, tmp_path_factory):
    place = tmp_path_factory.mktemp("linked")
    ledger = fastdp.Ledger(place / "budget.db")
    ledger.open("homes", epsilon=5.0, delta=1e-5)
    return fastdp.synthesize(
        truth,
        "households",
        epsilon=4.0,
        delta=1e-6,
        out=place / "run",
        ledger=ledger,
        dataset="homes",
    )


def ledger_of(run):
    return fastdp.Ledger(run.out.parent / "budget.db")


def test_the_folder_holds_whole_tables_verifies_and_loads(run, truth):
    data = run.data
    keys = data["households"]["household_id"].to_numpy()
    assert len(set(keys.tolist())) == len(keys)
    assert set(data["persons"]["household_id"].to_numpy().tolist()) <= set(keys.tolist())
    assert {n: t.column_names for n, t in data.items()} == {
        n: t.column_names for n, t in truth.items()
    }
    assert fastdp.verify(run, ledger=ledger_of(run)).ok
    loaded = fastdp.load_run(run.out)
    assert loaded.data == run.data and loaded.schema.digest() == run.schema.digest()
    answered = loaded.runs["persons"].answer(by="households.type")
    assert answered.num_rows >= 5


def test_the_tables_together_cost_epsilon_and_are_one_entry(run):
    (entry,) = ledger_of(run).entries()
    assert len(entry["parts"]) == 2 and entry["unit"]["column"] == "household_id"
    statement = run.privacy
    assert 4.0 * (1 - 1e-6) < statement["epsilon"] <= 4.0
    assert np.isclose(sum(p["event"]["mu"] ** 2 for p in statement["parts"]), statement["mu"] ** 2)
    assert [
        statement["parts"][0]["clip"],
        statement["mechanism"]["tables"]["persons"]["parent"],
    ] == [
        1,
        "households",
    ]
    left_out = "rows of persons whose key is not in households are left out"
    assert left_out in run.runs["persons"].privacy["notes"]
    with pytest.raises(BudgetError):
        again = {"ledger": ledger_of(run), "dataset": "homes"}
        fastdp.synthesize(
            fastdp.simulate.households(50), "households", epsilon=4.0, delta=1e-6, **again
        )


def test_a_child_row_without_a_parent_does_not_verify(run, tmp_path):
    """A forger who makes all hashes anew is still found by the keys."""
    import shutil

    forged = tmp_path / "forged"
    shutil.copytree(run.out, forged)
    place = forged / "table-persons"
    table = pq.read_table(place / "synthetic.parquet")
    keys = table["household_id"].to_numpy().copy()
    keys[0] = 10**9
    pq.write_table(table.set_column(0, "household_id", [keys]), place / "synthetic.parquet")
    for folder in (place, forged):
        write_statement(folder, json.loads((folder / "privacy.json").read_text()))
    with pytest.raises(RunError, match="1 keys of table 'persons' are not keys of 'households'"):
        fastdp.verify(forged)


@pytest.mark.slow
def test_keys_are_compared_in_bounded_memory(run, tmp_path, monkeypatch):
    """Some kB of consecutive keys can be 2^20 rows; a set of them took a hundred bytes each."""
    import shutil
    import tracemalloc

    forged = tmp_path / "forged"
    shutil.copytree(run.out, forged)
    place = forged / "table-households"
    rows = 1 << 20
    old = pq.read_table(place / "synthetic.parquet")
    names = old.column_names
    table = old.take(np.zeros(rows, np.int64))
    key = names.index("household_id")
    kind = old.schema.field(key).type
    table = table.set_column(key, "household_id", pa.array(np.arange(rows)).cast(kind))
    encoding = {"household_id": "DELTA_BINARY_PACKED"}
    pq.write_table(
        table,
        place / "synthetic.parquet",
        compression="zstd",
        use_dictionary=[name for name in names if name != "household_id"],
        column_encoding=encoding,
    )
    for folder in (place, forged):
        write_statement(folder, json.loads((folder / "privacy.json").read_text()))
    monkeypatch.setattr(linked_check, "KEYS_AT_ONCE", 1 << 16)
    tracemalloc.start()
    assert fastdp.verify(forged).ok
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 32 * rows, "memory grows with the rows"
    monkeypatch.setattr(linked_check, "MOST_KEY_ROWS", rows - 1)
    with pytest.raises(RunError, match="1,048,576 rows; keys of more than 1,048,575 are not read"):
        fastdp.verify(forged)


def test_keys_without_a_parent_are_counted_in_every_range(tmp_path, monkeypatch):
    """Ranges of hashes find what one set finds, for numbers, texts and nulls."""
    rng = np.random.default_rng(3)
    for make in (lambda x: x, lambda x: [None if v == 7 else f"key {v}" for v in x]):
        parents = rng.integers(0, 900, 2_000)
        children = rng.integers(0, 1_000, 3_000)
        files = []
        for name, own in (("p", parents), ("c", children)):
            pq.write_table(pa.table({"k": make(own.tolist())}), tmp_path / f"{name}.parquet")
            files.append([linked_check.KeyFile(tmp_path / f"{name}.parquet", "k")])
        expected = len(set(children.tolist()) - set(parents.tolist()))
        for at_once in (50, 1_000, 1 << 22):
            monkeypatch.setattr(linked_check, "KEYS_AT_ONCE", at_once)
            assert linked_check.keys_without_parent(*files) == expected


def test_links_are_near_the_truth(run, truth):
    """At epsilon 4 noise on 1,500 households is small: chance alone gives child counts a total
    variation of some 0.02 and pairs of .03; tables made apart have pairs of .17."""
    scores = fastdp.evaluate(truth, run, metrics="tv1", baselines=())
    links = scores["links"]["persons"]
    assert links["integrity"] == 1.0
    assert links["children"]["variation"] < 0.05
    assert links["pairs"]["mean"] < 0.1
    assert set(scores["tables"]) == {"households", "persons"}
    assert fastdp.evaluate(truth, run.out, metrics="tv1", baselines=())["links"] == scores["links"]
    rows = run.data["persons"].to_pandas()
    heads = rows[rows.relation == "head"].groupby("household_id").size()
    assert (heads == 1).sum() > 0.85 * run.data["households"].num_rows  # `order` in the schema
    places = {v: i for i, v in enumerate(run.schema.tables["persons"].columns["relation"].values)}
    order = rows.relation.map(places).fillna(len(places))  # a null comes last
    assert order.groupby(rows.household_id).is_monotonic_increasing.all()


def test_an_interrupted_run_goes_on_with_its_noise(truth, tmp_path):
    calls = iter(range(10**9))
    options = {"epsilon": 2.0, "delta": 1e-6, "sample_seed": 5, "out": tmp_path / "run"}
    book = fastdp.Ledger(tmp_path / "run.private" / "ledger.db")

    def cancel():
        next(calls)
        steps = (
            book.entries()[0]["steps"] if (tmp_path / "run.private" / "ledger.db").exists() else []
        )
        return any(step["part"] == 1 and step["answered"] for step in steps)

    with pytest.raises(Cancelled, match="charged"):
        fastdp.synthesize(truth, "households", cancel=cancel, **options)
    before = {
        (s["part"], s["label"]): s["answers"] for s in book.entries()[0]["steps"] if s["answered"]
    }
    assert {part for part, _ in before} == {0, 1}
    run = fastdp.synthesize(truth, "households", resume=True, **options)
    (entry,) = book.entries()
    after = {(s["part"], s["label"]): s["answers"] for s in entry["steps"]}
    assert all(after[step] == answers for step, answers in before.items())
    assert fastdp.verify(run).ok


def test_no_rows_at_all():
    empty = {name: table.slice(0, 0) for name, table in fastdp.simulate.households(5).items()}
    run = fastdp.synthesize(empty, "households", epsilon=1.0, delta=1e-6)
    assert run.data["persons"].num_rows <= 50


def test_two_children_and_clips_by_table(truth):
    """Without `max_rows` most bins of numbers of rows are empty, and noise must not fill them: a
    few parents in them would have more rows than all others."""
    plain = fastdp.LinkedSchema.load("households").to_plain()
    more = {
        "parent": "households",
        "key": "home",
        "columns": {"kind": {"kind": "integer", "max": 3}},
    }
    plain["tables"]["vehicles"] = more
    rng = np.random.default_rng(0)
    ids = truth["households"]["household_id"].to_numpy()
    home = np.repeat(ids, rng.integers(0, 4, len(ids)))
    vehicles = {"home": home, "kind": rng.integers(0, 4, len(home))}
    import pyarrow as pa

    tables = {**truth, "vehicles": pa.table(vehicles)}
    clip = {"persons": 3, "vehicles": "private"}
    run = fastdp.synthesize(tables, schema=plain, epsilon=4.0, delta=1e-6, clip=clip)
    assert [p["clip"] for p in run.privacy["parts"]][:2] == [1, 3]
    made = run.data["vehicles"]
    assert made.column_names == ["home", "kind"]
    assert abs(made.num_rows / len(home) - 1) < 0.1
    assert set(made["home"].to_numpy()) <= set(run.data["households"]["household_id"].to_numpy())


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"epsilon": [1.0, 2.0]}, "one epsilon"),
        ({"delta": 0.0}, "delta above 0"),
        ({"engine": "spark"}, "needs a Spark DataFrame"),
        ({"domain": "private"}, "domain= is not supported"),
        ({"public": "x.parquet"}, "public= is not supported"),
        ({"clip": {"homes": 3}}, "'homes' is not a child table"),
        ({"mechanism": "taxi-adagrid", "schema": "households"}, "adagrid is not supported"),
        (
            {
                "mechanism": {"mechanism": "cliquetree", "calibration": "classic-rdp"},
                "schema": "households",
            },
            "calibration",
        ),
        ({"mechanism": "auto"}, "need schema="),
    ],
)
def test_what_linked_tables_cannot_do_is_refused(truth, options, text):
    given = {"mechanism": "households", "epsilon": 1.0, "delta": 1e-6} | options
    with pytest.raises(UsageError, match=text):
        fastdp.synthesize(truth, **given)
    with pytest.raises(UsageError, match="give a source for each"):
        fastdp.synthesize(
            {"households": truth["households"]}, "households", epsilon=1.0, delta=1e-6
        )


def test_plan_and_command_line(tmp_path):
    rows = {"households": 1000, "persons": 2500}
    plan = fastdp.plan("households", epsilon=2.0, delta=1e-6, rows=rows)
    assert [p.table for p in (plan, *plan.children)] == list(rows)
    assert np.hypot(plan.mu, plan.children[0].mu) <= fastdp.plan(
        fastdp.Schema.from_domain({"a": 2}), epsilon=2.0, delta=1e-6, rows=10
    ).mu * (1 + 1e-9)

    def call(*arguments):
        return fastdp_cli(*arguments, cwd=tmp_path).stdout

    call("simulate", "households", "--rows", 150, "--out", tmp_path / "homes")
    files = [f"{n}={tmp_path / 'homes' / n}.parquet" for n in rows]
    assert "Table persons" in call(
        "plan", "-m", "households", "-e", 2, "--rows", "households=300,persons=700"
    )
    call(
        "synth",
        *files,
        "-m",
        "households",
        "-e",
        2,
        "-d",
        1e-6,
        "--out",
        tmp_path / "run",
        "--report",
    )
    assert (tmp_path / "run" / "table-persons" / "synthetic.parquet").is_file()
    assert (tmp_path / "run.private" / "report.html").is_file()
    call("verify", tmp_path / "run")
    assert "integrity" in call("evaluate", ",".join(files), tmp_path / "run", "--metric", "tv1")


def test_numbers_of_child_rows_lie_evenly_in_the_logarithm_of_their_bins():
    """Bins 0, 1, 2 to 4, 5 to 19 and 20 to 50; those beyond the last one that stands out of noise
    are drawn from the other parents."""
    links = SimpleNamespace(
        edges=lambda child: np.array([0, 1, 2, 5, 20]), most_rows=lambda child: 50
    )
    codes = np.arange(5).repeat(4000)
    rows = linked_children.rows_of(codes, links, "x", 3)
    ends = np.array([1, 2, 5, 20, 51])
    assert (rows < ends[codes]).all() and (rows >= links.edges("x")[codes]).all()
    for code, low in ((2, 2), (3, 5), (4, 20)):
        drawn = rows[codes == code]
        for n in (low, low + 1, ends[code] - 1):
            share = math.log((n + 1) / n) / math.log(ends[code] / low)
            assert abs(np.mean(drawn == n) - share) < 5 * math.sqrt(share / 4000)
    counts = Measurement(("n",), np.array([900.0, 300, 0, 1, 0]), 2.0)
    worse = Measurement(("n",), np.array([0.0, 0, 0, 0, 9000]), 1e5)
    out = linked_children.without_noise(codes, [worse, counts, counts], "n", 5, 1)
    assert (out[codes < 2] == codes[codes < 2]).all() and abs(
        np.mean(out[codes > 1]) - 0.5
    ) < 5 * 0.5 / 109
    for none in ([], [Measurement(("m",), counts.values, 2.0)]):
        assert (linked_children.without_noise(codes, none, "n", 5, 1) == codes).all()


UNFIT = {
    "homes": {"key": "h", "columns": {"size": {"kind": "integer", "max": 3, "null": "drop"}}},
    "people": {
        "parent": "homes",
        "key": "h",
        "orphans": "keep",
        "columns": {"age": {"kind": "integer", "max": 3}},
    },
}
"""Keys without a parent are parents whose columns are null, and rows with nulls are left out."""


def test_policies_are_checked_without_asserts(monkeypatch):
    """What guards a charge must not be an `assert`: the module is compiled as `python -O` does. A
    plan reads no data, so that only the check itself can refuse it."""
    place = Path(linked_spec.__file__)
    made = ModuleType(linked_spec.__name__)
    made.__package__ = linked_spec.__package__
    exec(compile(place.read_text("utf-8"), place.name, "exec", optimize=1), vars(made))
    monkeypatch.setattr(
        importlib.import_module("fastdp.run.plan"), "divide_among_tables", made.divide_among_tables
    )
    schema = fastdp.LinkedSchema.from_dict({"fastdp": 1, "tables": UNFIT})
    with pytest.raises(SchemaError, match="null = 'drop'"):
        fastdp.plan(schema, epsilon=1.0, delta=1e-6, rows={"homes": 1, "people": 1})


@pytest.mark.slow
def test_policies_are_checked_by_python_without_asserts(tmp_path):
    """The same in a process of `python -O`, whose packages are compiled anew; nothing is charged."""
    program = f"""
import pyarrow as pa, fastdp
ledger = fastdp.Ledger("budget.db")
ledger.open("d", epsilon=9.0, delta=1e-5)
homes, people = pa.table({{"h": [1], "size": [2]}}), pa.table({{"h": [1], "age": [3]}})
schema = fastdp.LinkedSchema.from_dict({{"fastdp": 1, "tables": {UNFIT!r}}})
try:
    fastdp.synthesize({{"homes": homes, "people": people}}, schema=schema, epsilon=1.0, delta=1e-6,
                      ledger=ledger, dataset="d")
except fastdp.errors.SchemaError as error:
    assert False, "python -O leaves this out"
    print("refused:", error, ledger.spent("d")["events"])
"""
    done = subprocess.run(
        [sys.executable, "-O", "-c", program],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(fastdp.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.startswith("refused:") and done.stdout.strip().endswith(" 0"), done
    assert "null = 'drop'" in done.stdout
