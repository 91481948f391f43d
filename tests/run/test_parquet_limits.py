"""Parquet files made to fill the memory are refused by the headers of their pages, before any page
is unpacked; files as a run writes them are read as they are."""

import contextlib
import struct

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastdp
from fastdp.errors import RunError
from fastdp.run import parquet_limits
from fastdp.run.folder_check import constraint_problems
from fastdp.run.parquet_limits import MOST_PAGE, batches, bounded_file
from tests.tiers import slow_cases

MOST_MEMORY = 1 << 29
"""Above what one batch of a run's own rows takes, far below what the bombs here unpack to."""

POOLS = []
"""Memory must be given back to a pool that still exists."""


@contextlib.contextmanager
def measured():
    """The most that Arrow holds at one time within the block, as the only item of a list,
    afterwards."""
    before = pa.default_memory_pool()
    peak = []
    pool = pa.proxy_memory_pool(before)
    POOLS.append(pool)
    pa.set_memory_pool(pool)
    try:
        yield peak
    finally:
        pa.set_memory_pool(before)
        peak.append(pool.max_memory())


def refused(path, columns):
    with measured() as peak, pytest.raises(RunError) as caught:
        with bounded_file(path, columns) as file:
            for _ in batches(file, columns, path.name):
                pass
    assert peak[0] < MOST_MEMORY
    return str(caught.value)


def repeated_text(path, rows):
    """One text of 1 MiB, `rows` times by its number: 1 KB of file for a GB or more of text."""
    column = pa.DictionaryArray.from_arrays(np.zeros(rows, np.int32), ["x" * (1 << 20)])
    pq.write_table(pa.table({"t": column}), path, compression="zstd")


def test_a_text_repeated_by_its_number_is_not_written_out(tmp_path):
    path = tmp_path / "bomb.parquet"
    repeated_text(path, 1 << 13)
    assert path.stat().st_size < 1 << 14
    assert "a batch of over" in refused(path, ["t"])


def test_constraints_are_not_checked_on_rows_that_would_fill_the_memory(tmp_path):
    columns = {
        "t": {"kind": "categorical", "values": ["x", "y"], "overflow": "drop"},
        "a": {"kind": "integer", "max": 3},
    }
    rules = [{"columns": ["t", "a"], "forbidden": [["x", 1]]}]
    fastdp.Schema.from_dict({"columns": columns, "constraints": rules}).save(
        tmp_path / "schema.json"
    )
    repeated_text(tmp_path / "synthetic.parquet", 1 << 13)
    with measured() as peak:
        (text,) = constraint_problems(tmp_path, [])
    assert "its rows were not checked" in text and peak[0] < MOST_MEMORY


def test_a_page_of_zeros_is_not_unpacked(tmp_path):
    path = tmp_path / "bomb.parquet"
    rows = pa.table({"a": np.zeros(MOST_PAGE // 8 + 1, np.int64)})
    one_page = {"use_dictionary": False, "data_page_size": 1 << 30, "row_group_size": 1 << 26}
    pq.write_table(rows, path, compression="zstd", max_rows_per_page=1 << 26, **one_page)
    assert path.stat().st_size < 1 << 14
    assert "a page of" in refused(path, ["a"])


def test_many_columns_of_large_pages_are_added_up(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet_limits, "MOST_PAGES", 1 << 20)
    path = tmp_path / "bomb.parquet"
    rows = pa.table({f"c{i}": np.zeros(1 << 14, np.int64) for i in range(10)})
    pq.write_table(rows, path, use_dictionary=False, data_page_size=1 << 20)
    with bounded_file(path, ["c0", "c1"]) as file:
        assert sum(b.num_rows for b in batches(file, ["c0", "c1"], "x")) == 1 << 14
    assert "bytes of pages" in refused(path, rows.column_names)


def test_encodings_and_types_in_which_a_text_repeats_others_are_refused(tmp_path):
    path = tmp_path / "bomb.parquet"
    column = pa.array(["x" * 100] * 100)
    pq.write_table(
        pa.table({"t": column}),
        path,
        use_dictionary=False,
        column_encoding={"t": "DELTA_BYTE_ARRAY"},
    )
    assert "encoding 7" in refused(path, ["t"])
    for kind in (pa.list_(pa.int64()), pa.struct([("x", pa.int64())]), pa.binary(1000)):
        pq.write_table(pa.table({"t": pa.nulls(5, kind)}), path)
        assert "has a type that a run does not write" in refused(path, ["t"]), kind


def test_a_point_in_a_name_is_no_nested_type(tmp_path):
    """A run that had checked its rows by a column `hgc.9` did not verify."""
    path = tmp_path / "table.parquet"
    pq.write_table(pa.table({"hgc.9": [1, 2, 3]}), path)
    with bounded_file(path, ["hgc.9"]) as file:
        assert [b.num_rows for b in batches(file, ["hgc.9"], "x")] == [3]


def test_a_footer_that_is_too_long_or_none_is_refused(tmp_path):
    path = tmp_path / "bomb.parquet"
    with open(path, "wb") as file:
        file.truncate(1 << 30)
        file.seek(0, 2)
        file.write(struct.pack("<I", 1 << 30) + b"PAR1")
    assert "its footer" in refused(path, ["a"])
    path.write_bytes(b"PAR1")
    assert "is not Parquet" in refused(path, ["a"])


HEADERS = {
    "a size twice": bytes([0x15, 0, 0x15, 2, 0x05, 4, 0]),
    "no end": bytes([0x15, 0]),
    "a list": bytes([0x19, 0x15, 0]),
    "structs in structs": bytes([0x1C] * 20),
    "a length beyond the data": bytes([0x18, 0xFF, 0xFF, 0x7F, 0x15]),
}


@pytest.mark.parametrize("name", HEADERS)
def test_headers_that_two_readers_may_read_differently_are_refused(name):
    with pytest.raises(IndexError):
        parquet_limits._Thrift(HEADERS[name]).struct()


def test_a_size_of_another_width_is_no_size():
    """Readers of Parquet skip a field of another type than the format's."""
    assert parquet_limits._Thrift(bytes([0x15, 6, 0x16, 8, 0])).struct() == {1: 3, 2: None}


COLUMNS = {
    "int": pa.array(np.arange(3000) * 7919 % 10007),
    "null": pa.array([None if i % 3 else i for i in range(3000)], pa.int32()),
    "float": pa.array(np.random.default_rng(0).random(3000)),
    "bool": pa.array(np.arange(3000) % 2 == 0),
    "text": pa.array([f"value {i % 17}" for i in range(3000)]),
    "long": pa.array(["é" * (i % 50) for i in range(3000)], pa.large_string()),
    "coded": pa.array([f"value {i % 17}" for i in range(3000)]).dictionary_encode(),
    "day": pa.array(np.arange(3000), pa.int32()).cast(pa.date32()),
    "time": pa.array(np.arange(3000), pa.int64()).cast(pa.timestamp("us")),
    "decimal": pa.array(np.arange(3000), pa.int64()).cast(pa.decimal128(25, 2)),
}


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("compression", ["zstd", "none", *slow_cases("snappy")])
@pytest.mark.parametrize("page", [100, *slow_cases(1 << 20)])
def test_files_that_a_run_may_write_are_read_as_by_pyarrow(tmp_path, version, compression, page):
    """The twin: every page's header is found where the decoder finds it, or the walk would lose its
    way."""
    table = pa.table(COLUMNS)
    path = tmp_path / "rows.parquet"
    pages = {"data_page_size": page, "data_page_version": version, "row_group_size": 1100}
    pq.write_table(table, path, compression=compression, write_statistics=True, **pages)
    names = ["text", "int", "decimal", "float", "null", "bool", "day", "time", "long", "coded"]
    with bounded_file(path, names) as file:
        read = pa.Table.from_batches(list(batches(file, names, "x")))
    for name in names:
        assert read[name].cast(table[name].type).to_pylist() == table[name].to_pylist(), name


def test_a_file_of_no_rows_is_read(tmp_path):
    """Its columns have a dictionary and no page of data, so the first page was looked for at byte 0: a
    run whose noise left no rows did not verify."""
    path = tmp_path / "none.parquet"
    empty = pa.DictionaryArray.from_arrays(pa.array([], pa.int32()), pa.array([], pa.string()))
    with pq.ParquetWriter(path, pa.schema([("a", empty.type)])) as writer:
        writer.write_table(pa.table({"a": empty}))
    about = pq.ParquetFile(path).metadata.row_group(0).column(0)
    assert (about.num_values, about.data_page_offset) == (0, 0), "the case that is tested"
    with bounded_file(path, ["a"]) as file:
        assert [batch.num_rows for batch in batches(file, ["a"], path.name)] == []
