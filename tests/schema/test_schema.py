"""Schemas: the built-in ones, files in and out, and complaints that name column and field."""

import json
import math
import tomllib
from pathlib import Path

import pytest

from fastdp.errors import SchemaError
from fastdp.schema import Schema, derived
from fastdp.schema.document import builtin_names
from fastdp.schema.kind_registry import KINDS, documented

EXAMPLE = tomllib.loads("""
fastdp = 1
name = "example"
provenance = "made up"
user = { column = "who", max_rows = 20, null = "own", dtype = "string" }

[columns]
sex = { kind = "categorical", values = [1, 2], names = ["male", "female"], dtype = "int8" }
town = { kind = "string", values = ["Aix", "Ulm"], other = "elsewhere" }
age = { kind = "integer", min = 0, max = 120, overflow = "clamp", null = "drop" }
wage = { kind = "derived", transform = "incwage-mod", parts = ["wage_a", "wage_b"] }

[columns.pay]
kind = "numeric"
edges = ["-inf", 0, 10.5, 100, "inf"]
min = -5
max = 1000
tail = { mean = 50 }
lower_tail = { law = "uniform", width = 2 }
digits = 2
null = { value = 0 }

[columns.start]
kind = "timestamp"
parts = { shift = "shift", month = "month" }
min = "2020-01-01"
max = "2020-12-31"

[outputs]
day = { from = "shift", part = "day_of_week" }
""")


@pytest.mark.parametrize("ending", ["toml", "json"])
@pytest.mark.parametrize("name", ["example", *builtin_names()])
def test_files_give_back_the_same_schema(tmp_path, name, ending):
    schema = Schema.from_dict(EXAMPLE) if name == "example" else Schema.load(name)
    path = tmp_path / f"s.{ending}"
    schema.save(path)
    again = Schema.load(path)
    assert again == schema and again.digest() == schema.digest() and hash(again) == hash(schema)
    assert list(again.columns) == list(schema.columns)
    assert Schema.from_dict(json.loads(json.dumps(schema.to_dict(), allow_nan=False))) == schema


def test_awkward_texts_survive_toml_and_schemas_are_equal_by_content(tmp_path):
    values = ['a"b', "tab\there", "del\x7f", "ümläut", "back\\slash", "", "[x]", "new\nline"]
    columns = {"odd name.1": {"kind": "string", "values": values, "null": "drop"}}
    schema = Schema.from_dict({"columns": columns})
    schema.save(tmp_path / "s.toml")
    assert Schema.load(tmp_path / "s.toml").columns["odd name.1"].values == tuple(values)
    one, two = Schema.from_domain({"a": 2, "b": 3}), Schema.from_domain({"b": 3, "a": 2})
    assert one == Schema.from_domain({"a": 2, "b": 3}) and one != two and one != 5


def test_codes_are_values_then_overflow_then_null():
    columns = Schema.from_dict(EXAMPLE).columns
    sex = columns["sex"]
    age = columns["age"]
    pay = columns["pay"]
    assert (sex.base, sex.overflow_code, sex.null_code, sex.size) == (2, 2, 3, 4)
    assert sex.labels() == ["male", "female", "(other)", "(null)"]
    assert (age.overflow_code, age.null_code, age.size) == (None, None, 121)
    assert (pay.overflow_code, pay.null_code, pay.size) == (
        None,
        None,
        4,
    )  # open ends: nothing is beyond
    assert pay.edges == (-math.inf, 0, 10.5, 100, math.inf)
    assert columns["shift"].size == 23 and columns["month"].labels()[0] == "1"
    assert columns["wage_b"].size == 102


WHOLE = {"kind": "integer", "max": 1}


def _with(column: dict) -> dict:
    return {"columns": {"x": column}}


@pytest.mark.parametrize(
    ("plain", "text"),
    [
        ({}, "schema: the field 'columns' is missing"),
        ({"colums": {}}, "schema, field 'colums': unknown field; did you mean 'columns'?"),
        (_with({}), "column 'x', field 'kind': missing; expected one of categorical"),
        (_with({"kind": "Boolean"}), 'write kind = "categorical" with values = [false, true]'),
        (_with({"kind": "catagorical"}), "did you mean 'categorical'?"),
        (_with({"kind": "integer", "max": -1}), "column 'x', field 'max': -1 is below min = 0"),
        (
            _with({"kind": "integer", "max": 300, "dtype": "int8"}),
            "'dtype': 0..300 does not fit int8",
        ),
        (_with({"kind": "categorical", "values": [1, 1]}), "'values': 1 is listed twice"),
        (
            _with({"kind": "categorical", "values": [1], "overflow": "clamp"}),
            "'clamp' needs numbers",
        ),
        (
            _with({"kind": "categorical", "values": [1], "null": "keep"}),
            "'null': expected code, drop",
        ),
        (
            _with({"kind": "numeric", "edges": ["-inf", 0, 1], "min": 0}),
            "'min': the lowest bin is empty",
        ),
        (_with({"kind": "timestamp", "parts": ["year"]}), "'min': min and max (dates) are missing"),
        ({"user": {"column": "x"}, **_with(WHOLE)}, "it is also the user column"),
        ({"user": {"null": "own"}, **_with(WHOLE)}, "schema: user: the field 'column' is missing"),
        ({"fastdp": 2, **_with(WHOLE)}, "field 'fastdp': this fastdp reads format 1, got 2"),
        (
            {
                "columns": {
                    "a": WHOLE,
                    "w": {"kind": "derived", "transform": "valueh", "parts": ["a"]},
                }
            },
            "column 'w': the name 'a' is used twice",
        ),
        (
            {"outputs": {"d": {"from": "x", "part": "hour"}}, **_with(WHOLE)},
            "output 'd', field 'from': there is no shift column 'x'",
        ),
    ],
)
def test_complaints_name_column_and_field(plain, text):
    with pytest.raises(SchemaError) as error:
        Schema.from_dict(plain)
    assert text in str(error.value)


def test_loading_says_which_file(tmp_path):
    with pytest.raises(SchemaError, match="No such file"):
        Schema.load(tmp_path / "none.toml")
    for name, text in (
        ("a.toml", "x = ["),
        ("a.json", "{"),
        ("a.yaml", ""),
        ("b.toml", "columns = 3"),
    ):
        (tmp_path / name).write_text(text)
        with pytest.raises(SchemaError, match=name):
            Schema.load(tmp_path / name)
    (tmp_path / "c.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(SchemaError, match="not UTF-8"):
        Schema.load(tmp_path / "c.toml")
    with pytest.raises(SchemaError, match="must end in"):
        Schema.load("taxi-deid2").save(tmp_path / "a.yaml")


def test_the_guide_names_every_kind_and_option():
    """Its examples: tests/docs/test_blocks.py."""
    text = (Path(__file__).parents[2] / "docs/reference/schema.md").read_text()
    for kind in documented():
        keys = KINDS.get(kind).options
        named = f"**{kind}**" in text or f"`{kind}`" in text
        assert named, f"docs/reference/schema.md needs a section on the kind **{kind}**"
        missing = [key for key in keys if f"`{key}`" not in text and f"{key} =" not in text]
        assert not missing, f"docs/reference/schema.md, {kind}: options {missing} are not described"


@pytest.mark.parametrize("codes", [1, 6, 20, 22, 35, 49, 169])
def test_other_numbers_of_codes_are_no_shifts(codes):
    assert derived.shifts_per_day(codes) is None
    plain = {
        "columns": {"shift": {"kind": "integer", "max": codes - 1}},
        "outputs": {"hour": {"from": "shift", "part": "hour"}},
    }
    with pytest.raises(SchemaError, match="no shift column 'shift'"):
        Schema.from_dict(plain)
