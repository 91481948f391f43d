from collections.abc import Sequence
from typing import Any

import numpy as np

class Tree:
    def __init__(self, nodes: Sequence[tuple[Any, ...]], sizes: Sequence[int]) -> None: ...
    def run(
        self,
        hard: np.ndarray,
        soft: np.ndarray,
        start: np.ndarray,
        number: np.ndarray,
        seed: int,
        likelihood: Sequence[np.ndarray | None],
        draw: bool,
        posterior: bool,
    ) -> tuple[np.ndarray, np.ndarray | None, np.ndarray | None]: ...
