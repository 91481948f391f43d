"""Whole runs that start from public data, through the session and the command line."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastdp
from fastdp.errors import DataError, FastdpError, SchemaError, UsageError
from fastdp.run import public_data
from fastdp.tables.sources.source import source_of
from tests.builders import killed_at
from tests.cli.test_app import fastdp_cli
from tests.tiers import first

from .test_cliquetree import SIZES, data

MECHANISMS = ("cliquetree", "mst", "adagrid")
SCHEMA = fastdp.Schema.from_domain(SIZES)


def read_public(source, schema, relabel):
    return public_data.read_public(source_of(source), schema, relabel)


@pytest.fixture(scope="module")
def table():
    return fastdp.read(data(), SCHEMA)


@pytest.fixture(scope="module")
def last_year():
    return fastdp.read(data(seed=5), SCHEMA, public=True)


def go(table, public, mechanism="cliquetree", epsilon=0.3, **options):
    return fastdp.synthesize(
        table, mechanism, epsilon, 1e-6, public=public, seed=3, sample_seed=3, threads=1, **options
    )


@pytest.mark.parametrize("mechanism", first(2, MECHANISMS))
def test_what_rested_on_public_data_is_stated_and_the_run_verifies(
    table, last_year, mechanism, tmp_path
):
    run = go(table, last_year, mechanism, out=tmp_path / "run")
    assert fastdp.verify(tmp_path / "run").ok
    part = run.privacy["parts"][0]
    assert any("public" in r["label"] for r in part["releases"] if r["kind"] == "distances")
    used = run.privacy["mechanism"]["public"]
    if mechanism == "adagrid":
        assert ["a", "c"] in used["believed"]
        return
    taken = {tuple(c) for key in ("prior_only", "prior_and_answers") for c in used[key]}
    assert ("a", "c") in taken and ("a", "d") not in taken
    measured = {m.clique for m in run.measurements}
    assert not measured & {tuple(c) for c in used["prior_only"]}
    assert any("rest on it alone" in note for note in run.privacy["notes"])
    # Answers of the run alone are released.
    assert all(m.label != "public" for m in run.measurements)


@pytest.mark.parametrize("seed", [7, 9, 11])
def test_a_tiny_budget_does_not_fail_after_the_charge(table, last_year, seed):
    """Columns of which the first 1-ways showed nothing are no candidates in a screening round made
    before."""
    run = fastdp.synthesize(table, "cliquetree", 0.02, 1e-6, public=last_year, seed=seed, threads=1)
    assert run.privacy["mechanism"]["public"]["prior_not_used"] >= 0


def test_a_model_that_rests_on_what_nobody_stated_does_not_verify(table, last_year, tmp_path):
    assert go(table, last_year, epsilon=0.1, out=tmp_path / "run").privacy["mechanism"]["public"][
        "prior_only"
    ]
    path = tmp_path / "run" / "privacy.json"
    statement = json.loads(path.read_text())
    statement["mechanism"]["public"]["prior_only"] = []
    path.write_text(json.dumps(statement))
    with pytest.raises(FastdpError, match="there is no such release"):
        fastdp.verify(tmp_path / "run")


def test_a_resumed_run_with_other_public_data_is_refused(table, last_year, tmp_path):
    """Starts are part of the question: noise of one start must not answer for another."""
    with killed_at("fastdp.run.execute.finalize"):
        go(table, last_year, epsilon=0.1, out=tmp_path / "run")
    other = fastdp.read(data(seed=6), SCHEMA, public=True)
    with pytest.raises(FastdpError, match="asks a different question"):
        go(table, other, epsilon=0.1, out=tmp_path / "run", resume=True)
    run = go(table, last_year, epsilon=0.1, out=tmp_path / "run", resume=True)
    assert run.privacy["mechanism"]["public"]["prior_only"]


def test_public_data_of_another_schema_is_refused(table):
    plain = SCHEMA.to_dict()
    plain["columns"]["d"]["max"] = 40
    other = fastdp.read(data(), fastdp.Schema.from_dict(plain), public=True)
    with pytest.raises(UsageError, match="another schema"):
        go(table, other)
    with pytest.raises(UsageError, match="public=True"):
        go(table, fastdp.read(data(seed=5), SCHEMA))


def test_a_table_cannot_be_public_where_the_schema_is_found_in_the_run(last_year, tmp_path):
    path = tmp_path / "data.parquet"
    pq.write_table(data(), path)
    with pytest.raises(UsageError, match="give the public source"):
        fastdp.synthesize(path, "cliquetree", 1.0, 1e-6, public=last_year, domain="private", seed=1)


def test_the_command_line_takes_it_and_the_report_names_it(tmp_path):
    pq.write_table(data(), tmp_path / "data.parquet")
    pq.write_table(data(seed=5), tmp_path / "last-year.parquet")
    SCHEMA.save(tmp_path / "data.toml")
    asked = ("-m", "cliquetree", "-e", "0.3", "-d", "1e-6", "--public", "last-year.parquet")
    planned = fastdp_cli(
        "plan", "--schema", "data.toml", *asked, "--rows", "5000", cwd=tmp_path
    ).stdout
    assert "what it explains is not measured" in " ".join(planned.split())
    fastdp_cli("synth", "data.parquet", *asked, "--out", "run", "--report", cwd=tmp_path)
    used = fastdp.load_run(tmp_path / "run").privacy["mechanism"]["public"]
    texts = {"prior_only": "rest on it alone", "prior_and_answers": "rest on it and"}
    page = (tmp_path / "run.private" / "report.html").read_text()
    assert "Public data used: last-year.parquet" in page
    assert [text in page for text in texts.values()] == [bool(used[key]) for key in texts]


# Public data of another year: moved to the schema's year, by public facts alone.


def of_year(**year):
    month = {"kind": "integer", "min": 1, "max": 12, "overflow": "drop"}
    return fastdp.Schema.from_dict(
        {"columns": {"year": {"kind": "integer"} | year, "month": month}}
    )


def rows(*years, n=240):
    rng = np.random.default_rng(0)
    return pa.table({"year": rng.choice(years, n), "month": rng.integers(1, 13, n)})


def test_one_value_takes_all_rows_and_several_are_shifted():
    for one in ({"min": 2020, "max": 2020, "overflow": "drop"}, {"min": 2020, "max": 2020}):
        table = read_public(rows(2016, 2018), of_year(**one), ("year",))
        assert table.rows == 240 and set(table.codes["year"]) == {0}
        assert table.schema == of_year(**one)
    for values, dtype in (([2020], "int16"), (["this year"], "string")):
        alone = of_year(
            kind="categorical", dtype=dtype, values=values, overflow="drop", null="drop"
        )
        table = read_public(rows(2016, 2018), alone, ("year",))
        assert table.rows == 240 and set(table.codes["year"]) == {0}
    both = of_year(min=2019, max=2020, overflow="drop")
    moved = read_public(rows(2016, 2017), both, ["year"])
    assert moved.rows == 240 and set(moved.codes["year"]) == {0, 1}
    assert np.array_equal(moved.codes["year"], rows(2016, 2017)["year"].to_numpy() - 2016)
    listed = of_year(kind="categorical", dtype="int16", values=[2019, 2020], overflow="drop")
    same = read_public(rows(2019, 2020), listed, ["year"])  # nothing to move
    assert np.array_equal(same.codes["year"], rows(2019, 2020)["year"].to_numpy() - 2019)


def test_what_cannot_be_moved_is_said(tmp_path):
    words = of_year(kind="categorical", dtype="string", values=["a", "b"])
    with pytest.raises(UsageError, match="'year' must hold whole numbers"):
        read_public(rows(2018), words, ["year"])
    with pytest.raises(SchemaError, match="did you mean 'year'"):
        read_public(rows(2018), of_year(max=2020), ["years"])
    nothing = rows(2018).set_column(1, "month", pa.array(np.full(240, 77)))
    with pytest.raises(DataError, match="even after relabelling year"):
        read_public(nothing, of_year(min=5, max=5), ["year"])


def test_private_rows_decide_nothing():
    """The same public data is read the same way whatever the private rows are: they are not even
    opened."""
    public = fastdp.simulate.incidents(4000, seed=2, year=2017)
    made = [
        fastdp.synthesize(
            fastdp.simulate.incidents(3000, seed=s),
            "incidents-usercounts",
            2.0,
            1e-6,
            public=public,
            seed=4,
        ).privacy["parts"][0]["releases"]
        for s in (1, 5)
    ]
    assert made[0] == made[1]
