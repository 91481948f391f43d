"""Seeded runs of every mechanism measure what they measured, with the noise they had, and their models and
rows are those of outcomes.json: a change of any share, threshold or choice shows here.

After a change that is meant: `python -m tests.mechanisms.outcomes`, and CHANGELOG.md says what changed.
"""

import json

import pytest

from bench.digests import RUNS

from .outcomes import FILE, outcome

WANTED = json.loads(FILE.read_text())


def test_every_run_has_its_figures():
    assert list(WANTED) == list(RUNS)


@pytest.mark.parametrize("name", WANTED)
def test_a_seeded_run_does_what_it_did(name):
    wanted, got = WANTED[name], outcome(RUNS[name]())
    for (clique, cells, *noise, answers), (c, n, *sigmas, sums) in zip(
        wanted["measured"], got["measured"], strict=True
    ):
        assert (clique, cells) == (c, n)
        assert sigmas == pytest.approx(noise, rel=1e-4), clique
        assert sums == pytest.approx(answers, rel=1e-2), clique
    assert set(wanted["model"]) == set(got["model"])
    if wanted["model"]:
        assert got["model"]["total"] == pytest.approx(wanted["model"]["total"], rel=1e-4)
        assert got["model"]["loss"] == pytest.approx(wanted["model"]["loss"], rel=1e-2)
        for (clique, cells, squares), (c, n, others) in zip(
            wanted["model"]["nodes"], got["model"]["nodes"], strict=True
        ):
            assert (clique, cells) == (c, n)
            assert others == pytest.approx(squares, rel=2e-3), clique
    assert got["number"] == pytest.approx(wanted["number"], rel=1e-3)
    for column, (values, squares) in wanted["rows"].items():
        n, others = got["rows"][column]
        assert n == pytest.approx(values, rel=0.02, abs=2), column
        assert others == pytest.approx(squares, rel=0.01), column
