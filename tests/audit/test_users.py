"""Agreement rates and tables of users: one user moves them by no more than the noise covers, the
bound is met, and planted bugs are caught."""

import math
from itertools import combinations_with_replacement
from unittest.mock import patch

import numpy as np
import pytest

from fastdp._core import bound as kernels
from fastdp.engines import user_histograms as user_engine
from fastdp.errors import FastdpError, PrivacyError, UsageError
from fastdp.privacy import release_checks
from fastdp.release import histogram_plan, views
from fastdp.release.gateway import Request
from fastdp.schema import Schema
from fastdp.tables.table import Table
from fastdp.user_views import RowGroups, UserFacts, UserTable
from fastdp.userkeys import Agreement, Disagreement, RowsPerUser, RowsUpTo, Succession, WithoutId
from tests.tiers import slow_cases

from ..builders import open_ledger
from ..reference import counting as slow
from . import checks
from .checks import asked, fails, small_table as small
from .world import CLIP, DELTA, EPSILON, Swap, loss_mean, no_noise, open_session, table

FEATURES = (("a",), ("b",), ("c",), ("b", 2), ("a", "b"), ("c", "b", "a"))
EDGES = (2, 5, CLIP, 2 * CLIP)
ORDER = Succession(("c", "b"), (("a", "a"), ("b", "b")), 4, 2, (2, 5, CLIP))
TABLE = UserTable((1, 2, 3, 5, 100), columns=("b", "a"))
FACTS = UserFacts(
    (1, 2, 3, 5, 100),
    facts=(
        ("begins", "first", "b", (2,), ()),
        ("periods", "active", "b", (2,), (2,)),
        ("values", "distinct", "a", (), (2, 3)),
        ("spent", "sum", "c", (1, 1 << 31), (2, 5, 1 << 31, 1 << 33)),
        ("each", "mean", "c", (1, 1 << 31), (2, 1 << 30)),
        ("usual", "constant", "a", (), ()),
        ("feature", "value", "sum(c) - 2 * rows", (), (-3, 0, 2, 5)),
    ),
)


def agree(session):
    """All mu on agreement: overall, and by rows per user."""
    mu = session.mu * math.sqrt(0.5)
    return [
        session.user_histogram(Agreement(FEATURES), mu=mu, label="agreement"),
        session.user_histogram(Agreement(FEATURES, EDGES), mu=mu, label="agreement by rows"),
    ]


def disagree(session):
    """All mu on the users whose rows disagree."""
    return [session.user_histogram(Disagreement(("a", "b", "c")), mu=session.mu, label="differ")]


def row_numbers(session):
    """All mu on the number of rows, of each user at most some."""
    mu = session.mu * math.sqrt(0.5)
    return [
        session.user_histogram(RowsUpTo(most), mu=mu, label=f"rows up to {most}")
        for most in (CLIP, 3)
    ]


def tables(session):
    """All mu on marginals of the table of users."""
    of_users = session.part(1.0, TABLE)
    asked = [("rows per user", "b"), ("a",), ("a", "b")]
    return of_users.measure([Request(c, of_users.mu / math.sqrt(3)) for c in asked], "users")


def facts(session):
    """All mu on marginals of facts about users."""
    of_users = session.part(1.0, FACTS)
    asked = [("begins", "spent"), ("each",), ("values", "periods"), ("usual", "rows per user")]
    return of_users.measure([Request(c, of_users.mu / 2) for c in asked], "facts")


def groups(session):
    """All mu on rows with the group of their user."""
    rows = session.part(1.0, RowGroups((1, CLIP, 2 * CLIP)))
    return rows.measure([Request(("rows per user", "b"), rows.mu)], "rows by group")


def follow(session):
    """All mu on how rows follow each other."""
    return [session.user_histogram(ORDER, mu=session.mu, label="order")]


def everything(session):
    """A run of all of them, by shares: what they cost adds up."""
    return [
        *agree(session.part(0.05)),
        *disagree(session.part(0.05)),
        *follow(session.part(0.05)),
        *row_numbers(session.part(0.1)),
        *tables(session.part(0.15)),
        *facts(session.part(0.1)),
        *groups(session.part(0.5)),
    ]


SLOW = slow_cases(agree, disagree, follow, row_numbers, tables, facts, groups)


@pytest.mark.parametrize("ask", [*SLOW, everything])
def test_one_user_is_covered_and_the_bound_is_met(ask):
    with asked(ask):
        checks.neighbours(20, seed=2)
        checks.residuals(runs=15, seed=4)


@pytest.mark.slow
@pytest.mark.parametrize("ask", [agree, follow, everything])
def test_the_audit_finds_what_is_claimed_and_no_more(ask):
    with asked(ask):
        checks.audit(1500, seed=5, tightness=0.9)


def test_no_user_adds_more_to_the_order_than_the_norm_says_and_one_adds_just_that():
    """All users with one to three rows over every pair of rows' codes, ties and pairs across
    columns included. The norm is exact: whole numbers."""
    schema = Schema.from_domain({"t": 2, "x": 2, "y": 2}, user="who")
    key = Succession(("t",), (("x", "y"), ("y", "x"), ("x", "x")), 2, 2, (2, 3))
    assert key.numbers == 3 + 2 + 4
    largest = 0
    for count in (1, 2, 3):
        for cells in combinations_with_replacement(range(8), count):
            codes = dict(zip("txy", np.unravel_index(cells, (2, 2, 2)), strict=True))
            one = Table.from_codes(schema, codes, user=np.zeros(count, np.int64))
            added = user_engine.histogram(one, key, 1, 1).tolist()
            owners = [0] * count
            hashes = {0: int(one.user_hash[0])}
            assert added == slow.succession(owners, codes, schema.domain, hashes, key).tolist()
            largest = max(largest, sum(x * x for x in added))
    assert largest == key.numbers << 40


def nulls_told_apart(more):
    """How far `more` rows without an id move their count, in units of what mu^2 covers. Their other
    columns and the users with an id make no difference."""
    session = open_session(swap := Swap())

    def answer(nulls):
        ids = np.array([1, 1, 2, *[None] * nulls], object)
        swap.content = table(checks.random_codes(np.random.default_rng(nulls), len(ids)), ids)
        return session.user_histogram(WithoutId(8), mu=session.mu / 2, label=f"{nulls}")

    with no_noise():
        return loss_mean([answer(3 + more)], [answer(3)]) / (session.mu / 2) ** 2


def test_rows_without_an_id_are_covered_up_to_the_number_taken_together():
    """The unit of privacy is a user, and these rows have none: any 8 of them are covered, 9 are
    not."""
    assert math.isclose(nulls_told_apart(8), 1, rel_tol=1e-6)
    assert 0 < nulls_told_apart(7) < 1 < nulls_told_apart(9)
    with pytest.raises(UsageError, match="power of 2"):
        WithoutId(12)


# Planted bugs


def test_rows_without_an_id_are_counted_one_by_one_under_the_noise_of_a_group():
    with patch.object(WithoutId, "units", 1):
        assert nulls_told_apart(8) > 1.1


def shares_times_rows(real):
    def planted(start, values, group_of, cells, count, threads):
        sums = np.zeros(count, np.int64)
        for u in np.flatnonzero(group_of >= 0):
            one = np.where(np.arange(len(group_of)) == u, group_of, -1).astype(np.int32)
            sums += real(start, values, one, cells, count, threads) * int(start[u + 1] - start[u])
        return sums

    return planted


def every_row_of(real):
    def planted(content, key, cap, threads):
        sizes = content.rows_per_user().astype(np.int64)
        return (sizes * key.units // key.most).sum(keepdims=True)

    return planted


def a_user_once_per_row(real):
    def planted(content, view, threads):
        rows = content.rows_per_user()
        made = real(content, view, threads)
        again = np.repeat(np.arange(made.rows), rows[rows > 0])
        codes = {name: column[again] for name, column in made.codes.items()}
        return type(made)(made.schema, codes, rows=len(again))

    return planted


def facts_of_all_before(real):
    """Sums run on from user to user, so one more user moves the rows of all others."""

    def planted(view, sizes, start, column, constant):
        made = real(view, sizes, start, column, constant)
        return {name: np.cumsum(codes) % (codes.max() + 1) for name, codes in made.items()}

    return planted


def without_users(real):
    def planted(content, view, threads):
        made = real(content, view, threads)
        made.user = None
        return made

    return planted


PLANTED = {
    "neighbours that agree are counted instead of their share": (
        follow,
        kernels,
        "neighbours",
        lambda real: (
            lambda start, *rest, **named: (
                real(start, *rest, **named) * int(np.diff(start).max(initial=1))
            )
        ),
    ),
    "the noise forgets first and last rows": (
        follow,
        histogram_plan,
        "_most_keys",
        lambda real: lambda key, cap: real(key, cap) - 2,
    ),
    "a user counts pairs instead of their share, which grows with the square of the rows": (
        agree,
        kernels,
        "agreement",
        shares_times_rows,
    ),
    "rows that differ are counted instead of users": (
        disagree,
        user_engine,
        "_disagreement",
        lambda real: (
            lambda content, key, threads: (
                real(content, key, threads)
                * content.rows_per_user().max(initial=1).astype(np.int64)
            )
        ),
    ),
    "the noise of users who disagree forgets the user": (
        disagree,
        histogram_plan,
        "_most_keys",
        lambda real: lambda key, cap: real(key, cap) - 1,
    ),
    "rows of a user beyond the most are counted": (
        row_numbers,
        user_engine,
        "histogram",
        every_row_of,
    ),
    "the noise forgets the one for the user": (
        agree,
        histogram_plan,
        "_most_keys",
        lambda real: lambda key, cap: real(key, cap) - 1,
    ),
    "the noise of one rate is for all": (
        agree,
        histogram_plan,
        "_most_keys",
        lambda real: lambda key, cap: 1,
    ),
    "a user is in the table once per row": (tables, user_engine, "view_of", a_user_once_per_row),
    "facts are told of every row": (facts, user_engine, "view_of", a_user_once_per_row),
    "a user's facts depend on the users before it": (
        facts,
        user_engine,
        "facts_of",
        facts_of_all_before,
    ),
    "groups of rows without the clip: a view that loses the users": (
        groups,
        user_engine,
        "view_of",
        without_users,
    ),
}


@pytest.mark.parametrize("bug", PLANTED)
def test_planted_bugs_are_caught(bug):
    ask, module, name, spoilt = PLANTED[bug]
    with patch.object(module, name, spoilt(getattr(module, name))), asked(ask):
        assert "more than the noise covers" in fails(checks.neighbours, 50, seed=1)
        if "one rate" in bug:
            assert "leaks" in fails(checks.audit, 60, seed=5)


def test_parts_that_forget_each_others_charges():
    """Two parts spend what one run has: the second is refused."""
    session = open_session(Swap(small()))
    tables(session.part(1.0))
    with pytest.raises(FastdpError, match="does not cover"):
        tables(session.part(1.0))
    assert len(session.releases) == 3


# Charges, resuming, refusals


def test_resumed_runs_get_the_stored_answers_and_other_questions_are_refused(tmp_path):
    ledger = open_ledger(tmp_path, epsilon=EPSILON, delta=DELTA)
    options = {"ledger": ledger, "dataset": "d", "run": "r"}
    first = everything(open_session(Swap(small()), **options))
    again = everything(open_session(Swap(None), **options))  # reads no data
    assert all((x.values == y.values).all() for x, y in zip(first, again, strict=True))
    with pytest.raises(FastdpError):
        tables(open_session(Swap(small()), **options))
    other = UserTable((1, 2, 3, 5, 101), columns=("b", "a"))
    with patch.dict(globals(), TABLE=other), pytest.raises(FastdpError):
        everything(open_session(Swap(small()), **options))


def test_what_is_not_covered_by_a_proof_is_refused():
    class Strange(UserTable):
        pass

    class Counted(Agreement):
        numbers = 1

    session = open_session(Swap(small()))
    with pytest.raises(PrivacyError, match="expected a view"):
        session.part(1.0, Strange((1,)))
    with pytest.raises(PrivacyError, match="keys"):
        session.user_histogram(Counted(FEATURES), mu=0.1, label="x")
    with pytest.raises(UsageError, match="mu"):
        session.user_histogram(Agreement(FEATURES), epsilon=0.1, label="x")
    with pytest.raises(UsageError, match="width"):
        Agreement((("a", 0),))
    with pytest.raises(UsageError, match="users"):
        session.part(1.0, TABLE).part(1.0, TABLE)
    with pytest.raises(UsageError, match="one row per user"):
        views.viewed(Swap(small()), TABLE).user_histogram(RowsPerUser((1,)), 1)
    for share in (0, -1, 1.5, math.nan):
        with pytest.raises(UsageError, match="share"):
            session.part(share)
    assert session.releases == []


# The statement


def test_the_statement_is_checked():
    session = open_session(Swap(small()))
    everything(session)
    for line in session.releases:
        assert list(release_checks.release_problems(line, CLIP)) == []
        assert list(release_checks.release_problems(line | {"sigma": line["sigma"] * 0.99}, CLIP))
    of_users = [line for line in session.releases if line.get("of") == "users"]
    # Three marginals of the table of users and four of facts; no other release is of users.
    assert [line["label"] for line in of_users] == ["users"] * 3 + ["facts"] * 4
    assert all(list(release_checks.release_problems({**x, "of": "rows"}, CLIP)) for x in of_users)
