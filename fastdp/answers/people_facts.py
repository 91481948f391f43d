"""Answers about users: what a run released of its users, as a table with one row per user.

The table has a column for each fact: `rows`, `first(month)`, `last(month)`, `active(month)` (periods
with rows), `sum(amount)`, `mean(amount)`, `distinct(shop)`, and constants by their own name. All of
it follows from released numbers, so answers are post-processing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import combinations, pairwise
from typing import Any

import numpy as np
from msgspec import Struct

from .._util.lazy import pa
from ..domain import Clique, Domain
from ..errors import UsageError
from ..measurement import Measurement
from ..model.graphical_model import Model
from ..model.marginals import marginals as model_marginals
from ..numbers.user_features import Feature
from ..privacy.clip import choice_bound, size_edges
from ..schema import Schema
from ..schema.columns import Column
from .best_linear import Table
from .clipping import Clipping
from .coherent import CoherentTable
from .evidence import Marginal, marginals_of
from .facts import Facts
from .misfit import empirical_bayes, expected_sizes

ROWS = "rows"
OF_USERS = re.compile(r"^\s*(?P<of>.+?)\s+(?:of\s+users|per\s+user)\s*$", re.S)
# Labels of releases of every run that makes users.
HISTOGRAM = "rows per user"
FINE = "rows per user in fine bins"
ORDER = "order of users' rows"
BY_ROWS = "users by RowsPerUser"
PAIRS = "people"
"""The released table of pairs of facts, by the model."""
EXACT = ("constant", "first", "last")
FEATURES = ("truth", "value")
"""Conditions and values that the owner named (`[user.features]`)."""


class Fact(Struct, frozen=True):
    """A column of the table about users, as the statement lists it. `codes`: for each code of the
    schema's column its code here (constants and periods); `edges`: of bins of numbers, with both
    ends. `merged`: for each code the one it was counted with, where some were counted together."""

    name: str
    kind: str
    column: str = ""
    codes: tuple[int, ...] = ()
    edges: tuple[float, ...] = ()
    merged: tuple[int, ...] = ()

    @property
    def asked(self) -> str:
        """The name in questions."""
        if self.kind == ROWS:
            return ROWS
        if self.kind in FEATURES:
            return self.name
        return self.column if self.kind == "constant" else f"{self.kind}({self.column})"

    @property
    def size(self) -> int:
        if self.kind in FEATURES:
            return len(self.edges)  # with the bin of users without a value
        return max(self.codes) + 1 if self.kind in EXACT else len(self.edges) - 1


@dataclass(frozen=True, eq=False)
class PeopleFacts(Facts):
    """Facts of the table about users, of whose model only the pairs of columns are known.
    `tabled`: there is such a table; else only histograms of users are known."""

    pairs: Mapping[Clique, np.ndarray] = field(default_factory=dict)
    tabled: bool = True

    def no_limit(self, name: str) -> str:
        if name != ROWS:
            return super().no_limit(name)
        return "users may have more rows than the bound that the run found: set `max_rows` in the schema"

    def _modelled(self, columns: Clique) -> Table | None:
        """As for rows; but questions about users add up cells (all numbers of rows from 2 on) that err
        together."""
        table = super()._modelled(columns)
        if table is None or len(columns) < 2:
            return table
        return CoherentTable(**{one.name: getattr(table, one.name) for one in fields(table)})

    def guessed(self, columns: Clique) -> Table:
        cells = self.pairs.get(columns)
        if cells is None and len(columns) == 2 and columns[::-1] in self.pairs:
            cells = self.pairs[columns[::-1]].T
        if cells is None:
            return super().guessed(columns)
        maps = tuple(self._merged(a) for a in columns)
        none = np.zeros(cells.size)
        return Table(columns, maps, cells.reshape(-1), none, basis="unknown")


def asks_about_users(of: Any) -> str | None:
    """What is asked of users ("share of users", "mean(rows) per user"); None if rows are meant."""
    match = OF_USERS.match(of) if isinstance(of, str) else None
    return None if match is None else match["of"]


def people_facts(
    statement: Mapping[str, Any],
    schema: Schema,
    measurements: Sequence[Measurement],
    tables: Mapping[str, pa.Table],
) -> PeopleFacts:
    """What answers about users are made from. UsageError if the run released nothing of them."""
    users = (statement.get("mechanism") or {}).get("users") or {}
    facts = [_fact(listed) for listed in users.get("people", ())]
    columns: dict[str, Column] = {}
    marginals: list[Marginal] = []
    found = "max_rows" in (statement.get("schema") or {}).get("found", {})
    most = math.inf if found else choice_bound(schema)
    by_rows = _rows_histograms(
        measurements, choice_bound(schema), users.get("rows_bins") or (), most
    )
    listed = next((fact.edges for fact in facts if fact.kind == ROWS), ())
    listed = (*listed[:-1], math.inf) if found and listed else listed
    edges = sorted({*listed, *(edge for one, _ in by_rows for edge in one)})
    if len(edges) > 1:
        columns[ROWS] = _numeric(ROWS, edges, whole=True)
    for own, answers in by_rows:
        bins = _place(edges, own)
        marginals.append(Marginal((ROWS,), (bins,), answers.values, answers.variances))
    maps = {ROWS: np.arange(max(len(edges) - 1, 0))}
    for fact in facts:
        if fact.kind == ROWS:
            maps[fact.name] = _place(edges, fact.edges)
        else:
            columns[fact.asked], maps[fact.name] = _column(fact, schema)
    marginals += _of_facts(facts, measurements, maps)
    marginals += _ends(users, schema, measurements, columns)
    if not columns:
        raise UsageError(
            "of: this run released nothing about its users; users are modelled where the schema "
            "has a user column and ids.source is 'auto' or 'users'"
        )
    codes = {f.asked: np.array(f.merged)[maps[f.name]] for f in facts if f.merged}
    plain = {f.asked: maps[f.name] for f in facts if not f.merged}
    codes |= {n: own for n, own in plain.items() if len(own) > own.max(initial=0) + 1}
    asked = {fact.name: fact.asked for fact in facts}
    listed_pairs = tables[PAIRS].to_pylist() if PAIRS in tables else []
    pairs = {}
    distances = {}
    for line in listed_pairs:
        names = tuple(asked[name] for name in line["columns"])
        shape = [int(codes[n].max()) + 1 if n in codes else columns[n].size for n in names]
        pairs[names] = np.array(line["users"], float).reshape(shape)
        if line["distance"] is not None:
            distances[frozenset(names)] = (line["distance"], line["standard_error"])
    near = empirical_bayes(distances, expected_sizes(distances, marginals, codes))
    made = Schema(columns)
    return PeopleFacts(
        made, marginals, Clipping(), None, codes, near, pairs=pairs, tabled=bool(facts)
    )


def pairs_of_users(
    model: Model | None, facts: Sequence[str], distances: pa.Table | None
) -> pa.Table:
    """The table `people` that a run releases: users in the cells of each pair of facts, by the
    model of the table about users. It also has the released distance of the model from the truth,
    if there is one."""
    listed = [] if distances is None else distances.to_pylist()
    known = {frozenset(line["columns"]): line for line in listed}
    lines = []
    there = [name for name in facts if model is not None and name in model.domain]
    cells = {} if model is None else model_marginals(model, list(combinations(there, 2)))
    for pair, users in cells.items():
        near = known.get(frozenset(pair), {})
        about = {"columns": list(pair), "users": users.reshape(-1).tolist()} | {
            name: near.get(name) for name in ("distance", "standard_error")
        }
        lines.append(about)
    number = pa.float64()
    kinds = {"columns": pa.list_(pa.string()), "users": pa.list_(number)}
    return pa.Table.from_pylist(
        lines, pa.schema({**kinds, "distance": number, "standard_error": number})
    )


def _fact(listed: Mapping[str, Any]) -> Fact:
    known = {name: listed[name] for name in ("name", "kind", "column") if name in listed}
    lists = {name: tuple(listed.get(name) or ()) for name in ("codes", "edges", "merged")}
    return Fact(**known, **lists)  # type: ignore[arg-type]


def _place(fine: Sequence[float], coarse: Sequence[float]) -> np.ndarray:
    """The coarse bin that each fine one lies in. Bins beyond the last coarse edge are in its last
    bin."""
    bins = np.searchsorted(np.asarray(coarse, float), np.asarray(fine[:-1], float), "right") - 1
    return np.clip(bins, 0, len(coarse) - 2)


def _rows_histograms(
    measurements: Sequence[Measurement], bound: int, fine: Sequence[int], most: float
) -> list[tuple[list[float], Measurement]]:
    """The released histograms of rows per user, each with the edges of its bins. most: of a user; no
    limit where the run found the bound itself, since users may have more rows: they are in the last
    bin."""
    lower = {HISTOGRAM: size_edges(bound), FINE: fine}
    found = []
    for answers in measurements:
        edges = [float(e) for e in lower.get(answers.label, ())]
        if answers.clique == (BY_ROWS,) and edges and len(edges) == answers.values.size:
            found.append(([*edges, max(edges[-1], most) + 1.0], answers))
    return found


def _numeric(name: str, edges: Sequence[float], whole: bool) -> Column:
    dtype = "int64" if whole else "float64"
    ends = [int(e) if whole and math.isfinite(e) else float(e) for e in edges]
    about = {"kind": "numeric", "dtype": dtype, "edges": ends, "null": "drop", "overflow": "drop"}
    return Schema.from_dict({"columns": {name: about}}).columns[name]


def _column(fact: Fact, schema: Schema) -> tuple[Column, np.ndarray]:
    """The column of a fact in questions, and the fact's code of each of its codes."""
    if fact.kind in FEATURES:
        about: dict[str, Any] = {
            "kind": "numeric",
            "dtype": "float64",
            "overflow": "drop",
            "edges": list(fact.edges),
            "null": "code",
        }
        if fact.kind == "truth":
            about = {
                "kind": "categorical",
                "dtype": "bool",
                "values": [False, True],
                "null": "drop",
                "overflow": "drop",
            }
        made = Schema.from_dict({"columns": {fact.asked: about}})
        return made.columns[fact.asked], np.arange(fact.size)
    if fact.kind not in EXACT:
        whole = fact.kind in ("active", "distinct")
        return _numeric(fact.asked, fact.edges, whole), np.arange(fact.size)
    column = schema.columns[fact.column]
    return column.renamed(fact.asked), np.array(fact.codes)


def _of_facts(
    facts: Sequence[Fact], measurements: Sequence[Measurement], maps: Mapping[str, np.ndarray]
) -> list[Marginal]:
    """The measured marginals of the table about users."""
    asked = {fact.name: fact.asked for fact in facts}
    domain = Domain({fact.name: fact.size for fact in facts})
    merged = {fact.name: np.array(fact.merged) for fact in facts if fact.merged}
    own = [m for m in measurements if m.clique and set(m.clique) <= set(asked)]
    out = []
    for m in marginals_of(own, domain, merged):
        fine = tuple(of[maps[name]] for name, of in zip(m.axes, m.maps, strict=True))
        axes = tuple(asked[name] for name in m.axes)
        unsure = {asked[n]: codes[maps[n]] for n, codes in m.unsure.items()}
        out.append(Marginal(axes, fine, m.values, m.variances, unsure))
    return out


def _ends(
    users: Mapping[str, Any],
    schema: Schema,
    measurements: Sequence[Measurement],
    columns: dict[str, Column],
) -> list[Marginal]:
    """First and last periods by the release of users' order; adds their columns."""
    order = users.get("order") or {}
    answers = next((m for m in measurements if m.label == ORDER), None)
    if answers is None or not order.get("ends") or order["columns"][0] not in schema.columns:
        return []
    lead = schema.columns[order["columns"][0]]
    bins = np.arange(lead.size) * int(order["ends"]) // lead.size
    out = []
    for kind, (start, end) in zip(
        ("first", "last"), pairwise([-2 * order["ends"], -order["ends"], None]), strict=True
    ):
        name = f"{kind}({lead.name})"
        columns.setdefault(name, lead.renamed(name))
        part = slice(start, end)
        out.append(Marginal((name,), (bins,), answers.values[part], answers.variances[part]))
    return out


def described_facts(
    facts: Sequence[tuple[str, str, str, tuple[int, ...], tuple[int, ...]]],
    rows: tuple[str, Sequence[int]],
    sizes: Mapping[str, int],
    bound: int,
    amounts: Mapping[str, np.ndarray],
    merged: Mapping[str, np.ndarray],
    features: Sequence[Feature] = (),
) -> list[dict[str, Any]]:
    """The facts of `user_views.UserFacts` for the statement: `rows` names the column of the number of
    rows and the lower edges of its bins; `amounts` are the numbers that codes count as; `merged`:
    code to merged code; `features`: those among the facts."""
    name, lower = rows
    out: list[dict[str, Any]] = [
        {"name": name, "kind": ROWS, "edges": [*map(int, lower), max(lower[-1], bound) + 1]}
    ]
    for fact, kind, column, numbers, edges in facts:
        about: dict[str, Any] = {"name": fact, "kind": kind, "column": column}
        if kind == "value":
            about |= _described_feature(next(one for one in features if one.name == fact))
        elif kind == "constant":
            about["codes"] = list(range(sizes[column]))
        elif kind in ("first", "last"):
            about["codes"] = [c * numbers[0] // sizes[column] for c in range(sizes[column])]
        elif kind in ("active", "distinct"):
            most = min(sizes[column], bound)
            about["edges"] = [1, *edges, max(edges[-1] if edges else 1, most) + 1]
        else:
            largest = max(float(np.nanmax(np.abs(amounts[column]))), 1e-300)
            unit = 2.0 ** round(np.log2(max(1, max(map(abs, numbers))) / largest))
            least = 0 if min(numbers) >= 0 else 2 * edges[0]
            about["edges"] = [x / unit for x in (least, *edges, 2 * edges[-1])]
        out.append(about)
    for about in out:
        if about["name"] in merged:
            about["merged"] = merged[about["name"]].tolist()
    return out


def _described_feature(feature: Feature) -> dict[str, Any]:
    """Kind and edges of a feature; the outer edges are where answers take its ends to lie."""
    if feature.number.kind == "truth":
        return {"kind": "truth", "edges": [0, 1]}
    edges = feature.edges[:-1]
    far = 2 * max(1, *map(abs, edges))
    ends = (-far if feature.number.signed else 0, *edges, far)
    return {"kind": "value", "edges": [e * float(feature.number.unit) for e in sorted(set(ends))]}
