"""The file of cases that harness.c reads.

Of each case: a name of 32 bytes, int32 the number of arrays, then per array its type (one byte),
int64 the number of items, float64 the tolerance (0: every bit), and the items. The processors are
little-endian.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

TYPES = {"u1": "b", "u2": "h", "u4": "w", "i4": "i", "i8": "l", "u8": "L", "f4": "f", "f8": "d"}
# Tolerances, as shares of the largest result: one processor rounds a product before it is added and
# the other does not, and the last place of libm differs.
DOUBLE = 1e-11
"""Of float64 results."""
SINGLE = 2e-5
"""Of float32 results."""


class File:
    """Cases by kernel, in the order in which kernels first came."""

    def __init__(self) -> None:
        self.cases: dict[str, list[bytes]] = {}

    def case(
        self, name: str, inputs: list[Any], outputs: list[Any], tolerance: float = 0.0
    ) -> None:
        """Numbers become int64 or float64, None an empty array, narrower signed types their own
        bytes. `tolerance` is of the outputs that are floats."""
        arrays = [(as_array(x), 0.0) for x in inputs]
        for x in map(as_array, outputs):
            arrays.append((x, tolerance if x.dtype.kind == "f" else 0.0))
        parts = [struct.pack("<32si", name.encode(), len(arrays))]
        for array, share in arrays:
            if array.dtype.str[1:] not in TYPES:
                array = array.view(f"u{array.itemsize}")
            parts.append(
                struct.pack("<cqd", TYPES[array.dtype.str[1:]].encode(), array.size, share)
            )
            parts.append(array.tobytes())
        self.cases.setdefault(name, []).append(b"".join(parts))


def as_array(x: Any) -> np.ndarray:
    if x is None:
        return np.zeros(0, np.uint8)
    array = np.ascontiguousarray(x)
    if array.dtype.kind in "bi" and not isinstance(x, np.ndarray):
        return array.astype(np.int64).reshape(-1)
    return array.reshape(-1)
