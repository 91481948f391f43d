"""Facts about users from their rows: the same arithmetic for private rows, in engines, and for the
synthetic users of a pool."""

from collections.abc import Callable

import numpy as np

from ..numbers.user_features import feature_values
from ..schema import Schema
from ..user_views import UserFacts


def facts_of(
    view: UserFacts,
    schema: Schema,
    start: np.ndarray,
    column: Callable[[str], np.ndarray],
    constant: Callable[[str], np.ndarray],
) -> dict[str, np.ndarray]:
    """Codes of the view's columns, one of each user. The rows of user u are start[u] to start[u + 1]
    - 1, at least one; column(name): the codes of a column in that order; constant(name): one code of
    each user. Sums are of whole numbers, so they are exact."""
    sizes = schema.domain
    first = start[:-1]
    rows = np.diff(start)
    out = {view.name: np.searchsorted(view.edges, rows, "right") - 1}
    for name, kind, of, numbers, edges in view.facts:
        if kind == "constant":
            out[name] = constant(of)
            continue
        if kind == "value":
            out[name] = np.searchsorted(edges, feature_values(of, schema, start, column), "right")
            continue
        codes = column(of).astype(np.int64)
        if kind in ("first", "last", "active"):
            codes = codes * numbers[0] // sizes[of]
        if kind == "first":
            out[name] = np.minimum.reduceat(codes, first)
        elif kind == "last":
            out[name] = np.maximum.reduceat(codes, first)
        else:
            out[name] = np.searchsorted(edges, _number(kind, codes, numbers, start), "right")
    return out


def _number(kind: str, codes: np.ndarray, numbers, start: np.ndarray) -> np.ndarray:
    """The number of each user that is binned."""
    if kind in ("sum", "mean"):
        sums = np.add.reduceat(np.array(numbers, np.int64)[codes], start[:-1])
        return sums if kind == "sum" else sums // np.diff(start)
    return distinct(codes, start)


def distinct(codes: np.ndarray, start: np.ndarray) -> np.ndarray:
    """How many different codes each user has."""
    from .._core import choose as core

    size = int(codes.max(initial=0)) + 1
    return core.distinct(codes.astype(np.uint32), start.astype(np.int64), size)


def agreement(codes: np.ndarray, start: np.ndarray) -> np.ndarray:
    """The share of pairs of each user's rows that have the same code; 0 for a user with one row."""
    from .._core import choose as core

    rows = np.diff(start)
    size = int(codes.max(initial=0)) + 1
    equal = core.equal_pairs(codes.astype(np.uint32), start.astype(np.int64), size)
    return 2.0 * equal / np.maximum(rows * (rows - 1.0), 1.0)
