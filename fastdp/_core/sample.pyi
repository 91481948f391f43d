from typing import Any

from numpy.typing import NDArray

class Tree:
    def __init__(
        self, nodes: list[tuple[Any, ...]], sizes: NDArray[Any], widths: NDArray[Any]
    ) -> None: ...
    def fill(
        self,
        columns: list[NDArray[Any]],
        rows: int,
        shard_rows: int,
        first: int,
        count: int,
        method: int,
        seed: int,
        threads: int,
    ) -> None: ...
