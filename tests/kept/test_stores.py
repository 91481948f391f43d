"""What a ledger's files hold and say, statement by statement, as it is kept: modes, settings of SQLite, order
of steps, answers in pieces, heads and databases that were changed, what is written for the data's owner."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import sqlite3
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import fastdp
from fastdp import Schema
from fastdp.privacy import chain, store
from fastdp.privacy.accountant import Gaussian
from fastdp.privacy.ledger import Ledger, Reservation
from fastdp.privacy.unit import Unit
from fastdp.run import diagnosis

from .figures import check, given

LONG = re.compile(r"[0-9a-f]{32,}|\d{4}-\d\d-\d\dT[\d:.+Z-]+|\d{9,}\.\d+")
"""Ids, hashes, nonces and times."""


@contextlib.contextmanager
def _folder() -> Any:
    with tempfile.TemporaryDirectory() as place, contextlib.chdir(place):
        yield Path(place)


def _said(value: Any, place: Path) -> Any:
    if isinstance(value, str):
        return LONG.sub("-", value).replace(str(place), "PLACE")
    return value


def _statements() -> Any:
    """Every statement that a ledger's work makes, with the points of each step and the settings."""
    out: list[Any] = []
    connect = sqlite3.connect

    def spied(*given_to: Any, **options: Any) -> Any:
        made = connect(*given_to, **options)
        told = [_said(str(a).rsplit("/", 1)[-1], Path("/none")) for a in given_to]
        out.append([told, sorted((k, str(v)) for k, v in options.items())])
        made.set_trace_callback(lambda text: out.append(re.split(" VALUES| WHERE", text)[0][:60]))
        return made

    with _folder(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(store.sqlite3, "connect", spied)
        patch.setattr(store, "PIECE", 16)
        ledger = Ledger("l.db", _trace=lambda point: out.append(f"point {point}"))
        ledger.open("d", epsilon=1.0, delta=1e-6)
        held = ledger.reserve("d", "r", [Gaussian(0.2)], "plan", unit=Unit("row"), draws=9)
        held.enter(0, 0, "q", "s", [Gaussian(0.1)], draws=5)
        arrays = [np.arange(n, dtype=np.int64) for n in (0, 1, 2, 3, 5)]
        held.store(0, 0, arrays)
        again = Reservation(Ledger("l.db"), "r").enter(0, 0, "q", "s", [Gaussian(0.1)], draws=5)
        assert again is not None
        out.append(again)
        held.finish()
        for name in sorted(os.listdir(".")):
            out.append([name, oct(os.stat(name).st_mode & 0o777) if name != "l.db" else ""])
        head = json.loads(Path("l.db.head").read_text())
        out.append([sorted(head), head["seq"], Path("l.db.head").read_text() == chain.canonical(head)])
        memory = store.MemoryStore()
        with contextlib.suppress(ZeroDivisionError), memory.transaction() as work:
            out.append(work.state.seq)
            raise ZeroDivisionError
    return out


def _answers() -> Any:
    """Answers in pieces: how many there are, and what is missing or changed."""
    out: list[Any] = []
    with pytest.MonkeyPatch.context() as patch:
        for piece in (1, 8, 16, 17, 64 << 20):
            patch.setattr(store, "PIECE", piece)
            memory = store.MemoryStore()
            connection = memory._connection
            work = store.Transaction(connection, memory._state)
            arrays = [np.arange(n, dtype=np.int64) for n in (0, 1, 2, 5)]
            arrays += [np.zeros((2, 3)), np.array([[1, 2]], np.uint8)]
            described = work.put_arrays("r", 0, 1, arrays)
            rows = connection.execute(
                "SELECT run, part, step, array, piece, length(data) FROM answers"
            ).fetchall()
            out.append([piece, described, [" ".join(map(str, row)) for row in rows]])
            out.append(given(work.get_arrays, "r", 0, 1, described))
            for where in ("r", 0, 2), ("r", 1, 1), ("s", 0, 1):
                out.append(given(work.get_arrays, *where, described))
            connection.execute("UPDATE answers SET data = x'00' WHERE array = 3 AND piece = 0")
            out.append(given(work.get_arrays, "r", 0, 1, described))
            out += [work.hash_at(1), work.apply()]
            work.drop_arrays("s")
            out.append(connection.execute("SELECT count(*) FROM answers").fetchone()[0] == len(rows))
            work.drop_arrays("r")
            out.append(connection.execute("SELECT count(*) FROM answers").fetchone()[0])
    return out


def _changed() -> Any:
    """Ledgers of which the file, the head or the lock was changed, taken away or put back."""
    out: list[Any] = []
    with _folder() as place:
        ledger = Ledger("l.db")
        files: list[dict[str, bytes]] = []

        def keep() -> None:
            files.append({name: Path(name).read_bytes() for name in ("l.db", "l.db.head")})

        for n in range(4):
            ledger.open(f"d{n}", mu=1.0 + n)
            keep()
        for base, head in [(b, h) for b in range(4) for h in range(4)]:
            Path("l.db").write_bytes(files[base]["l.db"])
            Path("l.db.head").write_bytes(files[head]["l.db.head"])
            fresh = Ledger("l.db")
            out.append([base, head, _said(given(lambda: sorted(fresh.datasets())), place)])
            out.append(_said(given(lambda: sorted(ledger.datasets())), place))
            out.append(json.loads(Path("l.db.head").read_text())["seq"])
        for head in ("", "[]", "{}", '{"id": "x"}'):
            for n in range(4):
                Path("l.db").write_bytes(files[n]["l.db"])
                Path("l.db.head").write_text(head)
                out.append(_said(given(lambda: sorted(Ledger("l.db").datasets())), place))
        true = json.loads(files[3]["l.db.head"])
        Path("l.db").write_bytes(files[3]["l.db"])
        for name, new in (
            ("id", "x"),
            ("seq", 4.0),
            ("seq", True),
            ("seq", 0),
            ("seq", -1),
            ("hash", "x"),
            ("seq", "4"),
        ):
            Path("l.db.head").write_text(json.dumps(true | {name: new}))
            out.append([name, str(new), _said(given(lambda: sorted(Ledger("l.db").datasets())), place)])
        for change in (
            "UPDATE meta SET format = 2",
            "INSERT INTO meta SELECT * FROM meta",
            "UPDATE chain SET hash = 'x' WHERE seq = 2",
            "UPDATE chain SET body = replace(body, 'mu', 'nu') WHERE seq = 3",
            "DELETE FROM chain WHERE seq = 2",
            "UPDATE chain SET seq = 9 WHERE seq = 4",
            "DROP TABLE meta",
        ):
            Path("l.db").write_bytes(files[3]["l.db"])
            Path("l.db.head").write_bytes(files[3]["l.db.head"])
            with contextlib.closing(sqlite3.connect("l.db")) as connection:
                connection.execute(change)
                connection.commit()
            out.append([change, _said(given(lambda: sorted(Ledger("l.db").datasets())), place)])
        Path("l.db").write_bytes(b"not a database" * 99)
        out.append(_said(given(lambda: Ledger("l.db").datasets()), place))
        Path("l.db").unlink()
        out.append(_said(given(lambda: Ledger("l.db").datasets()), place))
        out.append(_said(given(lambda: Ledger("l.db").open("d", mu=1.0)), place))
        Path("l.db.head").unlink()
        out.append(_said(given(lambda: Ledger("l.db").datasets()), place))
        Path("l.db").write_bytes(files[3]["l.db"])
        out.append(_said(given(lambda: Ledger("l.db").datasets()), place))
        Path("l.db.head").write_bytes(files[3]["l.db.head"])
        with open("l.db.lock", "r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            out.append(_said(given(lambda: Ledger("l.db", timeout=0.02).datasets()), place))
        os.remove("l.db.lock")
        os.mkdir("l.db.lock")
        out.append(_said(given(lambda: Ledger("l.db").datasets()), place))
    return out


def _owners() -> Any:
    """What is written for the data's owner, with its modes; sources that cannot be read twice."""
    out: list[Any] = []
    schema = Schema.from_domain({"a": 3}, user="who")
    table = pa.table({"who": [1, 2, 2, None], "a": [0, 2, 5, None]})
    with _folder() as place:
        diagnosis.write_diagnosis(table, schema, place, 1)
        for name in sorted(os.listdir(".")):
            out.append([name, oct(os.stat(name).st_mode & 0o777), Path(name).read_text()])
    stream = pa.RecordBatchReader.from_batches(table.schema, table.to_batches())

    for source in (table, stream, fastdp.read(table, schema), "path", [table]):
        out.append(given(diagnosis.check_rereadable, source))
    return out


CASES: dict[str, Any] = {
    "statements": _statements,
    "answers": _answers,
    "changed": _changed,
    "owners": _owners,
}


@pytest.mark.parametrize("name", CASES)
def test_stores_are_those_that_are_kept(name):
    check("stores", name, CASES[name]())
