from numpy import float64
from numpy.typing import NDArray

from .team import Team

def copied(
    table: NDArray[float64], threads: int | Team, out: NDArray[float64] | None = None
) -> NDArray[float64]: ...
def outer(a: NDArray[float64], b: NDArray[float64], threads: int | Team) -> NDArray[float64]: ...
def squares(
    x: NDArray[float64], y: NDArray[float64], sigma: float | NDArray[float64], threads: int | Team
) -> float: ...
def sums(
    table: NDArray[float64], least: float, threads: int | Team
) -> tuple[NDArray[float64], NDArray[float64], float]: ...
