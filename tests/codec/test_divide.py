"""Constraints in a recipe's words: masks by the values behind the codes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastdp.codec.possible import impossible
from fastdp.errors import SchemaError
from fastdp.schema import Schema
from fastdp.schema.constraints import Constraint


def ranges(general, detailed) -> Schema:
    """Columns g and d of whole numbers, each (least, width)."""
    columns = {
        name: {"kind": "integer", "min": least, "max": least + width, "null": "code", "overflow": "code"}
        for name, (least, width) in (("g", general), ("d", detailed))
    }
    return Schema.from_dict({"columns": columns})


RANGE = st.tuples(st.integers(-40, 40), st.integers(0, 60))


@settings(max_examples=80, deadline=None)
@given(RANGE, RANGE, st.integers(2, 12))
def test_divide_compares_the_numbers_behind_the_codes(general, detailed, divide):
    """general = floor(detailed / divide), wherever the code book has that general value, whatever number the
    columns start at; nulls and values outside the domain combine with everything."""
    schema = ranges(general, detailed)
    mask = impossible(schema, Constraint(columns=("g", "d"), divide=divide))
    numbers = [range(least, least + width + 1) for least, width in (general, detailed)]
    want = np.zeros(schema.domain.shape(("g", "d")), bool)
    for i, g in enumerate(numbers[0]):
        for j, d in enumerate(numbers[1]):
            want[i, j] = d // divide in numbers[0] and g != d // divide
    assert np.array_equal(mask, want)


def test_divide_is_for_whole_numbers():
    for values in (["a", "b"], [True, False]):
        column = {"kind": "categorical", "values": values, "dtype": "string" if values[0] == "a" else "bool"}
        schema = Schema.from_dict({"columns": {"g": column, "d": column}})
        with pytest.raises(SchemaError, match="whole numbers"):
            impossible(schema, Constraint(columns=("g", "d"), divide=10))
