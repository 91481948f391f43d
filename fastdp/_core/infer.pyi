from typing import Any

from numpy import float32, float64
from numpy.typing import NDArray

Tables = NDArray[float64] | NDArray[float32]

class Engine:
    size: int
    cells: int
    def __init__(self, plan: Any, threads: int) -> None: ...
    def infer(
        self,
        theta: NDArray[float64],
        total: float,
        tables: Tables,
        m: NDArray[float64],
        weight: float = 0.0,
        average: Tables | None = None,
    ) -> float | None: ...

def step(
    a: float,
    dx: NDArray[float64],
    b: float,
    dz: NDArray[float64],
    w: NDArray[float64],
    theta: NDArray[float64],
    out: NDArray[float64],
    threads: int,
) -> None: ...
def arrive(
    m: NDArray[float64],
    t: NDArray[float64],
    dz: NDArray[float64],
    w: NDArray[float64],
    theta_new: NDArray[float64],
    theta: NDArray[float64],
    out: NDArray[float64],
    threads: int,
) -> tuple[float, float]: ...
def blend(
    a: float, new: NDArray[float64], w: NDArray[float64], d: NDArray[float64], threads: int
) -> float: ...
def average(a: float, x: Tables, y: Tables, threads: int) -> None: ...
