"""What engines make of small tables, piece by piece, as it is kept: rows dealt to partitions and cut into
blobs, fingerprints, messages, plans of what to count, sums, slices of cells, shares of files."""

from __future__ import annotations

import contextlib
import io
import itertools
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fastdp._core import count
from fastdp.domain import Domain
from fastdp.engines import (
    build,
    local,
    messages,
    partitioned,
    pieces,
    plan,
    sparkcheck,
    sparkfiles,
    sparksource,
    sparktasks,
    users,
    worker,
)
from fastdp.errors import DataError, RunError, UsageError
from fastdp.schema import Schema
from fastdp.tables import ingest
from fastdp.tables.ingest import Encoded
from fastdp.tables.spool import SpoolLost
from fastdp.tables.table import Table
from fastdp.tables.userids import UserIndex
from fastdp.userkeys import Groups, MostCommon, RowsPerUser

from .figures import check, given

SECRET = b"0123456789abcdef"
SIZES = {
    "one byte": {"a": 5},
    "seven bytes": {"a": 5, "b": 300, "c": 70_000},
    "eight bytes": {"c": 70_000, "d": 99_999},
    "eleven bytes": {"c": 70_000, "a": 5, "d": 99_999, "b": 300},
}
"""Domains whose codes take as many bytes a row."""
WHO: dict[str, Any] = {
    "nobody": None,
    "numbers": [3, 1 << 40, 3, 7, 7, 7, 1, 0, 3, 5, 1, 9, 2],
    "small numbers": [3, (1 << 32) - 1, 3, 7, 7, 7, 1, 0, 3, 5, 1, 9, 2],
    "next numbers": [3, 1 << 32, 3, 7, 7, 7, 1, 0, 3, 5, 1, 9, 2],
    "texts": ["x", "y", "", "x", "y", "zz", "x", "", "u", "v", "w", "x", "t"],
    "holes": [3, None, 3, 7, None, 7, 1, 0, 3, None, 1, 9, 2],
}


def _codes(sizes: dict[str, int], rows: int = 13) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(2)
    made = {name: rng.integers(0, size, rows) for name, size in sizes.items()}
    return Table.from_codes(sizes, made).codes


def _schema(sizes: dict[str, int], who: Any) -> Schema:
    return Schema.from_domain(sizes, user=None if who is None else "who")


def _encoded(sizes: dict[str, int], who: Any, step: int) -> list[Encoded]:
    """The rows in batches of `step`, each with one row that was dropped, and a batch without rows."""
    codes, out = _codes(sizes), []
    for start in range(0, 13, step):
        user = None
        part = {name: column[start : start + step] for name, column in codes.items()}
        if who is not None:
            user = UserIndex("who", SECRET).prepare(pa.array(who)[start : start + step])
        out.append(Encoded(part, user, len(next(iter(part.values()))), 1))
    return [*out, Encoded({name: column[:0] for name, column in codes.items()}, None, 0, 2)]


def _pieces(name: str) -> Any:
    """Pieces of four partitions, their tables, blobs and fingerprints, at several sizes of each."""
    who, out = WHO[name], []
    for form, sizes in SIZES.items():
        schema = _schema(sizes, who)
        for blob, rows, step in ((1, 1 << 20, 13), (60, 5, 4), (1 << 16, 9, 3)):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(pieces, "BLOB", blob)
                patch.setattr(pieces, "DEAL_ROWS", rows)
                made = list(pieces.dealt(_encoded(sizes, who, step), 4))
                out.append([form, blob, [[p, piece] for p, piece in made]])
                for partition in range(4):
                    joined = pieces.Joined(schema, SECRET)
                    for p, piece in made:
                        if p == partition:
                            joined.add(piece)
                    table = joined.table()
                    out.append([table.rows, table.users, table._dropped, given(lambda: list(table.codes))])
                    out += [pieces.fingerprint(table), list(pieces.blobs(table))]
    return out


def _lengths() -> Any:
    """How many rows the pieces of one partition hold, on both sides of the bytes that two and five rows take;
    ids of two kinds are refused."""
    out: list[Any] = []
    for (form, sizes), (name, who) in itertools.product(SIZES.items(), WHO.items()):
        words = 0 if who is None else 8 * (1 + (name == "texts")) + 9
        width = words + sum(column.itemsize for column in _codes(sizes).values())
        encoded = _encoded(sizes, who, 13)
        with pytest.MonkeyPatch.context() as patch:
            for blob in (2 * width - 1, 2 * width, 5 * width - 1, 5 * width):
                patch.setattr(pieces, "BLOB", blob)
                made = [messages.unpacked(piece) for _, piece in pieces.dealt(encoded, 1)]
                out.append(" ".join(str(piece["rows"]) for piece in made))
        out.append([form, name, sorted(made[0])])
    mixed = [*_encoded(SIZES["one byte"], WHO["texts"], 13), *_encoded(SIZES["one byte"], WHO["holes"], 13)]
    return [*out, given(lambda: list(pieces.dealt(mixed, 2)))]


def _fingerprints() -> Any:
    """Of tables as long as what is hashed together, shorter and longer."""
    out = []
    for sizes, rows in itertools.product(SIZES.values(), (0, 1, 4, 5, 6, 10, 13)):
        codes = _codes(sizes, rows)
        for user in (None, np.arange(rows) // 3):
            table = Table.from_codes(sizes, codes, user=user)
            for together in (1 << 16, 5):
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr(pieces, "HASH_ROWS", together)
                    out.append(pieces.fingerprint(table))
    return out


def _rooms() -> Any:
    """Where blobs are put, in memory or in a file, and the refusals of others than those."""
    out: list[Any] = []
    for sizes, rows in itertools.product(SIZES.values(), (0, 1, 13, 64)):
        for user in (None, np.arange(rows) // 3):
            table = Table.from_codes(sizes, _codes(sizes, rows), user=user)
            head, *rest = list(pieces.blobs(table))
            for most in (rows, rows - 1):
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr(ingest, "SPOOL_ROWS", most)
                    if most < rows or rows:
                        room = pieces.Tables(table.schema, head)
                        places = [[at, str(dtype), length] for at, dtype, length in room._places]
                        out.append([places, room._memory.size, type(room._memory).__name__])
                        out.append(given(lambda: room.table().rows))
                        for blob in rest:
                            out += [given(room.add, blob + b"x"), given(room.add, blob)]
                        out.append(given(lambda: _content(room.table())))
                        out += [
                            given(room.add, b""),
                            given(room.add, b"x"),
                            *(given(room.add, blob) for blob in rest[:1]),
                        ]
    return out


def _content(table: Table) -> Any:
    facts = [table.rows, table.users, table._dropped, table.user, table.user_hash, table.rows_per_user()]
    return [*facts, *table.codes.items()]


def _messages() -> Any:
    out: list[Any] = []
    arrays = [np.arange(3, dtype=d) for d in ("u1", "<i4", "<u8", "<f8")] + [np.empty(0, np.int64)]
    values: list[Any] = [
        *(1, "ü", None, [], {}, [1, [2.5, {"a": True}]], {"a": arrays, "b": {"array": 1, "c": arrays[0]}}),
        *(arrays[1], arrays[1][::2], (1, 2)),
    ]
    for value in values:
        content = messages.packed(value)
        out += [content, given(messages.unpacked, content)]
        for cut in (content[:-1], content[:8], content[:7], b""):
            try:
                messages.unpacked(cut)
                out.append("whole")
            except EOFError:
                out.append("cut short")
    file = io.BytesIO(messages.packed(1) + messages.packed([arrays[0]]) + messages.packed("end"))
    out.append([given(messages.receive, file) for _ in range(3)])
    requests: list[partitioned.Request] = [
        partitioned.MarginalRequest((("a", "b"), ()), 3),
        partitioned.MarginalRequest((("a",),), None, {"a": np.array([0, 1, 1])}),
        *(partitioned.UserRequest(key, cap) for key, cap in _keys()),
    ]
    for request in requests:
        message = messages.of_request(request)
        again = messages.to_request(messages.unpacked(messages.packed(message)))
        out += [message, request.digest(), again.digest(), type(again)]
    answer = partitioned.Answer(3, "d", [(np.array([1, 4]), np.array([7, -2]))])
    out += [messages.of_answer(answer), messages.to_answer(messages.of_answer(answer))]
    for name in ("DataError", "UsageError", "SpoolLost", "ValueError", "FastdpError", "is_whole", ""):
        error = messages.to_error(name, "text")
        out.append([type(error).__name__, str(error)])
    return out


def _keys() -> list[tuple[Any, int]]:
    sizes = Domain({"a": 3, "b": 4})
    keys: list[Any] = [RowsPerUser((1, 2, 4)), MostCommon(("a", "b")), MostCommon(("b",), [0, 1, -1, 1])]
    keys += [Groups(("a",), t_max=2), Groups(("a", "b"), t_max=1, cells=[0, 5, 11])]
    return [(key.bind(sizes), cap) for key in keys for cap in (1, 2)]


def _attempts() -> Any:
    def fail(error: BaseException) -> Any:
        raise error

    errors = [DataError("d"), UsageError("u"), RunError("r"), SpoolLost("s"), MemoryError("m")]
    errors += [ValueError("row"), OSError(28, "row"), OSError("row"), KeyError("row")]
    out = [worker.attempt(lambda error=error: fail(error)) for error in errors]
    out.append(worker.attempt(lambda: 7))
    for asked in ({}, {"sources": ""}, {"platform": ""}, {"kernels": ""}, {"platform": "", "kernels": ""}):
        out.append(given(build.check, {**build.build(), **asked}))
    for number in (0, 1, 1.5, True, "2", sparkcheck.MAX_PARTITIONS, sparkcheck.MAX_PARTITIONS + 1):
        out.append(given(sparkcheck.check_partitions, number))
    for names in (["a.CSV*"], ["a", "b.orc"], ["table:x"], ["table:x", "table:y"], ["a.parquet/", "b*"], []):
        out.append(given(sparksource.format_of, names))
    return out


def _sums() -> Any:
    out: list[Any] = []
    whole, small = np.array([1, 4]), np.array([7, -2])
    tables: list[Any] = [
        *((whole, small), (whole[:0], small[:0]), (whole[::-1], small), (np.array([1, 1]), small)),
        *((np.array([0, 5]), small), (np.array([0, 6]), small), (np.array([-1, 5]), small)),
        *((whole.astype(np.int32), small), (whole, small.astype(float)), (whole, small[:1])),
    ]
    for table in tables:
        for partition, digest, more in ((0, "d", 0), (1, "d", 0), (2, "d", 0), (-1, "d", 0), (0, "e", 0)):
            sums = partitioned.Sums("d", 2, [6])
            one = partitioned.Answer(partition, digest, [table] * (1 + more))
            out += [given(sums.add, one), given(sums.add, one), given(sums.whole)]
        sums = partitioned.Sums("d", 1, [6])
        out.append(given(sums.add, partitioned.Answer(0, "d", [table, table])))
        out += [given(sums.add, partitioned.Answer(0, "d", [table])), given(sums.whole)]
    for sizes in ([], [3], [4], [5], [2, 2], [3, 4, 1], [9]):
        full = [(np.arange(size), np.arange(size) + 10 * size) for size in sizes]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sparktasks, "SLICE", 4)
            out.append(sparktasks.slices(sizes))
            out.append(given(lambda: list(sparktasks.sliced(partitioned.Answer(1, "d", full), sizes))))
    for array in (np.zeros((2, 2), np.int64), np.array([[0, 3], [0, -1]])):
        out.append(partitioned.sparse(array))
    return out


def _plans() -> Any:
    """Plans of passes over rows, and projections with and without a limit for tables that wait."""
    out: list[Any] = []
    sizes = Domain({"a": 3, "b": 4, "c": 2, "d": 5})
    names = tuple(sizes)
    cliques = [c for n in range(5) for c in itertools.combinations(names, n)]
    for chosen in ([()], [("b", "a")], [("d", "a"), ("c", "b"), ("b", "d")], [names], []):
        out.append(given(plan.fuse, sizes, chosen))
    for size in (1 << 16, (1 << 16) - 1):
        out.append(given(plan.fuse, Domain({"a": 1 << 16, "b": size}), [("a", "b")]))
    out += [plan.outer(cliques), plan.outer([()]), plan.outer([("b", "a"), ("a",)])]
    rng = np.random.default_rng(3)
    for have in ([names], [("d", "b", "a"), ("c", "a", "d")]):
        tables = {c: rng.integers(0, 99, sizes.shape(c)) for c in have}
        wanted = [c for c in cliques if any(set(c) <= set(h) for h in have)]
        wanted += [tuple(reversed(c)) for c in wanted if len(c) > 1]
        for most in (0, 11, 12, 1 << 22):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(plan, "PENDING_CELLS", most)
                runs: list[int] = []
                run = plan.Projections.run
                patch.setattr(
                    plan.Projections, "run", lambda self: (runs.append(self._pending), run(self))[1]
                )
                core, levels = count.project, []

                def spied(steps: Any, threads: Any, core: Any = core, levels: Any = levels) -> Any:
                    levels.append([[list(step[1:4]) for step in level] for level in steps])
                    return core(steps, threads)

                patch.setattr(count, "project", spied)
                made = plan.project_all(sizes, tables, wanted)
                out += [runs, levels, [[list(c), t.ravel().tolist()] for c, t in made.items()]]
        arrays = list(made.values())
        shared = [np.shares_memory(x, y) for x, y in itertools.combinations(arrays, 2)]
        out.append([any(shared), all(a.flags.c_contiguous for a in arrays)])
    whole = {names: rng.integers(0, 99, sizes.shape(names))}
    far = [("b", "d"), ("a", "c"), ("d", "b"), ("c",)]
    for most in (0, 19, 20, 39, 40, 59, 60):  # two tables wait on the way to pairs that are not neighbours
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(plan, "PENDING_CELLS", most)
            runs, run = [], plan.Projections.run
            patch.setattr(plan.Projections, "run", lambda self: (runs.append(self._pending), run(self))[1])
            made = plan.project_all(sizes, whole, far)
            out += [runs, [[list(c), t.ravel().tolist()] for c, t in made.items()]]
    return out


def _counted() -> Any:
    """The local engine on both sides of its limits."""
    out: list[Any] = []
    sizes, rows = {"a": 3, "b": 4, "c": 5}, 40
    rng = np.random.default_rng(5)
    codes = {name: rng.integers(0, size, rows) for name, size in sizes.items()}
    for user in (None, rng.integers(0, 9, rows)):
        table = Table.from_codes(sizes, codes, user=user)
        counter = local.local(table, 1)
        for cells, clip, sparse in itertools.product((11, 12), (None, 1, 3), (None, False, True)):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(local, "SPARSE_CELLS", cells)
                made = counter.marginals([("a", "b"), ("b",), ()], clip, sparse)
                out += [[type(m).__name__, given(lambda: m)] for m in made.values()]
        out.append(given(lambda: [m.codes() for m in counter.marginals([("b", "a")], 1, True).values()]))
        for asked in ([("a", "z")], [("a", "a")], []):
            out.append(given(counter.marginals, asked, 1))
        out.append(given(lambda: counter.marginals([("a", "b")], 1, recode={"b": np.array([0, 1, 1, 0])})))
        for key, cap in [*_keys(), (RowsPerUser((1, 3)), 0), (RowsPerUser((1, 3)), 1.5)]:
            for most in (0, 1 << 27):
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr(users, "POSITION_TABLE", most)
                    out.append(given(counter.user_histogram, key, cap))
        for most in (2, 3):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(users, "DENSE_HISTOGRAM", most)
                out.append(given(counter.user_histogram, RowsPerUser((1, 2, 4)), 1))
        unread = Table.from_codes(sizes, codes, user=user)
        del unread.codes["b"]
        out += [given(local.local(unread, 1).marginals, [("a", "b")], 1)]
        out.append(given(local.local(unread, 1).user_histogram, MostCommon(("b",)), 1))
    wide = {f"c{i}": 1 << 16 for i in range(4)}
    table = Table.from_codes(wide, {name: np.array([1, 2, 2, 65_535]) for name in wide})
    for clique in (("c0", "c1", "c2"), tuple(wide)):
        out.append(given(local.local(table, 1).marginals, [clique], 1, None))
    return out


def _shares() -> Any:
    """Row groups of files, divided by their bytes."""
    out: list[Any] = []
    with tempfile.TemporaryDirectory() as place, contextlib.chdir(place):
        rng = np.random.default_rng(6)
        kinds = {"a": "int8", "w": "int64"}
        for name, rows in (("x", 40), ("y", 7), ("z", 0)):
            numbers = rng.integers(0, 99, rows)
            table = pa.table({"a": pa.array(numbers, pa.int8()), "w": pa.array(numbers)})
            pq.write_table(table, f"{name}.parquet", row_group_size=9, compression="none")
        groups = [["x.parquet", n] for n in range(5)] + [["y.parquet", 0], ["z.parquet", 0]]
        sizes = [pq.read_metadata(name).row_group(n).total_byte_size for name, n in groups[:6]]
        files = sorted(str(path) for path in Path(".").glob("*.parquet"))
        total = sum(sizes)
        for tasks in (0, 1, 2, 3, 6, 60):
            for most in (1, sizes[0], sizes[0] + 1, 2 * sizes[0], total - 1, total, 1 << 27):
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr(sparkfiles, "TASK_BYTES", most)
                    lists = sparkfiles._shares(files, kinds, tasks)
                assert lists is not None
                out.append([[f"{path} {n}" for path, n, _ in one] for one in lists])
        out += [sparkfiles._shares(files, {"a": "int16"}, 1), sparkfiles._shares(files, {"b": "int8"}, 1)]
        for names in (["/a/b.parquet"], ["/a/b.parquet", "/a/c.parquet"], [str(Path("x.parquet").resolve())]):
            out.append([p.replace(str(Path(place).resolve()), "HERE") for p in sparkfiles._roots(names)])
        sixth = sparkfiles._shares(files, kinds, 1)
        assert sixth is not None
        made = sparkfiles.parts([group for one in sixth for group in one][1:])
        out.append([[part.where, part.schema.names] for part in made])
        out.append(given(sparkfiles.parts, [("x.parquet", 0, "other")]))
    return out


CASES: dict[str, Any] = {
    **{f"pieces of {name}": lambda name=name: _pieces(name) for name in WHO},
    "lengths of pieces": _lengths,
    "fingerprints": _fingerprints,
    "rooms": _rooms,
    "messages": _messages,
    "attempts": _attempts,
    "sums": _sums,
    "plans": _plans,
    "counted": _counted,
    "shares": _shares,
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_counted_is_what_is_kept(name):
    check("counting", name, CASES[name]())
