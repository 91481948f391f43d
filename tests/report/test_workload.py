"""The section on a workload's sets: distances against a slow twin, what the page says with and without the
truth."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from fastdp.report import page as report
from fastdp.report import workload

from . import pages

ITEMS = [
    {
        "columns": ["shift", "fare"],
        "weight": 1.0,
        "expected_error": 0.0123,
        "distance": 0.031,
        "distance_error": 0.002,
    },
    {
        "columns": ["shift", "pickup_community_area", "fare"],
        "weight": 3.0,
        "expected_error": None,
        "distance": None,
        "distance_error": None,
    },
    {"columns": ["shift", "gone"], "weight": 1.0},
]


def asked(**changes):
    return pages.run(privacy=pages.statement(mechanism={"name": "cliquetree", "workload": ITEMS}), **changes)


@pytest.mark.parametrize("dense", [1, 60, 1 << 26])
def test_distances_are_those_of_counted_cells(dense, monkeypatch):
    monkeypatch.setattr(workload, "DENSE_CELLS", dense)
    rng = np.random.default_rng(0)
    sizes = {"a": 5, "b": 7, "c": 3}
    sides = [{name: rng.integers(0, n, rows) for name, n in sizes.items()} for rows in (400, 150)]
    counts = [Counter(zip(*(side[name].tolist() for name in sizes))) for side in sides]
    cells = set(counts[0]) | set(counts[1])
    expected = sum(abs(counts[0][c] / 400 - counts[1][c] / 150) for c in cells) / 2
    assert workload.distance(*sides, tuple(sizes), sizes) == pytest.approx(expected, abs=1e-12)
    empty = {name: codes[:0] for name, codes in sides[0].items()}
    assert workload.distance(sides[0], empty, tuple(sizes), sizes) == 1.0


def test_the_page_says_how_every_set_fared():
    truth, made = pages.table(), pages.table(seed=1, tilt=1.2)
    data = report.collect(truth, made, None, pages.scores(), asked())
    [items] = data["workload"]
    assert [item["columns"] for item in items] == [ITEMS[1]["columns"], ITEMS[0]["columns"]]  # by weight
    assert all(0 < item["off"] < 1 for item in items)
    html = report.render(data)
    assert 'href="#workload"' in html and "pickup community area" in html
    part = html[html.index('<section id="workload"') :]
    part = part[: part.index("</section>")]
    assert part.count("<circle") == 2 and part.count('class="e"') == 2 and part.count("<rect") == 1
    assert "from smaller sets" in part and "weight 3" in part
    assert "3.1\u202f% ± 0.40\u202f%" in part and "1.2\u202f%" in part


def test_without_the_truth_nothing_of_it_is_on_the_page():
    made = pages.table(seed=1, tilt=1.2)
    data = report.collect(None, made, made.schema, None, asked())
    assert [item["off"] for item in data["workload"][0]] == [None, None]
    part = report.render(data).split('<section id="workload"')[1].split("</section>")[0]
    assert "<circle" not in part and "from smaller sets" in part
