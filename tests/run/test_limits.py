"""Sizes are known before anything is charged; limits may change on resume; refused runs leave
nothing."""

import math
from itertools import combinations

import numpy as np
import pytest
from scipy.cluster.hierarchy import DisjointSet

import fastdp
from fastdp._util.threads import resolve
from fastdp.domain import Domain
from fastdp.errors import ModelTooLargeError, RunError, UsageError
from fastdp.mechanisms.limits.model_size import largest_forest
from fastdp.run import plan_size
from tests.builders import killed_at, open_ledger
from tests.run.test_synthesize import RECIPE, Unreadable, go, small_data, small_schema
from tests.tiers import first

WIDE = {f"c{i}": n for i, n in enumerate((20, 18, 17, 16, 15, 17, 18, 16))}


@pytest.fixture
def ledger(tmp_path):
    return open_ledger(tmp_path, epsilon=20.0, delta=1e-6)


def refused(ledger, tmp_path, error, **options):
    """The run is refused before anything is read or reserved, and leaves no trace but its error."""
    before = {p.name for p in tmp_path.iterdir()}
    with pytest.raises(error) as caught:
        go(
            options.pop("table", Unreadable()),
            ledger=ledger,
            dataset="d",
            out=tmp_path / "run",
            **options,
        )
    assert ledger.entries() == []
    assert {p.name for p in tmp_path.iterdir()} == before
    return str(caught.value)


def test_an_outer_marginal_of_7e9_cells_is_refused_before_anything_is_built(ledger, tmp_path):
    schema = fastdp.Schema.from_domain(WIDE)
    assert math.prod(WIDE.values()) > 7e9
    recipe = {"mechanism": "adagrid", "outer": [list(WIDE)]}
    text = refused(ledger, tmp_path, ModelTooLargeError, schema=schema, mechanism=recipe)
    assert f"{math.prod(WIDE.values()):,} cells" in text
    made = fastdp.plan(schema, recipe, 1.0, 1e-9, rows=10_000_000)
    assert made.too_large == text
    assert made.model_cells == math.prod(WIDE.values())
    assert made.memory_bytes > 8 * made.model_cells and made.seconds > 60


@pytest.mark.parametrize(
    "mechanism",
    [
        {"mechanism": "adagrid", "clip": 5, "max_cells": 17},
        {"mechanism": "mst", "clip": 5, "max_cells": 17},
        {"mechanism": "tworound", "clip": 5, "max_cells": 8},
        {"mechanism": "usercounts", "cells": "full", "repeats": [1], "max_cells": 23},
    ],
)
def test_the_largest_model_that_may_be_chosen_is_bounded_beforehand(ledger, tmp_path, mechanism):
    text = refused(ledger, tmp_path, ModelTooLargeError, schema=small_schema(), mechanism=mechanism)
    assert "max_cells" in text
    assert fastdp.plan(small_schema(), mechanism, 5.0, 1e-6, rows=10_000_000).too_large == text
    more = mechanism | {"max_cells": mechanism["max_cells"] + 7}
    assert go(small_data(), schema=small_schema(), mechanism=more).data.num_rows >= 0


def test_no_forest_of_pairs_is_larger_than_the_bound():
    rng = np.random.default_rng(3)
    for _ in range(20):
        domain = Domain({f"a{i}": int(n) for i, n in enumerate(rng.integers(2, 9, 5))})
        limit = int(rng.integers(10, 50))
        pairs = [p for p in combinations(domain, 2) if domain.cells(p) <= limit]
        most = 0
        for k in range(len(domain)):
            for chosen in combinations(pairs, k):
                sets = DisjointSet(domain)
                if all(sets.merge(a, b) for a, b in chosen):  # a forest
                    alone = [a for a in domain if not any(a in p for p in chosen)]
                    most = max(most, sum(map(domain.cells, chosen)) + sum(domain[a] for a in alone))
        assert most <= largest_forest(domain, limit).cells


WRITING = "fastdp.run.output.Output.write"


def test_a_resumed_run_may_have_other_threads_and_another_max_cells(ledger, tmp_path):
    options = {"table": small_data(), "schema": small_schema(), "ledger": ledger, "dataset": "d"}
    options["out"] = tmp_path / "run"
    with killed_at(WRITING):
        go(**options, threads=1, max_cells=1000)
    run = go(**options, threads=2, max_cells=2000, resume=True)
    assert run.privacy["mechanism"]["limits"] == {"max_cells": 2000}
    assert fastdp.verify(tmp_path / "run", ledger).ok


def test_a_max_cells_that_decided_a_charged_step_cannot_change(ledger, tmp_path):
    recipe = {"mechanism": "tworound", "clip": 5, "round2": [["a", "b"], ["a", "c"]]}
    options = {"schema": small_schema(), "ledger": ledger, "dataset": "d", "mechanism": recipe}
    options["out"] = tmp_path / "run"
    with killed_at(WRITING):
        go(small_data(), **options, max_cells=1000)
    with pytest.raises(RunError, match="round 2"):
        go(Unreadable(), **options, max_cells=15, resume=True)
    assert go(small_data(), **options, max_cells=1000, resume=True).data.num_rows > 0


def test_a_recipe_given_by_path_is_released_with_its_name_alone(tmp_path):
    place = tmp_path / "secret-client"
    place.mkdir()
    small_schema().save(place / "people.toml")
    (place / "mine.toml").write_text(
        'mechanism = "adagrid"\nschema = "people.toml"\nouter = [["a", "b"]]\nclip = 5\n'
    )
    run = go(small_data(), mechanism=place / "mine.toml", out=tmp_path / "run")
    assert run.privacy["mechanism"]["recipe"] == "mine.toml"
    for path in (tmp_path / "run").rglob("*"):
        if path.is_file():
            assert b"secret-client" not in path.read_bytes(), path


def test_memory_limits_every_mechanism_beforehand(ledger, tmp_path):
    schema = fastdp.Schema.from_domain({"a": 900, "b": 900, "c": 2})
    recipe = {"mechanism": "adagrid", "outer": [["a", "b"]]}
    text = refused(
        ledger, tmp_path, ModelTooLargeError, schema=schema, mechanism=recipe, memory=1 << 26
    )
    assert "memory=" in text
    assert fastdp.plan(schema, recipe, 1.0, 1e-6, memory=1 << 26, rows=10_000_000).too_large == text
    assert not fastdp.plan(schema, recipe, 1.0, 1e-6, memory=1 << 28, rows=10_000_000).too_large
    with pytest.raises(UsageError, match="16 MiB"):
        fastdp.plan(schema, recipe, 1.0, 1e-6, memory=5, rows=10_000_000)


@pytest.mark.parametrize("mechanism", [RECIPE, {"mechanism": "mst", "clip": 5}])
def test_a_plan_promises_the_noise_the_run_has(mechanism):
    schema = small_schema()
    made = fastdp.plan(schema, mechanism, 5.0, 1e-6, rows=3000)
    run = go(small_data(), schema=schema, mechanism=mechanism)
    for line in made.lines:
        assert line.detectable == pytest.approx(3 * line.sigma)
        if len(line.clique) == 1 and line.times == 1:
            answer = next(m for m in run.measurements if m.clique == line.clique)
            assert math.isclose(float(min(answer.variances) ** 0.5), line.sigma, rel_tol=1e-9)
    assert sum(share for _, share in made.charges) < 1
    assert made.to_dict()["measurements"] == made.measurements


@pytest.mark.parametrize(
    "mechanism", ["mst", {"mechanism": "adagrid", "outer": [["a", "b"], ["c"]]}]
)
@pytest.mark.parametrize(("rows", "threads"), first(1, [(10**6, 2), (10**6, 1), (5 * 10**8, 2)]))
def test_a_plan_adds_up_the_work_and_takes_the_larger_phase_s_memory(mechanism, rows, threads):
    """Every row is read, counted, drawn and written, every cell fitted; codes have 1, 2 and 4
    bytes. Of MST, all pairs are looked at. Threads share the work but for a tenth."""
    schema = fastdp.Schema.from_domain({"a": 4, "b": 300, "c": 70_000})
    made = fastdp.plan(schema, mechanism, 1.0, 1e-6, rows=rows, threads=threads)
    pairs, counted = (3, len(made.lines) + 3) if mechanism == "mst" else (0, len(made.cliques))
    work = rows * (
        plan_size.READ_ROW
        + plan_size.WRITE_ROW
        + plan_size.DRAW_ROW
        + counted * plan_size.COUNT_ROW
    )
    work += pairs * plan_size.PAIR + plan_size.FIT_CALLS * made.model_cells * plan_size.FIT_CELL
    workers = resolve(threads)
    assert made.seconds == pytest.approx(work / max(1, 0.9 * workers) + 0.5)
    drawn = min(64 * rows, workers * 2**20)
    after = 48 * made.model_cells + min(rows, 2**24) * (7 + 16) + drawn * 12 * 3
    before = rows * (7 + 4) + (16 * 2**24 if pairs else 0)
    assert made.memory_bytes == pytest.approx(max(before, after) + 150e6)


@pytest.mark.parametrize(
    ("rows", "threads", "times", "pool"),
    [
        (10**5, 1, 5, 5e5),
        (10**6, 2, 3, 3e6),
        (10**7, 1, 3, 3 * 625_000),
        (10**7, 2, 3, 2 * 3 * 625_000),
    ],
)
def test_a_plan_counts_the_pools_from_which_users_are_chosen(rows, threads, times, pool):
    """Of ten million rows, a block has one of sixteen shards, and its pool three times as many rows. Each
    thread has a block; all rows take time."""
    schema = fastdp.Schema.from_domain({"a": 4, "b": 300}, user="id")
    recipe = {"mechanism": "cliquetree", "ids": {"source": "private"}}
    asked = {"schema": schema, "epsilon": 1.0, "delta": 1e-6, "rows": rows, "threads": threads}
    plain = fastdp.plan(mechanism=recipe, **asked)
    recipe = {"mechanism": "cliquetree", "ids": {"source": "auto"}}
    made = fastdp.plan(mechanism=recipe, **asked)
    workers = max(1.0, 0.9 * resolve(threads))
    more = times * rows * plan_size.POOL_ROW / workers
    assert made.memory_bytes - 150e6 >= pool * plan_size.POOL_BYTES
    assert made.seconds - plain.seconds == pytest.approx(more)
