"""Runs without a domain written down: from the source's columns and types alone, or column by
column."""

import datetime
import decimal
import json

import jsonschema
import numpy as np
import pyarrow as pa
import pytest

import fastdp
from fastdp.errors import BudgetError, DataError, RunError, UsageError
from fastdp.privacy.forms import as_form
from fastdp.privacy.statement import load_schema
from fastdp.release import domaincosts
from fastdp.release.domain_grids import LaterEngine
from fastdp.schema import Schema
from fastdp.tables.source_columns import schema_of_source
from tests.builders import killed_at, open_ledger
from tests.tiers import first


def people(rows=6000, seed=0):
    rng = np.random.default_rng(seed)
    days = np.datetime64("2022-01-01", "s") + rng.integers(0, 90 * 86_400, rows).astype(
        "timedelta64[s]"
    )
    return pa.table(
        {
            "id": rng.integers(0, rows // 2, rows),
            "age": rng.integers(17, 91, rows),
            "wage": np.where(rng.random(rows) < 0.6, 0.0, np.round(rng.lognormal(7, 1, rows))),
            "city": [f"city {i}" for i in rng.integers(0, 4, rows)],
            "at": pa.array(days),
            "yes": rng.random(rows) < 0.3,
        }
    )


ASK = {"mechanism": "mst", "epsilon": 8.0, "delta": 1e-6, "clip": 3}


def go(source, **options):
    return fastdp.synthesize(source, **{**ASK, "seed": 5, "sample_seed": 6, **options})


def test_a_run_from_columns_and_types_alone(tmp_path):
    run = go(people(), domain="private", user="id", out=tmp_path / "run")
    schema = run.schema
    assert schema.user == "id" and not schema.pending
    assert schema.columns["city"].values == (*(f"city {i}" for i in range(4)), "(other)")
    assert (
        schema.fields["at"].min <= "2022-01-05"
        and "2022-03-25" <= schema.fields["at"].max <= "2022-04-30"
    )
    assert schema.columns["yes"].values == (False, True)
    wage = schema.columns["wage"]
    assert (0.0, 1.0) in list(zip(wage.edges, wage.edges[1:])) and wage.whole
    data = run.data
    ages = data["age"].to_numpy()
    assert 15 <= ages.min() and ages.max() <= 95 and abs(np.median(ages) - 54) < 6
    zero = np.mean(data["wage"].to_numpy(zero_copy_only=False) == 0)
    assert 0.5 < zero < 0.7
    assert Schema.load(tmp_path / "run" / "schema.json") == schema
    found = run.privacy["schema"]["found"]
    assert found["columns"] == ["age", "wage", "city", "at"] and found["asked"] != schema.digest()
    jsonschema.validate(json.loads((tmp_path / "run" / "privacy.json").read_text()), load_schema())
    assert "found in the run" in as_form(run.privacy, "text") + json.dumps(
        as_form(run.privacy, "sp800-226")
    )
    assert fastdp.verify(tmp_path / "run").ok


def test_large_numbers_are_found_and_types_without_values_left_out(caplog):
    """Numbers beyond 2^53 have no round steps: a run stopped because of them after it was
    charged."""
    hashes = np.random.default_rng(0).integers(-(2**62), 2**62, 4000)
    run = go(
        pa.table({"hash": hashes, "tags": [[1]] * 4000, "none": pa.nulls(4000)}), domain="private"
    )
    assert run.data.column_names == ["hash"] and np.ptp(run.data["hash"].to_numpy()) > 2**62
    assert "column 'tags' is left out" in caplog.text and "column 'none' is left out" in caplog.text


def test_only_the_marked_columns_are_found():
    age = {
        "kind": "numeric",
        "dtype": "int64",
        "domain": "private",
        "min": 0,
        "max": 120,
        "bins": 10,
    }
    city = {"kind": "string", "values": ["city 0", "city 1"], "other": "elsewhere"}
    plain = {"user": {"column": "id", "max_rows": 5}, "columns": {"age": age, "city": city}}
    run = go(people(), schema=Schema.from_dict(plain))
    assert len(run.schema.columns["age"].edges) == 11 and run.schema.columns["age"].edges[-1] <= 121
    assert run.schema.columns["city"].values == ("city 0", "city 1")
    kinds = [r["kind"] for r in run.privacy["parts"][0]["releases"]]
    assert kinds[:6] == ["grid"] * 5 + ["schema"] and "keys" not in kinds
    assert run.privacy["parts"][0]["event"]["law"] == "gaussian"  # no threshold, so delta is whole


@pytest.mark.parametrize("mechanism", first(1, ["aim", "auto"]))
def test_other_mechanisms_take_the_finished_schema(mechanism):
    run = go(people(2000), domain="private", user="id", mechanism=mechanism, clip=None)
    assert run.data.num_rows > 0
    assert run.privacy["parts"][0]["clip_choice"]["release"] == "rows per user"


def test_several_epsilons_share_one_domain_paid_by_the_largest(tmp_path):
    runs = go(people(2000), epsilon=[1.0, 8.0], domain="private", user="id", out=tmp_path / "both")
    assert runs[0].schema == runs[1].schema
    parts = runs[0].privacy["parts"]
    assert parts[1]["releases"][0]["kind"] == "grid" and parts[0]["releases"][0]["kind"] not in (
        "keys",
        "grid",
    )
    assert runs[0].privacy["schema"]["found"]["part"] == 1
    assert fastdp.verify(tmp_path / "both").ok


def test_the_ledger_pays_once_and_knows_the_schema_again(tmp_path):
    ledger = open_ledger(tmp_path, "people", epsilon=10.0, delta=1e-5, keys=1e-6)
    options = {
        "seed": None,
        "domain": "private",
        "user": "id",
        "ledger": ledger,
        "dataset": "people",
    }
    run = go(people(2000), **options, out=tmp_path / "run")
    assert ledger.spent("people")["epsilon"] <= 8.0 and len(ledger.entries("people")) == 1
    assert fastdp.verify(tmp_path / "run", ledger).ok
    # Another domain, consistently forged: every hash in the folder fits, but not the ledger's.
    plain = json.loads((tmp_path / "run" / "schema.json").read_text())
    plain["columns"]["city"]["values"][0] = "someone's home"
    forged = Schema.from_dict(plain)
    forged.save(tmp_path / "run" / "schema.json")
    statement = json.loads((tmp_path / "run" / "privacy.json").read_text())
    statement["schema"]["sha256"] = forged.digest()
    from fastdp.privacy.statement import write

    write(tmp_path / "run", statement)
    with pytest.raises(RunError, match="not the finished schema that the run released"):
        fastdp.verify(tmp_path / "run", ledger)
    assert run.privacy["schema"]["found"]["share"] <= domaincosts.MOST_DOMAINS


def test_a_ledger_without_delta_for_keys_refuses_and_a_wide_table_is_warned_of(
    tmp_path, monkeypatch, caplog
):
    """Both before anything is read or charged."""
    ledger = open_ledger(tmp_path, "people", epsilon=10.0, delta=1e-5)
    monkeypatch.setattr("fastdp.tables.ingest.read_parts", lambda *a, **k: 1 / 0)
    wide = pa.table({f"c{i}": ["x", "y"] for i in range(40)})
    for table, user in ((people(100), "id"), (wide, None)):
        with pytest.raises(BudgetError, match="for keys"):
            go(table, seed=None, domain="private", user=user, ledger=ledger, dataset="people")
    assert ledger.spent("people")["events"] == 0
    warned = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    (shared,) = [text for text in warned if "40 columns" in text]
    assert "Leave columns out" in shared
    assert sum("will vanish" in text for text in warned) == 2, "one for each table"


def test_a_run_that_died_goes_on_with_its_domain(tmp_path, monkeypatch):
    options = {"seed": None, "domain": "private", "user": "id", "out": tmp_path / "run"}
    with killed_at("fastdp.run.execute._measure_and_write"):
        go(people(2000), **options)
    ledger = fastdp.Ledger.local(tmp_path / "run.private" / "ledger.db")
    before = [s["answers"] for s in ledger.entries()[0]["steps"]]
    assert len(before) >= 5
    with pytest.raises(RunError, match="schema differs"):
        go(people(2000).drop_columns(["age"]), **options, resume=True)
    monkeypatch.setattr("fastdp.release.keyselect.count_keys", lambda *a: 1 / 0)
    monkeypatch.setattr(LaterEngine, "_opened", lambda self: 1 / 0)
    run = go(people(2000), **options, resume=True)
    assert run.schema.columns["city"].values
    assert fastdp.verify(tmp_path / "run").ok


def test_what_cannot_be_read_twice_or_has_no_types_is_refused(tmp_path):
    table = people(200)
    with pytest.raises(UsageError, match="only once"):
        go(table.to_reader(), schema=schema_of_source(table, "id"))
    with pytest.raises(UsageError, match="has codes and no values"):
        go(fastdp.read(table, schema_of_source(table, "id").stand_in()), domain="private")
    with pytest.raises(UsageError, match="names the user column"):
        go(table, user="id")
    with pytest.raises(UsageError, match="no column of the schema has a private domain"):
        go(table, schema=schema_of_source(table, "id").stand_in(), domain="private")
    with pytest.raises(UsageError, match="the schema names the user column"):
        go(table, schema=schema_of_source(table, "id"), domain="private", user="id")
    with pytest.raises(DataError, match="'wage' is missing"):
        go(table.drop_columns(["wage"]), schema=schema_of_source(table, "id"))
    (tmp_path / "t.csv").write_text("a;b\n1;2\n")
    with pytest.raises(DataError, match="looks delimited by ';'"):  # before anything is charged
        go(str(tmp_path / "t.csv"), domain="private")


def test_a_plan_says_what_finding_domains_costs():
    asked = schema_of_source(people(10), "id")
    made = fastdp.plan(asked, "auto", 1.0, 1e-6, rows=10_000_000)
    assert 0 < made.domain_share <= domaincosts.MOST_DOMAINS
    assert made.domain_delta == pytest.approx(domaincosts.KEYS_SHARE * 1e-6)
    of_domains = [d.column for d in made.domain if not d.how.startswith("sums")]
    assert of_domains == ["age", "wage", "city", "at"]
    assert [d.column for d in made.domain[len(of_domains) :]] == ["age", "wage"]  # sums inside bins
    assert f"domains: at most {made.domain_share:.1%} of mu^2" in str(made)
    without = fastdp.plan(asked.stand_in(), "auto", 1.0, 1e-6, rows=10_000_000)
    assert made.lines[0].sigma > without.lines[0].sigma
    assert all(d.how.startswith("sums") for d in without.domain)
    with pytest.raises(UsageError, match="write the domain down"):
        fastdp.plan(asked, "mst", 1.0, 0.0, rows=10_000_000)


def test_a_text_file_needs_no_schema(tmp_path):
    """Numbers, dates and times written as text are recognised by noisy counts; hours are complete
    although almost nobody has the first and the last; postal codes with leading zeros stay texts.
    Times at midnight come back at midnight, those on the half hour on the half hour, clock times
    written as HHMM without minutes above 59. Words for missing in a fifth of the cells are nulls,
    times with offsets times in UTC."""
    import pyarrow.csv as csv

    rng = np.random.default_rng(3)
    rows = 10_000
    hour = np.minimum(23, np.maximum(0, np.round(rng.normal(13, 4, rows)))).astype(int)
    at = np.datetime64("2022-03-01", "s") + rng.integers(0, 60 * 86_400, rows).astype(
        "timedelta64[s]"
    )
    columns = {
        "id": rng.integers(0, 4000, rows),
        "hour": hour,
        "price": np.round(rng.lognormal(3, 1, rows), 2),
        "at": [f"{t} -05:00".replace("T", " ") for t in at],
        "slot": [
            f"{t.astype('datetime64[h]')}:{m:02}" for t, m in zip(at, 30 * rng.integers(0, 2, rows))
        ],
        "dose": np.where(rng.random(rows) < 0.2, "NA", rng.integers(1, 9, rows).astype(str)),
        "day": [str(t)[:10] for t in at],
        "zip": [f"0{2138 + i}" for i in rng.integers(0, 3, rows)],
        "visit": [f"{str(t)[:10]}T00:00:00" for t in at],
        "clock": hour * 100 + rng.integers(0, 60, rows),
        "year": 1980 + hour,
        "paid": rng.integers(0, 2400, rows),
    }
    table = pa.table(columns)
    table = table.append_column("", pa.array(range(rows)))  # row numbers, as pandas writes them
    csv.write_csv(table, tmp_path / "t.csv")
    run = go(str(tmp_path / "t.csv"), domain="private", user="id", epsilon=4.0)
    fields = run.schema.fields
    assert "" not in fields
    assert (fields["hour"].kind, fields["hour"].min, fields["hour"].max) == ("integer", 0, 23)
    assert fields["price"].kind == "numeric" and fields["price"].dtype == "float64"
    assert (
        fields["at"].kind == fields["day"].kind == "timestamp" and fields["day"].dtype == "date32"
    )
    assert fields["at"].min >= "2022-01-01" and fields["at"].max <= "2022-12-31"
    assert set(fields["zip"].values) == {"02138", "02139", "02140", "(other)"}
    assert fields["visit"].step == 86_400 and fields["clock"].transform == "hhmm"
    assert {fields["year"].kind, fields["paid"].kind} <= {"integer", "numeric"}
    of_day = {t.time() for t in run.data["visit"].drop_null().to_pylist()}
    assert of_day == {datetime.time()} and (fields["at"].step, fields["slot"].step) == (1, 1800)
    assert {t.minute for t in run.data["slot"].drop_null().to_pylist()} == {0, 30}
    assert fields["dose"].kind == "integer" and abs(run.data["dose"].null_count / rows - 0.2) < 0.05
    assert max(v % 100 for v in run.data["clock"].drop_null().to_pylist()) < 60
    assert "'at' as timestamp[us, tz=UTC]" in run.schema.provenance
    assert run.data["at"].type == pa.timestamp("us", "UTC") and run.data["day"].type == pa.date32()
    assert set(run.privacy["schema"]["found"]["missing"]) == set(fields)
    assert any("without an id" in note for note in run.privacy["notes"])


def test_what_a_domain_misses_is_stated():
    """Half of the rows have a value of their own."""
    run = go(
        pa.table({"city": ["big" if i % 2 else f"only {i}" for i in range(4000)]}), domain="private"
    )
    assert any("city" in note and "outside the domain" in note for note in run.privacy["notes"])


def test_an_empty_table_makes_no_rows(tmp_path):
    """At most one run in forty: a total below two standard errors is noise."""
    (tmp_path / "t.csv").write_text("id,a,b\n")
    made = [
        go(str(tmp_path / "t.csv"), domain="private", user="id", seed=s).data.num_rows
        for s in range(4)
    ]
    assert made.count(0) >= 2  # three or more above two standard errors: 5e-5


def test_a_small_table_without_users_has_rows_whatever_the_noise(tmp_path):
    """At least two standard errors of their number, which is noise here: about 150 for 40 rows."""
    table = fastdp.Table.from_codes({"a": 3, "b": 3}, {c: np.arange(40) % 3 for c in "ab"})
    noted = []
    for seed in range(6):
        run = fastdp.synthesize(table, "cliquetree", 0.1, 1e-9, seed=seed, out=tmp_path / f"{seed}")
        assert run.data.num_rows > 40 and fastdp.verify(run).ok
        noted.append(any("mostly noise" in note for note in run.privacy["notes"]))
    assert sum(noted) >= 3  # a total above two standard errors: one run in 30


DECIMAL = decimal.Decimal
CONSTANTS = {
    "10^16": (38, 0, [DECIMAL(10) ** 16]),
    "10^10 of 18 digits": (38, 18, [DECIMAL(10) ** 10]),
    "10^37": (38, 0, [DECIMAL(10) ** 37]),
    "-10^16 - 1": (38, 0, [-(DECIMAL(10) ** 16) - 1]),
    "7 of 30 digits": (38, 30, [DECIMAL(7)]),
    "neighbours": (38, 0, [DECIMAL(10) ** 17 + k for k in range(3)]),
    "a sentinel": (38, 0, [DECIMAL(10) ** 20 - 1, DECIMAL(1), DECIMAL(2)]),
}


@pytest.mark.parametrize("name", first(2, CONSTANTS))
def test_decimals_beyond_floats_have_private_domains(name):
    """Bins that are finer than floats stay whole; two draws of noise each."""
    digits, places, values = CONSTANTS[name]
    column = pa.array(values * (300 // len(values)), pa.decimal128(digits, places))
    rows = pa.table({"u": np.arange(len(column)), "x": column})
    for seed in range(2):
        run = fastdp.synthesize(
            rows, "mst", 0.9, 1e-6, domain="private", user="u", progress=False, seed=seed
        )
        assert run.data.schema.field("x").type == column.type


@pytest.mark.parametrize("value", first(2, [1e22, -1e300, 2.0**53 + 2, 5e-324]))
def test_constant_floats_of_any_size_have_private_domains(value):
    rows = pa.table({"u": np.arange(300), "x": np.full(300, value)})
    for seed in range(3):
        fastdp.synthesize(
            rows, "mst", 0.9, 1e-6, domain="private", user="u", progress=False, seed=seed
        )
