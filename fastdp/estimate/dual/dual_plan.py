"""How the work of the dual is cut: regions into lanes of rows, sums of lanes into spans, vectors
into pieces.

Everything follows from sizes, never from the number of threads (csrc/dual.h says what each part is
for).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct

LANE_CELLS = 4096
"""Cells of a region's lane, about: the unit of work of a thread, some 20 microseconds."""

LANE_SIZES = 2
"""A region's cells, counted once for every link, are at least so many times the entries of all
lanes' spans. So clearing and adding up spans costs less than the cells do. With one lane in place
of twelve for the largest table, products with the Hessian of the taxi model scaled to two threads
only. Where lanes reach few entries in common (OVERLAP), there may be as many lanes as there are
rows for."""

OVERLAP = 1.25
"""Entries of all lanes' spans, as a multiple of those that the region reaches, that are always
allowed."""

PIECE = 2048
"""Multipliers worked on at a time."""


class Link(NamedTuple):
    """How a segment of the multipliers lies in a region.

    at, size : the segment is the entries [at, at + size) of the vector
    base : int32 for each row, or None: 0
    along : "row", "cell", or an int32 map for each column
    same : the number of the region's first link that lies so, if that is another one; both share spans
    """

    at: int
    size: int
    sign: float
    base: np.ndarray | None
    along: Any
    same: int | None = None


class Table(NamedTuple):
    """A region: sigma is one number or one per cell. `inner`: the number of a link inside which all
    others lie, and the region of its entries alone."""

    rows: int
    cols: int
    sigma: Any
    links: Sequence[Link]
    inner: tuple[int, Table] | None = None


class Cut(Struct, frozen=True):
    """How tables are cut into lanes. `spans` [of a link's lanes, 3], one array a link, tables in
    order; `items` [, 2] (table, lane), largest first; `pieces` [, 4]; `feeds` [, 4]; `edges`:
    numbers of the edge space."""

    lanes: list[int]
    spans: list[np.ndarray]
    items: np.ndarray
    pieces: np.ndarray
    feeds: np.ndarray
    edges: int


class DualPlan(Struct, frozen=True):
    """How the dual is evaluated and multiplied by its Hessian.

    It is evaluated by `tables`, whose cells begin at `cells`. In a product with the Hessian, a table
    with an inner one is replaced by that. The inner one's slopes are `folds` [, 5] times `scale`
    [folds] of an evaluation; there are `slopes` in all. Where the Hessian does not fall into blocks,
    the core asks for lanes of about `lane_cells` cells for products."""

    tables: Sequence[Table]
    cells: np.ndarray
    lanes: Cut
    inner: Sequence[Table]
    inner_cells: list[int]
    inner_lanes: Callable[[], Cut]
    folds: np.ndarray
    scale: np.ndarray
    slopes: int
    lane_cells: int


def plan_dual(tables: Sequence[Table]) -> DualPlan:
    """The plan for these tables, with the default size of lanes."""
    starts = np.cumsum([0] + [table.rows * table.cols for table in tables])
    end = int(starts[-1])
    cells = []
    inner = []
    folds = []
    scale = []
    for i, table in enumerate(tables):
        if table.inner is None:
            cells.append(int(starts[i]))
            inner.append(table)
            continue
        link, small = table.inner
        size = small.rows * small.cols
        pieces = [(i, link, at, min(at + PIECE, size), end) for at in range(0, size, PIECE)]
        folds += pieces
        scale += [1.0 / float(small.sigma) ** 2] * len(pieces)
        cells.append(end)
        inner.append(small)
        end += size
    return DualPlan(
        tables=tables,
        cells=starts,
        lanes=_cut(tables),
        inner=inner,
        inner_cells=cells,
        inner_lanes=partial(_cut, inner),
        folds=_rows(folds, 5),
        scale=np.array(scale),
        slopes=end,
        lane_cells=LANE_CELLS,
    )


def _cut(tables: Sequence[Table]) -> Cut:
    """Lanes of all tables, room for their spans, and which spans feed each piece of the vector."""
    lanes = []
    spans = []
    edges = 0
    fed: dict[tuple[int, int], list[tuple[np.ndarray, int]]] = {}
    for table in tables:
        count, made = lanes_of(table, edges)
        lanes.append(count)
        spans += made
        edges += sum(
            int(span[:, 2].sum()) for link, span in zip(table.links, made) if link.same is None
        )
        for link, span in zip(table.links, made):
            fed.setdefault((link.at, link.size), []).append((span, int(link.sign)))
    order = sorted(range(len(tables)), key=lambda i: -tables[i].rows * tables[i].cols // lanes[i])
    items = np.array([(i, lane) for i in order for lane in range(lanes[i])], np.int64).reshape(
        -1, 2
    )
    pieces, feeds = _pieces(fed)
    return Cut(lanes, spans, items, pieces, feeds, edges)


def _rows(values: list, width: int) -> np.ndarray:
    return np.array(values, np.int64).reshape(-1, width)


def lanes_of(table: Table, edges: int = 0) -> tuple[int, list[np.ndarray]]:
    """(number of lanes, spans [lanes, 3] of each link). There are as many lanes as LANE_CELLS gives, or
    fewer where their spans would overlap too much. A span is where it lies in the edge space (from
    `edges` on), the first entry that the lane reaches, and how many entries it reaches."""
    cells = table.rows * table.cols
    lanes = max(1, min(table.rows, cells // LANE_CELLS))
    own = [link for link in table.links if link.same is None]
    most = cells * len(own) / LANE_SIZES
    while True:
        cuts = table.rows * np.arange(lanes + 1) // lanes
        reach = [_reach(link, cuts, table.cols) for link in own]
        spans = sum(int((b - a).sum()) for a, b in reach)
        if (
            lanes == 1
            or spans <= most
            or spans <= OVERLAP * sum(int(b.max() - a.min()) for a, b in reach)
        ):
            break
        lanes = (lanes + 1) // 2
    made: list[np.ndarray] = []
    for link in table.links:
        if link.same is not None:
            made.append(made[link.same])
            continue
        low, high = reach.pop(0)
        made.append(
            np.stack([edges + np.cumsum(high - low) - (high - low), low, high - low], axis=1)
        )
        edges += int((high - low).sum())
    return lanes, made


def _reach(link: Link, cuts: np.ndarray, cols: int) -> tuple[np.ndarray, np.ndarray]:
    low = high = np.zeros(cuts.size - 1, np.int64)
    if link.base is not None:
        low = np.minimum.reduceat(link.base, cuts[:-1]).astype(np.int64)
        high = np.maximum.reduceat(link.base, cuts[:-1]).astype(np.int64)
    if isinstance(link.along, str):
        return low, high + {"row": 1, "cell": cols}[link.along]
    return low + int(link.along.min()), high + int(link.along.max()) + 1


def _pieces(
    fed: dict[tuple[int, int], list[tuple[np.ndarray, int]]],
) -> tuple[np.ndarray, np.ndarray]:
    """Pieces (at, size, first feed, feeds) of every segment, and feeds (edge, at, size, sign): the
    parts of spans that lie in a piece."""
    spans = [(k, span, sign) for k, sources in enumerate(fed.values()) for span, sign in sources]
    lengths = [len(span) for _, span, _ in spans]
    edge, low, length = np.concatenate([span for _, span, _ in spans]).T
    segment, sign = (np.repeat([one[i] for one in spans], lengths) for i in (0, 2))
    at, size = np.array(list(fed), np.int64).T
    of, start = _counted(-(-size // PIECE))  # the pieces' segments and places in them
    first = low // PIECE
    last = (low + length - 1) // PIECE
    which, nth = _counted(last - first + 1)  # the feeds' spans
    piece = first[which] + nth
    number = np.searchsorted(of, segment[which]) + piece
    order = np.argsort(number, kind="stable")
    which = which[order]
    piece = piece[order]
    number = number[order]
    a = np.maximum(low[which], piece * PIECE)
    b = np.minimum((low + length)[which], (piece + 1) * PIECE)
    feeds = np.stack([(edge - low)[which] + a, at[segment[which]] + a, b - a, sign[which]], axis=1)
    count = np.bincount(number, minlength=of.size)
    sizes = np.minimum(PIECE, size[of] - start * PIECE)
    return np.stack([at[of] + start * PIECE, sizes, np.cumsum(count) - count, count], axis=1), feeds


def _counted(times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Every index as often as `times` says, and how often it came before."""
    index = np.repeat(np.arange(times.size), times)
    return index, np.arange(index.size) - (np.cumsum(times) - times)[index]
