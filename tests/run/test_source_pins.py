"""Files are listed once and looked at again after reading: a table that changes is not silently
mixed."""

import os
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastdp
from fastdp.errors import DataError, RunError
from fastdp.run import execute
from fastdp.tables.sources.source import source_of

COLUMNS = {
    "a": {"kind": "integer", "min": 0, "max": 3},
    "day": {"kind": "categorical", "values": [1, 2, 3]},
}
SCHEMA = fastdp.Schema.from_dict({"columns": COLUMNS})


@pytest.fixture
def lake(tmp_path):
    """A folder with Hive partitions: two days of two files each."""
    for day in (1, 2):
        for k in range(2):
            add(tmp_path / "lake", day, k)
    fastdp.Ledger(tmp_path / "budget.db").open("lake", epsilon=9.0, delta=1e-4)
    return tmp_path


def add(lake, day, k):
    file = lake / f"day={day}" / f"part-{k}.parquet"
    file.parent.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(10 * day + k)
    pq.write_table(pa.table({"a": rng.integers(0, 4, 100)}), file)
    return file


def run(place, source="lake", **options):
    given = {"schema": SCHEMA, "ledger": place / "budget.db", "dataset": "lake"}
    return fastdp.synthesize(place / source, "mst", 1.0, 1e-6, **given | options)


def entries(place):
    return [e for e in fastdp.Ledger(place / "budget.db").entries() if e["steps"]]


def rewritten(place):
    file = add(place / "lake", 1, 0)
    os.utime(file, ns=(1, 1))  # the clock of a file system can be coarse


def removed(place):
    (place / "lake" / "day=1" / "part-1.parquet").unlink()


def added(place):
    add(place / "lake", 3, 0)


ACCIDENTS = {"written to": rewritten, "removed": removed, "added": added}


def after_reading(monkeypatch, accident, place):
    """The accident happens once the rows are read, before anything is measured."""
    before = execute.open_counter

    def open_counter(*given):
        opened = before(*given)
        accident(place)
        return opened

    monkeypatch.setattr(execute, "open_counter", open_counter)


@pytest.mark.parametrize("word", ACCIDENTS)
def test_a_table_that_changes_while_it_is_read_is_refused_before_the_charge(
    lake, monkeypatch, word
):
    after_reading(monkeypatch, ACCIDENTS[word], lake)
    with pytest.raises(DataError, match=f"1 {word}.*nothing was charged"):
        run(lake)
    assert entries(lake) == []


def test_files_that_come_later_are_not_read(lake):
    """The listing is made once: what is added between two passes belongs to neither."""
    source = source_of(lake / "lake")
    source.pin()
    added(lake)
    schema = SCHEMA.select(["a"])
    assert fastdp.read(source, schema).rows == 400
    assert fastdp.read(lake / "lake", schema).rows == 500
    assert "1 added" in source.changes()


def test_a_glob_a_list_and_linked_tables_are_pinned_too(lake):
    one = source_of(str(lake / "lake" / "day=1" / "*.parquet"))
    both = source_of([one, str(lake / "lake" / "day=2")])
    assert len(both.pin()["list"]) == 2
    assert both.changes() == ""
    rewritten(lake)
    assert "written to" in both.changes()
    with pytest.raises(DataError, match="read 1 sources"):
        both.pin({"list": [None]})


def test_a_change_after_the_charge_is_named_in_the_statement(lake, monkeypatch):
    """With private domains, steps are charged before the rows are read for the last time."""
    after_reading(monkeypatch, rewritten, lake)
    made = run(lake, schema=None, domain="private", ledger=None, dataset=None, out=lake / "out")
    assert any("mix two states" in note for note in made.privacy["notes"])
    assert fastdp.verify(lake / "out")


def test_a_resumed_run_notices_that_it_reads_other_files(lake, monkeypatch):
    def disk_is_full(*_):
        raise RunError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr("fastdp.run.output.Output.write", disk_is_full)
        with pytest.raises(RunError, match="disk is full"):
            run(lake, out=lake / "out")
    shutil.copytree(lake / "out.private", lake / "kept.private")
    added(lake)
    made = run(lake, out=lake / "out", resume=True)
    assert any("mix two states" in note for note in made.privacy["notes"])
    assert len(entries(lake)) == 1

    state = (lake / "kept.private" / "state.json").read_text()
    assert "part-0" not in state and '"pins"' in state  # a digest, and no listing


def test_an_unchanged_table_gets_no_note(lake):
    made = run(lake, out=lake / "out")
    assert not any("two states" in note for note in made.privacy["notes"])
    assert "source" not in made.privacy["mechanism"]
