"""What linked tables become: policies for rows that do not fit, by hand-made tables."""

import numpy as np
import pyarrow as pa
import pytest

from fastdp.errors import DataError, SchemaError
from fastdp.schema.linked_schema import LinkedSchema, is_linked
from fastdp.tables.linked_tables import LEVELS, Links, level_codes, read_linked

COLUMN = {"kind": "integer", "max": 9}
PARENTS = pa.table({"id": pa.array([1, 2, 2, 3, None]), "a": [1, 2, 2, 3, 4]})
CHILDREN = pa.table({"of": pa.array([1, 1, 2, 8, 8, 9, None]), "x": [3, 1, 2, 7, 7, 8, 9]})


def document(child=(), parent=(), **more):
    tables = {
        "p": {"key": "id", "columns": {"a": COLUMN}, **dict(parent)},
        "c": {"parent": "p", "key": "of", "columns": {"x": COLUMN}, **dict(child)},
    }
    return {"tables": tables} | more


def read(**child):
    links = Links(LinkedSchema.from_dict(document(child, {"null": child.get("null", "drop")})))
    parents, children = read_linked({"p": PARENTS, "c": CHILDREN}, links, 1)[0]
    return parents.codes, children.codes, parents, children


@pytest.mark.parametrize(
    ("policy", "parents", "children"),
    [
        ({}, [(1, 2), (2, 1), (3, 0)], [(1, 1), (1, 3), (2, 2)]),
        # keys 8 and 9 are parents of nulls (code 11: ten values, overflow, null) with their rows
        (
            {"orphans": "keep"},
            [(1, 2), (2, 1), (3, 0), (11, 1), (11, 2)],
            [(1, 1), (1, 3), (2, 2), (11, 7), (11, 7), (11, 8)],
        ),
        # the parent without a key is childless, the child without a key has a parent of nulls
        (
            {"orphans": "keep", "null": "own"},
            [(1, 2), (2, 1), (3, 0), (4, 0), (11, 1), (11, 1), (11, 2)],
            [(1, 1), (1, 3), (2, 2), (11, 7), (11, 7), (11, 8), (11, 9)],
        ),
    ],
)
def test_policies_decide_what_counts(policy, parents, children):
    p, c, *_ = read(**policy)
    assert sorted(zip(p["a"].tolist(), p["rows of c"].tolist())) == parents
    assert sorted(zip(c["p.a"].tolist(), c["x"].tolist())) == children


def test_places_follow_the_declared_order():
    _, codes, _, table = read(order="x")
    for user in np.unique(table.user):
        mine = table.user == user
        order = np.argsort(codes["place in c"][mine])
        assert (np.diff(codes["x"][mine][order].astype(int)) >= 0).all()


@pytest.mark.parametrize(
    ("plain", "text"),
    [
        (document({"parent": "q"}), "two levels"),
        (document({"orphans": "maybe"}), "neither 'drop' nor 'keep'"),
        (document({"null": "own"}), "needs orphans = 'keep'"),
        (document({"order": "a"}), "not one of x"),
        (document({"columns": {"id": COLUMN}}), "the name of the key"),
        (document({"key": None}), "'key'"),
        (document({"typo": 1}), "unknown"),
        (document({"columns": {"x": {"kind": "integer", "domain": "private"}}}), "private domains"),
        ({"tables": {"p": {"key": "id", "columns": {"a": COLUMN}}}}, "one table without `parent`"),
        ({"tables": {"../p": {"key": "id"}, "c": {"parent": "../p", "key": "of"}}}, "names are"),
    ],
)
def test_a_schema_that_does_not_fit_is_refused(plain, text):
    with pytest.raises(SchemaError, match=text):
        LinkedSchema.from_dict(plain)


def test_what_cannot_be_linked_is_refused():
    plain = document({"orphans": "keep"}, {"columns": {"a": {**COLUMN, "null": "drop"}}})
    with pytest.raises(SchemaError, match="null = 'drop'"):
        _ = Links(LinkedSchema.from_dict(plain)).no_parent
    links = Links(LinkedSchema.from_dict(document()))
    texts = CHILDREN.set_column(0, "of", pa.array(["1", "2", "3", "4", "5", "6", "7"]))
    with pytest.raises(DataError, match="has type integer in one part"):
        read_linked({"p": PARENTS, "c": texts}, links, 1)


def test_a_schema_survives_its_file(tmp_path):
    linked = LinkedSchema.load("households")
    linked.save(tmp_path / "s.json")
    again = LinkedSchema.load(tmp_path / "s.json")
    assert again.digest() == linked.digest() and is_linked(tmp_path / "s.json")
    assert LinkedSchema.from_dict(linked.to_plain()).digest() == linked.digest()


def test_levels_are_mean_codes_of_a_parents_rows_in_equal_parts():
    """Rows of key 1 have the codes 3 and 1, of key 2 the code 2; key 3 has none. 12 parts of ten
    codes: 2 x 12 / 10 = 2.4. Missing and other values have no number."""
    p, c, *_ = read(levels=["x"])
    assert dict(zip(p["a"].tolist(), p["level of c.x"].tolist())) == {1: 2, 2: 2, 3: LEVELS}
    assert "level of c.x" not in c
    owner = np.array([0, 0, 1, 2])
    codes = np.array([9, 11, 10, 0])
    assert level_codes(owner, codes, 10, 4).tolist() == [10, LEVELS, 0, LEVELS]


def test_columns_of_many_codes_have_levels_where_parents_may_have_many_rows():
    def levels(**child):
        return LinkedSchema.from_dict(document(child)).levels("c")

    assert levels() == ("x",) and levels(levels=[]) == () == levels(max_rows=10)
    assert levels(order="x") == () == levels(constraints=[{"order": ["p.a", "x"]}])
    few = {"columns": {"x": {"kind": "integer", "max": 4}}}
    assert levels(**few) == () and levels(**few, levels=["x"]) == ("x",)
    for wrong in (["y"], "x", ["x", "x"]):
        with pytest.raises(SchemaError, match="table 'c', field 'levels'"):
            levels(levels=wrong)


def test_constraints_across_tables_are_part_of_the_schema():
    plain = document({"constraints": [{"order": ["p.a", "x"]}], "levels": ["x"]})
    made = LinkedSchema.from_dict(plain)
    assert LinkedSchema.from_dict(made.to_dict()).digest() == made.digest()
    assert made.digest() != LinkedSchema.from_dict(document()).digest()
    assert not made.tables["c"].constraints and len(Links(made).schemas[1].constraints) == 1
    unknown = document({"constraints": [{"order": ["p.b", "x"]}]})
    with pytest.raises(SchemaError, match="table 'c'"):
        _ = Links(LinkedSchema.from_dict(unknown)).schemas
    with pytest.raises(SchemaError, match="has `order`, or"):
        LinkedSchema.from_dict(document({"constraints": [{"columns": ["p.a", "x"], "divide": 2}]}))
