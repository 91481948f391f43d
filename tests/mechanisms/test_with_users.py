"""What users cost of a run's budget."""

import math
from itertools import product
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from msgspec.structs import replace

import fastdp
from fastdp.division import USERS
from fastdp.measurement import Measurement
from fastdp.mechanisms.base import Ids
from fastdp.mechanisms.cliquetree import CliqueTree
from fastdp.mechanisms.mst import MST
from fastdp.mechanisms.with_users import user_budget, user_questions
from fastdp.mechanisms.with_users.table_about_users import TableAboutUsers
from fastdp.users.order import to_ask
from fastdp.users.rates import Roles
from fastdp.users.user_table import PERIODS, pool_facts
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


def test_rates_of_agreement_get_the_share_that_their_standard_error_needs():
    mu = 0.5
    for users, columns, parts in ((1.0, 3, 1), (1e3, 2, 3), (1e5, 4, 1)):
        share = user_questions.share_of_rates(users, columns, mu, parts)
        sigma = math.sqrt((columns + 1) / share) / mu
        error = sigma / (users / parts) / 2  # of a rate a: a user adds 2 a - 1
        assert error == pytest.approx(user_questions.LEAST_ERROR)


def test_rows_are_as_many_as_the_statement_says_also_where_their_count_is_noise(monkeypatch):
    """The planted bug: where the error was above .3 of the rows, the model's own number was drawn, and
    300 people had 17,003 rows where the statement said 1,579 (truth 1,446)."""
    owner = np.repeat(np.arange(200), 3)
    table = pa.table({"id": owner, "land": owner % 4, "shop": np.arange(600) % 6})
    plain = fastdp.Schema.from_domain({"land": 4, "shop": 6}, user="id").to_dict()
    plain["columns"]["land"]["user"] = "constant"
    found = user_questions.sizes_of

    def noisy(*asked):
        return replace(found(*asked), rows=321.0, error=1e6)

    monkeypatch.setattr(user_questions, "sizes_of", noisy)
    schema = fastdp.Schema.from_dict(plain)
    run = fastdp.synthesize(table, "cliquetree", epsilon=1.0, delta=1e-5, schema=schema, seed=1)
    assert len(run.data) == run.privacy["mechanism"]["users"]["rows"] == 321


@pytest.mark.parametrize("periods", [60, 12])
def test_first_and_last_rows_are_those_of_the_finer_release(periods):
    """Users start in the first two of sixty days, one of the table's 24 periods: what was released of
    the order tells these days apart, so pool users are chosen by it. Twelve months are the table's own
    periods."""
    plain = fastdp.Schema.from_domain({"day": periods, "shop": 6}, user="id").to_dict()
    plain["user"] |= {"order": ["day"], "max_rows": 64}
    schema = fastdp.Schema.from_dict(plain)
    decided = Roles((), ("shop",))
    key = to_ask(schema, schema.domain, decided)
    parts = {name: np.zeros(length) for name, length in key.lengths.items()}
    parts["first"][:2] = 40.0, 60.0
    parts["last"][-1] = 100.0
    values = np.concatenate([parts[name] for name in key.lengths])
    label = user_budget.ORDER_LABEL
    asked = SimpleNamespace(
        decided=decided,
        released=[Measurement((), values, 2.0, label=label)],
        job=SimpleNamespace(schema=schema),
        session=SimpleNamespace(domain=schema.domain),
        features=list,
    )
    view, found = TableAboutUsers(asked).first_and_last()
    assert len(view.facts) == (6 if periods > PERIODS else 4)  # and periods and shops of a user
    codes = {"day": np.array([1, periods - 1, 0, 3]), "shop": np.zeros(4, np.int64)}
    facts = pool_facts(view, schema, codes, np.array([0, 2, 4]))
    for one, cells, most in zip(found, ([1, 0], [periods - 1, 3]), (60.0, 100.0)):
        assert one.cells(facts).tolist() == cells
        assert len(one.users) == periods and one.users.max() == most and (one.error == 2.0).all()
