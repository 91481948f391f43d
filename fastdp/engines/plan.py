"""What to count: the maximal cliques in one pass as a prefix tree, the rest by projection. Touches no data."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ..domain import Clique, Domain, maximal
from ..errors import UsageError

DENSE_CELLS = 1 << 32
"""A dense table has fewer cells than this: cell numbers are 32-bit in the kernel."""


@dataclass(frozen=True)
class Plan:
    """Steps of the fused pass (see csrc/count.h), and the cliques whose tables it fills.

    counted: each clique in the column order it is counted in, with the offset of its table; total: cells of all.
    """

    columns: tuple[str, ...]
    depth: np.ndarray
    column: np.ndarray
    size: np.ndarray
    offset: np.ndarray
    cells: np.ndarray
    counted: tuple[tuple[Clique, int], ...]
    total: int


def fuse(domain: Domain, cliques: Iterable[Clique]) -> Plan:
    """The plan for cliques none of which contains another, each in its own order of columns.

    Cliques that begin with the same columns share the work on them. Reordering columns to share more was measured not to
    pay: extending a cell number costs a tenth of an addition to a table, and transposing the results costs more.
    """
    place = {name: i for i, name in enumerate(domain)}
    ordered = sorted(map(tuple, cliques), key=lambda c: [place[n] for n in c])
    use = {name for clique in ordered for name in clique}
    columns = tuple(name for name in domain if name in use)
    number = {name: i for i, name in enumerate(columns)}
    steps: list[tuple[int, int, int, int, int]] = []
    counted: list[tuple[Clique, int]] = []
    total = 0
    previous: Clique = ()
    for clique in ordered:
        if domain.cells(clique) >= DENSE_CELLS:
            raise UsageError(
                f"clique {clique!r} has {domain.cells(clique)} cells; dense tables have fewer than 2^32 "
                "(ask for sparse=True)"
            )
        shared = 0
        while shared < min(len(previous), len(clique)) and previous[shared] == clique[shared]:
            shared += 1
        for d in range(shared, len(clique)):
            last = d == len(clique) - 1
            offset, cells = (total, domain.cells(clique)) if last else (-1, 0)
            steps.append((d, number[clique[d]], domain[clique[d]], offset, cells))
        counted.append((clique, total))
        total += domain.cells(clique)
        previous = clique
    table = list(zip(*steps, strict=True)) if steps else [()] * 5
    return Plan(
        columns,
        np.array(table[0], np.int32),
        np.array(table[1], np.int32),
        np.array(table[2], np.uint32),
        np.array(table[3], np.int64),
        np.array(table[4], np.int64),
        tuple(counted),
        total,
    )


def project(table: np.ndarray, have: Clique, want: Clique) -> np.ndarray:
    """The exact marginal over `want` (any order) of a contiguous table over `have`; the table itself or a view of it
    where nothing has to be summed. Leading axes are summed first: they shrink the table at full speed."""
    from .._core import count

    kept, shape = list(have), list(table.shape)
    for name in have:
        if name in want:
            continue
        axis = kept.index(name)
        outer, inner = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
        table = count.project(table.reshape(-1), outer, shape[axis], inner)
        del kept[axis], shape[axis]
    table = table.reshape(shape)
    return table if kept == list(want) else table.transpose([kept.index(name) for name in want])


def project_all(
    domain: Domain, tables: dict[Clique, np.ndarray], wanted: Sequence[Clique]
) -> dict[Clique, np.ndarray]:
    """Every wanted marginal from the smallest table at hand that contains it; large ones first, so that they
    serve the smaller ones. Results are contiguous and do not share memory with each other."""
    known: dict[frozenset[str], tuple[Clique, np.ndarray]] = {frozenset(c): (c, t) for c, t in tables.items()}
    out: dict[Clique, np.ndarray] = {}
    given: set[frozenset[str]] = set()
    for clique in sorted(dict.fromkeys(wanted), key=domain.cells, reverse=True):
        names = frozenset(clique)
        if names not in known:
            have = min((k for k in known if names <= k), key=lambda k: known[k][1].size)
            order = tuple(name for name in known[have][0] if name in names)
            known[names] = (order, project(known[have][1], known[have][0], order))
        table = project(known[names][1], known[names][0], clique)
        out[clique] = np.array(table, order="C", copy=True if names in given else None)
        given.add(names)
    return {clique: out[clique] for clique in wanted}


def outer(cliques: Iterable[Clique]) -> list[Clique]:
    """The cliques to count; the empty clique only where there is nothing else."""
    return maximal(cliques)
