from collections.abc import Sequence
from typing import Any

from numpy import float64, int32, int64
from numpy.typing import NDArray

LANE_CELLS: int
ALONG_KINDS: dict[str, int]

class View:
    rows: int
    cols: int
    size: int
    lanes: int
    room: int
    whole: bool
    spans: NDArray[int64]
    ratio: NDArray[float64]
    def __init__(
        self,
        rows: int,
        cols: int,
        size: int,
        base: NDArray[int32] | None,
        along: str | NDArray[int32],
        spans: NDArray[int64],
    ) -> None: ...

class Tour:
    team: Any
    def __init__(self, steps: Sequence[tuple[Any, ...]], threads: Any) -> None: ...
    def run(self) -> float: ...
