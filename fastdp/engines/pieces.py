"""Encoded rows on their way between processes: small pieces, each for one partition, and whole
tables as streams of bytes.

Nothing here depends on the order of rows, which may differ when a task is repeated. A row's
partition is given by the hash of its user's id, or, where it has no id, by the hash of its codes.
"""

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from .._core import bound
from ..domain import code_dtype
from ..errors import DataError
from ..schema import Schema
from ..tables import ingest
from ..tables.ingest import Encoded, Gathering
from ..tables.parts import BATCH_ROWS
from ..tables.table import Table
from ..tables.userids import Prepared, UserIndex
from . import messages

BLOB = 1 << 16
"""Approximate bytes in one row of a back end (such as Spark), which may send thousands of rows at
once."""

DEAL_ROWS = 1 << 20
"""Encoded rows that are collected in memory before they are dealt to partitions together."""

HASH_ROWS = 1 << 16
"""Rows that are hashed together for a fingerprint."""


def by_user(hashes: np.ndarray, partitions: int) -> np.ndarray:
    """int64 partition of each user, by the public hash of its id value."""
    return (hashes % np.uint64(partitions)).astype(np.int64)


def dealt(encoded: Iterable[Encoded], partitions: int) -> Iterator[tuple[int, bytes]]:
    """(partition, piece) for all rows. The numbers of dropped rows and of rows without an id are
    in one piece of partition 0."""
    waiting: list[Encoded] = []
    rows = dropped = null_ids = 0
    for piece in encoded:
        dropped += piece.dropped
        null_ids += piece.null_ids
        rows += piece.rows
        waiting.append(piece)
        if rows >= DEAL_ROWS:
            yield from _deal(waiting, partitions)
            waiting = []
            rows = 0
    yield from _deal(waiting, partitions)
    if dropped or null_ids:
        yield 0, messages.packed({"rows": 0, "dropped": dropped, "null_ids": null_ids})


def _deal(pieces: list[Encoded], partitions: int) -> Iterator[tuple[int, bytes]]:
    """(partition, blob) of pieces: the rows of each user go to one partition, by the hash of the
    id."""
    pieces = [piece for piece in pieces if piece.rows]
    if not pieces:
        return
    names = list(pieces[0].codes)
    columns = [np.concatenate([piece.codes[name] for piece in pieces]) for name in names]
    rows = len(columns[0])
    users = _users([piece.user for piece in pieces if isinstance(piece.user, Prepared)])
    hashes = bound.hash_rows(columns, rows) if users is None else users.hash
    where = by_user(hashes, partitions)
    if users is not None and users.valid is not None:
        where = np.where(users.valid, where, by_user(bound.hash_rows(columns, rows), partitions))
    order = np.argsort(where.astype(np.uint16), kind="stable")  # a radix sort
    columns = [column.take(order) for column in columns]
    exact = [
        np.concatenate([piece.exact[name] for piece in pieces]).take(order)
        for name in pieces[0].exact
    ]
    width = sum(column.itemsize for column in (*columns, *exact))
    kind = {}
    ids: dict[str, np.ndarray] = {}
    if users is not None:
        kind = {"kind": users.kind}
        ids["key"] = users.key.reshape(rows, -1).take(order, axis=0)
        width += 8 * ids["key"].shape[1] + 9
        if ids["key"].shape[1] > 1:
            ids["hash"] = hashes[order]
        elif int(ids["key"].max()) < 1 << 32:
            # Ids of one word are hashed again where they arrive.
            ids["key"] = ids["key"].astype(np.uint32)
        if users.valid is not None:
            ids["valid"] = users.valid[order]
    step = max(1, BLOB // width)
    ends = np.cumsum(np.bincount(where, minlength=partitions))
    for p, end in enumerate(ends.tolist()):
        for start in range(0 if p == 0 else int(ends[p - 1]), end, step):
            part = slice(start, min(start + step, end))
            content = {
                "rows": part.stop - part.start,
                "codes": [column[part] for column in columns],
                "exact": [column[part] for column in exact],
                **kind,
            }
            yield (
                p,
                messages.packed(
                    content | {name: some[part].reshape(-1) for name, some in ids.items()}
                ),
            )


def _users(users: Sequence[Prepared]) -> Prepared | None:
    """The ids of several batches as those of one; DataError if they are of two kinds."""
    if not users:
        return None
    index = UserIndex()
    for one in users:
        index.require_kind(one.kind)
    valid = None
    if any(one.valid is not None for one in users):
        valid = np.concatenate(
            [np.ones(_ids_of(one), np.uint8) if one.valid is None else one.valid for one in users]
        )
    texts = [one.hash for one in users if not one.one_word]
    key = np.concatenate([one.key for one in users])
    hashes = np.concatenate(texts) if texts else None
    return Prepared(users[0].kind, key, None, valid, texts=hashes)


def _ids_of(users: Prepared) -> int:
    """Number of ids of a batch."""
    return len(users.key) // (1 if users.one_word else 2)


class Joined:
    """Collects the pieces of one partition and makes its table. users: numbers the ids of the
    partition."""

    def __init__(self, schema: Schema, users: UserIndex):
        self._names = list(schema.domain)
        self._exact = list(schema.amounts)
        self._gathering = Gathering(schema, None if schema.user is None else users)
        self._waiting: list[Encoded] = []
        self._rows = 0

    def add(self, piece: bytes) -> None:
        message = messages.unpacked(piece)
        codes = dict(zip(self._names, message.get("codes", ()), strict="codes" in message))
        exact = dict(zip(self._exact, message.get("exact", ()), strict="exact" in message))
        user = None
        if "key" in message:
            key = np.ascontiguousarray(message["key"], np.uint64)
            user = Prepared(
                message["kind"], key, None, message.get("valid"), texts=message.get("hash")
            )
        batch = Encoded(
            codes=codes,
            user=user,
            rows=message["rows"],
            dropped=message.get("dropped", 0),
            null_ids=message.get("null_ids", 0),
            exact=exact,
        )
        self._waiting.append(batch)
        self._rows += message["rows"]
        if self._rows >= BATCH_ROWS:
            self._join()

    def _join(self) -> None:
        """Add the pieces that wait to the table, as one piece."""
        pieces = self._waiting
        self._waiting = []
        self._rows = 0
        full = [piece for piece in pieces if piece.rows]
        names = self._names if full else ()
        codes = {name: np.concatenate([piece.codes[name] for piece in full]) for name in names}
        exact = self._exact if full else ()
        numbers = {name: np.concatenate([piece.exact[name] for piece in full]) for name in exact}
        users = _users([piece.user for piece in full if isinstance(piece.user, Prepared)])
        rows = sum(piece.rows for piece in full)
        dropped = sum(p.dropped for p in pieces)
        null_ids = sum(p.null_ids for p in pieces)
        self._gathering.add(Encoded(codes, users, rows, dropped, null_ids, numbers))

    def table(self) -> Table:
        self._join()
        return self._gathering.table()


def fingerprint(table: Table) -> str:
    """A fingerprint of a table's rows that does not depend on their order. It is the sum modulo
    2^64 of a hash of each row's codes, exact numbers and user."""
    columns = list(table.codes.values())
    users = None
    total = 0
    for numbers in table.exact.values():
        words = np.ascontiguousarray(numbers).view(np.uint32).reshape(-1, 2)
        columns += [words[:, 0], words[:, 1]]
    if table.user is not None and table.user_hash is not None:
        users = bound.hash_words(table.user_hash)
    for start in range(0, table.rows, HASH_ROWS):
        part = slice(start, min(start + HASH_ROWS, table.rows))
        content = bound.hash_rows(
            [np.ascontiguousarray(c[part]) for c in columns], part.stop - start
        )
        if users is not None and table.user is not None:
            content = bound.hash_words(content ^ users[table.user[part]])
        total += int(content.sum(dtype=np.uint64))
    return f"{table.rows}-{table.users}-{table.null_ids}-{total % (1 << 64):016x}"


def _layout(schema: Schema, rows: int, users: int) -> list[tuple[tuple[str, ...], np.dtype, int]]:
    """Name, type and length of a table's arrays, wide types first: each begins at a multiple of its
    width."""
    kinds: list[tuple[tuple[str, ...], np.dtype, int]]
    kinds = [(("codes", name), code_dtype(size), rows) for name, size in schema.domain.items()]
    kinds += [(("exact", name), np.dtype(np.int64), rows) for name in schema.amounts]
    if schema.user is not None:
        words = np.dtype(np.uint32)
        longs = np.dtype(np.uint64)
        kinds += [(("user",), words, rows), (("hash",), longs, users), (("rows",), words, users)]
    return sorted(kinds, key=lambda kind: -kind[1].itemsize)


def blobs(table: Table) -> Iterator[bytes]:
    """A table as a head and the bytes of its columns, `BLOB` at a time."""
    arrays: dict[tuple[str, ...], Any] = {
        ("user",): table.user,
        ("hash",): table.user_hash,
        ("rows",): table.rows_per_user(),
    }
    arrays |= {("codes", name): codes for name, codes in table.codes.items()}
    arrays |= {("exact", name): numbers for name, numbers in table.exact.items()}
    head = {
        "rows": table.rows,
        "users": table.users,
        "dropped": table._dropped,
        "null_ids": table.null_ids,
    }
    yield messages.packed({**head, "fingerprint": fingerprint(table)})
    for name, _, _ in _layout(table.schema, table.rows, table.users):
        content = np.ascontiguousarray(arrays[name]).view(np.uint8).reshape(-1)
        for start in range(0, len(content), BLOB):
            yield content[start : start + BLOB].tobytes()


class Tables:
    """Rebuilds a table from its blobs, which are added in order."""

    def __init__(self, schema: Schema, head: bytes):
        self.schema = schema
        self.head = messages.unpacked(head)
        self._kinds = _layout(schema, self.head["rows"], self.head["users"])
        size = sum(dtype.itemsize * length for _, dtype, length in self._kinds)
        self._memory = _room(size, self.head["rows"] > ingest.SPOOL_ROWS)
        self._filled = 0

    def add(self, blob: bytes) -> None:
        end = self._filled + len(blob)
        if end > len(self._memory):
            raise DataError(
                "a partition's codes are longer than when they were first read; nothing was counted. "
                "Give a source that does not change during the run"
            )
        self._memory[self._filled : end] = np.frombuffer(blob, np.uint8)
        self._filled = end

    def table(self) -> Table:
        """Raise DataError if blobs are missing."""
        if self._filled != len(self._memory):
            raise DataError("a partition's codes are incomplete; nothing was counted")
        arrays = {}
        at = 0
        for name, dtype, length in self._kinds:
            end = at + dtype.itemsize * length
            arrays[name] = self._memory[at:end].view(dtype)
            at = end
        codes = {name: arrays["codes", name] for name in self.schema.domain}
        user = arrays.get(("user",))
        hashes = arrays.get(("hash",))
        exact = {name: arrays["exact", name] for name in self.schema.amounts}
        table = Table(
            self.schema,
            codes,
            rows=self.head["rows"],
            users=self.head["users"],
            dropped=self.head["dropped"],
            null_ids=self.head["null_ids"],
            user=user,
            user_hash=hashes,
            exact=exact,
        )
        table._rows_per_user = arrays.get(("rows",))
        return table


def _room(size: int, large: bool) -> np.ndarray:
    """Bytes to fill: in memory, or mapped from a file without a name."""
    if not large:
        return np.empty(size, np.uint8)
    with tempfile.TemporaryFile(prefix="fastdp-") as file:
        file.truncate(size)
        return np.memmap(file, np.uint8, mode="r+", shape=(size,))
