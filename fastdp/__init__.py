"""Differentially private synthetic data per person, at compiled speed.

The names below are the public contract; each is imported when first used, so that `import fastdp` stays
cheap.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType

_WHERE = {
    "Schema": "schema",
    "Dialect": "schema.dialect",
    "Table": "tables.table",
    "read": "tables.ingest",
    "sql": "tables.sql",
    "select_keys": "release.keyselect",
    "synthesize": "run.synthesize",
    "Run": "run.result",
    "load_run": "run.result",
    "Synthesizer": "run.synthesizer",
    "plan": "run.plan",
    "marginals": "engines.truth",
    "calibrate": "privacy.calibrate",
    "Measurement": "measurement",
    "fit": "estimate",
    "Model": "model",
    "evaluate": "report.evaluate",
    "check": "evaluate.check",
    "draft": "tables.drafting",
    "Ledger": "privacy.ledger",
    "verify": "run.verify",
}
_BRINGS = {"Schema": "tables.drafting"}
"""Modules that a name's own module must not import, since they lie above it, and that it works with."""
_MODULES = ("errors", "queries", "privacy", "simulate", "mechanisms")

__all__ = ["__version__", *_WHERE, *_MODULES]


def __getattr__(name: str):
    if name in _WHERE:
        if name in _BRINGS:
            import_module(f".{_BRINGS[name]}", __name__)
        value = getattr(import_module(f".{_WHERE[name]}", __name__), name)
    elif name in _MODULES:
        value = import_module(f".{name}", __name__)
    elif name == "__version__":
        from importlib.metadata import PackageNotFoundError, version

        try:
            value = version("fastdp")
        except PackageNotFoundError:
            value = "0+unknown"
    else:
        raise AttributeError(f"module 'fastdp' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


class _Package(ModuleType):
    """`fastdp.evaluate` is the function also after somebody imported the package `fastdp.evaluate`, which
    Python would put in its place."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in _WHERE and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
