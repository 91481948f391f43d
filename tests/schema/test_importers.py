"""Schemas from other people's files, and drafts from public data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

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
