"""Plans agree with the runs they describe, and touch no data."""

import math

import pyarrow as pa
import pytest

import fastdp
from fastdp.domain import Domain
from fastdp.errors import UsageError
from fastdp.public.archetypes.store import HEAD, is_folder
from fastdp.run.plan import public_table
from tests.run.test_synthesize import RECIPE, go, small_data, small_schema


def test_the_taxi_plan_has_the_published_figures():
    made = fastdp.plan(None, "taxi-adagrid", 1.0, 2.5e-5, public=True)
    assert made.measurements == 66
    assert made.clip == 150
    assert made.model_cells == 2_453_724
    single = next(line for line in made.lines if line.clique == ("shift",))
    assert abs(single.sigma - 4290.2421) < 1e-3
    assert abs(single.detectable - 3 * single.sigma) < 1e-9
    pair = next(line for line in made.lines if line.times == 8)
    assert math.isclose(pair.sigma, single.sigma / math.sqrt(8))
    high = fastdp.plan(None, "taxi-adagrid", 10.0, 2.5e-5, public=True)
    assert abs(next(line for line in high.lines if line.times == 1).sigma - 784.1204) < 1e-3


@pytest.mark.parametrize("mechanism", [RECIPE, {"mechanism": "mst", "clip": 5}])
def test_a_plan_promises_the_noise_the_run_has(mechanism):
    schema = small_schema()
    made = fastdp.plan(schema, mechanism, 5.0, 1e-6, rows=3000)
    run = go(small_data(), schema=schema, mechanism=mechanism)
    for line in made.lines:
        if len(line.clique) == 1 and line.times == 1:
            answer = next(m for m in run.measurements if m.clique == line.clique)
            assert math.isclose(float(min(answer.variances) ** 0.5), line.sigma, rel_tol=1e-9)
    assert sum(share for _, share in made.charges) < 1
    assert made.to_dict()["measurements"] == made.measurements


def test_pairs_of_a_tree_are_different_ones_and_their_noise_is_not_averaged():
    schema = small_schema()
    made = fastdp.plan(schema, {"mechanism": "mst", "clip": 5}, 5.0, 1e-6, rows=3000)
    run = go(small_data(), schema=schema, mechanism={"mechanism": "mst", "clip": 5})
    (line,) = [line for line in made.lines if line.note == "pairs"]
    pairs = [r for r in run.privacy["parts"][0]["releases"] if r["label"] == "pairs"]
    assert len(pairs) == line.times == 2
    precision = sum(r["sigma"] ** -2 for r in pairs)  # divided by size, so the plan's is that of the mean
    assert math.isclose(precision, 2 * line.sigma**-2, rel_tol=1e-9)


def test_a_model_that_is_too_large_is_said_beforehand():
    schema = fastdp.Schema.from_domain({f"c{i}": 60 for i in range(6)})
    names = list(schema.domain)
    made = fastdp.plan(schema, {"mechanism": "adagrid", "outer": [names]}, 1.0, 1e-9)
    assert "cells" in made.too_large


@pytest.mark.parametrize(
    "options", [{"epsilon": 0.0}, {"delta": 1.0}, {"mechanism": "adagrid", "schema": None}]
)
def test_plans_refuse_what_runs_refuse(options):
    arguments = {"schema": small_schema(), "mechanism": RECIPE, "epsilon": 1.0, "delta": 1e-6} | options
    with pytest.raises(UsageError):
        fastdp.plan(**arguments)


@pytest.mark.parametrize("rows", [0, 1000, 10**7, 10**9])
@pytest.mark.parametrize("threads", [1, 8])
def test_memory_is_that_of_the_larger_phase(rows, threads):
    """Data: codes and user numbers. After it: six tables of the model, a block of rows with ids, and what the
    threads decode. The stated figure covers each of both and is less than their sum."""
    sizes = {"a": 256, "b": 257, "c": 65_537}
    schema = fastdp.Schema.from_domain(Domain(sizes), user="who")
    made = fastdp.plan(schema, {"mechanism": "mst", "clip": 5}, 1.0, 1e-6, rows=rows, threads=threads)
    data = rows * (1 + 2 + 4 + 4)
    after = 48 * made.model_cells + min(rows, 2**24) * (1 + 2 + 4 + 16) + threads * 3 * 12 * 2**20
    spare = 150_000_000
    assert max(data, after) + spare - 1 <= made.memory_bytes <= max(data, after) + spare + 1
    more = fastdp.plan(schema, {"mechanism": "mst", "clip": 5}, 1.0, 1e-6, rows=2 * rows + 1, threads=threads)
    assert more.seconds > made.seconds > 0.5 and more.memory_bytes >= made.memory_bytes


def test_a_saved_model_stands_for_public_rows_in_a_plan(tmp_path):
    """It is not read: only that there is one."""
    schema = fastdp.Schema.from_domain({"a": 2}, user="who")
    assert not is_folder(tmp_path)
    (tmp_path / HEAD).write_text("{}")
    assert public_table(tmp_path, schema, "archetypes") is public_table(str(tmp_path), schema, "mst") is True
    table = public_table(pa.table({"a": [0, 1, 1], "who": [1, 2, 3]}), schema, "mst", 1)
    assert table.public and table.rows == 3


@pytest.mark.parametrize("bound", [1, 2, 5, 8, 13, 100, 3000])
def test_a_plan_shows_some_of_the_clips_a_run_may_choose(bound):
    """All of a few; else about seven evenly from the list, and always the bound."""
    from fastdp.privacy.clip import candidates

    columns = {n: {"kind": "integer", "dtype": "int8", "min": 0, "max": 3} for n in "ab"}
    user = {"column": "who", "max_rows": bound}
    schema = fastdp.Schema.from_dict({"fastdp": 1, "name": "t", "columns": columns, "user": user})
    plan = fastdp.plan(schema, {"mechanism": "mst", "clip": "private"}, 1.0, 1e-6)
    shown, grid = [option.clip for option in plan.clip_options], candidates(bound)
    assert set(shown) <= set(grid) and shown[-1] == bound and shown == sorted(shown)
    assert shown == list(grid) if len(grid) < 14 else 7 <= len(shown) <= 15
