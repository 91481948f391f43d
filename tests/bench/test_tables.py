"""bench.tables keeps what other runs measured, and its peers get a budget that is what it says."""

import json
import math

from bench import labels, tables, tables_mbi


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


def test_no_label_covers_a_point_or_another_label():
    """Points that are close together, at the right edge, and one above the other."""
    panel = (0.0, 0.0, 250.0, 210.0)
    points = [(20.0, 100.0), (60.0, 101.0), (240.0, 30.0), (130.0, 150.0), (130.0, 158.0), (135.0, 100.0)]
    texts = ["fastdp mst", "fastdp cliquetree", "mbi AIM", "fastdp aim", "dpmm MST", "mbi MST"]
    boxes = labels.beside(points, texts, panel, [(0.0, 0.0, 200.0, 40.0)])
    r = labels.RADIUS
    for i, box in enumerate(boxes):
        others = [*boxes[:i], (0.0, 0.0, 200.0, 40.0), *((x - r, y - r, x + r, y + r) for x, y in points)]
        assert not any(labels.overlap(box, other) for other in others)
        assert 0 <= box[0] and box[2] <= 250 and 0 <= box[1] and box[3] <= 210
        assert abs((box[1] + box[3]) / 2 - points[i][1]) <= 3 * labels.LINE
