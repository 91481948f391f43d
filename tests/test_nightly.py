"""The nightly script over twelve nights with every accident in it; each branch is taken once.

Nights are small and real: real runs, a real ledger, a real SIGKILL and a real SIGTERM. What is
checked each night is what a scheduler sees (exit code, events) and what the ledger holds.
"""

import contextlib
import importlib.util
import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastdp
from fastdp.errors import LedgerError

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "examples" / "nightly" / "nightly.py"

KILLED = """
import os, signal, sys
sys.path.insert(0, {folder!r})
import nightly
emit = nightly.emit
def emit_or_die(event, **facts):
    emit(event, **facts)
    if facts.get("stage") == "fit":
        os.kill(os.getpid(), signal.SIGKILL)
nightly.emit = emit_or_die
sys.exit(nightly.main(sys.argv[1:]))
"""
"""The script in a process that dies once answers are charged and stored."""

COLUMNS = {"a": 3, "b": 4}


@pytest.fixture
def nightly(monkeypatch):
    spec = importlib.util.spec_from_file_location("nightly", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    before = signal.getsignal(signal.SIGTERM)
    yield module
    signal.signal(signal.SIGTERM, before)


class World:
    """A folder with settings, deliveries and a schema, and the script on it. The budget holds ten
    nights and a bit: nine, and the part that the ninth night's first attempt spends."""

    def __init__(self, place, module):
        self.place = place
        self.module = module
        (place / "deliveries").mkdir()
        text = (SCRIPT.parent / "nightly.toml").read_text()
        text = text.replace('mechanism = "auto"', 'mechanism = "mst"')
        text = text.replace("epsilon = 4.0", "epsilon = 1.36")
        (place / "nightly.toml").write_text(text)
        self.save_schema(COLUMNS)

    def save_schema(self, columns):
        listed = {n: {"kind": "categorical", "values": [*range(k)]} for n, k in columns.items()}
        fastdp.Schema.from_dict({"columns": listed}).save(self.place / "people.toml")

    def deliver(self, date, rows=400, columns=COLUMNS, outside=None):
        rng = np.random.default_rng(int(date[-2:]))
        drawn = {name: rng.integers(0, size, rows) for name, size in columns.items()}
        if outside is not None:
            column, share = outside
            drawn[column][: round(share * rows)] = 99
        pq.write_table(pa.table(drawn), self.place / "deliveries" / f"{date}.parquet")

    def night(self, date, *options):
        """(exit code, events by name) of one call of the script."""
        said = io.StringIO()
        words = [str(self.place / "nightly.toml"), "--date", date, *options]
        with contextlib.redirect_stdout(said):
            try:
                code = self.module.main(words)
            except SystemExit as ended:
                code = ended.code
        return code, events_of(said.getvalue())

    def charged(self):
        """The number of runs that the ledger has charged."""
        entries = fastdp.Ledger(self.place / "state" / "budget.db").entries()
        return len([entry for entry in entries if entry["steps"]])

    def released(self):
        return sorted(file.parent.name for file in self.place.glob("released/*/privacy.json"))


def events_of(text):
    found = {}
    for line in text.splitlines():
        event = json.loads(line)
        found.setdefault(event["event"], []).append(event)
    return found


def test_twelve_nights_with_every_accident(tmp_path, nightly, monkeypatch):
    world = World(tmp_path, nightly)

    # 1: an ordinary night; started twice, it is charged once
    world.deliver("2026-01-01")
    code, events = world.night("2026-01-01")
    stages = [event["stage"] for event in events["progress"]]
    assert code == 0 and stages[0] == "read" and stages[-1] == "write"
    code, events = world.night("2026-01-01")
    assert code == 0 and list(events) == ["already"] and world.charged() == 1

    # 2: killed after its answers were stored; the retry continues and is not charged again
    world.deliver("2026-01-02")
    dying = KILLED.format(folder=str(SCRIPT.parent))
    words = [str(tmp_path / "nightly.toml"), "--date", "2026-01-02"]
    killed = subprocess.run(
        [sys.executable, "-c", dying, *words],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert world.released() == ["2026-01-01"] and world.charged() == 2
    code, events = world.night("2026-01-02")
    assert code == 0 and events["start"][0]["resume"] and world.charged() == 2

    # 3: nothing was delivered
    code, events = world.night("2026-01-03")
    assert code == nightly.NO_DELIVERY and list(events) == ["no-delivery"] and world.charged() == 2

    # 4: an empty month: it is run like any other, since even emptiness is private
    world.deliver("2026-01-04", rows=0)
    code, events = world.night("2026-01-04")
    assert code == 0 and any("mostly noise" in note for note in events["done"][0]["notes"])
    assert world.charged() == 3

    # 5: a new category: the night is released, and the column is named by its noisy share
    world.deliver("2026-01-05", rows=2000, outside=("a", 0.5))
    code, events = world.night("2026-01-05")
    assert code == 0 and [event["column"] for event in events["outside-schema"]] == ["a"]
    assert events["outside-schema"][0]["low"] <= 0.5 and world.charged() == 4

    # 6: a column was renamed: nothing is charged; with a corrected schema the night runs
    world.deliver("2026-01-06", columns={"a": 3, "c": 4})
    code, events = world.night("2026-01-06")
    assert (code, events["failed"][0]["kind"]) == (4, "DataError") and world.charged() == 4
    world.save_schema({"a": 3, "c": 4})
    code, events = world.night("2026-01-06")
    assert code == 0 and events["schema-changed"][0]["since"] == "2026-01-05"
    world.save_schema(COLUMNS)

    # 7: terminated, and the schema changed before the retry: refused until it is put back
    world.deliver("2026-01-07")
    with monkeypatch.context() as patch:
        patch.setattr(nightly, "emit", terminated_at("fit", nightly.emit))
        code, events = world.night("2026-01-07")
    assert code == nightly.STOPPED and "2026-01-07" not in world.released()
    world.save_schema({"a": 3, "b": 5})
    code, events = world.night("2026-01-07")
    assert code == 10 and "schema differs" in events["failed"][0]["text"]
    world.save_schema(COLUMNS)

    # 8: nobody retried: the next night first ends the one before, which costs nothing more
    world.deliver("2026-01-08")
    assert world.charged() == 6
    code, events = world.night("2026-01-08")
    assert code == 0 and [event["resume"] for event in events["start"]] == [True, False]
    assert world.released()[-2:] == ["2026-01-07", "2026-01-08"] and world.charged() == 7

    # 9: a column holds nothing that the schema knows: a part is charged, and no retry spends more
    world.deliver("2026-01-09", rows=3000, outside=("b", 1.0))
    code, events = world.night("2026-01-09")
    assert code == 11 and events["failed"][0]["kind"] == "StoppedEarly" and world.charged() == 8
    code, events = world.night("2026-01-09")
    assert code == 11 and list(events) == ["held"] and world.charged() == 8
    world.deliver("2026-01-09")
    code, events = world.night("2026-01-09", "--again")
    assert code == 0 and world.charged() == 9 and not list((tmp_path / "state").glob("held-*"))

    # 10: the disk is full; the retry has room, and is not charged again
    world.deliver("2026-01-10")
    with monkeypatch.context() as patch:
        patch.setattr("fastdp.run.output.Output.write", disk_is_full)
        code, events = world.night("2026-01-10")
    assert code == 10 and "disk is full" in events["failed"][0]["text"] and world.charged() == 10
    code, events = world.night("2026-01-10")
    assert code == 0 and world.charged() == 10

    # 11: the ledger is locked by somebody else; then a damaged file; nothing is charged
    world.deliver("2026-01-11")
    with monkeypatch.context() as patch:
        patch.setattr("fastdp.run.execute.reserve", locked)
        code, events = world.night("2026-01-11")
    assert code == 6 and world.charged() == 10
    (tmp_path / "deliveries" / "2026-01-11.parquet").write_bytes(b"PAR1 not a table")
    code, events = world.night("2026-01-11")
    assert code == 4 and world.charged() == 10

    # 12: the lifetime budget is spent: refused, and nothing is drawn
    world.deliver("2026-01-12")
    code, events = world.night("2026-01-12")
    assert code == 5 and list(events) == ["start", "budget-spent"] and world.charged() == 10
    assert "2026-01-12" not in world.released() and not (tmp_path / "released/2026-01-12").exists()


def terminated_at(stage, emit):
    def emit_or_end(event, **facts):
        emit(event, **facts)
        if facts.get("stage") == stage:
            os.kill(os.getpid(), signal.SIGTERM)

    return emit_or_end


def disk_is_full(*_):
    raise OSError(28, "the disk is full")


def locked(*_, **__):
    raise LedgerError("the ledger is locked by another process")
