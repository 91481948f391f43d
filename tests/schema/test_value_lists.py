"""`values`: a column with a public list costs no budget, and bad lists are refused before a charge."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastdp
from fastdp.errors import FastdpError, UsageError
from fastdp.release.domaincosts import DomainCosts
from fastdp.tables.source_columns import schema_of_source
from tests.cli.test_app import fastdp_cli

STATES = ["AL", "AK", "WY"]


def people(rows=1200, seed=0):
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "id": rng.integers(0, 400, rows),
            "state": rng.choice(["AL", "AK", "ZZ"], rows),
            "code": rng.integers(0, 3, rows),
            "weight": rng.choice([0.5, 1.5], rows),
        }
    )


@pytest.fixture
def place(tmp_path):
    pq.write_table(people(), tmp_path / "people.parquet")
    (tmp_path / "states.txt").write_bytes(b"\xef\xbb\xbfAL\r\nAK\n\nWY\n")
    (tmp_path / "codes.csv").write_text('label,code\n"one, two",0\nx,1\ny,2\n')
    (tmp_path / "weights.json").write_text("[0.5, 1.5]")
    return tmp_path


def test_every_form_of_a_list_gives_the_same_column(place):
    schema = schema_of_source(place / "people.parquet", "id")
    lists = {"state": place / "states.txt", "code": place / "codes.csv"}
    by_file = schema.with_values(lists | {"weight": str(place / "weights.json")})
    plain = {"state": STATES, "code": range(3), "weight": [0.5, 1.5]}
    by_list = schema.with_values(plain)
    assert not by_file.pending
    for name, values in plain.items():
        assert by_file.columns[name].values == tuple(values)
        assert by_file.columns[name] == by_list.columns[name]
    assert "states.txt" in by_file.provenance and str(place) not in by_file.provenance


def test_a_listed_column_costs_nothing(place):
    """The share of the budget for domains is that of the remaining columns; with all listed, 0."""
    schema = schema_of_source(place / "people.parquet", "id")
    lists = {"state": STATES, "code": [0, 1, 2], "weight": [0.5, 1.5]}
    assert DomainCosts.of(schema, 1e-6).share > 0
    assert DomainCosts.of(schema.with_values(lists), 1e-6).share == 0
    texts = schema.with_values({"state": STATES})
    assert DomainCosts.of(schema, 1e-6).keys_delta > 0
    assert DomainCosts.of(texts, 1e-6).keys_delta == 0  # no list of texts is searched for


def test_texts_of_files_without_types_become_numbers_only_where_all_of_them_are():
    plain = {"columns": {"zip": {"kind": "any", "domain": "private"}}}
    schema = fastdp.Schema.from_dict(plain)
    assert schema.with_values({"zip": ["1", "20"]}).columns["zip"].values == (1, 20)
    assert schema.with_values({"zip": ["01", "20"]}).columns["zip"].values == ("01", "20")


def test_what_the_schema_states_of_the_column_stays():
    stated = {"null": "drop", "source": "STATE", "other": "elsewhere"}
    entry = {"kind": "string", "domain": "private", "keys_per_user": 2, **stated}
    schema = fastdp.Schema.from_dict({"columns": {"state": entry}})
    column = schema.with_values({"state": STATES}).columns["state"]
    assert (column.null.action, column.source, column.other) == ("drop", "STATE", "elsewhere")


def test_a_run_with_lists_releases_nothing_about_their_domains(place):
    """On the command line and in Python, and from a recipe; values outside become `(other)`."""
    run = fastdp.synthesize(
        place / "people.parquet",
        {
            "mechanism": "mst",
            "values": {"code": [0, 1, 2], "state": str(place / "states.txt"), "weight": [0.5, 1.5]},
        },
        epsilon=4.0,
        delta=1e-6,
        domain="private",
        user="id",
    )
    assert set(run.data["state"].to_pylist()) <= {*STATES, "(other)", None}
    assert "(other)" in run.data["state"].to_pylist()
    assert "found" not in run.privacy["schema"]  # no step of the run was about a domain
    recipe = 'mechanism = "mst"\n[values]\ncode = "codes.csv"\nstate = ["AL"]\n'
    (place / "recipe.toml").write_text(recipe)
    given = ["people.parquet", "-e", 4, "-d", "1e-6", "--domain", "private", "--user", "id"]
    lists = ["--values", "state=states.txt", "--values", "weight=weights.json"]
    fastdp_cli("synth", *given, *lists, "-m", "recipe.toml", "--out", "a", cwd=place)
    columns = json.loads((place / "a" / "schema.json").read_text())["columns"]
    assert columns["state"]["values"] == STATES  # the option stands in place of the recipe's lists
    assert columns["code"]["kind"] != "categorical"
    assert "found" in json.loads((place / "a" / "privacy.json").read_text())["schema"]
    assert fastdp.verify(place / "a")


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"stat": ["AL"]}, "did you mean 'state'"),
        ({"state": []}, "empty"),
        ({"state": ["AL", "AL"]}, "twice"),
        ({"state": [1.5]}, "expected texts"),
        ({"state": 3}, "expected a list or a file"),
        ({"state": "none.txt"}, "cannot be read"),
        ({"code": ["one"]}, "whole numbers"),
        ({"weight": [None]}, "numbers"),
        ("state=states.txt", "expected a mapping"),
        ({"id": [1]}, "not a column whose values"),
    ],
)
def test_bad_lists_are_refused_before_a_charge(place, monkeypatch, values, said):
    monkeypatch.chdir(place)
    fastdp.Ledger("budget.db").open("people", epsilon=9.0, delta=1e-5, keys=1e-6)
    with pytest.raises(FastdpError, match=said):
        fastdp.synthesize(
            "people.parquet",
            "mst",
            1.0,
            1e-6,
            domain="private",
            user="id",
            values=values,
            ledger="budget.db",
        )
    assert fastdp.Ledger("budget.db").entries() == []


def test_lists_need_a_column_to_find(place):
    complete = fastdp.Schema.from_domain({"code": 3})
    with pytest.raises(UsageError, match="has its domain already"):
        complete.with_values({"code": [1]})
    with pytest.raises(UsageError, match="state it in a schema"):
        when = {"kind": "timestamp", "dtype": "date32", "domain": "private"}
        fastdp.Schema.from_dict({"columns": {"day": when}}).with_values({"day": ["2020-01-01"]})
    for words, said in (("state", "COLUMN=FILE"), ("state=a", "given twice")):
        given = ["people.parquet", "-e", 1, "--domain", "private", "--values", "state=a"]
        ended = fastdp_cli("synth", *given, "--values", words, cwd=place, check=False)
        assert ended.returncode == 2 and said in ended.stderr
