"""`python -m bench` knows every benchmark, and each takes the arguments given there; `make demo` runs in
small, README's table is what the results give, and peers get a budget that is what it says."""

import math
from pathlib import Path

from bench import demo, readme, tables_mbi
from bench.__main__ import BENCHES, QUOTED

ROOT = Path(__file__).parents[2]
HELPERS = {
    "__main__", "__init__", "machine", "demo", "digests", "history", "readme", "structure", "tables_mbi",
    "tables_peers",
}  # fmt: skip


def test_every_benchmark_is_listed_and_takes_its_options():
    runnable = {
        p.stem for p in (ROOT / "bench").glob("*.py") if 'if __name__ == "__main__"' in p.read_text("utf-8")
    }
    assert runnable - HELPERS == set(BENCHES)
    made = {row()[3].split()[0] for row in readme.ROWS}
    assert made <= set(QUOTED) <= set(BENCHES) and {"tables", "fits"} <= set(QUOTED)
    for name, bench in BENCHES.items():
        text = (ROOT / "bench" / f"{name}.py").read_text("utf-8")
        for arguments in (*bench.small, *bench.full):
            for word in arguments:
                if word.startswith("--"):
                    assert f'"{word}"' in text, f"bench.{name} has no {word}"


def test_the_demo_in_small(tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "CHICAGO", tmp_path / "absent")
    demo.main(5_000, tmp_path / "out")
    assert (tmp_path / "out/taxi/privacy.json").is_file()
    assert (tmp_path / "out/taxi.private/report.html").is_file()


def test_readme_and_plot_are_what_the_results_give():
    readme.main(["--check"])


def test_rho_of_the_peers_meets_epsilon_and_delta():
    """Of rho-zCDP, delta at epsilon is at most the least over alpha of the conversion; a little more rho
    breaks it."""

    def delta_of(rho, epsilon):
        alphas = (1.01 + 0.01 * i for i in range(20_000))
        return min(math.exp((a - 1) * (a * rho - epsilon) + a * math.log1p(-1 / a)) / (a - 1) for a in alphas)

    for epsilon, delta in ((1.0, 1e-9), (0.1, 1e-5)):
        rho = tables_mbi.rho_of(epsilon, delta)
        assert delta_of(rho, epsilon) <= delta * (1 + 1e-3)
        assert delta_of(1.02 * rho, epsilon) > delta
