"""Libraries that take long to import, each imported when something of it is first used.

`from ._util.lazy import pa` costs nothing until `pa.table` is evaluated, so that `fastdp --help`,
and runs that never touch a library, do not wait for it.
"""

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
    import scipy.sparse as sp
    import scipy.special as special
else:
    _module = cache(import_module)

    class _Lazy:
        """Stands for a module; attributes are those of the module."""

        def __init__(self, name: str):
            self._name = name

        def __getattr__(self, attribute: str) -> Any:
            value = getattr(_module(self._name), attribute)
            if self._name == "pyarrow":  # every batch of rows looks up a hundred types and classes
                self.__dict__[attribute] = value
            return value

    pa = _Lazy("pyarrow")
    pc = _Lazy("pyarrow.compute")
    pq = _Lazy("pyarrow.parquet")
    pl = _Lazy("polars")
    sp = _Lazy("scipy.sparse")
    special = _Lazy("scipy.special")

__all__ = ["pa", "pc", "pl", "pq", "sp", "special"]
