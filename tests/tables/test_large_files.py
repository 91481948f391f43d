"""Files of many batches: exact counts are those of the rows, whatever batches and threads are, and
a user whose rows lie in every batch moves them by no more than the clip. `make test-slow` does it
with files of a gigabyte."""

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import fastdp
from fastdp.engines.local import local
from fastdp.measurement import SCALE

from ..tiers import slow_cases

TEXTS = [f"text number {i:02} of a list of some length" for i in range(25)]
KEPT = {"null": "drop", "overflow": "drop"}
SCHEMA = fastdp.Schema.from_dict(
    {
        "columns": {
            "a": {"kind": "integer", "max": 39} | KEPT,
            "b": {"kind": "categorical", "values": TEXTS} | KEPT,
        },
        "user": {"column": "who", "max_rows": 1_000_000},
    }
)
SHAPE = (40, len(TEXTS))
CLIP = 4
HOSTILE = 1 << 40


def batches(rows, size, hostile):
    """(user, a, b) of the rows, batch by batch. A hostile user has a row more in each."""
    for begin in range(0, rows, size):
        rng = np.random.default_rng([7, begin])
        count = min(size, rows - begin)
        users = (rng.random(count) ** 2 * (rows / 4)).astype(np.int64)
        a, b = rng.integers(0, SHAPE[0], count), rng.integers(0, SHAPE[1], count)
        if hostile:
            users = np.append(users, HOSTILE)
            a = np.append(a, 3)
            b = np.append(b, 5)
        yield users, a, b


def write(path, parts):
    """The rows as a file whose texts are written in full; a batch is a row group."""
    kinds = pa.schema({"who": pa.string(), "a": pa.int64(), "b": pa.string()})
    plain = {"use_dictionary": False, "compression": "none"}
    if path.suffix == ".parquet":
        writer = pq.ParquetWriter(path, kinds, **plain)
    else:
        writer = pyarrow.csv.CSVWriter(path, kinds)
    with writer:
        for users, a, b in parts:
            who = pa.array(users * 0x5DEECE66D + 10**15).cast(pa.string())
            texts = pa.DictionaryArray.from_arrays(pa.array(b), TEXTS).cast(pa.string())
            writer.write_table(pa.table([who, pa.array(a), texts], schema=kinds))
    return path


def expected(parts):
    """The exact marginal by its definition: each row of a user with R rows weighs
    min(SCALE, floor(CLIP * SCALE / R)). Sums of the weights are exact in floats below 2^53."""
    parts = list(parts)
    _, numbers, held = np.unique(
        np.concatenate([users for users, _, _ in parts]), return_inverse=True, return_counts=True
    )
    weight = np.minimum(SCALE, CLIP * SCALE // held)[numbers].astype(np.float64)
    cell = np.concatenate([a * SHAPE[1] + b for _, a, b in parts])
    return np.bincount(cell, weight, SHAPE[0] * SHAPE[1]).astype(np.int64).reshape(SHAPE)


def counted(path, threads):
    table = fastdp.read(path, SCHEMA, threads=threads)
    return local(table, threads).marginals([("a", "b")], CLIP)[("a", "b")]


@pytest.mark.parametrize(
    ("rows", "size"), [(30_000, 1_000), *slow_cases((20_000_000, 500_000))], ids=str
)
@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_batches_and_threads_change_no_count_and_a_user_no_more_than_the_clip(
    tmp_path, ending, rows, size
):
    path = tmp_path / f"rows.{ending}"
    found = []
    for hostile in (False, True):
        write(path, batches(rows, size, hostile))
        one = counted(path, 1)
        assert np.array_equal(one, expected(batches(rows, size, hostile)))
        assert np.array_equal(one, counted(path, 3))
        found.append(one)
    assert path.stat().st_size > 45 * rows
    change = found[1] - found[0]
    assert 0 < np.abs(change).sum() <= CLIP * SCALE and np.count_nonzero(change) == 1
