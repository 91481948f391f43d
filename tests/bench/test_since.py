"""The scoreboard before and after: an error that grew is found, and runs of other mechanisms are left out."""

import json
import math

import pytest

from bench.scoreboard import since


def line(table, pairs, *, mechanism="cliquetree", commit="old", seed=1):
    measures = {"pairs": pairs, "kmarginal": 900.0}
    about = {"table": table, "epsilon": 1.0, "seed": seed, "mechanism": mechanism}
    return json.dumps({**about, "commit": commit, "measures": measures})


def test_an_error_that_grew_is_found():
    """Ten per cent more on both tables; another mechanism's runs and measures of other kinds are none."""
    then, _ = since.errors_of(
        ["{}", line("a", 0.2), line("a", 0.4, seed=2), line("b", 0.05)], "cliquetree"
    )
    made = [
        line("a", 0.33, commit="new"),
        line("b", 0.055, commit="new"),
        line("b", 9.0, mechanism="mst"),
    ]
    now, commits = since.errors_of(["{}", *made], "cliquetree")
    assert commits == {"new"} and then["a", 1.0, "pairs"] == [0.2, 0.4]
    found = since.effects(now, then)
    assert found.keys() == {"pairs"} and found["pairs"]["cells"] == 2
    assert math.isclose(found["pairs"]["mean"], math.log(1.1), rel_tol=0.01)
    assert found["pairs"]["error"] < 0.01


def test_a_commit_that_no_store_has_is_an_error(monkeypatch):
    """A store that mixes commits is none of either."""
    mixed = "\n".join(["{}", line("a", 0.2), line("a", 0.3, commit="new", seed=2)])
    monkeypatch.setattr(since, "git", lambda *words: "abc" if words[0] == "log" else mixed)
    with pytest.raises(ValueError, match="has runs of old alone"):
        since.stored_at("old", since.KEPT / "x-16-cores.jsonl", "cliquetree")
