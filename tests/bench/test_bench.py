"""`python -m bench` knows every benchmark, and each takes the arguments given there; `make demo`
runs in small, README's table is what the results give, and peers get a budget that is what it says.
"""

import json
from pathlib import Path

from bench import demo, machine, readme
from bench.__main__ import BENCHES, QUOTED

ROOT = Path(__file__).parents[2]
HELPERS = {
    "__main__",
    "__init__",
    "builds",
    "machine",
    "demo",
    "digests",
    "figures",
    "history",
    "readme",
    "structure",
}


def test_every_benchmark_is_listed_and_takes_its_options():
    runnable = {
        p.stem
        for p in (ROOT / "bench").glob("*.py")
        if 'if __name__ == "__main__"' in p.read_text("utf-8")
    } | {p.parent.name for p in (ROOT / "bench").glob("*/__main__.py")}
    assert runnable - HELPERS == set(BENCHES)
    made = {row()[3].split()[0] for row in readme.ROWS}
    assert made <= set(QUOTED) <= set(BENCHES) and {"scoreboard", "fits"} <= set(QUOTED)
    for name, bench in BENCHES.items():
        place = ROOT / "bench" / name
        module = place / "__main__.py" if place.is_dir() else place.with_suffix(".py")
        text = module.read_text("utf-8")
        for arguments in (*bench.small, *bench.full):
            for word in arguments:
                if word.startswith("--"):
                    assert f'"{word}"' in text, f"bench.{name} has no {word}"


def test_the_demo_in_small(tmp_path, monkeypatch, capsys):
    """It says each step before it starts, and its last line opens the report."""
    monkeypatch.setattr(demo, "CHICAGO", tmp_path / "absent")
    demo.main(2_500, tmp_path / "out")
    shown = capsys.readouterr()
    assert shown.out.count(" ...") >= 3 and "fastdp " in shown.err
    opened = shown.out.splitlines()[-1].split()[-1]
    assert (tmp_path / "out/taxi.private/report.html").samefile(opened)
    assert (tmp_path / "out/taxi/privacy.json").is_file()
    assert (tmp_path / "out/taxi.private/report.html").is_file()


def test_readme_pages_and_plot_are_what_the_results_give():
    readme.main(["--check"])


def test_a_run_of_some_cells_keeps_those_of_others(tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "RESULTS", tmp_path)
    machine.keep_cells("hard", {"xor3": {"accuracy": [0.1]}, "xor4": {"accuracy": [0.2]}})
    machine.keep_cells("hard", {"xor4": {"accuracy": [0.3]}, "zip": {"right": [1.0]}})
    found = json.loads((tmp_path / "hard.json").read_text())["found"]
    assert found["xor3"]["accuracy"] == [0.1] and found["zip"]["right"] == [1.0]
    assert found["xor4"]["accuracy"] == [0.3]
    assert all(
        cell["machine"] == machine.describe() | {"load_average": cell["machine"]["load_average"]}
        for cell in found.values()
    )
