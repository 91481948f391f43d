"""Linked tables with and without one key: the key is one row of the parents' table and one user of
each child's, whatever its rows, and nothing else changes. Planted bugs must be found."""

import itertools
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from fastdp.engines.local import local
from fastdp.measurement import SCALE
from fastdp.schema.linked_schema import LinkedSchema
from fastdp.tables import linked_tables as linking
from fastdp.tables.linked_tables import Links, read_linked
from fastdp.tables.table import Table

VICTIM = 1000


def schema(orphans="drop", null="drop", order=True):
    child = {"parent": "p", "key": "of", "orphans": orphans, "null": null, "max_rows": 50}
    column = {"kind": "integer", "max": 2}
    tables = {
        "p": {"key": "id", "null": null, "columns": {"a": column, "b": column}},
        "c": {**child, "columns": {"x": column, "y": column}} | ({"order": "x"} if order else {}),
        "d": {**child, "columns": {"z": column}, "levels": ["z"]},
    }
    return LinkedSchema.from_dict({"tables": tables})


def world(rng, keys=6):
    """Random tables: duplicate parents, childless parents, orphans and null keys among them."""

    def ids(n, most):
        drawn = rng.integers(0, most, n)
        return pa.array(drawn, mask=rng.random(n) < 0.15)

    def codes(n):
        return pa.array(rng.integers(0, 3, n), mask=rng.random(n) < 0.1)

    n = rng.integers(1, 9)
    m = rng.integers(0, 25)
    k = rng.integers(0, 12)
    return {
        "p": pa.table({"id": ids(n, keys), "a": codes(n), "b": codes(n)}),
        "c": pa.table({"of": ids(m, keys + 3), "x": codes(m), "y": codes(m)}),
        "d": pa.table({"of": ids(k, keys + 3), "z": codes(k)}),
    }


VICTIMS = {
    "all rows in one child": (1, 40, 0),
    "duplicate parents": (5, 3, 2),
    "orphan": (0, 7, 7),
    "childless": (1, 0, 0),
    "beyond the bound": (2, 90, 90),
}


def with_victim(tables, kind, rng):
    """The tables with the rows of one more key, at random places."""
    out = {}
    for (name, table), n in zip(tables.items(), VICTIMS[kind]):
        key, *columns = table.column_names
        more = {key: np.full(n, VICTIM)} | {c: rng.integers(0, 3, n) for c in columns}
        out[name] = pa.concat_tables([table, pa.table(more)]).take(
            rng.permutation(table.num_rows + n)
        )
    return out


def rows(table):
    """Every row with the hash of its user's id and the number of that user's rows."""
    per_user = table.rows_per_user()[table.user]
    columns = [table.user_hash[table.user], per_user, *table.codes.values()]
    return Counter(zip(*(c.tolist() for c in columns)))


def problems(without, present, links, clips=(1, 3)):
    """What contradicts the guarantee in two neighbouring pairs of tables."""
    for i, (before, after) in enumerate(zip(without, present)):
        changed = (rows(after) - rows(before)) + (rows(before) - rows(after))
        if len({row[0] for row in changed}) > 1:
            yield f"table {i}: rows of other keys changed"
        names = list(after.domain)
        cliques = [(n,) for n in names] + list(itertools.combinations(names, 2))
        for clip in (1,) if i == 0 else clips:
            one, two = (local(t, 1).marginals(cliques, clip) for t in (before, after))
            moved = max(int(np.abs(one[c] - two[c]).sum()) for c in cliques)
            if moved > clip * SCALE:
                yield f"table {i}: one key moved {moved / SCALE} rows at clip {clip}"


def neighbours(kind, seed, **policies):
    rng = np.random.default_rng(seed)
    links = Links(schema(**policies))
    tables = world(rng)
    more = with_victim(tables, kind, rng)
    return read_linked(tables, links, 1)[0], read_linked(more, links, 1)[0], links


POLICIES = [{}, {"orphans": "keep"}, {"orphans": "keep", "null": "own"}]


@pytest.mark.parametrize("kind", VICTIMS)
@pytest.mark.parametrize("policies", POLICIES, ids=str)
def test_one_key_is_one_parent_and_one_user_of_each_child(kind, policies):
    for seed in range(5):
        assert list(problems(*neighbours(kind, seed, **policies))) == []


def clip_by_row(table, schema, own, kept, hashes, links, name, made=linking._child):
    """Each row of a child is clipped as a user of its own."""
    child = made(table, schema, own, kept, hashes, links, name)
    hashed = child.user_hash[child.user] if child.rows else np.empty(0, np.uint64)
    each = np.arange(child.rows, dtype=np.uint32)
    return Table(
        schema, child.codes, rows=child.rows, user=each, users=child.rows, user_hash=hashed
    )


def all_duplicates(read, links, hashes, made=linking.link):
    """Every parent row counts, also the second of one key."""
    parents, *children = made(read, links, hashes)
    raw = read["p"]
    codes = {n: c for n, c in raw.codes.items()} | {
        n: np.zeros(raw.rows, np.uint8) for n in (*links.counts.values(), *links.levels["d"])
    }
    user = np.arange(raw.rows, dtype=np.uint32)
    hashed = hashes[raw.user]
    return [
        Table(parents.schema, codes, rows=raw.rows, user=user, users=raw.rows, user_hash=hashed),
        *children,
    ]


def shared_orphans(table, hashes, keys, made=linking.first_rows):
    """An orphan borrows the parent row of the first key."""
    row = made(table, hashes, keys)
    return np.where(row < 0, row.max(initial=-1), row)


def levels_among_all(owner, codes, base, keys, made=linking.level_codes):
    """The level of a key is that of its place among all keys."""
    order = np.argsort(made(owner, codes, base, keys), kind="stable")
    place = np.empty(keys, np.int64)
    place[order] = np.arange(keys)
    return place * linking.LEVELS // max(keys, 1)


@pytest.mark.parametrize(
    ("where", "bug", "kind"),
    [
        ("level_codes", levels_among_all, "duplicate parents"),
        ("_child", clip_by_row, "all rows in one child"),
        ("link", all_duplicates, "duplicate parents"),
        ("first_rows", shared_orphans, "childless"),
    ],
)
def test_planted_bugs_are_found(monkeypatch, where, bug, kind):
    monkeypatch.setattr(linking, where, bug)
    assert any(list(problems(*neighbours(kind, seed))) for seed in range(12))


def test_nothing_depends_on_the_order_of_rows():
    links = Links(schema(orphans="keep"))
    for seed in range(10):
        rng = np.random.default_rng(seed)
        tables = with_victim(world(rng), "duplicate parents", rng)
        mixed = {n: t.take(rng.permutation(t.num_rows)) for n, t in tables.items()}
        one, two = (read_linked(t, links, 1)[0] for t in (tables, mixed))
        assert [rows(t) for t in one] == [rows(t) for t in two]


def test_choosing_by_position_is_found(monkeypatch):
    monkeypatch.setattr(
        linking, "row_hashes", lambda table, hashes: np.arange(table.rows, dtype=np.uint64)
    )
    with pytest.raises(AssertionError):
        test_nothing_depends_on_the_order_of_rows()
