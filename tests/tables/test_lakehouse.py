"""Files of lakehouse tables are refused: their folders keep rows that were deleted or replaced."""

import os

import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import fastdp
from fastdp.errors import DataError

LOGS = {
    "Delta Lake": "_delta_log/00000000000000000000.json",
    "Apache Hudi": ".hoodie/hoodie.properties",
    "Apache Iceberg": "metadata/00000-9c12d441.metadata.json",
    "Spark Structured Streaming": "_spark_metadata/0",
}
SCHEMA = {"columns": {"n": {"kind": "integer", "max": 9}}}


def table_folder(place, kind):
    """A folder `lake` of this kind with one file of rows, and the path of that file."""
    log = place / "lake" / LOGS[kind]
    log.parent.mkdir(parents=True)
    log.write_text("{}")
    file = place / "lake" / "data" / "day=1" / "part-0.parquet"
    file.parent.mkdir(parents=True)
    pq.write_table(pa.table({"n": [1, 2]}), file)
    return file


def ways_to_name(place, file):
    """Sources that all read the file."""
    outside = place / "outside.parquet"
    outside.symlink_to(file)
    linked = place / "linked"
    linked.symlink_to(place / "lake")
    plain = place / "plain.parquet"
    pq.write_table(pa.table({"n": [3]}), plain)
    return {
        "folder": place / "lake",
        "text": str(place / "lake"),
        "URL": f"file://{place}/lake",
        "one level up": place / "",
        "subfolder": place / "lake" / "data",
        "glob of files": str(place / "lake" / "**" / "*.parquet"),
        "glob of folders": str(place / "la*"),
        "file": file,
        "member of a list": [plain, file],
        "link to the file": outside,
        "link to the folder": linked,
        "relative": os.path.relpath(file),
        "Arrow dataset": ds.dataset(place / "lake" / "data"),
        "polars scan": pl.scan_parquet(place / "lake" / "**" / "*.parquet"),
        "part of a polars query": pl.concat([pl.scan_parquet(plain), pl.scan_parquet(file)]),
    }


@pytest.mark.parametrize("kind", LOGS)
def test_every_way_to_name_a_table_is_refused(tmp_path, kind):
    file = table_folder(tmp_path, kind)
    schema = fastdp.Schema.from_dict(SCHEMA)
    for way, source in ways_to_name(tmp_path, file).items():
        with pytest.raises(DataError, match=kind) as refused:
            fastdp.read(source, schema)
        told = str(refused.value)  # the log here is empty: no table can be opened by it
        assert "pass " in told or "cannot be opened" in told, way


def test_a_run_and_its_public_data_are_refused_before_the_charge(tmp_path):
    table_folder(tmp_path, "Delta Lake")
    schema = fastdp.Schema.from_dict(SCHEMA)
    book = fastdp.Ledger(tmp_path / "budget.db")
    book.open("d", epsilon=1, delta=1e-6)
    asked = {"epsilon": 1, "delta": 1e-6, "schema": schema, "ledger": book, "dataset": "d"}
    frame = pl.DataFrame({"n": [1, 2]})
    for source, public in ((tmp_path / "lake", None), (frame, tmp_path / "lake")):
        with pytest.raises(DataError, match="Delta Lake"):
            fastdp.synthesize(source, **asked, public=public)
    assert book.entries() == []


def test_owner_commands_are_refused(tmp_path):
    table_folder(tmp_path, "Delta Lake")
    lake = str(tmp_path / "lake")
    for call in (fastdp.draft, lambda s: fastdp.evaluate(s, s)):
        with pytest.raises(DataError, match="Delta Lake"):
            call(lake)


def test_plain_folders_are_read(tmp_path):
    folder = tmp_path / "metadata"  # only files of a table's metadata make it one
    (folder / "metadata").mkdir(parents=True)
    (folder / "metadata" / "_notes.json").write_text("{}")
    pq.write_table(pa.table({"n": [1, 2]}), folder / "a.parquet")
    assert fastdp.read(folder, fastdp.Schema.from_dict(SCHEMA)).rows == 2
