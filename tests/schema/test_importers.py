"""Schemas from other people's files, and drafts from public data."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import fastdp
from fastdp import Schema
from fastdp.codec.encode import encode_batch
from fastdp.errors import SchemaError

DATA = Path(__file__).parents[2] / "../shared/data"
needs_data = pytest.mark.skipif(
    not DATA.exists(), reason="the shared data is not beside the project"
)


@needs_data
def test_parameters_of_the_three_sprints_become_schemas():
    one = Schema.from_deid2(DATA / "deid2/sprint1_parameters.json")
    assert one.domain["neighborhood"] == 278 and one.domain["incident_type"] == 174
    assert (one.user, one.max_rows_per_user) == ("sim_resident", 20)
    assert one.columns["neighborhood"].labels()[0] == "Abell"
    two = Schema.from_deid2(DATA / "deid2/sprint2_parameters.json")
    assert len(two.columns) == 35 and two.max_rows_per_user == 7
    assert two.domain["AGE"] == 136 and two.columns["INCTOT"].labels()[0] == "(-inf, 0)"
    three = Schema.from_deid2(DATA / "deid2/sprint3_parameters.json")
    built_in = Schema.load("taxi-deid2")
    assert {**three.domain} == {**built_in.domain}
    assert (three.user, three.max_rows_per_user) == ("taxi_id", 200)
    assert three.columns["trip_seconds"].edges[1:-1] == tuple(range(0, 2000, 200))
    named = Schema.from_deid2(DATA / "deid2/sprint3_named_parameters.json")
    assert named.domain["company_id"] == 101
    assert named.columns["payment_type"].labels()[1] == "Cash"


def test_a_domain_becomes_a_schema_of_codes():
    schema = Schema.from_domain({"age": 85, "sex": 2, "zip": 100_000}, user="who")
    assert dict(schema.domain) == {"age": 85, "sex": 2, "zip": 100_000} and schema.user == "who"
    table = pa.table({"age": [84, 85, -1, None], "sex": [0, 1, 0, 1], "zip": [99_999, 0, 0, 0]})
    codes, keep = encode_batch(schema, table)
    assert codes["age"].dtype == np.uint8 and codes["zip"].dtype == np.uint32
    assert keep.tolist() == [True, False, False, False]
    for size in (0, 2.5, "3", True):
        with pytest.raises(SchemaError, match="column 'a': expected a size that is a whole number"):
            Schema.from_domain({"a": size})


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "not valid JSON"),
        ("{}", "'schema' or 'runs' is missing"),
        (
            '{"schema": {"a": {}}, "runs": [{"max_records_per_individual": 1}]}',
            "field 'dtype' is missing",
        ),
    ],
)
def test_malformed_parameters_are_named(tmp_path, text, complaint):
    path = tmp_path / "parameters.json"
    path.write_text(text)
    with pytest.raises(SchemaError, match=r"parameters\.json") as error:
        Schema.from_deid2(path)
    assert complaint in str(error.value)


# SDV's metadata as a schema: kinds are taken over, lists and bounds are left to the run, ids and
# names left out.


METADATA = {
    "METADATA_SPEC_VERSION": "SINGLE_TABLE_V1",
    "primary_key": "visit",
    "sequence_key": "guest",
    "columns": {
        "visit": {"sdtype": "id"},
        "guest": {"sdtype": "id"},
        "room": {"sdtype": "categorical"},
        "paid": {"sdtype": "numerical", "computer_representation": "Int64"},
        "rating": {"sdtype": "numerical"},
        "member": {"sdtype": "boolean"},
        "arrived": {"sdtype": "datetime", "datetime_format": "%Y-%m-%d %H:%M"},
        "born": {"sdtype": "datetime", "datetime_format": "%d %b %Y"},
        "email": {"sdtype": "email", "pii": True},
    },
}


def hotel(rows=8000, seed=0):
    rng = np.random.default_rng(seed)
    columns = {
        "visit": np.arange(rows),
        "guest": rng.integers(0, rows // 2, rows),
        "room": rng.choice(["basic", "deluxe", "suite"], rows, p=[0.6, 0.3, 0.1]),
        "paid": rng.integers(40, 400, rows),
        "rating": rng.normal(4, 0.5, rows).round(1),
        "member": rng.random(rows) < 0.3,
        "arrived": pd.Timestamp("2025-01-01") + pd.to_timedelta(rng.integers(0, 2000, rows), "h"),
        "born": (np.datetime64("1950-01-01") + rng.integers(0, 20_000, rows)).tolist(),
        "email": [f"{i}@example.com" for i in range(rows)],
    }
    return pd.DataFrame(columns)


def test_kinds_users_and_what_is_left_out():
    schema = fastdp.Schema.from_sdv(METADATA)
    assert schema.user == "guest"
    assert list(schema.fields) == ["room", "paid", "rating", "member", "arrived", "born"]
    assert schema.fields["paid"].dtype == "int64" and schema.fields["rating"].dtype == "float64"
    assert (
        schema.fields["born"].dtype == "date32"
        and schema.fields["arrived"].dtype == "timestamp[us]"
    )
    assert "without visit, email" in schema.provenance


def test_a_file_an_object_and_one_table_of_several_are_the_same(tmp_path):
    path = tmp_path / "metadata.json"
    path.write_text(json.dumps(METADATA))

    class Metadata:
        def to_dict(self):
            return {"tables": {"hotel": METADATA}, "METADATA_SPEC_VERSION": "V1"}

    plain = fastdp.Schema.from_sdv(path).to_dict()
    named = fastdp.Schema.from_sdv(Metadata()).to_dict()
    assert named.pop("name") == "hotel" and plain.pop("name") == ""
    assert plain == named
    with pytest.raises(SchemaError, match=r"SDV metadata \(a, b\)"):
        fastdp.Schema.from_sdv({"tables": {"a": METADATA, "b": METADATA}})


def test_public_knowledge_replaces_what_would_be_found():
    known = {"room": {"kind": "string", "values": ["basic", "deluxe", "suite"]}}
    schema = fastdp.Schema.from_sdv(METADATA, columns=known)
    assert schema.fields["room"].values == ("basic", "deluxe", "suite")
    with pytest.raises(SchemaError, match="no column 'rooom'"):
        fastdp.Schema.from_sdv(METADATA, columns={"rooom": known["room"]})
    with pytest.raises(SchemaError, match="no column 'host'"):
        fastdp.Schema.from_sdv(METADATA, user="host")


def test_a_frame_goes_through_and_sdmetrics_reads_what_comes_out():
    quality = pytest.importorskip(
        "sdmetrics.reports.single_table", reason="sdmetrics is not installed"
    )
    truth = hotel()
    run = fastdp.synthesize(
        truth, schema=fastdp.Schema.from_sdv(METADATA), epsilon=5.0, delta=1e-6, sample_seed=1
    )
    made = run.to_pandas()
    columns = ["room", "paid", "rating", "member"]
    assert set(columns) <= set(made.columns)
    metadata = {"columns": {name: METADATA["columns"][name] for name in columns}}
    report = quality.QualityReport()
    report.generate(truth[columns], made[columns], metadata, verbose=False)
    assert report.get_score() > 0.8
