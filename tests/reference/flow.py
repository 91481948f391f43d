"""The implicit mirror flow on a written-out joint table: the slow twin of `model.flow`.

A functional is a 0/1 mask over all combinations. Nothing is known of trees, places or nesting:
covariances are sums over the table, ancestors are found by looking which masks contain which, and
an implicit stride is solved by Newton's method with the whole Hessian.
"""

import numpy as np


def covariance(joint, masks):
    """Of the counts in the masks, under a multinomial with these expected counts."""
    counts = masks @ joint
    return (masks * joint) @ masks.T - np.outer(counts, counts) / joint.sum()


def inverse_factor(joint, masks, hulls, cells, variance, time):
    """Rows as in csrc/ancestors.h: row i solves the block of i and of the `cells` (numbers of
    masks) that contain its hull, the cell that it is or is left of."""
    hessian = covariance(joint, masks) + np.diag(variance / time)
    factor = np.zeros_like(hessian)
    for i, hull in enumerate(hulls):
        inside = [j for j in cells if j != i and (masks[j] >= hull).all()]
        at = [*inside, i]
        block = np.linalg.inv(hessian[np.ix_(at, at)])
        factor[i, at] = block[-1] / np.sqrt(block[-1, -1])
    return factor


def stride(joint, masks, target, variance, time, pull):
    """The joint table after one implicit stride from `joint`, and its multipliers: target - counts
    + variance / time * (multipliers - pull) = 0, where the table is `joint` times exp(- masks'
    multipliers), scaled to its total."""
    total = joint.sum()
    pulled = np.zeros(len(masks))

    def table(pulled):
        tilted = np.log(joint) - masks.T @ pulled
        tilted = np.exp(tilted - tilted.max())
        return total * tilted / tilted.sum()

    def value(pulled):  # of the dual, up to a constant
        tilted = np.log(joint) - masks.T @ pulled
        top = tilted.max()
        rest = target @ pulled + ((variance / time) * (pulled - pull)) @ (pulled - pull) / 2
        return total * (top + np.log(np.exp(tilted - top).sum())) + rest

    for _ in range(200):
        now = table(pulled)
        slope = target - masks @ now + variance / time * (pulled - pull)
        if np.abs(slope / np.sqrt(variance)).max() < 1e-10:
            break
        way = -np.linalg.solve(covariance(now, masks) + np.diag(variance / time), slope)
        size = 1.0
        while size > 1e-10 and value(pulled + size * way) > value(pulled) + 1e-4 * size * (
            slope @ way
        ):
            size /= 2
        pulled = pulled + size * way
    return table(pulled), pulled
