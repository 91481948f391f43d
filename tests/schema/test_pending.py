"""Columns with `domain = "private"`, and numeric columns of dates and times."""

import datetime as dt

import pyarrow as pa
import pytest

from fastdp.codec import encode
from fastdp.errors import SchemaError
from fastdp.schema import Schema
from fastdp.schema.pending import OTHER

ASKED = {
    "user": {"column": "who", "max_rows": 9},
    "columns": {
        "fare": {"kind": "numeric", "domain": "private", "min": 0, "max": 100, "nan": "overflow"},
        "city": {"kind": "string", "domain": "private", "keys_per_user": 3},
        "at": {"kind": "timestamp", "domain": "private"},
        "born": {
            "kind": "numeric",
            "dtype": "date32",
            "domain": "private",
            "min": dt.date(1900, 1, 1),
        },
        "n": {"kind": "integer", "domain": "private", "null": "drop"},
        "yes": {"kind": "categorical", "dtype": "bool", "domain": "private"},
        "public": {"kind": "integer", "max": 3},
    },
}


def test_a_schema_to_be_finished_has_no_codes_but_an_identity(tmp_path):
    asked = Schema.from_dict(ASKED)
    assert list(asked.pending) == ["fare", "city", "at", "born", "n"]
    with pytest.raises(SchemaError, match="'fare': its domain is private and not found yet"):
        asked.domain  # noqa: B018
    for name in ("s.toml", "s.json"):
        asked.save(tmp_path / name)
        again = Schema.load(tmp_path / name)
        assert again == asked and again.pending["born"].low == asked.pending["born"].low < 0
    other = {
        **ASKED,
        "columns": {**ASKED["columns"], "n": {"kind": "integer", "domain": "private"}},
    }
    assert Schema.from_dict(other) != asked
    assert "private domain" in asked.describe()
    assert asked.columns["yes"].values == (False, True)  # both values are public: nothing to find


def test_finished_columns_also_without_any_value():
    asked = Schema.from_dict(ASKED)
    c = asked.pending
    day = 86_400.0
    done = asked.finished(
        {
            "fare": c["fare"].with_edges([0.0, 2.5, 40.0], nulls=True),
            "city": c["city"].with_values(["Bonn", "Ulm"]),
            "at": c["at"].with_edges([0.0, 30 * day], nulls=False),
            "born": c["born"].with_edges([0.0, 10.0, 2000.0], nulls=False),
            "n": c["n"].with_edges([3.0, 5.0, 9.0], nulls=True),
        },
        "found",
    )
    assert not done.pending and done.provenance == "found" and done.user == "who"
    assert (
        done.columns["fare"].edges == (0.0, 2.5, 40.0)
        and done.columns["fare"].null_code is not None
    )
    assert done.columns["city"].values == ("Bonn", "Ulm", OTHER)
    assert done.columns["city"].overflow_code is None
    assert (done.fields["at"].min, done.fields["at"].max) == ("1970-01-01", "1970-01-30")
    assert list(done.fields["at"].names) == ["date", "hour"]
    assert done.fields["born"].to_plain()["edges"] == ["1970-01-01", "1970-01-11", "1975-06-24"]
    assert (done.columns["n"].min, done.columns["n"].max) == (3, 8) and done.columns[
        "n"
    ].null_code is None
    assert Schema.from_dict(done.to_dict()) == done
    asked = Schema.from_dict({"columns": {"c": {"kind": "string", "domain": "private"}}})
    done = asked.finished({"c": asked.pending["c"].with_values([])})
    codes, keep = encode.encode_batch(done, pa.table({"c": ["a", "b", None]}))
    assert codes["c"].tolist() == [0, 0, 1] and keep is None


@pytest.mark.parametrize(
    ("entry", "word"),
    [
        ({"kind": "numeric", "domain": "public"}, "expected one of private"),
        ({"kind": "derived", "domain": "private"}, "has no effect"),
        ({"kind": "numeric", "domain": "private", "edges": [1, 2]}, "private domain"),
        ({"kind": "string", "domain": "private", "values": ["a"]}, "private domain"),
        ({"kind": "numeric", "domain": "private", "bins": 1}, "must lie in 2"),
        ({"kind": "numeric", "domain": "private", "dtype": "string"}, "private bounds need"),
        ({"kind": "categorical", "domain": "private"}, "a text or whole-number type"),
        (
            {"kind": "categorical", "dtype": "float64", "domain": "private"},
            "texts or whole numbers",
        ),
        (
            {"kind": "numeric", "domain": "private", "null": {"value": 3}},
            "a private domain is not known yet",
        ),
        ({"kind": "numeric", "domain": "private", "min": 3, "max": 2}, "below min"),
        ({"kind": "string", "domain": "private", "keys_per_user": 0}, "must lie in 1"),
        ({"kind": "timestamp", "domain": "private", "parts": ["week"]}, "got 'week'"),
    ],
)
def test_what_makes_no_sense_is_said_at_once(entry, word):
    with pytest.raises(SchemaError, match=word):
        Schema.from_dict({"columns": {"a": entry}})
