"""Private-PGM's mirror descent as AdaGrid's authors called it in 2024, written anew as a reference
twin.

McKenna, Sheldon, Miklau 2019, algorithm 1: potentials over the cliques of a junction tree, belief
propagation in log space. The step rule is that of the authors' numpy package: alpha starts at
1/total^2, doubles every iteration and halves (at most 25 times) until the loss falls by alpha/2
times what the gradient promises. AdaGrid's authors hand over their measurements with a noise of 1,
so that loss and gradient are in rows, not in standard deviations: alpha is then tiny and the rule
accepts any fall. They first fit the 1-way marginals by the same rule and go on from there.

The rule runs on two oracles that give the same numbers: `Slow` in numpy with explicit sparse
matrices (what the package does, without scipy's checks, so it is no slower), which is timed; and
`Fast` on fastdp's own compiled oracle, which tells where 600 iterations lead without waiting for
them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from fastdp.domain import Clique, Domain

from . import adagrid_queries as grid
from .measurements import Problem, to_fastdp

Tables = dict[Clique, np.ndarray]


@dataclass(frozen=True)
class Edge:
    """A message from one clique to another over their common attributes (in the domain's order)."""

    source: Clique
    target: Clique
    over: Clique


def junction_order(cliques: list[Clique]) -> list[Edge]:
    """Messages of an upward and a downward pass over the cliques, which must form a junction tree
    themselves (as AdaGrid's outer marginals do); checked by the running intersection."""
    inside = [cliques[0]]
    edges = []
    waiting = list(cliques[1:])
    while waiting:
        clique, parent = max(
            ((c, p) for c in waiting for p in inside),
            key=lambda pair: len(set(pair[0]) & set(pair[1])),
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

    A message keeps its summed axes with length 1; the axes of two cliques agree only after dropping
    them, so it is reshaped to the target's attributes.
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
        beliefs[e.target] += message.reshape(
            _spread_shape(beliefs[e.target].shape, e.target, e.over)
        )
    for c, table in beliefs.items():
        table += np.log(total) - _log_sum(table, tuple(range(table.ndim)))
        beliefs[c] = np.exp(table, out=table)
    return beliefs


def _spread_shape(shape: tuple[int, ...], clique: Clique, over: Clique) -> list[int]:
    return [n if a in over else 1 for a, n in zip(clique, shape, strict=True)]


class Objective:
    """Half the sum of ((Q mu - y) / sigma)^2 with explicit matrices, and its gradient per
    clique."""

    def __init__(self, problem: Problem):
        self.domain: Domain = problem.domain
        self.cliques = problem.outer
        started = time.perf_counter()
        matrices = grid.explicit_adagrid(problem.domain, problem.fine) if problem.fine else {}
        self.nonzeros = sum(q.nnz for q in matrices.values())
        self.terms = []
        for m in problem.measured:
            source = next(c for c in self.cliques if set(m.clique) <= set(c))
            if m.fine is None:
                matrix = None
                y = m.y
                noise = m.sigma[0]
            else:
                scalar = grid.scalars(problem.domain, problem.fine, m.clique)
                q = matrices.pop(m.clique)
                matrix = (
                    q,
                    q.T.tocsr(),
                )  # both stored: the authors' own trick for a faster product
                y = m.y * scalar
                noise = (m.sigma * scalar)[0]
            self.terms.append((source, m.clique, matrix, y, noise))
        self.build_seconds = time.perf_counter() - started

    def __call__(self, marginals: Tables) -> tuple[float, Tables]:
        loss = 0.0
        gradient = {c: np.zeros_like(t) for c, t in marginals.items()}
        for source, clique, matrix, y, noise in self.terms:
            table = marginals[source]
            x = table.sum(axis=_axes(source, clique)).ravel()
            residual = ((x if matrix is None else matrix[0] @ x) - y) / noise
            loss += 0.5 * float(residual @ residual)
            slope = (residual if matrix is None else matrix[1] @ residual) / noise
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
    """What a fit did: loss, seconds and belief propagations so far after each iteration."""

    loss: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    calls: list[int] = field(default_factory=list)


class Slow:
    """The current point of a fit, in numpy."""

    def __init__(self, objective: Objective, total: float, start: Tables | None = None):
        self.objective = objective
        self.total = total
        self.calls = 0
        self.edges = junction_order(objective.cliques)
        self.noise = max(term[-1] for term in objective.terms)
        self.potentials = {c: np.zeros(objective.domain.shape(c)) for c in objective.cliques}
        for clique, table in (start or {}).items():
            source = next(c for c in objective.cliques if set(clique) <= set(c))
            self.potentials[source] += table.reshape(
                _spread_shape(self.potentials[source].shape, source, clique)
            )
        self._at(self.potentials)
        self.accept()

    def _at(self, potentials: Tables) -> None:
        reached = belief_propagation(self.edges, potentials, self.total)
        self._tried = (potentials, reached, *self.objective(reached))
        self.calls += 1

    def attempt(self, step: float) -> tuple[float, float]:
        """(loss there, fall a linear loss would bring) of a step against the gradient."""
        self._at({c: self.potentials[c] - step * self.gradient[c] for c in self.potentials})
        reached = self._tried[1]
        promised = sum(np.vdot(self.gradient[c], self.marginals[c] - reached[c]) for c in reached)
        return self._tried[2], float(promised)

    def accept(self) -> None:
        self.potentials, self.marginals, self.loss, self.gradient = self._tried


class Fast:
    """The same point on fastdp's compiled oracle."""

    def __init__(
        self,
        problem: Problem,
        total: float,
        start: Tables | None = None,
        threads: int | None = None,
    ):
        from fastdp._core.infer import Engine
        from fastdp._util.threads import resolve
        from fastdp.estimate.linear_rows import check, usage
        from fastdp.estimate.lower import lower
        from fastdp.model.junction_tree import junction_tree
        from fastdp.model.layout import make_plan

        parts = check(problem.domain, to_fastdp(problem))
        tree = junction_tree(problem.domain, [m.clique for m in problem.measured], None)
        self.plan = make_plan(problem.domain, tree, usage(parts))
        self.quadratic = lower(self.plan, parts)
        self.total = total
        self.threads = resolve(threads)
        self.noise = max(_unit_noise(problem, m) for m in problem.measured)
        theta = np.zeros(max(self.plan.size, 1))
        for clique, table in (start or {}).items():
            place = self.plan.places[frozenset(clique)]
            theta[place.at : place.at + place.size] += table
        self._engine = Engine(self.plan, self.threads)
        self.calls = 0
        self.tables = np.empty(self.plan.cells)
        self._m = np.empty(theta.size)
        self.theta = theta
        self._theta_next = theta.copy()
        self._delta = np.empty(self.quadratic.active.size)
        self._x = self.quadratic.residual(self._marginals(theta))
        self._x_next = self._x.copy()
        self.loss = self._loss_next = self.quadratic.loss(self._x, self.threads)

    def _marginals(self, theta: np.ndarray) -> np.ndarray:
        self._engine.infer(theta, self.total, self.tables, self._m)
        self.calls += 1
        return self._m[self.quadratic.active]

    def attempt(self, step: float) -> tuple[float, float]:
        q = self.quadratic
        threads = self.threads
        q.step(self._x, self._x, 1.0, step, self._delta, threads)
        self._theta_next[:] = self.theta
        self._theta_next[q.active] += self._delta
        m = self._marginals(self._theta_next)
        distance, _ = q.arrive(m, self._x, self._delta, self._x_next, threads)
        self._loss_next = q.loss(self._x_next, threads)
        return self._loss_next, 2 * distance / step

    def accept(self) -> None:
        self.theta, self._theta_next = self._theta_next, self.theta
        self._x, self._x_next, self.loss = self._x_next, self._x, self._loss_next

    def model(self):
        """The fitted `fastdp.Model` (the tables of the last attempt are the accepted ones)."""
        from fastdp.model.graphical_model import Model

        return Model.from_plan(
            self.plan,
            self.tables,
            total=self.total,
            loss=self.loss,
            iterations=self.calls,
            ended="iterations",
        )


def _unit_noise(problem: Problem, m) -> float:
    """The noise of a row with scalar 1."""
    return float(
        m.sigma[0]
        if m.fine is None
        else (m.sigma * grid.scalars(problem.domain, problem.fine, m.clique))[0]
    )


def descend(
    point: Slow | Fast,
    iterations: int = 600,
    seconds: float = float("inf"),
    callback: Callable[[int, float], None] | None = None,
) -> Trace:
    """The published rule, from where `point` is; ends after `iterations` or when `seconds` have
    passed."""
    trace = Trace()
    started = time.perf_counter()
    alpha = 1 / point.total**2
    unit = point.noise**2  # from rows to standard deviations
    for iteration in range(iterations):
        alpha *= 2
        for _ in range(25):
            loss, promised = point.attempt(alpha * unit)
            if point.loss - loss >= 0.5 * alpha * promised:
                break
            alpha *= 0.5
        point.accept()
        trace.loss.append(point.loss)
        trace.seconds.append(time.perf_counter() - started)
        trace.calls.append(point.calls)
        if callback is not None:
            callback(iteration, point.loss)
        if trace.seconds[-1] > seconds:
            break
    return trace


def one_ways(problem: Problem, total: float, iterations: int = 600) -> Tables:
    """Potentials of the 1-way marginals fitted by the same rule; empty where none was measured."""
    ones = [m for m in problem.measured if len(m.clique) == 1]
    if not ones:
        return {}
    small = Problem(
        "one",
        problem.domain,
        measured=ones,
        outer=[m.clique for m in ones],
        truth=[],
        weighted=[],
        rows=problem.rows,
    )
    point = Slow(Objective(small), total)
    descend(point, iterations)
    return {c: t.ravel() for c, t in point.potentials.items()}


def mirror_descent(
    problem: Problem, total: float, iterations: int = 600, seconds: float = float("inf")
) -> tuple[Tables, Trace]:
    """Marginals and trace of the published fit, in numpy."""
    point = Slow(Objective(problem), total, one_ways(problem, total, iterations))
    trace = descend(point, iterations, seconds)
    return point.marginals, trace
