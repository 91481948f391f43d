"""The tables of a plan and how they lie in each other; see csrc/infer.h."""

import numpy as np
from msgspec import Struct, field

from ..domain import Clique

# How the functionals of a node are stored: the codes of `csrc/infer.h`.
NONE = 0
DENSE = 1
SPARSE = 2
DIRECT = 3


class Link(Struct):
    """How a hosted table lies in its host: offsets per host row, and strides over the row's merged
    dimensions."""

    at: int
    size: int
    base: np.ndarray | None
    n: tuple[int, ...]
    ts: tuple[int, ...]
    shared: int = 0


class Node(Struct):
    sep: Clique
    res: Clique
    rows: int
    cells: int
    table: int = 0
    row_at: int = 0
    separator: int = -1
    local: int = NONE
    local_at: int = 0
    direct: int = -1
    local_row: np.ndarray | None = None
    local_cell: np.ndarray | None = None
    lane_at: np.ndarray = field(default_factory=lambda: np.zeros(2, np.int64))
    links: list[Link] = field(default_factory=list)
    hosted: list[tuple[int, int, int, int, bool, int]] = field(default_factory=list)
    """At, size, first fold, folds; whether it takes messages, itself or in a table inside it;
    values of its first axis, if all tables inside it have that, else 1."""
    needs: int = 0  # of the stage above on the way down: 0 lanes alone, 1 gathers too, 2 folds too
    first_hosted: int = 0
    lane_buffer: int = 0
    buffer_at: int = 0

    @property
    def lanes(self) -> int:
        return len(self.lane_at) - 1

    @property
    def axes(self) -> Clique:
        return self.sep + self.res
