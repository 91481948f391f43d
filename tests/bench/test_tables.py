"""bench.tables keeps what other runs measured, and its peers get a budget that is what it says."""

import json
import math

from bench import tables, tables_mbi


def line(table, epsilon, who, two):
    runs = [(two, 2 * two, 1.0, 1.0)]
    return {"table": table, "epsilon": epsilon, "who": who, "runs": runs, "failed": None} | dict(
        zip(("two", "three", "seconds", "processor"), runs[0])
    )


def test_lines_of_other_runs_stay_and_the_same_ones_are_replaced(tmp_path):
    tables.keep([line("adult", 1.0, "mst", 0.4), line("factors", 1.0, "mst", 0.3)], tmp_path)
    tables.keep([line("adult", 1.0, "mbi AIM", 0.2), line("adult", 1.0, "mst", 0.1)], tmp_path)
    kept = json.loads((tmp_path / "tables.json").read_text())["lines"]
    assert [(k["table"], k["who"], k["two"]) for k in kept] == [
        ("adult", "mst", 0.1),
        ("adult", "mbi AIM", 0.2),
        ("factors", "mst", 0.3),
    ]
    assert "mbi AIM" in (tmp_path / "tables.svg").read_text()


def test_nothing_is_written_where_nothing_is_kept(tmp_path):
    tables.keep([], tmp_path)
    tables.keep([line("adult", 1.0, "mst", 0.4)], None)
    assert not list(tmp_path.iterdir())


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
