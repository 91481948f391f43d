"""AdaGrid's rows as distinct functionals, and which of them contain which.

After `lower` the measured rows are cells of plain marginals and remainders: a cell t of a set T
without the fine cells above it of a set S. Both count the rows that lie in some set of
combinations. A remainder with no fine cell above it is the cell itself, so the two are fused. One
with all fine cells above it is empty, and its answer is noise alone. What is left are distinct
functionals f = B m of the vector m of marginals, with targets y and variances s2, and

    loss = 1/2 sum (f - y)^2 / s2 + constant,

the constant being the disagreement of answers to the same question. The sets nest: a cell lies
inside its projections, a remainder inside its cell. Counts of nested sets have covariances that are
known from the counts alone, which is what makes a good approximate inverse possible
(csrc/ancestors.h).
"""

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from ..._core.ancestors import MOST, Ancestors, SparseRows, ancestors_of
from ..._core.tables import squares
from ..._core.team import Team
from ..._util.lazy import sp
from ...model.inner_tables import strides
from ...model.layout import Plan
from ...model.nodes import Place
from ..linear_rows import Part
from ..quadratic import Quadratic


def are_adagrid_rows(parts: Sequence[Part]) -> bool:
    """Whether the rows are those of AdaGrid: cells and remainders, with at least one remainder."""
    kinds = {part.block.key[0] for part in parts}
    return "rest" in kinds and kinds <= {"cells", "rest"}


class Functionals:
    """The distinct functionals of a quadratic: single cells first, then remainders.

    Per functional: `target`, `variance`, `order` (attributes of the measured set). `constant`: of
    the loss; `at`: where the cells lie in the plan's vector; `rest`: the remainders as a matrix
    over its `active` entries.
    """

    def __init__(self, plan: Plan, quadratic: Quadratic):
        if quadratic.matrix is None or quadratic.targets:
            raise ValueError(
                "functionals need the vectors of all measured cells, including the remainders"
            )
        matrix = quadratic.matrix
        places = list(plan.places.values())
        entries = np.diff(matrix.indptr)
        single = entries == 1
        line = np.repeat(np.arange(entries.size), entries)
        cell = matrix.indices[matrix.indptr[:-1][single]]
        weight = quadratic.v[single]
        answer = quadratic.b[single]
        w = quadratic.w + np.bincount(cell, weight, quadratic.w.size)
        wt = quadratic.w * quadratic.t + np.bincount(cell, weight * answer, w.size)
        t = np.divide(wt, w, out=np.zeros_like(w), where=w > 0)
        fused = np.sum(quadratic.w * (quadratic.t - t) ** 2) + np.sum(
            weight * (answer - t[cell]) ** 2
        )
        above = matrix.data < 0
        active = quadratic.active
        host = np.searchsorted([place.at for place in places], active, side="right") - 1
        order = np.array([len(place.axes) for place in places])[host]
        cells = np.array([plan.domain.cells(place.axes) for place in places])[host][matrix.indices]
        # A remainder is empty if every cell of S above its cell of T is fine.
        whole = np.ones(entries.size)
        whole[line[above]] = cells[above]
        held = matrix.indices[~above]  # one a line
        empty = ~single & (entries - 1 == whole / cells[~above])
        fused += np.sum(quadratic.v[empty] * quadratic.b[empty] ** 2)
        self.constant = quadratic.constant + 0.5 * float(fused)
        self._cells = np.flatnonzero(w > 0)
        self.active = active
        remainder = ~(single | empty)
        self.rest = matrix[remainder]
        self._held = active[held[remainder]]
        self.at = active[self._cells]
        self._rows, self._columns = self._matrices(plan.size)
        self.target = np.concatenate([t[self._cells], quadratic.b[remainder]])
        self.variance = 1 / np.concatenate([w[self._cells], quadratic.v[remainder]])
        self.size = self.target.size
        self._plan = plan
        self._sigma = np.sqrt(self.variance)
        fine = np.zeros(entries.size, np.int64)
        fine[line[above]] = order[matrix.indices[above]]
        self.order = np.concatenate([order[self._cells], fine[remainder]])

    def answers(self, m: np.ndarray, threads: int | Team = 1) -> np.ndarray:
        """The functionals at the plan's vector of marginals."""
        return self._rows.product(m, threads)

    def potential_change(self, multipliers: np.ndarray, threads: int | Team = 1) -> np.ndarray:
        """- B' multipliers, a change of the potentials of the `active` entries of the plan's vector; the
        others do not change."""
        return self._columns.product(multipliers, threads)

    def _matrices(self, size: int) -> tuple[SparseRows, SparseRows]:
        """B over the plan's vector, and - B' with a row for each of its active entries."""
        n = self._cells.size
        data = np.concatenate([np.ones(n), self.rest.data])
        columns = np.concatenate([self._cells, self.rest.indices])
        first = np.concatenate([np.arange(n), n + self.rest.indptr])
        turned = sp.csc_array(
            (-data, columns, first), shape=(self.active.size, first.size - 1)
        ).tocsr()
        whole = sp.csr_array(
            (data, self.active[columns], first), shape=(first.size - 1, max(size, 1))
        )
        return SparseRows(whole), SparseRows(turned)

    def loss(self, f: np.ndarray) -> float:
        """The loss where the functionals are `f`."""
        return self.constant + 0.5 * squares(f, self.target, self._sigma, 1)

    def singles(self) -> list[tuple[slice, np.ndarray]]:
        """(place in the vector, functionals) of every attribute that was measured in all its
        values."""
        number = self._functional_at
        ones = [p for attrs, p in self._plan.places.items() if len(attrs) == 1 and p.cells is None]
        spans = [slice(place.at, place.at + place.size) for place in ones]
        return [(span, number[span]) for span in spans if (number[span] >= 0).all()]

    @cached_property
    def _functional_at(self) -> np.ndarray:
        """The functional of every entry of the vector that is one; -1 elsewhere."""
        number = np.full(max(self._plan.size, 1), -1, np.int64)
        number[self.at] = np.arange(self.at.size)
        return number

    def ancestors(self, threads) -> Ancestors:
        """The approximate inverse of the functionals' covariance."""
        first, column, mask, parts, place = self.containing
        return Ancestors(first, column, mask, parts, place, threads)

    @cached_property
    def containing(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Which measured cells contain each functional, as `Ancestors` takes it. The parts of a
        cell, its projections and itself, lie one after another in `place`; a remainder has those of
        its cell."""
        number = self._functional_at
        begin = np.zeros(self.at.size + 1, np.int64)
        width = np.zeros(self.at.size + 1, np.int64)
        place = []
        end = 0
        steps = {
            attrs: strides(self._plan.domain, spot.axes)
            for attrs, spot in self._plan.places.items()
        }
        for spot in self._plan.places.values():
            low, high = np.searchsorted(self.at, (spot.at, spot.at + spot.size))
            if low < high:
                lie = _parts(self._plan, steps, spot, self.at[low:high] - spot.at)
                begin[low:high] = end + np.arange(high - low) * lie.shape[1]
                width[low:high] = lie.shape[1]
                place.append(lie.reshape(-1))
                end += lie.size
        places = np.concatenate(place)
        # A cell without parts has number -1: the last place.
        cell = np.concatenate([np.arange(self.at.size), number[self._held]])
        begin = begin[cell]
        width = width[cell]
        return (*ancestors_of(number, begin, width, places, self.at.size), begin, places)


def _parts(
    plan: Plan, steps: Mapping[frozenset[str], Mapping[str, int]], spot: Place, cells: np.ndarray
) -> np.ndarray:
    """Where in the vector the projections of a place's cells lie. Column b - 1 is the one onto the
    axes whose bits are set in b; the last is the cell itself. Just that one where a projection is
    not in the vector, or there are too many of them."""
    own = (spot.at + cells)[:, None]
    if 1 << len(spot.axes) > MOST:
        return own
    axes = range(len(spot.axes))
    sets = [frozenset(spot.axes[i] for i in axes if b >> i & 1) for b in range(1, 1 << len(axes))]
    if not all(attrs in steps for attrs in sets):
        return own
    onto = [plan.places[attrs] for attrs in sets]
    numbers = cells if spot.cells is None else spot.cells[cells]
    codes = np.array(np.unravel_index(numbers, plan.domain.shape(spot.axes))).T
    out = codes @ np.array([[steps[attrs].get(name, 0) for attrs in sets] for name in spot.axes])
    for i, place in enumerate(onto):
        if place.cells is not None:
            at = np.minimum(np.searchsorted(place.cells, out[:, i]), max(place.size - 1, 0))
            if not place.size or (place.cells[at] != out[:, i]).any():
                return own
            out[:, i] = at
    return out + np.array([place.at for place in onto])
