"""Maps user ids of any type to dense numbers, batch by batch. `idvalues` says which ids are equal.

Whole numbers, dates, times and floats are compared exactly as 64-bit words. Strings, binaries and
decimals are compared by a 128-bit keyed hash (csrc/bound_ids.c says why that is safe). Each user
also has a public hash of the *value* of the id. Every random choice among the rows of one user is
keyed by this hash, so that no choice depends on other users in the table. It is the first 8 bytes
of the SHA-256 of a text, or of the digits of a number, so that databases can compute it
(docs/explain/ties.md). It is computed once for each user.
"""

from __future__ import annotations

import contextlib
import secrets
import threading
from typing import Any

import numpy as np
from msgspec import Struct

from .._core import bound
from .._core.team import Team
from .._util.arrow import decoded, of_numpy
from .._util.lazy import pa, pc
from ..errors import DataError
from . import idvalues
from .sql import column_of_objects


class Prepared(Struct, frozen=True, eq=False):
    """Ids of one batch, not yet looked up. strings: offsets and bytes of texts; texts: public hashes
    of texts, where only these are known. Both are None for ids of one word. codes: for a dictionary
    array, the position of each row's id among the distinct values."""

    kind: str
    key: np.ndarray
    strings: tuple[np.ndarray, np.ndarray] | None
    valid: np.ndarray | None
    codes: np.ndarray | None = None
    texts: np.ndarray | None = None

    @property
    def one_word(self) -> bool:
        """Whether the key of an id is its value."""
        return self.strings is None and self.texts is None

    @property
    def hash(self) -> np.ndarray:
        """Public hashes of the ids."""
        if self.texts is not None:
            return self.texts
        if self.strings is not None:
            return bound.string_hashes(*self.strings)
        return bound.word_hashes(self.key, is_signed(self.kind))


def is_signed(kind: str) -> bool:
    """Whether ids of one word of this kind are numbers with a sign."""
    return kind not in ("uint64", "float")


class Found(Struct, frozen=True, eq=False):
    """Ids of one batch with places in the index, and which of them may be new to it. rows: the
    place of each row's id."""

    position: int
    place: np.ndarray
    fresh: np.ndarray
    rows: np.ndarray


PAIRS = "period and "
"""How the kind of ids begins that are pairs of a period and an id."""
POSITION = 1 << 32
"""The least position of a row."""


class UserIndex:
    """Numbers ids by the order of their first rows. Any thread may `prepare` batches and `find`
    their ids; then one thread settles the batches in order, after which places can be replaced by
    numbers."""

    def __init__(self, column: str = "user", secret: bytes | None = None, threads: int = 1):
        """secret: the key (16 bytes) of the hashes of texts, which must be equal in all processes
        that prepare batches of one table; None: a random key. threads: how many will call `find`.
        """
        self.column = column
        self.kind: str | None = None
        self._secret = np.frombuffer(
            secrets.token_bytes(16) if secret is None else secret, np.uint64
        )
        self._ids: Any = None
        self._threads = threads
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return 0 if self._ids is None else len(self._ids)

    def prepare(self, ids: pa.Array, periods: np.ndarray | None = None) -> Prepared:
        """Hashes ids. Nulls (and NaN) stay marked as not valid: each becomes a user of its own in
        `add`. periods: the number of each row's period; then the ids are pairs of both
        (docs/explain/user-periods.md)."""

        ids = idvalues.normal(ids)
        if periods is not None:
            return self._pairs(ids, periods)
        ids = ids.cast(pa.int64()) if pa.types.is_null(ids.type) else ids
        if pa.types.is_dictionary(kind := ids.type):
            return self._prepare_dictionary(ids)
        has_id = idvalues.has_id(ids)
        valid = None if has_id is None else has_id.view(np.uint8)
        if pa.types.is_floating(kind):
            words = _values(ids.cast(pa.float64()), np.float64) + 0.0  # -0.0 becomes 0.0
            return self._words("float", words.view(np.uint64), valid)
        if pa.types.is_uint64(kind):
            return self._words("uint64", _values(ids, np.uint64), valid)
        if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
            # A cast waits for Python's lock.
            ids = ids if pa.types.is_int64(kind) else ids.cast(pa.int64())
            return self._words("integer", _values(ids, np.uint64), valid)
        if pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
            if kind.bit_width == 32:
                view = ids.view(pa.int32()).cast(pa.int64())
            else:
                view = ids.view(pa.int64())
            return self._words(f"{kind}", _values(view, np.uint64), valid)
        if pa.types.is_decimal(kind):
            # 7.0 and 7.00 are the same number but different texts, so decimals of each scale are a
            # kind of their own, different from texts.
            return self._strings(
                ids.cast(pa.large_string()), valid, f"decimal with {kind.scale} places"
            )
        if idvalues.is_text(kind):
            return self._strings(ids, valid)
        raise DataError(
            f"user column {self.column!r}: expected whole numbers, strings, dates or "
            f"binaries, got {kind}"
        )

    def _pairs(self, ids: pa.Array, periods: np.ndarray) -> Prepared:
        """Pairs of a period and an id, as texts: eight bytes of the period's number, then those of
        the id. So two pairs are equal if and only if both parts are."""
        if pa.types.is_dictionary(ids.type):
            ids = decoded(ids)
        plain = self.prepare(ids)
        kind = f"{PAIRS}{plain.kind}"
        numbers = np.ascontiguousarray(periods, "<i8")
        if plain.strings is None:
            pairs = np.column_stack([numbers, plain.key.view(np.int64).astype("<i8")])
            content = np.ascontiguousarray(pairs).view(np.uint8).reshape(-1)
            offset = np.arange(len(numbers) + 1, dtype=np.int64) * 16
        else:
            offset, content = _prefixed(*plain.strings, numbers)
        key = bound.hash_strings(offset, content, self._secret)
        return Prepared(kind, key, (offset, content), plain.valid)

    def _words(self, kind: str, words: np.ndarray, valid: np.ndarray | None) -> Prepared:

        return Prepared(kind, np.ascontiguousarray(words), None, valid)

    def _strings(self, ids: pa.Array, valid: np.ndarray | None, kind: str = "string") -> Prepared:

        wide = pa.types.is_large_string(ids.type) or pa.types.is_large_binary(ids.type)
        _, offsets, data = ids.buffers()
        dtype = np.dtype(np.int64 if wide else np.int32)
        offset = np.zeros(len(ids) + 1, np.int64)
        if len(ids) and offsets is not None:
            offset = np.frombuffer(offsets, dtype, len(ids) + 1, ids.offset * dtype.itemsize)
        content = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
        offset = np.ascontiguousarray(offset, np.int64)
        key = bound.hash_strings(offset, content, self._secret)
        return Prepared(kind, key, (offset, content), valid)

    def _prepare_dictionary(self, ids: pa.DictionaryArray) -> Prepared:
        """Hashes each dictionary value that occurs in the batch once; values that do not occur in
        it are not users. The dictionary has no nulls (`idvalues.normal`)."""

        codes = _values(ids.indices.cast(pa.int64()), np.int64)
        missing = ids.indices.is_null().to_numpy(zero_copy_only=False)
        used = np.bincount(codes[~missing], minlength=len(ids.dictionary)) > 0
        distinct = self.prepare(pc.take(ids.dictionary, of_numpy(np.flatnonzero(used))))
        renumber = np.cumsum(used) - 1
        codes = np.where(missing, -1, renumber[np.where(missing, 0, codes)] if len(used) else -1)
        return Prepared(distinct.kind, distinct.key, distinct.strings, distinct.valid, codes)

    def require_kind(self, kind: str) -> None:
        """Raise DataError unless all ids so far are of this kind, since ids of two kinds cannot be
        compared."""
        if self.kind is None:
            self.kind = kind
        elif kind != self.kind:
            raise DataError(
                f"user column {self.column!r} has type {self.kind} in one part of the source "
                f"and {kind} in another; cast it to one type"
            )

    def find(self, batch: Prepared, position: int = POSITION) -> Found:
        """Looks ids up and enters new ones. position: of the first row, in the order of all rows
        that are not settled. Rows of a dictionary array without an id come after the others of
        their batch."""
        with self._lock:
            self.require_kind(batch.kind)
            if self._ids is None:
                words = 2 if batch.kind.startswith(("string", "decimal", PAIRS)) else 1
                self._ids = bound.Ids(words, int(self._secret[0]), self._threads)
        key = batch.key
        valid = batch.valid
        codes = batch.codes
        if codes is not None and (nulls := np.count_nonzero(missing := codes < 0)):
            distinct = len(key) // 2
            codes = np.where(missing, distinct + np.cumsum(missing) - 1, codes)
            valid = (np.arange(distinct + nulls) < distinct).view(np.uint8)
            key = np.append(key, np.zeros(2 * nulls, np.uint64))
        try:
            place, fresh = self._ids.find(key, batch.strings, batch.texts, valid, position)
        except OverflowError as error:
            raise DataError(
                "the table has more than 2^32-2 distinct users, which is the limit"
            ) from error
        return Found(position, place, fresh, place if codes is None else place[codes])

    def settle(self, batch: Found) -> None:
        """Numbers the ids that are first in this batch, when all batches before it are settled."""
        self._ids.settle(batch.place, batch.fresh, batch.position)

    def number(self, places: np.ndarray, threads: Team | int = 1) -> np.ndarray:
        """Replaces places, of batches that are settled, by user numbers."""
        if self._ids is not None:
            self._ids.number(places, threads)
        return places

    def add(self, batch: Prepared) -> np.ndarray:
        """uint32 number of each id of the batch, which comes after all batches so far."""
        found = self.find(batch)
        self.settle(found)
        return self.number(found.rows)

    def hashes(self, threads: Team | int = 1) -> np.ndarray:
        """uint64[len(self)]: public hash of each user's id value."""
        if self._ids is None:
            return np.empty(0, np.uint64)
        return self._ids.hashes(threads, is_signed(str(self.kind)))


def number_ids(ids: np.ndarray, dtype: str | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(uint32 number of each id, public hash of each user, which ids are neither null nor NaN) of a
    whole array. `dtype`: the type of the user column in the schema."""

    array = None
    if ids.dtype.kind in "biufSUMm":
        with contextlib.suppress(pa.ArrowException):
            array = pa.array(ids)
    elif ids.dtype.kind == "O":
        array = column_of_objects(ids.tolist(), True)
    if array is None:
        raise DataError(
            f"user: expected ids that are numbers, texts, dates or times, got {ids.dtype}"
        )
    index = UserIndex()
    array = idvalues.normal(array, dtype)
    numbers = index.add(index.prepare(array))
    has_id = idvalues.has_id(array)
    return numbers, index.hashes(), np.ones(len(ids), bool) if has_id is None else has_id


def _prefixed(
    offset: np.ndarray, content: np.ndarray, numbers: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(offsets, bytes) of texts, each after the eight bytes of its number."""
    texts = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(numbers), [None, pa.py_buffer(offset), pa.py_buffer(content)]
    )
    words = pa.Array.from_buffers(
        pa.binary(8), len(numbers), [None, pa.py_buffer(np.ascontiguousarray(numbers))]
    )
    empty = pa.scalar(b"", pa.large_binary())
    joined = pc.binary_join_element_wise(words.cast(pa.large_binary()), texts, empty)
    if isinstance(joined, pa.ChunkedArray):
        joined = joined.combine_chunks()
    _, offsets, data = joined.buffers()
    made = np.zeros(1, np.int64)
    if len(numbers):
        made = np.frombuffer(offsets, np.int64, len(numbers) + 1, joined.offset * 8)
    return made, np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)


def _values(ids: pa.Array, dtype) -> np.ndarray:
    """The 64-bit values buffer, without a copy; the words at nulls are unspecified."""
    if len(ids) == 0:
        return np.empty(0, dtype)
    return np.frombuffer(ids.buffers()[1], dtype, count=len(ids), offset=ids.offset * 8)
