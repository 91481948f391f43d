"""AdaGrid's answers as noisy whole marginals, which the dual solves: to compare it with the flow.

AdaGrid measures the fine cells of a marginal one by one, and sums of the others. The dual needs an
answer for every cell. `whole_marginals` gives the best linear estimate of each marginal from its own
rows: cells that were not measured are expected near independence, within their own size, and the sums
correct them. Fine cells keep their noise; others get the doubt that they had before the sums.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from scipy.sparse.linalg import LinearOperator, cg

from fastdp import Measurement
from fastdp.domain import Clique, Domain
from fastdp.significance import onto_simplex

STEPS = 60
"""Steps of conjugate gradients for one marginal."""
LEAST = 0.1
"""The doubt of a cell that is expected to be empty, in standard errors of a fine cell."""


def whole_marginals(domain: Domain, measurements: Sequence[Measurement]) -> list[Measurement]:
    """One measurement without a query for each clique, from its copies."""
    copies: dict[Clique, list[Measurement]] = defaultdict(list)
    for m in measurements:
        copies[m.clique].append(m)
    total = max(1.0, float(np.mean([m.values.sum() for m in measurements if len(m.clique) == 1])))
    shares: dict[str, np.ndarray] = {}
    out = []
    for clique in sorted(copies, key=len):
        found = copies[clique]
        values = np.mean([m.values for m in found], axis=0)
        sigma = np.broadcast_to(found[0].sigma, values.shape) / np.sqrt(len(found))
        query = found[0].query
        if len(clique) == 1:
            shares[clique[0]] = onto_simplex(values, total) / total
            out.append(Measurement(clique, values, sigma))
            continue
        expected = total * np.ones(())
        for name in clique:
            expected = np.multiply.outer(expected, shares[name])
        out.append(_estimated(clique, query, expected.reshape(-1), values, sigma))
    return out


def _estimated(clique: Clique, query, expected: np.ndarray, values, sigma) -> Measurement:
    """x = expected + V Q' (Q V Q' + S)^-1 (values - Q expected), V the doubt of each cell."""
    fine = query.grid.fine
    noise = float(sigma[0]) if fine.size else float(sigma.min())
    doubt = np.square(expected) + (LEAST * noise) ** 2
    doubt[fine] += (100 * noise) ** 2
    variance = np.square(sigma)

    def spread(r: np.ndarray) -> np.ndarray:
        return query.product(doubt * query.transpose(r)) + variance * r

    operator = LinearOperator((values.size, values.size), matvec=spread, dtype=np.float64)
    scale = LinearOperator(
        operator.shape, matvec=lambda r: r / (variance + doubt.mean()), dtype=np.float64
    )
    weights, _ = cg(operator, values - query.product(expected), maxiter=STEPS, M=scale)
    cells = expected + doubt * query.transpose(weights)
    error = np.sqrt(doubt)
    error[fine] = noise
    return Measurement(clique, cells, error)
