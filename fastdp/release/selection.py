"""A selection by the exponential mechanism: candidates, weights of scores, sensitivity.

Planned from public facts alone: domain, clip, estimates, weights, penalties and epsilon.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct

from ..domain import Clique, Domain
from ..errors import UsageError
from ..measurement import SCALE
from ..privacy import select
from ..privacy.accountant import BoundedRange
from ..privacy.chain import digest
from .counts import Counts
from .planned_release import Recoded, Seeds, array_digest, positive, release_of
from .score_grids import SCORE_LIMIT, WEIGHT_UNITS, score_grid


class Selection(Struct, frozen=True, eq=False, kw_only=True):
    """A selection by private scores. `asked`: a digest of everything that the scores depend on except
    the private counts, so over the same table, equal digests mean equal scores; `sensitivity`: the
    most one user changes a score of an allowed candidate, in the units of scores."""

    clip: int
    asked: str
    allowed: Sequence[int] | np.ndarray
    event: BoundedRange
    sensitivity: int

    @property
    def question(self) -> dict:
        about = {"kind": "select", "clip": self.clip, "asked": self.asked}
        return about | {"event": self.event.to_dict()}

    @property
    def events(self) -> list[BoundedRange]:
        return [self.event]

    @property
    def draws(self) -> int:
        return 1

    def noisy(self, exact: np.ndarray, seed: Seeds) -> list[np.ndarray]:
        """The index of one of the allowed candidates. `exact`: the scores of all."""
        position = select.exponential(
            exact[self.allowed], self.event.epsilon, self.sensitivity, seed=seed(0)
        )
        return [np.array([self.allowed[int(position)]], np.int64)]


class SelectionPlan(Selection, frozen=True, eq=False, kw_only=True):
    """`grids`: the estimates in units of 1/SCALE rows; `weights` in units of 1/WEIGHT_UNITS;
    `penalties` in units of 1/SCALE rows. Scores are in units of 1 / (SCALE * WEIGHT_UNITS) rows."""

    cliques: list[Clique]
    grids: list[np.ndarray]
    weights: list[int]
    penalties: list[int]

    @property
    def question(self) -> dict:
        return super().question | {"allowed": self.allowed}

    def count(self, counts: Counts) -> np.ndarray:
        return self.scores(counts.gaps(self.cliques, self.grids))

    def scores(self, gaps: np.ndarray) -> np.ndarray:
        """int64 scores of L1 distances. Distances are in units of 1/SCALE rows, scores in units of
        1 / (SCALE * WEIGHT_UNITS) rows. They are cut off at +-SCORE_LIMIT, which cannot raise how
        much one user changes them.
        """
        parts = zip(self.weights, gaps.tolist(), self.penalties, strict=True)
        exact = [w * (gap - off) for w, gap, off in parts]
        return np.array([max(-SCORE_LIMIT, min(SCORE_LIMIT, score)) for score in exact], np.int64)

    def lines(self, label: str) -> list[dict]:
        sensitivity = self.sensitivity / SCALE / WEIGHT_UNITS
        return [selection_line(label, self.event, sensitivity, len(self.allowed))]


def selection_line(label: str, event: BoundedRange, sensitivity: float, candidates: int) -> dict:
    """A selection as the statement lists it. `sensitivity`: of a score, in rows."""
    line = release_of(
        label=label,
        kind="select",
        about=[],
        law="exponential",
        event=event,
        sensitivity=sensitivity,
        sigma=None,
        count=1,
    )
    return line | {"candidates": candidates}


class EstimateGrids:
    """Makes estimates on the grid and their digests, and keeps those of the last call.

    A mechanism that picks a tree asks with the same estimates round after round. Comparing them
    with those of the call before is cheaper than preparing them again.
    """

    def __init__(self) -> None:
        self._last: tuple = (None, None, [], [], [])

    def prepare(
        self,
        domain: Domain,
        cliques: list[Clique],
        estimates: Mapping[Clique, np.ndarray],
        label: str,
    ) -> tuple[list[np.ndarray], list[str]]:
        sizes, asked, copies, grids, hashes = self._last
        same = (sizes, asked) == (dict(domain), cliques) and all(
            c in estimates and np.array_equal(estimates[c], copy)
            for c, copy in zip(cliques, copies)
        )
        if not same:
            grids = [score_grid(domain, c, estimates, label) for c in cliques]
            hashes = [array_digest(g) for g in grids]
            copies = [np.array(estimates[c]) for c in cliques]
            self._last = (dict(domain), cliques, copies, grids, hashes)
        return grids, hashes


def plan_selection(
    recoded: Recoded,
    clip: int,
    cliques: Sequence[Clique],
    kept: EstimateGrids,
    estimates: Mapping[Clique, np.ndarray],
    epsilon: float,
    weights: Sequence[float] | None,
    penalties: Sequence[float] | None,
    allowed: Sequence[int] | None,
    label: str,
) -> SelectionPlan:
    """Scores and sensitivity of one selection, or UsageError if an argument has the wrong form.

    One user changes an L1 distance by at most clip * SCALE units, so a score by that times its
    weight. The sensitivity is of the largest weight among the allowed.
    """
    domain = recoded.domain
    cliques = [domain.check(c) for c in cliques]
    allowed = list(range(len(cliques))) if allowed is None else [int(i) for i in allowed]
    if not allowed or not all(0 <= i < len(cliques) for i in allowed):
        raise UsageError(f"{label!r}: no candidates were given, or one is out of range")
    event = BoundedRange(positive(epsilon, "epsilon"))
    whole = score_weights(weights, len(cliques), label)
    grids, hashes = kept.prepare(domain, cliques, estimates, label)
    if penalties is None:
        off = [0] * len(cliques)
    else:
        off = [score_grid_number(p, label) for p in penalties]
    if len(off) != len(cliques):
        raise UsageError(
            f"{label!r}: expected {len(cliques)} penalties, one per clique, got {len(off)}"
        )
    scored = {"estimates": hashes, "weights": whole, "penalties": off}
    asked = digest(scored | {"cliques": [list(c) for c in cliques]} | recoded.digests)
    return SelectionPlan(
        clip=clip,
        asked=asked,
        allowed=allowed,
        event=event,
        sensitivity=max(whole[i] for i in allowed) * clip * SCALE,
        cliques=cliques,
        grids=grids,
        weights=whole,
        penalties=off,
    )


def score_weights(
    weights: Sequence[float] | None, count: int, label: str, most: int = 1 << 20
) -> list[int]:
    """Weights of candidates in whole units of 1/WEIGHT_UNITS, at least one unit each."""
    if weights is None:
        return [WEIGHT_UNITS] * count
    if len(weights) != count or not all(0 < float(w) < most for w in weights):
        raise UsageError(f"{label!r}: expected one positive weight per candidate, below {most}")
    return [max(1, round(float(w) * WEIGHT_UNITS)) for w in weights]


def score_grid_number(value: float, label: str) -> int:
    value = float(value)
    if not abs(value) * SCALE < SCORE_LIMIT:
        raise UsageError(f"{label!r}: a penalty is not finite or too large")
    return round(value * SCALE)
