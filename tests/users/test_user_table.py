"""Which facts the table about users holds, and where their bins begin."""

import numpy as np
import pytest

from fastdp.answers.people_facts import described_facts
from fastdp.domain import Domain
from fastdp.schema import Schema
from fastdp.users.rates import Roles
from fastdp.users.user_table import pool_facts, possible_facts, user_facts


@pytest.mark.parametrize("size", [12, 24, 47, 365])
def test_periods_with_rows_are_those_of_the_column_however_many_it_has(size):
    """First and last rows are in at most 24 equal periods. Periods with rows were too: users of two
    years that share such a period counted as users of one."""
    schema = Schema.from_domain({"day": size})
    view = user_facts(Domain({"day": size}), Roles((), ()), ("day",), {}, 1000, "rows")
    day = np.array([0, 1, size - 2, size - 1, size - 1])  # users of two days, of one and of two
    start = np.array([0, 2, 3, 5])
    found = pool_facts(view, schema, {"day": day}, start)
    assert (found["active day"] == [1, 0, 0]).all()
    later = pool_facts(view, schema, {"day": np.arange(size)}, np.array([0, size]))
    edges = dict((fact[1], fact[4]) for fact in view.facts)["active"]
    assert later["active day"][0] == len(edges)


def test_no_bin_of_periods_or_distinct_values_is_beyond_the_rows_of_a_user():
    schema = Schema.from_domain({"month": 12, "shop": 50})
    domain = Domain(dict(schema.modelled))
    roles = Roles((), ("shop",))
    view = user_facts(domain, roles, ("month",), {}, 5, "rows")
    listed = described_facts(view.facts, ("rows", view.edges), dict(domain), 5, {}, {})
    last = {about["name"]: about["edges"][-1] for about in listed if "edges" in about}
    assert last == {"rows": 6, "active month": 6, "distinct shop": 6}


@pytest.mark.parametrize("bound", [1, 5, 10_000])
@pytest.mark.parametrize("size", [1, 12, 24, 47, 365])
def test_possible_facts_are_those_of_any_roles(size, bound):
    """`verify` compares releases of another epsilon with these: whatever roles its noise gave."""
    domain = Domain({"day": size, "shop": 50, "kind": 3})
    amounts = {"shop": np.arange(50.0)}
    known = possible_facts(domain, ("day",), amounts, bound, ())
    seen = set()
    for columns in (("shop", "kind"), ("kind", "day"), ("day", "shop")):
        for roles in (Roles(columns, ()), Roles((), columns)):
            for order, sums in ((("day",), amounts), ((), {})):
                view = user_facts(domain, roles, order, sums, bound, "rows")
                sizes = {n: s for n, s in view.domain(domain).items() if n != "rows"}
                assert all(known[name] in (None, size) for name, size in sizes.items())
                seen |= set(sizes)
    assert seen == set(known)
    assert [name for name, size in known.items() if size is None] == ["sum shop", "mean shop"]
