from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

def group_rows(
    group: NDArray[np.uint32], columns: Sequence[NDArray[np.uint8]], groups: int
) -> tuple[NDArray[np.int64], NDArray[np.uint64]]: ...
def grouped_pairs(
    start_a: NDArray[np.int64],
    packed_a: NDArray[np.uint64],
    start_b: NDArray[np.int64],
    packed_b: NDArray[np.uint64],
    sizes: NDArray[np.int32],
    threads: int,
) -> NDArray[np.float64]: ...
def distance(cells_a: NDArray[np.uint32], cells_b: NDArray[np.uint32], cells: int) -> float: ...
def mark(values: NDArray[np.integer], low: int, seen: NDArray[np.uint8]) -> None: ...
def recode(
    values: NDArray[np.integer], low: int, table: NDArray[np.uint8]
) -> NDArray[np.uint8]: ...
