"""Attacks on what is released, and on runs: statements that lie, seeds that hide, arguments that
slip, ledgers that are moved."""

import copy
import gc
import json
import os
import resource
import shutil
import signal
import sys
import types

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastdp
from fastdp.errors import FastdpError, LedgerError, RunError
from fastdp.model import array_file
from fastdp.privacy import recompute, statement
from fastdp.privacy.ledger import Ledger
from fastdp.release import reserve
from fastdp.release.gateway import Request
from fastdp.run.folder import RunFolder
from fastdp.run.verify import inspect
from fastdp.schema import Schema
from fastdp.tables.table import Table
from fastdp.userkeys import Groups

from ..builders import open_ledger, schema_with_users
from ..run.test_synthesize import RELEASED
from .world import SCHEMA, SIZES, Swap, table

RECIPE = {"mechanism": "mst"}
KNOWN = Schema.from_dict(
    {
        "name": "s",
        "columns": {n: {"kind": "integer", "min": 0, "max": k - 1} for n, k in SIZES.items()},
        "user": {"column": "who", "max_rows": 5},
    }
)


def content(seed=1, rows=200):
    rng = np.random.default_rng(seed)
    return table([rng.integers(0, n, rows) for n in SIZES.values()], np.arange(rows) % 13)


def frame(seed=1, rows=300):
    rng = np.random.default_rng(seed)
    return pa.table(
        {"who": np.arange(rows) // 3, **{n: rng.integers(0, k, rows) for n, k in SIZES.items()}}
    )


@pytest.fixture(scope="module")
def honest():
    reserved = reserve.reserve(SCHEMA, [reserve.BudgetRequest(epsilon=1.0, delta=1e-5, clip=3)])
    (session,) = reserved.sessions(Swap(content()))
    session.measure([Request(("a",), session.mu * 0.5)], "a")
    session.user_histogram(Groups(("a",), t_max=2), cap=2, mu=session.mu * 0.5, label="groups")
    session.user_histogram(Groups(("a",), t_max=2), cap=2, epsilon=0.05, label="pure")
    session.select_l1(
        [("b",), ("c",)], {("b",): np.zeros(4), ("c",): np.zeros(2)}, epsilon=0.1, label="pick"
    )
    return reserved.statement()


FORGERIES = {
    "an unknown kind without sensitivity": lambda p, r: r[0].update(
        kind="other", sensitivity=0, sigma=1e-9
    ),
    "less noise of a marginal": lambda p, r: r[0].update(sigma=0.9 * r[0]["sigma"]),
    "less noise of users": lambda p, r: r[1].update(sigma=0.9 * r[1]["sigma"]),
    "less noise of users, pure": lambda p, r: r[2].update(sigma=0.9 * r[2]["sigma"]),
    "one release more": lambda p, r: r.append(r[0]),
    "users without a cap": lambda p, r: r[1].update(cap=0, sensitivity=0, sigma=1e-9),
    "a cap that does not count": lambda p, r: r[1].update(sensitivity=0.1),
    "a fraction of a user": lambda p, r: r[1].update(cap=0.5, sensitivity=0.5**0.5, sigma=10),
    "a selection charged as noise": lambda p, r: r[3].update(event={"law": "gaussian", "mu": 1e-9}),
    "a selection charged as pure": lambda p, r: r[3].update(event={"law": "pure", "epsilon": 1e-9}),
    "no sensitivity of a score": lambda p, r: r[3].update(sensitivity=0),
    "a marginal charged as pure": lambda p, r: r[0].update(event={"law": "pure", "epsilon": 1e-9}),
    "laplace noise charged as a selection": lambda p, r: r[2].update(
        event={"law": "bounded-range", "epsilon": 0.05}
    ),
    "another clip": lambda p, r: (
        p.update(clip=1),
        r[0].update(sensitivity=1, sigma=r[0]["sigma"] / 3),
    ),
    "half a row": lambda p, r: p.update(clip=0.5),
    "a smaller epsilon of the part": lambda p, r: p.update(epsilon=0.1),
    "less spent": lambda p, r: p["spent"].update(mu=0.001),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_forged_releases_are_seen(honest, name):
    assert recompute.problems(honest) == []
    forged = copy.deepcopy(honest)
    part = forged["parts"][0]
    FORGERIES[name](part, part["releases"])
    assert recompute.problems(forged)


def test_rows_that_are_users_cannot_claim_a_clip(honest):
    forged = copy.deepcopy(honest)
    forged["unit"]["kind"] = "row"
    assert any("clip" in p for p in recompute.problems(forged))


def test_the_statement_says_that_rows_without_an_id_are_users():
    own = schema_with_users(SIZES, "who", max_rows=5, null="own")
    ask = reserve.BudgetRequest(epsilon=1.0, delta=1e-5)
    reserved = reserve.reserve(own, [ask])
    reserved.sessions(fastdp.engines.local.local(fastdp.read(frame(), own)))
    assert "row without an id" in reserved.statement()["unit"]["adjacency"]


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """A run of two epsilons with a known seed."""
    out = tmp_path_factory.mktemp("runs") / "both"
    fastdp.synthesize(
        frame(), RECIPE, [1.0, 4.0], 1e-6, schema=KNOWN, seed=1, sample_seed=1, out=out
    )
    return out


def test_every_file_of_a_seeded_run_says_that_it_is_not_private(both):
    for part in ("eps-1", "eps-4"):
        for name in ("synthetic.parquet", "measurements.pq"):
            assert pq.read_schema(both / part / name).metadata[b"fastdp.private"] == b"false"
        assert json.loads((both / part / "measurements.json").read_text())["private"] is False
        assert array_file.load(both / part / "model.fastdp")[1]["private"] is False
        assert fastdp.Model.load(both / part / "model.fastdp").private is False
        assert json.loads((both / part / "privacy.json").read_text())["private"] is False
    assert not inspect(both).private
    run = fastdp.synthesize(frame(), RECIPE, 1.0, 1e-6, schema=KNOWN, seed=1)
    assert run.data.schema.metadata[b"fastdp.private"] == b"false"
    run = fastdp.synthesize(frame(), RECIPE, 1.0, 1e-6, schema=KNOWN, sample_seed=1)
    assert b"fastdp.private" not in (run.data.schema.metadata or {}) and run.model.private


def test_a_parts_statement_cannot_promise_something_else(both, tmp_path):
    folder = shutil.copytree(both, tmp_path / "both")
    assert inspect(folder).ok
    path = folder / "eps-1" / "privacy.json"
    alone = json.loads(path.read_text())
    alone["parts"] = alone["parts"][:1]
    alone["bound"]["clip"] = alone["bound"]["clip"][:1]
    alone["epsilon"], alone["mu"] = alone["parts"][0]["epsilon"], alone["parts"][0]["event"]["mu"]
    path.write_text(json.dumps(alone))
    assert recompute.problems(alone) == []
    joint = json.loads((folder / "privacy.json").read_text())
    joint["files"]["eps-1/privacy.json"] = statement.file_hash(path)
    (folder / "privacy.json").write_text(json.dumps(joint))
    assert any("joint" in p for p in inspect(folder).problems)


def test_the_lock_of_a_run_that_has_just_ended_is_not_taken(tmp_path):
    """The file is gone: whoever comes next would lock another one of the same name, and two would
    be in."""
    first = RunFolder(tmp_path / "run")
    first.open()
    first.settle_arguments({}, {"run": "x"})
    second = RunFolder(tmp_path / "run", resume=True)
    real = os.open

    def slow(path, flags, *more, **options):
        descriptor = real(path, flags, *more, **options)
        if str(path).endswith("lock"):
            first.close()
        return descriptor

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "open", slow)
        with pytest.raises(RunError, match="has just used"):
            second.open()
    third = RunFolder(tmp_path / "run", resume=True)
    third.open()
    third.close()


def test_a_resumed_run_with_other_rows_spends_nothing_more_and_keeps_its_answers(tmp_path):
    """The first answers are the stored ones; what is drawn from the new rows is charged under the
    same reservation."""
    ledger = open_ledger(tmp_path, epsilon=10.0, delta=1e-5)
    ask = reserve.BudgetRequest(epsilon=10.0, delta=1e-5, clip=3)

    def again(rows):
        return reserve.reserve(SCHEMA, [ask], ledger=ledger, run="r", plan="p").sessions(
            Swap(content(rows))
        )[0]

    session = again(1)
    first = session.measure([Request(("a",), session.mu * 0.6)], "first")
    session = again(2)
    stored = session.measure([Request(("a",), session.mu * 0.6)], "first")
    assert (stored[0].values == first[0].values).all()
    session.measure([Request(("b",), session.mu * 0.6)], "second")
    with pytest.raises(FastdpError):
        session.measure([Request(("b",), session.mu * 0.6)], "third")
    assert ledger.spent("d")["epsilon"] <= 10.0 and len(ledger.entries("d")) == 1
    for change in ({"epsilon": 9.0}, {"clip": 4}):
        other = reserve.BudgetRequest(**{"epsilon": 10.0, "delta": 1e-5, "clip": 3} | change)
        with pytest.raises(LedgerError, match="other settings"):
            reserve.reserve(SCHEMA, [other], ledger=ledger, run="r", plan="p")
    with pytest.raises(LedgerError, match="other settings"):
        reserve.reserve(SCHEMA, [ask], ledger=ledger, run="r", plan="other public data")


def test_a_ledger_by_another_name_fails_closed(tmp_path):
    """By a link its head and lock would be others; none are there, so nothing can be spent that
    way."""
    ledger = open_ledger(tmp_path, epsilon=1.0, delta=1e-5)
    for make, name in ((os.symlink, "soft.db"), (os.link, "hard.db")):
        make(tmp_path / "b.db", tmp_path / name)
        with pytest.raises(LedgerError, match="head"):
            Ledger(tmp_path / name).spent("d")
    assert ledger.spent("d")["events"] == 0


def test_nothing_of_the_truth_is_in_the_folder_of_a_run_with_a_report(tmp_path):
    out = tmp_path / "run"
    fastdp.synthesize(frame(), RECIPE, 1.0, 1e-6, schema=KNOWN, out=out, report=True)
    assert (tmp_path / "run.private" / "report.html").exists()
    assert {p.name for p in out.iterdir()} == RELEASED | {"codes.released.pq"}
    assert inspect(out).ok


def test_files_of_runs_on_neighbours_have_the_same_names_and_columns(tmp_path):
    """Odd rows of one user, or no rows at all: nothing but numbers may differ."""
    odd = pa.table(
        {"who": pa.array([None, 7, 7]), "a": [99, -1, 0], "b": [0, 0, 10**12], "c": [0, 1, 0]}
    )
    seen = set()
    for i, rows in enumerate(
        ([frame()], [frame(), odd.cast(frame().schema)], [frame().slice(0, 0)])
    ):
        out = tmp_path / f"run{i}"
        fastdp.synthesize(rows, RECIPE, 1.0, 1e-6, schema=KNOWN, rows=50, out=out)
        names = sorted(p.name for p in out.iterdir())
        statement = json.loads((out / "privacy.json").read_text())
        shape = [(r["label"], r["kind"], r["law"]) for r in statement["parts"][0]["releases"]]
        seen.add(
            json.dumps(
                [names, pq.read_schema(out / "synthetic.parquet").names, shape, statement["notes"]]
            )
        )
    assert len(seen) == 1


def test_more_rows_than_sums_hold_are_refused():
    with pytest.raises(FastdpError, match="rows"):
        Table(SCHEMA, {}, rows=1 << 42)


def test_the_times_of_released_files_tell_no_timings(both):
    times = {p.stat().st_mtime for p in [both, *both.rglob("*")]}
    assert len(times) == 1


@pytest.mark.parametrize(
    "recipe", [RECIPE, {"mechanism": "adagrid", "outer": [["a", "b"], ["b", "c"]]}]
)
def test_no_way_leads_from_a_finished_run_back_to_the_rows(recipe):
    """Everything that a run in memory refers to, however deep, is free of tables, engines, sessions
    and ledgers."""
    from fastdp.engines.local import LocalCounter
    from fastdp.release.gateway import Session

    run = fastdp.synthesize(fastdp.read(frame(), KNOWN), recipe, 1.0, 1e-6)
    assert run.data.num_rows >= 0
    seen = {}
    stack = [run]
    while stack:
        thing = stack.pop()
        if id(thing) in seen or isinstance(thing, type | types.ModuleType):
            continue
        seen[id(thing)] = thing
        assert not isinstance(thing, Table | LocalCounter | Session | Ledger), type(thing)
        referents = [x for x in gc.get_referents(thing) if x is not sys.modules]
        if isinstance(thing, types.FunctionType):
            referents = [x for x in referents if x is not thing.__globals__]
        stack += referents
    assert len(seen) > 100


def test_a_full_disk_stops_a_run_before_it_counts_and_leaves_the_ledger_whole(tmp_path):
    """Files may not grow any more: the step cannot be written, so nothing is counted, and nothing
    is charged twice."""
    ledger = open_ledger(tmp_path, epsilon=10.0, delta=1e-5)
    ask = reserve.BudgetRequest(epsilon=1.0, delta=1e-5, clip=3)
    reserved = reserve.reserve(SCHEMA, [ask], ledger=ledger, run="r")
    (session,) = reserved.sessions(Swap(content()))
    before = ledger.verify()
    counted = []
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (512, limit[1]))
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Swap, "marginals", lambda *_, **__: counted.append(1))
            with pytest.raises(LedgerError):
                session.measure([Request(("a",), 0.01)], "x")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, handler)
    assert not counted and ledger.verify() == before
    session.measure([Request(("a",), 0.01)], "x")
    assert ledger.verify()["seq"] == before["seq"] + 2


def test_a_statement_cannot_claim_less_than_the_ledger_charged(tmp_path):
    """A whole statement of a smaller epsilon, true in itself, under the reference of a run that
    cost more."""
    ledger = open_ledger(tmp_path, epsilon=20.0, delta=1e-5)
    statements = []
    for epsilon in (1.0, 10.0):
        ask = reserve.BudgetRequest(epsilon=epsilon, delta=1e-5, clip=3)
        reserved = reserve.reserve(SCHEMA, [ask], ledger=ledger)
        (session,) = reserved.sessions(Swap(content()))
        session.measure([Request(("a",), session.mu)], "a")
        statements.append(reserved.statement())
        reserved.finish()
        ledger.verify(statements[-1])
    small, large = statements
    forged = copy.deepcopy(small) | {"ledger": large["ledger"]}
    assert recompute.problems(forged) == []
    with pytest.raises(LedgerError, match="different charge"):
        ledger.verify(forged)
    hidden = copy.deepcopy(large)
    hidden["parts"][0]["releases"] = []
    with pytest.raises(LedgerError, match="different charge"):
        ledger.verify(hidden)
