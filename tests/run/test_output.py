"""Synthetic rows on their way out: what cannot be made again, written or true is refused; users of every
type."""

from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

import fastdp
from fastdp.errors import RunError
from fastdp.mechanisms.base import Outcome
from fastdp.run import output
from fastdp.run.output import Output, user_values


class Shards:
    """Rows of given codes, so many a shard."""

    columns = None

    def __init__(self, codes, shard_rows=4):
        self.codes, self.shard_rows = codes, shard_rows
        self.total = len(next(iter(codes.values())))

    def shard(self, i):
        part = slice(i * self.shard_rows, (i + 1) * self.shard_rows)
        return {name: column[part] for name, column in self.codes.items()}


def schema_of(*constraints, user=None):
    plain = {"columns": {n: {"kind": "integer", "max": 3, "null": "drop"} for n in "ab"}}
    return fastdp.Schema.from_dict(
        plain | {"constraints": list(constraints)} | ({"user": user} if user else {})
    )


def test_rows_that_break_a_constraint_are_never_written(tmp_path):
    codes = {"a": np.array([0, 1, 2], np.uint8), "b": np.array([0, 2, 1], np.uint8)}
    rules = [{"require": "a + b >= 0"}, {"require": "a <= b"}]
    made = Output(schema_of(*rules), Outcome(Shards(codes)), None, 1)
    with pytest.raises(RunError) as caught:
        list(made.tables())
    text = f"synthetic rows violate constraint 2 ({made.schema.constraints[1].text}): "
    assert str(caught.value) == text + "please report this error in fastdp"
    good = {"a": codes["a"][:2], "b": codes["b"][:2]}
    (table,) = Output(schema_of(*rules), Outcome(Shards(good)), None, 1).tables()
    assert table["a"].to_pylist() == [0, 1] and table["b"].to_pylist() == [0, 2]


@pytest.mark.parametrize("shards", [1, output.ONE_FILE_SHARDS + 1])
def test_a_disk_that_is_full_is_named(tmp_path, monkeypatch, shards):
    import pyarrow.parquet as pq

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pq, "ParquetWriter", full)
    monkeypatch.setattr(pq, "write_table", full)
    made = Output(schema_of(), Outcome(Shards({n: np.zeros(4 * shards, np.uint8) for n in "ab"})), None, 1)
    (tmp_path / "staging").mkdir()
    with pytest.raises(RunError) as caught:
        made.write(tmp_path / "staging")
    assert str(caught.value) == f"cannot write the synthetic rows to {tmp_path}: No space left on device"


@pytest.mark.parametrize(
    "name, kind",
    [
        (None, pa.int64()),
        ("int32", pa.int32()),
        ("uint64", pa.uint64()),
        ("float64", pa.float64()),
        ("string", pa.string()),
        ("large_string", pa.large_string()),
    ],
)
def test_users_are_numbered_in_the_type_of_their_column(name, kind):
    schema = SimpleNamespace(user_dtype=name)
    numbers = [1, 3, 1, 2]
    got = user_values(schema, np.array(numbers, np.uint32) - 1, 100)
    assert got.type == kind
    texts = kind in (pa.string(), pa.large_string())
    assert got.to_pylist() == [f"synthetic-{100 + n}" if texts else 100 + n for n in numbers]


@pytest.mark.parametrize("name", ["int8", "uint8", "int16", "uint16", "float16", "float32"])
def test_no_two_users_share_an_id_however_narrow_the_type(name):
    """There may be more synthetic users than a narrow type of ids has values."""
    numbers = np.array([0, 43, 299, 40_000, 70_000, (1 << 24) - 1, 1 << 24], np.uint32)
    got = user_values(SimpleNamespace(user_dtype=name), numbers)
    assert got.to_pylist() == (numbers + 1).tolist()
