"""Plans agree with the runs they describe, and touch no data."""

import math

import pytest

import fastdp
from fastdp.errors import UsageError
from tests.run.test_synthesize import RECIPE, go, small_data, small_schema


def test_the_taxi_plan_has_the_published_figures():
    made = fastdp.plan(None, "taxi-adagrid", 1.0, 2.5e-5, public=True, rows=10_000_000)
    assert made.measurements == 66
    assert made.clip == 150
    assert made.model_cells == 2_453_724
    single = next(line for line in made.lines if line.clique == ("shift",))
    assert abs(single.sigma - 4290.2421) < 1e-3
    assert abs(single.detectable - 3 * single.sigma) < 1e-9
    pair = next(line for line in made.lines if line.times == 8)
    assert math.isclose(pair.sigma, single.sigma / math.sqrt(8))
    high = fastdp.plan(None, "taxi-adagrid", 10.0, 2.5e-5, public=True, rows=10_000_000)
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


@pytest.mark.parametrize(
    "options", [{"epsilon": 0.0}, {"delta": 1.0}, {"mechanism": "adagrid", "schema": None}]
)
def test_plans_refuse_what_runs_refuse(options):
    arguments = {"schema": small_schema(), "mechanism": RECIPE, "epsilon": 1.0, "delta": 1e-6} | options
    with pytest.raises(UsageError):
        fastdp.plan(**arguments)
