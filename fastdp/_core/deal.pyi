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
    seed: int,
    threads: int,
) -> tuple[NDArray[np.uint32], NDArray[np.int64]]: ...
def order_rows(
    row_start: NDArray[np.int64],
    user_start: NDArray[np.int64],
    codes: NDArray[np.uint32],
    wanted: NDArray[np.uint32],
    group: NDArray[np.uint32],
    groups: int,
    kind: NDArray[np.uint32],
    kinds: int,
    time: NDArray[np.uint32],
    end: NDArray[np.uint32],
    ends: int,
    this: NDArray[np.uint32],
    that: NDArray[np.uint32],
    keys: NDArray[np.uint32],
    gaps: int,
    shift: NDArray[np.float64],
    tries: int,
    owner: NDArray[np.uint32],
    seed: int,
    threads: int,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]: ...
