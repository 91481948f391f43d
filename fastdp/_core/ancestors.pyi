from typing import Any

import numpy as np
from numpy.typing import NDArray

from .team import Team

MOST: int

def ancestors_of(
    number: NDArray[np.int64],
    begin: NDArray[np.int64],
    width: NDArray[np.int64],
    place: NDArray[np.int64],
    cells: int,
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.uint8]]: ...

class Ancestors:
    def __init__(
        self,
        first: NDArray[np.int64],
        column: NDArray[np.int32],
        mask: NDArray[np.uint8],
        parts: NDArray[np.int64],
        place: NDArray[np.int64],
        threads: int | Team,
    ) -> None: ...
    def fill(
        self,
        m: NDArray[np.float64],
        f: NDArray[np.float64],
        variance: NDArray[np.float64],
        time: float,
        total: float,
    ) -> NDArray[np.float64]: ...
    def factor(self, x: NDArray[np.float64]) -> NDArray[np.float64]: ...
    def solve(self, x: NDArray[np.float64]) -> NDArray[np.float64]: ...
    def direction(
        self,
        pairs: list[tuple[NDArray[np.float64], NDArray[np.float64]]],
        slope: NDArray[np.float64],
        soft: NDArray[np.float64],
    ) -> tuple[NDArray[np.float64], float]: ...

def slope_at(
    target: NDArray[np.float64],
    variance: NDArray[np.float64],
    f: NDArray[np.float64],
    soft: NDArray[np.float64],
    at: NDArray[np.float64],
    pull: NDArray[np.float64],
    way: NDArray[np.float64],
) -> tuple[NDArray[np.float64], float, float, float]: ...
def advance(
    step: float,
    way: NDArray[np.float64],
    at: NDArray[np.float64],
    change: NDArray[np.float64],
    before: NDArray[np.float64],
    active: NDArray[np.int64],
    delta: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]: ...

class SparseRows:
    rows: int
    cols: int
    def __init__(self, matrix: Any) -> None: ...
    def product(self, x: NDArray[np.float64], threads: int | Team) -> NDArray[np.float64]: ...
