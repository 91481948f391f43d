from collections.abc import Sequence
from typing import Any

import numpy as np

JSON_DEPTH: int

Column = tuple[np.ndarray, np.ndarray, np.ndarray, int]

class Texts:
    count: int
    def __init__(self, items: Sequence[bytes]) -> None: ...

class Dialect:
    def __init__(
        self, delimiter: int, quote: int, escape: int, newlines: bool, nulls: Sequence[bytes]
    ) -> None: ...

def split(
    text: Any,
    dialect: Dialect,
    column: np.ndarray,
    columns: int,
    limit: int,
    keep_wrong: bool = False,
    final: bool = True,
) -> tuple[list[Column], int, int, int]: ...
def json(
    text: Any, keys: Texts, limit: int, keep_wrong: bool = False
) -> tuple[list[Column], int, int]: ...
def whole(offset: np.ndarray, data: np.ndarray, valid: np.ndarray | None) -> np.ndarray | None: ...
def shortest(offset: np.ndarray, data: np.ndarray, valid: np.ndarray | None) -> bool: ...
def whole_columns(
    columns: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray | None]],
) -> tuple[np.ndarray, list[bool]]: ...
