"""The estimator: measurements in, a graphical model out, rows from it.

`estimate` fits (over `lower`, `tree`, `layout`, `optimise`, `staged`), `total` estimates the number of rows,
`adjust` moves tables to given sums, `model` answers and samples, `store` keeps arrays in a file. Never sees
private data: imports `domain`, `queries`, `measurement` and the kernels; no schema, no table, nothing of
privacy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .estimate import fit
    from .model import Model

__all__ = ["Model", "fit"]

_WHERE = {"Model": "model", "fit": "estimate"}
"""Imported when first used: they bring scipy.sparse, and `tree` alone must not."""


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f".{_WHERE[name]}", __name__), name)
    return value
