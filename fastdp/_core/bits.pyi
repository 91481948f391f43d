import numpy as np
from numpy.typing import NDArray

from .team import Team

def ones(
    words: NDArray[np.uint64],
    weight: NDArray[np.int64],
    sets: NDArray[np.int32],
    threads: int | Team,
) -> NDArray[np.int64]: ...
