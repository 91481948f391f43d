"""The parts on which the guarantee rests: calibration, accounting, exact noise and selection, the
ledger, the statement. It works on numbers and imports no table and no engine; `noise` is imported
by `release` alone.

Submodules are imported when first used.
"""

from importlib import import_module
from types import ModuleType

_MODULES = ("accountant", "calibrate", "gdp", "noise", "crosscheck", "select")


def __getattr__(name: str) -> ModuleType:
    if name in _MODULES:
        return import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULES])
