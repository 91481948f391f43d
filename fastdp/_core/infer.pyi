from typing import Any

from numpy import float32, float64
from numpy.typing import NDArray

from .team import Team

Tables = NDArray[float64] | NDArray[float32]

class State:
    cells: Tables
    rowsum: NDArray[float64]
    m: NDArray[float64]
    def __init__(self, cells: Tables, rowsum: NDArray[float64], m: NDArray[float64]) -> None: ...

class Engine:
    size: int
    cells: int
    dtype: Any
    team: Team
    def __init__(
        self, plan: Any, threads: int | Team, dtype: Any = ..., targets: Any = ...
    ) -> None: ...
    def state(self, tables: Tables | None = None) -> State: ...
    def infer(
        self, theta: NDArray[float64], total: float, tables: Tables, m: NDArray[float64]
    ) -> float | None: ...
    def adopt(self, state: State, total: float) -> None: ...
    def normalise(self, state: State, total: float) -> None: ...
    def move(
        self,
        z: State,
        x: Tables,
        weight: float,
        delta: NDArray[float64],
        size: float,
        mix: float,
        total: float,
        out: State,
        sums: NDArray[float64],
    ) -> tuple[float, bool]: ...

def step(
    a: float,
    dx: NDArray[float64],
    b: float,
    dz: NDArray[float64],
    w: NDArray[float64],
    out: NDArray[float64],
    threads: int | Team,
) -> None: ...
def arrive(
    m: NDArray[float64],
    t: NDArray[float64],
    dz: NDArray[float64],
    w: NDArray[float64],
    delta: NDArray[float64],
    out: NDArray[float64],
    threads: int | Team,
) -> tuple[float, float]: ...
def blend(
    a: float, new: NDArray[float64], w: NDArray[float64], d: NDArray[float64], threads: int | Team
) -> float: ...
def average(a: float, x: Tables, y: Tables, threads: int | Team) -> None: ...
