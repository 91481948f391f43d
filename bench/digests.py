"""Digests of seeded runs of every mechanism: `python -m bench.digests [FILE]`.

Every run has a fixed seed for noise and for rows, so that a change that should change no output can
be shown to change none: run it before and after on the same machine and compare the lines. Each
line is a run's name and SHA-256 of its releases (noisy answers and their scales), of its model's
tables, and of its synthetic rows.
"""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

import fastdp


def _digest(*arrays) -> str:
    state = hashlib.sha256()
    for a in arrays:
        state.update(np.ascontiguousarray(a).tobytes())
    return state.hexdigest()[:16]


def _rows(run) -> str:
    state = hashlib.sha256()
    for name, column in zip(run.data.column_names, run.data.columns):
        state.update(name.encode())
        state.update("\n".join(map(repr, column.to_pylist())).encode())
    return state.hexdigest()[:16]


def _model(run) -> str:
    if run.model is None:
        return "no model"
    return _digest(*(n.table for n in run.model.nodes), np.array([run.model.loss, run.model.total]))


def line(name: str, run) -> str:
    """`name releases model rows`."""
    answers = [m.values for m in run.measurements]
    scales = [np.atleast_1d(np.asarray(m.sigma, np.float64)) for m in run.measurements]
    return f"{name:24s} {_digest(*answers, *scales)} {_model(run)} {_rows(run)}"


def small() -> tuple[fastdp.Schema, dict[str, np.ndarray]]:
    """A coded table of users with one to forty rows each, columns that depend on each other."""
    rng = np.random.default_rng(5)
    rows = np.repeat(np.arange(900), rng.integers(1, 40, 900))
    a = rng.integers(0, 7, rows.size)
    b = (a * 2 + rng.integers(0, 4, rows.size)) % 12
    table = {
        "id": rows,
        "a": a,
        "b": b,
        "c": (b + rng.integers(0, 3, rows.size)) % 5,
        "d": rows % 3,
    }
    return fastdp.Schema.from_domain({"a": 7, "b": 12, "c": 5, "d": 3}, user="id"), table


OPTIONS: dict[str, Any] = {"delta": 1e-6, "seed": 7, "sample_seed": 11}
SMALL_ADAGRID = {"mechanism": "adagrid", "outer": [["a", "b", "c"], ["b", "d"]], "clip": 15}
TWOROUND = {
    "mechanism": "tworound",
    "round2": [["SEX", "CITY"], ["AGE", "MARST"], ["SEX", "RACE", "INCWAGE_A"]],
}
ASKED = {
    "mechanism": "cliquetree",
    "clip": 20,
    "workload": [["a", "b", "c"], ["a", "d", "f"], ["b", "f"]],
}
CENSUS = ["SEX", "CITY", "AGE", "INCWAGE_A", "RACE", "MARST"]


def _small(recipe, epsilon, max_rows=None):
    schema, table = small()
    source = fastdp.read(
        pa.table(table), schema if max_rows is None else _bounded(schema, max_rows)
    )
    return fastdp.synthesize(source, recipe, epsilon=epsilon, **OPTIONS)


def _rows_as_users():
    _, table = small()
    plain = fastdp.Schema.from_domain({"a": 7, "b": 12, "c": 5, "d": 3})
    alone = fastdp.read(pa.table({k: v for k, v in table.items() if k != "id"}), plain)
    return fastdp.synthesize(alone, {"mechanism": "mst"}, epsilon=0.5, **OPTIONS)


def _wider(recipe, epsilon, public=False, **options):
    """The small table with a column that follows from two others and one of its own, ten times as
    many users."""
    tables = []
    for seed in (5, 6):
        rng = np.random.default_rng(seed)
        rows = np.repeat(np.arange(9000), rng.integers(1, 40, 9000))
        a = rng.integers(0, 7, rows.size)
        b = (a * 2 + rng.integers(0, 4, rows.size)) % 12
        c = (b + rng.integers(0, 3, rows.size)) % 5
        d = rows % 3
        e = (a + c) % 6
        f = np.minimum(rng.geometric(0.2, rows.size), 30) - 1
        tables.append(pa.table({"id": rows, "a": a, "b": b, "c": c, "d": d, "e": e, "f": f}))
    schema = fastdp.Schema.from_domain(
        {"a": 7, "b": 12, "c": 5, "d": 3, "e": 6, "f": 30}, user="id"
    )
    if public:
        options["public"] = fastdp.read(tables[1], schema, public=True)
    return fastdp.synthesize(
        fastdp.read(tables[0], schema), recipe, epsilon=epsilon, **OPTIONS, **options
    )


def _taxi(recipe, epsilon, public=False):
    schema = fastdp.Schema.load("taxi-deid2")
    options = dict(OPTIONS)
    if public:
        others = fastdp.simulate.taxi(20_000, seed=4, year=2019)
        options["public"] = fastdp.read(others, schema, public=True)
    source = fastdp.read(fastdp.simulate.taxi(30_000, seed=3), schema)
    return fastdp.synthesize(source, recipe, epsilon=epsilon, **options)


def _incidents(recipe):
    calls = fastdp.Schema.load("incidents-deid2")
    source = fastdp.read(fastdp.simulate.incidents(20_000, seed=3), calls)
    return fastdp.synthesize(source, recipe, epsilon=1.0, **OPTIONS)


def _census():
    census = fastdp.Schema.load("census1940").select(CENSUS)
    source = fastdp.read(fastdp.simulate.census(20_000, seed=3), census)
    return fastdp.synthesize(source, TWOROUND, epsilon=1.0, **OPTIONS)


RUNS: dict[str, Callable[[], Any]] = {
    "mst-noise": lambda: _small({"mechanism": "mst", "clip": 20, "stop": "noise"}, 1.0),
    "mst-risk": lambda: _small({"mechanism": "mst", "clip": 20}, 3.0),
    "mst-private-clip": lambda: _small({"mechanism": "mst", "clip": "private"}, 2.0, 60),
    "adagrid-small": lambda: _small(SMALL_ADAGRID, 1.0),
    "adagrid-classic": lambda: _small(SMALL_ADAGRID | {"calibration": "classic-rdp"}, 1.0),
    "mst-rows-as-users": _rows_as_users,
    "cliquetree": lambda: _wider({"mechanism": "cliquetree", "clip": 20}, 1.0),
    "cliquetree-little": lambda: _wider({"mechanism": "cliquetree", "clip": 20}, 0.1),
    "cliquetree-workload": lambda: _wider(ASKED, 3.0),
    "cliquetree-public": lambda: _wider({"mechanism": "cliquetree", "clip": 20}, 0.5, public=True),
    "aim": lambda: _wider({"mechanism": "aim", "clip": 20}, 1.0),
    "taxi-adagrid": lambda: _taxi("taxi-adagrid", 1.0),
    "taxi-adagrid-public": lambda: _taxi("taxi-adagrid", 10.0, public=True),
    "taxi-archetypes": lambda: _taxi("taxi-archetypes", 1.0, public=True),
    "taxi-refined": lambda: _taxi("taxi-archetypes-refined", 1.0, public=True),
    "incidents-usercounts": lambda: _incidents("incidents-usercounts"),
    "incidents-hierarchy": lambda: _incidents("incidents-hierarchy"),
    "census-tworound": _census,
}


def _bounded(schema: fastdp.Schema, rows: int) -> fastdp.Schema:
    plain = schema.to_dict()
    plain["user"]["max_rows"] = rows
    return fastdp.Schema.from_dict(plain)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("file", nargs="?", help="where the lines are written as well")
    options = parser.parse_args()
    lines = []
    for name, make in RUNS.items():
        lines.append(line(name, make()))
        print(lines[-1], flush=True)
    if options.file:
        with open(options.file, "w") as file:
            file.write("\n".join(lines) + "\n")
