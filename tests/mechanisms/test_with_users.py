"""What users cost of a run's budget."""

import math
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest

from fastdp.division import AGREEMENT, USERS
from fastdp.mechanisms.base import Ids
from fastdp.mechanisms.cliquetree import CliqueTree
from fastdp.mechanisms.mst import MST
from fastdp.mechanisms.with_users import user_budget, user_questions
from tests.builders import schema_with_users


def test_users_cost_their_shares_where_they_are_asked_for_and_can_repeat_something():
    many, one = (schema_with_users({"a": 3}, "who", max_rows=n) for n in (2, 1))
    whole = sum(USERS.values())
    for config, source, public in product(
        (CliqueTree, MST), ("auto", "users", "private"), (False, True)
    ):
        asked = source == "users" or (source == "auto" and config is CliqueTree and not public)
        made = config(ids=Ids(source=source))
        assert user_budget.users_cost(made, many, public) == pytest.approx(whole * asked)
        assert user_budget.users_cost(made, one, public) == 0
    session = SimpleNamespace(mu=0.5)
    for users, columns, which in ((None, 3, 0), (1e3, 2, 1), (1e5, 4, 0), (1e5, 4, 1)):
        coarse = (
            None
            if users is None
            else SimpleNamespace(values=np.array([7e7, users / 4, 3 * users / 4]))
        )
        state = SimpleNamespace(session=session, coarse=coarse, _part=AGREEMENT.__getitem__)
        share = user_questions.UserQuestions._enough(state, columns, which)
        there = max(1.0, users or 1.0) / (3 if which else 1)
        error = math.sqrt((columns + 1) / share) / 0.5 / there / 2  # of a rate: a user adds 2 a - 1
        assert error == pytest.approx(user_questions.LEAST_ERROR) or (
            share == AGREEMENT[which] and error > user_questions.LEAST_ERROR
        )
