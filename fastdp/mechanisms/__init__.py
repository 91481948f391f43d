"""One module or package per mechanism; `registry` lists them.

A mechanism sees private data through the session it is handed, and nowhere else: it imports neither `tables`
nor `engines` nor what opens sessions. `base` says what a mechanism is, `shared/` holds what several use.
"""

from __future__ import annotations

from .base import Config
from .registry import config_class, names

__all__ = ["get", "names"]


def get(name: str) -> type[Config]:
    """The config class of a mechanism; UsageError lists the names there are."""
    return config_class(name)
