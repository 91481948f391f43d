"""The estimator: noisy measurements in, the graphical model that fits them best out.

`estimator` holds `fit` and picks a solver: `dual/` for whole marginals, `flow/` for AdaGrid's rows,
`descent/` for everything else. `task` is the problem they share, `lower` writes the measurements as one
`quadratic`, `total` estimates the number of rows. Never sees private data: imports `domain`, `queries`,
`measurement`, `model` and the kernels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .estimator import fit

__all__ = ["fit"]


def __getattr__(name: str) -> Any:
    """Imports `fit` when first used: it brings scipy.sparse."""
    if name != "fit":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .estimator import fit

    globals()["fit"] = fit
    return fit
