"""The schedule of a pass: the work of every stage, cut into pieces that threads share (see
csrc/infer.h).

The cuts depend on the plan alone, never on the number of threads, so results do not either.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct

from .nodes import HostedTable, Node

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

Piece = tuple[int, int, int, int]
"""A row of fdp_slice or fdp_piece."""

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
    schedule = _Schedule()
    for stage in stages:
        schedule.add(sorted(stage, key=lambda node: node.separator))
    return schedule.finished(stages, copied)


class _Schedule:
    """A schedule to which stages are added, roots first.

    `early`: pieces of ratios of tables that take no messages, whose ratios all come first. `buffers`:
    work space of even and odd stages, of which two are in use at a time.
    """

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.hosted: list[list[int]] = []
        self.stages: list[list[int]] = []
        self.lists: dict[str, list[Piece]] = {name: [] for name in LISTS}
        self.early: list[Piece] = []
        self.buffers = [0, 1]
        self.large_cells = 0

    def add(self, stage: Sequence[Node]) -> None:
        """Cut the work of one stage into pieces."""
        firsts = self._counts()
        cells = sum(node.rows * node.cells for node in stage)
        large = cells > LARGE_STAGE
        self.large_cells += cells * large
        self._deliver(stage)
        buffer = 0
        for number, node in enumerate(stage, len(self.nodes)):
            buffer = self._place_buffer(node, buffer)
            self._divide_rows(number, node)
            self._divide_hosted(node, large)
        self.nodes += stage
        parity = len(self.stages) % 2
        self.buffers[parity] = max(self.buffers[parity], buffer)
        runs = [
            number for first, end in zip(firsts, self._counts()) for number in (first, end - first)
        ]
        self.stages.append([*runs, max((node.needs for node in stage), default=0), large])

    def finished(self, stages: Sequence[Sequence[Node]], copied: Mapping[int, int]) -> Schedule:
        """The schedule; places that were counted from the early ratios now count from the first."""
        for node in (node for odd in stages[1::2] for node in odd):
            node.buffer_at += self.buffers[0]
        for one in self.hosted:
            one[FIRST_PIECE] += len(self.early) * one[LATE]
        for row in self.stages:
            row[FIRST_RATIO] += len(self.early)
        lists = {"ratios": self.early + self.lists.pop("late"), **self.lists}
        lists["copies"] = _copies(copied)
        return Schedule(
            nodes=self.nodes,
            hosted=_table(self.hosted),
            stages=_table(self.stages),
            lists={name: _table(pieces) for name, pieces in lists.items()},
            early=len(self.early),
            buffer=sum(self.buffers),
            large=self.large_cells,
        )

    def _counts(self) -> list[int]:
        return [len(self.nodes), len(self.hosted), *map(len, self.lists.values())]

    def _deliver(self, stage: Sequence[Node]) -> None:
        """Name the nodes that send to each separator: to a hosted table, or else by deliveries."""
        for separator, common in {node.separator: node for node in stage if node.sep}.items():
            senders = [i for i, n in enumerate(stage, len(self.nodes)) if n.separator == separator]
            first, end = min(senders), max(senders) + 1
            taker = next((one for one in self.hosted if one[0] == separator), None)
            if taker is None:
                self.lists["deliveries"] += _pieces(first, end, common.rows)
            else:
                taker[FIRST_SENDER:] = [first, end]

    def _place_buffer(self, node: Node, at: int) -> int:
        """Give the node work space from `at` on, for tables that its lanes share; its end."""
        node.first_hosted = len(self.hosted)
        node.buffer_at = at
        node.lane_buffer = sum(size for _, size in _shared(node))
        return at + node.lane_buffer * node.lanes

    def _divide_rows(self, number: int, node: Node) -> None:
        """Cut the node's rows into slices on the way up, and into lanes on the way down."""
        step = max(1, SLICE_CELLS // node.cells)
        slices = [(number, row, min(row + step, node.rows), 0) for row in range(0, node.rows, step)]
        cuts = node.lane_at.tolist()
        lanes = [(number, cuts[lane], cuts[lane + 1], lane) for lane in range(node.lanes)]
        self.lists["up"] += slices
        self.lists["down"] += lanes if node.links else slices
        for i, size in _shared(node):
            self.lists["gathers"] += _pieces(number, i, size, 4)

    def _divide_hosted(self, node: Node, large: bool) -> None:
        """Cut the sums and ratios of the tables inside the node into pieces."""
        for table, link in zip(node.hosted, node.links):
            place = len(self.hosted)
            finer = 0
            if large and table.size > 2 * PIECE:
                finer = 4 if table.late else 1
            ratios = _pieces(place, 0, table.size, finer)
            parts = _parts_along(table) if table.folds else 0
            self.lists["sums" if link.shared else "plain"] += [
                (place, parts, k, 0) for k in range(parts)
            ]
            pieces = self.lists["late"] if table.late else self.early
            self.hosted.append(
                [
                    table.at,
                    table.size,
                    table.first_fold,
                    table.folds,
                    len(pieces),
                    len(ratios),
                    table.late,
                    0,
                    0,
                ]
            )
            pieces += ratios


def _shared(node: Node) -> list[tuple[int, int]]:
    """(number, size) of the node's links whose cells several lanes write."""
    if node.lanes <= 1:
        return []
    return [(i, link.size) for i, link in enumerate(node.links) if link.shared]


def _parts_along(table: HostedTable) -> int:
    """The most equal parts of the table's first axis that have a piece each."""
    along = table.along
    return max(k for k in range(1, along + 1) if along % k == 0 and (k - 1) * PIECE < table.size)


def _copies(copied: Mapping[int, int]) -> list[Piece]:
    """Pieces of the vector for these parts of it; neighbours are one part."""
    ends: dict[int, int] = {}
    for at in sorted(copied, reverse=True):
        ends[at] = ends.pop(at + copied[at], at + copied[at])
    return [
        (0, 0, a, min(a + PIECE, end)) for at, end in ends.items() for a in range(at, end, PIECE)
    ]


def _pieces(first: int, last: int, size: int, finer: int = 1) -> list[Piece]:
    """A table of `size` entries in pieces of equal length; in one where `finer` is 0."""
    count = max(1, -(-size * finer // PIECE))
    return [(first, last, size * i // count, size * (i + 1) // count) for i in range(count)]


def _table(rows: Sequence[Sequence[int]]) -> np.ndarray:
    return np.array(rows, np.int64)
