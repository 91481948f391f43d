"""Runs that choose their clip from a noisy histogram: end to end, from the command line, killed and
resumed, planned."""

import json
import math

import jsonschema
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastdp
from fastdp.division import HISTOGRAM
from fastdp.mechanisms.base import Ids
from fastdp.privacy import clip as clip_rules, statement
from fastdp.run.verify import inspect, verify
from fastdp.schema import Schema
from fastdp.simulate import taxi
from tests.tiers import first

OUTER = [["pickup_community_area", "shift"], ["fare", "trip_total"], ["payment_type", "tips"]]
ADAGRID = {"mechanism": "adagrid", "outer": OUTER, "clip": "private"}
MST = {"mechanism": "mst", "clip": "private"}
DELTA = 2.5e-5
SHARE = max(Ids().share, HISTOGRAM)
"""Ids and clip share one histogram, and the larger share pays."""


@pytest.fixture(scope="module")
def schema():
    return Schema.load("taxi-deid2")


@pytest.fixture(scope="module")
def trips():
    return taxi(20_000, seed=3)


@pytest.fixture(scope="module")
def table(trips, schema):
    return fastdp.read(trips, schema)


def part_of(run, i=0):
    return run.privacy["parts"][i]


@pytest.mark.parametrize(
    "mechanism",
    first(
        2,
        [
            ADAGRID,
            MST,
            {"mechanism": "tworound", "clip": "private"},
            {"mechanism": "adagrid", "clip": "private"},
        ],
    ),
)
def test_end_to_end_on_simulated_taxis(table, mechanism, tmp_path):
    run = fastdp.synthesize(
        table, mechanism, 5.0, DELTA, out=tmp_path / "run", seed=1, sample_seed=1
    )
    part = part_of(run)
    assert 1 <= part["clip"] < 200
    choice = part["clip_choice"]
    again = clip_rules.from_release(choice["users"], choice["noise"], 200, choice["sigma"])
    assert again.clip == part["clip"]
    # measured once, first, and released as it is
    histograms = [r for r in part["releases"] if r["kind"] == "user_histogram"]
    assert histograms == [part["releases"][0]]
    assert histograms[0]["event"]["mu"] == pytest.approx(part["event"]["mu"] * math.sqrt(SHARE))
    assert run.measurements[0].values.tolist() == part["clip_choice"]["users"]
    # noise of everything else follows the clip that was chosen
    ways = [r for r in part["releases"] if r["kind"] == "marginal"]
    assert ways and all(r["sensitivity"] == part["clip"] for r in ways)
    assert all(r["sigma"] == pytest.approx(part["clip"] / r["event"]["mu"]) for r in ways)
    assert part["spent"]["mu"] == pytest.approx(part["event"]["mu"], rel=1e-6)
    # the rows that the clip leaves out are put back, and dealt to users within the bound
    made = run.data
    assert abs(made.num_rows - 20_000) < 3_000
    assert run.model.total < 17_000
    assert np.unique(made["taxi_id"].to_numpy(), return_counts=True)[1].max() <= 200
    jsonschema.validate(
        json.loads((tmp_path / "run" / "privacy.json").read_text()), statement.load_schema()
    )
    assert verify(tmp_path / "run").ok


def test_verify_compares_the_histogram_with_the_measurements(table, tmp_path):
    out = tmp_path / "run"
    fastdp.synthesize(table, MST, 5.0, DELTA, out=out)
    document = json.loads((out / "privacy.json").read_text())
    values = pq.read_table(out / "measurements.pq")
    changed = values["value"].to_numpy().copy()
    changed[0] += 1
    pq.write_table(
        values.set_column(values.column_names.index("value"), "value", pa.array(changed)),
        out / "measurements.pq",
    )
    statement.write(out, document)
    assert [p for p in inspect(out).problems if "different histogram" in p]
    (out / "measurements.json").write_text("{}")
    statement.write(out, document)
    assert [p for p in inspect(out).problems if "cannot be checked" in p]


def test_a_clip_may_be_chosen_at_some_epsilons_only(table):
    mechanism = {**MST, "clip": [{"up_to": 1, "value": "private"}, {"value": 150}]}
    low, high = fastdp.synthesize(table, mechanism, [1.0, 5.0], DELTA)
    parts = low.privacy["parts"]
    assert "clip_choice" in parts[0] and "clip_choice" not in parts[1]
    assert parts[1]["clip"] == 150 and high.privacy["bound"]["clip"] == [parts[0]["clip"], 150]


@pytest.mark.parametrize(
    ("ids", "clip", "expected"), [(0.1, 0.01, 0.1), (0.01, 0.05, 0.05), (0.1, None, 0.1)]
)
def test_ids_and_clip_share_one_histogram_and_the_larger_share_pays(table, ids, clip, expected):
    mechanism = MST | {"ids": {"share": ids}} | ({} if clip is None else {"clip_share": clip})
    part = part_of(fastdp.synthesize(table, mechanism, 5.0, DELTA))
    assert [r["kind"] for r in part["releases"]].count("user_histogram") == 1
    assert part["releases"][0]["event"]["mu"] == pytest.approx(
        part["event"]["mu"] * math.sqrt(expected)
    )
    charges = dict(fastdp.plan("taxi-deid2", mechanism, 5.0, DELTA, rows=10_000_000).charges)
    assert charges["rows per user"] == expected
