from typing import Any

from numpy import float64, int64
from numpy.typing import NDArray

class Dual:
    size: int
    cells: int
    products: int
    n_regions: int
    y: NDArray[float64]
    inverse: NDArray[float64]
    offsets: NDArray[int64]
    diagonal: NDArray[float64]
    team: Any
    def __init__(self, plan: Any, rhs: NDArray[float64], threads: Any) -> None: ...
    def evaluate(
        self,
        x: NDArray[float64],
        tau: NDArray[float64],
        kappa: NDArray[float64],
        cells: NDArray[float64] | None = None,
    ) -> tuple[NDArray[float64], NDArray[float64]]: ...
    def solve(self, b: NDArray[float64], tol: float, most: int) -> NDArray[float64]: ...
    def probe(self, seed: int, tol: float, most: int) -> NDArray[float64]: ...
