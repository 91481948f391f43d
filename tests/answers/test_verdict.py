"""Verdicts: what drowns by construction is named, what stands out is not."""

import math

import numpy as np
import pyarrow as pa
import pytest

import fastdp
from fastdp.answers.facts import Facts
from fastdp.answers.losses import losses
from fastdp.answers.verdict import expected, found
from fastdp.measurement import Measurement
from fastdp.privacy.clip import size_edges
from tests.builders import schema_with_users
from tests.cli.test_app import fastdp_cli


def test_before_a_run_columns_drown_by_their_size_and_effects_by_their_noise():
    ones = {"few": (2, 10.0), "many": (1000, 10.0)}
    verdict = expected(ones, [10.0], 1000)
    assert any("many" in line and "few" not in line for line in verdict.lines) and not verdict.warn
    assert any("5.5%" in line for line in verdict.lines), "sqrt(2) * 1.96 * 10 rows of 500"
    assert any("0 of 1 pairs" in line for line in verdict.lines), "half a row in an average cell"
    drowned = expected({"a": (1000, 10.0)}, [9999.0], 1000)
    assert (
        drowned.warn and drowned.lines[-1].startswith("warning") and "not even" in drowned.lines[-2]
    )
    assert expected({}, [], 1000).lines == ()


@pytest.mark.parametrize(("rows", "drowns"), [(100_000, False), (0, True)])
def test_after_a_run_noise_alone_drowns(rows, drowns):
    rng = np.random.default_rng(rows)
    sizes = {a: 40 for a in "abc"}
    ones = [Measurement((a,), rows / 40 + 50 * rng.normal(size=40), 50.0) for a in sizes]
    verdict = found(Facts.of({}, fastdp.Schema.from_domain(sizes), ones, {}, None))
    assert verdict.warn is drowns
    assert any("0 of 3 were measured" in line for line in verdict.lines)
    listed = {"kind": "categorical", "dtype": "string", "values": ["x", "y"], "null": "drop"}
    outside = [
        Measurement(("a",), np.array([9.0, 1.0, 990.0]), 2.0)
    ]  # few rows have a listed value
    lost = found(
        Facts.of({}, fastdp.Schema.from_dict({"columns": {"a": listed}}), outside, {}, None)
    )
    assert lost.warn and any("values lost, 1 of 1 columns" in line for line in lost.lines)
    beyond = {
        "schema": {"found": {"missing": {"a": [0.8, 0.1]}}}
    }  # clamped, so that no code says it
    lost = found(Facts.of(beyond, fastdp.Schema.from_domain({"a": 40}), ones[:1], {}, None))
    assert lost.warn and drowns != any("values lost, 1 of 1 columns" in line for line in lost.lines)


def test_a_plan_says_what_its_budget_can_show():
    schema = fastdp.Schema.from_domain({"a": 2, "b": 500}, user="id")
    ask, facts = ("cliquetree", 1.0, 1e-6), {"rows": 10_000, "public": None}
    plans = [fastdp.plan(schema, *ask, users=u, **facts).verdict for u in (None, 100, 10_000)]
    alone = fastdp.plan(fastdp.Schema.from_domain({"a": 2}), *ask, users=9, **facts)
    assert "the schema has no user column" in alone.notes[-1], "rows would be protected, not people"
    assert (
        "at clip 1," in plans[0][0]
        and "at clip 100" in plans[1][0]
        and "at clip 1," not in plans[1][0]
    )
    assert "b" in plans[1][1] and plans[2] != plans[1]
    small, large = (fastdp.plan(schema, "cliquetree", e, 1e-6, rows=10_000) for e in (0.1, 10.0))
    assert small.verdict != large.verdict and "What this budget can show on 10,000 rows" in str(
        large
    )


def test_a_plan_expects_wide_tables_to_take_longer():
    """Screening looks at every pair of columns; rows are the smaller part of the work of a small
    table."""
    few, many = (fastdp.Schema.from_domain({f"c{i}": 4 for i in range(n)}) for n in (20, 200))
    seconds = [
        fastdp.plan(schema=s, epsilon=1.0, delta=1e-6, rows=3000, threads=1).seconds
        for s in (few, many)
    ]
    assert seconds[1] > 5 * seconds[0]


def test_a_plan_judges_the_clip_of_an_average_user(monkeypatch):
    """At clip C the noise is C times that at clip 1, and if rows per user are geometric with mean
    C, 1 - 1/e of the rows count. The clip is at most the schema's bound, and without a guess of
    users it is 1."""
    judged = []
    watched = lambda *given: judged.append(given) or expected(*given)  # noqa: E731
    monkeypatch.setattr("fastdp.answers.verdict.expected", watched)
    schema = schema_with_users({"a": 2, "b": 50}, max_rows=40)
    for users in (None, 10_000, 3000, 1000, 250, 1):
        fastdp.plan(schema, "cliquetree", 1.0, 1e-6, rows=10_000, users=users, clip="private")
    (first, pairs, *_), *others = judged
    for (ones, wider, *_), clip in zip(others, (1, 3, 10, 40, 40), strict=True):
        for name, (cells, error) in ones.items():
            assert cells == first[name][0]
            assert error == pytest.approx(first[name][1] * clip / (1 - math.exp(-1)))
        assert wider == pytest.approx([error * clip / (1 - math.exp(-1)) for error in pairs])


def test_synth_ends_with_a_verdict_and_a_warning_where_all_is_noise(tmp_path):
    rng = np.random.default_rng(3)
    lines = ["a,b", *(f"{x},{y}" for x, y in rng.integers(0, 50, (300, 2)))]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    fastdp.Schema.from_domain({"a": 50, "b": 50}).save(tmp_path / "t.toml")
    result = fastdp_cli("synth", "t.csv", "-e", "0.1", "--memory", "1G", cwd=tmp_path)
    run = fastdp.load_run(tmp_path / "t.synthetic")
    assert run.privacy["mechanism"]["name"] == "cliquetree" and run.privacy["delta"] == 1e-9
    assert "can show" in result.stdout and "Warning:" in result.stdout


def test_what_was_lost_is_named_with_its_share():
    """A clip of 16 leaves out 480 of 740 rows; 10 % of the rows are `(other)`; two rare values were
    merged; one of three pairs was measured, one is too large, and the model is off by 20 % of the
    rows in another."""
    plain = fastdp.Schema.from_domain({"a": 4, "b": 2, "c": 2}, user="id").to_plain()
    plain["user"] = {"column": "id", "max_rows": 64}
    plain["columns"]["a"] = {"kind": "string", "values": ["x", "y", "z"], "null": "drop"}
    schema = fastdp.Schema.from_dict(plain)
    users = [100.0 if e == 1 else 10.0 if e == 64 else 0.0 for e in size_edges(64)]
    part = {"clip": 16, "clip_choice": {"users": users, "bound": 64, "sigma": 0.01}}
    statement = {"unit": {"kind": "user"}, "parts": [part]}
    statement["mechanism"] = {"name": "cliquetree", "left_out": [["b", "c"]]}
    cells = {("a",): [800.0, 60, 40, 100], ("a", "b"): [400.0, 400, 50, 50, 50, 50]}
    counted = [Measurement(clique, np.array(values), 1.0) for clique, values in cells.items()]
    tables = {
        "codes": pa.table({"column": ["a"] * 4, "code": [0, 1, 2, 3], "compressed": [0, 1, 1, 2]}),
        "distances": pa.table(
            {"columns": [["a", "c"]], "distance": [400.0], "standard_error": [1e-6]}
        ),
    }
    found = losses(Facts.of(statement, schema, counted, tables, None), statement)
    said = {topic: " ".join(text for t, text in found if t == topic) for topic, _ in found}
    assert "65%" in said["rows"] and "missing value in a" in said["rows"]
    assert (
        "a (10.0% of the rows)" in said["values"]
        and "a (2 of 4, 10.0% of the rows)" in said["values"]
    )
    noisy = [Measurement(m.clique, m.values, 90.0) for m in counted]
    told = dict(losses(Facts.of(statement, schema, noisy, tables, None), statement))
    assert "does not list" not in told["values"], (
        "100 rows of (other) do not stand out of noise of 90"
    )
    assert "1 of 3 pairs" in said["pairs"] and "20.0% (a with c)" in said["pairs"]
    assert "b with c" in said["pairs"] and "random" in said["users"]
