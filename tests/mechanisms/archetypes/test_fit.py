"""From public tables to models: what is counted, what happens at the edges, how a model is kept."""

import numpy as np
import pytest

import fastdp
from fastdp.domain import Domain
from fastdp.errors import DataError, UsageError
from fastdp.measurement import Measurement
from fastdp.mechanisms.archetypes import fit as fitting
from fastdp.mechanisms.archetypes.archetype_users import models
from fastdp.mechanisms.archetypes.model import PublicModel
from fastdp.mechanisms.archetypes.options import Options, Step
from fastdp.mechanisms.archetypes.prior import prior_model
from fastdp.public.data import PublicTable
from fastdp.tables.table import Table
from tests.reference import archetypes as twin

SIZES = {"when": 6, "where": 8, "firm": 3, "pay": 4}
OPTIONS = Options(
    features=("when", "where"),
    trait="firm",
    archetypes=2,
    chain=(Step(target="pay", given=("where", "firm")),),
)


def people(users=400, seed=0, lone=20):
    """Two kinds of users: early in the low places, late in the high ones; the last `lone` users
    have one row."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 2, users)
    rows = np.where(np.arange(users) < users - lone, rng.integers(2, 9, users), 1)
    user = np.repeat(np.arange(users), rows)
    k = kind[user]
    codes = {
        "when": np.clip(np.rint(rng.normal(1 + 3 * k, 0.7)), 0, 5).astype(int),
        "where": np.clip(np.rint(rng.normal(1 + 5 * k, 0.8)), 0, 7).astype(int),
        "firm": rng.integers(0, 3, users)[user],
        "pay": rng.integers(0, 4, user.size),
    }
    return codes, user, kind


def make(users=400, seed=0, options=OPTIONS, **more):
    codes, user, kind = people(users, seed, **more)
    schema = fastdp.Schema.from_domain(SIZES, user="user")
    table = Table.from_codes(schema, codes, user=user, public=True)
    return fitting.fit(PublicTable(table), options), table, codes, user, kind


def test_archetypes_are_the_kinds_of_users():
    model, _, codes, user, kind = make()
    same = (model.archetype == kind).mean()
    assert max(same, 1 - same) > 0.97
    assert model.members.sum() == 400
    cell = codes["when"] * 8 + codes["where"]
    slow = twin.most_common(user.tolist(), model.labels[cell].tolist())
    assert all(model.archetype[u] in values for u, values in slow.items())


def test_an_archetype_without_users_borrows_everybodys_habits():
    codes, user, _ = people()
    options = Options(features=("when",), archetypes=6, chain=None)
    schema = fastdp.Schema.from_domain(SIZES, user="user")
    # Nobody's most common label is the second.
    codes["when"] = np.where(np.arange(user.size) % 50 == 0, 5, 0)
    model = fitting.fit(
        PublicTable(Table.from_codes(schema, codes, user=user, public=True)), options
    )
    empty = np.flatnonzero(model.members == 0)
    assert empty.size
    assert np.isfinite(model.mean_rows).all()
    assert model.places.keys.tolist() == list(range(6))
    drawn = model.places.draw(np.full(2000, empty[0]), np.random.default_rng(0))
    assert set(drawn.tolist()) <= {0, 5}
    assert model.sizes.draw(empty, np.random.default_rng(0)).min() >= 1


def test_the_number_is_chosen_by_users_held_out():
    model, *_ = make(
        1500, options=Options(features=("when", "where"), trait="firm", archetypes="auto")
    )
    by = {e["archetypes"]: e for e in model.evidence}
    assert model.size >= 2
    assert by[2]["log_likelihood"] > by[1]["log_likelihood"] + 0.1
    best = max(e["log_likelihood"] for e in model.evidence)
    assert best - by[model.size]["log_likelihood"] <= by[model.size]["error_of_gap_to_best"] + 1e-12


def test_private_tables_and_tables_without_users_are_refused():
    codes, user, _ = people()
    schema = fastdp.Schema.from_domain(SIZES, user="user")
    with pytest.raises(UsageError, match="read as private"):
        fitting.fit(PublicTable(Table.from_codes(schema, codes, user=user)), OPTIONS)
    with pytest.raises(DataError, match="user column"):
        fitting.fit(PublicTable(Table.from_codes(SIZES, codes, public=True)), OPTIONS)
    none = {name: column[:0] for name, column in codes.items()}
    with pytest.raises(DataError, match="no row that fits"):
        fitting.fit(
            PublicTable(Table.from_codes(schema, none, user=user[:0], public=True)), OPTIONS
        )
    table = Table.from_codes(schema, codes, user=user, public=True)
    del table.codes["pay"]
    with pytest.raises(DataError, match="'pay'"):
        fitting.fit(PublicTable(table), OPTIONS)


def test_the_prior_is_the_public_distribution_where_there_is_enough_of_it():
    model, table, codes, *_ = make(3000, options=OPTIONS)
    prior = prior_model(Domain(SIZES), model.prior, total=1.0)
    for name, n in SIZES.items():
        truth = np.bincount(codes[name], minlength=n) / table.rows
        assert np.abs(prior.marginal((name,)) - truth).max() < 0.01
    assert all((node.table > 0).all() for node in prior.nodes)


def test_refining_is_the_least_change_in_relative_entropy():
    """Iterative proportional fitting from the prior to the refined model's own measured marginals
    (their least change, by Csiszar's theorem) gives the refined model back, on the whole joint
    table."""
    model, *_ = make(1000)
    domain = Domain(SIZES)
    prior = prior_model(domain, model.prior)
    rng = np.random.default_rng(0)
    sets = [("when", "where"), ("pay",), ("where", "firm")]
    answers = [Measurement(s, 1000 * rng.dirichlet(np.ones(domain.cells(s))), 2.0) for s in sets]
    refined = fastdp.fit(
        domain, answers, total=1000.0, warm_start=prior, stop="noise", method="mirror-descent"
    )
    names = tuple(SIZES)
    joint = prior.marginal(names)
    target = refined.marginal(names) / 1000
    for _ in range(500):
        for s in sets:
            rest = tuple(i for i, name in enumerate(names) if name not in s)
            joint = (
                joint * target.sum(axis=rest, keepdims=True) / joint.sum(axis=rest, keepdims=True)
            )
    assert np.abs(prior.marginal(names) - target).max() > 1e-3
    assert np.abs(joint - target).max() < 1e-7


# Public users that synthetic ones are modelled on.


LEAST = 300


@pytest.fixture(scope="module")
def public() -> PublicModel:
    """Forty users of two places; twenty have the first trait, nineteen the second, one the third,
    nobody the fourth. A user's number can be read from its habits: user u has u + 1 rows."""
    user = np.repeat(np.arange(40), np.arange(1, 41))
    trait = np.where(user == 39, 2, user // 20)
    codes = {"where": np.where(user % 2 == 0, 0, 5), "firm": trait}
    schema = fastdp.Schema.from_domain({"where": 6, "firm": 4}, user="user")
    options = Options(features=("where",), trait="firm", archetypes=2, habits=("where",))
    return fitting.fit(
        PublicTable(Table.from_codes(schema, codes, user=user, public=True)), options
    )


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
    for counts, asked in (
        (first, wanted[:, 0]),
        (nobodys, wanted.sum(axis=1)),
    ):  # as many of each archetype
        got = np.array([counts[kind == k].sum() for k in (0, 1)])
        assert np.abs(got - asked).max() <= 1
