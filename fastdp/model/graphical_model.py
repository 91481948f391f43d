"""The fitted model: a distribution over all attributes, as marginal tables on a directed junction
tree.

p(row) = product over nodes of table[sep, res] / (sum over res), so a node is read as p(res | sep).
It answers marginals inside and outside its cliques, samples, conditions, scores rows, and saves
itself without pickle.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from .._core.infer import Engine
from .._util.files import as_path
from .._util.html import text_html
from .._util.lazy import sp
from ..domain import Clique, Domain, maximal
from ..errors import DataError, FastdpError, ModelTooLargeError, UsageError, is_whole
from ..queries import Identity, Sparse, as_query
from . import array_file
from .junction_tree import junction_tree
from .layout import Plan, make_plan
from .row_facts import RowFacts
from .sampler import Sampler

FORMAT = 1
MARGINAL_CELLS = 1 << 28
IMPOSSIBLE = -1e30
"""Potential of a cell that holds nothing: its exp is 0, and sums of it stay finite."""


@dataclass(frozen=True)
class Node:
    """p(res | sep): `table` has shape (cells of sep, cells of res) and holds the joint marginal, in
    rows."""

    sep: Clique
    res: Clique
    table: np.ndarray = field(repr=False)

    @property
    def axes(self) -> Clique:
        return self.sep + self.res


def nodes_of(plan: Plan, tables: np.ndarray) -> list[Node]:
    """The nodes of a model laid out so; they share memory with `tables`."""
    spans = [(n, tables[n.table : n.table + n.rows * n.cells]) for n in plan.nodes]
    return [Node(n.sep, n.res, span.reshape(n.rows, n.cells)) for n, span in spans]


Errors = Mapping[Clique, np.ndarray]
Measured = Errors | Callable[[], Errors] | None


class Model:
    """A fitted graphical model: expected rows in the cells of a junction tree's cliques.

    Attributes
    ----------
    domain : Domain
        Attribute to number of codes.
    nodes : tuple of Node
        p(res | sep) in the order of sampling; tables of shape (cells of sep, cells of res), in rows.
    total : float
        Rows.
    loss : float
        1/2 sum of squared standardised residuals at the end of the fit.
    iterations : int
        Oracle calls of the fit.
    ended : str
        What ended it: "noise level", "least risk", "noise level, pairs at least risk", "tolerance" or
        "iterations".
    trace : tuple of (calls, loss, seconds)
    merged : dict of str to array
        Code -> code in this model, of columns in which values share a code; empty if codes are the
        schema's.
    facts : RowFacts or None
        What leads from the model's codes to rows of the schema's; None: nothing is known of it.
    hidden : tuple of str
        Attributes that no row has, on which others depend.
    private : bool
        False, in the file too, where a known seed fixed the noise of its measurements.
    """

    def __init__(
        self,
        domain: Domain,
        nodes: Sequence[Node],
        *,
        total: float,
        loss: float = math.nan,
        iterations: int = 0,
        ended: str = "",
        trace: Sequence[tuple[int, float, float]] = (),
        measured: Measured = None,
    ):
        self.domain = domain
        self.nodes = tuple(nodes)
        self.total = float(total)
        self.loss = float(loss)
        self.iterations = int(iterations)
        self.ended = ended
        self.trace = tuple(trace)
        self.private = True
        self.merged: dict[str, np.ndarray] = {}
        self.facts: RowFacts | None = None
        self.hidden: Clique = ()
        self._measured: Measured = measured
        self._sampler: Sampler | None = None

    def __getstate__(self) -> dict[str, Any]:
        """For another process: the sampler is made again there."""
        return self.__dict__ | {"_sampler": None, "_measured": self.errors}

    @classmethod
    def from_plan(cls, plan: Plan, tables: np.ndarray, **facts: Any) -> Model:
        """The model whose nodes are those of a plan; `tables` is kept, not copied."""
        return cls(plan.domain, nodes_of(plan, tables), **facts)

    @property
    def errors(self) -> dict[Clique, np.ndarray]:
        """Standard error of every cell that was measured separately, per measured clique (inf if a
        cell was not)."""
        if not isinstance(self._measured, dict):  # only those who look at them wait for them
            self._measured = dict(
                (self._measured() if callable(self._measured) else self._measured) or {}
            )
        return self._measured

    @property
    def cells(self) -> int:
        """Cells of all tables."""
        return sum(node.table.size for node in self.nodes)

    @property
    def cliques(self) -> list[Clique]:
        """The maximal cliques, in the domain's order."""
        return list(self._maximal)

    @cached_property
    def _maximal(self) -> list[Clique]:
        return [self.domain.canonical(c) for c in maximal(n.axes for n in self.nodes)]

    def _repr_html_(self) -> str:
        """For notebooks."""
        cliques = "; ".join(" x ".join(c) for c in self.cliques)
        return text_html(f"{self!r}\nattributes: {', '.join(self.domain)}\ncliques: {cliques}")

    def __repr__(self) -> str:
        return (
            f"Model({len(self.domain)} attributes, {len(self.cliques)} cliques, {self.cells:,}"
            f" cells, total {self.total:,.0f}, loss {self.loss:.6g} after {self.iterations}"
            f" iterations: {self.ended})"
        )

    def marginal(self, attrs: Sequence[str] | str, max_cells: int = MARGINAL_CELLS) -> np.ndarray:
        """Expected rows in every cell over `attrs`, axes in the order given. The attributes need
        not share a clique. ModelTooLargeError if a table of more than `max_cells` would then be
        needed."""
        clique = self.domain.check(attrs)
        if not clique:
            return np.array(self.total)
        inside = [n for n in self.nodes if set(clique) <= set(n.axes)]
        if inside:
            node = min(inside, key=lambda n: n.table.size)
            return _sum_to(node.table.reshape(self.domain.shape(node.axes)), node.axes, clique)
        return self._eliminate(clique, max_cells)

    def answer(
        self, query, clique: Sequence[str], *, merged: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        """(answers, standard errors) of a query matrix over the clique's cells: the low-level call.
        Use `fastdp.Run.answer` for numbers to quote: it knows values, clipping and what was not
        measured.

        A column in which values share a code (see `merged`) is refused, since its cells are not
        those of the schema. `merged=True` asks for the model's own cells. `query` may be your own
        object with `cells` and a linear `product(counts)` (docs/guide/own-metrics.md). The error is
        that of the best single measured marginal that contains the clique, cell by cell. It is what
        the noise alone would give without the model's pooling. It is inf if no measurement covers a
        cell the query uses.
        """

        clique = self.domain.check(clique)
        shared = [a for a in clique if a in self.merged]
        if shared and not merged:
            why = f"values of {', '.join(shared)} share a code, so cells differ from the schema's"
            raise UsageError(
                f"answer: {why}; use run.answer, or pass merged=True to use the model's cells"
            )
        cells = self.domain.cells(clique)
        asked = query if hasattr(query, "product") else as_query(query, cells)
        if asked.cells != cells:
            raise UsageError(
                f"answer: the query is over {asked.cells} cells, but {clique} has {cells}"
            )
        values = asked.product(self.marginal(clique).reshape(-1))
        best = np.full(cells, np.inf)
        for axes, error in self.errors.items():
            if set(clique) <= set(axes):
                variance = _sum_to(
                    (error**2).reshape(self.domain.shape(axes)), axes, clique
                ).reshape(-1)
                best = np.minimum(best, variance)
        finite = np.isfinite(best)
        weights = _squared(asked)
        unknown = weights @ (~finite).astype(float) > 0
        errors = np.sqrt(weights @ np.where(finite, best, 0.0))
        errors[unknown] = np.inf
        return values, errors

    def sample(
        self,
        n: int,
        seed: int | None = None,
        where: Mapping[str, int] | None = None,
        *,
        method: str = "round",
        shard: int | None = None,
        shard_rows: int | None = None,
        threads: int | None = None,
    ) -> dict[str, np.ndarray]:
        """Code columns of `n` synthetic rows (or of one shard of them), in the domain's order of
        attributes.

        `where` fixes attributes to codes: rows are drawn exactly from the conditional distribution.
        """
        how: dict[str, Any] = {
            "method": method,
            "shard": shard,
            "shard_rows": shard_rows,
            "threads": threads,
        }
        if where:
            return self.conditioned(where).sample(n, seed, **how)
        if self._sampler is None:
            self._sampler = Sampler(self.domain, [(m.sep, m.res, m.table) for m in self.nodes])
        drawn = self._sampler.draw(n, seed=seed, **how)
        return {name: drawn[name] for name in self.domain}

    def conditioned(self, where: Mapping[str, int]) -> Model:
        """The model given that some attributes have these codes; its total is the expected number
        of such rows."""
        for name, code in where.items():
            self.domain.check((name,))
            if not is_whole(code, 0, self.domain[name] - 1):
                raise UsageError(
                    f"where: {name!r} has codes 0..{self.domain[name] - 1}, got {code!r}"
                )
        share = float(self.marginal(tuple(where))[tuple(int(c) for c in where.values())])
        if not share > 0:
            raise UsageError(
                f"where: the model has no rows with {dict(where)}; choose another condition"
            )
        change = {name: np.full(self.domain[name], float(IMPOSSIBLE)) for name in where}
        for name, code in where.items():
            change[name][int(code)] = 0.0
        return self._changed(change, share, "conditioned")

    def tilted(self, name: str, shares: np.ndarray) -> Model:
        """The model in which an attribute has these shares of the rows, and rows of each of its codes
        are as they were. Codes without rows stay so."""
        there = self.marginal((name,))
        wanted = np.asarray(shares, float) / max(float(np.sum(shares)), 1e-300) * self.total
        change = np.full(there.size, float(IMPOSSIBLE))
        np.log(wanted / np.maximum(there, 1e-300), out=change, where=(there > 0) & (wanted > 0))
        return self._changed({name: change}, self.total, "tilted")

    def _changed(self, change: Mapping[str, np.ndarray], total: float, ended: str) -> Model:
        """The distribution times the exponential of `change`, by attribute and code."""
        held = [n.axes for n in self.nodes]
        measured = dict.fromkeys(map(frozenset, [*held, *((name,) for name in change)]))
        plan = make_plan(self.domain, junction_tree(self.domain, held, 2**62), measured)
        theta = self.potentials(plan)
        for name, logs in change.items():
            place = plan.places[frozenset((name,))]
            theta[place.at : place.at + place.size] += logs
        theta = np.maximum(theta, IMPOSSIBLE)
        tables = np.empty(plan.cells)
        m = np.empty(max(plan.size, 1))
        Engine(plan, 1).infer(theta, total, tables, m)
        made = Model.from_plan(plan, tables, total=total, ended=ended)
        made.hidden = self.hidden
        return made

    def potentials(self, plan: Plan) -> np.ndarray:
        """This distribution as potentials of a plan that holds every node's set."""
        theta = np.zeros(max(plan.size, 1))
        for node in self.nodes:
            place = plan.places[frozenset(node.axes)]
            sums = node.table.sum(axis=1, keepdims=True, dtype=np.float64)
            with np.errstate(divide="ignore", invalid="ignore"):
                logs = np.log(node.table / sums)
            logs = np.where(np.isfinite(logs), logs, np.where(sums > 0, IMPOSSIBLE, 0.0))
            cube = logs.reshape(self.domain.shape(node.axes))
            flat = cube.transpose([node.axes.index(a) for a in place.axes]).reshape(-1)
            theta[place.at : place.at + place.size] += flat
        return np.maximum(theta, IMPOSSIBLE)

    def save(self, path: str | os.PathLike) -> None:
        """Write a versioned file of arrays and a JSON manifest (no pickle)."""
        arrays = {f"node{i}": node.table for i, node in enumerate(self.nodes)} | {
            f"error{i}": e for i, e in enumerate(self.errors.values())
        }
        manifest = {
            "kind": "model",
            "version": FORMAT,
            "domain": dict(self.domain),
            "total": self.total,
            "iterations": self.iterations,
            "ended": self.ended,
        }
        manifest["nodes"] = [[list(n.sep), list(n.res)] for n in self.nodes]
        manifest["measured"] = [list(c) for c in self.errors]
        manifest["loss"] = self.loss if math.isfinite(self.loss) else None
        manifest["trace"] = [[n, loss] for n, loss, _ in self.trace]
        if self.hidden:
            manifest["hidden"] = self.hidden[0] if len(self.hidden) == 1 else list(self.hidden)
        if self.merged:
            manifest["merged"] = {a: codes.tolist() for a, codes in self.merged.items()}
        if self.facts is not None:
            stored, manifest["rows"] = self.facts.stored()
            arrays |= stored
        array_file.save(path, arrays, manifest if self.private else manifest | {"private": False})

    @classmethod
    def load(cls, path: str | os.PathLike) -> Model:
        """A model that `save` wrote; DataError if the file is damaged or of another format."""
        path = as_path(path, "a model file")
        arrays, manifest = array_file.load(path)
        if manifest.get("kind") != "model" or manifest.get("version") != FORMAT:
            raise DataError(f"{path}: not a fastdp model of format {FORMAT}")
        try:
            domain = Domain(manifest["domain"])
            listed = enumerate(manifest["nodes"])
            nodes = [Node(tuple(sep), tuple(res), arrays[f"node{i}"]) for i, (sep, res) in listed]
            for node in nodes:
                if node.table.shape != (domain.cells(node.sep), domain.cells(node.res)):
                    raise DataError(
                        f"{path}: the table of {node.axes} has the wrong shape; restore the file"
                    )
            measured = {tuple(c): arrays[f"error{i}"] for i, c in enumerate(manifest["measured"])}
            loss = math.nan if manifest["loss"] is None else manifest["loss"]
            trace = [(int(n), float(v), math.nan) for n, v in manifest["trace"]]
            model = cls(
                domain,
                nodes,
                total=manifest["total"],
                loss=loss,
                iterations=manifest["iterations"],
                ended=manifest["ended"],
                trace=trace,
                measured=measured,
            )
            model.private = manifest.get("private", True) is True
            hidden = manifest.get("hidden", ())
            model.hidden = (hidden,) if isinstance(hidden, str) else tuple(map(str, hidden))
            model.merged = {
                a: np.asarray(c, np.int64) for a, c in manifest.get("merged", {}).items()
            }
            if "rows" in manifest:
                sizes = dict(domain) | {a: len(c) for a, c in model.merged.items()}
                model.facts = RowFacts.loaded(arrays, manifest["rows"], sizes)
            return model
        except DataError:
            raise
        except (*array_file.BROKEN, ArithmeticError, FastdpError) as error:
            raise DataError(
                f"{path}: the manifest has a missing or invalid key ({error}); restore the file"
            ) from None

    def _eliminate(self, clique: Clique, max_cells: int) -> np.ndarray:
        """Variable elimination over the conditionals of the nodes the clique depends on."""
        owner = {a: node for node in self.nodes for a in node.res}
        needed: dict[int, Node] = {}
        stack = list(clique)
        while stack:
            node = owner[stack.pop()]
            if id(node) not in needed:
                needed[id(node)] = node
                stack.extend(node.sep)
        factors = []
        for node in needed.values():
            sums = node.table.sum(axis=1, keepdims=True, dtype=np.float64)
            share = np.divide(node.table, sums, out=np.zeros(node.table.shape), where=sums > 0)
            factors.append((node.axes, share.reshape(self.domain.shape(node.axes))))
        hidden = {a for axes, _ in factors for a in axes} - set(clique)
        while hidden:
            a = min(hidden, key=lambda name: self._joined(factors, name))
            if self._joined(factors, a) > max_cells:
                raise ModelTooLargeError(
                    f"marginal over {clique}: it needs a table of more than "
                    f"{max_cells:,} cells; ask for fewer attributes at once"
                )
            touching = [f for f in factors if a in f[0]]
            factors = [f for f in factors if a not in f[0]]
            axes = tuple(dict.fromkeys(b for f, _ in touching for b in f if b != a))
            factors.append((axes, _product(touching, axes)))
            hidden.remove(a)
        cells = self.domain.cells(clique)
        if cells > max_cells:
            raise ModelTooLargeError(f"marginal over {clique}: {cells:,} cells; use fewer columns")
        return self.total * _product(factors, clique)

    def _joined(self, factors, a: str) -> int:
        return self.domain.cells({b for axes, _ in factors if a in axes for b in axes})


def _product(factors, axes: Clique) -> np.ndarray:
    names = {a: i for i, a in enumerate(dict.fromkeys(b for f, _ in factors for b in f))}
    operands: list[Any] = []
    for f, table in factors:
        operands += [table, [names[a] for a in f]]
    return np.einsum(*operands, [names[a] for a in axes], optimize="greedy")


def _sum_to(table: np.ndarray, axes: Clique, clique: Clique) -> np.ndarray:
    kept = [a for a in axes if a in clique]
    drop = tuple(i for i, a in enumerate(axes) if a not in clique)
    summed = table.sum(axis=drop, dtype=np.float64)
    return np.ascontiguousarray(summed.transpose([kept.index(a) for a in clique]))


def _squared(query):
    """The query's matrix with entries squared, as something that can multiply a vector of cell
    variances."""

    if isinstance(query, Sparse):
        return query.matrix.power(2)
    if isinstance(query, Identity):
        return sp.identity(query.cells, format="csr")
    columns = [query.product(np.eye(1, query.cells, i).reshape(-1)) for i in range(query.cells)]
    return sp.csr_array(np.array(columns).T ** 2)
