"""Plans what to count: the maximal cliques in one pass over the rows, the other cliques by projection.
Touches no data."""

import math
from collections.abc import Iterable, Sequence

import numpy as np
from msgspec import Struct

from .._core import count
from .._core.team import Team
from ..domain import Clique, Domain, maximal
from ..errors import UsageError

DENSE_CELLS = 1 << 32
"""A dense table has fewer cells than this: cell numbers are 32-bit in the kernel."""


PENDING_CELLS = 1 << 22
"""Tables between a marginal and its projection are held up to this many cells (32 MiB); then the pending
projections are run."""


class Plan(Struct, frozen=True):
    """What one pass over the rows counts (see csrc/count.h): clique k has the columns start[k] .. start[k +
    1] - 1 of `column` (numbers into `columns`) with `size` codes each; its table of cells[k] cells begins at
    offset[k].

    counted: each clique in the column order it is counted in, with the offset of its table; total: cells of
    all.
    """

    columns: tuple[str, ...]
    start: np.ndarray
    column: np.ndarray
    size: np.ndarray
    offset: np.ndarray
    cells: np.ndarray
    counted: tuple[tuple[Clique, int], ...]
    total: int


def fuse(domain: Domain, cliques: Iterable[Clique]) -> Plan:
    """The plan for cliques none of which contains another, each in its own order of columns.

    Cliques share the pass and the row weights, but each computes its own cell numbers: one column of a cell
    number costs a tenth of an addition to a table, and so any thread can count any clique.
    """
    place = {name: i for i, name in enumerate(domain)}
    ordered = sorted(map(tuple, cliques), key=lambda c: [place[n] for n in c])
    for clique in ordered:
        if domain.cells(clique) >= DENSE_CELLS:
            raise UsageError(f"clique {clique!r} has 2^32 cells or more: pass sparse=True")
    use = {name for clique in ordered for name in clique}
    columns = tuple(name for name in domain if name in use)
    number = {name: i for i, name in enumerate(columns)}
    cells = np.array([domain.cells(c) for c in ordered], np.int64)
    ends = np.cumsum(cells)
    offset = ends - cells
    return Plan(
        columns,
        np.cumsum([0, *map(len, ordered)], dtype=np.int32),
        np.array([number[n] for c in ordered for n in c], np.int32),
        np.array([domain[n] for c in ordered for n in c], np.uint32),
        offset,
        cells,
        tuple(zip(ordered, offset.tolist(), strict=True)),
        int(cells.sum()),
    )


class Projections:
    """Sums over axes of contiguous tables, recorded first and then run together: a table can be projected
    further before it is filled. Projections that do not depend on each other run on several threads."""

    def __init__(self, threads: int | Team = 1):
        self.threads = threads
        self._levels: list[list[tuple]] = []
        self._level: dict[int, tuple[int, np.ndarray]] = {}  # by id, with the table: it must live as long
        self._pending = 0

    def project(self, table: np.ndarray, have: Clique, want: Clique) -> np.ndarray:
        """The marginal over `want` (names of `have` in the same order) of a table over `have`, filled by
        `run`; the table itself where nothing has to be summed. Leading axes are summed first: they shrink the
        table at full speed."""
        shape = list(table.shape)
        keep = [name in want for name in have]
        while not all(keep):
            axis = keep.index(False)
            end = keep.index(True, axis) if True in keep[axis:] else len(keep)
            outer, middle, inner = (math.prod(shape[a:b]) for a, b in ((0, axis), (axis, end), (end, None)))
            out = np.empty(outer * inner, np.int64)
            level = self._level[id(table)][0] if id(table) in self._level else 0
            while len(self._levels) <= level:
                self._levels.append([])
            self._levels[level].append((table.reshape(-1), outer, middle, inner, out))
            del keep[axis:end], shape[axis:end]
            table = out.reshape(shape)
            self._level[id(table)] = (level + 1, table)
            if not all(keep):
                self._pending += table.size
        return table

    def run(self) -> None:
        """Fill all tables that `project` returned so far. Within a level the largest come first, so that
        threads end at about the same time."""

        for level in self._levels:
            level.sort(key=lambda step: step[0].size, reverse=True)
        count.project(self._levels, self.threads)
        self._levels, self._level, self._pending = [], {}, 0

    def relieve(self) -> None:
        """Run the recorded projections where intermediate tables would take too much memory."""
        if self._pending > PENDING_CELLS:
            self.run()


def project_all(
    domain: Domain, tables: dict[Clique, np.ndarray], wanted: Sequence[Clique], threads: int | Team = 1
) -> dict[Clique, np.ndarray]:
    """Every wanted marginal from the smallest table at hand that contains it; large ones first, so that they
    serve the smaller ones. Results are contiguous and do not share memory with each other."""
    given = sorted(tables.items(), key=lambda item: item[1].size, reverse=True)
    held: dict[frozenset[str], tuple[Clique, np.ndarray]] = {frozenset(c): (c, t) for c, t in given}
    work = Projections(threads)
    for clique in sorted(dict.fromkeys(wanted), key=domain.cells, reverse=True):
        names = frozenset(clique)
        if names not in held:
            have, table = next(held[k] for k in reversed(held) if names <= k)  # small ones come last
            order = tuple(name for name in have if name in names)
            held[names] = (order, work.project(table, have, order))
            work.relieve()
    work.run()
    out: dict[Clique, np.ndarray] = {}
    handed_out: set[frozenset[str]] = set()
    for clique in wanted:
        if clique in out:
            continue
        order, table = held[frozenset(clique)]
        turned = table.transpose([order.index(name) for name in clique])
        out[clique] = np.array(turned, order="C", copy=True if frozenset(clique) in handed_out else None)
        handed_out.add(frozenset(clique))
    return out


def outer(cliques: Iterable[Clique]) -> list[Clique]:
    """The cliques to count; the empty clique only where there is nothing else."""
    return maximal(cliques)
