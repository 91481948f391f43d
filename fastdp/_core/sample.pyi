from numpy.typing import NDArray

class Tree:
    def __init__(self, nodes: list[tuple], sizes: NDArray, widths: NDArray) -> None: ...
    def fill(
        self,
        columns: list[NDArray],
        rows: int,
        shard_rows: int,
        first: int,
        count: int,
        method: int,
        seed: int,
        threads: int,
    ) -> None: ...
