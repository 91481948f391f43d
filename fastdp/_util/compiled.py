"""Compiles users' own loops: metrics for `fastdp.evaluate`, products of queries for
`Model.answer`."""

from collections.abc import Callable
from typing import TypeVar

Function = TypeVar("Function", bound=Callable)


def compiled(function: Function) -> Function:
    """Compile a function of numbers and numpy arrays with numba, or return it unchanged without
    numba.

    `pip install "fastdp[jit]"` brings numba. A compiled function gives the same result either way,
    may call other compiled functions, and releases the interpreter lock while it runs.
    """
    try:
        import numba
    except ImportError:
        return function
    return numba.njit(nogil=True)(function)  # type: ignore[return-value]
