from collections.abc import Sequence
from typing import Any

import numpy as np

from .team import Team

DROP: int
AFFINE: int
TABLE: int
SORTED: int
EDGES: int
TYPES: dict[str, int]

class Map:
    def __init__(
        self,
        rule: int,
        *,
        lo: int = 0,
        count: int = 0,
        ikeys: Any = None,
        fkeys: Any = None,
        table: Any = None,
        below: int = ...,
        above: int = ...,
        other: int = ...,
        nan: int = ...,
        null: int = ...,
    ) -> None: ...

Job = tuple[np.ndarray, Map, np.ndarray | None, int, np.ndarray, np.ndarray | None]

def encode(
    jobs: list[Job], columns: Sequence[np.ndarray] = (), keep: np.ndarray | None = None
) -> tuple[list[int], bool]: ...
def joined(columns: Sequence[Sequence[np.ndarray]], threads: int | Team) -> list[np.ndarray]: ...
def lookup(codes: np.ndarray, table: np.ndarray, out: np.ndarray) -> None: ...
def uniform(key: int, row0: int, u: np.ndarray) -> None: ...
def draw(
    codes: np.ndarray,
    lo: np.ndarray,
    hi: np.ndarray,
    mean: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    whole: bool,
    unit: float,
    key: int,
    row0: int,
    out: np.ndarray,
) -> None: ...
