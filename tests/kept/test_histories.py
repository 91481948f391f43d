"""Ledgers after long histories of operations, allowed and refused, and public tables moved to a schema's
values, as they are kept."""

from __future__ import annotations

import contextlib
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import fastdp
from fastdp import Schema
from fastdp.privacy.accountant import BoundedRange, Gaussian, Pure, Threshold
from fastdp.privacy.ledger import Ledger, Reservation
from fastdp.privacy.unit import Unit
from fastdp.run.publicread import public_entry, read_public
from fastdp.run.verify import inspect, read_statement

from .figures import check, given

BUDGETS: dict[str, dict[str, Any]] = {
    "epsilon": {"epsilon": 1.0, "delta": 1e-6},
    "pure": {"epsilon": 1.0},
    "mu": {"mu": 0.6},
    "aside": {"epsilon": 2.0, "delta": 1e-6, "pure": 0.5, "keys": 4e-7},
    "unit": {"epsilon": 1.0, "delta": 1e-6, "unit": "user:id"},
}
EVENTS = [Gaussian(0.1), Gaussian(0.3), Pure(0.2), Pure(0.5), BoundedRange(0.3), Threshold(0.1, 2e-7)]
UNITS = [Unit("row"), Unit("user", "id"), Unit("user", "id", "own"), Unit("event", "id")]


def _hidden(value: Any) -> Any:
    """Without what differs from run to run: times, hashes, ids."""
    if isinstance(value, dict):
        return {k: "-" if k in ("time", "hash", "id", "sha256") else _hidden(v) for k, v in value.items()}
    return [_hidden(v) for v in value] if isinstance(value, list | tuple) else value


def _history(name: str) -> Any:
    """Two hundred operations drawn by a seed, what each gave, and what the ledger holds in the end."""
    rng = np.random.default_rng(len(name))
    out: list[Any] = []
    with tempfile.TemporaryDirectory() as place, contextlib.chdir(place):
        ledger = Ledger("l.db")
        out.append(given(ledger.datasets))
        ledger.open("d", **BUDGETS[name])
        for turn in range(200):
            run = f"r{rng.integers(0, 5)}"
            part, number = int(rng.random() < 0.2), int(rng.integers(0, 3))
            events = [EVENTS[i] for i in rng.integers(0, len(EVENTS), rng.integers(0, 3))]
            draws = [None, 0, 5, 1000][rng.integers(0, 4)]
            unit = UNITS[1] if rng.random() < 0.8 else UNITS[rng.integers(0, 4)]
            held = Reservation(ledger, run)
            what = int(rng.integers(0, 10))
            if what < 3:
                done = given(lambda: ledger.reserve("d", run, events, "plan", unit=unit, draws=draws).run)
            elif what < 6:
                digest, taken = "q" if rng.random() < 0.9 else "other", int(rng.integers(0, 9))
                group = ["b", "a"] if rng.random() < 0.1 else None
                done = given(
                    lambda: held.enter(
                        part, number, digest, f"s{number}", events[:1], draws=taken, group=group
                    )
                )
            elif what < 8:
                done = given(lambda: held.store(part, number, [np.array([turn + 0.5, 1.0])]))
            elif what == 8:
                done = given(lambda: held.left(part))
            else:
                done = given(lambda: held.finish(["f" * 64] if rng.random() < 0.5 else []))
            out.append([turn, what, run, done])
        out += [
            given(lambda: _hidden(call("d"))) for call in (ledger.spent, ledger.remaining, ledger.entries)
        ]
        for r in range(5):
            out.append(given(lambda: _hidden(Reservation(ledger, f"r{r}").describe())))
        out += [given(lambda: _hidden(ledger.datasets())), given(lambda: str(ledger.unit("d")))]
        out += [given(lambda: _hidden(ledger.verify())), given(lambda: _hidden(Ledger("l.db").spent("d")))]
        for other in BUDGETS.values():
            out.append(given(lambda: ledger.open("d", **other)))
        out += [
            given(ledger.open, "d", **(BUDGETS[name] | {"unit": unit}))
            for unit in ("row", "user:id", "user:", "x", 3)
        ]
        for call in (ledger.spent, ledger.remaining, ledger.entries, ledger.unit):
            out.append(given(call, "none"))
        out += [given(ledger.open, odd, epsilon=1.0) for odd in ("", " ", 3)]
        out.append(given(lambda: ledger.reserve(None, "new", [], "p", unit=UNITS[1], draws=1).run))
        ledger.open("e", mu=1.0)
        out.append(
            given(lambda: ledger.reserve(None, "new", [Gaussian(0.1)], "p", unit=UNITS[1], draws=1).run)
        )
        out.append(given(lambda: Ledger("none.db").spent("d")))
        out.append(
            sorted(p.name for p in Path(place).iterdir() if "lock" not in p.name and "-" not in p.name)
        )
    return out


def _statements() -> Any:
    """A run's statement against its ledger, every claim of it changed."""
    table = pa.table({"id": np.repeat(np.arange(60), 3), "a": np.arange(180) % 3, "b": np.arange(180) % 2})
    schema = Schema.from_domain({"a": 3, "b": 2}, user="id")
    out: list[Any] = []
    with tempfile.TemporaryDirectory() as place, contextlib.chdir(place):
        ledger = Ledger("l.db")
        ledger.open("d", epsilon=9.0, delta=1e-6)
        recipe = {"mechanism": "mst", "clip": 3}
        fastdp.synthesize(table, recipe, 1.0, 1e-7, schema=schema, ledger=ledger, dataset="d", out="r0")
        said = read_statement("r0")
        out.append(given(lambda: sorted(ledger.verify(said))))
        for change in (
            lambda s: s["ledger"].pop("id"),
            lambda s: s["ledger"].update(id="x"),
            lambda s: s["ledger"].update(seq=10**6),
            lambda s: s["ledger"].update(seq=s["ledger"]["seq"] - 1),
            lambda s: s["ledger"].update(hash="0" * 64),
            lambda s: s["ledger"].update(run="x"),
            lambda s: s["ledger"].pop("seq"),
            lambda s: s["unit"].update(kind="row"),
            lambda s: s["unit"].update(column="other"),
            lambda s: s["unit"].pop("null"),
            lambda s: s.pop("unit"),
            lambda s: s["parts"][0]["event"].update(mu=0.1),
            lambda s: s["parts"][0]["releases"][0]["event"].update(mu=0.01),
            lambda s: s["parts"][0]["releases"].pop(),
            lambda s: s["parts"].pop(),
            lambda s: s.pop("parts"),
        ):
            other = read_statement("r0")
            change(other)
            out.append(given(lambda: sorted(ledger.verify(other))))
        verdict = inspect("r0", ledger)
        out.append([verdict.ok, verdict.problems, inspect("r0", "l.db").ok])
        other_ledger = Ledger("m.db")
        other_ledger.open("d", epsilon=9.0, delta=1e-6)
        unknown = [p.replace(said["ledger"]["run"], "RUN") for p in inspect("r0", other_ledger).problems]
        out.append([unknown, len(ledger.entries("d"))])
    return out


def _moved() -> Any:
    """Public tables under a schema of other years."""

    def schema(column: dict[str, Any]) -> Schema:
        return Schema.from_dict(
            {"columns": {"y": column, "z": {"kind": "integer", "max": 3, "null": "drop"}}}
        )

    kinds = [
        {"kind": "categorical", "values": [2022], "dtype": "int16", "null": "drop", "overflow": "drop"},
        {"kind": "categorical", "values": [2021, 2022], "dtype": "int16", "null": "drop", "overflow": "drop"},
        {"kind": "integer", "min": 2020, "max": 2022, "null": "drop", "overflow": "drop"},
        {"kind": "integer", "min": 5, "max": 5, "null": "drop", "overflow": "drop"},
        {"kind": "string", "values": ["a", "b"]},
        {"kind": "categorical", "values": [True, False]},
        {"kind": "numeric", "edges": [0, 1]},
    ]
    out: list[Any] = []
    with tempfile.TemporaryDirectory() as place, contextlib.chdir(place):
        Path("t.csv").write_text("y,z\n2018,1\n2019,2\n,3\n2017,0\n")
        Path("none.csv").write_text("y,z\n,1\n,2\n")
        Path("beyond.csv").write_text("y,z\n2018,9\n")
        sources = ["t.csv", ["none.csv", "t.csv"], "none.csv", "beyond.csv"]
        sources += [pa.table({"y": pa.array([None, None], pa.int64()), "z": [1, 2]})]
        for kind in kinds:
            for source in sources:
                for relabel in ((), ("y",), ("y", "z"), ("x",)):
                    out.append(given(lambda: _facts(read_public(source, schema(kind), relabel, threads=1))))
        for source in ("a/b.csv", "a/b/", Path("c"), sources[-1], [1]):
            out += [given(public_entry, source), given(public_entry, source, ["y"])]
        table = fastdp.read("t.csv", schema(kinds[1]), public=True)
        out += [given(lambda: _facts(read_public(table, schema(k), ("y",)))) for k in kinds[:2]]
    return out


def _facts(table: Any) -> Any:
    return [table.rows, [[n, c.tolist()] for n, c in table.codes.items()], table.public]


CASES: dict[str, Any] = {
    **{f"ledger {name}": partial(_history, name) for name in BUDGETS},
    "statements": _statements,
    "moved": _moved,
}


@pytest.mark.parametrize("name", CASES)
def test_histories_are_those_that_are_kept(name):
    check("histories", name, CASES[name]())
