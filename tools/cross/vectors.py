"""Cases of all kernels: inputs, and what the native build makes of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from . import codevectors, modelvectors, rowvectors, textvectors
from .casefile import File


def write(path: Path) -> int:
    """All cases; how many."""
    out = File()
    for module in (rowvectors, codevectors, textvectors, modelvectors):
        for part in module.PARTS:
            part(out, np.random.default_rng(7))
    path.write_bytes(b"".join(case for cases in out.cases.values() for case in cases))
    return sum(map(len, out.cases.values()))
