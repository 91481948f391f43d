"""What sessions answer, charge and state, and what domains are found in small tables, for seeded noise, as it
is kept."""

from __future__ import annotations

import contextlib
import copy
import itertools
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import fastdp
from fastdp import Schema
from fastdp.engines.local import local
from fastdp.measurement import Request
from fastdp.privacy import clip as clip_rules
from fastdp.privacy import statement
from fastdp.queries import Binned, Identity, Weighted
from fastdp.release import keyselect
from fastdp.release.reserve import BudgetRequest, Reserved, chooses, clip_for, reserve, with_domain
from fastdp.userkeys import Groups, MostCommon, RowsPerUser

from .figures import check, given, plain

SIZES = {"a": 3, "b": 4}


def _schema(user: bool, **options: Any) -> Schema:
    document = Schema.from_domain(SIZES).to_dict()
    if user:
        document["user"] = {"column": "who", "max_rows": 9, **options}
    return Schema.from_dict(document)


def _rows(user: bool) -> pa.Table:
    rng = np.random.default_rng(1)
    who = rng.integers(0, 40, 300) ** 2 // 40
    table = pa.table({"a": rng.integers(0, 3, 300), "b": rng.integers(0, 4, 300), "who": who})
    return table if user else table.select(["a", "b"])


MASKED = ("versions", "id", "second", "ledger")


def _masked(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: "-" if k in MASKED else _masked(v) for k, v in value.items()}
    return [_masked(v) for v in value] if isinstance(value, list | tuple) else value


ASKS: dict[str, tuple[bool, list[BudgetRequest]]] = {
    "users": (True, [BudgetRequest(epsilon=2.0, delta=1e-6, clip=3)]),
    "all rows": (True, [BudgetRequest(epsilon=2.0, delta=1e-6)]),
    "private clip": (True, [BudgetRequest(epsilon=2.0, delta=1e-6, clip="private")]),
    "rows": (False, [BudgetRequest(epsilon=2.0, delta=1e-6, clip=5, method="classic-rdp")]),
    "events": (True, [BudgetRequest(epsilon=2.0, delta=1e-6, clip=3, unit="event")]),
    "pure": (True, [BudgetRequest(epsilon=2.0, delta=0.0, clip=2)]),
    "two": (True, [BudgetRequest(epsilon=e, delta=1e-6, clip=2) for e in (0.5, 1.5)]),
}


def _calls(session: Any, mu: float) -> Iterator[Any]:
    """Every kind of question, some refused, in order."""
    one, two = np.full(3, 90.0), np.full((3, 4), 25.0)
    queries = [None, Identity(12), Weighted([1] * 12, 2), Binned((3, 4), [None, [0, 0, 1, 1]])]
    requests = [Request(("a", "b"), mu / 4, query) for query in queries] + [Request(("b",), mu / 8)]
    yield lambda: session.choose_clip([1.0, 2.5], mu=mu / 5, label="clip")
    yield lambda: session.clip
    yield lambda: session.measure(requests, "first")
    yield lambda: session.measure([], "nothing")
    yield lambda: session.measure(
        [Request(("b", "a"), mu / 9)], "merged", recode={"b": np.array([0, 1, 1, 0])}
    )
    yield lambda: session.measure([Request(("z",), mu / 9)], "no column")
    yield lambda: session.measure([Request(("a",), mu * 2)], "too much")
    yield lambda: session.measure([Request(("a",), mu / 9)], "")
    for key, cap in ((RowsPerUser((1, 2, 4)), 1), (MostCommon(("a",)), 1), (Groups(("a",), t_max=2), 3)):
        yield lambda: session.user_histogram(key, cap, mu=mu / 7, label="users")
        yield lambda: session.user_histogram(key, cap, epsilon=0.1, label="pure users")
    estimates = {("a",): one, ("a", "b"): two, ("b",): np.array([80.0, 70, 75, 75])}
    cliques = list(estimates)
    yield lambda: session.distances(cliques, estimates, mu=mu / 6, label="far")
    yield lambda: session.distances(cliques, estimates, mu=mu / 6, label="weighed", weights=[1.0, 2.0, 0.5])
    for options in (
        {},
        {"weights": [1.0, 0.5, 3.0]},
        {"penalties": [0.0, 40.0, 3.0]},
        {"allowed": [2, 0]},
        {"allowed": []},
        {"allowed": [3]},
        {"weights": [1.0]},
        {"weights": [0.0, 1.0, 1.0]},
        {"penalties": [1.0]},
        {"penalties": [float("inf"), 0.0, 0.0]},
    ):
        yield lambda: session.select_l1(cliques, estimates, epsilon=0.2, label="select", **options)
    yield lambda: session.select(cliques, estimates, epsilon=0.05, label="again")
    yield lambda: session.choose_clip([1.0], mu=mu / 9, label="once more")
    yield lambda: setattr(session, "mu", 9.0)
    yield lambda: copy.copy(session)


def _sessions(name: str) -> Any:
    """Answers, charges, what is left after each, the statement, and the points of each step."""
    user, asks = ASKS[name]
    traced: list[str] = []
    table = fastdp.read(_rows(user), _schema(user))
    held = reserve(_schema(user), asks, seed=11, _trace=traced.append)
    out: list[Any] = []
    sessions = held.sessions(local(table, 1))
    for session in sessions:
        facts = [session.mu, session.pure, session.epsilon, session.delta, session.unit, session.private]
        out += [facts, dict(session.asked), session.cap, repr(session)]
        for call in _calls(session, session.mu or 0.5):
            traced.clear()
            out.append([given(call), " ".join(traced), session.left, session.clip_choice])
        out.append(session.releases)
    for only in [None, 0]:
        out.append(_masked(held.statement(mechanism={"name": "none"}, notes=["n"], only=only)))
    entry = held.reservation.describe()["entry"]
    out.append([[step["part"], step["label"], step["events"], step["draws"]] for step in entry["steps"]])
    held.finish()
    return out


def _refused() -> Any:
    """Budgets, clips and engines that do not fit."""
    out: list[Any] = []
    ask = partial(BudgetRequest, delta=1e-6)
    for options in (
        {"epsilon": 0.0},
        {"epsilon": float("inf")},
        {"epsilon": 1.0, "delta": -1e-9},
        {"epsilon": 1.0, "delta": 1.0},
        {"epsilon": 1.0, "delta": 0.0},
        {"epsilon": 1.0, "unit": "row"},
        {"epsilon": 1.0, "clip": "all"},
        {"epsilon": 1.0, "pure": True},
        {"epsilon": 1.0, "method": "classic-gaussian"},
    ):
        out.append(given(lambda: (lambda a: [a, a.cap(), a.described()])(ask(**options))))
    for user, unit, clip in itertools.product((True, False), ("user", "event"), (None, 1, 4, 0, "private")):
        schema, asked = _schema(user), ask(epsilon=1.0, unit=unit, clip=clip)
        out.append(
            [given(clip_for, schema, asked), chooses(schema, asked), given(with_domain, schema, [asked])]
        )
    schema = _schema(True)
    for asks, options in (
        ([], {}),
        ([ask(epsilon=1.0), BudgetRequest(epsilon=1.0, delta=1e-7)], {"seed": 1}),
        ([ask(epsilon=1.0), ask(epsilon=1.0, unit="event")], {"seed": 1}),
        ([ask(epsilon=1.0)], {"seed": 1.5}),
        ([ask(epsilon=1.0)], {"seed": 1, "ledger": "x.db"}),
        ([ask(epsilon=1.0)], {"dataset": "d"}),
        ([ask(epsilon=600.0)], {}),
    ):
        out.append(given(lambda: reserve(schema, asks, **options).run))
    held = reserve(schema, [ask(epsilon=1.0)], seed=3)
    out.append(given(held.sessions, local(fastdp.read(_rows(False), _schema(False)), 1)))
    table = fastdp.read(_rows(True), schema)
    table.user = None
    out.append(given(held.sessions, local(table, 1)))
    return out


@contextlib.contextmanager
def _engine(source: Any, traced: list[Any], schema: Schema) -> Iterator[Any]:
    traced.append("opened")
    yield local(fastdp.read(source, schema), 1)
    traced.append("closed")


def _people() -> pa.Table:
    rng = np.random.default_rng(6)
    who = np.sort(rng.integers(0, 900, 4000))
    day = np.datetime64("2020-01-01") + rng.integers(0, 200, 4000)
    return pa.table(
        {
            "who": pa.array(who, mask=rng.random(4000) < 0.02),
            "word": rng.choice(["red", "green", "blue", "odd"], 4000, p=[0.5, 0.3, 0.19, 0.01]),
            "code": pa.array(rng.integers(0, 4, 4000) * 10, pa.int16()),
            "money": np.round(rng.normal(40, 9, 4000), 1),
            "age": pa.array(rng.integers(18, 80, 4000), mask=rng.random(4000) < 0.2),
            "few": np.where(rng.random(4000) < 0.9, 7, rng.integers(0, 900, 4000)),
            "day": pa.array(day),
            "spike": np.where(
                rng.random(4000) < 0.97, 1234.5 + rng.normal(0, 0.01, 4000), rng.normal(0, 1e9, 4000)
            ),
        }
    )


PENDING: dict[str, Any] = {
    "word": {"kind": "string", "domain": "private"},
    "code": {"kind": "categorical", "dtype": "int16", "domain": "private"},
    "money": {"kind": "numeric", "dtype": "float64", "domain": "private", "bins": 6},
    "age": {"kind": "numeric", "dtype": "int32", "domain": "private", "min": 0, "max": 120, "bins": 5},
    "few": {"kind": "numeric", "dtype": "int64", "domain": "private", "bins": 5},
    "day": {"kind": "numeric", "dtype": "date32", "domain": "private", "bins": 4},
}
PENDING["spike"] = {"kind": "numeric", "dtype": "float64", "domain": "private", "bins": 3}
LEARNT: dict[str, Any] = {
    "words": (["word", "code"], {"max_rows": 12}, {"clip": 3}),
    "words of events": (["word"], None, {"unit": "event"}),
    "words of rows": (["word", "code"], None, {}),
    "words, no bound": (["code"], {}, {"clip": "private"}),
    "numbers": (["money", "age"], {"max_rows": 12}, {"clip": 3}),
    "numbers of events": (["money"], None, {"unit": "event"}),
    "numbers of rows": (["money", "day"], None, {}),
    "numbers, no bound": (["few"], {}, {"clip": "private"}),
    "crowded": (["age", "spike"], None, {}),
    "own users": (["word", "age"], {"null": "own", "max_rows": 12}, {}),
}


def _learnt(name: str) -> Any:
    """The steps that find a domain: charges, releases, the finished schema, what is left."""
    columns, user, options = LEARNT[name]
    document: dict[str, Any] = {"columns": {c: PENDING[c] for c in columns}}
    if user is not None:
        document["user"] = {"column": "who", **user}
    source, schema = _people(), Schema.from_dict(document)
    traced: list[str] = []
    asks = [BudgetRequest(epsilon=e, delta=1e-5, **options) for e in (1.0, 8.0)]
    held: Reserved = reserve(schema, asks, seed=5, _trace=traced.append)
    early = given(
        held.sessions, local(fastdp.read(source.select(["code"]), Schema.from_domain({"code": 99})), 1)
    )
    noise: list[Any] = []
    with pytest.MonkeyPatch.context() as patch:
        spied = clip_rules.unit_noise
        patch.setattr(
            clip_rules, "unit_noise", lambda mu, bins: noise.append([mu, list(bins)]) or spied(mu, bins)
        )
        found = held.learn(source, partial(_engine, source, traced), lambda: traced.append("check"))
    assert held.learnt is not None
    learning = held.learnt
    out: list[Any] = [early, held.caps, held.clips, " ".join(traced), noise, found.to_dict()]
    out += [learning.releases, learning.described(), learning.left, learning.steps, learning.clip]
    entry = held.reservation.describe()["entry"]
    out.append([[step["part"], step["label"], step["events"], step["draws"]] for step in entry["steps"]])
    sessions = held.sessions(local(fastdp.read(source, found), 1))
    first = columns[0]
    out += [[s.mu, s.left, s.releases[-1:]] for s in sessions]
    out += [given(s.measure, [Request((first,), s.mu / 2)], "ones") for s in sessions]
    out.append(_masked(held.statement()))
    held.finish()
    return out


def _keys() -> Any:
    """Users by value, their choice among many values, and lists that pass the threshold."""
    out: list[Any] = []
    table = _people()
    text = table.set_column(2, "code", table["code"].cast(pa.string()))
    for user, null, cap in itertools.product((True, False), ("drop", "own"), (1, 2, 9)):
        document: dict[str, Any] = {"columns": {"word": {"kind": "string", "values": ["x"]}}}
        if user:
            document["user"] = {"column": "who", "null": null}
        schema = Schema.from_dict(document)
        for source in (table, table.slice(0, 5), table.slice(0, 0)):
            keys, counts = keyselect.count_keys(source, schema, "word", "string", cap)
            out.append([keys, counts])
        for epsilon, delta in ((1.0, 1e-5), (0.05, 1e-9)):
            call = partial(keyselect.select_keys, table, schema, "word", epsilon=epsilon, delta=delta)
            made = given(
                lambda: (lambda k: [k.values, k.users, _masked(k.statement)])(call(keys_per_user=cap, seed=2))
            )
            out.append(made)
    document = {
        "columns": {"code": {"kind": "categorical", "dtype": "int32", "values": [1], "names": ["one"]}}
    }
    schema = Schema.from_dict(document)
    call = partial(keyselect.select_keys, schema=schema, column="code", seed=2, epsilon=1.0, delta=1e-5)
    for source in (table, text, table.select(["word"]), table.set_column(2, "code", table["money"])):
        out.append(given(lambda: (lambda k: [k.values, k.apply(schema).to_dict()])(call(source))))
    for odd in (
        {"keys_per_user": 0},
        {"threshold_share": 0.0},
        {"threshold_share": 1.0},
        {"epsilon": 0.0},
        {"delta": 1.0},
        {"delta": 0.0},
        {"column": "none"},
        {"ledger": "x.db"},
        {"dataset": "d"},
        {"seed": None, "epsilon": 60.0},
        {"threshold_share": 0.9},
    ):
        out.append(given(lambda: (lambda k: [k.values, _masked(k.statement)])(call(table, **odd))))
    arrays: list[pa.Array] = [
        *(pa.array(["7", " 8", "-0", "x", None, "9" * 19, "9" * 18, "1.0"]), pa.array([b"7", b"\xff", None])),
        *(pa.array([1.0, 2.5, float("nan"), 2.0**53, -(2.0**53) + 1, None]), pa.array([True, False, None])),
        *(pa.array([2**63 - 1, 2**63, None], pa.uint64()), pa.array([1, -1], pa.int8())),
        *(pa.array(["a", "b", "a"]).dictionary_encode(), pa.array([b"12", b"ab"], pa.binary(2))),
        pa.nulls(2),
    ]
    for array, dtype in itertools.product(arrays, ("string", "int32")):
        out.append([str(array.type), given(keyselect.keys_of, array, dtype)])
    return out


def _changed_releases() -> Any:
    """What is wrong with a release of every kind of which one or two facts are others."""
    gaussian, threshold = {"law": "gaussian", "mu": 0.5}, {"law": "threshold", "mu": 0.5, "delta": 1e-7}
    pure, chosen = {"law": "pure", "epsilon": 0.5}, {"law": "bounded-range", "epsilon": 0.5}
    bar = statement.least_threshold(6.0, 4, 1e-7)
    releases: list[dict[str, Any]] = [
        {"kind": "marginal", "law": "gaussian", "event": gaussian, "sensitivity": 3, "sigma": 6.0},
        {"kind": "grid", "law": "gaussian", "event": gaussian, "sensitivity": 3, "sigma": 6.0, "clip": 3},
        {
            "kind": "user_histogram",
            "law": "gaussian",
            "event": gaussian,
            "sensitivity": 2.0,
            "sigma": 4.0,
            "cap": 4,
        },
        {
            "kind": "user_histogram",
            "law": "discrete-laplace",
            "event": pure,
            "sensitivity": 4,
            "sigma": 12.0,
            "cap": 4,
        },
        {"kind": "keys", "law": "threshold", "event": threshold, "sensitivity": 2.0, "sigma": 6.0, "cap": 4},
        {"kind": "distances", "law": "gaussian", "event": gaussian, "sensitivity": 3 * 1.5, "sigma": 9.0},
        {"kind": "select", "law": "exponential", "event": chosen, "sensitivity": 3.0, "sigma": None},
        {
            "kind": "schema",
            "law": "none",
            "event": {"law": "gaussian", "mu": 0.0},
            "sensitivity": 0.0,
            "sigma": None,
        },
    ]
    releases[4]["threshold"] = bar
    releases[5]["weights"] = [1, 2, 2]
    out: list[Any] = [bar]
    for release in releases:
        base = {"label": "l", "count": 3, **release}
        problems = list(statement._release_problems(base, 3))
        out.append([base["kind"], base["law"], problems])
        others: dict[str, list[Any]] = {}
        for name, value in base.items():
            if isinstance(value, int | float):
                others[name] = [value + 1, value - 1, value * 2, 0, -value, True, float(value)]
                others[name] += [value * (1 + d) for d in (2e-9, -2e-9, 5e-10, -5e-10, 1e-13, -1e-13)]
        others["event"] = [gaussian, threshold, pure, chosen, {"law": "gaussian", "mu": 0.0}]
        others["event"] += [
            e | {k: e[k] * (1 + d)} for e, k in ((gaussian, "mu"), (pure, "epsilon")) for d in (1e-6, -1e-6)
        ]
        others["law"], others["kind"] = ["gaussian", "none", "threshold"], ["grid", "schema", "keys"]
        others["weights"] = [[1, 1, 1], [1, 2], [2, 4, 4], [0, 2, 2], [1.0, 2, 2], [1, 2, 2, 0]]
        pairs = [[(n, v)] for n in others for v in others[n]]
        for two in (("sensitivity", "cap"), ("sensitivity", "clip"), ("count", "weights")):
            if all(name in others and name in base for name in two):
                pairs += [[(two[0], v), (two[1], w)] for v in others[two[0]][:7] for w in others[two[1]][:7]]
        for changes in pairs:
            found = given(lambda: list(statement._release_problems({**base, **dict(changes)}, 3)))
            if found != problems:
                out.append([base["kind"], [[n, repr(v)] for n, v in changes], found])
        out += [[clip, given(lambda: list(statement._release_problems(base, clip)))] for clip in (1, 2, 4)]
    return out


CASES: dict[str, Any] = {
    **{f"sessions of {name}": partial(_sessions, name) for name in ASKS},
    **{f"found: {name}": partial(_learnt, name) for name in LEARNT},
    "refused": _refused,
    "changed releases": _changed_releases,
    "keys": _keys,
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_asked_gives_what_is_kept(name):
    check("asking", name, plain(CASES[name]()))
