"""Whole runs on a small table: output, folder, resume, cancellation, streams, several epsilons,
several at once."""

import itertools
import json
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastdp
from fastdp.errors import BudgetError, Cancelled, LedgerError, RunError, UsageError
from fastdp.privacy import ledger as ledgers
from fastdp.run import folder as folders, output
from tests.builders import killed_at, open_ledger, schema_with_users

SIZES = {"a": 4, "b": 3, "c": 2}
RECIPE = {"mechanism": "adagrid", "outer": [["a", "b"], ["a", "c"]], "clip": 5, "threshold": 3.0}
RELEASED = {
    "synthetic.parquet",
    "privacy.json",
    "model.fastdp",
    "schema.json",
    "measurements.pq",
    "measurements.json",
}


def small_schema():
    return schema_with_users(SIZES, max_rows=5)


def small_data(rows=3000, seed=0):
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 4, rows)
    return pa.table(
        {
            "u": rng.permutation(np.arange(rows) // 4),
            "a": a,
            "b": (a + (rng.random(rows) < 0.2)) % 3,
            "c": (rng.random(rows) < 0.3).astype(int),
        }
    )


@pytest.fixture(scope="module")
def schema():
    return small_schema()


@pytest.fixture(scope="module")
def table(schema):
    return fastdp.read(small_data(), schema)


def go(table, **options):
    arguments = {"mechanism": RECIPE, "epsilon": 5.0, "delta": 1e-6, "sample_seed": 1} | options
    return fastdp.synthesize(table, **arguments)


def test_seeds_fix_what_they_say(table):
    one, two = go(table, seed=3), go(table, seed=3)
    assert one.privacy["private"] is False
    assert one.data.equals(two.data)
    other = go(table, seed=3, sample_seed=2)
    assert [m.values.tolist() for m in other.measurements] == [
        m.values.tolist() for m in one.measurements
    ]
    assert not other.data.equals(one.data)


def test_a_table_without_rows_runs_like_any_other(schema):
    empty = fastdp.read(small_data(0), schema)
    run = go(empty, seed=0)
    assert run.data.num_rows < 1000
    assert set(run.data.column_names) == {"u", *SIZES}


def test_public_files_give_ids_for_free_and_are_named_without_their_folders(table, tmp_path):
    pq.write_table(small_data(seed=9), tmp_path / "last-year.parquet")
    run = go(table, public=str(tmp_path / "last-year.parquet"), seed=1)
    assert all("rows per user" != r["label"] for r in run.privacy["parts"][0]["releases"])
    assert np.unique(run.data["u"].to_numpy(), return_counts=True)[1].max() <= 5
    assert [p["name"] for p in run.privacy["public_data"]] == ["last-year.parquet"]
    assert str(tmp_path) not in json.dumps(run.privacy)
    assert "u" not in go(table, mechanism=RECIPE | {"ids": {"source": "none"}}).data.column_names
    with pytest.raises(UsageError, match="public"):
        go(table, mechanism=RECIPE | {"ids": {"source": "public"}})


def test_the_folder_holds_what_may_be_released_verifies_and_keeps_the_rest_private(table, tmp_path):
    run = go(table, out=tmp_path / "run")
    assert {p.name for p in (tmp_path / "run").iterdir()} == RELEASED
    assert {p.name for p in tmp_path.iterdir()} == {"run", "run.private"}
    assert fastdp.verify(tmp_path / "run").ok
    assert run.data.num_rows == pq.read_metadata(tmp_path / "run" / "synthetic.parquet").num_rows
    timings = json.loads((tmp_path / "run.private" / "timings.json").read_text())
    assert "fit" in timings["seconds"]["eps-5"]
    assert not (tmp_path / "run.private" / "state.json").exists()
    again = fastdp.load_run(tmp_path / "run")
    assert again.privacy["epsilon"] == run.privacy["epsilon"]
    assert np.allclose(again.model.marginal(("a",)), run.model.marginal(("a",)))
    private = tmp_path / "run.private"
    # The owner's alone.
    assert all(p.stat().st_mode & 0o077 == 0 for p in (private, *private.rglob("*.db*")))


def test_folders_that_exist_or_hold_nothing_are_refused_before_anything_is_read(tmp_path, table):
    (tmp_path / "run").mkdir()
    with pytest.raises(RunError, match="exists"):
        go(Unreadable(), schema=small_schema(), out=tmp_path / "run")
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="cannot write"):
        go(Unreadable(), schema=small_schema(), out=tmp_path / "file" / "run")
    with pytest.raises(RunError, match="no run to resume"):
        go(table, out=tmp_path / "none", resume=True)
    assert not list(tmp_path.glob("none*"))
    (tmp_path / "run" / "privacy.json").write_text("{}")
    with pytest.raises(RunError, match="is complete, so there is nothing to resume"):
        go(
            Unreadable(), schema=small_schema(), out=tmp_path / "run", resume=True
        )  # killed after its last step


class Unreadable:
    """A source that fails the test when somebody reads it."""

    def __arrow_c_stream__(self, requested_schema=None):
        raise AssertionError("data was read")


def test_an_exhausted_budget_is_refused_before_data_is_read(table, schema, tmp_path):
    ledger = open_ledger(tmp_path, epsilon=6.0, delta=1e-6)
    go(table, ledger=ledger, dataset="d", out=tmp_path / "one")
    spent = ledger.spent("d")["epsilon"]
    with pytest.raises(BudgetError):
        go(Unreadable(), schema=schema, ledger=ledger, dataset="d", out=tmp_path / "two")
    assert not (tmp_path / "two.private").exists()
    assert ledger.spent("d")["epsilon"] == spent
    with pytest.raises(LedgerError):
        go(Unreadable(), schema=schema, ledger=ledger, dataset="other")


def test_a_run_that_died_after_measuring_resumes_with_the_same_noise(table, tmp_path, monkeypatch):
    import fastdp.estimate.estimator

    seen = []
    real = fastdp.estimate.estimator.fit

    def dies(domain, measurements, **options):
        seen.append([m.values.copy() for m in measurements])
        if len(seen) == 1:
            raise KeyboardInterrupt
        return real(domain, measurements, **options)

    monkeypatch.setattr(fastdp.estimate.estimator, "fit", dies)
    with pytest.raises(KeyboardInterrupt):
        go(table, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    assert [p.name for p in tmp_path.iterdir()] == ["run.private"]
    with pytest.raises(RunError, match="resume"):
        go(table, out=tmp_path / "run")
    public = small_data(300, 9)
    other = RECIPE | {"threshold": 2.0}
    changes = {
        "epsilon": 6.0,
        "delta": 2e-6,
        "rows": 9,
        "public": public,
        "sample_seed": 2,
        "seed": 1,
    }
    for name, value in (*changes.items(), ("mechanism", "mst"), ("mechanism", other)):
        with pytest.raises(
            RunError, match=f"{name} differs" if name in changes else "fields differs"
        ):
            go(table, **{name: value}, out=tmp_path / "run", resume=True)
    go(table, out=tmp_path / "run", resume=True)
    assert len(seen) == 2
    assert all((a == b).all() for a, b in zip(*seen, strict=True))
    assert fastdp.verify(tmp_path / "run").ok
    assert not list(tmp_path.glob("*.tmp-*"))


def test_a_run_that_died_after_publishing_only_ends_its_reservation(table, tmp_path):
    ledger = open_ledger(tmp_path, epsilon=6.0, delta=1e-6)
    with killed_at("fastdp.release.reserve.Reserved.finish"):
        go(table, out=tmp_path / "run", ledger=ledger, dataset="d")
    assert fastdp.verify(tmp_path / "run").ok
    assert not ledger.entries("d")[0]["finished"]
    run = go(table, out=tmp_path / "run", ledger=ledger, dataset="d", resume=True)
    assert run.data.num_rows > 0
    assert ledger.entries("d")[0]["finished"]
    assert not (tmp_path / "run.private" / "state.json").exists(), "there is nothing left to resume"


def test_cancel_leaves_nothing_half_written(table, tmp_path):
    with pytest.raises(Cancelled):
        go(table, cancel=lambda: True, out=tmp_path / "run")
    assert not list(tmp_path.iterdir())
    stop = threading.Event()

    def progress(p):
        if p.stage in ("sample", "write"):
            stop.set()

    with pytest.raises(Cancelled):
        go(table, cancel=stop, progress=progress, out=tmp_path / "run")
    assert [p.name for p in tmp_path.iterdir()] == ["run.private"]
    go(table, out=tmp_path / "run", resume=True)
    assert fastdp.verify(tmp_path / "run").ok


@pytest.mark.parametrize("mechanism", ["mst", "cliquetree", "adagrid", "private domains"])
def test_a_cancelled_run_is_charged_nothing_more(mechanism, table, monkeypatch):
    """Before every step that a ledger enters, whichever mechanism asks, `cancel` is asked."""
    events = []
    enter = ledgers.Reservation.enter

    def entered(*arguments, **facts):
        events.append("step")
        return enter(*arguments, **facts)

    monkeypatch.setattr(ledgers.Reservation, "enter", entered)
    options = {"cancel": lambda: events.append("check")}
    if mechanism == "private domains":
        columns = {
            n: {"kind": k, "domain": "private"} for n, k in (("x", "numeric"), ("kind", "string"))
        }
        columns["x"] |= {"atoms": "private", "means": "private"}
        kinds = pa.table({"x": np.arange(600) / 4, "kind": ["a", "b", "c"] * 200})
        fastdp.synthesize(
            kinds, "mst", 9.0, 1e-6, schema=fastdp.Schema.from_dict({"columns": columns}), **options
        )
    else:
        go(table, mechanism=mechanism, **options)
    before = [a for a, b in itertools.pairwise(events) if b == "step"]
    assert len(before) > 2 and set(before) == {"check"}


def test_two_processes_cannot_share_a_folder(table, tmp_path):
    go_on = threading.Event()
    inside = threading.Event()

    def slow(p):
        inside.set()
        go_on.wait(20)

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(go, table, out=tmp_path / "run", progress=slow)
        assert inside.wait(20)
        with pytest.raises(RunError, match=r"another process|unfinished run"):
            folders.RunFolder(tmp_path / "run", resume=True).open()
        go_on.set()
        first.result()
    assert fastdp.verify(tmp_path / "run").ok


def test_several_epsilons_are_one_reservation_and_one_joint_statement(table, tmp_path):
    ledger = open_ledger(tmp_path, epsilon=12.0, delta=1e-6)
    low, high = go(table, epsilon=[1.0, 10.0], out=tmp_path / "both", ledger=ledger, dataset="d")
    assert {p.name for p in (tmp_path / "both").iterdir()} == {"eps-1", "eps-10", "privacy.json"}
    assert {p.name for p in (tmp_path / "both" / "eps-1").iterdir()} == RELEASED
    assert 10 < low.privacy["epsilon"] == high.privacy["epsilon"] < 10.5
    assert (low.privacy["part"], high.privacy["part"]) == (0, 1)
    assert len(ledger.entries("d")) == 1
    for place in ("both", "both/eps-1", "both/eps-10"):
        assert fastdp.verify(tmp_path / place).ok
    assert np.mean(np.square(low.measurements[1].sigma)) > np.mean(
        np.square(high.measurements[1].sigma)
    )


def test_arrow_streams_in_and_out(schema):
    reader = small_data().to_reader(max_chunksize=100)
    run = go(reader, schema=schema, seed=2)
    stream = pa.RecordBatchReader.from_stream(run)
    assert (
        stream.read_all().to_pydict() == run.data.to_pydict() == run.reader().read_all().to_pydict()
    )


def test_several_runs_in_one_process_at_once(table, tmp_path):
    alone = [go(table, seed=i).data for i in range(3)]
    with ThreadPoolExecutor(3) as pool:
        together = list(pool.map(lambda i: go(table, seed=i, out=tmp_path / str(i)), range(3)))
    for a, b in zip(alone, together):
        assert b.data.equals(a.combine_chunks()) or b.data.to_pydict() == a.to_pydict()


def test_shards_and_one_file_hold_the_same_rows(table, tmp_path, monkeypatch):
    from fastdp.mechanisms.shared.model_rows import ModelRows

    monkeypatch.setattr(ModelRows, "shard_rows", 500)
    one = go(table, seed=4, rows=1900, out=tmp_path / "one")
    monkeypatch.setattr(output, "ONE_FILE_SHARDS", 1)
    many = go(table, seed=4, rows=1900, out=tmp_path / "many")
    assert len(list((tmp_path / "many" / "synthetic").iterdir())) == 4
    assert many.data.to_pydict() == one.data.to_pydict()
    assert fastdp.verify(tmp_path / "many").ok
    monkeypatch.setattr(output, "BLOCK_SHARDS", 2)
    blocks = go(table, seed=4, rows=1900, out=tmp_path / "blocks").data
    first = blocks["u"].to_numpy()[:1000]
    second = blocks["u"].to_numpy()[1000:]
    assert not set(first) & set(second)
    assert np.unique(blocks["u"].to_numpy(), return_counts=True)[1].max() <= 5


def test_progress_tells_stages_in_order_and_never_goes_back(table, tmp_path):
    seen = []
    go(table, progress=seen.append, out=tmp_path / "run")
    order = list(dict.fromkeys(p.stage for p in seen))
    assert order == ["read", "measure", "fit", "sample", "ids", "write"]
    assert all(0 <= p.fraction <= 1 for p in seen)
    assert seen[-1].fraction == pytest.approx(1.0)
    assert seen[0].seconds_left is None
    several = []
    go(table, epsilon=[1.0, 4.0], progress=several.append, out=tmp_path / "both")
    fractions = [p.fraction for p in several]
    assert fractions == sorted(fractions) and fractions[-1] == pytest.approx(1.0)
    assert {p.run for p in several} == {"", "eps-1", "eps-4"}
