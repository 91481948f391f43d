from collections.abc import Callable, Mapping, Sequence

import numpy as np

Found = tuple[np.ndarray, np.ndarray] | None

def exchange_gains(
    key: np.ndarray, groups: np.ndarray, own: int, others: Sequence[int], scores: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]: ...

class Items:
    room: int
    def __init__(
        self, shape: Sequence[int], items: Sequence[Sequence[int]], weight: np.ndarray, most: int
    ) -> None: ...
    def halve(
        self, order: np.ndarray, codes: np.ndarray, bits: np.ndarray, sweeps: int
    ) -> np.ndarray: ...
    def exchanged(
        self,
        codes: np.ndarray,
        kept: np.ndarray,
        scale: int,
        steps: Sequence[int],
        names: Sequence[str],
        made: Mapping[str, np.ndarray],
        groups: Callable[[str, Mapping[str, np.ndarray]], Found],
    ) -> dict[str, np.ndarray]: ...
    def exchange(
        self,
        codes: np.ndarray,
        own: int,
        order: np.ndarray,
        ends: np.ndarray,
        scale: int,
        step: int,
        counts: np.ndarray,
    ) -> None: ...
