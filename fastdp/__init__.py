"""Differentially private synthetic data per person, at compiled speed.

The names below are the public contract; each is imported when first used, so that `import fastdp`
stays cheap.
"""

from importlib import import_module

_WHERE = {
    "Schema": "schema",
    "LinkedSchema": "schema.linked_schema",
    "Dialect": "schema.dialect",
    "Table": "tables.table",
    "read": "tables.ingest",
    "source": "tables.sources.source",
    "sql": "tables.sql",
    "select_keys": "release.keyselect",
    "synthesize": "run.synthesize",
    "Run": "run.result",
    "LinkedRun": "run.linked_result",
    "load_run": "run.loading",
    "scan": "run.loading",
    "register_spark": "run.spark_reader",
    "export": "catalogs.write",
    "publish": "run.publish",
    "Synthesizer": "run.synthesizer",
    "plan": "run.plan",
    "marginals": "engines.truth",
    "calibrate": "privacy.calibrate",
    "Measurement": "measurement",
    "fit": "estimate.estimator",
    "Model": "model.graphical_model",
    "evaluate": "report.evaluate",
    "check": "metrics.check",
    "compiled": "_util.compiled",
    "draft": "tables.drafting",
    "Ledger": "privacy.ledger",
    "verify": "run.verify",
}
_MODULES = ("errors", "queries", "privacy", "simulate", "mechanisms")

__all__ = ["__version__", *_WHERE, *_MODULES]


def __getattr__(name: str):
    if name in _WHERE:
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
