import numpy as np
from numpy.typing import NDArray

I64 = NDArray[np.int64]
U32 = NDArray[np.uint32]

def draw(start: I64, upto: I64, value: U32, group: I64, uniform: NDArray[np.float64]) -> U32: ...
