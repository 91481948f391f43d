from collections.abc import Sequence

import numpy as np

def halve(
    order: np.ndarray,
    codes: np.ndarray,
    items: Sequence[Sequence[tuple[int, int]]],
    size: np.ndarray,
    weight: np.ndarray,
    bits: np.ndarray,
    sweeps: int,
) -> np.ndarray: ...
