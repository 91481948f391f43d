"""Packing of narrow columns into words; what Spark makes of the expressions is tested in tests/spark."""

import numpy as np
import pyarrow as pa
import pytest

from fastdp.engines import sparkpack

EDGES = {
    "bool": [True, False, None],
    "int8": [-128, 127, 0, -1, None],
    "int16": [-(2**15), 2**15 - 1, 0, -1, None],
    "int32": [-(2**31), 2**31 - 1, 0, -1, None],
    "date32[day]": [-(2**31), 2**31 - 1, 0, -1, None],
    "int64": [-(2**63), 2**63 - 1, 0, -1, None],
    "string": ["", "a", None],
}
TYPES = {"bool": pa.bool_(), "date32[day]": pa.date32(), "string": pa.string()}


def column(kind, rows, rng, nulls=True):
    """Random values of a type, extreme ones among them."""
    values = [v for v in EDGES[kind] if nulls or v is not None]
    drawn = [values[i] for i in rng.integers(0, len(values), rows)]
    if kind == "date32[day]":
        return pa.array(drawn, pa.int32()).view(pa.date32())
    return pa.array(drawn, TYPES.get(kind) or pa.type_for_alias(kind))


def packed_by_twin(columns, kinds, words):
    """What `expressions` select, value by value."""
    out = [columns[n] for n in sparkpack.alone(len(columns), words)]
    for word in words:
        made = []
        for row in range(len(columns[0])):
            bits = 0
            for number, low in word:
                data = columns[number]
                if kinds[number].startswith("date"):
                    data = data.view(pa.int32())
                value, width = data[row].as_py(), sparkpack.BITS[kinds[number]]
                bits |= 1 << (low + width) if value is None else (int(value) % (1 << width)) << low
            made.append(bits - (1 << 64) if bits >> 63 else bits)
        out.append(pa.array(made, pa.int64()))
    return pa.record_batch(out, names=[f"p{i}" for i in range(len(out))])


@pytest.mark.parametrize("rows", [0, 1, 200])
@pytest.mark.parametrize("nulls", [True, False])
def test_words_give_columns_back(rows, nulls):
    rng = np.random.default_rng(rows)
    for count in (1, 2, 5, 17):
        kinds = [list(EDGES)[i] for i in rng.integers(0, len(EDGES), count)]
        columns = [column(kind, rows, rng, nulls) for kind in kinds]
        names = [f"c{i}" for i in range(count)]
        words = sparkpack.words(kinds)
        again = sparkpack.unpacked(packed_by_twin(columns, kinds, words), names, kinds, words)
        again.validate(full=True)
        want = pa.record_batch(columns, names=names)
        assert again.schema.types == want.schema.types
        for made, given in zip(again.columns, want.columns, strict=True):
            assert made.is_null().equals(given.is_null())
            assert made.drop_null().equals(given.drop_null())


def test_fields_do_not_overlap_and_no_column_is_packed_alone():
    rng = np.random.default_rng(2)
    for _ in range(50):
        kinds = [list(EDGES)[i] for i in rng.integers(0, len(EDGES), rng.integers(0, 30))]
        words = sparkpack.words(kinds)
        inside = [number for word in words for number, _ in word]
        assert len(set(inside)) == len(inside) and all(len(word) > 1 for word in words)
        for word in words:
            end = 0
            for number, low in sorted(word, key=lambda item: item[1]):
                assert low >= end
                end = low + sparkpack.BITS[kinds[number]] + 1
            assert end <= 64
        assert sorted(inside + sparkpack.alone(len(kinds), words)) == list(range(len(kinds)))
    taxi = ["int16", "int8", "int8", "int8", "int8", "int16", "int16", "int16", "int32", "int16", "int64"]
    assert len(sparkpack.words(taxi)) == 3
