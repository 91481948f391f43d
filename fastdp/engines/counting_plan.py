"""Plans what to count: the maximal cliques in one pass over the rows, the other cliques by
projection. Touches no data."""

from collections.abc import Callable, Iterable, Sequence
from itertools import chain

import numpy as np
from msgspec import Struct

from .._core import count
from .._core.team import Team
from ..domain import Clique, Domain, maximal
from ..errors import UsageError

DENSE_CELLS = 1 << 32
"""A dense table has fewer cells than this: cell numbers are 32-bit in the kernel."""


PENDING_CELLS = 1 << 22
"""Tables between a marginal and its projection are held up to this many cells (32 MiB); then the
pending projections are run."""


class Plan(Struct, frozen=True):
    """What one pass over the rows counts (see csrc/count.h).

    Clique k has the columns start[k] .. start[k + 1] - 1 of `column` (numbers into `columns`) with `size`
    codes each. Its table of cells[k] cells begins at offset[k].

    counted: each clique in the column order it is counted in, with the offset of its table. total: cells
    of all.
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

    Cliques share the pass and the row weights, but each computes its own cell numbers. One column
    of a cell number costs a tenth of an addition to a table, and so any thread can count any
    clique.
    """
    place = {name: i for i, name in enumerate(domain)}
    ordered = sorted(map(tuple, cliques), key=lambda c: [place[n] for n in c])
    for clique in ordered:
        if domain.cells(clique) >= DENSE_CELLS:
            raise UsageError(
                f"clique {clique!r} has {domain.cells(clique)} cells; a dense table must have fewer than "
                "2^32 (pass sparse=True)"
            )
    use = {name for clique in ordered for name in clique}
    columns = tuple(name for name in domain if name in use)
    number = {name: i for i, name in enumerate(columns)}
    cells = np.array([domain.cells(c) for c in ordered], np.int64)
    ends = np.cumsum(cells)
    offset = ends - cells
    return Plan(
        columns=columns,
        start=np.cumsum([0, *map(len, ordered)], dtype=np.int32),
        column=np.array([number[n] for c in ordered for n in c], np.int32),
        size=np.array([domain[n] for c in ordered for n in c], np.uint32),
        offset=offset,
        cells=cells,
        counted=tuple(zip(ordered, offset.tolist(), strict=True)),
        total=int(cells.sum()),
    )


class Projections:
    """Sums over axes of contiguous tables, recorded first and then run together: a table can be
    projected further before it is filled. Projections that do not depend on each other run on
    several threads."""

    def __init__(self, threads: int | Team, fill: Callable[[], None] | None):
        self.threads = threads
        self._fill = fill
        self._levels: list[dict[int, list[tuple]]] = [{}]  # steps by the table that they read
        self._run = self.pending = (
            0  # levels that were run before; cells of tables that nobody asked for
        )

    def project(self, table: np.ndarray, level: int, keep: list[int]) -> tuple[np.ndarray, int]:
        """The sum of a table of that level over all axes but those to keep (not 0 in `keep`),
        filled by `run`, and its level. Leading axes are summed first: they shrink the table at full
        speed."""
        level = max(level, self._run)
        while 0 in keep:
            axis = end = keep.index(0)
            while end < len(keep) and not keep[end]:
                end += 1
            out = np.empty(table.shape[:axis] + table.shape[end:], np.int64)
            self._levels[level - self._run].setdefault(id(table), []).append(
                (table, axis, end, out)
            )
            table = out
            level = level + 1
            if level - self._run == len(self._levels):
                self._levels.append({})
            del keep[axis:end]
            self.pending += out.size if 0 in keep else 0
        return table, level

    def run(self) -> None:
        """Fill all tables that `project` returned so far. Within a level the largest come first, so
        that threads end at about the same time. Those that read the same table follow each other.
        """
        levels = [
            sorted(level.values(), key=lambda steps: -steps[0][0].size) for level in self._levels
        ]
        work = count.Projections([list(chain.from_iterable(level)) for level in levels])
        if self._fill is not None:
            self._fill()
        work.run(self.threads)
        self._fill = None
        self._levels = [{}]
        self._run += len(levels)
        self.pending = 0


def project_all(
    domain: Domain, tables: dict, wanted: Sequence[Clique], threads: int | Team = 1, fill=None
) -> dict[Clique, np.ndarray]:
    """Every wanted marginal from the smallest table at hand that contains it; large ones first, so
    that they serve the smaller ones. Results are contiguous and do not share memory with each
    other. fill: fills the tables, which are read after it; called when all is planned, so that no
    thread waits for the plan."""
    bit = {name: 1 << i for i, name in enumerate(domain)}
    given = sorted(tables.items(), key=lambda item: item[1].size, reverse=True)
    # By the clique as bits: the order of its columns, its table and level. Small tables come last.
    held = {sum(map(bit.__getitem__, c)): (c, table, 0) for c, table in given}
    work = Projections(threads, fill)
    wanted = list(dict.fromkeys(wanted))
    masks = [sum(map(bit.__getitem__, clique)) for clique in wanted]
    for names in sorted(
        masks, key=dict(zip(masks, map(domain.cells, wanted))).__getitem__, reverse=True
    ):
        if names not in held:
            have, table, level = held[next(k for k in reversed(held) if names & k == names)]
            made = work.project(table, level, [bit[name] & names for name in have])
            held[names] = (tuple(name for name in have if bit[name] & names), *made)
            if work.pending > PENDING_CELLS:
                work.run()
    work.run()
    out: dict[Clique, np.ndarray] = {}
    for clique, names in zip(wanted, masks, strict=True):
        order, table, level = held[names]
        if order != clique or level < 0:
            turned = table.transpose([order.index(name) for name in clique])
            table = np.array(turned, order="C", copy=True if level < 0 else None)
        # -1: it is somebody's
        out[clique] = table
        held[names] = (clique, table, -1)
    return out


def outer(cliques: Iterable[Clique]) -> list[Clique]:
    """The cliques to count; the empty clique only where there is nothing else."""
    return maximal(cliques)
