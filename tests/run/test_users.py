"""Runs with `ids.source = "users"`: what is charged, decided, kept and refused."""

import math
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pytest

import fastdp
from fastdp.errors import UsageError
from fastdp.mechanisms.base import Ids
from fastdp.mechanisms.cliquetree import CliqueTree
from fastdp.mechanisms.with_users import LABELS, RATES_SHARE, TABLE_SHARE, check_users
from fastdp.privacy import noise

SIZES = {"country": 6, "shop": 40, "payment": 3}
MECHANISM = {"mechanism": "cliquetree", "ids": {"source": "users"}}


def schema(user=True):
    plain = fastdp.Schema.from_domain(SIZES, user="who" if user else None).to_dict()
    if user:
        plain["user"]["max_rows"] = 200
    return fastdp.Schema.from_dict(plain)


def purchases(users=3000, seed=0, habits=True):
    """Customers with one country and one to four favourite shops of it, where they buy nine times of ten;
    without habits every row is drawn by itself."""
    rng = np.random.default_rng(seed)
    rows = rng.geometric(0.12, users)
    who = np.repeat(np.arange(users), rows)
    of = who if habits else np.arange(len(who))
    country = rng.integers(0, 6, of.max() + 1)[of]
    favourite = rng.integers(0, 6, (of.max() + 1, 4))[of, rng.integers(0, 4, len(who))]
    shop = np.where(rng.random(len(who)) < 0.9, favourite, rng.integers(0, 6, len(who))) + 6 * country
    payment = (rng.random(len(who)) < 0.4).astype(np.int64)
    return pa.table({"who": who, "country": country, "shop": shop, "payment": payment})


def go(table, mechanism=MECHANISM, epsilon=8.0, **options):
    options = {"schema": schema(), "seed": 3, "sample_seed": 3, "threads": 1} | options
    return fastdp.synthesize(table, mechanism, epsilon, 1e-6, **options)


def distinct(table, column):
    """Mean number of values per user with ten rows or more."""
    frame = table.select(["who", column]).to_pandas()
    grouped = frame.groupby("who")[column]
    return grouped.nunique()[grouped.size() >= 10].mean()


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    out = tmp_path_factory.mktemp("users") / "run"
    return go(purchases(), out=out), out


def test_users_behave_like_users(run):
    """A customer has one country, and about as many shops as the real ones; without dealing it has about six
    countries and fifteen shops."""
    made, truth = fastdp.load_run(run[1]).data, purchases()
    assert run[0].privacy["mechanism"]["users"]["constant"] == ["country"]
    assert run[0].privacy["mechanism"]["users"]["repeated"] == ["shop"]
    assert distinct(made, "country") == 1.0
    assert abs(distinct(made, "shop") / distinct(truth, "shop") - 1) < 0.35
    plain = go(purchases(), "cliquetree").data
    assert distinct(plain, "country") > 4 and distinct(plain, "shop") > 2 * distinct(truth, "shop")
    sizes = [np.percentile(np.unique(t["who"], return_counts=True)[1], [50, 90, 99]) for t in (made, truth)]
    assert np.abs(sizes[0] / sizes[1] - 1).max() < 0.25


def test_the_budget_is_charged_once_and_verified(run):
    made, out = run
    assert fastdp.verify(out).ok
    part = made.privacy["parts"][0]
    lines = part["releases"]
    charged = sum(r["event"]["mu"] ** 2 for r in lines)
    assert math.isclose(charged, part["spent"]["mu"] ** 2, rel_tol=1e-9)
    assert charged <= made.privacy["mu"] ** 2 * (1 + 1e-9)
    rates = sum(r["event"]["mu"] ** 2 for r in lines if r["label"] in LABELS)
    of_users = sum(r["event"]["mu"] ** 2 for r in lines if r.get("of") == "users")
    assert math.isclose(rates, RATES_SHARE * made.privacy["mu"] ** 2, rel_tol=1e-9)
    assert math.isclose(of_users, TABLE_SHARE * made.privacy["mu"] ** 2, rel_tol=1e-6)
    assert all(r["sensitivity"] == 1 for r in lines if r.get("of") == "users" and r["kind"] == "marginal")


def test_where_nothing_repeats_the_table_of_users_is_not_asked_for():
    made = go(purchases(habits=False))
    users = made.privacy["mechanism"]["users"]
    assert users["constant"] == users["repeated"] == []
    releases = made.privacy["parts"][0]["releases"]
    assert not [r for r in releases if r.get("of") == "users"]
    assert "who" in made.data.column_names


def test_engines_and_threads_give_the_same_rows(run):
    table = purchases()
    first = go(table).data
    assert go(table, threads=3).data.equals(first)
    assert go(table, engine="partitioned", partitions=3).data.equals(first)


def test_a_killed_run_is_resumed_with_the_same_answers(tmp_path, monkeypatch):
    from fastdp.mechanisms import with_users

    table, ledger = purchases(800), fastdp.Ledger(tmp_path / "b.db")
    ledger.open("d", epsilon=8.0, delta=1e-6)
    options = {"out": tmp_path / "run", "ledger": ledger, "dataset": "d", "seed": None}

    def killed(*arguments, **options):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(with_users, "dealer", killed)
        with pytest.raises(KeyboardInterrupt):
            go(table, **options)
    monkeypatch.setattr(noise, "gaussian", killed)  # nothing is drawn a second time
    go(table, resume=True, **options)
    assert fastdp.verify(tmp_path / "run").ok and ledger.spent("d")["epsilon"] <= 8.0


def test_constraints_hold_and_their_columns_are_exchanged_with_whole_rows():
    bound = schema().with_constraints([{"require": "country != 0 or shop < 39"}])
    made = go(purchases(), schema=bound)
    assert made.privacy["mechanism"]["users"]["constant"] == []
    assert "country" in made.privacy["mechanism"]["users"]["repeated"]


def test_what_cannot_be_done_is_refused_before_anything_is_read():
    class Once(CliqueTree, frozen=True, kw_only=True):
        deals_ids: ClassVar[bool] = False

    config = Once(ids=Ids(source="users"))
    with pytest.raises(UsageError, match="makes rows first"):
        check_users(config, schema())
    check_users(CliqueTree(ids=Ids(source="users")), schema())


def test_declared_constants_are_kept_whatever_the_rows_say():
    recipe = {"mechanism": "cliquetree", "ids": {"source": "users", "constant": ["payment"]}}
    made = go(purchases(500), recipe)
    assert "payment" in made.privacy["mechanism"]["users"]["constant"]
    assert distinct(made.data, "payment") == 1.0
    config = CliqueTree(ids=Ids(source="users", constant=("shop",)))
    with pytest.raises(UsageError, match="constraint"):
        check_users(config, schema().with_constraints([{"require": "country != 0 or shop < 39"}]))
    with pytest.raises(ValueError, match="users"):
        Ids(constant=("shop",))


def test_without_a_user_column_nothing_is_asked():
    made = go(purchases(200).drop_columns(["who"]), schema=schema(user=False))
    assert not [r for r in made.privacy["parts"][0]["releases"] if r["label"] in LABELS]


def test_the_plan_names_what_users_cost():
    plan = fastdp.plan(schema(), mechanism=MECHANISM, epsilon=1.0, delta=1e-6, rows=10_000)
    charges = dict(plan.charges)
    assert charges["agreement rates"] == RATES_SHARE and charges["table of users"] == TABLE_SHARE
