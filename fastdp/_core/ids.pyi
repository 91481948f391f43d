import numpy as np
from numpy.typing import NDArray

U32 = NDArray[np.uint32]
I64 = NDArray[np.int64]

def group(key: U32, keys: int, seed: int, threads: int = 1) -> tuple[U32, I64]: ...
def units(
    indptr: I64, counts: I64, cells: U32, taken: I64, number: int, threads: int = 1
) -> tuple[U32, U32]: ...
def deal(
    row_order: U32,
    row_start: I64,
    unit_order: U32,
    unit_start: I64,
    row: U32 | None,
    unit: U32 | None,
    user: U32,
    owner: U32,
    threads: int = 1,
) -> tuple[U32, U32]: ...
