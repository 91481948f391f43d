import numpy as np
from numpy.typing import NDArray

U32 = NDArray[np.uint32]
I64 = NDArray[np.int64]

def group(key: U32, keys: int, seed: int) -> tuple[U32, I64]: ...
def deal(
    row_order: U32,
    row_start: I64,
    unit_order: U32,
    unit_start: I64,
    row: U32,
    unit: U32,
    user: U32,
    owner: U32,
) -> tuple[U32, U32]: ...
