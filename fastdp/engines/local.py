"""The engine of one machine: compiled kernels over a table's code columns. Results are the same to
the bit for any number of threads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from .._core import count
from .._core.team import Team
from .._util import threads as _threads
from .._util.bit_rows import BitRows
from ..domain import Clique, code_dtype
from ..errors import DataError, UsageError
from ..measurement import SCALE
from ..numbers.sums_plan import SumsPlan
from ..schema import Schema
from ..tables import bound
from ..tables.ingest import read
from ..tables.sources.source import Source
from ..tables.table import Table
from ..user_views import View
from ..userkeys import UserKey
from . import asked_numbers, counting_plan as planning, user_histograms as users
from .engine import ENGINES, Engine, EngineOptions, OpenCounter, reading_facts

if TYPE_CHECKING:
    from ..tables.linked_tables import Links

SPARSE_CELLS = 1 << 27
"""With sparse=None, a clique of more cells than this (1 GiB of int64) is counted sparsely."""

CHUNK_ROWS = 1 << 18
"""Rows of one unit of work: enough for a clique's table to stay in a cache, few enough to keep
threads busy."""

COPIES_BYTES = 1 << 29
"""With fewer cliques than threads, several threads count one clique. Each has its own copy of the
table, up to this many bytes of copies in all. Beyond it they divide the cells of the table among
them."""


class SparseMarginal(Struct, frozen=True, eq=False):
    """A marginal by its non-empty cells: keys (uint64, ascending, C-order cell numbers) and sums
    (int64)."""

    keys: np.ndarray
    sums: np.ndarray
    shape: tuple[int, ...]

    def codes(self) -> tuple[np.ndarray, ...]:
        """The codes of each cell, one array per attribute."""
        out = []
        rest = self.keys
        for n in reversed(self.shape):
            rest, code = np.divmod(rest, np.uint64(n))
            out.append(code)
        return tuple(reversed(out))


class LocalCounter:
    """`Counter` over a `Table`. Holds no copy of the data, but for the last view that was asked
    for."""

    counts_sparsely = True  # `marginals` takes `sparse`

    def __init__(self, table: Table, threads: int | None = None):
        self.table = table
        self.schema: Schema = table.schema
        self.threads = _threads.resolve(threads)
        self._view: tuple[str, LocalCounter] | None = None
        self._values = asked_numbers.KeptValues()

    @property
    def has_users(self) -> bool:
        return self.table.user is not None

    def marginals(
        self,
        cliques: Sequence[Clique],
        clip: int | None = None,
        sparse: bool | None = False,
        *,
        recode: Mapping[str, np.ndarray] | None = None,
        view: View | None = None,
    ) -> dict:
        """Weighted marginals, exact. Dense int64 arrays by default (what `Counter` promises);
        sparse=True gives `SparseMarginal`s, sparse=None decides by the public number of cells
        (`SPARSE_CELLS`). With `recode` the recoded columns are copied in memory (1 to 4 bytes a row
        each) while they are counted. The last `view` is held in memory: a byte or two per row or,
        of users, a row per user."""
        if view is not None:
            return self._viewed(view).marginals(cliques, clip, sparse, recode=recode)
        if recode:
            return LocalCounter(self._recoded(cliques, recode), self.threads).marginals(
                cliques, clip, sparse
            )
        domain = self.table.domain
        asked = [domain.check(c) for c in cliques]
        for clique in asked:
            for name in clique:
                if name not in self.table.codes:
                    raise DataError(f"clique {clique!r}: column {name!r} was not read")
            if domain.cells(clique) > 1 << 63:
                raise UsageError(
                    f"clique {clique!r}: it has more than 2^63 cells; use fewer columns"
                )
        large = {c for c in asked if sparse or (sparse is None and domain.cells(c) > SPARSE_CELLS)}
        weights = bound.user_weights(self.table, clip)
        out: dict = dict.fromkeys(asked)
        team = Team(self.threads)  # for all kernels of this count
        out |= {clique: self._sparse(clique, weights, team) for clique in large}
        out |= self._dense([c for c in out if c not in large], weights, team)
        if clip is not None and weights is None:
            self._scale(out)
        return out

    def _viewed(self, view: View) -> LocalCounter:
        if self._view is None or self._view[0] != view.digest():
            table = users.view_of(self.table, view, self.threads)
            self._view = (view.digest(), LocalCounter(table, self.threads))
        return self._view[1]

    def _recoded(self, cliques: Sequence[Clique], recode: Mapping[str, np.ndarray]) -> Table:
        """The same rows and users with recoded columns; a row's new codes depend on that row
        alone."""
        table = self.table
        domain = table.domain.recoded(recode)
        used = {name for clique in cliques for name in clique}
        codes = {name: column for name, column in table.codes.items() if name in used}
        for name in used & set(recode) & set(codes):
            codes[name] = np.asarray(recode[name]).astype(code_dtype(domain[name]))[codes[name]]
        return table.with_codes(domain, codes)

    def _rows(self, names: Sequence[str], weights: np.ndarray | None):
        user = self.table.user if weights is not None else None
        return count.Rows([self.table.codes[n] for n in names], user, weights, self.table.rows)

    def _dense(self, cliques: list[Clique], weights: np.ndarray | None, team: Team) -> dict:
        """Dense tables of the cliques, counted in one pass over the rows."""
        if not cliques:
            return {}
        domain = self.table.domain
        plan = planning.fuse(domain, [c for c in planning.outer(cliques) if c])
        space = np.empty(plan.total, np.int64)  # threads touch its pages first
        fill = partial(
            count.count,
            self._rows(plan.columns, weights),
            start=plan.start,
            column=plan.column,
            size=plan.size,
            offset=plan.offset,
            cells=plan.cells,
            threads=team,
            chunk=CHUNK_ROWS,
            budget=COPIES_BYTES,
            tables=space,
        )
        tables = {
            c: space[at : at + domain.cells(c)].reshape(domain.shape(c)) for c, at in plan.counted
        }
        if () in cliques and not tables:
            tables[()] = np.array(self._total(weights), np.int64)
        return planning.project_all(domain, tables, cliques, team, fill)

    def _total(self, weights: np.ndarray | None) -> int:
        if weights is None:
            return self.table.rows
        return int(np.dot(weights.astype(np.int64), self.table.rows_per_user().astype(np.int64)))

    def _sparse(self, clique: Clique, weights: np.ndarray | None, team: Team) -> SparseMarginal:
        shape = self.table.domain.shape(clique)
        rows = self._rows(clique, weights)
        keys = count.cells(rows, np.array(shape, np.uint64), team)
        bits = max(1, (self.table.domain.cells(clique) - 1).bit_length())
        distinct, sums = count.sparse(rows, keys, bits, team)
        return SparseMarginal(distinct, sums, shape)

    def _scale(self, out: dict) -> None:
        """Without a user column every weight is SCALE: count plainly, multiply once."""
        for clique, marginal in out.items():
            if isinstance(marginal, SparseMarginal):
                out[clique] = SparseMarginal(marginal.keys, marginal.sums * SCALE, marginal.shape)
            else:
                marginal *= SCALE

    def half_tables(
        self,
        columns: Sequence[str],
        sets: np.ndarray,
        clip: int | None,
        halves: Mapping[str, np.ndarray],
    ) -> np.ndarray:
        """int64 [sets, 2^width]: the marginals of many sets of columns (by number in `columns`,
        [sets, width]), each column recoded to 0 and 1 by `halves`. The same integers as
        `marginals` has. Memory: a bit for each row and column, and 16 bytes a row where users have
        different weights."""
        weights = bound.user_weights(self.table, clip)
        rows = None if weights is None else weights[self.table.user]
        bits = (np.asarray(halves[a], np.uint8)[self.table.codes[a]] for a in columns)
        tables = BitRows(bits, self.table.rows, rows).tables(sets, self.threads)
        return tables * SCALE if clip is not None and weights is None else tables

    def user_histogram(self, key: UserKey, cap: int = 1) -> np.ndarray:
        """See `Counter.user_histogram` and `userkeys`."""
        return users.histogram(self.table, key, cap, self.threads)

    def user_sums(self, plan: SumsPlan) -> np.ndarray:
        """See `Counter.user_sums`."""
        return asked_numbers.user_sums(self.table, plan, self.threads, self._values)


def local(table: Table, threads: int | None = None) -> LocalCounter:
    """The engine for tables on this machine. threads=None: all cores."""
    return LocalCounter(table, threads)


@ENGINES.add("local")
class LocalEngine(Engine):
    """Threads of this process count one table in memory."""

    name = "local"
    periods = True

    def open(self, source: Source, schema: Schema, options: EngineOptions) -> OpenCounter:
        if source.encoded is not None:
            counter = local(source.encoded, options.threads)
            return OpenCounter(counter, source.encoded, lambda: None)
        table = read(source, schema, threads=options.threads)
        numbers = reading_facts(table.rows, table.users, table._dropped, table._malformed)
        return OpenCounter(local(table, options.threads), table, table.close, numbers)

    def open_linked(
        self, sources: Mapping[str, Source], links: Links, options: EngineOptions
    ) -> list[OpenCounter]:
        from ..tables.linked_tables import read_linked

        tables, numbers = read_linked(sources, links, options.threads)
        return [
            OpenCounter(local(table, options.threads), table, lambda: None, number)
            for table, number in zip(tables, numbers.values())
        ]
