"""Schemas from other people's files, and drafts from public data."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import fastdp
from fastdp import Schema
from fastdp.codec.encode import encode_batch
from fastdp.errors import SchemaError

DATA = Path(__file__).parents[2] / "../shared/data"
needs_data = pytest.mark.skipif(not DATA.exists(), reason="the shared data is not beside the project")


@needs_data
def test_the_three_sprints():
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


def test_from_domain():
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
        ("[]", "expected a JSON object"),
        ("{}", "'schema' or 'runs' is missing"),
        ('{"schema": {}, "runs": [{}]}', "max_records_per_individual"),
        ('{"schema": {"a": {}}, "runs": [{"max_records_per_individual": 1}]}', "field 'dtype' is missing"),
        (
            '{"schema": {"a": {"dtype": "int8"}}, "runs": [{"max_records_per_individual": 1}]}',
            "column 'a' has neither values nor min and max",
        ),
        (
            (
                '{"schema": {"a": {"dtype": "int8", "values": [1]}}, "runs": [{"max_records_per_individual": '
                "1}]}"
            ),
            "no column of kind 'id'",
        ),
        ('{"schema": {"periods": []}, "runs": [{"max_records_per_individual": 1}]}', "sprint 1 needs"),
    ],
)
def test_malformed_parameters_are_named(tmp_path, text, complaint):
    path = tmp_path / "parameters.json"
    path.write_text(text)
    with pytest.raises(SchemaError, match=r"parameters\.json") as error:
        Schema.from_deid2(path)
    assert complaint in str(error.value)


def public_frame() -> pa.Table:
    rng = np.random.default_rng(1)
    n = 500
    return pa.table(
        {
            "who": rng.integers(0, 50, n),
            "age": rng.integers(0, 90, n).astype(np.int8),
            "income": rng.lognormal(10, 1, n).astype(np.int64),
            "height": rng.normal(170, 10, n),
            "town": pa.array(rng.choice(["Aix", "Ulm", None], n)),
            "class": pa.array(rng.choice(["a", "b"], n)).dictionary_encode(),
            "yes": rng.integers(0, 2, n).astype(bool),
            "born": pa.array([dt.date(2000, 1, 1 + i % 28) for i in range(n)]),
            "seen": pa.array([dt.datetime(2020, 1, 1, i % 24) for i in range(n)]),
            "price": pa.array(rng.integers(0, 5, n)).cast(pa.decimal128(20, 0)).cast(pa.decimal128(22, 2)),
            "same": np.full(n, 7.0),
            "none": pa.nulls(n, pa.float64()),
        }
    )


def test_a_draft_encodes_the_frame_it_came_from(tmp_path):
    frame = public_frame()
    schema = fastdp.draft(frame, user="who").schema
    codes, keep = encode_batch(schema, frame)
    assert keep is None and schema.user == "who" and "who" not in schema.columns
    for name, column in schema.columns.items():
        assert not (codes[name] == column.overflow_code).any()
    assert schema.columns["age"].kind == "integer"
    assert 10 <= schema.columns["height"].base <= 45
    assert schema.columns["town"].values == ("Aix", "Ulm")
    schema.save(tmp_path / "draft.toml")
    assert Schema.load(tmp_path / "draft.toml") == schema
    with pytest.raises(SchemaError, match="user=: the data has no column 'whom'"):
        fastdp.draft(frame, user="whom")
    with pytest.raises(SchemaError, match="'x': a struct"):
        fastdp.draft(pa.table({"x": [{"a": 1}]}))


def test_a_draft_reads_polars_and_pandas():
    pl, pd = pytest.importorskip("polars"), pytest.importorskip("pandas")
    for frame in (pl.DataFrame({"a": ["x", "y"], "b": [1, 2]}), pd.DataFrame({"a": ["x", "y"], "b": [1, 2]})):
        schema = fastdp.draft(frame).schema
        assert schema.columns["a"].values == ("x", "y") and schema.columns["b"].base == 2
