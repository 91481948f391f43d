"""The schedule of a pass: the work of every stage, cut into pieces that threads share (see
csrc/infer.h).

The cuts depend on the plan alone, never on the number of threads, so results do not either.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct

from .nodes import Node

SLICE_CELLS = 4096
"""Cells of a slice, about: a tenth of a millisecond at most, so that threads finish a stage
together."""

PIECE = 2048
"""Entries of a piece of a vector."""

FIRST_PIECE = 4
LATE = 6
FIRST_SENDER = 7
"""Places in fdp_hosted of csrc/infer.h; its last two are the first sender and the end of senders."""
FIRST_RATIO = 8
"""Place in fdp_stage of its first ratio."""

LARGE_STAGE = 32768
"""The fewest cells of a stage that several threads share. Below that, waiting for each other costs
more than it saves. Measured on 2 to 16 cores with the trees of the taxi and census recipes."""

LISTS = ("up", "down", "late", "deliveries", "gathers", "plain", "sums")


class Schedule(Struct, frozen=True):
    """`nodes` in the order of the passes; the other tables have a row of int64 for each struct of
    csrc/infer.h: `hosted` fdp_hosted, `stages` fdp_stage, `lists` fdp_slice or fdp_piece by name.
    `early` counts the ratios of tables that take no messages; `buffer` is the largest work space of
    two stages in doubles, `large` the cells of the stages that several threads share."""

    nodes: list[Node]
    hosted: np.ndarray
    stages: np.ndarray
    lists: dict[str, np.ndarray]
    early: int
    buffer: int
    large: int


def make_schedule(stages: Sequence[Sequence[Node]], copied: Mapping[int, int]) -> Schedule:
    """The schedule for nodes by depth, roots first; `copied`: parts of the vector that a pass
    begins by copying, as place and size."""
    nodes: list[Node] = []
    early: list[tuple[int, int, int, int]] = []
    hosted: list[list[int]] = []
    lists: dict[str, list[tuple[int, int, int, int]]] = {name: [] for name in LISTS}
    # work space of even and odd stages, of which two are in use at a time
    rows = []
    buffers = [0, 1]
    large_cells = 0
    for k, unsorted in enumerate(stages):
        stage = sorted(unsorted, key=lambda node: node.separator)
        firsts = [len(nodes), len(hosted), *map(len, lists.values())]
        cells = sum(node.rows * node.cells for node in stage)
        large = cells > LARGE_STAGE
        large_cells += cells * large
        for common in {node.separator: node for node in stage if node.sep}.values():
            alike = [
                len(nodes) + i for i, node in enumerate(stage) if node.separator == common.separator
            ]
            taker = next((one for one in hosted if one[0] == common.separator), None)
            if taker is None:
                lists["deliveries"] += _pieces(min(alike), max(alike) + 1, common.rows)
            else:
                taker[FIRST_SENDER:] = [min(alike), max(alike) + 1]
        buffer_at = 0
        for number, node in enumerate(stage, len(nodes)):
            own = [
                (i, link.size)
                for i, link in enumerate(node.links)
                if link.shared and node.lanes > 1
            ]
            node.first_hosted = len(hosted)
            node.buffer_at = buffer_at
            node.lane_buffer = sum(size for _, size in own)
            buffer_at += node.lane_buffer * node.lanes
            step = max(1, SLICE_CELLS // node.cells)
            slices = [
                (number, row, min(row + step, node.rows), 0) for row in range(0, node.rows, step)
            ]
            cuts = node.lane_at.tolist()
            lanes = [(number, cuts[lane], cuts[lane + 1], lane) for lane in range(node.lanes)]
            lists["up"] += slices
            lists["down"] += lanes if node.links else slices
            for i, size in own:
                lists["gathers"] += _pieces(number, i, size, 4)
            for (at, size, first_fold, folds, late, along), link in zip(node.hosted, node.links):
                finer = 0
                if large and size > 2 * PIECE:
                    finer = 4 if late else 1
                cut = _pieces(len(hosted), 0, size, finer)
                parts = max(
                    k for k in range(1, along + 1) if along % k == 0 and (k - 1) * PIECE < size
                )
                fold_pieces = [(len(hosted), parts, k, 0) for k in range(parts if folds else 0)]
                lists["sums" if link.shared else "plain"] += fold_pieces
                pieces = lists["late"] if late else early
                hosted.append([at, size, first_fold, folds, len(pieces), len(cut), late, 0, 0])
                pieces += cut
        nodes += stage
        buffers[k % 2] = max(buffers[k % 2], buffer_at)
        ends = [len(nodes), len(hosted), *map(len, lists.values())]
        runs = [number for first, end in zip(firsts, ends) for number in (first, end - first)]
        rows.append([*runs, max((node.needs for node in stage), default=0), large])
    for node in (node for odd in stages[1::2] for node in odd):
        node.buffer_at += buffers[0]
    for one in hosted:
        one[FIRST_PIECE] += len(early) * one[LATE]
    for row in rows:
        row[FIRST_RATIO] += len(early)
    lists = {"ratios": early + lists.pop("late"), **lists, "copies": _copies(copied)}
    made = {k: _table(v) for k, v in lists.items()}
    return Schedule(
        nodes=nodes,
        hosted=_table(hosted),
        stages=_table(rows),
        lists=made,
        early=len(early),
        buffer=sum(buffers),
        large=large_cells,
    )


def _copies(copied: Mapping[int, int]) -> list[tuple[int, int, int, int]]:
    """Pieces of the vector for these parts of it; neighbours are one part."""
    ends: dict[int, int] = {}
    for at in sorted(copied, reverse=True):
        ends[at] = ends.pop(at + copied[at], at + copied[at])
    return [
        (0, 0, a, min(a + PIECE, end)) for at, end in ends.items() for a in range(at, end, PIECE)
    ]


def _pieces(first: int, last: int, size: int, finer: int = 1) -> list[tuple[int, int, int, int]]:
    """A table of `size` entries in pieces of equal length; in one where `finer` is 0."""
    count = max(1, -(-size * finer // PIECE))
    return [(first, last, size * i // count, size * (i + 1) // count) for i in range(count)]


def _table(rows: Sequence[Sequence[int]]) -> np.ndarray:
    return np.array(rows, np.int64)
