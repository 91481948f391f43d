"""Digests of a dozen seeded runs: `python -m bench.digests [FILE]`.

Every run has a fixed seed for noise and for rows, so that a change that should change no output can be shown
to change none: run it before and after on the same machine and compare the lines. Each line is a run's name
and SHA-256 of its releases (noisy answers and their scales), of its model's tables, and of its synthetic
rows.
"""

from __future__ import annotations

import hashlib
import sys

import numpy as np

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
    table = {"id": rows, "a": a, "b": b, "c": (b + rng.integers(0, 3, rows.size)) % 5, "d": rows % 3}
    return fastdp.Schema.from_domain({"a": 7, "b": 12, "c": 5, "d": 3}, user="id"), table


def runs():
    """(name, run) one after another."""
    import pyarrow as pa

    options = {"delta": 1e-6, "seed": 7, "sample_seed": 11}
    schema, table = small()
    source = fastdp.read(pa.table(table), schema)
    yield (
        "mst-noise",
        fastdp.synthesize(source, {"mechanism": "mst", "clip": 20, "stop": "noise"}, epsilon=1.0, **options),
    )
    yield "mst-risk", fastdp.synthesize(source, {"mechanism": "mst", "clip": 20}, epsilon=3.0, **options)
    yield (
        "mst-private-clip",
        fastdp.synthesize(
            fastdp.read(pa.table(table), _bounded(schema, 60)),
            {"mechanism": "mst", "clip": "private"},
            epsilon=2.0,
            **options,
        ),
    )
    recipe = {"mechanism": "adagrid", "outer": [["a", "b", "c"], ["b", "d"]], "clip": 15}
    yield "adagrid-small", fastdp.synthesize(source, recipe, epsilon=1.0, **options)
    yield (
        "adagrid-classic",
        fastdp.synthesize(source, recipe | {"calibration": "classic-rdp"}, epsilon=1.0, **options),
    )
    rows = {"mechanism": "mst"}
    plain = fastdp.Schema.from_domain({"a": 7, "b": 12, "c": 5, "d": 3})
    alone = fastdp.read(pa.table({k: v for k, v in table.items() if k != "id"}), plain)
    yield "mst-rows-as-users", fastdp.synthesize(alone, rows, epsilon=0.5, **options)

    trips, others = fastdp.simulate.taxi(30_000, seed=3), fastdp.simulate.taxi(20_000, seed=4, year=2019)
    taxi = fastdp.Schema.load("taxi-deid2")
    source = fastdp.read(trips, taxi)
    yield "taxi-adagrid", fastdp.synthesize(source, "taxi-adagrid", epsilon=1.0, **options)
    public = fastdp.read(others, taxi, public=True)
    yield (
        "taxi-adagrid-public",
        fastdp.synthesize(source, "taxi-adagrid", epsilon=10.0, public=public, **options),
    )
    yield (
        "taxi-archetypes",
        fastdp.synthesize(source, "taxi-archetypes", epsilon=1.0, public=public, **options),
    )
    yield (
        "taxi-refined",
        fastdp.synthesize(source, "taxi-archetypes-refined", epsilon=1.0, public=public, **options),
    )

    calls = fastdp.Schema.load("incidents-deid2")
    source = fastdp.read(fastdp.simulate.incidents(20_000, seed=3), calls)
    yield "incidents-usercounts", fastdp.synthesize(source, "incidents-usercounts", epsilon=1.0, **options)
    yield "incidents-hierarchy", fastdp.synthesize(source, "incidents-hierarchy", epsilon=1.0, **options)

    census = fastdp.Schema.load("census1940").select(["SEX", "CITY", "AGE", "INCWAGE_A", "RACE", "MARST"])
    source = fastdp.read(fastdp.simulate.census(20_000, seed=3), census)
    recipe = {
        "mechanism": "tworound",
        "round2": [["SEX", "CITY"], ["AGE", "MARST"], ["SEX", "RACE", "INCWAGE_A"]],
    }
    yield "census-tworound", fastdp.synthesize(source, recipe, epsilon=1.0, **options)


def _bounded(schema: fastdp.Schema, rows: int) -> fastdp.Schema:
    plain = schema.to_dict()
    plain["user"]["max_rows"] = rows
    return fastdp.Schema.from_dict(plain)


if __name__ == "__main__":
    lines = []
    for name, run in runs():
        lines.append(line(name, run))
        print(lines[-1], flush=True)
    if len(sys.argv) > 1:
        with open(sys.argv[1], "w") as file:
            file.write("\n".join(lines) + "\n")
