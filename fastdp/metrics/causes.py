"""Where the error of synthetic rows comes from: the domain, the bins, the clip, the noise, the
model.

A run takes the true rows to the synthetic ones in five steps, and each has a distribution after it:

| step | what it does |
|---|---|
| domain | values outside the schema's lists and bounds, and nulls that it does not keep, become others |
| bins | values become codes, and codes become values again |
| clip | rows of a user with R rows weigh min(1, clip / R) |
| noise | the released estimate takes the place of the count; rare values may be merged |
| model | rows are drawn from a model that fits the estimates |

The total variation of the first and the last distribution is half the sum, over cells, of a sign
times their difference. The difference is a sum over the steps, so each step has its part and the
parts add up exactly. A part below 0 means that the step undoes what others did. All distributions
lie on the cells of `original`: the original values, or 20 bins of equally many true rows.

A step from codes to values is one matrix per column: how the synthetic rows of a code lie in the
cells. NOT private: it counts the true rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from .._util.lazy import sp
from ..answers.best_linear import estimate
from ..answers.facts import Facts
from ..schema import Schema
from ..schema.columns import OWN_CODE
from ..tables.ingest import read
from .compare import Comparison
from .inputs import Pair, coded
from .metric import metric

STEPS = ("domain", "bins", "clip", "noise", "model")
MOST_CELLS = 1 << 22
"""Cells of the largest pair that is divided."""


class Released(Struct, frozen=True, eq=False):
    """What a run released, for its error to be divided: its facts, and the rows of a user that
    count fully (None: all of them)."""

    facts: Facts | None = None
    clip: float | None = None


class _Column(Struct, frozen=True, eq=False):
    """One column of the original tables.

    cells: of all true rows. seen: of the rows that the run read, their cell, or the number of cells
    plus their code where the domain lost the value. codes: of the same rows. made: cells of the
    synthetic rows. drawn: [codes, cells] how synthetic rows of a code lie in the cells; there is one
    cell more, for null where neither table has it. axes: the schema's columns of the codes.
    """

    cells: np.ndarray
    seen: np.ndarray
    codes: np.ndarray
    made: np.ndarray
    drawn: sp.csr_array
    axes: tuple[str, ...]

    @property
    def mixed(self) -> sp.csr_array:
        """From `seen` to cells."""
        cells = self.drawn.shape[1]
        return sp.vstack([sp.eye_array(cells), self.drawn], format="csr")


def with_own_codes(schema: Schema) -> Schema:
    """The schema with one code for nulls and one for overflow in every column, so that both can be
    distinguished from other values."""
    plain = schema.to_plain()
    for entry in plain["columns"].values():
        entry["null"] = entry["overflow"] = OWN_CODE.to_plain()
    return Schema.from_dict(plain)


class Division:
    """Divides the error of single columns and of pairs among the steps of a run."""

    def __init__(self, pair: Pair, columns: dict[str, _Column], weight: Any, released: Released):
        self.pair = pair
        self.columns = columns
        self.released = released
        self.weight = weight

    @classmethod
    def of(cls, comparison: Comparison, pair: Pair, released: Released) -> Division | None:
        """None if the true rows cannot be followed through the schema row by row."""
        schema = comparison.schema
        truth = comparison.truth
        if schema is None:
            return None
        present = {f.source for f in schema.fields.values()} & set(pair.names)
        names = [n for n, c in schema.columns.items() if c.source in present]
        if not names:
            return None
        own = schema.select(names).with_constraints(())
        bare = read(truth, with_own_codes(own.without_users()), public=True)
        kept, made = (coded(t, schema, what, users=True) for t, what in _both(comparison))
        keep, lost = _fates(own, bare)
        if own.user is not None and own.null_user == "drop" and own.user in truth.column_names:
            keep &= truth[own.user].is_valid().to_numpy()
        if int(keep.sum()) != kept.rows or made.rows != pair.rows[1]:
            return None
        columns = {}
        for source in sorted(present):
            axes = tuple(n for n in names if own.columns[n].source == source)
            columns[source] = _column(
                pair=pair,
                source=source,
                axes=axes,
                keep=keep,
                lost=lost[source],
                kept=kept,
                made=made,
            )
        weight = None
        if released.clip is not None and kept.user is not None:
            rows = np.bincount(kept.user)[kept.user]
            weight = np.minimum(1.0, released.clip / rows)
        return cls(pair, columns, weight, released)

    def parts(self, names: Sequence[str]) -> dict[str, float | None] | None:
        """The part of each step in the total variation of these columns, and `wrong`, their sum.
        None where a step cannot be told from the next; None in all if the columns cannot be
        followed."""
        if not all(name in self.columns for name in names):
            return None
        columns = [self.columns[name] for name in names]
        if np.prod([c.drawn.shape[1] for c in columns]) > MOST_CELLS:
            return None
        sizes = [c.drawn.shape[1] for c in columns]
        first = _shares([c.cells for c in columns], sizes)
        after = [
            self._moved(columns, [c.seen for c in columns], [c.mixed for c in columns]),
            self._moved(columns, [c.codes for c in columns]),
            None if self.weight is None else self._weighed(columns),
            self._noisy(columns),
            _shares([c.made for c in columns], sizes),
        ]
        sign = np.sign(after[-1] - first)
        out: dict[str, float | None] = {}
        before = first
        for step, now in zip(STEPS, after):
            out[step] = None if now is None else float(0.5 * (sign * (now - before)).sum())
            before = before if now is None else now
        if self.weight is None:
            out["clip"] = 0.0 if self.released.clip is not None else None
        out["wrong"] = float(0.5 * np.abs(after[-1] - first).sum())
        return out

    def _moved(
        self, columns: Sequence[_Column], places: Sequence[np.ndarray], ways: Any = None
    ) -> np.ndarray:
        ways = [c.drawn for c in columns] if ways is None else ways
        return _through(_shares(places, [w.shape[0] for w in ways]), ways)

    def _weighed(self, columns: Sequence[_Column]) -> np.ndarray:
        ways = [c.drawn for c in columns]
        shares = _shares([c.codes for c in columns], [w.shape[0] for w in ways], self.weight)
        return _through(shares, ways)

    def _noisy(self, columns: Sequence[_Column]) -> np.ndarray | None:
        """The released estimate on the cells; None if these columns were not measured together."""
        facts = self.released.facts
        if facts is None or any(len(c.axes) > 1 for c in columns):
            return None
        axes = tuple(c.axes[0] for c in columns)
        if any(a not in facts.schema.modelled for a in axes):
            return None
        table = estimate(facts.marginals, axes)
        if table is None or table.known is not None:
            return None
        cells = np.maximum(table.x, 0.0).reshape([int(m.max()) + 1 for m in table.maps])
        cells = cells[np.ix_(*table.maps)]
        for axis, (name, codes) in enumerate(zip(axes, table.maps)):
            weight = facts.weight(name)
            within = weight / np.bincount(codes, weight)[codes]
            cells = cells * within.reshape([-1 if i == axis else 1 for i in range(cells.ndim)])
        total = cells.sum()
        return None if total <= 0 else _through(cells / total, [c.drawn for c in columns])


def _both(comparison: Comparison) -> list[tuple[Any, str]]:
    return [(comparison.truth, "truth"), (comparison.synthetic, "synthetic")]


def _fates(schema: Schema, bare: Any) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """(rows that the run reads, rows whose value the domain lost by source column)."""
    keep = np.ones(bare.rows, bool)
    lost: dict[str, np.ndarray] = {}
    for name, item in bare.schema.fields.items():
        own = schema.fields[name]
        column = item.parts[0]
        code = bare.codes[column.name]
        null = code == column.null_code
        outside = np.zeros(bare.rows, bool)
        if column.overflow_code is not None:
            outside = code == column.overflow_code
        for policy, rows in ((own.null, null), (own.overflow, outside)):
            if policy.action == "drop":
                keep &= ~rows
        gone = outside if own.null.action == OWN_CODE.action else outside | null
        lost[item.source] = lost.get(item.source, False) | gone
    return keep, lost


def _column(
    pair: Pair, source: str, axes: tuple[str, ...], keep: Any, lost: Any, kept: Any, made: Any
) -> _Column:
    """A column on its way through the run: its true cells, the code that each row has, and the
    values that are drawn for each code."""
    cells = pair.truth[source].astype(np.int64)
    size = pair.sizes[source]
    last = pair.labels[source](size - 1) if size else None
    null = size - 1 if size and last is None else size
    codes, drawn_codes, n_codes = _joint([(t.codes, t.schema.domain) for t in (kept, made)], axes)
    own = cells[keep]
    gone = lost[keep]
    seen = np.where(gone, size + 1 + codes, own)
    synthetic = pair.synthetic[source].astype(np.int64)
    shape = (n_codes, size + 1)
    drawn = sp.coo_array((np.ones(len(drawn_codes)), (drawn_codes, synthetic)), shape).tocsr()
    empty = drawn.sum(1) == 0
    # Codes that no synthetic row has: their values stay as they are, what is lost becomes null.
    rest = empty[codes]
    where = np.where(gone, null, own)[rest]
    drawn = drawn + sp.coo_array((np.ones(int(rest.sum())), (codes[rest], where)), shape)
    total = np.maximum(np.asarray(drawn.sum(1)), 1)
    drawn = sp.diags_array(1 / total) @ drawn.tocsr()
    return _Column(cells, seen, codes, synthetic, drawn.tocsr(), axes)


def _joint(tables: Sequence[Any], axes: Sequence[str]) -> tuple[np.ndarray, np.ndarray, int]:
    """Codes of both tables over all columns that one source column became, and their number."""
    (first, domain), (second, _) = tables
    if len(axes) == 1:
        (name,) = axes
        return first[name].astype(np.int64), second[name].astype(np.int64), domain[name]
    flat = [np.zeros(len(codes[axes[0]]), np.int64) for codes in (first, second)]
    for name in axes:
        flat = [f * domain[name] + codes[name] for f, codes in zip(flat, (first, second))]
    _, dense = np.unique(np.concatenate(flat), return_inverse=True)
    cut = len(flat[0])
    return dense[:cut], dense[cut:], int(dense.max(initial=0)) + 1


def _shares(
    places: Sequence[np.ndarray], sizes: Sequence[int], weight: np.ndarray | None = None
) -> np.ndarray:
    """Shares of the rows in the cells of one or two columns."""
    flat = places[0] if len(places) == 1 else places[0] * sizes[1] + places[1]
    if len(places) == 1 or np.prod(sizes) <= MOST_CELLS:
        counts = np.bincount(flat, weight, int(np.prod(sizes))).reshape(sizes)
        return counts / max(counts.sum(), 1e-300)
    at, of = np.unique(flat, return_inverse=True)
    counts = np.bincount(of, weight)
    total = max(counts.sum(), 1e-300)
    return sp.coo_array((counts / total, np.divmod(at, sizes[1])), sizes).tocsr()


def _through(shares: Any, ways: Sequence[sp.csr_array]) -> np.ndarray:
    """Shares of codes as shares of cells."""
    if len(ways) == 1:
        return ways[0].T @ shares
    out = ways[0].T @ shares @ ways[1]
    return out.toarray() if sp.issparse(out) else np.asarray(out)


def _in_values(comparison: Comparison) -> bool:
    return comparison.in_values and comparison.schema is not None


@metric("causes", applies=_in_values, default="report", rank=1)
def of_tables(comparison: Comparison) -> dict[str, Any] | None:
    """Parts of the error of every column, of the worst pairs, and of columns on average."""
    from .original import found_in, values_of

    pair = values_of(comparison)
    original = found_in(comparison)
    if pair is None or original is None or not _in_values(comparison):
        return None
    division = Division.of(comparison, pair, comparison.released or Released())
    if division is None:
        return None
    columns = {n: parts for n in pair.names if (parts := division.parts((n,))) is not None}
    worst = original["kinds"].get("pair", {"items": []})["items"]
    pairs = [{"columns": i["columns"], **p} for i in worst if (p := division.parts(i["columns"]))]
    if not columns:
        return None
    return {"columns": columns, "pairs": pairs, "mean": _mean(list(columns.values()))}


def _mean(parts: Sequence[dict[str, float | None]]) -> dict[str, float]:
    """The mean of each part; a step that cannot be told from the next counts as part of that."""
    return {k: float(np.mean([p[k] or 0.0 for p in parts])) for k in (*STEPS, "wrong")}
