"""AdaGrid's queries twice: as masked projections, and as the explicit sparse matrices the peers
need.

The law (adagrid's step 4): a clique c with fine cells F_c has the query

    Q_c = [ identity on F_c ;  1/sqrt(m) Q_d P_(c->d) (1 - F_c)  for each of its m children d ]

where a child is a subset one attribute smaller, P projects, and 1-way cliques are fine everywhere.
Fine cells come first, in C order; children come in the order of `itertools.combinations`, so the
rows are those of `fastdp.queries.AdaGrid`, there without the scalars. Every column has L2 norm 1. A
coarse row may cover no cell; it stays (the mechanism's authors drop it), so that every estimator
sees the same rows and the same loss.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
from scipy import sparse

from fastdp.domain import Clique, Domain


def children(clique: Clique) -> list[Clique]:
    """The subsets one attribute smaller; none for a single attribute."""
    return list(combinations(clique, len(clique) - 1)) if len(clique) > 1 else []


def project(domain: Domain, clique: Clique, x: np.ndarray, onto: Clique) -> np.ndarray:
    """The marginal `x` over `clique` summed down to `onto` (in the clique's order)."""
    axes = tuple(i for i, name in enumerate(clique) if name not in onto)
    return x.reshape(domain.shape(clique)).sum(axis=axes).ravel()


def spread(domain: Domain, onto: Clique, x: np.ndarray, clique: Clique) -> np.ndarray:
    """`x` over `onto` repeated along the other attributes of `clique`: the transpose of
    `project`."""
    shape = [domain[name] if name in onto else 1 for name in clique]
    return np.broadcast_to(x.reshape(shape), domain.shape(clique)).reshape(-1)


def plausible(domain: Domain, clique: Clique, above: dict[Clique, np.ndarray]) -> np.ndarray:
    """Cells all of whose child cells were measured finely and came out above the threshold."""
    mask = np.ones(domain.cells(clique), dtype=bool)
    for child in children(clique):
        mask &= spread(domain, child, above[child], clique)
    return mask


def product(
    domain: Domain, fine: dict[Clique, np.ndarray], clique: Clique, x: np.ndarray
) -> np.ndarray:
    """Q_c x without the scalars: sums of cells of `x`, one per row."""
    mask = fine[clique]
    parts = [x[mask]]
    rest = np.where(mask, 0, x)
    for child in children(clique):
        parts.append(product(domain, fine, child, project(domain, clique, rest, child)))
    return np.concatenate(parts)


def scalars(domain: Domain, fine: dict[Clique, np.ndarray], clique: Clique) -> np.ndarray:
    """The scalar of every row: 1 on fine cells, 1/sqrt(number of children) at each level down."""
    below = children(clique)
    parts = [np.ones(np.count_nonzero(fine[clique]))]
    parts += [scalars(domain, fine, child) / np.sqrt(len(below)) for child in below]
    return np.concatenate(parts)


def explicit_adagrid(
    domain: Domain, fine: dict[Clique, np.ndarray]
) -> dict[Clique, sparse.csr_matrix]:
    """The same queries as CSR matrices, as the mechanism's authors hand them to Private-PGM."""
    columns: dict[Clique, sparse.csc_matrix] = {}
    rows: dict[Clique, sparse.csr_matrix] = {}
    for clique, mask in fine.items():
        n = mask.size
        below = children(clique)
        cells = np.flatnonzero(mask)
        blocks = [
            sparse.csr_matrix(
                (
                    np.ones(cells.size),
                    cells.astype(np.int32),
                    np.arange(cells.size + 1, dtype=np.int32),
                ),
                shape=(cells.size, n),
            )
        ]
        rest = np.flatnonzero(~mask)
        for child in below:
            number = np.arange(domain.cells(child), dtype=np.int32)
            part = columns[child][:, spread(domain, child, number, clique)[rest]]
            counts = np.zeros(n + 1, dtype=np.int64)
            counts[1 + rest] = np.diff(part.indptr)
            data = part.data * (1.0 / np.sqrt(len(below)))
            wide = sparse.csc_matrix(
                (data, part.indices, np.cumsum(counts)), shape=(part.shape[0], n)
            )
            blocks.append(wide.tocsr())
        rows[clique] = sparse.vstack(blocks, format="csr")
        if len(clique) < max(map(len, fine)):
            columns[clique] = rows[clique].tocsc()
    return rows
