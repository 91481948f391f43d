"""The examples for schedulers run, with and without the scheduler installed; retries carry on."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastdp
from fastdp.errors import RunError

EXAMPLES = Path(__file__).parents[1] / "examples"


def loaded(name):
    spec = importlib.util.spec_from_file_location(Path(name).name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def place(tmp_path):
    rng = np.random.default_rng(0)
    rows = pa.table({"a": rng.integers(0, 4, 800), "b": rng.integers(0, 3, 800)})
    pq.write_table(rows, tmp_path / "rows.parquet")
    fastdp.Schema.from_domain({"a": 4, "b": 3}).save(tmp_path / "schema.toml")
    return tmp_path


def disk_is_full(*_):
    raise RunError("the disk is full")


def test_the_airflow_task_carries_on_after_a_failure_and_gives_up_without_budget(
    place, monkeypatch
):
    module = loaded("airflow_task")
    task = getattr(module.synthesize_day, "function", module.synthesize_day)
    fastdp.Ledger(place / "budget.db").open("trips", epsilon=1.1, delta=1e-8)
    given = [str(place / "rows.parquet"), str(place / "schema.toml"), str(place)]
    with monkeypatch.context() as patch:
        patch.setattr("fastdp.run.output.Output.write", disk_is_full)
        with pytest.raises(RunError, match="disk is full"):
            task(*given, "monday")
    facts = task(*given, "monday")
    assert facts["epsilon"] == pytest.approx(1.0) and facts["rows"] > 0
    assert task(*given, "monday") == facts  # the worker died before Airflow heard of the end
    assert len(fastdp.Ledger(place / "budget.db").entries()) == 1  # no retry was charged again
    with pytest.raises(module.GiveUp, match="budget"):
        task(*given, "tuesday")


def test_the_dagster_asset_is_made_once(place, monkeypatch):
    module = loaded("dagster_asset")
    fastdp.Ledger(place / "budget.db").open("trips", epsilon=1.0, delta=1e-8)
    names = {"SOURCE": "rows.parquet", "SCHEMA": "schema.toml", "LEDGER": "budget.db", "OUT": "out"}
    for name, file in names.items():
        monkeypatch.setenv(f"TRIPS_{name}", str(place / file))
    asset = module.synthetic_trips
    results = [asset() for _ in range(2)]
    facts = [getattr(r, "metadata", r) for r in results]
    assert facts[0] == facts[1] and facts[0]["rows"] > 0 and facts[0]["unit"] == "row"
    assert len(fastdp.Ledger(place / "budget.db").entries()) == 1


def test_dagster_itself_materializes_the_asset(place, monkeypatch):
    """In this process: Dagster's own run of the asset, with its retry policy and its event log."""
    dagster = pytest.importorskip("dagster", reason="dagster is not installed")
    module = loaded("dagster_asset")
    fastdp.Ledger(place / "budget.db").open("trips", epsilon=1.0, delta=1e-8)
    names = {"SOURCE": "rows.parquet", "SCHEMA": "schema.toml", "LEDGER": "budget.db", "OUT": "out"}
    for name, file in names.items():
        monkeypatch.setenv(f"TRIPS_{name}", str(place / file))
    result = dagster.materialize([module.synthetic_trips])
    assert result.success
    (made,) = result.asset_materializations_for_node("synthetic_trips")
    assert made.metadata["unit"].value == "row" and made.metadata["rows"].value > 0
    assert len(fastdp.Ledger(place / "budget.db").entries()) == 1


class Dbt:
    """What dbt hands to a Python model: its settings, and the models that it refers to."""

    def __init__(self, rows, settings):
        self._rows = rows
        self.config = Config(settings)

    def ref(self, name):
        assert name == "people"
        return self

    def arrow(self):
        return self._rows


class Config:
    def __init__(self, settings):
        self.get = settings.get

    def __call__(self, **options):
        assert options == {"materialized": "table"}


def test_the_dbt_model_is_charged_once_per_version(place, monkeypatch):
    """Building again costs nothing, also after a build that was killed; a new version is a run."""
    module = loaded("dbt/models/synthetic_people")
    ledger = fastdp.Ledger(place / "budget.db")
    ledger.open("people", epsilon=2.5, delta=1e-5)
    settings = {
        "released": str(place / "released"),
        "schema_file": str(place / "schema.toml"),
        "ledger": str(place / "budget.db"),
        "epsilon": 1.0,
        "delta": 1e-6,
    }
    rows = pq.read_table(place / "rows.parquet")

    def build(version):
        return module.model(Dbt(rows, settings | {"version": version}), None)

    with monkeypatch.context() as patch:
        patch.setattr("fastdp.run.output.Output.write", disk_is_full)
        with pytest.raises(RunError, match="disk is full"):
            build("v1")
    first = build("v1")
    assert build("v1").equals(first) and first.num_rows > 0 and len(ledger.entries()) == 1
    build("v2")
    assert len(ledger.entries()) == 2


def test_dbt_itself_builds_the_model_on_duckdb(place):
    """The project as it stands: dbt and its DuckDB adapter, a warehouse in a file."""
    reason = "dbt-duckdb is not installed: pip install 'dbt-core<1.11' 'dbt-duckdb<1.11'"
    pytest.importorskip("dbt.adapters.duckdb", reason=reason)
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    project = place / "project"
    shutil.copytree(EXAMPLES / "dbt", project)
    for folder in ("deliveries", "state"):
        (project / folder).mkdir()
    shutil.copy(place / "rows.parquet", project / "deliveries" / "1.parquet")
    shutil.copy(place / "schema.toml", project / "people.toml")
    fastdp.Ledger(project / "state" / "budget.db").open("people", epsilon=2.0, delta=1e-5)
    run = "from dbt.cli.main import cli; cli()"
    options = ["run", "--profiles-dir", ".", "--no-send-anonymous-usage-stats"]
    for _ in range(2):  # the second build charges nothing
        ended = subprocess.run(
            [sys.executable, "-c", run, *options],
            cwd=project,
            env={**os.environ, "PYTHONPATH": str(EXAMPLES.parent)},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
    verdict = fastdp.verify(project / "released/v1", ledger=project / "state" / "budget.db")
    assert verdict.private
    assert len(fastdp.Ledger(project / "state" / "budget.db").entries()) == 1
    with duckdb.connect(project / "warehouse.duckdb", read_only=True) as warehouse:
        built = warehouse.sql("select * from synthetic_people").to_arrow_table()
    assert built.num_rows == fastdp.load_run(project / "released/v1").data.num_rows


def test_the_excerpts_of_nist_become_a_schema_and_the_folders_that_its_report_reads(tmp_path):
    """The report itself needs an environment of its own (docs/guide/report.md); here its two ends
    are looked at."""
    module = loaded("sdnist_report")
    areas = {"dtype": "object", "values": ["25-00503", "25-00703"]}
    income = {
        "has_null": True,
        "null_value": "N",
        "dtype": "object",
        "min": -4600,
        "max": 1_341_000,
    }
    density = {"dtype": "float64", "min": 1457, "max": 3683}
    parameters = {"schema": {"PUMA": areas, "PINCP": income, "DENSITY": density}}
    (tmp_path / "ma2019.json").write_text(json.dumps(parameters))
    (tmp_path / "data_dictionary.json").write_text("{}")
    lines = ["PUMA,PINCP,DENSITY", *["25-00503,5000.0,2872.7", "25-00703,N,2195.3"] * 400]
    (tmp_path / "ma2019.csv").write_text("\n".join(lines) + "\n")
    schema = module.schema(parameters)
    assert list(schema.columns) == ["PUMA", "PINCP"]
    table = fastdp.read(tmp_path / "ma2019.csv", schema)
    assert table.rows == 800
    run = fastdp.synthesize(tmp_path / "ma2019.csv", schema=schema, epsilon=5.0, delta=1e-6)
    text = run.to_polars().write_csv(null_value=module.NULL)
    assert "25-00703,N\n" in text
    root = module.data_root(tmp_path, tmp_path / "ma2019.json", tmp_path)
    assert (
        json.loads((root / "mappings.json").read_text())["PUMA"]["25-00503"]["name"] == "25-00503"
    )
    assert (root / "massachusetts" / "ma2019.csv").exists() and (
        root / "data_dictionary.json"
    ).exists()
