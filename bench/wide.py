"""A problem with 110 columns: every 1-way marginal and the pairs of a random tree, identity
queries."""

from __future__ import annotations

import numpy as np

from fastdp.domain import Clique, Domain

from .measurements import OUT, Measured, Problem, load, save


def codes(
    rows: int, columns: int = 110, seed: int = 0, rows_seed: int | None = None
) -> tuple[Domain, dict[str, np.ndarray], list[Clique]]:
    """(domain, codes, pairs of the tree): columns of 2 to 60 codes; each depends on one of the six
    before it. `rows_seed`: other rows of the same law."""
    rng = np.random.default_rng(seed)
    draw = rng if rows_seed is None else np.random.default_rng((seed, rows_seed))
    names = [f"c{i:03}" for i in range(columns)]
    domain = Domain({name: int(rng.integers(2, 61)) for name in names})
    out = [draw.choice(domain[names[0]], rows, p=rng.dirichlet(np.ones(domain[names[0]])))]
    pairs: list[Clique] = []
    for i in range(1, columns):
        parent = int(rng.integers(max(0, i - 6), i))
        size = domain[names[i]]
        law = rng.dirichlet(np.full(size, 0.3), domain[names[parent]])
        law = np.minimum(law.cumsum(axis=1), 1.0)
        law[:, -1] = 1.0
        step = np.searchsorted(
            (law + np.arange(len(law))[:, None]).ravel(), out[parent] + draw.random(rows)
        )
        out.append(step - size * out[parent])
        pairs.append((names[parent], names[i]))
    return domain, dict(zip(names, out)), pairs


def build(rows: int, columns: int = 110, sigma: float = 200.0, seed: int = 0) -> Problem:
    """Every 1-way and the pairs of the tree, measured."""
    domain, coded, pairs = codes(rows, columns, seed)
    rng = np.random.default_rng((seed, 1))
    truth = []
    for parent, name in pairs:
        cell = coded[parent] * domain[name] + coded[name]
        truth.append(np.bincount(cell, minlength=domain.cells((parent, name))).astype(float))
    measured = []
    for name in domain:
        counts = np.bincount(coded[name], minlength=domain[name])
        measured.append(_noisy((name,), counts, sigma, rng))
    measured += [_noisy(pair, x, sigma, rng) for pair, x in zip(pairs, truth, strict=True)]
    return Problem(
        "wide", domain, measured=measured, outer=pairs, truth=truth, weighted=truth, rows=rows
    )


def _noisy(clique: Clique, x: np.ndarray, sigma: float, rng: np.random.Generator) -> Measured:
    return Measured(clique, x + rng.normal(0, sigma, x.size), np.full(x.size, sigma), None)


def prepare(rows: int = 1_000_000):
    """The cached file, made if missing."""
    path = OUT / f"wide-{rows}.npz"
    if not path.exists():
        save(path, build(rows))
    return path


__all__ = ["build", "load", "prepare"]
