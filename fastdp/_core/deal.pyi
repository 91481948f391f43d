from typing import Any

import numpy as np
from numpy.typing import NDArray

def deal(
    row_start: NDArray[np.int64],
    user_start: NDArray[np.int64],
    codes: NDArray[np.uint32],
    size: NDArray[np.uint32],
    wanted: NDArray[np.uint32],
    group: NDArray[np.uint32],
    alpha: NDArray[np.float64],
    candidates: int,
    level: NDArray[np.float64],
    spread: NDArray[np.float64],
    cuts: NDArray[np.float64],
    scores: NDArray[np.float64],
    seed: int,
    threads: int,
    counted: bool = ...,
) -> tuple[NDArray[np.uint32], NDArray[np.int64]]: ...
def order_rows(
    plan: Any, owner: NDArray[np.uint32], seed: int, threads: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]: ...
