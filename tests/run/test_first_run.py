"""The first run of somebody with a table of their own: no recipe, no clip."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastdp
from fastdp.privacy.clip import MAX_CHOSEN
from tests.builders import schema_with_users
from tests.run.test_synthesize import SIZES, go

SIZE = 40_000


def flights(rows=SIZE, seed=0):
    """Aircraft that fly very differently often, as in the table this was tried on."""
    rng = np.random.default_rng(seed)
    share = rng.lognormal(0, 1.2, rows // 60)
    tail = rng.choice(len(share), rows, p=share / share.sum())
    a = rng.integers(0, 4, rows)
    return pa.table(
        {
            "u": tail,
            "a": a,
            "b": (a + (rng.random(rows) < 0.2)) % 3,
            "c": (rng.random(rows) < 0.3) * 1,
        }
    )


def schema(max_rows):
    return schema_with_users(SIZES, **({} if max_rows is None else {"max_rows": max_rows}))


def test_a_bound_on_the_data_is_not_yet_a_clip(tmp_path):
    """Without a clip one is chosen in the run, charged and stated; the score is far from that of
    the bound."""
    data = flights()
    bounded = schema(600)
    options = {"schema": bounded, "epsilon": 0.5, "delta": 1e-6, "mechanism": "mst", "seed": 5}
    run = go(data, **options, out=tmp_path / "run")
    part = run.privacy["parts"][0]
    assert part["clip_choice"]["bound"] == 600
    assert 1 <= part["clip"] < 600
    assert part["releases"][0]["label"] == "rows per user"
    assert run.privacy["mechanism"]["config"]["clip"] == "private"
    assert fastdp.verify(tmp_path / "run").ok
    fixed = go(data, **options, clip=600)
    assert (
        "clip_choice" not in fixed.privacy["parts"][0] and fixed.privacy["parts"][0]["clip"] == 600
    )
    scores = [
        fastdp.evaluate(data, r.data, schema=bounded, metrics="kmarginal", baselines=())[
            "kmarginal"
        ]["score"]
        for r in (run, fixed)
    ]
    assert scores[0] > scores[1] + 10


def test_without_a_bound_the_clip_is_chosen_up_to_a_stated_constant():
    run = go(flights(8000), schema=schema(None), mechanism="mst", epsilon=4.0, seed=5)
    assert run.privacy["parts"][0]["clip_choice"]["bound"] == MAX_CHOSEN
    assert "u" in run.data.column_names
    made = fastdp.plan(schema(None), "mst", 4.0, 1e-6, rows=10_000_000)
    assert made.clip == MAX_CHOSEN and made.clip_options


def test_a_plan_with_public_data_says_what_each_clip_would_lose():
    """The share of rows beyond the clip, as counted user by user; the suggested clip is the one of
    least error among those listed, and a run that chooses its own lists the same."""
    data = flights(8000)
    bounded = schema(600)
    rows = np.unique(data["u"].to_numpy(), return_counts=True)[1]
    given = {"rows": 8000, "public": fastdp.read(data, bounded, public=True)}
    fixed = fastdp.plan(bounded, "mst", 1.0, 1e-6, clip=50, **given)
    assert fixed.clip_bias == 1 - np.minimum(rows, 50).sum() / 8000 > 0 and not fixed.clip_options
    chosen = fastdp.plan(bounded, "mst", 1.0, 1e-6, clip="private", **given)
    lost = [1 - np.minimum(rows, option.clip).sum() / 8000 for option in chosen.clip_options]
    assert lost == pytest.approx([option.lost for option in chosen.clip_options])
    best = min(chosen.clip_options, key=lambda option: option.error)
    assert best.clip == chosen.clip_suggested and 1 < best.clip < 600


def test_evaluate_takes_a_run_and_its_folder_and_uses_the_runs_schema(tmp_path):
    """Whatever names a run is scored under its schema, in Python as on the command line; the id is
    no column."""
    data = flights(4000)
    bounded = schema(600)
    pq.write_table(data, tmp_path / "flights.parquet")
    bounded.save(tmp_path / "flights.toml")
    kept = go(data, schema=tmp_path / "flights.toml", mechanism="mst", out=tmp_path / "run", seed=5)
    asked = {"metrics": "kmarginal", "baselines": ()}
    wanted = fastdp.evaluate(data, kept.data, schema=bounded, **asked)
    assert set(wanted["columns"]) == set(SIZES)
    truth = tmp_path / "flights.parquet"
    for run in (kept, fastdp.load_run(tmp_path / "run"), tmp_path / "run", str(tmp_path / "run")):
        scores = fastdp.evaluate(truth, run, **asked)
        assert scores["kmarginal"] == wanted["kmarginal"] and scores["columns"] == wanted["columns"]
    memory = go(data, schema=bounded, mechanism="mst", seed=5)
    assert fastdp.evaluate(truth, memory, **asked)["kmarginal"] == wanted["kmarginal"]
    both = fastdp.evaluate(truth, {"one": kept, "two": memory}, **asked)
    assert both["one"]["kmarginal"] == both["two"]["kmarginal"] == wanted["kmarginal"]
    paths = fastdp.evaluate(
        truth, tmp_path / "run" / "synthetic.parquet", tmp_path / "flights.toml", **asked
    )
    assert paths["kmarginal"] == wanted["kmarginal"]
