"""The tables of a plan and how they lie in each other; see csrc/infer.h."""

from typing import NamedTuple

import numpy as np
from msgspec import Struct, field

from ..domain import Clique

# How the functionals of a node are stored: the codes of `csrc/infer.h`.
NONE = 0
DENSE = 1
SPARSE = 2
DIRECT = 3


class Place(Struct, frozen=True):
    """Where a set's marginal lies in the vector: its axes in order, its offset, and which cells are
    there."""

    axes: Clique
    at: int
    size: int
    cells: np.ndarray | None = None
    """Ascending flat cells (in `axes` order) of a sparse place; None: all."""


class Link(Struct):
    """How a hosted table lies in its host: offsets per host row, and strides over the row's merged
    dimensions."""

    at: int
    size: int
    base: np.ndarray | None
    n: tuple[int, ...]
    ts: tuple[int, ...]
    shared: int = 0


class HostedTable(NamedTuple):
    """A table inside a node, and the `folds` that add it into tables inside itself, from `first_fold` on.

    `late`: it takes messages, itself or in a table inside it. `along`: the values of its first axis,
    if all tables inside it have that axis, else 1.
    """

    at: int
    size: int
    first_fold: int
    folds: int
    late: bool
    along: int


class Node(Struct):
    """A table [separator | residual] of `rows` rows of `cells` cells, and where its parts lie.

    `table`, `row_at`: where its cells and rows begin among those of all nodes. `local`: how its own
    functionals are stored, and `local_at` where. `lane_at`: the rows at which lanes begin. `links`: how
    each hosted table lies in it, in the order of `hosted`.
    """

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
    hosted: list[HostedTable] = field(default_factory=list)
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
