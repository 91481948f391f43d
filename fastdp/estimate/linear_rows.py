"""Turns measurements into parts: measurements are checked, and each query becomes blocks of rows
over plain marginals."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .._core.tables import farthest
from .._core.team import Team
from ..domain import Clique, Domain
from ..errors import MeasurementError, SchemaError
from ..queries import Block, as_query

SHARPEST = 1e-25
"""The least sigma that a fit can work with, in rows."""
DULLEST = 1e100
"""The largest sigma that a fit can work with, in rows: its square must be finite."""
FARTHEST = 1e36
"""The largest answer, in units of its sigma: some solvers store it in float32."""


class Part(NamedTuple):
    """One block of one measurement: its rows, their noisy answers and precisions."""

    block: Block
    order: int
    y: np.ndarray
    weight: np.ndarray


def check(domain: Domain, measurements: Sequence, threads: int | Team = 1) -> list[Part]:
    """The measurements as parts, after every check that can be made of them; errors name the
    measurement."""
    parts: list[Part] = []
    for i, seen in enumerate(measurements):
        if not all(hasattr(seen, part) for part in ("clique", "values", "sigma", "query")):
            raise MeasurementError(
                f"measurement {i}: expected a fastdp.Measurement, got {type(seen).__name__}"
            )
        name = f"measurement {i} on {seen.clique}"
        try:
            clique = domain.check(seen.clique)
        except SchemaError as error:
            raise MeasurementError(f"{name}: {error}") from None
        if not clique:
            raise MeasurementError(f"{name}: the clique is empty; name at least one attribute")
        cells = domain.cells(clique)
        query = as_query(seen.query, cells)
        if query.cells != cells:
            raise MeasurementError(
                f"{name}: the query is over {query.cells} cells, the clique has {cells}"
            )
        y = np.ascontiguousarray(seen.values, np.float64).reshape(-1)
        if y.size != query.rows:
            raise MeasurementError(
                f"{name}: expected {query.rows} values, one per row of query, got {y.size}"
            )
        most_far = farthest(y, threads)
        if not np.isfinite(most_far):
            raise MeasurementError(f"{name}: a value is NaN or infinite")
        sigma = np.asarray(seen.sigma, np.float64)
        if sigma.ndim > 1 or (sigma.ndim == 1 and sigma.size != query.rows):
            raise MeasurementError(
                f"{name}: expected sigma to be one number, or one for each row of the query"
            )
        least, most = float(sigma.min(initial=DULLEST)), float(sigma.max(initial=SHARPEST))
        if not (least > 0 and most < np.inf):
            raise MeasurementError(f"{name}: sigma must be positive and finite")
        if least < SHARPEST or most > DULLEST:
            raise MeasurementError(f"{name}: sigma must lie between {SHARPEST:g} and {DULLEST:g}")
        if most_far > FARTHEST * least and (np.abs(y) > FARTHEST * sigma).any():
            raise MeasurementError(
                f"{name}: a value is more than {FARTHEST:g} times its sigma; check values and sigma"
            )
        weight = 1.0 / (sigma * sigma)
        weight = weight if sigma.ndim else np.broadcast_to(weight, y.shape)
        start = 0
        for block in query.blocks(clique):
            stop = start + _rows(domain, block)
            parts.append(Part(block, len(clique), y[start:stop], weight[start:stop]))
            start = stop
    return parts


def _rows(domain: Domain, block: Block) -> int:
    if block.matrix is not None:
        return block.matrix.rows
    return domain.cells(block.plus) if block.cells is None else block.cells.size


def usage(parts: Sequence[Part]) -> dict[frozenset[str], tuple[Clique, np.ndarray] | None]:
    """By set of attributes: the cells of its marginal that the parts refer to, as (axes, flat
    numbers); None where they are all cells."""
    used: dict[frozenset[str], dict[tuple[Clique, int], np.ndarray | None]] = {}
    for block in {id(part.block): part.block for part in parts}.values():
        looks = [(block.plus, None if block.matrix is not None else block.cells)]
        for clique, cells in [*looks, (block.minus, block.fine)] if block.minus else looks:
            used.setdefault(frozenset(clique), {})[clique, id(cells)] = cells
    out: dict[frozenset[str], tuple[Clique, np.ndarray] | None] = {}
    for key, found in used.items():
        cliques = {clique for clique, _ in found}
        if len(cliques) > 1 or any(cells is None for cells in found.values()):
            out[key] = None
        else:
            cells = np.concatenate(list(found.values()))
            out[key] = (
                cliques.pop(),
                cells if (cells[1:] > cells[:-1]).all() else np.unique(cells),
            )
    return out


def direct(parts: Sequence[Part]) -> set[frozenset[str]]:
    """The sets of attributes all of whose cells are measured one by one, by measurements of one
    order, and to which no other row refers."""
    orders: dict[frozenset[str], set[int]] = {}
    other: set[frozenset[str]] = set()
    for part in parts:
        block = part.block
        if block.key[0] == "cells" and block.cells is None:
            orders.setdefault(frozenset(block.plus), set()).add(part.order)
        else:
            other.add(frozenset(block.plus))
        if block.minus:
            other.add(frozenset(block.minus))
    return {attrs for attrs, ks in orders.items() if len(ks) == 1} - other
