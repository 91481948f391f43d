"""Verdicts: what drowns by construction is named, what stands out is not."""

import numpy as np
import pytest
from typer.testing import CliRunner

import fastdp
from fastdp.answers.facts import Facts
from fastdp.answers.verdict import expected, found
from fastdp.cli.app import app
from fastdp.measurement import Measurement


def test_before_a_run_columns_drown_by_their_size_and_effects_by_their_noise():
    ones = {"few": (2, 10.0), "many": (1000, 10.0)}
    verdict = expected(ones, [(4, 10.0)], 1000)
    assert any("many" in line and "few" not in line for line in verdict.lines) and not verdict.warn
    assert any("3.9%" in line for line in verdict.lines), "2 * 1.96 * 10 rows of 1,000"
    assert expected({"a": (1000, 10.0)}, [(4, 9999.0)], 1000).warn
    assert expected({}, [], 1000).lines == ()


@pytest.mark.parametrize(("rows", "drowns"), [(100_000, False), (0, True)])
def test_after_a_run_noise_alone_drowns(rows, drowns):
    rng = np.random.default_rng(rows)
    sizes = {a: 40 for a in "abc"}
    ones = [Measurement((a,), rows / 40 + 50 * rng.normal(size=40), 50.0) for a in sizes]
    verdict = found(Facts.of({}, fastdp.Schema.from_domain(sizes), ones, {}, None))
    assert verdict.warn is drowns
    assert any("0 of 3 were measured" in line for line in verdict.lines)


def test_a_plan_says_what_its_budget_can_show():
    schema = fastdp.Schema.from_domain({"a": 2, "b": 500}, user="id")
    plans = [
        fastdp.plan(schema, "cliquetree", 1.0, 1e-6, rows=10_000, users=users).verdict
        for users in (None, 100, 10_000)
    ]
    assert "at clip 1," in plans[0][0] and "at clip 100" in plans[1][0] and "at clip 1," not in plans[1][0]
    assert "b" in plans[1][1] and plans[2] != plans[1]
    small, large = (fastdp.plan(schema, "cliquetree", e, 1e-6, rows=10_000).verdict for e in (0.1, 10.0))
    assert small != large
    text = str(fastdp.plan(schema, "cliquetree", 1.0, 1e-6, rows=10_000))
    assert "What this budget can show on 10,000 rows" in text


def test_synth_ends_with_a_verdict_and_a_warning_where_all_is_noise(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(3)
    lines = ["a,b", *(f"{x},{y}" for x, y in rng.integers(0, 50, (300, 2)))]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    fastdp.Schema.from_domain({"a": 50, "b": 50}).save(tmp_path / "t.toml")
    result = CliRunner().invoke(app, ["synth", "t.csv", "-e", "0.1", "-d", "1e-6"])
    assert result.exit_code == 0, result.output
    assert "can show" in result.stdout and "Warning:" in result.stdout
