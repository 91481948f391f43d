"""Teams of threads: kept between calls, asleep when idle, alive after a fork, and without any say
in the results."""

import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

from fastdp._core.infer import Engine, blend
from fastdp._core.team import Team
from fastdp.domain import Domain
from fastdp.model import layout, schedule
from fastdp.model.junction_tree import junction_tree

from .test_failures import COMPILER, HERE

DOMAIN = Domain({"a": 60, "b": 30, "c": 30, "d": 20})
CLIQUES = [("a", "b", "c"), ("b", "c", "d"), ("a", "d"), ("b",), ("c", "b")]


def planned():
    tree = junction_tree(DOMAIN, CLIQUES)
    return layout.make_plan(DOMAIN, tree, {frozenset(c): None for c in CLIQUES})


PLAN = planned()
THETA = np.random.default_rng(0).normal(size=PLAN.size)


def results(engine):
    """What one inference and one step give, bit by bit."""
    tables = np.empty(PLAN.cells, engine.dtype)
    m = np.empty(PLAN.size)
    log_z = engine.infer(THETA, 1000.0, tables, m)
    z = engine.state(tables)
    out = engine.state()
    engine.adopt(z, 1000.0)
    moved = engine.move(
        z,
        x=tables.copy(),
        weight=0.5,
        delta=0.1 * THETA,
        size=1.0,
        mix=1.0,
        total=1000.0,
        out=out,
        sums=np.zeros((0, 3)),
    )
    engine.normalise(out, 1000.0)
    return log_z, moved, m.tobytes(), out.m.tobytes(), out.cells.tobytes()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_no_bit_depends_on_the_number_of_threads(monkeypatch, dtype):
    """Also where slices and pieces are so small that every loop is shared."""
    whole = results(Engine(PLAN, 1, dtype))
    assert all(results(Engine(PLAN, n, dtype)) == whole for n in (2, 5))
    monkeypatch.setattr(schedule, "SLICE_CELLS", 64)
    monkeypatch.setattr(schedule, "PIECE", 32)
    monkeypatch.setattr(schedule, "LARGE_STAGE", 0)
    plan = planned()
    small = results(Engine(plan, 1, dtype))
    assert all(results(Engine(plan, n, dtype)) == small for n in (2, 5))
    close = 1e-12 if dtype == np.float64 else 1e-5
    for one, other in zip(whole[2:4], small[2:4]):
        assert np.allclose(np.frombuffer(one), np.frombuffer(other), rtol=close, atol=1000 * close)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_team_works_on_both_sides_of_a_fork():
    engine = Engine(PLAN, 3)
    expected = results(engine)
    for _ in range(3):
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            same = all(results(engine) == expected for _ in range(3))
            made = not os.path.isdir("/proc/self/task") or len(os.listdir("/proc/self/task")) == 3
            del engine
            os._exit(0 if same and made else 1)
        assert results(engine) == expected
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0, "the child hung, crashed or went astray"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_while_the_team_is_at_work():
    """Threads of the program share the team, and may be inside a call when the process forks; the
    child's copy starts afresh."""
    team = Team(3)
    x = np.linspace(0, 1, 300_000)
    expected = blend(0.5, x, x, x.copy(), 1)
    stop = threading.Event()
    seen = set()

    def busy():
        while not stop.is_set():
            seen.add(blend(0.5, x, x, x.copy(), team))

    others = [threading.Thread(target=busy) for _ in range(3)]
    for other in others:
        other.start()
    try:
        for _ in range(5):
            child = os.fork()
            if child == 0:
                signal.alarm(60)
                os._exit(0 if blend(0.5, x, x, x.copy(), team) == expected else 1)
            _, status = os.waitpid(child, 0)
            assert os.waitstatus_to_exitcode(status) == 0
    finally:
        stop.set()
        for other in others:
            other.join()
    assert seen == {expected}


KEPT = """
import os, time
from pathlib import Path
import numpy as np
from fastdp._core.infer import blend
from fastdp._core.team import Team

def threads(count):  # waits until there are so many, all others of them asleep: a thread ends after its join
    while True:
        found = sorted(Path("/proc/self/task").iterdir())
        if len(found) == count and sum(") S" in (task / "stat").read_text() for task in found) == count - 1:
            return found
        time.sleep(0.01)

x = np.ones(300_000)
first = [blend(0.5, x, x, x.copy(), 3), threads(3)]
assert [blend(0.5, x, x, x.copy(), 3), threads(3)] == first, "threads are not kept"
one, other = Team(3), Team(3)
blend(0.5, x, x, x.copy(), one), blend(0.5, x, x, x.copy(), other)
threads(5)  # each team has its own
del one, other
threads(3)  # one idle team is kept
child = os.fork()
threads(1)
assert [blend(0.5, x, x, x.copy(), 3), len(threads(3))] == [first[0], 3]
assert child == 0 or os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="needs /proc")
def test_threads_are_kept_for_the_next_team_and_end_before_a_fork():
    """Those of one idle team, asleep. They end before a fork, since Python 3.12 warns of a fork
    with threads, and with the program. Where a number of threads is another than expected, it waits
    for ever."""
    alone = os.environ | {
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }  # no threads of numpy's
    subprocess.run([sys.executable, "-c", KEPT], check=True, timeout=120, env=alone)


@pytest.mark.skipif(COMPILER is None, reason="no C compiler")
def test_a_job_in_steps_waits_for_nobody(tmp_path):
    """Threads that lost their processor must not delay a job: here most members never come, and
    every piece is done once all the same. A team that waits for all its members hangs."""
    program = tmp_path / "steps"
    options = ["-std=gnu11", "-O1", "-pthread", "-I", HERE.parents[1] / "csrc"]
    subprocess.run([COMPILER, *options, "-o", program, HERE / "team_steps.c"], check=True)
    for believed in (2, 3, 16):
        subprocess.run([program, str(believed)], check=True, timeout=120)
