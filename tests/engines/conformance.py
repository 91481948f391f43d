"""What every engine must give: the integers of slow twins, on tables made to trip it.

`check(open_engine)` raises AssertionError where an engine differs. open_engine(source, schema) is a
context manager that gives a `Counter` over the rows of an Arrow table.
"""

import contextlib
import re
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from fastdp import user_views, userkeys as keys
from fastdp.codec.encode import type_problems
from fastdp.domain import Domain
from fastdp.engines import Counter
from fastdp.engines.local import local
from fastdp.errors import DataError, SchemaError, UsageError
from fastdp.numbers import typed
from fastdp.numbers.encoding import ClampedSums
from fastdp.numbers.sums_plan import SumsPlan
from fastdp.release import keyselect
from fastdp.schema import Schema
from fastdp.tables import ingest

from ..builders import schema_with_users
from ..reference import counting as slow
from . import coding_cases, numbers_cases

SIZES = {"a": 5, "b": 300, "c": 2}
CLIQUES = [("a", "b"), ("b", "a"), ("c",), ("b", "c"), ("a",), ()]
NAMES = ["Ann", "ann", "ANN", "ann ", "e\u0301", "\u00e9", "", "Bo", "bo", "\u00df", "ss"]

Open = Callable[[pa.Table, Schema], AbstractContextManager[Counter]]


@dataclass(frozen=True)
class Case:
    """ids: of the rows that count, in order; None where a row is a user of its own."""

    name: str
    source: pa.Table
    schema: Schema
    codes: dict[str, np.ndarray]
    ids: list

    @property
    def owners(self) -> list:
        return [("row", i) if who is None else who for i, who in enumerate(self.ids)]

    def hashes(self) -> dict:
        users = list(dict.fromkeys(who for who in self.ids if who is not None))
        hashes = [slow.id_hash(_written(who)) for who in users]
        alone = {owner: 0 for owner in self.owners if isinstance(owner, tuple)}
        return alone | dict(zip(users, hashes, strict=True))


def _written(who: int | str | float) -> int | str:
    """An id as it is hashed; a float by the number of its bits."""
    return int(np.float64(who + 0.0).view(np.uint64)) if isinstance(who, float) else who


def schema_with(user: str | None, null: str = "drop") -> Schema:
    return Schema.from_domain(SIZES) if user is None else schema_with_users(SIZES, user, null=null)


def case(name: str, ids: list | None, *, null: str = "drop", rows: int = 0, seed: int = 0) -> Case:
    rng = np.random.default_rng(seed)
    rows = rows if ids is None else len(ids)
    codes = {n: (rng.random(rows) ** 2 * size).astype(np.int64) for n, size in SIZES.items()}
    columns = {n: pa.array(column) for n, column in codes.items()}
    if ids is None:
        return Case(name, pa.table(columns), schema_with(None), codes, [None] * rows)
    source = pa.table({**columns, "who": pa.array(ids)})
    ids = [None if who != who else who for who in ids]  # NaN is not an id
    if null == "drop":
        keep = np.array([who is not None for who in ids])
        codes = {n: column[keep] for n, column in codes.items()}
        ids = [who for who in ids if who is not None]
    return Case(name, source, schema_with("who", null), codes, ids)


def cases() -> Iterator[Case]:
    rng = np.random.default_rng(5)
    many = [7] * 400 + (rng.random(500) ** 2 * 60).astype(int).tolist()
    rng.shuffle(many)
    texts = [NAMES[i] for i in rng.integers(0, len(NAMES), 300)]
    holes = [None if rng.random() < 0.3 else int(who) for who in rng.integers(0, 40, 800)]
    yield case("one user with many rows", many)
    yield case("texts that differ in case, blanks and accents", texts, seed=1)
    yield case("null ids, dropped", holes, seed=2)
    yield case("null ids, each a user", holes, null="own", seed=2)
    few = [None if rng.random() < 0.3 else int(who) for who in rng.integers(0, 60, 90)]
    yield case("null ids and users with one row, each a user", few, null="own", seed=6)
    signs = [(0.0, -0.0, 1.5, float("nan"))[i] for i in rng.integers(0, 4, 400)]
    yield case("zeros of both signs and NaN", signs, seed=4)
    yield case("zeros of both signs and NaN, each a user", signs, null="own", seed=4)
    yield case("no users", None, rows=1000, seed=3)
    yield case("no rows", [], null="own")


def same(what: str, result: np.ndarray, want: np.ndarray) -> None:
    assert result.dtype == np.int64 and result.shape == want.shape, f"{what}: another form"
    assert np.array_equal(result, want), f"{what}: other integers"


def check(open_engine: Open, only: Callable[[Case], bool] = lambda case: True) -> None:
    for one in filter(only, cases()):
        with open_engine(one.source, one.schema) as engine:
            assert engine.has_users == (one.schema.user is not None), one.name
            assert engine.schema.digest() == one.schema.digest(), one.name
            check_marginals(one, engine)
            check_users(one, engine)
            check_agreement(one, engine)
            check_disagreement(one, engine)
            check_succession(one, engine)
            check_views(one, engine)


def check_numbers(open_engine: Open, part: int = 0, parts: int = 1) -> None:
    """Sums over users of numbers that were asked for, against the slow twin. part, parts: every so
    manyth question, from that one on."""
    made = numbers_cases.make()
    with open_engine(made.source, numbers_cases.SCHEMA) as engine:
        for question in numbers_cases.QUESTIONS[part::parts]:
            number = typed.check(question, numbers_cases.SCHEMA)
            plan = SumsPlan(number, ClampedSums(number.groups, -(1 << 40), 1 << 40))
            values = numbers_cases.wanted(question, made.rows)[0]
            same(question, engine.user_sums(plan), values)


def check_keys(open_keys: Callable[[pa.Table], AbstractContextManager[Any]]) -> None:
    """Users by value, with every kind of value, ties, rows without an id or a value, values that are
    known: those of the rows read here. open_keys: what key selection reads in place of the rows."""
    rng = np.random.default_rng(3)
    many = 700
    ids = [None if rng.random() < 0.05 else f"n{int(x)}" for x in rng.random(many) ** 2 * 60]
    cities = ["\u00c4", "a", "A", "b b", "\u00df", None, "x\"'"]
    source = pa.table(
        {
            "who": ids,
            "text": [cities[i] for i in rng.integers(0, 7, many)],
            "whole": pa.array(rng.integers(-3, 9, many), pa.int32()),
            "cents": [None if x < 0.2 else round(float(x), 2) for x in rng.random(many) * 2],
            "float": rng.integers(0, 5, many) / 2,
            "truth": rng.random(many) < 0.3,
        }
    )
    asked: list[tuple[str, str, int | None, tuple]] = [
        ("text", "string", None, ()),
        ("text", "string", None, ("a", "\u00df")),
        ("whole", "int64", None, (3, -1)),
        ("whole", "string", None, ()),
        ("whole", "int64", 2, ()),
        ("cents", "float64", 2, ()),
        ("cents", "float64", 1, (15,)),
        ("float", "int64", None, ()),
        ("truth", "bool", None, ()),
    ]
    plain = {"columns": {"whole": {"kind": "integer", "dtype": "int64", "min": 0, "max": 3}}}
    users = [({}, (1,)), ({"user": {"column": "who", "null": "drop"}}, (1, 3))]
    users.append(({"user": {"column": "who", "null": "own"}}, (3,)))
    with open_keys(source) as keys:
        for user, caps in users:
            schema = Schema.from_dict(plain | user)
            for name, dtype, places, known in asked:
                # Without users there is no cap and nothing to tie: some questions are enough.
                if not user and known:
                    continue
                for cap in caps:
                    question = (schema, name, dtype, cap, known, places)
                    wanted = dict(zip(*keyselect.count_keys(source, *question), strict=True))
                    counted = dict(zip(*keyselect.count_keys(keys, *question), strict=True))
                    assert counted == wanted, f"{name} as {dtype}, {user}, cap {cap}: other users"


def coded_schema(names: Collection[str], policy: dict[str, str]) -> Schema | None:
    """A schema of columns of `coding_cases`, each read from a source column of its name; without
    those whose kind does not take the policy."""
    columns = {}
    for name in names:
        entry = {name: {**coding_cases.COLUMNS[name], **policy}}
        if entry[name]["kind"] == "places" and policy["null"] != "code":
            continue  # digits are only counted, and always have a code for nulls
        with contextlib.suppress(SchemaError):
            Schema.from_dict({"columns": entry})
            columns |= entry
    if not columns:
        return None
    return Schema.from_dict({"columns": columns, "user": {"column": "who"}})


def check_codes(
    open_engine: Open,
    kinds: Collection[str] | None = None,
    held: Callable[[pa.Array], pa.Array] = lambda values: values,
) -> dict[str, set[str]]:
    """Codes of every source type by every kind of column and policy. An engine gives the integers of
    the local one, or refuses a column before it reads a row and names engine='local'. Returns the
    columns that it refused, by source type. Columns that drop what overflows are read one at a time,
    since they would drop each other's rows. held: the values that an engine's store can hold."""
    refused: dict[str, set[str]] = {}
    for kind, values in coding_cases.sources().items():
        if kinds is not None and kind not in kinds:
            continue
        values = held(values)
        types = pa.schema([("x", values.type)])
        fields = coded_schema(coding_cases.COLUMNS, coding_cases.POLICIES[0]).fields
        readable = [
            n for n, f in fields.items() if not type_problems([replace(f, source="x")], types)
        ]
        who = pa.array([f"n{i % 5}" for i in range(len(values))])
        source = pa.table({**{name: values for name in readable}, "who": who})
        for policy in coding_cases.POLICIES if kinds is None else coding_cases.POLICIES[1:4]:
            counted = [n for n in readable if n not in refused.get(kind, ())]
            groups = [counted]
            if policy["overflow"] == "drop":
                some = counted if kinds is None else counted[::4]
                groups = [[n] for n in some] if kind in coding_cases.DROPPED else []
            for names in groups:
                told = _refused(open_engine, source, kind, names, policy)
                refused[kind] = refused.get(kind, set()) | told
    return {kind: names for kind, names in refused.items() if names}


def _refused(
    open_engine: Open, source: pa.Table, kind: str, names: list[str], policy: dict[str, str]
) -> set[str]:
    """Compare the columns that an engine counts; those that it refuses."""
    refused: set[str] = set()
    while left := [name for name in names if name not in refused]:
        schema = coded_schema(left, policy)
        if schema is None:
            return refused
        cliques = [tuple(c.name for c in item.parts) for item in schema.fields.values()]
        try:
            with open_engine(source, schema) as engine:
                counted = engine.marginals(cliques, 2)
        except DataError as error:
            found = re.search("column '([a-z]+)'", str(error))
            assert found and "engine='local'" in str(error), f"{kind}: {error}"
            refused.add(found[1])
            continue
        wanted = local(ingest.read(source, schema, threads=1), 1).marginals(cliques, 2)
        for clique in cliques:
            same(f"{clique} from {kind}, {policy}", counted[clique], wanted[clique])
        break
    return refused


def check_marginals(one: Case, engine: Counter) -> None:
    recode = {"b": np.arange(300) // 40, "a": np.array([0, 1, 1, 0, 2])}
    merged = {**SIZES, "b": 8, "a": 3}
    codes = {n: recode[n][column] if n in recode else column for n, column in one.codes.items()}
    for clip in (None, 1, 4):
        weights = slow.row_weights(one.owners, clip)
        plain = engine.marginals(CLIQUES, clip)
        coarse = engine.marginals(CLIQUES, clip, recode=recode)
        for clique in CLIQUES:
            what = f"{one.name}: {clique}, clip {clip}"
            same(what, plain[clique], slow.marginal(SIZES, one.codes, clique, weights))
            same(f"{what}, recoded", coarse[clique], slow.marginal(merged, codes, clique, weights))
        assert engine.marginals([()], clip)[()] == sum(weights), one.name


def check_users(one: Case, engine: Counter) -> None:
    hashes = one.hashes()
    owners = one.owners
    cells = slow.cells_of(SIZES, one.codes, ("a", "c"))
    sizes = [len(rows) for rows in slow.by_user(owners, cells).values()]
    for edges in ((1, 2, 4, 50), (3, 7)):
        want = [sum(e <= n < f for n in sizes) for e, f in zip(edges, (*edges[1:], 1 << 62))]
        told = engine.user_histogram(keys.RowsPerUser(edges), 1)
        same(f"{one.name}: rows per user", told, np.array(want, np.int64))
    for most in (1, 3, 7):
        want = np.array([sum((min(n, most) << 20) // most for n in sizes)], np.int64)
        same(f"{one.name}: rows up to {most}", engine.user_histogram(keys.RowsUpTo(most), 1), want)
    if one.schema.user is not None:
        ids = one.source["who"].to_pylist()
        want = np.array([sum(who is None or who != who for who in ids)], np.int64)
        same(f"{one.name}: rows without an id", engine.user_histogram(keys.WithoutId(8), 1), want)
    want = slow.most_common(owners, cells, hashes, 10)
    same(f"{one.name}: most common", engine.user_histogram(keys.MostCommon(("a", "c")), 1), want)
    for cap in (1, 3):
        want = slow.groups(owners, cells, hashes, 2, list(range(20)), cap)
        same(
            f"{one.name}: groups",
            engine.user_histogram(keys.Groups(("a", "c"), t_max=2), cap),
            want,
        )


def check_agreement(one: Case, engine: Counter) -> None:
    features = (("a",), ("c", "b"), ("a", 2))
    cells = [slow.cells_of(SIZES, one.codes, feature) for feature in features[:2]]
    for edges in ((2,), (2, 3, 20)):
        want = slow.agreement(one.owners, [*cells, [code // 2 for code in cells[0]]], edges)
        same(
            f"{one.name}: agreement",
            engine.user_histogram(keys.Agreement(features, edges), 1),
            want,
        )


def check_disagreement(one: Case, engine: Counter) -> None:
    want = slow.disagreement(one.owners, [one.codes[name].tolist() for name in ("c", "a")])
    told = engine.user_histogram(keys.Disagreement(("c", "a")), 1)
    same(f"{one.name}: disagreement", told, want)


def check_succession(one: Case, engine: Counter) -> None:
    """Ties are many: `c` has two codes."""
    pairs = (("a", "a"), ("b", "b"))
    for key in (
        keys.Succession(("c",), pairs, 2, 2),
        keys.Succession(("c", "a", "b"), pairs, 13, 1, (3, 20)),
    ):
        want = slow.succession(one.owners, one.codes, SIZES, one.hashes(), key)
        same(f"{one.name}: order", engine.user_histogram(key, 1), want)


def check_views(one: Case, engine: Counter) -> None:
    edges = (1, 2, 4, 50)
    name = "rows per user"
    made = slow.user_table(one.owners, one.codes, one.hashes(), ("a", "b"), edges)
    sizes = {"a": 5, "b": 300, name: 4}
    cliques = [("a", "b"), (name, "a"), (name,), ()]
    counted = engine.marginals(cliques, 1, view=user_views.UserTable(edges, columns=("a", "b")))
    for clique in cliques:
        want = slow.marginal(sizes, made, clique, [1 << 20] * len(made[name]))
        same(f"{one.name}: table of users, {clique}", counted[clique], want)
    check_facts(one, engine)
    check_features(one, engine)
    count = {who: len(rows) for who, rows in slow.by_user(one.owners, one.owners).items()}
    group = [max(g for g, edge in enumerate(edges) if edge <= count[who]) for who in one.owners]
    codes = {**one.codes, name: np.array(group, np.int64)}
    recode = {"b": np.arange(300) // 40}
    counted = engine.marginals(
        [(name, "c"), ("b", name)], 4, recode=recode, view=user_views.RowGroups(edges)
    )
    weights = slow.row_weights(one.owners, 4)
    want = slow.marginal({**SIZES, name: 4}, codes, (name, "c"), weights)
    same(f"{one.name}: rows by group", counted[(name, "c")], want)
    codes["b"] = recode["b"][codes["b"]]
    want = slow.marginal({"b": 8, name: 4}, codes, ("b", name), weights)
    same(f"{one.name}: rows by group, recoded", counted[("b", name)], want)


def facts_of_users() -> user_views.UserFacts:
    """Every kind of fact; sums below and above 0, and beyond 2^32."""
    amounts = tuple((-1) ** i * (i << 27) for i in range(5))
    facts = (
        ("begins", "first", "b", (7,), ()),
        ("ends", "last", "b", (300,), ()),
        ("periods", "active", "b", (7,), (2, 3, 5)),
        ("values", "distinct", "a", (), (2, 3)),
        ("spent", "sum", "a", amounts, (-(1 << 30), 0, 1, 1 << 30, 1 << 33)),
        ("each", "mean", "a", amounts, (-(1 << 28), 0, 1 << 28)),
        ("usual", "constant", "c", (), ()),
    )
    return user_views.UserFacts((1, 2, 4, 50), facts=facts)


def check_features(one: Case, engine: Counter) -> None:
    """Values of users in the language of numbers, from codes. A database refuses them."""
    facts = (
        ("spent", "value", "2 * sum(a) - distinct(c)", (), (-3, 0, 1, 4, 9, 30)),
        ("ever", "value", "any(b >= 100 and a != 3)", (), (1,)),
    )
    view = user_views.UserFacts((1, 2, 4, 50), facts=facts)
    try:
        counted = engine.marginals([("spent", "ever")], 1, view=view)[("spent", "ever")]
    except UsageError as refused:
        assert "engine='sql'" in str(refused)
        return
    want = np.zeros((7, 2), np.int64)
    for rows in slow.by_user(one.owners, range(len(one.owners))).values():
        a, b, c = ([int(one.codes[name][r]) for r in rows] for name in "abc")
        spent = sum(edge <= 2 * sum(a) - len(set(c)) for edge in facts[0][4])
        ever = any(y >= 100 and x != 3 for x, y in zip(a, b))
        want[spent, int(ever)] += 1 << 20
    same(f"{one.name}: features of users", counted, want)


def check_facts(one: Case, engine: Counter) -> None:
    view = facts_of_users()
    name = "rows per user"
    made = slow.user_facts(one.owners, one.codes, SIZES, one.hashes(), view)
    sizes = dict(view.domain(Domain(SIZES)))
    cliques = [(fact[0],) for fact in view.facts] + [("begins", "ends"), ("spent", name), ()]
    counted = engine.marginals(cliques, 1, view=view)
    for clique in cliques:
        want = slow.marginal(sizes, made, clique, [1 << 20] * len(made[name]))
        same(f"{one.name}: facts about users, {clique}", counted[clique], want)
