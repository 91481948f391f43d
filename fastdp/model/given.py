"""Rows of a model given some of their columns: exact draws from the conditional distribution, for
many combinations of given codes at once.

The given columns are fixed in every node's table. Then the others are eliminated one by one, last
sampled first, which keeps every product inside a clique. They are drawn in the opposite order.
Every array has a leading axis of combinations, of length 1 if no given column matters.
"""

from collections.abc import Mapping

import numpy as np

from .graphical_model import Model

BLOCK = 1 << 20
"""Numbers in one product: combinations are handled in blocks so that no product is larger."""
FLOOR = 1e-6
"""The share of each table in which given and other columns are independent. So a combination of
given codes that has no rows in the model gets the rows of all combinations. No other combination of
codes becomes possible."""


def sample_given(model: Model, given: Mapping[str, np.ndarray], seed: int) -> dict[str, np.ndarray]:
    """Codes of the columns that are not given, for rows with these codes of those that are."""
    generator = np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, 7])))
    free = [a for a in model.domain if a not in given]
    total = len(next(iter(given.values())))
    out = {a: np.zeros(total, np.min_scalar_type(max(model.domain[a] - 1, 0))) for a in free}
    known = [a for a in given if a in model.domain]
    if not free or not total:
        return out
    combos, of_row = _combinations(model, {a: given[a] for a in known}, total)
    order = np.argsort(of_row, kind="stable")
    tables = [_shares(model, node, known) for node in model.nodes]
    widest = max(
        (int(np.prod([model.domain[a] for a in axes])) for axes, _, _ in tables), default=1
    )
    step = max(1, BLOCK // widest)
    ends = np.searchsorted(of_row[order], np.arange(0, len(combos) + step, step))
    for k, start in enumerate(range(0, len(combos), step)):
        here = order[ends[k] : ends[k + 1]]
        if len(here):
            fixed = dict(zip(known, combos[start : start + step].T))
            drawn = _draw(model, tables, fixed, of_row[here] - start, generator)
            for a, codes in drawn.items():
                out[a][here] = codes
    return out


def _combinations(
    model: Model, given: Mapping[str, np.ndarray], rows: int
) -> tuple[np.ndarray, np.ndarray]:
    """(the combinations of codes that occur, one a row; the combination of each row)."""
    number = np.zeros(rows, np.int64)
    firsts = np.zeros(1, np.int64)
    for a, codes in given.items():
        keys = number * model.domain[a] + codes
        _, firsts, number = np.unique(keys, return_index=True, return_inverse=True)
    return np.stack([codes[firsts].astype(np.int64) for codes in given.values()], axis=1), number


def _shares(model: Model, node, known: list[str]):
    """(free axes, given axes, p(res | sep) of a node with its given axes first)."""
    cube = np.asarray(node.table, np.float64).reshape(model.domain.shape(node.axes))
    fixed = tuple(i for i, a in enumerate(node.axes) if a in known)
    if fixed and len(fixed) < len(node.axes):
        cube = cube + FLOOR * cube.mean(axis=fixed, keepdims=True)
    inner = tuple(range(len(node.sep), len(node.axes)))
    sums = cube.sum(axis=inner, keepdims=True)
    cube = np.divide(cube, sums, out=np.zeros_like(cube), where=sums > 0)
    rest = tuple(i for i in range(len(node.axes)) if i not in fixed)
    left, gone = (tuple(node.axes[i] for i in axes) for axes in (rest, fixed))
    return left, gone, np.ascontiguousarray(cube.transpose((*fixed, *rest)))


def _draw(model: Model, tables, fixed: Mapping[str, np.ndarray], combo: np.ndarray, generator):
    """Codes of the free columns for rows of these combinations (`combo`: the number of each
    row's)."""
    factors = []
    for axes, names, cube in tables:
        if axes:
            factors.append((axes, cube[tuple(fixed[a] for a in names)] if names else cube[None]))
    sampled = [a for node in model.nodes for a in node.res if a not in fixed]
    steps = []
    for a in reversed(sampled):
        touching = [f for f in factors if a in f[0]]
        factors = [f for f in factors if a not in f[0]]
        scope = tuple(dict.fromkeys(b for axes, _ in touching for b in axes if b != a))
        joint = _product(touching, (*scope, a))
        steps.append((a, scope, joint))
        if scope:
            message = joint.sum(axis=-1)
            top = message.max(axis=tuple(range(1, message.ndim)), keepdims=True)
            factors.append((scope, message / np.where(top > 0, top, 1.0)))
    drawn: dict[str, np.ndarray] = {}
    for a, scope, joint in reversed(steps):
        index = np.zeros(len(combo), np.int64) if joint.shape[0] == 1 else combo
        cell = np.ravel_multi_index((index, *(drawn[b] for b in scope)), joint.shape[:-1])
        drawn[a] = _pick(joint.reshape(-1, joint.shape[-1]), cell, generator)
    return drawn


def _product(factors, axes: tuple[str, ...]) -> np.ndarray:
    """The product over these axes, after the axis of combinations."""
    out = np.ones(1)
    for own, table in factors:
        order = sorted(range(len(own)), key=lambda i: axes.index(own[i]))
        laid = table.transpose((0, *(i + 1 for i in order)))
        sizes = dict(zip(own, table.shape[1:]))
        out = out * laid.reshape(laid.shape[0], *(sizes.get(a, 1) for a in axes))
    return out


def _pick(weights: np.ndarray, cell: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """A code for each row by the weights of its cell; evenly where a cell has none."""
    used, at = np.unique(cell, return_inverse=True)
    table = weights[used]
    table = np.where(table.sum(axis=1, keepdims=True) > 0, table, 1.0)
    ends = np.cumsum(table, axis=1)
    ends /= ends[:, -1:]
    size = table.shape[1]
    uniform = (1 - 1e-8) * generator.random(len(cell))
    # One search over all cells: the ends of cell i lie between i and i + 1.
    flat = (ends + np.arange(len(used))[:, None]).ravel()
    found = np.searchsorted(flat, uniform + at, side="right") - at * size
    return np.clip(found, 0, size - 1)
