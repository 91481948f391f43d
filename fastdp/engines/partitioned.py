"""The engine over partitions that hold whole users: the local engine counts each partition, and the
integers are added.

A marginal is a sum over rows, a histogram of users a sum over users. A row's weight, a user's keys
and every tie depend on that user's rows and id value alone (`tables.bound`, `userkeys`). So if no
user is split between partitions, the sums of their integers are those of the whole table. One user
changes them by as much as there. What a partition returns is exact, not private, and only for the
session.

No number of rows raises an error or wraps: sums are cut off at `MOST`, which raises nobody's influence
(docs/explain/bounds.md).

Answers are keyed by partition and by the digest of the request: one that comes twice is counted
once, one that is missing is an error, never zeros.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from ..domain import Clique, Domain
from ..errors import DataError, UsageError
from ..measurement import MOST
from ..numbers.sums_plan import SumsPlan
from ..schema import Schema
from ..tables import bound
from ..tables.table import Table
from ..user_views import View
from ..userkeys import UserKey
from . import asked_numbers, counting_plan as planning, user_histograms as user_keys
from .local import LocalCounter

MOST_HELD = 1 << 27
"""The most cells of a marginal that is counted before it is asked for: 1 GiB for a moment."""
CellSums = tuple[np.ndarray, np.ndarray]
"""(cells, sums): the cells of a table that are not 0, ascending int64 numbers in C order, and their
int64."""


@dataclass(frozen=True, eq=False)
class MarginalRequest:
    """Marginals over cliques none of which contains another."""

    cliques: tuple[Clique, ...]
    clip: int | None
    recode: Mapping[str, np.ndarray] = field(default_factory=dict)
    view: View | None = None

    def digest(self) -> str:
        codes = {
            name: hashlib.sha256(_whole(column)).hexdigest() for name, column in self.recode.items()
        }
        view = None if self.view is None else self.view.digest()
        return _digest(["marginals", self.cliques, self.clip, codes, view])

    def sizes(self, domain: Domain) -> list[int]:
        """The cells of each clique; `domain`: of the private table."""
        domain = domain if self.view is None else self.view.domain(domain)
        return [domain.recoded(self.recode).cells(clique) for clique in self.cliques]

    def count(self, table: Table, threads: int) -> list[np.ndarray]:
        made = LocalCounter(table, threads).marginals(
            self.cliques, self.clip, recode=self.recode or None, view=self.view
        )
        return [made[clique] for clique in self.cliques]


@dataclass(frozen=True, eq=False)
class UserRequest:
    """A histogram of users by a bound key."""

    key: UserKey
    cap: int

    def sizes(self, domain: Domain) -> list[int]:
        return [self.key.size]

    def digest(self) -> str:
        return _digest(["users", self.key.digest(), int(self.cap)])

    def count(self, table: Table, threads: int) -> list[np.ndarray]:
        return [user_keys.histogram(table, self.key, self.cap, threads)]


@dataclass(frozen=True, eq=False)
class NumberRequest:
    """The sum over users of their vectors in a number; `plain`: a plan without its schema."""

    plain: dict[str, Any]
    size: int

    def sizes(self, domain: Domain) -> list[int]:
        return [self.size]

    def digest(self) -> str:
        return _digest(["number", self.plain, self.size])

    def count(self, table: Table, threads: int) -> list[np.ndarray]:
        plan = SumsPlan.from_plain(self.plain, table.schema)
        return [asked_numbers.user_sums(table, plan, threads)]


Request = MarginalRequest | UserRequest | NumberRequest


@dataclass(frozen=True, eq=False)
class Answer:
    """The integers of one partition for one request, one pair of cells and sums for each table
    asked for."""

    partition: int
    digest: str
    tables: list[CellSums]


class Partitions(Protocol):
    """A back end: it keeps the encoded partitions, numbered 0..count-1, and runs `answer` where
    they are."""

    count: int

    def answers(self, request: Request) -> Iterable[Answer]:
        """The answer of every partition, in any order; raises where a partition cannot answer."""
        ...

    def close(self) -> None:
        """Releases the partitions and removes their files."""
        ...


def answer(table: Table, partition: int, request: Request, threads: int = 1) -> Answer:
    """Counts a request over one partition. Runs in the process that holds the partition's rows."""
    return Answer(
        partition, request.digest(), [sparse(one) for one in request.count(table, threads)]
    )


class Sums:
    """int64 tables of these sizes: the exact sums over partitions 0..count-1, each counted once."""

    def __init__(self, digest: str, count: int, sizes: Sequence[int]):
        self._digest = digest
        self._count = count
        self._sums = [np.zeros(size, np.int64) for size in sizes]
        self._counted: set[int] = set()

    def add(self, one: Answer) -> None:
        """Add one answer; a partition that was added before is ignored. DataError if it is not an
        answer to this request."""
        expected = one.digest == self._digest and 0 <= one.partition < self._count
        if not expected or len(one.tables) != len(self._sums):
            raise DataError("a partition answered a different request; nothing was counted")
        if one.partition in self._counted:
            return
        self._counted.add(one.partition)
        for table, (cells, sums) in zip(self._sums, one.tables, strict=True):
            _add(table, cells, sums)

    def whole(self) -> list[np.ndarray]:
        """The sums; DataError if a partition did not answer."""
        if len(self._counted) != self._count:
            missing = min(set(range(self._count)) - self._counted)
            raise DataError(
                f"partition {missing} of {self._count} did not answer; nothing was counted"
            )
        return self._sums


def added(
    answers: Iterable[Answer], request: Request, count: int, sizes: Sequence[int]
) -> list[np.ndarray]:
    """`Sums` of all answers to a request."""
    sums = Sums(request.digest(), count, sizes)
    for one in answers:
        sums.add(one)
    return sums.whole()


def sparse(table: np.ndarray) -> CellSums:
    """(cells, sums) of a table, see `CellSums`."""
    flat = table.reshape(-1)
    cells = np.flatnonzero(flat)
    return cells, flat[cells]


def _add(table: np.ndarray, cells: np.ndarray, sums: np.ndarray) -> None:
    """Add sums in place. Refuses a cell that occurs twice, which numpy would add only once."""
    whole = cells.dtype == np.int64 and sums.dtype == np.int64 and cells.shape == sums.shape
    if not whole or (np.diff(cells) <= 0).any():
        raise DataError(
            "a partition returned sums that are not exact integers, or cells out of order; nothing "
            "was counted"
        )
    if len(cells) and (cells[0] < 0 or cells[-1] >= table.size):
        raise DataError(
            "a partition returned a cell that the request does not contain; nothing was counted"
        )
    table[cells] = np.clip(table[cells] + np.clip(sums, -MOST, MOST), -MOST, MOST)


def project(domain: Domain, large: Clique, counted: CellSums, clique: Clique) -> np.ndarray:
    """The marginal of a part of a clique, flat; each sum is cut off at MOST."""
    cells, sums = counted
    codes = dict(zip(large, np.unravel_index(cells, domain.shape(large))))
    own = np.zeros(len(cells), np.int64)
    for name in clique:
        own = own * domain[name] + codes[name]
    if _may_wrap(sums):
        exact: dict[int, int] = {}
        for cell, number in zip(own.tolist(), sums.tolist(), strict=True):
            exact[cell] = exact.get(cell, 0) + number
        own = np.array(list(exact), np.int64)
        sums = np.array([min(number, MOST) for number in exact.values()], np.int64)
    out = np.zeros(domain.cells(clique), np.int64)
    np.add.at(out, own, sums)
    return out


def _may_wrap(sums: np.ndarray) -> bool:
    """Whether a sum of some of these numbers may be MOST or more; at most 2^41 rows never are."""
    return float(sums.sum(dtype=np.float64)) > MOST / 2


class PartitionedCounter:
    """`Counter` over a back end's partitions."""

    def __init__(self, schema: Schema, partitions: Partitions):
        self.schema = schema
        self.partitions = partitions
        self._expected: tuple[Clique, ...] = ()
        self._held: dict[tuple[Clique, int | None], CellSums] = {}

    @property
    def has_users(self) -> bool:
        return self.schema.user is not None

    def marginals(
        self,
        cliques: Sequence[Clique],
        clip: int | None = None,
        *,
        recode: Mapping[str, np.ndarray] | None = None,
        view: View | None = None,
    ) -> dict[Clique, np.ndarray]:
        """See `Counter.marginals`. Partitions count the cliques that no other contains; the rest
        are projections of the sums."""
        domain: Domain = self.schema.domain if view is None else view.domain(self.schema.domain)
        if recode:
            domain = domain.recoded(recode)
        asked = list(dict.fromkeys(domain.check(c) for c in cliques))
        if not asked:
            return {}
        if clip is not None:
            clip = bound.check_clip(clip)
        outer = tuple(planning.outer(asked))
        planning.fuse(domain, [c for c in outer if c])  # UsageError where a table is too large
        if not recode and view is None and self._expects(outer):
            sums = [self._from_held(domain, clip, clique) for clique in outer]
        else:
            sums = self._counted(outer, clip, recode or {}, view)
        tables = {c: table.reshape(domain.shape(c)) for c, table in zip(outer, sums, strict=True)}
        if any(map(_may_wrap, sums)):
            return {c: _cut_off(domain, tables, c) for c in asked}
        return planning.project_all(domain, tables, asked)

    def expect(self, cliques: Sequence[Clique]) -> None:
        """A hint: marginals of these columns, and of parts of them, will be asked for, one after
        another. The first question that needs one of the largest counts it, and its cells that are not
        0 are held for the others. Every answer is the same without the hint."""
        outer = planning.outer(self.schema.domain.check(c) for c in cliques)
        self._held.clear()
        self._expected = tuple(c for c in outer if self.schema.domain.cells(c) <= MOST_HELD)

    def _expects(self, cliques: Sequence[Clique]) -> bool:
        return all(any(set(c) <= set(large) for large in self._expected) for c in cliques)

    def _from_held(self, domain: Domain, clip: int | None, clique: Clique) -> np.ndarray:
        """A marginal from the smallest expected one that contains it."""
        within = [large for large in self._expected if set(clique) <= set(large)]
        counted = [large for large in within if (large, clip) in self._held]
        large = min(counted or within, key=domain.cells)
        if (large, clip) not in self._held:
            (table,) = self._counted((large,), clip, {}, None)
            self._held[large, clip] = sparse(table)
        return project(domain, large, self._held[large, clip], clique)

    def _counted(
        self,
        cliques: tuple[Clique, ...],
        clip: int | None,
        recode: Mapping[str, np.ndarray],
        view: View | None,
    ) -> list[np.ndarray]:
        codes = {name: np.asarray(column) for name, column in sorted(recode.items())}
        request = MarginalRequest(cliques, clip, codes, view)
        sizes = request.sizes(self.schema.domain)
        return added(self.partitions.answers(request), request, self.partitions.count, sizes)

    def user_histogram(self, key: UserKey, cap: int = 1) -> np.ndarray:
        """See `Counter.user_histogram`."""
        key = user_keys.checked(self.schema.domain, key, cap)
        request = UserRequest(key, int(cap))
        (sums,) = added(
            self.partitions.answers(request), request, self.partitions.count, [key.size]
        )
        return sums

    def user_sums(self, plan: SumsPlan) -> np.ndarray:
        """See `Counter.user_sums`."""
        asked_numbers.require_exact_numbers(self.schema, plan)
        request = NumberRequest(plan.to_plain(), plan.size)
        (sums,) = added(
            self.partitions.answers(request), request, self.partitions.count, [plan.size]
        )
        return sums

    def close(self) -> None:
        self.partitions.close()

    def __enter__(self) -> PartitionedCounter:
        return self

    def __exit__(self, *exc) -> None:
        self.close()

    def __reduce__(self):
        raise UsageError("an engine cannot be used in another process than the one that made it")


def _cut_off(domain: Domain, tables: Mapping[Clique, np.ndarray], clique: Clique) -> np.ndarray:
    large = next(c for c in tables if set(clique) <= set(c))
    return project(domain, large, sparse(tables[large]), clique).reshape(domain.shape(clique))


def _whole(column: np.ndarray) -> bytes:
    return np.ascontiguousarray(column, np.int64).tobytes()


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
