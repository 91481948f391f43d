"""What cannot be drawn or held is refused before the charge: noise beyond the sampler's range, and
amounts of recipes that nobody can mean."""

import math

import numpy as np
import polars as pl
import pytest

import fastdp
from fastdp.errors import FastdpError, PrivacyError, UsageError
from fastdp.measurement import SCALE
from fastdp.privacy import noise, scale
from tests.builders import open_ledger
from tests.tiers import first

SCHEMA = {
    "user": {"column": "u", "max_rows": 5},
    "columns": {"n": {"kind": "integer", "max": 30}, "b": {"kind": "string", "values": ["x", "y"]}},
}
MECHANISMS = ("mst", "cliquetree", "aim", "adagrid", "tworound")


def rows():
    rng = np.random.default_rng(0)
    columns = {"u": rng.integers(0, 300, 600), "n": rng.integers(0, 30, 600)}
    return pl.DataFrame(columns | {"b": rng.choice(["x", "y"], 600)})


def run_or_refuse(folder, mechanism, epsilon, delta=1e-6, **options):
    """The error of a run, None if it ends well; and the steps that it was charged for."""
    ledger = open_ledger(folder, epsilon=max(2, 2 * epsilon), delta=1e-5)
    asked = {
        "schema": fastdp.Schema.from_dict(SCHEMA),
        "ledger": ledger,
        "dataset": "d",
        "ignore_empty_columns": True,
        "progress": False,
    }
    try:
        fastdp.synthesize(rows(), mechanism, epsilon, delta, **asked, **options)
    except FastdpError as error:
        return error, sum(len(entry["steps"]) for entry in ledger.entries())
    return None, 0


@pytest.mark.parametrize("mechanism", first(2, MECHANISMS))
@pytest.mark.parametrize(
    ("clip", "epsilon", "delta"),
    [(10**5, 1.0, 1e-6), (30_000, 0.01, 1e-6), (10**9, 1.0, 1e-6), (2**31 - 1, 1e-7, 1e-20)],
)
def test_large_noise_is_drawn_or_refused_before_the_charge(
    tmp_path, mechanism, clip, epsilon, delta
):
    error, steps = run_or_refuse(tmp_path, mechanism, epsilon, delta, clip=clip)
    assert steps == 0
    assert error is None or isinstance(error, PrivacyError)
    if clip <= 10**5:
        assert error is None  # a noise of 10^7 rows is no reason to refuse
    if clip == 2**31 - 1:
        assert "smaller clip" in str(error)


def test_the_sampler_draws_the_largest_scale_exactly_enough():
    """At the largest scale, 4,000 draws have the stated spread within 6 standard errors, both signs
    and odd and even numbers; none can overflow a count."""
    most = scale.MAX_SCALE
    assert noise.SCALE_MAX == most and scale.MAX_ROWS * SCALE + 128 * most < 2**63
    drawn = noise.gaussian(most, 4000, seed=5)
    spread = math.sqrt(np.mean(np.square(drawn / most)))
    assert abs(spread - 1) < 6 / math.sqrt(2 * 4000)
    for share in (np.mean(drawn > 0), np.mean(drawn % 2 == 0)):
        assert abs(share - 0.5) < 6 * 0.5 / math.sqrt(4000)
    tails = np.abs(noise.laplace(most, 4000, seed=6) / most)
    assert abs(np.mean(tails) - 1) < 6 / math.sqrt(4000)


@pytest.mark.parametrize(
    "recipe",
    [
        {"mechanism": "adagrid", "outer": [["n", "b"]], "copies": [{"clique": ["n"], "times": t}]}
        for t in (10**9, 1001, 2**70)
    ]
    + [
        {"mechanism": "adagrid", "outer": [["n", "b"]], "rounds": [1e-30, 1.0]},
        {"mechanism": "adagrid", "outer": [["n", "b"]], "rounds": [math.inf, 1.0]},
        {"mechanism": "mst", "shares": [1e-300, 1.0, 1.0]},
        {"mechanism": "mst", "rare": math.nan},
        {"mechanism": "tworound", "weights": {"n": 1e300}},
        {"mechanism": "cliquetree", "workload": [{"columns": ["n", "b"], "weight": 1e-200}]},
        {"mechanism": "cliquetree", "ids": {"share": 1e-30}},
        {"mechanism": "aim", "degree": 10**9},
        {"mechanism": "aim", "max_marginal": 2**80},
    ],
    ids=str,
)
def test_amounts_of_recipes_are_bounded(tmp_path, recipe):
    error, steps = run_or_refuse(tmp_path, recipe, 1.0)
    assert isinstance(error, UsageError) and steps == 0


@pytest.mark.slow
def test_a_thousand_copies_are_fine(tmp_path):
    copies = [{"clique": ["n"], "times": 1000}]
    recipe = {"mechanism": "adagrid", "outer": [["n", "b"]], "copies": copies}
    assert run_or_refuse(tmp_path, recipe, 1.0) == (None, 0)
