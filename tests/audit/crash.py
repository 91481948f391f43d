"""A driver of its own process that kills children at every point of a run, and lets 16 of them race
for one budget.

Run as `python -m tests.audit.crash kill|race FOLDER`; prints JSON. Children are forked before any
thread exists, so that each is a process that dies by a real SIGKILL; nothing in it gets a chance to
clean up.
"""

import json
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from fastdp.errors import BudgetError
from fastdp.privacy import gdp
from fastdp.privacy.accountant import Gaussian
from fastdp.privacy.ledger import Ledger
from fastdp.privacy.unit import Unit
from fastdp.release import reserve
from fastdp.release.gateway import Request

from .world import SCHEMA, Swap, table

ROW = Unit("row")
DATA = (
    [np.array([0, 1, 2, 0]), np.array([3, 0, 1, 2]), np.array([0, 1, 0, 1])],
    np.array([5, 5, 6, 7]),
)


class Killer:
    """Counts the points of a run, and dies at one of them."""

    def __init__(self, at=None):
        self.at = at
        self.points = []

    def __call__(self, point):
        self.points.append(point)
        if self.at is not None and len(self.points) > self.at:
            os.kill(os.getpid(), signal.SIGKILL)


def one_run(folder, trace, data=DATA):
    """Two steps and an end, against a ledger on disk; what each step returned is shown to the world
    at once."""
    reserved = reserve.reserve(
        SCHEMA,
        [reserve.BudgetRequest(epsilon=1.0, delta=1e-5, clip=2)],
        ledger=Ledger(folder / "budget.db", _trace=trace),
        dataset="trips",
        run="the run",
        _trace=trace,
    )
    (session,) = reserved.sessions(Swap(table(*data)))
    for number, clique in enumerate([("a",), ("a", "b")]):
        (answer,) = session.measure([Request(clique, session.mu * 0.7)], f"step {number}")
        with open(folder / "seen.jsonl", "a") as stream:
            stream.write(json.dumps([number, answer.values.tolist()]) + "\n")
            stream.flush()
            os.fsync(stream.fileno())
    trace("released")
    reserved.finish()


def in_child(work):
    """Run in a forked child; its wait status."""
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1]
    try:
        work()
        os._exit(0)
    except BaseException as error:
        print(f"child: {type(error).__name__}: {error}", file=sys.stderr)
        os._exit(1)


def kill(folder):
    """Kill at the first point, at the crosscheck, ...; then resume, and tell what the ledger and
    the world saw."""
    out = []
    at = 0
    while True:
        place = folder / f"at-{at}"
        place.mkdir()
        Ledger(place / "budget.db").open("trips", epsilon=1.0, delta=1e-5)
        died = in_child(lambda place=place, at=at: one_run(place, Killer(at)))
        ledger = Ledger(place / "budget.db")
        between = ledger.spent("trips")["mu"]
        finished = bool(ledger.entries()) and ledger.entries()[0]["finished"]
        resumed = None if finished else in_child(lambda place=place: one_run(place, Killer()))
        seen = [json.loads(line) for line in (place / "seen.jsonl").read_text().splitlines()]
        facts = {
            "at": at,
            "died": os.WIFSIGNALED(died),
            "resumed": resumed,
            "between": between,
            "spent": ledger.spent("trips")["mu"],
            "entries": ledger.entries("trips"),
        }
        out.append({**facts, "seen": seen, "verified": ledger.verify()["seq"]})
        if not os.WIFSIGNALED(died):
            return out
        at += 1


def race(folder, processes=16):
    """All at once, each wants a tenth of the budget's mu^2 five times; at most ten can have it."""
    path = folder / "race.db"
    Ledger(path).open("trips", epsilon=1.0, delta=1e-5)
    mu = gdp.mu_from(1.0, 1e-5)
    want = mu * (0.1 * (1 - 1e-12)) ** 0.5
    start = time.monotonic() + 1.0

    def compete(me):
        ledger = Ledger(path, timeout=120)
        time.sleep(max(0.0, start - time.monotonic()))
        for i in range(5):
            try:
                run = ledger.reserve("trips", f"{me}.{i}", [Gaussian(want)], unit=ROW)
                run.enter(0, 0, "q", "s", [Gaussian(want)], draws=1)
                run.store(0, 0, [np.array([me])])
            except BudgetError:
                pass

    children = []
    for me in range(processes):
        child = os.fork()
        if not child:
            try:
                compete(me)
                os._exit(0)
            except BaseException as error:
                print(f"child: {type(error).__name__}: {error}", file=sys.stderr)
                os._exit(1)
        children.append(child)
    codes = [os.waitpid(c, 0)[1] for c in children]
    ledger = Ledger(path)
    ledger.verify()
    return {
        "codes": codes,
        "runs": len(ledger.entries()),
        "mu": ledger.spent("trips")["mu"],
        "budget": mu,
    }


if __name__ == "__main__":
    what = sys.argv[1]
    place = Path(sys.argv[2])
    # A first run in this process: what every child would import, hash and tabulate.
    with tempfile.TemporaryDirectory(dir=place) as first:
        Ledger(Path(first) / "budget.db").open("trips", epsilon=30.0, delta=1e-5, keys=1e-6)
        one_run(Path(first), Killer())
    print(json.dumps({"kill": kill, "race": race}[what](place)))
