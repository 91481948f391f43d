from typing import Any

from numpy import float64, int64
from numpy.typing import NDArray

def mixture(gram: NDArray[float64], gain: NDArray[float64]) -> NDArray[float64]: ...

class Dual:
    size: int
    cells: int
    products: int
    n_regions: int
    n_blocks: int
    y: NDArray[float64]
    inverse: NDArray[float64]
    offsets: NDArray[int64]
    diagonal: NDArray[float64]
    gradient: NDArray[float64]
    way: NDArray[float64]
    worst: float
    rms: float
    along: float
    team: Any
    def __init__(self, plan: Any, rhs: NDArray[float64], threads: Any) -> None: ...
    def evaluate(
        self,
        x: NDArray[float64],
        tau: NDArray[float64],
        kappa: NDArray[float64],
        cells: NDArray[Any] | None = None,
        ahead: tuple[float, NDArray[float64]] | None = None,
    ) -> NDArray[float64]: ...
    def solve(
        self,
        b: NDArray[float64],
        tol: float,
        most: int,
        sign: float = 1.0,
        out: NDArray[float64] | None = None,
        x: NDArray[float64] | None = None,
        ahead: NDArray[float64] | None = None,
    ) -> NDArray[float64]: ...
    def step(
        self, tol: float, most: int, x: NDArray[float64], ahead: NDArray[float64]
    ) -> float: ...
    def probe(self, seed: int, tol: float, most: int) -> NDArray[float64]: ...
    def centre(
        self,
        region: int,
        table: NDArray[Any],
        given: NDArray[Any],
        possible: NDArray[Any] | None = None,
    ) -> None: ...
    def gram(self, seen: NDArray[Any]) -> NDArray[float64]: ...
    def mix(self, seen: NDArray[Any], weights: NDArray[float64]) -> None: ...
