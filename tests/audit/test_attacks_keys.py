"""Attacks on key selection: a value that stops it, values whose hashes meet, ids that merge."""

import decimal

import numpy as np
import pyarrow as pa
import pytest

from fastdp.errors import DataError
from fastdp.release import key_counts
from fastdp.release.key_values import keys_of
from fastdp.release.keyselect import SCALE, count_keys, select_keys

from ..release.test_keyselect import schema


def test_whose_ranks_are_equal_does_not_depend_on_others(monkeypatch):
    """Public hashes can be made to meet. Which of such values counted was once decided by who came
    first in the file: one user more at its head moved everybody else's."""
    monkeypatch.setattr(key_counts, "_mix", lambda a, b: np.zeros(len(a), np.uint64))
    planted = [(who, city) for who in range(1, 9) for city in ("x", "y")]

    def counted(rows):
        source = pa.table({"who": [w for w, _ in rows], "city": [c for _, c in rows]})
        keys, counts = count_keys(source, schema(), "city", "string", 1)
        return dict(zip(keys, counts.tolist(), strict=True))

    without = counted(planted)
    for victim in ("x", "y", "z"):
        there = counted([(0, victim), *planted])
        keys = {*there, *without}
        assert sum(abs(there.get(k, 0) - without.get(k, 0)) for k in keys) == SCALE


@pytest.mark.parametrize(
    ("source", "dtype"),
    [
        ("who,city\n1,4\n2,1.5\n3,4\n", "int64"),
        ("who,city\n1,4\n2,no number\n3,4\n", "int64"),
        ("who,city\n1,4\n2,99999999999999999999\n3,4\n", "int64"),
        (pa.table({"who": [1, 2, 3], "city": [4.0, 1.5, 4.0]}), "int64"),
        (pa.table({"who": [1, 2, 3], "city": [4.0, float("inf"), 4.0]}), "int64"),
        (pa.table({"who": [1, 2, 3], "city": pa.array([4, 2**64 - 1, 4], pa.uint64())}), "int64"),
        (pa.table({"who": [1, 2, 3], "city": ["4", "four", "4"]}), "int64"),
        (pa.table({"who": [1, 2, 3], "city": [b"4", b"\xff", b"4"]}), "string"),
        (
            pa.table({"who": [1, 2, 3], "city": pa.array(["4", "x", "4"]).dictionary_encode()}),
            "int64",
        ),
    ],
)
def test_no_single_value_stops_the_selection(source, dtype, tmp_path):
    """An error that comes and goes with one user's value tells that the user is there."""
    if isinstance(source, str):
        path = tmp_path / "x.csv"
        path.write_text(source)
        source = str(path)
    typed = schema(dtype=dtype, values=(1,) if dtype == "int64" else ("?",))
    keys, counts = count_keys(source, typed, "city", dtype, 1)
    assert counts[keys.index(4 if dtype == "int64" else "4")] == 2 * SCALE
    select_keys(source, typed, "city", epsilon=1.0, delta=1e-6, seed=1)


def test_types_that_cannot_be_keys_are_refused_before_any_row_is_read():
    numbers = pa.array([decimal.Decimal("1.5")], pa.decimal128(5, 1))
    for column in (numbers, pa.array([[1]])):
        with pytest.raises(DataError, match="city"):
            count_keys(
                pa.table({"who": [1], "city": column}),
                schema(dtype="int64", values=(1,)),
                "city",
                "int64",
                1,
            )
    assert keys_of(pa.array([True, False]), "int64").to_pylist() == [1, 0]
