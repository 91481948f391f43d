from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

def run(
    sums: list[
        tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64], int, NDArray[np.float64]]
    ],
    levels: list[
        Sequence[
            tuple[
                NDArray[np.float64],
                NDArray[np.float64],
                NDArray[np.int64],
                NDArray[np.int64] | None,
                NDArray[np.float64],
                NDArray[np.int64] | None,
                NDArray[np.int64] | None,
            ]
        ]
    ],
    threads: int,
) -> None: ...
