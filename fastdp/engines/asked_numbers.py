"""Sums over users of a number's values (`numbers`), on one machine.

Users are divided into blocks, which threads evaluate and encode; sums of integers do not depend on
how users are divided.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from .._core import bound
from ..errors import DataError
from ..numbers.sums_plan import SumsPlan
from ..numbers.typed import TypedNumber, columns_of
from ..numbers.user_evaluation import user_values
from ..numbers.user_values import Block, UserValues
from ..schema import Schema
from ..schema.amounts import MISSING
from ..tables.table import Table

BLOCK_ROWS = 1 << 22
"""Rows of a block of users, on average. It takes about 100 bytes a row while it is evaluated; a
block of one user may have more rows. A matter of memory and time."""


KEPT_ENTRIES = 1 << 25
"""Values of the last number are kept if they have at most so many entries (20 bytes each). A number
is asked several times, each time by another encoding."""


class KeptValues:
    """The values of the number that was asked last, by block of users."""

    def __init__(self) -> None:
        self.number = ""
        self.values: list[UserValues] = []

    def of(self, number: TypedNumber) -> list[UserValues]:
        """The values of a number; an empty list if it is not the last one, or was too large."""
        return self.values if self.number == number.canonical() else []

    def keep(self, number: TypedNumber, values: list[UserValues]) -> None:
        self.number = number.canonical()
        self.values = values


def user_sums(
    table: Table, plan: SumsPlan, threads: int, kept: KeptValues | None = None
) -> np.ndarray:
    """int64[plan.size]: see `Counter.user_sums`. `kept`: of earlier calls on the same table."""
    number = plan.number
    require_exact_numbers(table.schema, plan)
    if kept is not None and (found := kept.of(number)):
        return np.sum([plan.encoding.add_up(values) for values in found], axis=0)
    codes = {name: table.codes[name] for name in columns_of(number) if name in table.codes}
    exact = {name: _exact(table, name) for name in number.amounts}
    total = np.zeros(plan.size, np.int64)

    made: list[UserValues] = []
    entries = 0

    def add(result: tuple[UserValues, np.ndarray]) -> None:
        nonlocal entries
        values, sums = result
        np.add(total, sums, out=total)
        entries += len(values.value) + values.users
        if kept is not None and entries <= KEPT_ENTRIES:
            made.append(values)

    def sums(block: Block) -> tuple[UserValues, np.ndarray]:
        values = user_values(number, block, _by_user)
        return values, plan.encoding.add_up(values)

    with ThreadPoolExecutor(threads, thread_name_prefix="fastdp-numbers") as pool:
        waiting: list[Future] = []
        for block in _blocks(table, codes, exact):
            waiting.append(pool.submit(sums, block))
            if len(waiting) > threads:
                add(waiting.pop(0).result())
        for one in waiting:
            add(one.result())
    if kept is not None:
        kept.keep(number, made if entries <= KEPT_ENTRIES else [])
    return total


def _by_user(
    user: np.ndarray, users: int, rows: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """`user_evaluation.ByUser` without a sort."""
    counts = bound.rows_per_user(np.ascontiguousarray(user, np.uint32), users)
    owners = np.ascontiguousarray(user if rows is None else user[rows], np.uint32)
    _, order = bound.group(owners, counts, None if rows is None else rows.astype(np.uint64))
    return counts, order.view(np.int64)


def require_exact_numbers(schema: Schema, plan: SumsPlan) -> None:
    """Raise DataError if the rows were read without a column's exact numbers."""
    for name in plan.number.amounts:
        field = schema.fields.get(name)
        if name not in schema.amounts and not (field is not None and field.whole_codes):
            raise DataError(
                f"number {plan.number.text!r}: the exact numbers of {name!r} were not read; pass "
                "the source itself to synthesize, or read the table with exact=[...]"
            )


def _exact(table: Table, name: str) -> np.ndarray:
    """The exact numbers of a field. Where only codes were read, those of whole numbers say the
    same, but for values outside the domain, which are missing."""
    if name in table.exact:
        return table.exact[name]
    column = table.schema.columns[name]
    assert column.whole_codes, "checked by require_exact_numbers"
    values = np.full(column.size, MISSING)
    values[: column.base] = column.code_values()
    return values[table.codes[name]]


def _blocks(table: Table, codes: dict, exact: dict) -> Iterator[Block]:
    """The table's rows by users."""
    if table.user is None:
        for start in range(0, table.rows, BLOCK_ROWS):
            part = slice(start, min(start + BLOCK_ROWS, table.rows))
            size = part.stop - part.start
            yield _block(size, np.arange(size, dtype=np.uint32), codes, exact, part)
        return
    count = -(-table.rows // BLOCK_ROWS)
    if count <= 1:
        yield Block(table.users, table.user, codes, exact)
        return
    ends = np.linspace(0, table.users, count + 1).astype(np.int64)
    for first, end in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True):
        rows = np.flatnonzero((table.user >= first) & (table.user < end))
        user = (table.user[rows] - np.uint32(first)).astype(np.uint32)
        yield _block(end - first, user, codes, exact, rows)


def _block(users: int, user: np.ndarray, codes: dict, exact: dict, rows) -> Block:
    return Block(
        users,
        user,
        {name: column[rows] for name, column in codes.items()},
        {name: column[rows] for name, column in exact.items()},
    )
