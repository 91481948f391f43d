"""SDV's metadata as a schema: kinds are taken over, lists and bounds are left to the run, ids and names left
out."""

import datetime
import json

import numpy as np
import pandas as pd
import pytest

import fastdp
from fastdp.errors import SchemaError

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
    start = datetime.datetime(2025, 1, 1)
    return pd.DataFrame(
        {
            "visit": np.arange(rows),
            "guest": rng.integers(0, rows // 2, rows),
            "room": rng.choice(["basic", "deluxe", "suite"], rows, p=[0.6, 0.3, 0.1]),
            "paid": rng.integers(40, 400, rows),
            "rating": rng.normal(4, 0.5, rows).round(1),
            "member": rng.random(rows) < 0.3,
            "arrived": pd.to_datetime(
                [start + datetime.timedelta(hours=int(h)) for h in rng.integers(0, 2000, rows)]
            ),
            "born": [
                datetime.date(1950, 1, 1) + datetime.timedelta(days=int(d))
                for d in rng.integers(0, 20_000, rows)
            ],
            "email": [f"{i}@example.com" for i in range(rows)],
        }
    )


def test_kinds_users_and_what_is_left_out():
    schema = fastdp.Schema.from_sdv(METADATA)
    assert schema.user == "guest"
    assert list(schema.fields) == ["room", "paid", "rating", "member", "arrived", "born"]
    assert schema.fields["paid"].dtype == "int64" and schema.fields["rating"].dtype == "float64"
    assert schema.fields["born"].dtype == "date32" and schema.fields["arrived"].dtype == "timestamp[us]"
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
    with pytest.raises(SchemaError, match="expected one of a, b"):
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
    quality = pytest.importorskip("sdmetrics.reports.single_table", reason="sdmetrics is not installed")
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
