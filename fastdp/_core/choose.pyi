import numpy as np
from numpy.typing import NDArray

def choose(
    facts: NDArray[np.uint32],
    codes: NDArray[np.uint32],
    of_rows: NDArray[np.int64],
    row_start: NDArray[np.int64],
    first: NDArray[np.int64],
    target: NDArray[np.float64],
    weight: NDArray[np.float64],
    step: NDArray[np.float64],
    steps: int,
    sweeps: int,
    seed: int,
    chosen: NDArray[np.uint8],
    least: float = 0.0,
    parts: int = 1,
    threads: int = 1,
    error: NDArray[np.float64] | None = None,
) -> None: ...
def row_counts(
    codes: NDArray[np.uint32],
    of_rows: NDArray[np.int64],
    row_start: NDArray[np.int64],
    first: NDArray[np.int64],
    weight: NDArray[np.float64],
) -> NDArray[np.float64]: ...
def weigh(
    cell: NDArray[np.uint32],
    value: NDArray[np.float64],
    line: NDArray[np.int64],
    even: NDArray[np.float64],
    most: float,
    factors: NDArray[np.float64],
) -> tuple[float, NDArray[np.float64]]: ...
def distinct(
    codes: NDArray[np.uint32], row_start: NDArray[np.int64], size: int
) -> NDArray[np.int64]: ...
def equal_pairs(
    codes: NDArray[np.uint32], row_start: NDArray[np.int64], size: int
) -> NDArray[np.int64]: ...
