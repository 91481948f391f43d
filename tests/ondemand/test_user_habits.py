"""Partial rows of users: constants are shared, values repeat as often as the statement says."""

import numpy as np
import pyarrow as pa
import pytest

import fastdp
from fastdp.domain import Domain
from fastdp.model.graphical_model import Model, Node
from fastdp.ondemand.known_rows import Known
from fastdp.ondemand.row_law import RowLaw
from fastdp.ondemand.user_habits import Habits, draw_rows_of_users

USERS = 3000
ROWS = 4


@pytest.fixture(scope="module")
def law():
    schema = fastdp.Schema.from_domain({"home": 5, "shop": 6, "day": 7}, user=None)
    rng = np.random.default_rng(1)
    table = rng.random((5, 6)) + 0.2
    home = Node((), ("home",), table.sum(axis=1)[None])
    shop = Node(("home",), ("shop",), table)
    day = Node((), ("day",), np.ones((1, 7)))
    return RowLaw(
        schema, Model(Domain({"home": 5, "shop": 6, "day": 7}), [home, shop, day], total=9.0)
    )


def agreement(codes, user):
    """The probability that two rows of a user have the same code."""
    cube = codes[np.argsort(user, kind="stable")].reshape(USERS, ROWS)
    pairs = [cube[:, i] == cube[:, j] for i in range(ROWS) for j in range(i)]
    return float(np.mean(pairs))


def test_users_share_constants_and_repeat_values(law):
    """Five standard errors of 3,000 users; the urn's own marginal is the base distribution."""
    user = np.random.default_rng(2).permutation(np.repeat(np.arange(USERS), ROWS))
    habits = Habits(("home",), {"day": 1.0})
    known = Known(len(user), {"shop": np.where(user % 3 == 0, 2, -1).astype(np.int32)})
    drawn, logs = draw_rows_of_users(law, known, user, habits, 5)
    assert np.isfinite(logs).all() and agreement(drawn["home"], user) == 1.0
    assert (drawn["shop"][user % 3 == 0] == 2).all()
    want = (1 + 1.0 / 7) / (1 + 1.0)  # (1 + alpha chance) / (1 + alpha)
    # Rows 2 and 3 of a user see rows 0 and 1 alone: their agreement with each other is a little smaller.
    assert abs(agreement(drawn["day"], user) - want) < 0.05
    assert np.abs(np.bincount(drawn["day"], minlength=7) / len(user) - 1 / 7).max() < 0.03
    shop = np.bincount(drawn["shop"][user % 3 > 0], minlength=6) / (user % 3 > 0).sum()
    base = law.model.marginal(("shop",))
    assert np.abs(shop - base / base.sum()).max() < 5 * np.sqrt(0.25 / (USERS * 2 / 3))


def test_a_given_constant_reaches_all_rows_of_its_user(law):
    user = np.array([0, 0, 0, 1, 1])
    home = np.array([-1, 4, -1, -1, -1], np.int32)
    drawn, _ = draw_rows_of_users(law, Known(5, {"home": home}), user, Habits(("home",)), 1)
    assert drawn["home"][:3].tolist() == [4, 4, 4] and drawn["home"][3] == drawn["home"][4]


def test_habits_are_those_of_the_statement():
    schema = fastdp.Schema.from_domain({"a": 2, "b": 2}, user=None)
    told = {"constant": ["a"], "repeated": ["b"], "agreement": {"b": 0.75}, "by_chance": {"b": 0.5}}
    habits = Habits.of(schema, {"mechanism": {"users": told}})
    assert habits.constant == ("a",) and habits.alpha == {"b": 1.0}
    assert Habits.of(schema, {}).alpha == {}


def test_ids_of_the_frame_stay_and_rows_without_one_get_their_own(tmp_path):
    from tests.run import runs

    run = runs.run(fastdp.read(runs.rows(), runs.schema()))
    made = run.complete(pa.table({"u": ["x", None, "x", None], "a": [1, 2, None, None]}), seed=1)
    ids = made["u"].to_pylist()
    assert made.column_names[0] == "u" and ids[0] == ids[2] == "x"
    assert ids[1] and ids[3] and len(set(ids)) == 3
    alone = run.complete({"a": [1, 2]}, seed=1)
    assert len(set(alone["u"].to_pylist())) == 2
    some = run.sample(50, seed=1, where={"a": 3})
    assert set(some["a"].to_pylist()) == {3} and some["u"].null_count == 0
