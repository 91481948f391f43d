"""What makes the guarantee true: calibration, accounting, exact noise and selection, the ledger, the
statement. Numbers only: it knows no table and no engine, and `noise` is imported by `release` alone.

Submodules are imported when first used.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

_MODULES = ("accountant", "calibrate", "gdp", "noise", "crosscheck", "select")


def __getattr__(name: str) -> ModuleType:
    if name in _MODULES:
        return import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULES])
