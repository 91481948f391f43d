"""Tables about numbers asked beforehand, made from stored lines."""

import json

import pytest

from bench import machine, numbers_asked, numbers_tables


@pytest.fixture
def results(tmp_path, monkeypatch):
    for module in (machine, numbers_tables):
        monkeypatch.setattr(module, "RESULTS", tmp_path)
    return tmp_path / "numbers_asked.json"


def line(kind, shape, users, **changed):
    found = {"kind": kind, "shape": shape, "users": users, "epsilon": 1.0, "share": 0.2}
    found |= {"intervals": 20, "withheld": 0, "cover": 0.95, "below": 0, "above": 1, "runs": 20}
    return found | {"low": 0.02, "high": 0.1, "keeps": 0.9} | changed


def test_lines_that_are_measured_again_take_the_place_of_those_before(results):
    numbers_asked.save([line("sum", "refunds: t2", 2400, cover=0.5), line("sum", "meps", 0)])
    numbers_asked.save([line("sum", "refunds: t2", 2400, cover=1.0)])
    kept = json.loads(results.read_text())["lines"]
    assert [(row["shape"], row["cover"]) for row in kept] == [("meps", 0.95), ("refunds: t2", 1.0)]


def test_tables_say_what_is_met_and_what_was_not_measured(results):
    rows = [
        line("sum", "uniform", 24_000, least=0.07),
        line("sum", "half zero", 24_000, least=0.13, high=0.2, inside=12) | {"cover inside": 1.0},
        line("sum capped", "uniform", 2400, bound=0.01),
    ]
    numbers_asked.save(rows)
    assert "| uniform | .070, -.020 +.100: met | not measured |" in numbers_tables.reached()
    assert "**.130**, -.020 +.200: impossible" in numbers_tables.reached()
    assert "| half zero | not measured | 95 (0/1) [12: 100], -.02 +.2 |" in numbers_tables.by_shape(
        "sum", 1.0
    )
    assert "| uniform | .010 | .100 | 0.90 | 95.0 | 20 |" in numbers_tables.capped()
