"""Public users that synthetic ones are modelled on."""

from __future__ import annotations

import numpy as np
import pytest

import fastdp
from fastdp.public.archetypes import fit as fitting
from fastdp.public.archetypes.archetype_users import models
from fastdp.public.archetypes.model import PublicModel
from fastdp.public.archetypes.options import Options
from fastdp.tables.table import Table

LEAST = 300


@pytest.fixture(scope="module")
def public() -> PublicModel:
    """Forty users of two places; twenty have the first trait, nineteen the second, one the third, nobody the
    fourth. A user's number can be read from its habits: user u has u + 1 rows."""
    user = np.repeat(np.arange(40), np.arange(1, 41))
    trait = np.where(user == 39, 2, user // 20)
    codes = {"where": np.where(user % 2 == 0, 0, 5), "firm": trait}
    schema = fastdp.Schema.from_domain({"where": 6, "firm": 4}, user="user")
    options = Options(features=("where",), trait="firm", archetypes=2, habits=("where",))
    return fitting.fit(Table.from_codes(schema, codes, user=user, public=True), options, threads=1)


def times(habits) -> np.ndarray:
    """How often each public user is taken."""
    rows = np.add.reduceat(habits.counts, habits.indptr[:-1]) if habits.users else np.zeros(0, int)
    return np.bincount(rows - 1, minlength=40)


def taken(public: PublicModel, wanted: np.ndarray) -> list[np.ndarray]:
    return [times(h) for h in models(public, wanted, np.random.default_rng(3))]


def test_users_of_a_trait_are_modelled_on_those_who_have_it(public):
    wanted = np.array([[200.0, 90.0, 700.0, 30.0], [600.0, 30.0, 100.0, 10.0]])
    first, second, third, nobodys = taken(public, wanted)
    assert (np.flatnonzero(first) == np.arange(20)).all() and first.sum() in (800, 801)
    assert (np.flatnonzero(second) == np.arange(20, 39)).all() and abs(second.sum() - LEAST) <= 1
    assert (np.flatnonzero(third) == [39]).all()
    assert (nobodys > 0).all() and nobodys.sum() in (1760, 1761)  # all, if nobody has it
    kind = public.archetype
    for counts, asked in ((first, wanted[:, 0]), (nobodys, wanted.sum(axis=1))):  # as many of each archetype
        got = np.array([counts[kind == k].sum() for k in (0, 1)])
        assert np.abs(got - asked).max() <= 1
