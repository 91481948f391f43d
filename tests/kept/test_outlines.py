"""What each mechanism would measure, how it divides its budget and how large its model can become is what is
kept, for domains of one column up, with and without public data, users and constraints; and what it makes of
cells, grids and histograms on the way."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

import fastdp
from fastdp.domain import Domain
from fastdp.errors import UsageError
from fastdp.measurement import Measurement
from fastdp.mechanisms import adagrid, aim, archetypes, cliquetree, mst, tworound
from fastdp.mechanisms import get as mechanism_of
from fastdp.mechanisms import recipe as recipes
from fastdp.mechanisms.base import Config, Outline, Planned
from fastdp.mechanisms.parts import merged, workload
from fastdp.mechanisms.usercounts import cells, config, output
from fastdp.mechanisms.usercounts import fit as counts_of
from fastdp.mechanisms.usercounts import mechanism as usercounts

from .figures import check, given, plain
from .test_chosen import impossible, ones
from .test_runs import CHAIN, RECIPES

DOMAINS = {
    "one": Domain({"a": 7}),
    "two": Domain({"a": 7, "b": 1}),
    "five": Domain({"a": 6, "b": 9, "c": 4, "d": 3, "e": 5}),
    "large": Domain({"a": 2000, "b": 900, "c": 700, "d": 60, "e": 2}),
    "nine": Domain({name: 2 + i for i, name in enumerate("abcdefghi")}),
}


ALIKE = (
    ", ruled",
    ", narrow",
    ", ids",
    ", few looks",
    ", narrow, few",
    ", narrow, none",
    ", little",
    ", noise",
    ", public",
    ", rows",
    ", one look",
    ", clip",
    ", nonneg",
    ", mean",
)
"""Recipes whose outlines are those of others."""


class Known:
    """What a mechanism asks of public data before a run."""

    def choose_outer(self) -> list:
        return [("a", "b"), ("c", "d")]

    def prior_cliques(self) -> list:
        return [("a", "b", "c")]


def outlined(name: str) -> Any:
    """Of every recipe of the kept runs: outline, clip criteria and the largest model."""
    fields, out = dict(RECIPES[name][0]), []
    made = recipes.load(fields).config(2.0)
    for which, domain in DOMAINS.items():
        for public in (False, True):
            for user in (False, True):
                out.append(given(made.outline, domain, public=public, user=user))
                out.append(given(made.clip_criteria, domain, public=public, user=user))
            known: Any = Known() if public else None
            for fixed in ((), (("a", "b"),), (("a", "c"), ("c", "d"))):
                if which == "five" or not fixed:
                    out.append(given(made.largest_model, domain, known, fixed))
    return _short(out)


def _short(out: list) -> Any:
    """Long outlines by their numbers: how many lines, shares and cells in all."""

    def brief(x: Any) -> Any:
        if not isinstance(x, list) or len(str(x)) < 700:
            return x
        numbers = [float(n) for n in _numbers(x)]
        return [
            len(numbers),
            sum(abs(n) for n in numbers),
            sum(abs(n) * (1 + k % 7) for k, n in enumerate(numbers)),
        ]

    return [brief(x) for x in out]


def _numbers(x: Any) -> list:
    if isinstance(x, list):
        return [n for item in x for n in _numbers(item)]
    return [x] if isinstance(x, int | float) else []


def trees() -> Any:
    """How cliquetree divides its budget, on both sides of each of its limits."""
    out = []
    for columns in (1, 2, 3, 5, 9, 12, 15, 30, 80):
        for crowded in (0.0, 0.01, cliquetree.FEW_LOOKS, cliquetree.FEW_LOOKS * 0.999, 0.4, 1.0):
            for looks in (None, 1, 2, 5):
                for wanted in (False, True):
                    s = cliquetree.shares(columns, 0.9, crowded, looks, wanted)
                    out.append([s.ones, s.again, s.look, sum(s.batches), len(s.batches), s.last_look, s.open])
                    if s.batches:
                        moved = s.decided(0.3)
                        out[-1] += [s.batches[0], moved.open, moved.batches[0]]
    return plain([[len(x), sum(x), sum(v * (1 + k) for k, v in enumerate(x))] for x in out])


def closures() -> Any:
    out = []
    domain = DOMAINS["five"]
    for fields in (
        {"degree": 1},
        {"degree": 2},
        {"degree": 3},
        {"degree": 9},
        {"workload": [["a", "b"], ["b", "c"]]},
    ):
        made: Any = recipes.load({"mechanism": "aim", "clip": 3, **fields}).config(1.0)
        out.append([made.closure(domain), made.spent_first(5), made.spent_first(40)])
        out.append(given(made.closure, DOMAINS["one"]))
    merged_ones = merged.merge(domain, ones(2, 9.0, domain=domain), 2.0)
    for sigma in (0.5, 30.0):
        out.append(mst.parts_by_size(merged_ones, [("a", "b"), ("b", "e"), ("c",)], sigma))
    out.append(mst.alike(("a", "b")))
    grid: Any = recipes.load({"mechanism": "adagrid", "clip": 3}).config(1.0)
    out.append([grid.stopping(0.5), grid.split(0.8, private=True), grid.split(0.8, private=False)])
    published: Any = recipes.load({"mechanism": "adagrid", "clip": 3, "stop": "published"}).config(1.0)
    out.append([published.stopping(0.5), published.stopping(2.0)])
    for outer in ([("a", "b", "c"), ("b", "d")], [("a", "b"), ("a", "c")], [("c",)]):
        sets = adagrid.closure(domain, outer)
        out.append([sets, grid.shares(sets), grid.habit_columns(outer)])
        for rounds in ([1.0, 2.0, 3.0], [2.0, 1.0], [1.0]):
            fields = {"mechanism": "adagrid", "clip": 3, "outer": outer, "rounds": rounds}
            asked: Any = recipes.load({**fields, "copies": [{"clique": outer[0], "times": 2}]}).config(1.0)
            out.append(given(asked.shares, sets))
            free: Any = recipes.load({"mechanism": "adagrid", "clip": 3, "rounds": rounds}).config(1.0)
            out.append(given(free.shares, sets))
    out.append(
        [
            tworound.normalised([1.0, 2.0]),
            archetypes.refine_sets(domain, archetypes.Refine(), [("a", "b", "c")]),
        ]
    )
    out.append(archetypes.refine_sets(domain, archetypes.Refine(ways=1, share=0.6), [("a", "b"), ("c",)]))
    return plain(out)


def gridded() -> Any:
    """Grids from children and constraints, and which cells are plausible, also just at the threshold."""
    out = []
    domain = Domain({"a": 6, "b": 9, "c": 4, "d": 3})
    for seed in range(4):
        rng = np.random.default_rng(seed)
        grids: dict = {}
        noisy: dict = {}
        for clique in (("a",), ("b",), ("c",), ("b", "a"), ("a", "c"), ("b", "c"), ("c", "a", "b")):
            for masks in (None, impossible(seed)):
                made = adagrid.grid_of(domain, clique, grids, noisy, masks)
                out.append([made.shape, made.fine])
            grids[frozenset(clique)] = made
            answers = [
                Measurement(clique, np.round(rng.normal(6, 5, made.fine.size + 3)), s) for s in (1.0, 2.0)
            ]
            noisy[frozenset(clique)] = adagrid.plausible(made, answers, 3.0)
            out.append(noisy[frozenset(clique)])
    one = adagrid.grid_of(domain, ("a",), {}, {})
    out.append(
        adagrid.plausible(one, [Measurement(("a",), np.array([2.0, 4.0, 6.0, 5.999, 6.001, -9]), 2.0)], 3.0)
    )
    return plain(out)


def _calls(**more: Any) -> fastdp.Schema:
    columns: dict[str, Any] = {
        "area": {"kind": "categorical", "values": ["x", "y", "z"], "null": "drop", "overflow": "drop"},
        "year": {
            "kind": "categorical",
            "dtype": "int16",
            "values": [2019, 2020],
            "null": "code",
            "overflow": "drop",
        },
        "month": {"kind": "integer", "min": 1, "max": 12, "null": "drop", "overflow": "drop"},
        "type": {"kind": "categorical", "values": [True, False], "null": "drop", "overflow": "drop"},
    }
    user = {"column": "who", "null": "drop", "max_rows": 9}
    return fastdp.Schema.from_dict({"fastdp": 1, "name": "t", "columns": columns | more, "user": user})


def shifted() -> Any:
    """Months around each, with and without years, and what is no month."""
    schema, out = _calls(), []
    every = tuple(schema.domain)
    for months in (0, 1, 2, 14):
        for year, month in (("year", "month"), (None, "month"), ("year", None), ("gone", "month")):
            out.append(given(cells.month_shifts, schema, every, year, month, months))
    out.append(given(cells.month_shifts, schema, ("area", "month"), "year", "month", 1))
    for low, high in ((0, 11), (1, 13), (1, 12), (3, 5)):
        wrong = _calls(month={"kind": "integer", "min": low, "max": high, "null": "drop", "overflow": "drop"})
        out.append(given(cells.month_shifts, wrong, every, "year", "month", 1))
    out += [given(cells.month_shifts, schema, every, "area", "month", 1)]
    out += [
        given(cells.month_shifts, schema, every, "type", "month", 1),
        given(cells._whole_values, schema, "year"),
    ]
    out += [output.value_names(schema, name) for name in schema.domain]
    groups = np.array([3, 4, 40, 41, 90])
    out.append([cells.codes_of(groups, (3, 5, 7)), cells.codes_of(groups[:0], (3, 5))])
    for onto in (("y",), ("z", "x"), ("x", "y", "z")):
        out.append(cells.project(groups, ("x", "y", "z"), (3, 5, 7), onto))
    out += [
        cells.distinct(np.array([4, 1, 4, 4, 0])),
        cells.starts(np.zeros(0, int)),
        cells.starts(np.array([2])),
    ]
    whole = cells.whole_grid(("x", "y"), (3, 5), 2)
    out += [whole, whole.grid, whole.groups(), whole.people()]
    some = cells.Cells(("x", "y"), (3, 5), 3, np.array([0, 2, 5, 6, 7, 44]))
    out += [some.grid, some.groups(), some.people(), given(lambda: some.key()), given(lambda: whole.key())]
    for t_max in (1, 2):
        out.append(given(lambda t=t_max: cells.whole_grid(("x",), (cells.MAX_GRID // 2,), t).grid))
        out.append(given(lambda t=t_max: cells.whole_grid(("x",), (cells.MAX_GRID // 2 + 1,), t).grid))
    return plain(out)


class Crowd:
    """Public users' cells."""

    def __init__(self, found: list[int], times: list[int]):
        self.cells, self.counts = np.array(found, np.uint32), np.array(times, np.int64)

    def habits(self, columns: tuple) -> Any:
        return self

    def marginals(self, cliques: list) -> dict:
        return {c: self.cells for c in cliques}


def asked_cells() -> Any:
    schema, out = _calls(), []
    every = tuple(schema.domain)
    crowd: Any = Crowd([5, 5, 70, 71, 140, 140], [1, 4, 2, 2, 1, 1])
    for months, repeats, t_max in (
        (0, (1,), None),
        (1, (1, 2), None),
        (2, (3, 1), 2),
        (1, (6,), None),
        (0, (2,), 3),
    ):
        options = {"year": "year", "month": "month", "months": months, "repeats": repeats, "t_max": t_max}
        made = cells.from_public(crowd, schema, every, **options)
        out.append([made.t_max, made.cells, made.groups()])
    nobody: Any = Crowd([], [])
    options = {"year": None, "month": None, "months": 0, "repeats": (1,), "t_max": None}
    out.append(given(cells.from_public, nobody, schema, every, **options))
    no_ids = fastdp.Schema.from_dict({k: v for k, v in schema.to_dict().items() if k != "user"})
    out.append(given(cells.from_public, crowd, no_ids, every, **options))
    for groups in (np.array([4, 5, 71, 150]), np.array([140]), np.zeros(0, np.int64)):
        out.append(cells.public_people(crowd, schema, every, groups))
    values = [{"kind": "categorical", "values": list(range(1 << 11)), "null": "drop", "overflow": "drop"}] * 3
    wide = fastdp.Schema.from_dict(
        {"fastdp": 1, "name": "w", "columns": dict(zip("abc", values)), "user": schema.to_dict()["user"]}
    )
    out.append(given(cells.public_people, crowd, wide, ("a", "b", "c"), np.array([1])))
    out.append(given(cells.public_people, crowd, wide, ("a", "b"), np.array([5])))
    return plain(out)


def users_counted() -> Any:
    """Laws, shares and totals of usercounts; rows per user beyond the exact sizes."""
    out, schema = [], _calls()
    base = {"mechanism": "usercounts"}
    for fields in (
        {},
        {"cap": 3},
        {"cap": 3, "noise": "gaussian"},
        {"cap": 3, "noise": "laplace"},
        {"cap": 40, "method": "hierarchy"},
        {"columns": ["area", "type"]},
        {"columns": ["type"]},
        {"columns": ["year", "month", "type"], "kind": "month"},
        {"columns": ["area", "month"], "month": "month", "kind": "x"},
        {"unit": "event"},
        {"presence": 0.3, "totals": [{"columns": ["area"], "share": 0.2}]},
    ):
        for epsilon, delta in ((1.0, 0.0), (1.0, 1e-6), (0.1, 1e-3), (20.0, 1e-2)):
            made: Any = recipes.load(base | fields).config(epsilon)
            out.append(given(lambda m=made, e=epsilon, d=delta: m.resolved(schema, e, d)))
        out.append(given(lambda m=made: [m.shares(), m.shares(0.2)]))
        for public in (False, True):
            out += [
                given(made.people_share, public=public, user=u, bound=b)
                for u in (False, True)
                for b in (None, 9)
            ]
    number = _calls(x={"kind": "numeric", "edges": [0, 1, 2], "null": "drop", "overflow": "drop"})
    out.append(given(lambda: recipes.load(base).config(1.0).resolved(number, 1.0, 0.0)))
    for bound, size in ((9, 9), (300, None), (256, 256), (257, None)):
        edges = usercounts.size_edges(bound)
        values = np.arange(1.0, (size or len(edges)) + 1)[::-1]
        sizes = Measurement(("rows",), values, 2.0)
        job: Any = SimpleNamespace(rows=None, schema=SimpleNamespace(max_rows_per_user=bound))
        out.append([usercounts.total_rows(sizes, job), usercounts.in_bins(sizes, bound)])
    asked: Any = SimpleNamespace(rows=70, schema=None)
    out += [usercounts.total_rows(sizes, asked), usercounts.total_rows(None, job)]
    negative = Measurement(("rows",), -np.ones(9), 2.0)
    job = SimpleNamespace(rows=None, schema=SimpleNamespace(max_rows_per_user=9))
    out.append(usercounts.total_rows(negative, job))
    for pure in (False, True):
        noise = counts_of.Noise(pure, 3, 1.5)
        out.append([noise.scale(0.4), noise.std(0.4), [noise.threshold(0.4, r) for r in (0.5, 0.05, 1e-4)]])
    return plain(out)


def written() -> Any:
    schema, out = _calls(), []
    every, shape = tuple(schema.domain), schema.domain.shape(tuple(schema.domain))
    groups = np.array([0, 5, 44, 100, 200])
    made = output.Histogram.of(every, shape, groups, np.array([3.0, 0.0, 1.0, 0.4, 7.0]))
    tidy, events = output.TidyRows(made), output.EventRows(made)
    out += [
        made.groups,
        made.counts,
        tidy.total,
        tidy.shard(0),
        tidy.counts(0),
        events.total,
        events.shard(0),
    ]
    tidy.shard_rows = events.shard_rows = 3
    for i in range(4):
        out.append([tidy.shard(i), tidy.counts(i), events.shard(i)])
    out.append(output.EventRows(output.Histogram.of(every, shape, groups, np.zeros(5))).total)
    out.append(output.wide(schema, made, 0.5))
    single = schema.select(["type"])
    out.append(output.wide(single, output.Histogram.of(("type",), (2,), np.arange(2), np.ones(2)), 0.5))
    for extra in (0, 1):
        half = output.MAX_WIDE // 2 + extra
        big = output.Histogram(("area", "type"), (half, 2), np.zeros(0, int), np.zeros(0, int))
        out.append(given(lambda big=big: output.wide(schema, big, 0.5)) if extra else None)
    for runs in ([], [SimpleNamespace(tables={}, out=None)]):
        out.append(given(output.submission, runs))
    table = output.wide(schema, made, 0.5)
    run: Any = SimpleNamespace(tables={"wide": table}, out=None)
    out += [output.submission(run).num_rows, output.submission([run, run]).num_rows]
    return plain(out)


def named() -> Any:
    """Recipes by name, mapping and steps of epsilon; and what is no recipe."""
    steps = [{"up_to": 1.0, "value": 3}, {"up_to": 2.0, "value": 5}, {"value": 9}]
    out = [
        given(lambda e=e: recipes.load({"mechanism": "mst", "clip": steps}).config(e).clip)
        for e in (0.5, 1.0, 1.1, 2.0, 9.0)
    ]
    for wrong in (
        [{"up_to": 1.0, "value": 3}],
        [{"value": 3}, {"value": 4}],
        [{"up_to": 2.0, "value": 3}, {"up_to": 2.0, "value": 4}, {"value": 4}],
        [{"up_to": True, "value": 3}, {"value": 4}],
        [{"up_to": 1.0, "value": 3}, {"up_to": 2.0, "value": 4}],
        [{"up_to": "x", "value": 3}, {"value": 4}],
        [],
        [{"value": 3, "more": 1}],
    ):
        out.append(given(lambda w=wrong: recipes.load({"mechanism": "mst", "clip": w}).config(1.0)))
    out += [
        given(lambda x=x: recipes.load(x))
        for x in ("mst", "msst", "nothing.toml", {"clip": 3}, {"mechanism": "x"})
    ]
    out.append(given(lambda: recipes.load({"mechanism": "mst", "schema": 5})))
    made = recipes.load({"mechanism": "mst", "clip": 3})
    out += [
        given(made.limited, deadline=5.0),
        given(made.limited, memory=None),
        given(made.limited, memory=1 << 25),
    ]
    out += [given(recipes.load("cliquetree").limited, deadline=5.0), recipes.builtin()]
    again = recipes.load(made.config(1.0))
    out += [again.mechanism, again.name, recipes.load(again) is again, given(mechanism_of, "x")]
    chain: Any = recipes.load({"mechanism": "archetypes", **CHAIN})
    out += [given(lambda: chain.config(1.0).wanted())]
    out += [given(lambda: aim.AIM(clip=3).limits_used()), given(config.Total, columns=("a",), share=-0.1)]
    return plain(out)


class Plain(Config, frozen=True, kw_only=True):
    """A mechanism that says what it measures and nothing else."""

    def outline(self, domain: Domain, *, public: bool = False, user: bool = True) -> Outline:
        lines = tuple(Planned((a,), 0.1, domain[a], cap=None if user else 3) for a in domain)
        return Outline(lines, (), (("a", "b", "c"),) if public else (("a", "b"), ("c", "d")), ())


def _kind(call: Callable[..., Any], *arguments: Any) -> str:
    try:
        call(*arguments)
    except Exception as error:
        return type(error).__name__
    return ""


def bare() -> Any:
    """What mechanisms inherit, and what they must not."""
    domain, known = DOMAINS["five"], Known()
    out: list[Any] = [_kind(Config().outline, domain), _kind(Config().run, None, None)]
    for fixed in ((), (("b", "d"),)):
        inherited: Any = Plain()
        out += [inherited.largest_model(domain, which, fixed) for which in (None, known)]
    out += [Plain().clip_criteria(domain, user=user) for user in (False, True)]
    for limits in ({}, {"max_cells": 9}, {"memory": 1 << 25}, {"max_cells": 10**6, "memory": 1 << 25}):
        made = Plain(**limits)
        out += [made.limits_used(), made.fit_limit]
    nobody: Any = SimpleNamespace(public=None)
    out.append(given(recipes.load({"mechanism": "archetypes", **CHAIN}).config(1.0).run, nobody, nobody))
    for module in ("fastdp.mechanisms.gone", "tests.kept.lacking"):
        with patch.dict("fastdp.mechanisms._WHERE", {"gone": (module, "Gone")}):
            out.append(given(mechanism_of, "gone"))
    lacking = ModuleNotFoundError("No module named 'other'", name="other")
    with patch("fastdp.mechanisms.import_module", side_effect=lacking):
        out.append(_kind(mechanism_of, "mst"))
    for clip, bound in ((None, 1), (None, 9), (4, 1), (None, None)):
        user = {"column": "who", "null": "drop"} | ({} if bound is None else {"max_rows": bound})
        schema = fastdp.Schema.from_dict(_calls().to_dict() | {"user": user})
        for name in ("mst", "adagrid"):
            made = mechanism_of(name)(clip=clip)
            out.append(given(lambda m=made, s=schema: m.resolved(s, 1.0, 1e-6).clip))
    return plain(out)


class Archetypes:
    """A saved archetype model in place of public data: it has no marginals."""

    schema = fastdp.Schema.from_domain(DOMAINS["five"], user="id")

    def __getattr__(self, name: str) -> Any:
        raise UsageError(f"asked for {name}")


def ready() -> Any:
    """What each mechanism asks of public data before anything is read."""
    out, schema = [], Archetypes.schema
    for name, (fields, _) in RECIPES.items():
        if not name.endswith(ALIKE):
            made = recipes.load(dict(fields)).config(2.0)
            for public in (None, Archetypes()):
                out.append([name, given(made.ready, schema, public)])  # type: ignore[arg-type]
    return plain(out)


def larger_sets() -> Any:
    """Candidates of three columns and more, as many as there is room for beside the pairs."""
    out = []
    domain = Domain({"a": 4, "b": 3, "c": 5, "d": 2, "e": 1, "f": 60})
    for items in ([], [["b", "c", "d", "f"]]):
        for held in ([], [("a", "b", "c", "d")], [("a", "b", "c"), ("c", "d", "e", "f")]):
            for most, size in ((1 << 14, 10**6), (8, 10**6), (4, 10**6), (2, 10**6), (99, 300), (99, 299)):
                growing: Any = SimpleNamespace(
                    merged=SimpleNamespace(domain=domain),
                    model=SimpleNamespace(cliques=held) if held else None,
                    wanted=workload.Workload(domain, items),
                    pairs=[("a", "b"), ("a", "c"), ("b", "c")],
                )
                with (
                    patch.object(cliquetree, "MAX_CANDIDATES", most),
                    patch.object(cliquetree, "MAX_TRIPLE_CELLS", size),
                ):
                    out.append(cliquetree._Growing.larger(growing))
    return plain(out)


CASES: dict[str, Callable[[], Any]] = {
    **{f"outlined, {name}": partial(outlined, name) for name in RECIPES if not name.endswith(ALIKE)},
    "trees": trees,
    "closures": closures,
    "gridded": gridded,
    "shifted": shifted,
    "asked cells": asked_cells,
    "users counted": users_counted,
    "written": written,
    "named": named,
    "bare": bare,
    "ready": ready,
    "larger sets": larger_sets,
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_planned_is_what_is_kept(name):
    check("outlines", name, CASES[name]())
