"""Constant columns whose values are drawn: one value for each user."""

import numpy as np
import pytest

import fastdp
from fastdp.codec.decode import decode
from fastdp.codec.per_user import drawn_fields, once_for_each_user

USERS = np.array([4, 0, 4, 2, 0, 4, 2, 4])
BORN = {"kind": "numeric", "dtype": "int64", "edges": [1940, 1960, 1980, 2000]}
SINCE = {"kind": "timestamp", "parts": ["year", "month"], "min": "2020-01-01", "max": "2021-12-31"}
AREA = {"kind": "integer", "max": 400, "null": "drop"}  # values outside are drawn from the domain
FREE = {"kind": "categorical", "values": [0, 1, 2]}
SCHEMA = fastdp.Schema.from_dict(
    {"columns": {"born": BORN, "since": SINCE, "area": AREA, "free": FREE, "visit": BORN}}
)
CONSTANT = ("born", "since_year", "since_month", "area", "free")


def made(seed=1):
    of_user = {"born": 1, "since_year": 1, "since_month": 4, "area": 401, "free": 2}
    codes = {name: np.full(len(USERS), code, np.uint16) for name, code in of_user.items()}
    codes["visit"] = np.ones(len(USERS), np.uint16)
    plain = decode(SCHEMA, codes, seed)
    fields = drawn_fields(SCHEMA, CONSTANT)
    return plain, once_for_each_user(SCHEMA, fields, plain, codes, USERS, seed, 7)


def different(table, name):
    """The different values of each user, by user."""
    values = np.array(table[name].to_pylist())
    return [len(set(values[user == USERS])) for user in np.unique(USERS)]


def test_only_fields_whose_values_are_drawn_are_drawn_again():
    """A part of a field that is not constant leaves the field as it is."""
    assert [f.name for f in drawn_fields(SCHEMA, CONSTANT)] == ["born", "since", "area"]
    assert drawn_fields(SCHEMA, ("since_year", "free")) == []


@pytest.mark.parametrize("name", ["born", "since", "area"])
def test_a_user_has_one_value_of_a_constant(name):
    """Each row drew its own value in the bin, month or domain, so one person had several years of
    birth."""
    plain, own = made()
    assert max(different(plain, name)) > 1  # what it was
    assert different(own, name) == [1, 1, 1]
    assert own.schema == plain.schema


def test_other_columns_are_as_they_were():
    plain, own = made()
    assert own["visit"] == plain["visit"] and own["free"] == plain["free"]


def test_values_are_those_of_the_users_number():
    """Shards of a block decode a user's rows apart and must agree."""
    _, own = made()
    born = own["born"].to_pylist()
    codes = {"born": np.ones(2, np.uint8)}
    fields = [SCHEMA.fields["born"]]
    alone = once_for_each_user(
        SCHEMA, fields, decode(SCHEMA, codes, 1), codes, np.array([11, 9]), 1, 0
    )
    assert alone["born"].to_pylist() == [born[0], born[3]]  # users 7 + 4 and 7 + 2
