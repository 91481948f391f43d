"""Small seeded runs of every mechanism, with options of each, do what is kept: what they measured and with
how much noise, the model, the rows. (Larger runs, looser figures: tests/mechanisms/test_outcomes.py.)"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import fastdp
from fastdp.run import stopping

from .figures import check, plain

OPTIONS: dict[str, Any] = {"delta": 1e-6, "seed": 7, "sample_seed": 11, "threads": 1}
DOMAIN = {"a": 6, "b": 9, "c": 4, "d": 3, "e": 5}


@cache
def small(seed: int = 5, user: bool = True, bound: int | None = None) -> Any:
    """400 users with one to twelve rows each, columns that depend on each other, rare values."""
    rng = np.random.default_rng(seed)
    rows = np.repeat(np.arange(400), rng.integers(1, 13, 400))
    a = rng.integers(0, 6, rows.size)
    b = np.where(rng.random(rows.size) < 0.03, 8, (a + rng.integers(0, 3, rows.size)) % 8)
    c = (b + rng.integers(0, 2, rows.size)) % 4
    e = np.minimum(rng.geometric(0.4, rows.size), 5) - 1
    table = {"id": rows, "a": a, "b": b, "c": c, "d": rows % 3, "e": e}
    if not user:
        del table["id"]
    document = fastdp.Schema.from_domain(DOMAIN, user="id" if user else None).to_dict()
    if bound is not None:
        document["user"]["max_rows"] = bound
    return fastdp.Schema.from_dict(document), pa.table(table)


def ruled() -> Any:
    """The small table under constraints: which pairs and triples of codes can occur."""
    schema, table = small()
    rules = [{"require": "c < 3 or d == 0"}, {"order": ["d", "c"]}, {"require": "a != 2 or b < 5 or e > 1"}]
    return fastdp.Schema.from_dict(schema.to_dict() | {"constraints": rules}), table


@cache
def narrow(seed: int = 9) -> Any:
    """A column of one value, one of two, one of many rare values, and one that follows from another."""
    rng = np.random.default_rng(seed)
    user = np.repeat(np.arange(300), rng.integers(1, 5, 300))
    b = rng.integers(0, 2, user.size)
    f = np.minimum(rng.geometric(0.25, user.size), 30) - 1
    table = {
        "id": user,
        "e": np.zeros(user.size, int),
        "b": b,
        "f": f,
        "g": (f // 3 + b) % 5,
        "h": (f + b) % 3,
    }
    schema = fastdp.Schema.from_domain({"e": 1, "b": 2, "f": 30, "g": 5, "h": 3}, user="id")
    return schema, pa.table(table)


def calls(seed: int = 1) -> Any:
    """Calls of 150 people, by area, month and type."""
    rng = np.random.default_rng(seed)
    n = 700
    lists = {"area": range(4), "year": (2018, 2019), "month": range(1, 13), "type": range(3)}
    columns = {
        name: {"kind": "categorical", "dtype": "int16", "values": list(v), "null": "drop", "overflow": "drop"}
        for name, v in lists.items()
    }
    user = {"column": "who", "null": "drop", "max_rows": 12}
    schema = fastdp.Schema.from_dict({"fastdp": 1, "name": "calls", "columns": columns, "user": user})
    month = 1 + rng.binomial(11, 0.4, n)
    table = {
        "who": rng.integers(0, 150, n),
        "area": rng.integers(0, 4, n),
        "year": rng.choice((2018, 2019), n),
        "month": month,
        "type": (month // 4 + rng.integers(0, 2, n)) % 3,
    }
    return schema, pa.table(table)


def facts(run: Any) -> Any:
    measured = []
    for m in run.measurements:
        sigma = np.atleast_1d(np.asarray(m.sigma, np.float64))
        measured.append(
            [
                list(map(str, m.clique)),
                m.values.size,
                [float(sigma.min()), float(sigma.sum())],
                float(np.abs(m.values).sum()),
                float((np.abs(m.values) * (1 + np.arange(m.values.size) % 5)).sum()),
            ]
        )
    model: Any = None
    if run.model is not None:
        nodes = [
            [list(n.axes), n.table.size, float(np.square(np.asarray(n.table, np.float64)).sum())]
            for n in run.model.nodes
        ]
        calls = run.model.iterations if run.model.iterations <= 200 else "more than 200"
        ended = [run.model.ended, calls, run.model.loss, run.model.total]
        model = [ended, sorted(nodes)]
    rows = []
    for name, column in zip(run.data.column_names, run.data.columns):
        counts = column.combine_chunks().value_counts()
        pairs = sorted(zip(map(str, counts.field("values").to_pylist()), counts.field("counts").to_pylist()))
        rows.append([name, pairs if len(pairs) <= 12 else sorted(n for _, n in pairs)])
    return plain({"measured": measured, "model": model, "rows": rows, "number": run.data.num_rows})


def _run(recipe: dict, epsilon: float = 2.0, public: int | None = None, source: Any = None, **options) -> Any:
    schema, table = source() if source is not None else small()
    if public is not None:
        others = (source if source in (calls, narrow) else small)(public)[1]
        options["public"] = fastdp.read(others, schema, public=True)
    data = fastdp.read(table, schema)
    return facts(fastdp.synthesize(data, recipe, epsilon=epsilon, **OPTIONS, **options))


CHAIN: dict[str, Any] = {
    "features": ["a", "b"],
    "trait": "d",
    "archetypes": 3,
    "chain": [
        {"target": "c", "given": ["a", "b"], "fallback": [["b"]]},
        {"target": "e", "given": ["c"]},
    ],
    "habits": ["b", "a"],
    "prior": [["a", "b", "c"], ["c", "e"], ["b", "d"]],
}
RECIPES: dict[str, tuple[dict, dict]] = {
    "mst": ({"mechanism": "mst", "clip": 8}, {}),
    "mst, little": ({"mechanism": "mst", "clip": 8}, {"epsilon": 0.2}),
    "mst, noise": ({"mechanism": "mst", "clip": 3, "stop": "noise", "rare": 0.0}, {}),
    "mst, tol": ({"mechanism": "mst", "clip": 8, "stop": "tol", "shares": [1, 1, 1]}, {"epsilon": 10.0}),
    "mst, public": ({"mechanism": "mst", "clip": 8}, {"public": 6}),
    "mst, private clip": (
        {"mechanism": "mst", "clip": "private", "clip_share": 0.05},
        {"source": partial(small, bound=40)},
    ),
    "mst, no ids": ({"mechanism": "mst", "clip": 8, "ids": {"source": "none"}}, {"rows": 700}),
    "mst, rows": ({"mechanism": "mst"}, {"source": partial(small, user=False), "epsilon": 1.0}),
    "adagrid": ({"mechanism": "adagrid", "clip": 8}, {}),
    "adagrid, outer": (
        {"mechanism": "adagrid", "outer": [["a", "b", "c"], ["b", "d"]], "clip": 6, "threshold": 2.0},
        {"epsilon": 5.0},
    ),
    "adagrid, rounds": (
        {
            "mechanism": "adagrid",
            "outer": [["a", "b", "c"], ["c", "e"]],
            "clip": 8,
            "rounds": [0.2, 0.3, 0.5],
            "copies": [{"clique": ["a", "b"], "times": 3}],
            "stop": "noise",
        },
        {"epsilon": 8.0},
    ),
    "adagrid, classic": (
        {"mechanism": "adagrid", "clip": 8, "calibration": "classic-rdp", "stop": "published"},
        {},
    ),
    "adagrid, public": ({"mechanism": "adagrid", "clip": 8}, {"public": 6, "epsilon": 4.0}),
    "adagrid, trusted": ({"mechanism": "adagrid", "clip": 8, "trust_public": True}, {"public": 6}),
    "cliquetree": ({"mechanism": "cliquetree", "clip": 8}, {}),
    "cliquetree, much": ({"mechanism": "cliquetree", "clip": 8, "looks": 3}, {"epsilon": 20.0}),
    "cliquetree, little": ({"mechanism": "cliquetree", "clip": 8}, {"epsilon": 0.3}),
    "cliquetree, one look": ({"mechanism": "cliquetree", "clip": 8, "looks": 1, "stop": "noise"}, {}),
    "cliquetree, workload": (
        {"mechanism": "cliquetree", "clip": 8, "workload": [["a", "b", "c"], ["d", "e"]]},
        {"epsilon": 6.0},
    ),
    "cliquetree, workload, little": (
        {"mechanism": "cliquetree", "clip": 8, "workload": [["a", "b"], ["c", "d", "e"]], "rare": 0.0},
        {"epsilon": 0.05},
    ),
    "cliquetree, target": ({"mechanism": "cliquetree", "clip": 8, "target": "c"}, {"epsilon": 4.0}),
    "cliquetree, public": ({"mechanism": "cliquetree", "clip": 8}, {"public": 6, "epsilon": 1.0}),
    "cliquetree, small": ({"mechanism": "cliquetree", "clip": 8, "max_cells": 90}, {"epsilon": 10.0}),
    "cliquetree, private clip": (
        {"mechanism": "cliquetree", "clip": "private"},
        {"source": partial(small, bound=40), "epsilon": 4.0},
    ),
    "aim": ({"mechanism": "aim", "clip": 8, "rounds": 8}, {}),
    "aim, much": ({"mechanism": "aim", "clip": 8, "degree": 2}, {"epsilon": 10.0}),
    "aim, workload": (
        {"mechanism": "aim", "clip": 8, "rounds": 5, "workload": [["a", "b"], ["c", "d", "e"]], "rare": 0.0},
        {"epsilon": 4.0},
    ),
    "aim, small": ({"mechanism": "aim", "clip": 8, "rounds": 6, "max_cells": 80}, {"epsilon": 10.0}),
    "tworound": ({"mechanism": "tworound", "clip": 8}, {}),
    "tworound, given": (
        {
            "mechanism": "tworound",
            "clip": 8,
            "round2": [["a", "b"], {"clique": ["b", "e"], "weight": 2.0, "edges": {"e": [0, 1, 3]}}],
            "weights": {"a": 2.0},
            "shares": [1, 2],
            "keep": ["b", "e"],
        },
        {"epsilon": 4.0},
    ),
    "tworound, public": ({"mechanism": "tworound", "clip": 8, "extra": 2}, {"public": 6}),
    "tworound, tol": ({"mechanism": "tworound", "clip": 8, "threshold": 8.0, "stop": "tol"}, {}),
    "archetypes": ({"mechanism": "archetypes", "clip": 8, **CHAIN}, {"public": 6}),
    "archetypes, mean": (
        {"mechanism": "archetypes", "clip": 8, **CHAIN, "trips": "mean", "share": 0.5},
        {"public": 6, "epsilon": 0.5},
    ),
    "archetypes, no trait": (
        {
            "mechanism": "archetypes",
            "clip": 8,
            **CHAIN,
            "archetypes": 2,
            "trait": None,
            "chain": [*CHAIN["chain"], {"target": "d", "given": ["a"]}],
        },
        {"public": 6},
    ),
    "archetypes, refined": (
        {"mechanism": "archetypes", "clip": 8, **CHAIN, "refine": {"share": 0.9}},
        {"public": 6},
    ),
    "archetypes, refined by some": (
        {
            "mechanism": "archetypes",
            "clip": 8,
            **CHAIN,
            "refine": {"ways": 1, "measured": [["a"], ["a"], ["e"]]},
        },
        {"public": 6},
    ),
}
for _method in ("clip", "threshold", "nonneg", "hierarchy"):
    RECIPES[f"usercounts, {_method}"] = (
        {"mechanism": "usercounts", "cap": 5, "method": _method},
        {"source": calls},
    )
RECIPES |= {
    "usercounts, public": (
        {"mechanism": "usercounts", "cap": 4, "months": 1, "repeats": [1, 2, 3]},
        {"source": calls, "public": 2, "epsilon": 6.0},
    ),
    "usercounts, public hierarchy": (
        {"mechanism": "usercounts", "cap": 4, "method": "hierarchy", "cells": "full", "presence": 0.2},
        {"source": calls, "public": 2, "epsilon": 6.0},
    ),
    "usercounts, gaussian": (
        {"mechanism": "usercounts", "cap": 12, "noise": "gaussian", "method": "hierarchy"},
        {"source": calls, "epsilon": 4.0},
    ),
    "usercounts, events": (
        {"mechanism": "usercounts", "cap": 6, "output": "events", "method": "nonneg", "t_max": 3},
        {"source": calls, "epsilon": 6.0},
    ),
    "usercounts, unit": ({"mechanism": "usercounts", "unit": "event"}, {"source": calls}),
    "usercounts, totals": (
        {
            "mechanism": "usercounts",
            "cap": 4,
            "method": "hierarchy",
            "totals": [{"columns": ["area"], "share": 0.2}, {"columns": ["year", "type"]}],
        },
        {"source": calls, "epsilon": 6.0},
    ),
}
for _name in ("mst", "adagrid", "cliquetree", "aim", "tworound"):
    _recipe = {"mechanism": _name, "clip": 4}
    RECIPES[f"{_name}, narrow"] = (_recipe, {"source": narrow, "epsilon": 3.0})
    _recipe = {"mechanism": _name, "clip": 4, "ids": {"columns": ["g", "b"]}}
    RECIPES[f"{_name}, narrow, ids"] = (_recipe, {"source": narrow, "epsilon": 1.0, "public": 4})
RECIPES |= {
    "cliquetree, narrow, workload": (
        {"mechanism": "cliquetree", "clip": 4, "workload": [["e", "b", "f"], ["f", "g", "h"], ["g", "h"]]},
        {"source": narrow, "epsilon": 8.0},
    ),
    "cliquetree, narrow, few looks": (
        {"mechanism": "cliquetree", "clip": 4, "looks": 4, "rare": 1.0},
        {"source": narrow, "epsilon": 0.1},
    ),
    "aim, narrow, none": (
        {"mechanism": "aim", "clip": 4, "max_marginal": 1},
        {"source": narrow, "epsilon": 6.0},
    ),
    "aim, narrow, few": (
        {"mechanism": "aim", "clip": 4, "rounds": 4, "degree": 3, "max_marginal": 59},
        {"source": narrow, "epsilon": 6.0},
    ),
}
for _name in ("mst", "mst, public", "adagrid", "cliquetree", "cliquetree, public", "aim", "tworound"):
    RECIPES[f"{_name}, ruled"] = (RECIPES[_name][0], RECIPES[_name][1] | {"source": ruled})
CASES: dict[str, Callable[[], Any]] = {
    name: partial(_run, recipe, **options) for name, (recipe, options) in RECIPES.items()
}


@pytest.mark.parametrize("name", CASES)
def test_a_small_run_does_what_is_kept(name):
    check("runs", name, CASES[name]())


@pytest.mark.parametrize("name", ["mst", "adagrid", "adagrid, outer", "cliquetree", "aim", "tworound"])
def test_the_first_1_ways_are_looked_at_once_for_columns_that_hold_nothing(name, monkeypatch):
    """All columns, by the first answers, before anything else is measured."""
    seen: list[Any] = []
    monkeypatch.setattr(stopping, "empty_columns", lambda schema, ones, *_: seen.append(list(ones)) or [])
    recipe, options = RECIPES[name]
    schema, table = small()
    epsilon = options.get("epsilon", 2.0)
    run = fastdp.synthesize(fastdp.read(table, schema), recipe, epsilon=epsilon, **OPTIONS)
    (ones,) = seen
    assert sorted(m.clique for m in ones) == sorted((a,) for a in DOMAIN)
    released = [m for m in run.measurements if set(m.clique) <= set(DOMAIN)]
    assert [list(m.values) for m in released[: len(ones)]] == [list(m.values) for m in ones]
