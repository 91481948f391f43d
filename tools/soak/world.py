"""The table, schema and command of the trials: so small that a run is mostly steps, and many fit
into an hour."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ROOT = Path(__file__).parents[2]
EPSILON = 2.0
SCHEMA = {
    "name": "soak",
    "provenance": "made up",
    "user": {"column": "u", "max_rows": 8},
    "columns": {
        "a": {"kind": "integer", "max": 5},
        "b": {"kind": "integer", "max": 9},
        "c": {"kind": "integer", "max": 2},
        "d": {"kind": "integer", "max": 40},
    },
}


def rows(number: int = 20_000, seed: int = 0) -> pa.Table:
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 6, number)
    return pa.table(
        {
            "u": rng.integers(0, number // 3, number),
            "a": a,
            "b": (a + rng.integers(0, 5, number)) % 10,
            "c": rng.integers(0, 3, number),
            "d": np.minimum((rng.exponential(9, number) + a).astype(int), 40),
        }
    )


def prepare(place: Path) -> None:
    """Data, schema and an open budget of exactly one run in a folder."""
    import fastdp

    pq.write_table(rows(), place / "data.parquet")
    (place / "schema.json").write_text(json.dumps(SCHEMA))
    ledger = fastdp.Ledger(place / "budget.db")
    ledger.open("soak", epsilon=EPSILON, delta=1e-6)


def command(place: Path, *more: str) -> list[str]:
    return [
        *(sys.executable, "-m", "fastdp", "synth", str(place / "data.parquet")),
        *(
            "--schema",
            str(place / "schema.json"),
            "-m",
            "cliquetree",
            "-e",
            f"{EPSILON:g}",
            "-d",
            "1e-6",
        ),
        *(
            "--ledger",
            str(place / "budget.db"),
            "--dataset",
            "soak",
            "--out",
            str(place / "run"),
            "--quiet",
        ),
        *more,
    ]


def start(place: Path, *more: str, limit=None) -> subprocess.Popen:
    """A run as a process of its own; `limit` is called in it before it begins."""
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(
        command(place, *more),
        cwd=place,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": path},
        preexec_fn=limit,
    )


def finish(place: Path, *more: str, limit=None) -> tuple[int, str]:
    """(exit code, what it wrote to standard error). A run whose libraries wait for memory for ever
    (OpenBLAS does while it is loaded) is killed."""
    process = start(place, *more, limit=limit)
    try:
        _, errors = process.communicate(timeout=300)
    except subprocess.TimeoutExpired:
        process.kill()
        _, errors = process.communicate()
    return process.returncode, errors


def resumed(place: Path) -> tuple[str, ...]:
    """`--resume` where something is left to go on with."""
    return ("--resume",) if (place / "run.private" / "state.json").exists() else ()


def ended(place: Path) -> bool:
    """The folder is in place and nothing is left to do, though the process may have been killed
    then."""
    return (place / "run").exists() and not resumed(place)


def broken_promises(place: Path) -> list[str]:
    """What is wrong with a finished run and its ledger; nothing where all is well."""
    import fastdp

    problems = []
    try:
        verdict = fastdp.verify(place / "run", ledger=place / "budget.db")
        if not verdict.ok:
            problems.append("the folder does not verify against its ledger")
    except fastdp.errors.FastdpError as error:
        problems.append(f"verify: {error}")
        return problems
    statement = fastdp.load_run(place / "run").privacy
    if statement["epsilon"] > EPSILON * (1 + 1e-9):
        problems.append(f"the statement says epsilon {statement['epsilon']}")
    ledger = fastdp.Ledger(place / "budget.db")
    charged = [entry for entry in ledger.entries("soak") if entry["steps"]]
    if len(charged) != 1:
        problems.append(f"{len(charged)} runs were charged, not one")
    if ledger.spent("soak")["epsilon"] > EPSILON * (1 + 1e-9):
        problems.append("more was spent than the budget")
    return problems
