"""Slow, obvious twins: marginals of a model from its whole joint table."""

import numpy as np


def joint(model):
    """The product over nodes of p(res | sep), times the total, over all attributes in the domain's
    order."""
    names = list(model.domain)
    operands = []
    for node in model.nodes:
        sums = node.table.sum(axis=1, keepdims=True)
        share = np.divide(node.table, sums, out=np.zeros(node.table.shape), where=sums > 0)
        operands += [
            share.reshape(model.domain.shape(node.axes)),
            [names.index(a) for a in node.axes],
        ]
    return model.total * np.einsum(*operands, list(range(len(names))))


def marginal(model, clique):
    return projection(model.domain, joint(model), clique)


def projection(domain, joint, clique):
    """The marginal of a table over the whole domain, with axes in the clique's order."""
    names = list(domain)
    return np.einsum(joint, list(range(len(names))), [names.index(a) for a in clique])
