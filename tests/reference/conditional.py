"""A model's conditional distributions by enumeration of all rows."""

import numpy as np


def joint(model):
    """p(row) over all attributes, as the product of the nodes' conditionals."""
    domain = model.domain
    names = list(domain)
    out = np.ones(domain.shape(names))
    for node in model.nodes:
        table = np.asarray(node.table, float)
        sums = table.sum(axis=1, keepdims=True)
        share = np.divide(table, sums, out=np.zeros_like(table), where=sums > 0)
        cube = share.reshape(domain.shape(node.axes))
        order = sorted(range(cube.ndim), key=lambda i, node=node: names.index(node.axes[i]))
        shape = [domain[a] if a in node.axes else 1 for a in names]
        out = out * cube.transpose(order).reshape(shape)
    return out


def given(p, hard, likelihood):
    """p(row, evidence). hard: a code or -1 for each attribute; likelihood: a vector or None for each."""
    out = p
    for i, (code, vector) in enumerate(zip(hard, likelihood)):
        own = np.eye(p.shape[i])[code] if code >= 0 else vector
        if own is not None:
            out = out * np.reshape(own, [-1 if j == i else 1 for j in range(p.ndim)])
    return out
