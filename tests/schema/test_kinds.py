"""A kind of column is one class: everything else asks the column, and never for its class."""

import ast
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import fastdp
from fastdp.answers.values import select
from fastdp.codec.decode import decode
from fastdp.codec.encode import encode_batch
from fastdp.codec.possible import compiled_constraints
from fastdp.errors import SchemaError, UsageError
from fastdp.schema import Schema
from fastdp.schema.columns import Column
from fastdp.schema.kind_registry import KINDS, documented, kind

PACKAGE = Path(fastdp.__file__).parent
SAYS_CALENDAR_IN_SQL = "engines/sql_codes.py"
"""A database computes the parts of a calendar itself; other kinds it reads by their coding."""


@kind("test-angle")
@dataclass(frozen=True, kw_only=True)
class Angle(Column):
    """Directions in degrees, in `sectors` equal sectors of which the first is around 0."""

    options = ("sectors",)
    sectors: int = 4

    @classmethod
    def from_entry(cls, entry, common):
        return cls(**common, dtype=entry.dtype("float64"), sectors=entry.whole("sectors", 4))

    def _own_plain(self):
        return {"sectors": self.sectors}

    @property
    def base(self):
        return self.sectors

    def base_labels(self):
        return [f"{360 * i / self.sectors:g} degrees" for i in range(self.sectors)]

    def code_of(self, value):
        turned = float(value) / 360 * self.sectors + 0.5
        return int(turned // 1) % self.sectors if 0 <= value < 360 else None

    def draw(self, codes, uniform):
        return (codes + uniform("angle") - 0.5) % self.sectors * 360 / self.sectors


def _schema(**options):
    about = {"kind": "test-angle", "sectors": 4, **options}
    return Schema.from_dict({"columns": {"wind": about}})


def _codes(schema, values, type_=None):
    codes, keep = encode_batch(schema, pa.table({"wind": pa.array(values, type_)}))
    return codes["wind"].tolist(), keep


NUMBERS = [0, 44, 46, 359, 180, 400, None]
CODES = [0, 0, 1, 0, 2, 4, 5]


@pytest.mark.parametrize(
    "type_",
    [pa.float64(), pa.float32(), pa.int16(), pa.decimal128(6, 2), pa.string(), "dictionary"],
)
def test_a_kind_that_only_has_code_of_reads_every_type(type_):
    values = NUMBERS
    if type_ == pa.string():
        values = [None if v is None else f" {v} " for v in NUMBERS]
    if type_ == "dictionary":
        values = pa.array(NUMBERS, pa.float64()).dictionary_encode()
        type_ = None
    schema = _schema()
    if type_ is None:
        codes, _ = encode_batch(schema, pa.table({"wind": values}))
        assert codes["wind"].tolist() == CODES
    else:
        assert _codes(schema, values, type_)[0] == CODES


def test_policies_and_words_for_missing_values_apply_to_it():
    dropped = _schema(null="drop", overflow="drop")
    codes, keep = _codes(dropped, [10.0, 500.0, None, float("nan")], pa.float64())
    assert keep.tolist() == [True, False, False, False] and codes[0] == 0
    assert _codes(_schema(), ["NA", "", "nan", "north", "90"], pa.string())[0] == [5, 5, 5, 4, 1]


def test_its_rows_decode_alone_as_within_the_whole_and_read_back_as_their_codes():
    schema = _schema()
    codes = np.tile(np.arange(schema.domain["wind"]), 50).astype(np.uint8)
    whole = decode(schema, {"wind": codes}, seed=3)
    part = decode(schema, {"wind": codes[100:150]}, seed=3, offset=100)
    assert part["wind"].to_pylist() == whole["wind"].to_pylist()[100:150]
    again, _ = encode_batch(schema, whole)
    # Without a value of their own, values outside the domain are written as null.
    assert again["wind"].tolist() == [5 if c >= 4 else c for c in codes.tolist()]


def test_the_other_folders_answer_for_it_what_suits_a_kind_that_says_nothing():
    schema = _schema()
    column = schema.columns["wind"]
    assert column.labels()[:2] == ["0 degrees", "90 degrees"] and column.labels()[-1] == "(null)"
    assert column.amount() is None and not column.summable and not column.binned
    assert Schema.from_dict(schema.to_dict()) == schema
    assert _schema(sectors=8).digest() != schema.digest()
    with pytest.raises(SchemaError, match="each of its codes covers many values"):
        column.code_values()
    with pytest.raises(SchemaError, match="unknown for kind 'test-angle'; did you mean 'sectors'"):
        _schema(sector=3)
    for options in ({}, {"sectors": 8}):
        with pytest.raises(SchemaError, match="has no effect on a column of kind 'test-angle'"):
            _schema(domain="private", **options)


def test_one_of_the_values_of_a_code_does_not_name_the_code():
    column = _schema().columns["wind"]
    assert column.covers_many
    assert select(column, "90 degrees").sure.tolist() == [False, True, False, False, False, False]
    with pytest.raises(UsageError, match="counted together with others as '90 degrees'"):
        select(column, 91.0)
    listed = Schema.from_dict({"columns": {"a": {"kind": "categorical", "values": ["x", "y"]}}})
    assert not listed.columns["a"].covers_many and select(listed.columns["a"], "x").sure[0]


def test_a_constraint_names_its_codes_by_their_labels():
    wind = {"kind": "test-angle", "sectors": 4}
    columns = {"wind": wind, "north": {"kind": "categorical", "values": ["yes", "no"]}}
    rule = {"columns": ["wind", "north"], "forbidden": [["0 degrees", "no"]]}
    schema = Schema.from_dict({"columns": columns, "constraints": [rule]})
    (impossible,) = compiled_constraints(schema).impossible.values()
    assert np.argwhere(impossible).tolist() == [[0, 1]]


def test_lists_name_the_kinds_of_documents_alone():
    first = ("categorical", "string", "integer", "numeric", "timestamp", "derived")
    assert documented()[:6] == first
    assert not {"any", "places", "textkind"} & set(documented())
    assert not KINDS.registered("no-such-kind")


def _asks(tree, names):
    """Names of the classes that calls of isinstance in a module ask for."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance":
            inside = (n.id for n in ast.walk(node.args[1]) if isinstance(n, ast.Name))
            yield from (name for name in inside if name in names)


def test_no_other_folder_asks_a_column_for_its_class():
    names = {cls.__name__ for cls in KINDS}
    assert {"Categorical", "Integer", "Numeric", "Timestamp", "Transform", "Places"} <= names
    asked = {}
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text("utf-8")
        if "isinstance" not in text or not any(name in text for name in names):
            continue  # reading the tree takes a hundred times as long
        found = set(_asks(ast.parse(text), names))
        if found and "schema/kinds" not in path.as_posix():
            asked[path.relative_to(PACKAGE).as_posix()] = found
    assert asked == {SAYS_CALENDAR_IN_SQL: {"Timestamp"}}
    planted = ast.parse("if isinstance(column, Integer | Numeric): pass")
    assert set(_asks(planted, names)) == {"Integer", "Numeric"}
