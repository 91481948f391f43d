"""Choices from public data: outer marginals, habits, the clip."""

import pytest

import fastdp
from fastdp.errors import DataError, UsageError
from fastdp.public import data
from tests.run.test_synthesize import small_data, small_schema


def public_table():
    return data.PublicTable(fastdp.read(small_data(), small_schema(), public=True))


def test_what_public_data_must_be():
    with pytest.raises(UsageError, match="public=True"):
        data.PublicTable(fastdp.read(small_data(10), small_schema()))
    schema = fastdp.Schema.from_domain({"a": 4, "b": 3, "c": 2})
    public = data.PublicTable(fastdp.read(small_data().drop_columns(["u"]), schema, public=True))
    with pytest.raises(DataError, match="user column"):
        public.habits(("a",))
    assert public_table().habits(("a", "b")).rows == 3000


def test_the_public_table_finds_the_dependence_that_is_there():
    chosen = public_table().choose_outer(ways=2)
    assert any(set(c) == {"a", "b"} for c in chosen)
