"""Marginals of a log-linear model by writing out the whole joint table: the slow twin of
`_core.infer`."""

import numpy as np

from .cliques import projection


def joint(domain, potentials):
    """Joint log-potential over all attributes; potentials: {clique: array in clique order}."""
    names = list(domain)
    log_p = np.zeros([domain[a] for a in names])
    for clique, value in potentials.items():
        value = np.asarray(value, float).reshape([domain[a] for a in clique])
        order = [a for a in names if a in clique]
        value = value.transpose([clique.index(a) for a in order])
        log_p = log_p + value.reshape([domain[a] if a in clique else 1 for a in names])
    return log_p


def marginals(domain, potentials, total, wanted):
    log_p = joint(domain, potentials)
    top = log_p.max()
    p = np.exp(log_p - top)
    log_z = top + np.log(p.sum())
    p *= total / p.sum()
    return {clique: projection(domain, p, clique) for clique in wanted}, log_z
