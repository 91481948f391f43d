"""Results kept by date: compared with those of the same machine alone, and what became slower is named."""

import json

import pytest

from bench import history

ABOUT = {"processor": "one", "architecture": "a", "cores": 2}


def entry(ratio, rows=10, **about):
    figure = {"seconds": ratio, "yardstick": 1.0, "ratio": ratio}
    return {"machine": {**ABOUT, **about}, "rows": rows, "gauges": {"sum": figure}}


def test_earlier_results_are_of_the_same_machine_and_size(tmp_path):
    kept = [
        entry(1.0),
        entry(2.0, processor="other"),
        entry(3.0, rows=20),
        *(entry(4.0 + i) for i in range(6)),
    ]
    for i, one in enumerate(kept):
        (tmp_path / f"2026-01-0{i + 1}.json").write_text(json.dumps(one))
    ratios = [old["gauges"]["sum"]["ratio"] for old in history.earlier(tmp_path, entry(0.0))]
    assert ratios == [5.0, 6.0, 7.0, 8.0, 9.0]


def test_what_is_slower_by_more_than_15_percent_is_named():
    before = [entry(r) for r in (1.0, 1.02, 3.0)]  # one file of a bad day does not excuse anything
    assert history.slower(entry(1.16)["gauges"], before) == {}
    assert history.slower(entry(1.2)["gauges"], before) == {"sum": pytest.approx(1.2 / 1.02)}
    assert history.slower({"new": {"ratio": 9.0}}, before) == {}


def test_a_run_keeps_machine_build_and_figures_and_measures_again_what_seems_slower(
    tmp_path, monkeypatch, capsys
):
    runs = []
    monkeypatch.setattr(history, "FOLDER", tmp_path)
    monkeypatch.setattr(history, "gauges", lambda folder, rows: {"sum": lambda: runs.append(rows)})
    times = iter([0.001] * 1000)
    monkeypatch.setattr(history, "spent", lambda work: (work(), next(times))[1])
    history.main(["--quick"])
    (path,) = tmp_path.glob("*.json")
    kept = json.loads(path.read_text())
    assert kept["gauges"]["sum"]["ratio"] == 1.0 and kept["rows"] == runs[0]
    assert {"processor", "cores", "load_average"} <= set(kept["machine"]) and kept["build"]["kernels"]
    once = len(runs)
    slow = iter([0.001, 0.001, 0.001, 0.002] * 1000)  # three times the yardstick, then the work
    monkeypatch.setattr(history, "spent", lambda work: (work(), next(slow))[1])
    history.main(["--quick", "--no-save"])
    assert "SLOWER: sum: 2.00" in capsys.readouterr().out
    assert len(runs) > 2 * once and len(list(tmp_path.glob("*.json"))) == 1
