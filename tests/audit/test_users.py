"""Agreement rates and tables of users: one user moves them by no more than the noise covers, the bound is
met, and planted bugs are caught."""

import math
from itertools import combinations_with_replacement
from unittest.mock import patch

import numpy as np
import pytest

from fastdp._core import bound as kernels
from fastdp.engines import user_histograms as user_engine
from fastdp.errors import FastdpError, PrivacyError, UsageError
from fastdp.privacy import statement
from fastdp.privacy.ledger import Ledger
from fastdp.release import noiseplan, views
from fastdp.release.gateway import Request
from fastdp.schema import Schema
from fastdp.tables.table import Table
from fastdp.userkeys import Agreement, RowGroups, RowsPerUser, RowsUpTo, Succession, UserTable

from ..reference import counting as slow
from . import checks
from .world import CLIP, DELTA, EPSILON, Swap, open_door, table

FEATURES = (("a",), ("b",), ("c",), ("a", "b"), ("c", "b", "a"))
EDGES = (2, 5, CLIP, 2 * CLIP)
ORDER = Succession(("c", "b"), (("a", "a"), ("b", "b")), 4, 2, (2, 5, CLIP))
TABLE = UserTable((1, 2, 3, 5, 100), columns=("b", "a"))


def agree(door):
    """All mu on agreement: overall, and by rows per user."""
    mu = door.mu * math.sqrt(0.5)
    return [
        door.user_histogram(Agreement(FEATURES), mu=mu, label="agreement"),
        door.user_histogram(Agreement(FEATURES, EDGES), mu=mu, label="agreement by rows"),
    ]


def row_numbers(door):
    """All mu on the number of rows, of each user at most some."""
    mu = door.mu * math.sqrt(0.5)
    return [door.user_histogram(RowsUpTo(most), mu=mu, label=f"rows up to {most}") for most in (CLIP, 3)]


def tables(door):
    """All mu on marginals of the table of users."""
    of_users = door.part(1.0, TABLE)
    asked = [("rows per user", "b"), ("a",), ("a", "b")]
    return of_users.measure([Request(c, of_users.mu / math.sqrt(3)) for c in asked], "users")


def groups(door):
    """All mu on rows with the group of their user."""
    rows = door.part(1.0, RowGroups((1, CLIP, 2 * CLIP)))
    return rows.measure([Request(("rows per user", "b"), rows.mu)], "rows by group")


def follow(door):
    """All mu on how rows follow each other."""
    return [door.user_histogram(ORDER, mu=door.mu, label="order")]


def everything(door):
    """A run of all of them, by shares: what they cost adds up."""
    return [
        *agree(door.part(0.1)),
        *follow(door.part(0.05)),
        *row_numbers(door.part(0.1)),
        *tables(door.part(0.25)),
        *groups(door.part(0.5)),
    ]


def small(rows=30):
    return table(checks.random_codes(np.random.default_rng(1), rows), np.arange(rows) % 4)


def fails(check, *arguments, **options):
    with pytest.raises((AssertionError, FastdpError)) as caught:
        check(*arguments, **options)
    return str(caught.value)


@pytest.mark.parametrize("ask", [agree, follow, row_numbers, tables, groups, everything])
def test_one_user_is_covered_and_the_bound_is_met(ask):
    with patch.object(checks, "ask_everything", ask):
        checks.neighbours(60, seed=2)
        checks.residuals(seed=4)


@pytest.mark.slow
@pytest.mark.parametrize("ask", [agree, follow, everything])
def test_the_audit_finds_what_is_claimed_and_no_more(ask):
    with patch.object(checks, "ask_everything", ask):
        checks.audit(1500, seed=5, tightness=0.9)


def test_the_noise_is_that_of_the_law():
    door = open_door(Swap(small()))
    first, by_rows = agree(door)
    assert math.isclose(first.sigma, math.sqrt(6) / (door.mu * math.sqrt(0.5)), rel_tol=1e-9)
    assert by_rows.values.size == 4 * 6 and by_rows.sigma == first.sigma
    (one, *_) = tables(open_door(Swap(small())))
    assert math.isclose(one.sigma, math.sqrt(3) / door.mu, rel_tol=1e-9)


def test_no_user_adds_more_to_the_order_than_the_norm_says_and_one_adds_just_that():
    """All users with one to three rows over every pair of rows' codes, ties and pairs across columns
    included. The norm is exact: whole numbers."""
    schema = Schema.from_domain({"t": 2, "x": 2, "y": 2}, user="who")
    key = Succession(("t",), (("x", "y"), ("y", "x"), ("x", "x")), 2, 2, (2, 3))
    assert key.numbers == 3 + 2 + 4
    largest = 0
    for count in (1, 2, 3):
        for cells in combinations_with_replacement(range(8), count):
            codes = dict(zip("txy", np.unravel_index(cells, (2, 2, 2)), strict=True))
            one = Table.from_codes(schema, codes, user=np.zeros(count, np.int64))
            added = user_engine.histogram(one, key, 1, 1).tolist()
            owners, hashes = [0] * count, {0: int(one.user_hash[0])}
            assert added == slow.succession(owners, codes, schema.domain, hashes, key).tolist()
            largest = max(largest, sum(x * x for x in added))
    assert largest == key.numbers << 40


# Planted bugs


def test_neighbours_that_agree_are_counted_instead_of_their_share():
    real = kernels.neighbours

    def planted(start, this, that, group_of, *rest):
        return real(start, this, that, group_of, *rest) * int(np.diff(start).max(initial=1))

    with patch.object(kernels, "neighbours", planted), patch.object(checks, "ask_everything", follow):
        assert "more than the noise covers" in fails(checks.neighbours, 30, seed=1)


def test_the_noise_forgets_first_and_last_rows():
    real = noiseplan._most_keys

    def planted(key, cap):
        return real(key, cap) - 2

    with patch.object(noiseplan, "_most_keys", planted), patch.object(checks, "ask_everything", follow):
        assert "more than the noise covers" in fails(checks.neighbours, 50, seed=1)
        assert "leaks" in fails(checks.audit, 1500, seed=5)


def test_a_user_counts_pairs_instead_of_their_share():
    """The sum over pairs grows with the square of the user's rows."""
    real = kernels.agreement

    def planted(start, values, group_of, cells, count, threads):
        sums = np.zeros(count, np.int64)
        for u in np.flatnonzero(group_of >= 0):
            one = np.where(np.arange(len(group_of)) == u, group_of, -1).astype(np.int32)
            sums += real(start, values, one, cells, count, threads) * int(start[u + 1] - start[u])
        return sums

    with patch.object(kernels, "agreement", planted), patch.object(checks, "ask_everything", agree):
        assert "more than the noise covers" in fails(checks.neighbours, 30, seed=1)


def test_rows_of_a_user_beyond_the_most_are_counted():
    real = user_engine.histogram

    def planted(content, key, cap, threads):
        made = real(content, key, cap, threads)
        sizes = content.rows_per_user().astype(np.int64)
        return (sizes * key.units // key.most).sum(keepdims=True) if isinstance(key, RowsUpTo) else made

    with patch.object(user_engine, "histogram", planted), patch.object(checks, "ask_everything", row_numbers):
        assert "more than the noise covers" in fails(checks.neighbours, 30, seed=1)


def test_the_noise_forgets_the_one_for_the_user():
    real = noiseplan._most_keys

    def planted(key, cap):
        return real(key, cap) - isinstance(key, Agreement)

    with patch.object(noiseplan, "_most_keys", planted), patch.object(checks, "ask_everything", agree):
        assert "more than the noise covers" in fails(checks.neighbours, 50, seed=1)


def test_the_noise_of_one_rate_is_taken_for_all():
    with (
        patch.object(noiseplan, "_most_keys", lambda key, cap: 1),
        patch.object(checks, "ask_everything", agree),
    ):
        assert "more than the noise covers" in fails(checks.neighbours, 20, seed=1)
        assert "leaks" in fails(checks.audit, 150, seed=5)


def test_a_user_is_in_the_table_once_per_row():
    real = user_engine.view_of

    def planted(content, view, threads):
        rows = content.rows_per_user()
        made = real(content, view, threads)
        again = np.repeat(np.arange(made.rows), rows[rows > 0])
        return type(made)(
            made.schema, {name: column[again] for name, column in made.codes.items()}, rows=len(again)
        )

    with patch.object(user_engine, "view_of", planted), patch.object(checks, "ask_everything", tables):
        assert "more than the noise covers" in fails(checks.neighbours, 30, seed=1)


def test_groups_of_rows_without_the_clip():
    """Rows of a view weigh as much as they do without it; a view that loses the users does not clip."""
    real = user_engine.view_of

    def planted(content, view, threads):
        made = real(content, view, threads)
        made.user = None
        return made

    with patch.object(user_engine, "view_of", planted), patch.object(checks, "ask_everything", groups):
        assert "more than the noise covers" in fails(checks.neighbours, 30, seed=1)


def test_parts_that_forget_each_others_charges():
    """Two parts spend what one run has: the second is refused."""
    door = open_door(Swap(small()))
    tables(door.part(1.0))
    with pytest.raises(FastdpError, match="does not cover"):
        tables(door.part(1.0))
    assert len(door.releases) == 3


# Charges, resuming, refusals


def test_resumed_runs_get_the_stored_answers_and_other_questions_are_refused(tmp_path):
    ledger = Ledger(tmp_path / "b.db")
    ledger.open("d", epsilon=EPSILON, delta=DELTA)
    options = {"ledger": ledger, "dataset": "d", "run": "r"}
    first = everything(open_door(Swap(small()), **options))
    again = everything(open_door(Swap(None), **options))  # reads no data
    assert all((x.values == y.values).all() for x, y in zip(first, again, strict=True))
    with pytest.raises(FastdpError):
        tables(open_door(Swap(small()), **options))
    other = UserTable((1, 2, 3, 5, 101), columns=("b", "a"))
    with patch.dict(globals(), TABLE=other), pytest.raises(FastdpError):
        everything(open_door(Swap(small()), **options))


def test_what_is_not_covered_by_a_proof_is_refused():
    class Strange(UserTable):
        pass

    class Counted(Agreement):
        numbers = 1

    door = open_door(Swap(small()))
    with pytest.raises(PrivacyError, match="expected a view"):
        door.part(1.0, Strange((1,)))
    with pytest.raises(PrivacyError, match="keys"):
        door.user_histogram(Counted(FEATURES), mu=0.1, label="x")
    with pytest.raises(UsageError, match="mu"):
        door.user_histogram(Agreement(FEATURES), epsilon=0.1, label="x")
    with pytest.raises(UsageError, match="users"):
        door.part(1.0, TABLE).part(1.0, TABLE)
    with pytest.raises(UsageError, match="one row per user"):
        views.viewed(Swap(small()), TABLE).user_histogram(RowsPerUser((1,)), 1)
    for share in (0, -1, 1.5, math.nan):
        with pytest.raises(UsageError, match="share"):
            door.part(share)
    assert door.releases == []


# The statement


def test_the_statement_is_checked():
    door = open_door(Swap(small()))
    everything(door)
    for line in door.releases:
        assert list(statement._release_problems(line, CLIP)) == []
        assert list(statement._release_problems(line | {"sigma": line["sigma"] * 0.99}, CLIP))
    of_users = [line for line in door.releases if line.get("of") == "users"]
    assert len(of_users) == 3
    assert all(list(statement._release_problems({**x, "of": "rows"}, CLIP)) for x in of_users)
