"""Differentially private synthetic data per person, at compiled speed.

The names below are the public contract; each is imported when first used, so that `import fastdp` stays cheap.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version

_WHERE = {
    "Schema": "schema",
    "Table": "table",
    "read": "table",
    "synthesize": "run",
    "Run": "run",
    "plan": "plan",
    "marginals": "truth",
    "calibrate": "privacy.calibrate",
    "Measurement": "measurement",
    "fit": "model",
    "Model": "model",
    "evaluate": "evaluate",
    "Ledger": "privacy.ledger",
    "verify": "verify",
}
_MODULES = ("errors", "queries", "privacy", "simulate", "mechanisms")

__all__ = [*_WHERE, *_MODULES]

try:
    __version__ = version("fastdp")
except PackageNotFoundError:
    __version__ = "0+unknown"


def __getattr__(name: str):
    if name in _WHERE:
        value = getattr(import_module(f".{_WHERE[name]}", __name__), name)
    elif name in _MODULES:
        value = import_module(f".{name}", __name__)
    else:
        raise AttributeError(f"module 'fastdp' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
