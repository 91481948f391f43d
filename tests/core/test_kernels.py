"""Kernels make of the vectors of tests/cross what is kept in kernels.json: integers to the bit, floats by
their sums within the vectors' tolerances. After a change that is meant: `python -m tests.core.test_kernels`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ..cross import modelvectors, vectors

FILE = Path(__file__).with_name("kernels.json")
PARTS: dict[str, Callable] = {part.__name__: part for part in (*vectors.PARTS, *modelvectors.PARTS)}


class Outputs(vectors.File):
    """Per case its kernel, its tolerance and its outputs: of integers a digest, of floats how many are
    finite, the sum of their absolute values, and that sum by place."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[list[Any]] = []

    def case(self, name: str, inputs: list[Any], outputs: list[Any], tolerance: float = 0.0) -> None:
        arrays = map(vectors.as_array, outputs)
        self.kept.append([name, tolerance, [self._facts(x) for x in arrays]])

    def _facts(self, array: np.ndarray) -> Any:
        if array.dtype.kind != "f":
            return hashlib.sha256(array.tobytes()).hexdigest()[:16]
        finite = np.abs(array[np.isfinite(array)].astype(np.float64))
        return [
            array.size,
            finite.size,
            float(finite.sum()),
            float(finite @ (1 + np.arange(finite.size) % 7)),
        ]


def made(part: str) -> list[list[Any]]:
    out = Outputs()
    PARTS[part](out, np.random.default_rng(7))
    return out.kept


@pytest.mark.parametrize("part", PARTS)
def test_kernels_make_of_their_vectors_what_is_kept(part):
    kept = json.loads(FILE.read_text())[part]
    for (name, tolerance, wanted), (kernel, _, got) in zip(kept, made(part), strict=True):
        assert name == kernel and len(wanted) == len(got)
        for was, now in zip(wanted, got):
            if isinstance(was, str):
                assert was == now, name
            else:
                assert was[:2] == now[:2], name
                assert now[2:] == pytest.approx(was[2:], rel=max(tolerance, 1e-11), abs=1e-9), name


if __name__ == "__main__":
    lines = ",\n".join(f"{json.dumps(part)}: {json.dumps(made(part))}" for part in PARTS)
    FILE.write_text("{\n" + lines + "\n}\n")
