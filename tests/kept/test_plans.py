"""Plans of every mechanism, and how each refuses fields, are what is kept: what would be measured with how
much noise, sizes, memory and time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

import fastdp
from fastdp.mechanisms import recipe as recipes
from fastdp.run.plan import plan

from .figures import check, given
from .test_runs import CHAIN, RECIPES, calls, small

DELTA = 1e-6
BUILT_IN = (
    "taxi-adagrid",
    "taxi-archetypes",
    "taxi-archetypes-refined",
    "incidents-archetypes",
    "incidents-usercounts",
    "incidents-hierarchy",
    "census-tworound",
)


def _plan(schema: Any, recipe: Any, epsilon: float, **options: Any) -> Any:
    return given(lambda: plan(schema, recipe, epsilon, DELTA, threads=2, **options).to_dict())


def planned(name: str) -> Any:
    recipe, options = RECIPES[name]
    source = options.get("source")
    schema = (source or small)()[0]
    public = "public" in options
    return [
        _plan(schema, recipe, options.get("epsilon", 2.0), rows=5000, public=public),
        _plan(schema, recipe, 0.01, rows=300, public=public),
    ]


def built_in(name: str) -> Any:
    """At epsilon 1 all of the plan; else all but its measurements."""
    whole = _plan(None, name, 1.0, public=True)
    others = [_plan(None, name, 10.0, public=True), _plan(None, name, 1.0, rows=1000)]
    others.append(_plan(None, name, 1.0, max_cells=50))
    return [
        whole,
        *([pair for pair in p if pair[0] != "lines"] if isinstance(p, list) else p for p in others),
    ]


WRONG: dict[str, list[dict[str, Any]]] = {
    "mst": [
        {"shares": [0, 1, 1]},
        {"shares": [1, -1, 1]},
        {"rare": -0.5},
        {"clip": 0},
        {"clip": "public"},
        {"clip": 3, "clip_share": 0.1},
        {"clip_share": 1.0},
        {"clip_share": 0.0},
        {"max_cells": 0},
        {"memory": 0},
        {"ids": {"share": 0.0}},
        {"ids": {"share": 1.0}},
        {"ids": {"columns": ["x"]}},
    ],
    "adagrid": [
        {"outer": []},
        {"outer": [[]]},
        {"outer": [["a", "a"]]},
        {"outer": [["a", "x"]]},
        {"threshold": -1.0},
        {"rounds": []},
        {"rounds": [0.5, -0.1]},
        {"rounds": [1.0], "outer": [["a", "b"]]},
        {"selection": 0.0},
        {"selection": 1.0},
        {"copies": [{"clique": ["a"], "times": 0}]},
        {"copies": [{"clique": ["a", "b"], "times": 2}], "outer": [["c", "d"]]},
        {"clip": "private"},
    ],
    "cliquetree": [
        {"looks": 0},
        {"looks": 4},
        {"rare": -1.0},
        {"workload": [[]]},
        {"workload": [["a", "x"]]},
        {"workload": [{"columns": ["a"], "weight": 0}]},
        {"target": "x"},
        {"target": "a", "workload": [["a", "b"]]},
        {"deadline": 0},
    ],
    "aim": [
        {"degree": 0},
        {"rounds": 0},
        {"selection": 0},
        {"selection": 1},
        {"rare": -1},
        {"max_marginal": 0},
    ],
    "tworound": [
        {"round2": []},
        {"round2": [["a"]]},
        {"round2": [["a", "x"]]},
        {"round2": [{"clique": ["a", "b"], "weight": 0}]},
        {"round2": [{"clique": ["a", "b"], "edges": {"c": [0]}}]},
        {"round2": [{"clique": ["a", "b"], "edges": {"b": [1, 2]}}]},
        {"round2": [{"clique": ["a", "b"], "edges": {"b": [0, 2, 2]}}]},
        {"round2": [{"clique": ["a", "b"], "edges": {"b": [0, 9]}}], "keep": ["b"]},
        {"weights": {"x": 1}},
        {"weights": {"a": 0}},
        {"shares": [0, 1]},
        {"threshold": -1},
        {"keep": ["x"]},
        {"selection": 0},
        {"selection": 1},
        {"extra": -1},
        {"max_marginal": 0},
        {"constraints": [{"require": "a < b"}]},
        {"constraints": [{"columns": ["a", "x"], "impossible": [[0, 0]]}]},
        {"constraints": [{"columns": ["a", "b"], "impossible": [[0, 99]]}]},
        {"constraints": [{"columns": ["a", "b"], "impossible": [[0, 0]]}]},
    ],
    "archetypes": [
        {},
        {"features": ["a"]},
        {**CHAIN, "features": []},
        {**CHAIN, "features": ["a", "x"]},
        {**CHAIN, "trait": "x"},
        {**CHAIN, "trait": "a"},
        {**CHAIN, "archetypes": 0},
        {**CHAIN, "share": 0},
        {**CHAIN, "share": 1},
        {**CHAIN, "max_rows": 0},
        {**CHAIN, "chain": CHAIN["chain"][:1]},
        {**CHAIN, "chain": CHAIN["chain"][::-1]},
        {**CHAIN, "habits": ["x"]},
        {**CHAIN, "prior": [["a", "x"]]},
        {**CHAIN, "refine": {"share": 0}},
        {**CHAIN, "refine": {"share": 1}},
        {**CHAIN, "refine": {"ways": 0}},
        {**CHAIN, "refine": {"measured": [["a", "e"]]}},
        {**CHAIN, "refine": {"measured": []}},
        {**{k: v for k, v in CHAIN.items() if k != "prior"}, "refine": {"share": 0.4}},
    ],
    "usercounts": [
        {"cap": 0},
        {"columns": []},
        {"columns": ["area", "x"]},
        {"kind": "x"},
        {"months": -1},
        {"repeats": []},
        {"repeats": [0]},
        {"t_max": 0},
        {"false_presence": 0},
        {"false_presence": 1},
        {"presence": 1},
        {"presence": -0.1},
        {"totals": [{"columns": []}]},
        {"totals": [{"columns": ["area", "year", "month", "type"]}]},
        {"totals": [{"columns": ["area"], "share": 1}]},
        {"totals": [{"columns": ["area"], "share": 0.6}, {"columns": ["type"], "share": 0.4}]},
        {"cells": "public"},
        {"unit": "event", "method": "hierarchy"},
        {"output": "events", "columns": ["area"]},
    ],
}


# At the limits: what is just allowed, beside what is just not.
EDGES: dict[str, list[dict[str, Any]]] = {
    "mst": [
        {"clip": 1},
        {"clip": "private", "clip_share": 0.0},
        {"clip": "private", "clip_share": 1.0},
        {"clip": "private", "clip_share": 0.999},
        {"rare": 0.0},
        {"max_cells": 1},
        {"memory": 1 << 24},
        {"memory": (1 << 24) - 1},
        {"ids": {"share": 0.999}},
        {"ids": {"columns": []}},
    ],
    "adagrid": [
        {"threshold": 0.0},
        {"copies": [{"clique": ["a"], "times": 1}], "outer": [["a", "b"]]},
        {"copies": [{"clique": ["a", "b"], "times": 3}], "outer": [["a", "b"]]},
        {"selection": 0.999},
        {"rounds": [1.0, 2.0], "outer": [["a", "b"]]},
        {"rounds": [1.0, 2.0, 3.0], "outer": [["a", "b"]]},
    ],
    "cliquetree": [
        {"looks": 1},
        {"looks": 10},
        {"looks": 11},
        {"rare": 0.0},
        {"deadline": 0.001},
        {"workload": [{"columns": ["a", "b"], "weight": 0.001}]},
    ],
    "aim": [{"degree": 1}, {"degree": 5}, {"degree": 6}, {"rounds": 1}, {"rare": 0}, {"max_marginal": 1}],
    "tworound": [
        {"extra": 0},
        {"max_marginal": 1},
        {"max_marginal": 12, "round2": [["a", "b"], ["c", "d"]]},
        {"max_marginal": 11, "round2": [["a", "b"], ["c", "d"]]},
        {"threshold": 0},
        {"keep": ["b"], "round2": [{"clique": ["a", "b"], "edges": {"b": [0, 8]}}]},
        {"max_cells": 1},
    ],
    "archetypes": [
        {**CHAIN, "archetypes": 1},
        {**CHAIN, "archetypes": 1000},
        {**CHAIN, "archetypes": 1001},
        {**CHAIN, "max_rows": 1},
        {**CHAIN, "refine": {"ways": 1}},
        {**CHAIN, "refine": {"share": 0.999}},
    ],
    "usercounts": [
        {"cap": 1},
        {"months": 0},
        {"repeats": [1]},
        {"t_max": 1},
        {"t_max": 2},
        {"t_max": 3},
        {"presence": 0.0},
        {"false_presence": 0.999},
        {"totals": []},
        {"totals": [{"columns": ["area"], "share": 0.0}]},
        {"totals": [{"columns": ["area"], "share": 0.6}, {"columns": ["type"], "share": 0.399}]},
    ],
}


def refused(mechanism: str) -> Any:
    schema = (calls if mechanism == "usercounts" else small)()[0]
    base = {} if mechanism == "usercounts" else {"clip": 5}
    tried = [*WRONG[mechanism], *EDGES[mechanism]]
    return [_short(schema, {"mechanism": mechanism, **base, **fields}) for fields in tried]


def _short(schema: fastdp.Schema, recipe: dict) -> Any:
    """The refusal; where there is none, the measurements that are planned."""
    public = recipe["mechanism"] == "archetypes"
    return given(lambda: plan(schema, recipe, 1.0, DELTA, rows=3000, threads=2, public=public).measurements)


def configured(name: str) -> Any:
    return given(lambda: [recipes.load(name).config(epsilon) for epsilon in (0.5, 2.0, 10.0)])


CASES: dict[str, Callable[[], Any]] = {
    **{name: partial(planned, name) for name in RECIPES},
    **{f"built-in {name}": partial(built_in, name) for name in BUILT_IN},
    **{f"config {name}": partial(configured, name) for name in BUILT_IN},
    **{f"refused {mechanism}": partial(refused, mechanism) for mechanism in WRONG},
}


@pytest.mark.parametrize("name", CASES)
def test_a_plan_is_what_is_kept(name):
    check("plans", name, CASES[name]())
