"""Weighted numbers of users of each value of a column: what `keyselect` adds noise to. PRIVATE.

A user counts in the few values that most of their rows have, and adds 1 / sqrt(t) to each of t."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any, NamedTuple

import numpy as np

from ..engines.engine import KeySource
from ..errors import PrivacyError
from ..measurement import SCALE
from ..schema import Schema
from ..tables.userids import UserIndex
from .key_values import key_batches

TIE_PRIME = (1 << 31) - 1
"""The modulus of tie numbers (docs/explain/ties.md)."""


def weight(values: int) -> int:
    """What a user adds to each of this many values, in grid units. It is at most SCALE /
    sqrt(values), so that the squares add up to at most SCALE^2."""
    return math.isqrt(SCALE * SCALE // values)


def count_keys(
    source: Any,
    schema: Schema,
    name: str,
    dtype: str,
    cap: int,
    known: Collection[int | str] = (),
    places: int | None = None,
) -> tuple[list, np.ndarray]:
    """(values, int64 weighted users of each in grid units, all at least 1): PRIVATE, both.

    A user counts in the `cap` values that most of their rows have. Of equally frequent ones, those
    with the smallest hash of (user's id value, value) are taken. A user who counts in t values adds
    `weight(t)` to each. So what one user adds depends on that user's rows alone. A value in which
    no user counts is not returned. It must not get noise, since one user may bring any number of
    such values (docs/explain/keys.md, step 3). Rows whose value is `known` (public) are left out.
    `places`: see `key_values.keys_of`. source: rows, or an engine that counts them (`KeySource`).
    """
    if isinstance(source, KeySource):
        found, sizes, people = source.users_by_value(schema, name, dtype, cap, known, places)
        return _weighted(found, sizes, people, cap)
    rows = _rows_of_keys(source, schema, name, dtype, places)
    if known:
        rows = rows.without(known)
    user, value, often = rows.distinct()
    weights = np.full(len(user), SCALE, np.int64)
    if schema.user is not None:
        kept, weights = _most_frequent(rows, user, value, often, cap)
        value = value[kept]
    counted, at = np.unique(value, return_inverse=True)
    counts = np.zeros(len(counted), np.int64)
    np.add.at(counts, at, weights)
    return [rows.values[i] for i in counted], counts


class _KeyRows(NamedTuple):
    """Users and values of rows by number: PRIVATE. `values`: what the numbers of values stand for.
    `user_hashes`, `value_hashes`: by number."""

    user: np.ndarray
    value: np.ndarray
    values: list[Any]
    user_hashes: np.ndarray
    value_hashes: np.ndarray

    def without(self, known: Collection[int | str]) -> _KeyRows:
        """The rows whose value is none of these."""
        released = set(known)
        hidden = [i for i, value in enumerate(self.values) if value in released]
        unknown = ~np.isin(self.value, hidden)
        return self._replace(user=self.user[unknown], value=self.value[unknown])

    def distinct(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(user, value, number of rows) of each pair that occurs."""
        pairs, often = np.unique(self.user * len(self.values) + self.value, return_counts=True)
        return *np.divmod(pairs, max(1, len(self.values))), often


def _rows_of_keys(
    source: Any, schema: Schema, name: str, dtype: str, places: int | None
) -> _KeyRows:
    """Read the source; without a user column each row is a user."""
    values = UserIndex(name)
    users = UserIndex(schema.user or "row")
    distinct: list = []
    who = [np.empty(0, np.int64)]
    what = [np.empty(0, np.int64)]
    rows = 0
    for keys, ids, periods in key_batches(source, schema, name, dtype, places):
        number = values.add(values.prepare(keys)).astype(np.int64)
        new, first = np.unique(number, return_index=True)
        distinct += keys.take(first[new >= len(distinct)]).to_pylist()
        what.append(number)
        alone = np.arange(rows, rows + len(number))
        who.append(
            alone if ids is None else users.add(users.prepare(ids, periods)).astype(np.int64)
        )
        rows += len(number)
    return _KeyRows(
        np.concatenate(who), np.concatenate(what), distinct, users.hashes(), values.hashes()
    )


def _most_frequent(
    rows: _KeyRows, user: np.ndarray, value: np.ndarray, often: np.ndarray, cap: int
) -> tuple[np.ndarray, np.ndarray]:
    """(places of the pairs that count, what each adds in grid units): of each user the `cap` values
    that most of its rows have."""
    rank = _mix(rows.user_hashes[user], rows.value_hashes[value])
    # The hash is public, so a user may have chosen two values of equal rank. Ties are then broken
    # by the values themselves, never by their order in the table, which depends on other users'
    # rows.
    place = np.empty(len(rows.values), np.int64)
    in_order = sorted(range(len(rows.values)), key=rows.values.__getitem__)
    place[in_order] = np.arange(len(rows.values))
    order = np.lexsort((place[value], rank, -often, user))
    start = np.flatnonzero(np.diff(user[order], prepend=-1))
    sizes = np.diff(np.append(start, len(user)))
    kept = np.arange(len(user)) - np.repeat(start, sizes) < cap
    table = np.array([0, *map(weight, range(1, cap + 1))], np.int64)
    weights = np.repeat(table[np.minimum(sizes, cap)], sizes)[kept]
    return order[kept], weights


def _weighted(
    values: list, sizes: np.ndarray, users: np.ndarray, cap: int
) -> tuple[list, np.ndarray]:
    """Weighted users of each value, from users by value and number of values. One who claims to count
    in more than `cap` values is an error of the engine: nothing is counted."""
    if len(sizes) and not (1 <= int(sizes.min()) and int(sizes.max()) <= cap):
        raise PrivacyError("key selection: a user counts in too many values; nothing was drawn")
    weights = {t: weight(t) for t in range(1, cap + 1)}
    out: dict[int | str, int] = {}
    for value, t, people in zip(values, sizes.tolist(), users.tolist(), strict=True):
        out[value] = out.get(value, 0) + weights[t] * people
    return list(out), np.array(list(out.values()), np.int64)


def _mix(users: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Tie numbers of pairs of a user's and a value's hash, as databases compute them
    (docs/explain/ties.md): the words of the value are the key."""
    prime = np.uint64(TIE_PRIME)
    low = np.uint64(0xFFFFFFFF)
    number = (users >> np.uint64(32)) % prime
    for word in (values >> np.uint64(32), values & low, users & low):
        x = (number + word % prime) % prime
        square = x * x % prime
        number = square * square % prime * x % prime
    return number
