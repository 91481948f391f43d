"""Choices made from public data alone: outer marginals, users' habits, the clip. They cost no budget.

Only tables read with `public=True` are taken; what is learnt from them is written into the run's statement as
public data used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from .clipchoice import ClipChoice, candidates, choose
from .domain import Clique, Domain, batches, maximal
from .errors import DataError, UsageError
from .ids import Habits

if TYPE_CHECKING:
    from .archetypes.model import PublicModel
    from .schema import Schema
    from .table import Table


class PublicTable:
    """A public table as mechanisms may use it; see `mechanisms.base.Public`."""

    def __init__(self, table: Table):
        if not table.public:
            raise UsageError("public data must be read with public=True; this table was read as private")
        self.table = table

    @property
    def schema(self) -> Schema:
        return self.table.schema

    def marginals(self, cliques: Sequence[Clique]) -> dict[Clique, np.ndarray]:
        """Counts of rows, int64."""
        from .truth import marginals

        return marginals(self.table, list(cliques), clip=None)

    def associations(
        self, recode: Mapping[str, np.ndarray] | None = None, max_cells: int = 1_000_000
    ) -> dict[Clique, float]:
        """Mutual information in nats of every pair of columns with at most `max_cells` cells, less what independent columns would
        show by chance, (r - 1)(c - 1) / 2n for r and c values that occur; `recode`: of recoded columns."""
        from .truth import marginals

        domain = self.schema.domain.recoded(recode or {})
        pairs = [p for p in combinations(domain, 2) if domain.cells(p) <= max_cells]
        found: dict[Clique, float] = {}
        for start, stop in batches([domain.cells(p) for p in pairs]):
            counts = marginals(self.table, pairs[start:stop], clip=None, sparse=False, recode=recode)
            for pair, table in counts.items():
                rows, columns = (np.count_nonzero(table.sum(axis=k)) for k in (1, 0))
                chance = (rows - 1) * (columns - 1) / (2 * max(1, int(table.sum())))
                found[pair] = max(0.0, mutual_information(table) - chance)
        return found

    def habits(self, columns: Sequence[str]) -> Habits:
        """What each public user does, over these columns."""
        if self.table.user is None:
            raise DataError("the public data has no user column, so no habits can be taken from it")
        columns = self.schema.domain.check(columns)
        return Habits.from_rows(columns, self.schema.domain.shape(columns), self.table.user, self.table.codes)

    def choose_outer(self, ways: int = 3, max_cells: int = 200_000) -> list[Clique]:
        """Outer marginals of up to `ways` attributes; see `grow`."""
        domain = self.schema.domain
        pairs = [p for p in combinations(domain, 2) if domain.cells(p) <= max_cells]
        counts = self.marginals(pairs)
        return grow(domain, {p: mutual_information(counts[p]) for p in pairs}, ways, max_cells)

    def check_archetypes(self, wanted: Mapping[str, Any]) -> None:
        from .archetypes.options import options_of

        if self.table.user is None:
            raise DataError("archetypes are kinds of users: the schema needs a user column")
        options_of(wanted).resolve(self.schema.domain)

    def archetypes(self, wanted: Mapping[str, Any]) -> PublicModel:
        """Archetypes of the public users; see `archetypes.fit`."""
        from .archetypes.fit import fit
        from .archetypes.options import options_of

        return fit(self.table, options_of(wanted))

    def choose_clip(self, noise: Sequence[float], rows: int | None = None, **options: Any) -> ClipChoice:
        """See `choose_clip`."""
        return choose_clip(self.table.rows_per_user(), noise, rows, **options)


def public_frame(path: str):
    """A file that the caller declares public, whole, as an Arrow table (Parquet, CSV, Arrow IPC)."""
    import pyarrow as pa
    import pyarrow.dataset as ds

    form = "csv" if path.endswith((".csv", ".csv.gz")) else "parquet" if path.endswith(".parquet") else "ipc"
    try:
        return ds.dataset(path, format=form).to_table()
    except (OSError, pa.ArrowInvalid) as error:
        raise DataError(f"{path}: cannot be read as {form} ({type(error).__name__})") from error


def mutual_information(counts: np.ndarray) -> float:
    """Of the two attributes of a table of counts, in nats; 0 for a table without rows."""
    total = counts.sum()
    if total <= 0:
        return 0.0
    p = counts / total
    outer = p.sum(axis=1, keepdims=True) * p.sum(axis=0, keepdims=True)
    seen = p > 0
    return float((p[seen] * np.log(p[seen] / outer[seen])).sum())


def grow(domain: Domain, strength: dict[Clique, float], ways: int, max_cells: int) -> list[Clique]:
    """Cliques that form a junction tree by construction: each attribute joins up to `ways` - 1 attributes of one
    clique already there, those with which its pairwise strengths add up to most, as long as the marginal keeps
    within `max_cells`. With ways=2 this is a maximum spanning tree (Chow and Liu)."""
    if ways < 1:
        raise UsageError(f"outer marginals need at least 1 attribute, got ways={ways}")
    known = {frozenset(p): s for p, s in strength.items()}

    def gain(name: str, group: Clique) -> float:
        return sum(known.get(frozenset((name, a)), 0.0) for a in group)

    if ways == 1 or not known:
        return [(a,) for a in domain]
    first = max(domain, key=lambda a: gain(a, tuple(b for b in domain if b != a)))
    cliques: list[Clique] = [(first,)]
    left = [a for a in domain if a != first]
    while left:
        best = max(
            (
                (gain(a, group), -domain.cells(group), a, group)
                for a in left
                for group in _groups(cliques, ways - 1)
                if domain.cells(group) * domain[a] <= max_cells
            ),
            default=None,
            key=lambda found: found[:2],
        )
        if best is None or best[0] <= 0:
            cliques += [(a,) for a in left]
            break
        _, _, name, group = best
        cliques.append((*group, name))
        left.remove(name)
    return maximal(cliques)


def _groups(cliques: Sequence[Clique], size: int) -> list[Clique]:
    groups = {frozenset(g): g for c in cliques for k in range(1, size + 1) for g in combinations(c, k)}
    return list(groups.values())


def choose_clip(
    rows_per_user: np.ndarray,
    noise: Sequence[float],
    rows: int | None = None,
    *,
    bound: int | None = None,
    displaced: float = 1.0,
    also: Sequence[int] = (),
) -> ClipChoice:
    """The clip of least error by `clipchoice.choose`, for `rows` rows (default: as many as there are) whose users have as
    many rows each as these public ones. `also`: clips to be told about that need not be candidates."""
    sizes = np.asarray(rows_per_user, np.int64)
    sizes, users = np.unique(sizes[sizes > 0], return_counts=True)
    if sizes.size == 0:
        raise DataError("the public data has no users, so no clip can be chosen from it")
    scale = 1.0 if rows is None else max(1, rows) / float(sizes @ users)
    clips = candidates(int(sizes[-1]) if bound is None else bound)
    return choose(
        sizes.tolist(), (users * scale).tolist(), noise, displaced=displaced, clips=clips, also=also
    )
