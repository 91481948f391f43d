"""The worlds: kinds of runs that the replay audit goes through. See the package's docstring."""

import contextlib
import copy
import csv
import io
import itertools
import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import fastdp
from fastdp import user_views, userkeys
from fastdp.engines.engine import OpenCounter
from fastdp.engines.local import local
from fastdp.engines.partitioned import PartitionedCounter
from fastdp.measurement import Request
from fastdp.mechanisms import registry
from fastdp.mechanisms.cliquetree import target_sets
from fastdp.mechanisms.cliquetree.target_sets import ModelRows, SetsOfTarget
from fastdp.mechanisms.with_users import user_questions
from fastdp.numbers import typed
from fastdp.numbers.declared import Declared
from fastdp.numbers.measure_numbers import measure_numbers
from fastdp.privacy.ledger import Reservation
from fastdp.privacy.unit import Unit
from fastdp.queries import Sparse
from fastdp.release.half_sets import HalfSets
from fastdp.release.reserve import BudgetRequest, reserve
from fastdp.run import counter, execute

from ...engines.test_partitioned import Held, split_by_user
from . import hostile

Run = Callable[[Any, Path], dict[str, bytes] | None]
"""Does one run on some data and writes under a folder; returns more that it releases."""


@dataclass
class Scene:
    """One table, its neighbours (each differs from it by one unit of privacy), and the run.
    `on_disk`: the run needs its own ledger as a file, to be resumed."""

    data: Any
    neighbours: list
    run: Run
    on_disk: bool = False


@dataclass(frozen=True)
class World:
    """`pairs`: how many a seed of `make test-slow` goes through, and `make test` some of these;
    `make(rng)` makes a scene. `reaches`: texts in labels or released files of the rare path that the
    world is there for; a test sees that runs have them."""

    name: str
    pairs: int
    make: Callable[[np.random.Generator], Scene]
    reaches: tuple[str, ...] = ()


WORLDS: dict[str, World] = {}
NEIGHBOURS = 4
"""Neighbours of one table: run A is done once for all of them."""


def world(name: str, pairs: int, reaches: tuple[str, ...] = ()) -> Callable[[Callable], Callable]:
    """Register a world under a name."""

    def register(make: Callable[[np.random.Generator], Scene]) -> Callable:
        assert name not in WORLDS, f"there is a world {name!r} already"
        WORLDS[name] = World(name, pairs, make, reaches)
        return make

    return register


def synthesize(schema: Any = None, **options: Any) -> Run:
    """A run of `fastdp.synthesize`; its rows and its view are released too."""
    given = {"delta": 1e-5, "threads": 1, "ignore_empty_columns": True} | options

    def run(data: Any, folder: Path) -> dict[str, bytes]:
        made = fastdp.synthesize(
            data, schema=schema, progress=False, sample_seed=5, out=folder / "out", **given
        )
        runs = made if isinstance(made, list) else [made]
        return {f"run {i}": repr(one).encode() for i, one in enumerate(runs)}

    return run


MECHANISMS: dict[str, dict[str, Any]] = {
    "archetypes": {
        "features": ["n", "x"],
        "trait": "g",
        "chain": [{"target": "t", "given": ["n"]}],
        "habits": ["n"],
        "archetypes": 3,
    },
    "usercounts": {"columns": ["n", "g"]},
}
"""What recipes of these mechanisms need; others take their defaults."""
COLUMNS = {"usercounts": "ng"}
PUBLIC = {"archetypes"}
"""Mechanisms that need public data."""


def public_rows() -> pa.Table:
    """Public data: a table like the private ones, the same in every scene."""
    return hostile.made(np.random.default_rng(7), (np.arange(80) // 3).tolist(), wild=0.0)


def mechanism_options(name: str, rng: np.random.Generator) -> dict[str, Any]:
    """A recipe and options of `synthesize` for a mechanism; a new one is used with its defaults."""
    options: dict[str, Any] = {"epsilon": float(rng.choice([0.5, 3.0, 20.0]))}
    options["mechanism"] = {"mechanism": name} | MECHANISMS.get(name, {})
    if name in PUBLIC:
        options["public"] = public_rows()
    return options


def with_any_facts(run: Run) -> Run:
    """The run, which asks about users also where what it would learn is worth little."""

    def asking(data: Any, folder: Path) -> dict[str, bytes] | None:
        with patch.object(user_questions, "LEAST_FACTS", -math.inf):
            return run(data, folder)

    return asking


def of_users(rng: np.random.Generator, run: Run, **facts: Any) -> Scene:
    """A scene over a table of users, each neighbour with one hostile user more or less."""
    base = hostile.rows(rng)
    return Scene(base, hostile.neighbours(rng, base, NEIGHBOURS), run, **facts)


def _mechanism(name: str) -> Callable[[np.random.Generator], Scene]:
    def make(rng: np.random.Generator) -> Scene:
        schema = hostile.schema(rng, COLUMNS.get(name, "ngxt"))
        return of_users(rng, synthesize(schema, **mechanism_options(name, rng)))

    return make


for _name in registry.names():
    world(f"mechanism {_name}", pairs=8)(_mechanism(_name))


@world("clip given", pairs=8)
def clip_given(rng: np.random.Generator) -> Scene:
    """A clip below the bound on rows, with the noise of older calibrations among others."""
    name = str(rng.choice(["mst", "adagrid", "tworound"]))
    recipe = {"mechanism": name, "clip": int(rng.integers(1, 4))}
    recipe["calibration"] = str(rng.choice(["gdp", "classic-rdp"]))
    return of_users(rng, synthesize(hostile.schema(rng), mechanism=recipe, epsilon=1.0))


@world("order", pairs=4)
def order(rng: np.random.Generator) -> Scene:
    """Users whose rows have an order: `Succession`, agreement, groups of users."""
    schema = hostile.schema(rng, order=str(rng.choice(["n", "t"])))
    return of_users(rng, synthesize(schema, mechanism="cliquetree", epsilon=20.0))


@world("table about users", pairs=4)
def table_about_users(rng: np.random.Generator) -> Scene:
    """Users are chosen by a released table of facts about them (`UserFacts`), some of them by the
    owner: it is asked for in tables as small as these too. Or they are chosen by quoted numbers too."""
    order = str(rng.choice(["n", "t"]))
    own = {"spent": "sum(x)", "ever": "any(g = 'a')", "kinds": "distinct(g) * rows"}
    features = {name: own[name] for name in own if rng.random() < 0.5}
    schema = hostile.schema(rng, amounts=["x"], order=order, features=features)
    asked = ["count of users", "sum(x) where x > 0", "share of users where rows > 1"]
    numbers = {"numbers": asked} if rng.random() < 0.5 else {}
    run = synthesize(schema, mechanism="cliquetree", epsilon=20.0, **numbers)
    return of_users(rng, with_any_facts(run))


@world("columns of two values", pairs=4, reaches=("contrasts of triples",))
def two_values(rng: np.random.Generator) -> Scene:
    """No column has more than two values, or it has codes for others that no row has: contrasts of all
    columns, pairs and triples are released."""
    user = {"column": "u", "max_rows": hostile.MOST_ROWS, "null": str(rng.choice(["drop", "own"]))}
    epsilon = float(rng.choice([10.0, 40.0]))
    others = str(rng.choice(["drop", "code"]))
    columns = {n: {"kind": "integer", "max": 1, "null": others, "overflow": others} for n in "ngxt"}
    schema = fastdp.Schema.from_dict({"fastdp": 1, "columns": columns, "user": user})
    inner = synthesize(schema, mechanism="cliquetree", epsilon=epsilon)

    def run(data: pa.Table, folder: Path) -> dict[str, bytes] | None:
        above = {"n": 1, "g": "a", "x": 15.0, "t": 1_650_000_000_000_000}
        values = {n: (data[n].cast(pa.int64()) if n == "t" else data[n]).to_pylist() for n in above}
        own = {n: pa.array([int(v is not None and v > above[n]) for v in values[n]]) for n in above}
        return inner(pa.table({"u": data["u"]} | own), folder)

    return of_users(rng, run)


@world("private domain", pairs=6)
def private_domain(rng: np.random.Generator) -> Scene:
    """Nothing is known but the types: kinds, bounds, values, clips and sums are found. In half of the
    scenes amounts lie far apart beside zeros and whole numbers are clock times, so that cells which
    earlier rounds overlooked are counted again."""
    epsilon = float(rng.choice([20.0, 30.0]))
    spread = rng.random() < 0.5
    inner = synthesize(None, domain="private", user="u", mechanism="mst", epsilon=epsilon)

    def run(data: pa.Table, folder: Path) -> dict[str, bytes] | None:
        if spread:  # each row by itself, so neighbours stay neighbours
            x = [_spread(value) for value in data["x"].to_pylist()]
            clock = [None if v is None else 100 * (v % 24) + v % 60 for v in data["n"].to_pylist()]
            data = data.set_column(data.schema.get_field_index("x"), "x", pa.array(x, pa.float64()))
            at = data.schema.get_field_index("n")
            data = data.set_column(at, "n", pa.array(clock, pa.int64()))
        return inner(data, folder)

    return of_users(rng, run)


def _spread(value: float | None) -> float | None:
    """A number as zero, or as one of up to 18 powers of ten of either sign."""
    if value is None or not math.isfinite(value) or abs(value) > 100:
        return value
    if value < 15:
        return 0.0
    return (-1) ** int(value) * 10.0 ** (value % 18 - 6)


@world("private columns", pairs=8)
def private_columns(rng: np.random.Generator) -> Scene:
    """Some columns, atoms and means are found; the others are public."""
    plain = hostile.schema(rng).to_dict()
    plain["columns"]["x"] |= {"means": "private", "digits": 2, "max": 100}
    if rng.random() < 0.5:
        plain["columns"]["x"] |= {"atoms": "private"}
    if rng.random() < 0.7:
        plain["columns"]["g"] = {"kind": "string", "domain": "private"}
    schema = fastdp.Schema.from_dict(plain)
    return of_users(rng, synthesize(schema, mechanism="mst", epsilon=20.0))


@world("public data", pairs=8)
def public_data(rng: np.random.Generator) -> Scene:
    """Public data steers what is measured."""
    name = str(rng.choice(["adagrid", "cliquetree", "mst"]))
    run = synthesize(hostile.schema(rng), mechanism=name, public=public_rows(), epsilon=2.0)
    return of_users(rng, run)


@world("last release", pairs=4)
def last_release(rng: np.random.Generator) -> Scene:
    """The last release of a series steers what is measured: rows of another table, by now public."""
    schema = hostile.schema(rng, "ngx")
    name = str(rng.choice(["cliquetree", "mst"]))
    earlier = hostile.made(np.random.default_rng(8), (np.arange(60) // 3).tolist(), wild=0.0)
    call = {"mechanism": name, "delta": 1e-5, "epsilon": 5.0, "seed": 1, "threads": 1}
    before = fastdp.synthesize(earlier, schema=schema, **call, ignore_empty_columns=True)
    before.privacy["private"] = True  # the audit fixes the noise by a seed
    return of_users(rng, synthesize(schema, mechanism=name, previous=before, epsilon=5.0))


@world("several epsilons", pairs=4)
def several(rng: np.random.Generator) -> Scene:
    """Two epsilons in one reservation: one folder each."""
    name = str(rng.choice(["mst", "adagrid", "cliquetree"]))
    return of_users(rng, synthesize(hostile.schema(rng), mechanism=name, epsilon=[0.5, 2.0]))


@world("rows without users", pairs=8)
def rows(rng: np.random.Generator) -> Scene:
    """Every row is its own user."""
    base = hostile.rows(rng)
    schema = hostile.schema(rng, column=None)
    run = synthesize(schema, mechanism=str(rng.choice(["mst", "cliquetree"])), epsilon=1.0)
    return Scene(base, hostile.one_row(rng, base, NEIGHBOURS), run)


@world("unit event", pairs=8)
def events(rng: np.random.Generator) -> Scene:
    """The unit is one user's rows of one group."""
    base = hostile.rows(rng)
    recipe = {"mechanism": "usercounts", "columns": ["n", "g"], "unit": "event"}
    delta = float(rng.choice([0.0, 1e-5]))
    run = synthesize(hostile.schema(rng, "ng"), mechanism=recipe, epsilon=1.0, delta=delta)
    return Scene(base, hostile.one_group(rng, base, NEIGHBOURS), run)


@world("partitioned engine", pairs=4)
def partitioned(rng: np.random.Generator) -> Scene:
    """The engine that Spark uses: partitions of whole users, here in this process."""
    partitions = int(rng.choice([1, 3, 20]))
    inner = synthesize(hostile.schema(rng), mechanism="cliquetree", epsilon=3.0, threads=2)

    def run(data: pa.Table, folder: Path) -> dict[str, bytes] | None:
        def opened(source, schema, options):
            held = Held(split_by_user(data, schema, partitions), options.threads)
            return OpenCounter(PartitionedCounter(schema, held), None, held.close, {})

        with (
            patch.object(counter, "open_counter", opened),
            patch.object(execute, "open_counter", opened),
        ):
            return inner(data, folder)

    return of_users(rng, run)


@world("threads and batches", pairs=8)
def batches(rng: np.random.Generator) -> Scene:
    """Three threads, and a Parquet file of row groups of two rows, or an Arrow table of as many
    chunks."""
    inner = synthesize(hostile.schema(rng), mechanism="cliquetree", epsilon=3.0, threads=3)
    in_file = bool(rng.random() < 0.5)

    def run(data: pa.Table, folder: Path) -> dict[str, bytes] | None:
        if not in_file:
            return inner(
                pa.Table.from_batches(data.to_batches(max_chunksize=2), data.schema), folder
            )
        pq.write_table(data, folder / "in.parquet", row_group_size=2)
        return inner(folder / "in.parquet", folder)

    return of_users(rng, run)


@world("text files", pairs=4)
def text_files(rng: np.random.Generator) -> Scene:
    """Lines of a CSV file, malformed ones and bytes that are not text among the user's."""
    plain = hostile.schema(rng, "ngx").to_dict()
    dialect = {"malformed": str(rng.choice(["drop", "null"]))}
    run = synthesize(fastdp.Schema.from_dict(plain | {"dialect": dialect}), epsilon=2.0)
    base = hostile.rows(rng)
    lines = text_lines(base)
    others = []
    for _ in range(NEIGHBOURS):
        own = text_lines(hostile.victim(rng, base))
        odd = [f'{hostile.VICTIM},"open', f"{hostile.VICTIM},1,a\x00,2,9,9", f"{hostile.VICTIM}"]
        own += [str(line) for line in rng.choice(odd, int(rng.integers(0, 3)))]
        own = [line.encode() + (b"\xff\xfe" if rng.random() < 0.1 else b"") for line in own]
        others.append(_mixed(rng, lines, own))
    given = [line.encode() for line in lines]

    def run_on(data: list[bytes], folder: Path) -> dict[str, bytes] | None:
        (folder / "in.csv").write_bytes(b"\n".join([b"u,n,g,x", *data]) + b"\n")
        return run(folder / "in.csv", folder)

    return Scene(given, others, run_on)


@world("text of other forms", pairs=8)
def other_text(rng: np.random.Generator) -> Scene:
    """Files whose lines depend on each other (quoted line ends, UTF-16): correctly written ones, as
    the statement assumes."""
    plain = hostile.schema(rng, "ngx").to_dict()
    utf16 = bool(rng.random() < 0.5)
    dialect = {"encoding": "utf-16"} if utf16 else {"newlines": True}
    run = synthesize(fastdp.Schema.from_dict(plain | {"dialect": dialect}), epsilon=2.0)

    def run_on(data: pa.Table, folder: Path) -> dict[str, bytes] | None:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["u", "n", "g", "x"])
        for row in data.select(["u", "n", "g", "x"]).to_pylist():
            if not utf16 and row["g"] == "new":
                row["g"] = 'two\nlines, "quoted"'
            writer.writerow(list(row.values()))
        encoding = "utf-16" if utf16 else "utf-8"
        (folder / "in.csv").write_bytes(text.getvalue().encode(encoding))
        return run(folder / "in.csv", folder)

    return of_users(rng, run_on)


def text_lines(table: pa.Table) -> list[str]:
    """Lines of the columns u, n, g, x."""
    out = []
    for row in table.select(["u", "n", "g", "x"]).to_pylist():
        out.append(",".join("" if v is None else str(v) for v in row.values()))
    return out


def _mixed(rng: np.random.Generator, lines: list[str], own: list[bytes]) -> list[bytes]:
    every = [line.encode() for line in lines] + own
    return [every[i] for i in rng.permutation(len(every))]


LINKED = {
    "customers": {
        "key": "id",
        "dtype": "int64",
        "columns": {
            "land": {"kind": "string", "values": ["DE", "FR"]},
            "age": {"kind": "integer", "max": 5},
        },
    },
    "orders": {
        "parent": "customers",
        "key": "of",
        "max_rows": 5,
        "columns": {
            "month": {"kind": "integer", "min": 1, "max": 4},
            "item": {"kind": "string", "values": ["a", "b"]},
        },
    },
}


@world("linked tables", pairs=8)
def linked(rng: np.random.Generator) -> Scene:
    """One key: its row (or rows, or none) in the parents' table and its rows in the child's."""
    plain = copy.deepcopy(LINKED)
    plain["orders"]["orphans"] = str(rng.choice(["drop", "keep"]))
    if rng.random() < 0.5:
        plain["orders"]["order"] = "month"
    schema = fastdp.LinkedSchema.from_dict({"fastdp": 1, "tables": plain})
    people = int(rng.integers(0, 30))
    orders = int(rng.integers(0, 60))
    base = _linked_rows(rng, list(range(people)), rng.integers(0, 35, orders).tolist())
    others = []
    for _ in range(NEIGHBOURS):
        parents = int(rng.choice([0, 1, 1, 3]))
        children = int(rng.choice([0, 1, 5, 40]))
        more = _linked_rows(rng, [hostile.VICTIM] * parents, [hostile.VICTIM] * children)
        others.append(
            {n: hostile.shuffled(rng, pa.concat_tables([base[n], more[n]])) for n in base}
        )
    return Scene(base, others, synthesize(schema, epsilon=float(rng.choice([1.0, 10.0]))))


def _linked_rows(rng: np.random.Generator, ids: list[int], of: list[int]) -> dict[str, pa.Table]:
    def drawn(values: list, size: int, kind: pa.DataType) -> pa.Array:
        return pa.array([values[i] for i in rng.integers(0, len(values), size)], kind)

    return {
        "customers": pa.table(
            {
                "id": pa.array(ids, pa.int64()),
                "land": drawn(["DE", "FR", "FR", None, "XX"], len(ids), pa.string()),
                "age": drawn([0, 1, 2, 5, 9, None], len(ids), pa.int64()),
            }
        ),
        "orders": pa.table(
            {
                "of": pa.array(of, pa.int64()),
                "month": drawn([1, 2, 3, 4, 4, -7, None], len(of), pa.int64()),
                "item": drawn(["a", "b", "b", None, "new"], len(of), pa.string()),
            }
        ),
    }


@world("resumed", pairs=8)
def resumed(rng: np.random.Generator) -> Scene:
    """A run that is killed after any of its steps and resumed: stored answers are not drawn again,
    and what is asked next follows from them as before."""
    mechanism = [
        {"mechanism": "mst", "clip": 3},
        {"mechanism": "cliquetree", "target": "n"},
        {"mechanism": "adagrid", "clip": 3, "outer": [["n", "g"], ["x"]]},
    ][rng.integers(3)]
    asked = [str(text) for text in rng.choice(ASKED, int(rng.integers(3)), replace=False)]
    at = int(rng.choice([1, 2, 3, 5, 8, 13]))
    schema = hostile.schema(rng)
    given = {"mechanism": mechanism, "epsilon": 30.0, "numbers": asked or None}
    first = synthesize(schema, **given)
    second = synthesize(schema, **given, resume=True)

    def run(data: pa.Table, folder: Path) -> dict[str, bytes] | None:
        real = Reservation.store
        stored = itertools.count(1)

        def dies(*arguments):
            answers = real(*arguments)
            if next(stored) == at:
                raise KeyboardInterrupt
            return answers

        with patch.object(target_sets, "threshold", lambda looks: -99.0):
            with patch.object(Reservation, "store", dies), suppress(KeyboardInterrupt):
                return first(data, folder)  # it has fewer steps
            return second(data, folder)

    return of_users(rng, run, on_disk=True)


@world("select_keys", pairs=12)
def keys(rng: np.random.Generator) -> Scene:
    """Values of one column by `fastdp.select_keys`."""
    column = str(rng.choice(["n", "g"]))
    most = int(rng.choice([1, 3, 20]))
    plain = hostile.schema(rng).to_dict()
    plain["columns"][column] = {
        "kind": "categorical",
        "dtype": "int64" if column == "n" else "string",
        "values": [0] if column == "n" else ["a"],
    }
    schema = fastdp.Schema.from_dict(plain)

    def run(data: pa.Table, folder: Path) -> dict[str, bytes]:
        found = fastdp.select_keys(
            data, schema, column, epsilon=2.0, delta=1e-3, keys_per_user=most
        )
        return {"keys": repr((found.values, found.users.tolist(), found.statement)).encode()}

    return of_users(rng, run)


@world("session", pairs=60)
def session(rng: np.random.Generator) -> Scene:
    """Random calls of every method of a session, in any order, without a mechanism."""
    schema = hostile.schema(rng)
    calls = [_call(rng, schema) for _ in range(6)]
    clip = int(rng.choice([1, 2, hostile.MOST_ROWS, 100]))

    def run(data: pa.Table, folder: Path) -> dict[str, bytes]:
        ask = BudgetRequest(epsilon=5.0, delta=1e-5, clip=clip)
        reserved = reserve(schema, [ask])
        (one,) = reserved.sessions(local(fastdp.read(data, schema, threads=1), 1))
        answers = [
            call(one, one.mu * math.sqrt(1 / len(calls)), f"call {i}")
            for i, call in enumerate(calls)
        ]
        return {"answers": repr(answers).encode(), "statement": repr(reserved.statement()).encode()}

    return of_users(rng, run)


@world("sets of a target", pairs=16)
def sets_of_a_target(rng: np.random.Generator) -> Scene:
    """The search for sets of a target and three or four columns: picks among all of them, each
    checked. Rows are counted by bits, or set by set where an engine has no such count."""
    names = [f"c{i}" for i in range(7)]
    columns = {a: {"kind": "integer", "min": 0, "max": 3} for a in names}
    user = {"column": "u", "max_rows": hostile.MOST_ROWS}
    schema = fastdp.Schema.from_dict({"fastdp": 1, "user": user, "columns": columns})
    clip = int(rng.choice([1, 2, 4, hostile.MOST_ROWS]))
    by_bits = bool(rng.random() < 0.7)
    accepts = bool(rng.random() < 0.5)

    def run(data: pa.Table, folder: Path) -> dict[str, bytes]:
        reserved = reserve(schema, [BudgetRequest(epsilon=5.0, delta=1e-5, clip=clip)])
        engine = local(fastdp.read(data, schema, threads=1), 1)
        (one,) = reserved.sessions(engine if by_bits else OnlyMarginals(engine))
        domain = schema.modelled
        recode = {a: (np.arange(n) >= 2).astype(np.int64) for a, n in domain.items()}
        bits = {a: np.arange(128) >> i & 1 for i, a in enumerate(domain)}
        search = SetsOfTarget(one, domain, "c6", recode, ModelRows(bits, 30.0, threads=1))
        # picks that are refused end the search; accepted ones lead to the next question
        with (
            patch.object(target_sets, "threshold", lambda looks: -99.0 if accepts else 3.0),
            patch.object(target_sets, "BEYOND_SUBSETS", -99.0 if accepts else 1.5),
        ):
            found = search.search()
        about = [(s.clique, s.distance) for s in found], search.spent
        return {"sets": repr(about).encode(), "statement": repr(reserved.statement()).encode()}

    base = _coded_rows(rng, (rng.random(40) ** 2 * 12).astype(np.int64), len(names))
    others = []
    for _ in range(NEIGHBOURS):
        own = np.full(int(rng.choice([1, 3, hostile.MOST_ROWS, 40])), hostile.VICTIM)
        more = _coded_rows(rng, own, len(names), alike=bool(rng.random() < 0.7))
        others.append(hostile.shuffled(rng, pa.concat_tables([base, more])))
    return Scene(base, others, run)


@world("runs with a target", pairs=2)
def runs_with_a_target(rng: np.random.Generator) -> Scene:
    """Whole runs that look for sets of a target. What is picked decides what is measured next, and
    users are told apart by all that a run does: some by groups, by a chosen clip, or with weights of
    their own."""
    names = [f"c{i}" for i in range(6)]
    columns = {a: {"kind": "integer", "min": 0, "max": 3, "null": "code"} for a in names}
    unit = {} if rng.random() < 0.2 else {"user": {"column": "u", "max_rows": hostile.MOST_ROWS}}
    schema = fastdp.Schema.from_dict({"fastdp": 1, "columns": columns} | unit)
    recipe = {"mechanism": "cliquetree", "target": "c5"}
    recipe |= {"clip": int(rng.choice([1, 3, 50]))} if unit and rng.random() < 0.5 else {}
    accepts = bool(rng.random() < 0.7)
    inner = synthesize(schema, mechanism=recipe, epsilon=float(rng.choice([10.0, 40.0])))

    def run(data: pa.Table, folder: Path) -> dict[str, bytes] | None:
        with (
            patch.object(target_sets, "threshold", lambda looks: -99.0 if accepts else 3.0),
            patch.object(target_sets, "BEYOND_SUBSETS", -99.0 if accepts else 1.5),
            patch.object(target_sets, "SAMPLE", 256),
        ):
            return inner(data, folder)

    base = _coded_rows(rng, (rng.random(60) ** 2 * 12).astype(np.int64), len(names))
    others = []
    for _ in range(NEIGHBOURS):
        count = int(rng.choice([1, 3, hostile.MOST_ROWS, 40])) if unit else 1
        more = _coded_rows(
            rng, np.full(count, hostile.VICTIM), len(names), bool(rng.random() < 0.7)
        )
        others.append(hostile.shuffled(rng, pa.concat_tables([base, more])))
    return Scene(base, others, run)


def _coded_rows(
    rng: np.random.Generator, ids: np.ndarray, columns: int, alike: bool = False
) -> pa.Table:
    """Rows of these users with small whole numbers; `alike`: all rows are the same."""
    drawn = rng.integers(0, 4, (1 if alike else len(ids), columns))
    codes = np.broadcast_to(drawn, (len(ids), columns))
    return pa.table({"u": ids} | {f"c{i}": codes[:, i].copy() for i in range(columns)})


class OnlyMarginals:
    """An engine that counts set by set, as those of clusters and databases do."""

    def __init__(self, engine: Any):
        self.schema = engine.schema
        self.has_users = engine.has_users
        self.marginals = engine.marginals


ASKED = (
    "sum(x)",
    "sum(x) by g",
    "mean(x)",
    "mean(x) by g",
    "count of rows by n, g",
    "share of rows where x > 10",
    "sum(max(x) - min(x)) per user",
    "median(sum(x)) per user",
    "quantile(rows, 0.9) per user",
    "count of users",
    "count of users where sum(x) > 20",
    "count of users by n, g",
    "share of users where rows > 1",
    "share of users where any(x > 10) by g",
)
"""Numbers of every kind: each goes through every encoding that measures it."""


@world("numbers", pairs=12)
def numbers(rng: np.random.Generator) -> Scene:
    """Numbers asked for before a run, with declared signs, maxima and bounds: what is chosen between two
    releases (caps, rough means, ranges, withheld groups) is part of the later questions."""
    schema = hostile.schema(rng)
    asked = [typed.check(str(text), schema) for text in rng.choice(ASKED, 4, replace=False)]
    signed = bool(rng.random() < 0.5)
    maxima = [int(m) or None for m in rng.choice([0, 0, 300, 10_000], 4)]
    allowed = [int(m) or None for m in rng.choice([0, 3, 500, 100_000], 4)]
    declared = [Declared(signed, m, a) for m, a in zip(maxima, allowed, strict=True)]
    exact = sorted({name for number in asked for name in number.amounts})
    epsilon = float(rng.choice([5.0, 30.0]))  # at 30 a dozen users stand out: tails are modelled

    def run(data: pa.Table, folder: Path) -> dict[str, bytes]:
        reserved = reserve(schema, [BudgetRequest(epsilon=epsilon, delta=1e-5, clip=3)])
        table = fastdp.read(data, schema, threads=1, exact=exact)
        (one,) = reserved.sessions(local(table, 1))
        found = measure_numbers(one, asked, declared, mu=one.mu * 0.9, seed=5, users=12)
        return {"numbers": repr(found).encode(), "statement": repr(reserved.statement()).encode()}

    return of_users(rng, run)


def _call(rng: np.random.Generator, schema: fastdp.Schema) -> Callable:
    """One call of a session, drawn at random: call(session, mu, label)."""
    domain = schema.modelled
    columns = list(domain)
    pairs = [tuple(p) for p in itertools.combinations(columns, 2)]
    a, b = pairs[rng.integers(len(pairs))]
    estimates = {p: rng.normal(0, 5, domain.cells(p)) for p in pairs}
    weights = rng.uniform(0.1, 3, len(pairs)).tolist()
    merged = {a: rng.integers(0, 2, domain[a])} if domain[a] > 1 else None
    if merged is not None:
        merged[a][:2] = [0, 1]
    signs = {name: np.arange(domain[name]) % 3 - 1 for name in columns}
    query = random_query(rng, domain.cells((a, b)))
    user_keys = [
        (userkeys.RowsPerUser((1, 2, 5)), 1),
        (userkeys.RowsUpTo(int(rng.integers(1, 9))), 1),
        (userkeys.WithoutId(4), 1),
        (userkeys.MostCommon((a, b)), 1),
        (userkeys.Groups((a, b), t_max=2), int(rng.integers(1, 5))),
        (userkeys.Agreement(((a,), (b,), (a, b)), (2, 4)), 1),
        (userkeys.Disagreement((a, b)), 1),
        (userkeys.Succession((a,), ((a, a), (b, b)), 4, 2), 1),
    ]
    key, cap = user_keys[rng.integers(len(user_keys))]
    *halves, options = _half_sets(rng, {n: size for n, size in domain.items() if size > 1})
    views = [
        (user_views.UserTable((1, 2, 4), columns=(a, b)), a),
        (user_views.RowGroups((1, 3)), a),
        (user_views.UserFacts((1, 2, 4), facts=(_fact(rng, a, domain[a]),)), "fact"),
    ]
    view, of_view = views[rng.integers(len(views))]

    def measured(s, mu, label):
        requests = [
            Request((a,), mu * 0.6),
            Request((a, b), mu * 0.5, query),
            Request((b,), mu * 0.6),
        ]
        return [m.values.tolist() for m in s.measure(requests, label)]

    def recoded(s, mu, label):
        return s.measure([Request((a,), mu)], label, recode=merged)[0].values.tolist()

    def users(s, mu, label):
        return s.user_histogram(key, cap, mu=mu, label=label).values.tolist()

    def selected(s, mu, label):
        return s.select_l1(pairs, estimates, epsilon=mu, label=label, weights=weights)

    def half_set(s, mu, label):
        return s.select_half_set(*halves, epsilon=mu, label=label, **options)

    def distances(s, mu, label):
        return s.distances(pairs, estimates, mu=mu, label=label, weights=weights).values.tolist()

    def vectors(s, mu, label):
        guesses = s.guesses([(a, b), (b, a)], mu=mu * 0.7, label=f"{label}, guesses")
        contrasts = s.contrasts(pairs, signs, mu=mu * 0.7, label=f"{label}, contrasts")
        return guesses.values.tolist(), contrasts.values.tolist()

    def filtered(s, mu, label):
        made = s.filtered((a, b), mu=mu, lifted=0.5, label=label)
        return made.cells.tolist(), made.values.tolist()

    def viewed(s, mu, label):
        part = s.part(1.0, view)
        return part.measure([Request((of_view, view.name), mu)], label)[0].values.tolist()

    every = [measured, recoded, users, users, users, selected, half_set, distances, vectors]
    every += [filtered, viewed]
    return every[rng.integers(len(every))]


def _half_sets(rng: np.random.Generator, sizes: dict[str, int]) -> tuple:
    """(sets of columns in two groups each, estimates, options) of a selection, drawn at random."""
    width = int(rng.integers(1, len(sizes) + 1))
    members = np.array(list(itertools.combinations(range(len(sizes)), width)))
    sets = HalfSets(tuple(sizes), members)
    options = {
        "penalties": rng.normal(0, 3, len(members)),
        "allowed": np.append(np.flatnonzero(rng.random(len(members)) < 0.8), 0),
        "recode": {n: (np.arange(k) >= rng.integers(1, k)) * 1 for n, k in sizes.items()},
    }
    return sets, rng.normal(0, 5, (len(members), sets.cells)), options


def _fact(rng: np.random.Generator, column: str, size: int) -> tuple:
    """A fact about users, drawn at random: (name, kind, column, numbers, edges)."""
    kind = str(rng.choice(user_views.FACTS))
    if kind in ("sum", "mean"):
        numbers = tuple(int(x) for x in rng.integers(-5, 50, size))
        return "fact", kind, column, numbers, (-3, 1, 10, 40, 200)
    if kind == "value":
        text = str(rng.choice(["rows", f"distinct(`{column}`)", f"distinct(`{column}`) * rows"]))
        return "fact", kind, text, (), (1, 2, 3)
    if kind in ("first", "last", "active"):
        return "fact", kind, column, (int(rng.integers(1, size + 1)),), (1, 2, 3)
    return "fact", kind, column, (), (1, 2, 3)


def random_query(rng: np.random.Generator, cells: int) -> Any:
    """A query whose columns have L2 norms of at most 1: signed whole numbers over a unit."""
    rows = rng.integers(-2, 3, (4, cells))
    norm = max(1, math.isqrt(int((rows**2).sum(axis=0).max()) - 1) + 1)
    return Sparse(rows, norm)


def user_months(rng: np.random.Generator, zone: str | None, columns: str = "ngxt") -> fastdp.Schema:
    """A schema whose unit is one user in one month of `t`. Of its releases about users, some are
    asked for by an order, by amounts and by a private column."""
    facts = {"order": str(rng.choice(["n", "t"])), "amounts": ["x"]} if "t" in columns else {}
    plain = hostile.schema(rng, columns, **facts).to_dict()
    plain["unit"] = {"kind": "user-period", "period": "month", "of": "t"}
    plain["unit"] |= {} if zone is None else {"zone": zone}
    if "g" in columns and rng.random() < 0.4:
        plain["columns"]["g"] = {"kind": "string", "domain": "private"}
    if zone is not None and "t" in columns:
        plain["columns"]["t"] |= {"dtype": "timestamp[us, tz=UTC]"}
    return fastdp.Schema.from_dict(plain)


def in_zone(rng: np.random.Generator) -> tuple[str | None, pa.Table]:
    """A zone, or none, and a table whose times are of it."""
    zone = [None, "America/New_York", "Asia/Kathmandu"][rng.integers(3)]
    base = hostile.rows(rng)
    return zone, base if zone is None else hostile.zoned(base)


@world("user and month", pairs=6)
def user_and_month(rng: np.random.Generator) -> Scene:
    """The unit is one user in one month; that user may have rows of other months."""
    zone, base = in_zone(rng)
    name = str(rng.choice(["cliquetree", "mst", "adagrid"]))
    run = with_any_facts(synthesize(user_months(rng, zone), mechanism=name, epsilon=20.0))
    return Scene(base, hostile.one_user_month(rng, base, NEIGHBOURS, zone), run)


@world("series", pairs=6)
def series(rng: np.random.Generator) -> Scene:
    """One month of a series, charged in a ledger. The neighbour has one user's rows of one month
    more or less, or a user with rows of any months."""
    zone, base = in_zone(rng)
    schema = user_months(rng, zone, "nx")
    month = [(2020, 9), (2021, 1), (2022, 2), None][rng.integers(4)]
    name = "none" if month is None else f"{month[0]}-{month[1]:02d}"
    inner = synthesize(
        schema.with_period(None),
        mechanism="mst",
        epsilon=5.0,
        ledger="budget.db",
        series="s",
        period=name,
    )

    def run(data: pa.Table, folder: Path) -> dict[str, bytes] | None:
        ledger = fastdp.Ledger(folder / "budget.db")
        unit = Unit.of(schema)
        ledger.open("s", epsilon=20.0, delta=1e-4, keys=5e-5, periods=2, unit=unit)
        with contextlib.chdir(folder):
            return inner(data, folder)

    others = hostile.one_user_month(rng, base, NEIGHBOURS - 1, zone, month)
    others += hostile.neighbours(rng, base, 1) if zone is None else []
    return Scene(base, others, run, on_disk=True)
