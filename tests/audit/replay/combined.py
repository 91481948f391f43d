"""Worlds of features together that have worlds alone: linked tables with several children and levels,
numbers by month beside private columns in a series, users of few rows, rows without users that have
amounts, models that lose to independent columns, and priors of runs that model their users."""

import contextlib
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow as pa

import fastdp
from fastdp.mechanisms.cliquetree.tree_state import CliqueTreeState
from fastdp.mechanisms.with_users.user_demands import GROUP
from fastdp.privacy.unit import Unit

from . import hostile
from .worlds import NEIGHBOURS, Run, Scene, of_users, synthesize, with_any_facts, world

LARGE = {
    "p": {"key": "id", "columns": {"land": {"kind": "string", "values": ["DE", "FR"]}}},
    "c": {
        "parent": "p",
        "key": "of",
        "max_rows": 12,
        "columns": {"at": {"kind": "integer", "max": 9}, "level": {"kind": "integer", "max": 19}},
    },
    "d": {
        "parent": "p",
        "key": "of",
        "max_rows": 6,
        "columns": {"z": {"kind": "integer", "max": 11}},
    },
}


@world("linked children", pairs=4)
def linked_children(rng: np.random.Generator) -> Scene:
    """Two child tables of one parent, with levels, orders and keys that are null. The neighbour has
    one key more, with rows in none, some or all tables."""
    null = str(rng.choice(["drop", "own"]))
    tables = {name: {**table, "null": null} for name, table in LARGE.items()}
    for name, column in (("c", "level"), ("d", "z")):
        tables[name] |= {"levels": [column]} if rng.random() < 0.7 else {}
        alone = null == "own" or rng.random() < 0.5
        tables[name] |= {"orphans": "keep" if alone else "drop"}
    tables["c"] |= {"order": "at"} if rng.random() < 0.6 else {}
    schema = fastdp.LinkedSchema.from_dict({"fastdp": 1, "tables": tables})
    keys = int(rng.integers(0, 25))
    many = rng.integers(0, 12, 2)
    of = [np.repeat(rng.integers(0, keys + 4, keys + 1), most).tolist() for most in many]
    base = _children(rng, list(range(keys)), *of)
    others = []
    for _ in range(NEIGHBOURS):
        parents, first, second = (int(rng.choice([0, 1, 2, 40])) for _ in range(3))
        own = [hostile.VICTIM]
        more = _children(rng, own * min(parents, 3), own * first, own * second)
        others.append(
            {n: hostile.shuffled(rng, pa.concat_tables([base[n], more[n]])) for n in base}
        )
    run = synthesize(schema, epsilon=float(rng.choice([10.0, 40.0])))
    return Scene(base, others, run)


def _children(rng: np.random.Generator, ids: list, of: list, other: list) -> dict[str, pa.Table]:
    """Rows of the three tables; some have no key, and values outside their domain."""

    def keys(own: list) -> pa.Array:
        return pa.array(
            [None if who != hostile.VICTIM and rng.random() < 0.05 else who for who in own],
            pa.int64(),
        )

    def codes(own: list, most: int) -> pa.Array:
        like = {who: int(rng.integers(0, most + 1)) for who in sorted(set(own))}
        drawn = [like[who] + int(rng.integers(-2, 3)) for who in own]
        return pa.array(drawn, pa.int64(), mask=rng.random(len(own)) < 0.05)

    lands = np.array(["DE", "FR", "XX"])[rng.integers(0, 3, len(ids))]
    return {
        "p": pa.table({"id": keys(ids), "land": pa.array(lands.tolist(), pa.string())}),
        "c": pa.table({"of": keys(of), "at": codes(of, 9), "level": codes(of, 19)}),
        "d": pa.table({"of": keys(other), "z": codes(other, 11)}),
    }


@world("all of a series", pairs=4)
def all_of_a_series(rng: np.random.Generator) -> Scene:
    """One month of a series with most of what a run has: an order, amounts, features, private columns,
    means and atoms, and numbers, also by a part of the time."""
    month = [(2020, 10), (2021, 1), None][rng.integers(3)]
    name = "none" if month is None else f"{month[0]}-{month[1]:02d}"
    facts = {"order": "t", "amounts": ["x"], "features": {"kinds": "distinct(n) * rows"}}
    plain = hostile.schema(rng, **facts).to_dict()
    plain["columns"]["t"] = {
        "kind": "timestamp",
        "dtype": "timestamp[us]",
        "parts": {"year": "y", "month": "m", "day": "d"},
        "min": "2020-01-01",
        "max": "2022-12-31",
    }
    plain["columns"]["x"] |= {"means": "private", "digits": 2, "max": 100}
    plain["columns"]["x"] |= {"atoms": "private"} if rng.random() < 0.5 else {}
    if rng.random() < 0.7:
        plain["columns"]["g"] = {"kind": "string", "domain": "private"}
    plain["unit"] = {"kind": "user-period", "period": "month", "of": "t"}
    schema = fastdp.Schema.from_dict(plain)
    asked = [
        "sum(x) by day(t)",
        "count of users by month(t)",
        "mean(x)",
        "share of users where rows > 1",
    ]
    asked = [str(text) for text in rng.choice(asked, 2, replace=False)]
    inner = synthesize(
        schema.with_period(None),
        mechanism="cliquetree",
        epsilon=12.0,
        numbers=asked,
        ledger="budget.db",
        series="s",
        period=name,
    )

    def run(data: pa.Table, folder: Path) -> dict[str, bytes] | None:
        ledger = fastdp.Ledger(folder / "budget.db")
        ledger.open("s", epsilon=30.0, delta=1e-4, keys=5e-5, periods=2, unit=Unit.of(schema))
        with contextlib.chdir(folder):
            return with_any_facts(inner)(data, folder)

    base = hostile.rows(rng)
    others = hostile.one_user_month(rng, base, NEIGHBOURS, None, month)
    return Scene(base, others, run, on_disk=True)


@world("users of few rows", pairs=4)
def users_of_few_rows(rng: np.random.Generator) -> Scene:
    """Users have one to three rows, so that they are chosen by two rows of a user too, with an order
    and quoted numbers of users, or without."""
    ids = np.repeat(np.arange(60), rng.integers(1, 4, 60)).tolist()
    base = hostile.made(rng, ids, wild=0.05)
    others = []
    for _ in range(NEIGHBOURS):
        own = hostile.made(rng, [hostile.VICTIM] * int(rng.choice([1, 3, 4, 60])), wild=0.3)
        others.append(hostile.shuffled(rng, pa.concat_tables([base, own])))
    facts = {"order": "t", "amounts": ["x"]} if rng.random() < 0.5 else {}
    asked = ["count of users by g", "median(rows) per user"]
    numbers = {"numbers": asked} if rng.random() < 0.5 else {}
    schema = hostile.schema(rng, **facts, max_rows=int(rng.choice([3, 6])))
    run = synthesize(schema, mechanism="cliquetree", epsilon=40.0, **numbers)
    return Scene(base, others, with_any_facts(run))


@world("amounts without users", pairs=4)
def amounts_without_users(rng: np.random.Generator) -> Scene:
    """Every row is a user, and numbers and private means are asked of the rows."""
    base = hostile.rows(rng)
    plain = hostile.schema(rng, column=None).to_dict()
    plain["columns"]["x"] |= {"means": "private", "digits": 2, "max": 100}
    asked = ["sum(x)", "mean(x) by g", "share of rows where x > 10", "count of rows by n"]
    run = synthesize(
        fastdp.Schema.from_dict(plain),
        mechanism=str(rng.choice(["mst", "cliquetree"])),
        numbers=[str(text) for text in rng.choice(asked, 2, replace=False)],
        epsilon=float(rng.choice([3.0, 30.0])),
    )
    return Scene(base, hostile.one_row(rng, base, NEIGHBOURS), run)


@world("beside independent columns", pairs=4)
def beside_independent_columns(rng: np.random.Generator) -> Scene:
    """The finished model is held against independent columns by released distances. With a bound far
    below that of a run, small tables decide both ways."""
    inner = synthesize(
        hostile.schema(rng), mechanism="cliquetree", epsilon=float(rng.choice([3.0, 20.0]))
    )
    return of_users(rng, _strict(inner, float(rng.normal(0, 3))))


def _strict(inner: Run, bound: float) -> Run:
    """The run, with the mean of the model's differences from independent columns as the bound."""

    def worse(state: CliqueTreeState, final: dict) -> bool:
        alone = state.of_independent
        both = [c for c in final if c in alone]
        return bool(both) and sum(final[c][0] - alone[c][0] for c in both) > bound

    def run(data: pa.Table, folder: Path) -> dict[str, bytes] | None:
        with patch.object(CliqueTreeState, "worse_than_independent", worse):
            return inner(data, folder)

    return run


@world("a prior and users", pairs=4, reaches=(GROUP, "screening 1, public priors"))
def a_prior_and_users(rng: np.random.Generator) -> Scene:
    """A previous release, or public data, steers a run that models its users. Its model then has a column
    about users, which neither has. Users repeat a value in most of their rows or in few."""
    bound = 30
    columns = {"kind": {"kind": "integer", "max": 2}, "zone": {"kind": "integer", "max": 3}}
    user = {"column": "u", "max_rows": bound}
    schema = fastdp.Schema.from_dict({"fastdp": 1, "user": user, "columns": columns})
    moved = float(rng.choice([0.1, 0.5]))

    def rows(rng: np.random.Generator, ids: np.ndarray) -> pa.Table:
        kind = (ids + (rng.random(len(ids)) < moved)) % 3
        return pa.table({"u": ids, "kind": kind, "zone": rng.integers(0, 4, len(ids))})

    def users(rng: np.random.Generator) -> pa.Table:
        return rows(rng, np.repeat(np.arange(300), rng.geometric(0.15, 300)))

    base = users(rng)
    others = []
    for _ in range(NEIGHBOURS):
        own = rows(rng, np.full(int(rng.choice([1, 6, bound, 2 * bound])), hostile.VICTIM))
        own = own.take([0] * own.num_rows) if rng.random() < 0.5 else own
        others.append(hostile.shuffled(rng, pa.concat_tables([base, own])))
    recipe = {"mechanism": "cliquetree", "ids": {"source": "users"}}
    earlier = users(np.random.default_rng(9))
    if rng.random() < 0.5:
        prior = {"public": earlier}
    else:
        call = {"mechanism": recipe, "delta": 1e-5, "epsilon": 10.0, "seed": 1, "threads": 1}
        before = fastdp.synthesize(earlier, schema=schema, **call)
        before.privacy["private"] = True  # the audit fixes the noise by a seed
        prior = {"previous": before}
    epsilon = float(rng.choice([5.0, 20.0]))
    return Scene(base, others, synthesize(schema, mechanism=recipe, epsilon=epsilon, **prior))
