"""Private-PGM's mirror descent, written anew in numpy as a reference twin.

McKenna, Sheldon, Miklau 2019, algorithm 1, with the step rule of the authors' numpy package: potentials over the cliques
of a junction tree, belief propagation in log space, the step starts at 1/total^2 (with losses in units of sigma^2, as
AdaGrid's authors call it), doubles every iteration and halves (at most 25 times) until the loss falls by half of
what the gradient promises. Messages use plain numpy without scipy's checks, so it is no slower than the package
it stands for.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from fastdp.domain import Clique, Domain

from . import adagrid_queries as grid
from .measurements import Problem

Tables = dict[Clique, np.ndarray]


@dataclass(frozen=True)
class Edge:
    """A message from one clique to another over their common attributes (in the domain's order)."""

    source: Clique
    target: Clique
    over: Clique


def junction_order(cliques: list[Clique]) -> list[Edge]:
    """Messages of an upward and a downward pass over the cliques, which must form a junction tree themselves
    (as AdaGrid's outer marginals do); checked by the running intersection."""
    inside, edges = [cliques[0]], []
    waiting = list(cliques[1:])
    while waiting:
        clique, parent = max(
            ((c, p) for c in waiting for p in inside), key=lambda pair: len(set(pair[0]) & set(pair[1]))
        )
        seen = set().union(*inside)
        if not set(clique) & seen <= set(parent):
            raise ValueError("the cliques are no junction tree; triangulate them first")
        edges.append(Edge(clique, parent, tuple(a for a in clique if a in parent)))
        inside.append(clique)
        waiting.remove(clique)
    down = [Edge(e.target, e.source, e.over) for e in edges]
    return edges[::-1] + down


def _axes(clique: Clique, over: Clique) -> tuple[int, ...]:
    return tuple(i for i, a in enumerate(clique) if a not in over)


def _log_sum(table: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    top = table.max(axis=axes, keepdims=True)
    top[~np.isfinite(top)] = 0
    out = np.exp(table - top).sum(axis=axes, keepdims=True)
    with np.errstate(divide="ignore"):
        np.log(out, out=out)
    return out + top


def belief_propagation(edges: list[Edge], potentials: Tables, total: float) -> Tables:
    """The marginals, scaled to `total`, of the model with these log potentials.

    A message keeps its summed axes with length 1; the axes of two cliques agree only after dropping them, so
    it is reshaped to the target's attributes.
    """
    beliefs = {c: t.copy() for c, t in potentials.items()}
    sent: dict[tuple[Clique, Clique], np.ndarray] = {}
    for e in edges:
        table = beliefs[e.source]
        back = sent.get((e.target, e.source))
        if back is not None:
            table = table - back.reshape(_spread_shape(table.shape, e.source, e.over))
        message = _log_sum(table, _axes(e.source, e.over))
        message = message.reshape([n for n in message.shape if n > 1] or [1])
        sent[e.source, e.target] = message
        beliefs[e.target] += message.reshape(_spread_shape(beliefs[e.target].shape, e.target, e.over))
    for c, table in beliefs.items():
        table += np.log(total) - _log_sum(table, tuple(range(table.ndim)))
        beliefs[c] = np.exp(table, out=table)
    return beliefs


def _spread_shape(shape: tuple[int, ...], clique: Clique, over: Clique) -> list[int]:
    return [n if a in over else 1 for a, n in zip(clique, shape, strict=True)]


class Objective:
    """Half the sum of ((Q mu - y) / sigma)^2 with explicit matrices, and its gradient per clique."""

    def __init__(self, problem: Problem):
        self.domain: Domain = problem.domain
        self.cliques = problem.outer
        started = time.perf_counter()
        matrices = grid.explicit_adagrid(problem.domain, problem.fine) if problem.fine else {}
        self.build_seconds = time.perf_counter() - started
        self.nonzeros = sum(q.nnz for q in matrices.values())
        self.terms = []
        for m in problem.measured:
            source = next(c for c in self.cliques if set(m.clique) <= set(c))
            if m.fine is None:
                matrix, y, noise = None, m.y, m.sigma[0]
            else:
                scalar = grid.scalars(problem.domain, problem.fine, m.clique)
                matrix, y, noise = matrices[m.clique], m.y * scalar, (m.sigma * scalar)[0]
            self.terms.append((source, m.clique, matrix, y, noise))

    def __call__(self, marginals: Tables) -> tuple[float, Tables]:
        loss = 0.0
        gradient = {c: np.zeros_like(t) for c, t in marginals.items()}
        for source, clique, matrix, y, noise in self.terms:
            table = marginals[source]
            x = table.sum(axis=_axes(source, clique)).ravel()
            residual = ((x if matrix is None else matrix @ x) - y) / noise
            loss += 0.5 * float(residual @ residual)
            slope = (residual if matrix is None else matrix.T @ residual) / noise
            gradient[source] += slope.reshape(_spread_shape(table.shape, source, clique))
        return loss, gradient

    def lipschitz(self, steps: int = 20) -> float:
        """The gradient's Lipschitz constant by power iteration: the Hessian is constant."""
        zero = {c: np.zeros(self.domain.shape(c)) for c in self.cliques}
        origin = self(zero)[1]
        v = {c: np.ones_like(t) for c, t in zero.items()}
        norm = 1.0
        for _ in range(steps):
            size = np.sqrt(sum(np.vdot(t, t) for t in v.values()))
            slope = self({c: t / size for c, t in v.items()})[1]
            v = {c: slope[c] - origin[c] for c in v}
            norm = np.sqrt(sum(np.vdot(t, t) for t in v.values()))
        return float(norm)


@dataclass
class Trace:
    """What a fit did: loss and seconds after each iteration, and the number of belief propagations."""

    loss: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    calls: int = 0


def mirror_descent(
    problem: Problem,
    total: float,
    iterations: int = 600,
    seconds: float = float("inf"),
    objective: Objective | None = None,
    callback: Callable[[int, float, Tables], None] | None = None,
) -> tuple[Tables, Trace]:
    """Private-PGM's fit; stops after `iterations` or when `seconds` have passed."""
    objective = objective or Objective(problem)
    edges = junction_order(problem.outer)
    trace, started = Trace(), time.perf_counter()
    potentials = {c: np.zeros(problem.domain.shape(c)) for c in problem.outer}
    marginals = belief_propagation(edges, potentials, total)
    loss, gradient = objective(marginals)
    trace.calls = 1
    step = max(term[-1] for term in objective.terms) ** 2 / total**2
    for iteration in range(iterations):
        step *= 2
        for _ in range(25):
            tried = {c: potentials[c] - step * gradient[c] for c in potentials}
            reached = belief_propagation(edges, tried, total)
            new_loss, new_gradient = objective(reached)
            trace.calls += 1
            promised = sum(np.vdot(gradient[c], marginals[c] - reached[c]) for c in tried)
            if loss - new_loss >= 0.5 * step * promised:
                break
            step *= 0.5
        potentials, marginals, loss, gradient = tried, reached, new_loss, new_gradient
        trace.loss.append(loss)
        trace.seconds.append(time.perf_counter() - started)
        if callback is not None:
            callback(iteration, loss, marginals)
        if trace.seconds[-1] > seconds:
            break
    return marginals, trace
