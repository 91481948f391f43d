import numpy as np
from numpy.typing import NDArray

LANES: int

def gaussian(
    scale: NDArray[np.float64],
    key: NDArray[np.uint32] | None,
    threads: int,
    out: NDArray[np.int64],
) -> None: ...
def laplace(
    scale: NDArray[np.float64],
    key: NDArray[np.uint32] | None,
    threads: int,
    out: NDArray[np.int64],
) -> None: ...
def random_bytes(key: NDArray[np.uint32] | None, out: NDArray[np.uint8]) -> None: ...
def chacha20_block(
    key: NDArray[np.uint32], counter: int, nonce: NDArray[np.uint32]
) -> NDArray[np.uint32]: ...
def chacha20_lanes(
    key: NDArray[np.uint32], counter: int, nonce: NDArray[np.uint32]
) -> NDArray[np.uint32]: ...
def exp_minus(z: int) -> int: ...
def gauss_exponent(strip: int, u: int) -> int: ...
