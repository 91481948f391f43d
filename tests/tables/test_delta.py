"""Tables of Delta Lake: one version is pinned, deleted rows never count, and what is not known is
refused before the charge."""

import shutil
import sys

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastdp
from fastdp.errors import DataError, RunError
from fastdp.tables.sources.source import source_of
from tests.cli.test_app import fastdp_cli
from tests.tables import delta_log

deltalake = pytest.importorskip("deltalake", reason="deltalake is not installed: fastdp[delta]")

SCHEMA = fastdp.Schema.from_dict(
    {
        "user": {"column": "id", "max_rows": 3},
        "columns": {
            "a": {"kind": "integer", "min": 0, "max": 3},
            "s": {"kind": "string", "values": ["x", "y"]},
        },
    }
)


def rows(n=600, seed=0):
    rng = np.random.default_rng(seed)
    columns = {"id": rng.integers(0, 300, n), "a": rng.integers(0, 4, n)}
    return pa.table(columns | {"s": rng.choice(["x", "y"], n)})


@pytest.fixture
def lake(tmp_path):
    """A table of three versions: rows, rows without the first hundred, and more rows again."""
    table = str(tmp_path / "lake")
    deltalake.write_deltalake(table, rows())
    delta_log.delete_rows(table, range(100))
    more = next(entry["add"] for entry in delta_log.actions(table) if "add" in entry)
    shutil.copy(tmp_path / "lake" / more["path"], tmp_path / "lake" / "more.parquet")
    delta_log.commit(table, {"add": more | {"path": "more.parquet"}})
    fastdp.Ledger(tmp_path / "budget.db").open("lake", epsilon=9.0, delta=1e-4)
    return tmp_path


def counted(source):
    """Marginals of a source: integers, by which two readings are compared."""
    table = fastdp.read(source, SCHEMA, public=True)
    return table.rows, fastdp.marginals(table, [("a", "s")], clip=2)["a", "s"].tolist()


def test_every_version_reads_its_own_rows(lake):
    """Bytes equal to those of the same rows in a plain file, in every way to name a version."""
    first = rows()
    kept = rows().slice(100)
    last = pa.concat_tables([kept, first])
    folder = lake / "lake"
    ways = {
        f"{folder}@v0": first,
        f"{folder}@v1": kept,
        f"file://{folder}@v1": kept,
        folder: last,
        str(folder): last,
    }
    for source, truth in ways.items():
        assert counted(source) == counted(truth), source
    assert counted(deltalake.DeltaTable(folder, version=1)) == counted(kept)
    assert counted([f"{folder}@v1", first]) == counted(last)
    assert counted(pl.scan_delta(str(folder), version=1)) == counted(kept)


def test_deletions_in_files_of_their_own_and_mapped_columns(tmp_path):
    folder = str(tmp_path / "t")
    deltalake.write_deltalake(folder, rows())
    delta_log.delete_rows(folder, range(50, 150), in_file=True)
    left = pa.concat_tables([rows().slice(0, 50), rows().slice(150)])
    assert counted(folder) == counted(left)
    delta_log.mapped_table(tmp_path / "mapped", rows())
    assert counted(tmp_path / "mapped") == counted(rows())


def synthesized(place, source, **options):
    given = {"schema": SCHEMA, "seed": 1, "sample_seed": 1, "out": place / "out"}
    return fastdp.synthesize(source, "mst", 1.0, 1e-6, **given | options)


def test_a_run_records_its_version_and_gives_the_bytes_of_plain_files(lake):
    pq.write_table(rows().slice(100), lake / "plain.parquet")
    here = synthesized(lake, lake / "plain.parquet", out=lake / "plain")
    run = synthesized(lake, f"{lake / 'lake'}@v1")
    read = run.privacy["mechanism"]["source"]
    assert read["version"] == 1 and read["format"] == "Delta Lake"
    assert read["table"] == deltalake.DeltaTable(lake / "lake").metadata().id
    assert run.data.equals(here.data)
    files = [f"{name}/synthetic.parquet" for name in ("out", "plain")]
    assert len({(lake / file).read_bytes() for file in files}) == 1


def test_resuming_reads_the_version_that_the_run_began_with_or_refuses(lake, monkeypatch):
    def disk_is_full(*_):
        raise RunError("the disk is full")

    folder = str(lake / "lake")
    ledger = {"seed": None, "ledger": lake / "budget.db", "dataset": "lake"}
    with monkeypatch.context() as patch:
        patch.setattr("fastdp.run.output.Output.write", disk_is_full)
        with pytest.raises(RunError, match="disk is full"):
            synthesized(lake, folder, **ledger)
    more = next(entry["add"] for entry in delta_log.actions(folder) if "add" in entry)
    shutil.copy(lake / "lake" / more["path"], lake / "lake" / "later.parquet")
    delta_log.commit(folder, {"add": more | {"path": "later.parquet"}})
    with pytest.raises(DataError, match="read version 2, and version 3 is given"):
        synthesized(lake, deltalake.DeltaTable(folder), resume=True, **ledger)
    shutil.copytree(folder, lake / "kept")
    shutil.rmtree(folder)
    deltalake.write_deltalake(folder, rows())
    with pytest.raises(DataError):  # another table in its place
        synthesized(lake, folder, resume=True, **ledger)
    shutil.rmtree(folder)
    shutil.copytree(lake / "kept", folder)
    run = synthesized(lake, folder, resume=True, **ledger)
    assert run.privacy["mechanism"]["source"]["version"] == 2
    assert fastdp.verify(lake / "out", ledger=lake / "budget.db")
    assert len(fastdp.Ledger(lake / "budget.db").entries()) == 1


def unknown_feature(folder):
    delta_log.commit(folder, delta_log.protocol("deletionVectors", "catOwnedTable"))


def widened(folder):
    delta_log.commit(folder, delta_log.protocol("deletionVectors", "typeWidening"))


def vacuumed(folder):
    (folder / "more.parquet").unlink()


def overwritten(folder):
    pq.write_table(rows(50), folder / "more.parquet")


def no_log(folder):
    for file in (folder / "_delta_log").iterdir():
        file.unlink()


ACCIDENTS = {
    unknown_feature: "cannot be opened|catOwnedTable",
    widened: "typeWidening",
    vacuumed: "No such file",
    overwritten: "size is not that",
    no_log: "cannot be opened",
}


@pytest.mark.parametrize("accident", ACCIDENTS)
def test_what_cannot_be_read_is_refused_before_the_charge(lake, accident):
    accident(lake / "lake")
    with pytest.raises(DataError, match=ACCIDENTS[accident]):
        synthesized(lake, lake / "lake", seed=None, ledger=lake / "budget.db", dataset="lake")
    assert fastdp.Ledger(lake / "budget.db").entries() == []


def test_a_version_that_does_not_exist_and_files_of_the_table_are_refused(lake):
    for source, said in (
        (f"{lake / 'lake'}@v9", "version 9"),
        (lake / "lake" / "more.parquet", "Delta Lake"),
        (str(lake / "lake" / "*.parquet"), "Delta Lake"),
        (pl.scan_parquet(lake / "lake" / "*.parquet"), "Delta Lake"),
        (lake, "Delta Lake"),
    ):
        with pytest.raises(DataError, match=said):
            fastdp.read(source, SCHEMA)


def test_names_types_and_partitions_of_columns(tmp_path):
    """Odd names are columns like any other; partition values and nulls come from the log."""
    odd = ["a b", "A", "x.y", 'q"q', "ö"]
    columns = {name: [k, k + 1, None] for k, name in enumerate(odd)}
    times = pa.array([1_577_900_000_000_000, None, 1_578_000_000_000_000], pa.timestamp("us"))
    table = pa.table(columns | {"day": ["1", "2", None], "when": times})
    deltalake.write_deltalake(str(tmp_path / "t"), table, partition_by=["day"])
    listed = {name: {"kind": "integer", "min": 0, "max": 9} for name in odd}
    listed["day"] = {"kind": "string", "values": ["1", "2"]}
    listed["when"] = {"kind": "timestamp", "parts": ["date"], "dtype": "timestamp[us]"}
    listed["when"] |= {"min": "2020-01-01", "max": "2020-01-31"}
    schema = fastdp.Schema.from_dict({"columns": listed})
    read, truth = (fastdp.read(s, schema, public=True) for s in (tmp_path / "t", table))
    for name in schema.columns:
        cells = [fastdp.marginals(one, [(name,)], clip=1)[name,].tolist() for one in (read, truth)]
        assert cells[0] == cells[1], name


def test_private_and_public_data_must_not_be_the_same_table(lake):
    with pytest.raises(fastdp.errors.UsageError, match="public="):
        synthesized(lake, lake / "lake", public=deltalake.DeltaTable(lake / "lake", version=0))


def test_the_command_line_names_a_version(lake):
    SCHEMA.save(lake / "schema.toml")
    given = ["-s", "schema.toml", "-m", "mst", "-e", 1, "-d", "1e-6", "--out", "cli"]
    fastdp_cli("synth", "lake@v1", *given, cwd=lake)
    assert fastdp.load_run(lake / "cli").privacy["mechanism"]["source"]["version"] == 1
    assert source_of(str(lake / "lake")).title == "lake"


def test_without_deltalake_the_error_names_the_extra(lake, monkeypatch):
    monkeypatch.setitem(sys.modules, "deltalake", None)
    with pytest.raises(DataError, match=r"Delta Lake.*fastdp\[delta\]"):
        fastdp.read(lake / "lake", SCHEMA)
