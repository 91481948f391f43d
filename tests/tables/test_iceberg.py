"""Tables of Apache Iceberg: one snapshot is pinned, deleted rows never count, and what pyiceberg
cannot honour is refused before the charge."""

import json
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastdp
from fastdp.errors import DataError, RunError
from tests.cli.test_app import fastdp_cli
from tests.tables import iceberg_log

REASON = "pyiceberg is not installed: fastdp[iceberg]"
pytest.importorskip("pyiceberg", reason=REASON)
sql = pytest.importorskip("pyiceberg.catalog.sql", reason=f"{REASON}, with its SQL catalogue")

SCHEMA = fastdp.Schema.from_dict(
    {
        "user": {"column": "id", "max_rows": 3},
        "columns": {
            "a": {"kind": "integer", "min": 0, "max": 3},
            "s": {"kind": "string", "values": ["x", "y"]},
        },
    }
)
POSITIONS = 1
EQUALITY = 2


def rows(n=600, seed=0):
    rng = np.random.default_rng(seed)
    columns = {"id": rng.integers(0, 300, n), "a": rng.integers(0, 4, n)}
    return pa.table(columns | {"s": rng.choice(["x", "y"], n)})


@pytest.fixture
def lake(tmp_path):
    """(place, table): a table of 600 rows in one file, in a catalogue of its own."""
    (tmp_path / "warehouse").mkdir()
    uri = f"sqlite:///{tmp_path}/catalogue.db"
    place = f"file://{tmp_path}/warehouse"
    catalogue = sql.SqlCatalog("test", uri=uri, warehouse=place)
    catalogue.create_namespace("shop")
    table = catalogue.create_table("shop.people", schema=rows().schema)
    table.append(rows())
    fastdp.Ledger(tmp_path / "budget.db").open("lake", epsilon=9.0, delta=1e-4)
    return tmp_path, table


def counted(source):
    table = fastdp.read(source, SCHEMA, public=True)
    return table.rows, fastdp.marginals(table, [("a", "s")], clip=2)["a", "s"].tolist()


def synthesized(place, source, **options):
    given = {"schema": SCHEMA, "seed": 1, "sample_seed": 1, "out": place / "out"}
    return fastdp.synthesize(source, "mst", 1.0, 1e-6, **given | options)


def test_a_table_its_metadata_and_a_snapshot_read_their_own_rows(lake):
    _, table = lake
    first = table.current_snapshot().snapshot_id
    table.append(rows(100, seed=1))
    both = pa.concat_tables([rows(), rows(100, seed=1)])
    metadata = iceberg_log.local(table.metadata_location)
    assert counted(table) == counted(both)
    assert counted(metadata) == counted(f"file://{metadata}") == counted(both)
    assert counted(f"{metadata}@{first}") == counted(rows())
    table.delete("a = 0")  # rewrites files
    kept = both.filter(pa.compute.not_equal(both["a"], 0))
    assert counted(table) == counted(kept)


def test_position_deletes_are_honoured_and_bytes_are_those_of_plain_files(lake):
    place, table = lake
    gone = range(0, 300, 2)
    metadata = iceberg_log.with_deletes(
        table, iceberg_log.position_file(table, gone), len(gone), POSITIONS
    )
    kept = rows().filter(pa.array([k not in gone for k in range(600)]))
    assert counted(metadata) == counted(kept) and counted(table) == counted(rows())
    pq.write_table(kept, place / "plain.parquet")
    here = synthesized(place, place / "plain.parquet", out=place / "plain")
    run = synthesized(place, metadata)
    read = run.privacy["mechanism"]["source"]
    assert read["format"] == "Apache Iceberg" and read["table"] == str(table.metadata.table_uuid)
    assert read["snapshot"] == table.current_snapshot().snapshot_id + 1
    assert run.data.equals(here.data)
    files = [place / name / "synthetic.parquet" for name in ("out", "plain")]
    assert files[0].read_bytes() == files[1].read_bytes()


def equality_deletes(place, table):
    fields = [pa.field("a", pa.int64(), False, {"PARQUET:field_id": "2"})]
    path = f"{table.location()}/data/equal.parquet"
    pq.write_table(pa.table([[0]], schema=pa.schema(fields)), iceberg_log.local(path))
    return iceberg_log.with_deletes(table, path, 1, EQUALITY, [2])


def newer_format(place, table):
    file = Path(iceberg_log.local(table.metadata_location))
    plain = json.loads(file.read_text()) | {"format-version": 3, "next-row-id": 0}
    file.write_text(json.dumps(plain))
    return file


def file_is_gone(place, table):
    (task,) = table.scan().plan_files()
    Path(iceberg_log.local(task.file.file_path)).unlink()
    return table


def file_was_overwritten(place, table):
    (task,) = table.scan().plan_files()
    pq.write_table(rows(50), iceberg_log.local(task.file.file_path))
    return table


def metadata_is_damaged(place, table):
    file = Path(iceberg_log.local(table.metadata_location))
    file.write_text("{}")
    return file


ACCIDENTS = [
    equality_deletes,
    newer_format,
    file_is_gone,
    file_was_overwritten,
    metadata_is_damaged,
]


@pytest.mark.parametrize("accident", ACCIDENTS)
def test_what_cannot_be_honoured_is_refused_before_the_charge(lake, accident):
    place, table = lake
    source = accident(place, table)
    with pytest.raises(DataError):
        synthesized(place, source, seed=None, ledger=place / "budget.db", dataset="lake")
    assert fastdp.Ledger(place / "budget.db").entries() == []


def test_resuming_reads_the_snapshot_that_the_run_began_with_or_refuses(lake, monkeypatch):
    def disk_is_full(*_):
        raise RunError("the disk is full")

    place, table = lake
    first = table.current_snapshot().snapshot_id
    old = iceberg_log.local(table.metadata_location)
    ledger = {"seed": None, "ledger": place / "budget.db", "dataset": "lake"}
    with monkeypatch.context() as patch:
        patch.setattr("fastdp.run.output.Output.write", disk_is_full)
        with pytest.raises(RunError, match="disk is full"):
            synthesized(place, table, **ledger)
    table.append(rows(100, seed=1))
    new = iceberg_log.local(table.metadata_location)
    second = table.current_snapshot().snapshot_id
    with pytest.raises(DataError, match=f"read snapshot {first}, and snapshot {second}"):
        synthesized(place, f"{new}@{second}", resume=True, **ledger)
    expired = json.loads(Path(new).read_text())
    expired["snapshots"] = [s for s in expired["snapshots"] if s["snapshot-id"] == second]
    expired["snapshot-log"] = expired["snapshot-log"][-1:]
    gone = Path(new).with_name("00098-expired.metadata.json")
    gone.write_text(json.dumps(expired))
    with pytest.raises(DataError, match="no longer has snapshot"):
        synthesized(place, gone, resume=True, **ledger)
    run = synthesized(place, table, resume=True, **ledger)
    assert run.privacy["mechanism"]["source"]["snapshot"] == first
    assert fastdp.verify(place / "out", ledger=place / "budget.db")
    assert counted(old) == counted(rows())


def test_folders_and_files_of_the_table_are_refused_and_an_empty_table_is_read(lake):
    _, table = lake
    folder = Path(iceberg_log.local(table.location()))
    for source in (folder, folder / "data", str(folder / "data" / "*.parquet")):
        with pytest.raises(DataError, match="Apache Iceberg"):
            fastdp.read(source, SCHEMA)
    empty = table.catalog.create_table("shop.empty", schema=rows().schema)
    assert fastdp.read(empty, SCHEMA).rows == 0


def test_without_pyiceberg_the_error_names_the_extra(lake, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyiceberg.table", None)
    with pytest.raises(DataError, match=r"Apache Iceberg.*fastdp\[iceberg\]"):
        fastdp.read(iceberg_log.local(lake[1].metadata_location), SCHEMA)


def test_the_command_line_takes_a_metadata_file(lake):
    place, table = lake
    SCHEMA.save(place / "schema.toml")
    metadata = iceberg_log.local(table.metadata_location)
    given = ["-s", "schema.toml", "-m", "mst", "-e", 1, "-d", "1e-6", "--out", "cli"]
    fastdp_cli("synth", metadata, *given, cwd=place)
    read = fastdp.load_run(place / "cli").privacy["mechanism"]["source"]
    assert read["snapshot"] == table.current_snapshot().snapshot_id
