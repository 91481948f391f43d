"""A program as a user would write it. It is checked, not run: types of the public face."""

import threading
from pathlib import Path
from typing import Any, assert_type

import numpy as np

import fastdp
from fastdp.errors import BudgetError, FastdpError


def one(source: str, folder: Path) -> float:
    schema = fastdp.Schema.load("people.toml")
    stop = threading.Event()
    run = fastdp.synthesize(source, "mst", 1.0, 1e-9, schema=schema, cancel=stop, out=folder)
    assert_type(run, fastdp.Run)
    assert_type(fastdp.synthesize(source, schema="people.toml", epsilon=2), fastdp.Run)
    statement: dict[str, Any] = run.privacy
    model = run.model
    if model is not None:
        counts: np.ndarray = model.marginal(("age", "sex"))
        assert counts.ndim == 2
    return float(statement["epsilon"])


def several(source: str) -> list[str]:
    runs = fastdp.synthesize(source, "mst", [1.0, 10.0], 1e-9, schema=Path("people.toml"))
    assert_type(runs, list[fastdp.Run])
    assert_type(fastdp.synthesize(source, epsilon=(1.0, 10.0)), list[fastdp.Run])
    return [repr(run) for run in runs]


def owner(path: Path) -> int:
    ledger = fastdp.Ledger(path)
    ledger.open("people", epsilon=2.0, delta=1e-9)
    try:
        fastdp.synthesize(
            "people.csv", epsilon=1.0, ledger=ledger, dataset="people", clip=5, max_cells=1_000_000
        )
    except BudgetError as error:
        return error.exit_code
    except FastdpError:
        raise
    table = fastdp.read("people.csv", "people.toml", public=True)
    assert_type(table, fastdp.Table)
    made = fastdp.plan("people.toml", "mst", 1.0, 1e-9, rows=1000, public=table)
    scores: dict[str, Any] = fastdp.evaluate("people.csv", fastdp.load_run("run"))
    return made.measurements + len(scores) + int(fastdp.verify("run").ok)
