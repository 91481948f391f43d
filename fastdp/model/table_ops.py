"""Adjusts tables to prescribed sums by raking. Post-processing of released numbers."""

from collections.abc import Sequence

import numpy as np

Margin = tuple[np.ndarray, np.ndarray]
"""(for every cell of a flat table the number of its total, the totals)"""


def ratio(wanted: np.ndarray, there: np.ndarray) -> np.ndarray:
    """wanted / there, 0 if nothing is there."""
    return np.divide(wanted, there, out=np.zeros(wanted.shape), where=there > 0)


def laid(table: np.ndarray, axes: Sequence[str], clique: Sequence[str]) -> np.ndarray:
    """The table with an axis for each attribute of the clique, of length 1 if it has none."""
    size = dict(zip(axes, table.shape))
    turned = table.transpose([axes.index(a) for a in clique if a in size])
    return turned.reshape([size.get(a, 1) for a in clique])


def rake(
    start: np.ndarray, margins: Sequence[Margin], sweeps: int, tolerance: float | None = None
) -> np.ndarray:
    """Iterative proportional fitting: the flat table `start` scaled to each margin's totals in
    turn.

    Converges to the table nearest to `start` in relative entropy that has the margins, where there
    is one; what is 0 stays 0. `tolerance`: ends once no total of the first margin is off by more
    (the last margin's are exact after each sweep); None makes all sweeps.
    """
    out = start
    for _ in range(sweeps):
        for at, totals in margins:
            now = np.bincount(at, weights=out, minlength=len(totals))
            out = out * ratio(totals, now)[at]
        if tolerance is not None:
            at, totals = margins[0]
            if (
                np.abs(np.bincount(at, weights=out, minlength=len(totals)) - totals).max()
                <= tolerance
            ):
                break
    return out
