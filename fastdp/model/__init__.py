"""The estimator: measurements in, a graphical model out, rows from it. Never sees private data."""

from .estimate import fit
from .model import Model

__all__ = ["Model", "fit"]
