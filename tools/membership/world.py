"""A small table with and without one user of 200 rows, and a recipe for every mechanism."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np

import fastdp
from fastdp.tables.table import Table

SIZES = {"a": 3, "b": 4, "c": 2}
CANARY_ROWS = 200
CANARY = 10**6
DELTA = 1e-5
ALIKE = (2, 3, 1)
"""The cell that all rows of the user lie in: every marginal changes by the whole clip in one cell,
as far as any user can move it."""


@dataclass(frozen=True)
class Case:
    """A recipe to attack. `spread`: the user's rows lie in all cells in turn instead of one, so
    that a histogram in which one user counts in several groups changes by its cap."""

    name: str
    recipe: dict[str, Any]
    public: bool = False
    spread: bool = False

    @cached_property
    def sides(self) -> tuple[Table, Table]:
        """The data without and with the user."""
        others, ids = crowd(300, seed=7)
        if self.spread:
            grid = np.stack(np.unravel_index(np.arange(CANARY_ROWS) % 24, tuple(SIZES.values())))
        else:
            grid = np.repeat(np.array(ALIKE)[:, None], CANARY_ROWS, axis=1)
        both = np.concatenate([others, grid], axis=1)
        users = np.concatenate([ids, np.full(CANARY_ROWS, CANARY)])
        return make(others, ids), make(both, users)

    @property
    def options(self) -> dict[str, Any]:
        return {"public": public_table()} if self.public else {}


@cache
def schema() -> fastdp.Schema:
    plain = fastdp.Schema.from_domain(SIZES, user="who").to_dict()
    plain["user"]["max_rows"] = CANARY_ROWS
    return fastdp.Schema.from_dict(plain)


def crowd(users: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """(codes [columns, rows], users) of people with 1 to 80 rows each, columns that depend on each
    other."""
    rng = np.random.default_rng(seed)
    ids = np.repeat(np.arange(users), rng.integers(1, 81, users))
    a = rng.integers(0, 3, ids.size)
    b = (a + rng.integers(0, 2, ids.size)) % 4
    return np.stack([a, b, ids % 2]), ids


def make(codes: np.ndarray, users: np.ndarray, public: bool = False) -> Table:
    return Table.from_codes(
        schema(), dict(zip(SIZES, codes, strict=True)), user=users, public=public
    )


@cache
def public_table() -> Table:
    return make(*crowd(300, seed=8), public=True)


def cases() -> list[Case]:
    """Every registered mechanism; with options of its own where it needs some, or where choices
    change what is released."""
    clip = {"clip": CANARY_ROWS}
    kinds = {"features": ["a", "b"], "trait": "c", "archetypes": 3, **clip}
    groups = {
        "columns": ["a", "b", "c"],
        "kind": "c",
        "cap": 8,
        "totals": [{"columns": ["c"], "share": 0.2}],
    }
    options: dict[str, list[tuple[str, dict[str, Any], dict[str, bool]]]] = {
        "mst": [("", clip, {}), (", private clip", {"clip": "private"}, {})],
        "cliquetree": [("", clip, {}), (", public prior", clip, {"public": True})],
        "aim": [("", {"rounds": 4, "rare": 0.0, **clip}, {})],
        "adagrid": [("", {"outer": [["a", "b", "c"]], **clip}, {})],
        "tworound": [("", {"round2": [["a", "b"], ["b", "c"]], **clip}, {})],
        "archetypes": [
            ("", kinds, {"public": True}),
            (", refined", {**kinds, "refine": {}}, {"public": True}),
        ],
        "usercounts": [
            (f", {noise}", {**groups, "noise": noise}, {"spread": True})
            for noise in ("gaussian", "laplace")
        ],
    }
    return [
        Case(name + more, {"mechanism": name, **fields}, **flags)
        for name in fastdp.mechanisms.names()
        for more, fields, flags in options.get(name, [("", clip, {})])
    ]
