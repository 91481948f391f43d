"""Rows of a run as a lakehouse table: one transaction that names the statement; failures cost
nothing; foreign tables are left alone."""

import hashlib

import numpy as np
import pyarrow as pa
import pytest

import fastdp
from fastdp.errors import RunError, UsageError
from fastdp.run.lake_sinks import KEY
from tests.cli.test_app import fastdp_cli

COLUMNS = {
    "a": {"kind": "integer", "min": 0, "max": 3, "dtype": "uint8"},
    "s": {"kind": "string", "values": ["x", "y"]},
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two run folders."""
    place = tmp_path_factory.mktemp("runs")
    rng = np.random.default_rng(0)
    columns = {"a": rng.integers(0, 4, 300).astype("uint8"), "s": rng.choice(["x", "y"], 300)}
    schema = fastdp.Schema.from_dict({"columns": COLUMNS})
    for name in ("one", "two"):
        fastdp.synthesize(pa.table(columns), "mst", 1.0, 1e-6, schema=schema, out=place / name)
    return place


def digest(folder):
    return hashlib.sha256((folder / "privacy.json").read_bytes()).hexdigest()


def values(rows):
    return sorted(zip(rows["a"].to_pylist(), rows["s"].to_pylist()), key=str)


def fails(*_, **__):
    raise OSError("SECRET")


def test_a_delta_table_gets_a_version_for_each_run(runs, tmp_path, monkeypatch):
    deltalake = pytest.importorskip("deltalake", reason="deltalake is not installed: fastdp[delta]")
    to = f"delta:{tmp_path / 'lake'}"
    with monkeypatch.context() as patch:
        patch.setattr(deltalake, "write_deltalake", fails)
        with pytest.raises(RunError, match=r"commit failed.*again at no charge") as told:
            fastdp.publish(runs / "one", to)
    assert "SECRET" not in str(told.value) and not (tmp_path / "lake").exists()
    for version, name in enumerate(("one", "two")):
        for _ in range(2):  # the second call finds it published
            fastdp_cli("publish", runs / name, to, cwd=tmp_path)
        table = deltalake.DeltaTable(tmp_path / "lake")
        assert table.version() == version and table.history(1)[0][KEY] == digest(runs / name)
        assert values(pa.table(table.scan())) == values(fastdp.load_run(runs / name).data)
    deltalake.write_deltalake(tmp_path / "private", pa.table({"a": [1]}))
    with pytest.raises(UsageError, match="did not publish"):
        fastdp.publish(runs / "one", f"delta:{tmp_path / 'private'}")
    with pytest.raises(UsageError, match="not a table of Delta Lake"):
        fastdp.publish(runs / "one", f"delta:{runs}")


def test_an_iceberg_table_gets_a_snapshot_for_each_run(runs, tmp_path, monkeypatch):
    reason = "pyiceberg is not installed: fastdp[iceberg]"
    sql = pytest.importorskip("pyiceberg.catalog.sql", reason=reason)
    (tmp_path / "warehouse").mkdir()
    uri = f"sqlite:///{tmp_path}/catalogue.db"
    place = f"file://{tmp_path}/warehouse"
    catalogue = sql.SqlCatalog("test", uri=uri, warehouse=place)
    catalogue.create_namespace("shop")
    columns = pa.schema([("a", pa.int32()), ("s", pa.string())])
    table = catalogue.create_table("shop.people", schema=columns)
    with monkeypatch.context() as patch:
        patch.setattr(sql.SqlCatalog, "commit_table", fails)
        with pytest.raises(RunError, match=r"commit failed.*again at no charge"):
            fastdp.publish(runs / "one", table)
    assert catalogue.load_table("shop.people").current_snapshot() is None
    for name in ("one", "two"):
        table = catalogue.load_table("shop.people")
        assert fastdp.publish(runs / name, table) == "shop.people"
        table = catalogue.load_table("shop.people")
        assert table.properties[KEY] == digest(runs / name)
        assert values(table.scan().to_arrow()) == values(fastdp.load_run(runs / name).data)
        snapshots = len(table.snapshots())
        fastdp.publish(runs / name, table)
        assert len(catalogue.load_table("shop.people").snapshots()) == snapshots
    other = catalogue.create_table("shop.private", schema=columns)
    other.append(pa.table({"a": pa.array([1], pa.int32()), "s": ["x"]}))
    with pytest.raises(UsageError, match="did not publish"):
        fastdp.publish(runs / "one", other)
    narrow = pa.schema([("a", pa.string()), ("s", pa.string())])
    with pytest.raises(UsageError, match="'a' is string in the table, int32 in the rows; make"):
        fastdp.publish(runs / "one", catalogue.create_table("shop.texts", schema=narrow))
