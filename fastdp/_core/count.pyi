from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .team import Team

class Rows:
    def __init__(
        self,
        columns: Sequence[np.ndarray],
        user: NDArray[np.uint32] | None,
        weight: NDArray[np.uint32] | None,
        rows: int,
    ) -> None: ...

def count(
    rows: Rows,
    start: NDArray[np.int32],
    column: NDArray[np.int32],
    size: NDArray[np.uint32],
    offset: NDArray[np.int64],
    cells: NDArray[np.int64],
    threads: int | Team,
    chunk: int,
    budget: int,
    tables: NDArray[np.int64],
) -> None: ...
def cells(rows: Rows, size: NDArray[np.uint64], threads: int | Team) -> NDArray[np.uint64]: ...
def sparse(
    rows: Rows, keys: NDArray[np.uint64], bits: int, threads: int | Team
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]: ...

class Projections:
    def __init__(
        self, levels: Sequence[Sequence[tuple[NDArray[np.int64], int, int, NDArray[np.int64]]]]
    ) -> None: ...
    def run(self, threads: int | Team) -> None: ...
