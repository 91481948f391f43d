"""The examples for schedulers run, with and without the scheduler installed; retries carry on."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastdp
from fastdp.errors import RunError

EXAMPLES = Path(__file__).parents[1] / "examples"


def loaded(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
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
    monkeypatch.setattr(module, "attempt", lambda: 2)
    facts = task(*given, "monday")
    assert facts["epsilon"] == pytest.approx(1.0) and facts["rows"] > 0
    assert len(fastdp.Ledger(place / "budget.db").entries()) == 1  # the retry was not charged again
    monkeypatch.setattr(module, "attempt", lambda: 1)
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
