"""What every run imports, imported once in the process that all runs are forked from.

Only imports: a process that is forked must not have threads that work.
"""

from contextlib import suppress
from importlib import import_module

from fastdp.mechanisms import registry
from fastdp.privacy.statement import build_hash

MODULES = (
    "mpmath",
    "pandas",
    "pyarrow.compute",
    "scipy.sparse",
    "fastdp.estimate.estimator",
    "fastdp.model.array_file",
    "fastdp.model.sampler",
    "fastdp.run.execute",
    "sklearn.ensemble",
    "sklearn.linear_model",
    "sklearn.metrics",
    "sdmetrics.reports.single_table",
    "bench.scoreboard.runs",
)
for name in MODULES:
    with suppress(ImportError):
        import_module(name)
registry.names()
build_hash()
