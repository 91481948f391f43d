"""The replay audit over all worlds: neighbouring tables, one run's answers handed to the other.

What is compared, and how to add a world: `tests/audit/replay/__init__.py`. `make test` goes through
some 140 pairs, `make test-slow` through thousands with other seeds.
"""

from functools import cache

import numpy as np
import pytest

from .replay.audit import audit_world, played
from .replay.compare import Figures
from .replay.worlds import WORLDS, Scene, World

FEW = 2
"""`make test` goes through so many neighbours of one table, where a world is not `WHOLE`."""
MANY = 25
"""`make test-slow` goes through the pairs of so many seeds, `make test` through some of one."""


WHOLE = (
    "session",
    "select_keys",
    "mechanism mst",
    "mechanism usercounts",
)
"""Worlds that `make test` goes through with all of their pairs."""

BY_NIGHT = (
    "habits",
    "many values",
    "divided contrasts",
    "very many rows",
    "frames",
    "linked children",
    "all of a series",
    "users of few rows",
    "amounts without users",
    "beside independent columns",
    "hidden classes",
    "hidden factors",
    "a prior and users",
)
"""Worlds that only `make test-slow` goes through: decisions of larger tables, frames, and features
together."""


def in_short(name):
    """The pairs of a world in `make test`."""
    return 0 if name in BY_NIGHT else WORLDS[name].pairs if name in WHOLE else FEW


@cache
def audited(name):
    return audit_world(name, in_short(name))


@pytest.mark.parametrize("name", [name for name in WORLDS if in_short(name)])
def test_neighbours_cannot_be_told_apart_beyond_the_charge(name):
    found, figures = audited(name)
    assert not found, "\n".join(found[:10])
    assert figures.finished >= figures.pairs / 2, f"most runs fail: {figures.errors}"
    assert figures.steps, "nothing was released"


@pytest.mark.slow
@pytest.mark.parametrize("name", WORLDS)
def test_many_neighbours_cannot_be_told_apart_beyond_the_charge(name):
    found = []
    figures = Figures()
    for seed in range(1, 1 + MANY):
        found += audit_world(name, WORLDS[name].pairs, seed, figures)[0]
    print("\n".join([name, *figures.lines()]))
    assert not found, "\n".join(found[:10])


RARE = [name for name, world in WORLDS.items() if world.reaches]
SEEDS = 8
"""So many runs look for a rare path."""


@pytest.mark.slow
@pytest.mark.parametrize("name", RARE)
def test_a_world_of_a_rare_path_reaches_it(name, tmp_path):
    """A rule that changes can leave a world beside what it is there for, and its pairs then say nothing.
    Two runs of eight have to be there."""
    reached = dict.fromkeys(WORLDS[name].reaches, 0)
    for seed in range(SEEDS):
        scene = WORLDS[name].make(np.random.default_rng([seed, *name.encode()]))
        run = played(scene, scene.data, tmp_path / "run", None, seed)
        labels = [step.label.encode() for step in run.steps]
        for text in reached:
            reached[text] += any(text.encode() in x for x in (*labels, *run.released.values()))
    assert min(reached.values()) >= 2, reached


def test_a_hundred_pairs_and_every_mechanism_take_part():
    """The size that was promised; a mechanism that is registered is a world without a line here."""
    from fastdp.mechanisms import registry

    assert sum(map(in_short, WORLDS)) >= 100
    assert {f"mechanism {name}" for name in registry.names()} <= set(WORLDS)


def test_the_hostile_users_use_up_what_was_charged():
    """A ratio of 1 is a user who changes a release by as much as its noise covers. If none came
    close, a noise too small by that factor would pass."""
    figures = Figures()
    for name in ("session", "select_keys", "mechanism mst", "mechanism usercounts"):
        figures.add(audited(name)[1])
    tight = {kind for kind, ratio in figures.largest.items() if ratio > 0.95}
    assert {"marginals", "filtered", "keys", "keys: delta", "users RowsPerUser"} <= tight
    assert {"users Groups", "users MostCommon", "marginals UserTable"} <= tight


def test_a_world_is_one_registration():
    """What the package's docstring promises: a scene is data, neighbours and a function."""

    def make(rng: np.random.Generator) -> Scene:
        return Scene(1, [2, 3], lambda data, folder: {"constant": b"x"})

    found, figures = audit_world(World("mine", 2, make), 2)
    assert (found, figures.pairs) == ([], 2)

    def leaks(rng: np.random.Generator) -> Scene:
        return Scene(1, [2, 3], lambda data, folder: {"data": str(data).encode()})

    found, _ = audit_world(World("leaks", 2, leaks), 2)
    assert len(found) == 2 and "released 'data' differs" in found[0]
