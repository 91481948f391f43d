"""AdaGrid's rows as distinct functionals, and which of them contain which.

After `lower` the measured rows are cells of plain marginals and remainders: a cell t of a set T without the
fine cells above it of a set S. Both count the rows that lie in some set of combinations. A remainder with no
fine cell above it is the cell itself, so the two are fused; one with all fine cells above it is empty, and
its answer is noise alone. What is left are distinct functionals f = B m of the vector m of marginals, with
targets y and variances s2, and

    loss = 1/2 sum (f - y)^2 / s2 + constant,

the constant being the disagreement of answers to the same question. The sets nest: a cell lies inside its
projections, a remainder inside its cell. Counts of nested sets have covariances that are known from the
counts alone, which is what makes a good approximate inverse possible (csrc/ancestors.h).
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ..._core.ancestors import MOST, Ancestors, SparseRows, ancestors_of
from ..._core.tables import squares
from ..._core.team import Team
from ..._util.lazy import sp
from ...domain import Clique, Domain
from ...model.layout import Place, Plan, strides
from ..linear_rows import Part
from ..quadratic import Quadratic


def adaptive(parts: Sequence[Part]) -> bool:
    """Whether the rows are cells and remainders only, with at least one remainder."""
    kinds = {part.block.key[0] for part in parts}
    return "rest" in kinds and kinds <= {"cells", "rest"}


class Functionals:
    """The distinct functionals of a quadratic: single cells first, then remainders.

    Per functional: `target`, `variance`, `order` (attributes of the measured set). `constant`: of the loss;
    `at`: where the cells lie in the plan's vector; `rest`: the remainders as a matrix over its `active`
    entries.
    """

    def __init__(self, plan: Plan, quadratic: Quadratic):
        if quadratic.matrix is None or quadratic.targets:
            raise ValueError("functionals need the vectors of all measured cells, including the remainders")
        matrix = quadratic.matrix
        single = np.diff(matrix.indptr) == 1
        cell = matrix.indices[matrix.indptr[:-1][single]]
        weight, answer = quadratic.v[single], quadratic.b[single]
        w, wt = quadratic.w.copy(), quadratic.w * quadratic.t
        np.add.at(w, cell, weight)
        np.add.at(wt, cell, weight * answer)
        t = np.divide(wt, w, out=np.zeros_like(w), where=w > 0)
        fused = np.sum(quadratic.w * (quadratic.t - t) ** 2) + np.sum(weight * (answer - t[cell]) ** 2)
        empty = ~single & _covered(plan, quadratic)
        fused += np.sum(quadratic.v[empty] * quadratic.b[empty] ** 2)
        self.constant = quadratic.constant + 0.5 * float(fused)
        self._cells = np.flatnonzero(w > 0)
        self.active = quadratic.active
        remainder = ~(single | empty)
        self.rest = matrix[remainder]
        self.at = self.active[self._cells]
        self._rows, self._columns = self._matrices(plan.size)
        self.target = np.concatenate([t[self._cells], quadratic.b[remainder]])
        self.variance = 1 / np.concatenate([w[self._cells], quadratic.v[remainder]])
        self.size, self._plan, self._sigma = self.target.size, plan, np.sqrt(self.variance)
        self.order = self._orders()

    def answers(self, m: np.ndarray, threads: int | Team = 1) -> np.ndarray:
        """The functionals at the plan's vector of marginals."""
        return self._rows.product(m, threads)

    def change(self, multipliers: np.ndarray, threads: int | Team = 1) -> np.ndarray:
        """- B' multipliers, a change of the potentials of the `active` entries of the plan's vector; the
        others do not change."""
        return self._columns.product(multipliers, threads)

    def _matrices(self, size: int) -> tuple[SparseRows, SparseRows]:
        """B over the plan's vector, and - B' with a row for each of its active entries."""
        cells = sp.eye_array(self.active.size, format="csr")[self._cells]
        whole = sp.vstack([cells, self.rest], format="csr")
        turned = SparseRows(-whole.T.tocsr())
        entries = (whole.data, self.active[whole.indices], whole.indptr)
        return SparseRows(sp.csr_array(entries, shape=(whole.shape[0], max(size, 1)))), turned

    def loss(self, f: np.ndarray) -> float:
        return self.constant + 0.5 * squares(f, self.target, self._sigma, 1)

    def singles(self) -> list[tuple[slice, np.ndarray]]:
        """(place in the vector, functionals) of every attribute that was measured in all its values."""
        number = self._numbers()
        ones = [p for attrs, p in self._plan.places.items() if len(attrs) == 1 and p.cells is None]
        spans = [slice(place.at, place.at + place.size) for place in ones]
        return [(span, number[span]) for span in spans if (number[span] >= 0).all()]

    def _orders(self) -> np.ndarray:
        order = np.concatenate([_of_places(self._plan, self.at, len), np.zeros(self.rest.shape[0], np.int64)])
        entry = self.rest.tocoo()
        above = entry.data < 0
        fine = self.active[entry.coords[1][above]]
        order[self.at.size + entry.coords[0][above]] = _of_places(self._plan, fine, len)
        return order

    def _numbers(self) -> np.ndarray:
        """The functional of every entry of the vector that is one; -1 elsewhere."""
        number = np.full(max(self._plan.size, 1), -1, np.int64)
        number[self.at] = np.arange(self.at.size)
        return number

    def ancestors(self, threads) -> Ancestors:
        """Which measured cells contain each functional, for the approximate inverse. The parts of a cell, its
        projections and itself, lie one after another in `place`; a remainder has those of its cell."""
        number = self._numbers()
        begin, width = np.zeros(self.at.size + 1, np.int64), np.zeros(self.at.size + 1, np.int64)
        place, end = [], 0
        for spot in self._plan.places.values():
            low, high = np.searchsorted(self.at, (spot.at, spot.at + spot.size))
            if low < high:
                lie = _parts(self._plan.domain, self._plan.places, spot, self.at[low:high] - spot.at)
                begin[low:high] = end + np.arange(high - low) * lie.shape[1]
                width[low:high] = lie.shape[1]
                place.append(lie.reshape(-1))
                end += lie.size
        places = np.concatenate(place)
        entry = self.rest.tocoo()
        held = np.zeros(self.rest.shape[0], np.int64)
        held[entry.coords[0][entry.data > 0]] = self.active[entry.coords[1][entry.data > 0]]
        cell = np.concatenate([np.arange(self.at.size), number[held]])  # -1, the last one: no parts
        begin, width = begin[cell], width[cell]
        shape = ancestors_of(number, begin, width, places, self.at.size)
        return Ancestors(*shape, begin, places, threads)


def _of_places(plan: Plan, entries: np.ndarray, number: Callable[[Clique], int]) -> np.ndarray:
    """For each entry of the plan's vector, `number` of the axes of the place that it lies in."""
    places = plan.places.values()  # in the order of the vector
    found = np.searchsorted([place.at for place in places], entries, side="right") - 1
    return np.array([number(place.axes) for place in places])[found]


def _covered(plan: Plan, quadratic: Quadratic) -> np.ndarray:
    """Which remainders are empty: every cell of S above their cell of T is fine."""
    assert quadratic.matrix is not None
    entry = quadratic.matrix.tocoo()
    line, above = entry.coords[0], entry.data < 0
    cells = _of_places(plan, quadratic.active[entry.coords[1]], plan.domain.cells)
    whole, fine = np.ones(quadratic.v.size), np.bincount(line[above], minlength=quadratic.v.size)
    whole[line[above]] = cells[above]
    whole[line[~above]] /= cells[~above]
    return fine == whole


def _parts(
    domain: Domain, places: Mapping[frozenset[str], Place], spot: Place, cells: np.ndarray
) -> np.ndarray:
    """Where in the vector the projections of a place's cells lie: column b - 1 is the one onto the axes whose
    bits are set in b, the last the cell itself. Just that one where a projection is not in the vector, or
    there are too many of them."""
    own = (spot.at + cells)[:, None]
    if 1 << len(spot.axes) > MOST:
        return own
    axes = range(len(spot.axes))
    sets = [frozenset(spot.axes[i] for i in axes if b >> i & 1) for b in range(1, 1 << len(axes))]
    if not all(attrs in places for attrs in sets):
        return own
    onto = [places[attrs] for attrs in sets]
    steps = [strides(domain, place.axes) for place in onto]
    numbers = cells if spot.cells is None else spot.cells[cells]
    codes = np.stack(np.unravel_index(numbers, domain.shape(spot.axes)), axis=1)
    out = codes @ np.array([[step.get(name, 0) for step in steps] for name in spot.axes])
    for i, place in enumerate(onto):
        if place.cells is not None:
            at = np.minimum(np.searchsorted(place.cells, out[:, i]), max(place.size - 1, 0))
            if not place.size or (place.cells[at] != out[:, i]).any():
                return own
            out[:, i] = at
    return out + [place.at for place in onto]
