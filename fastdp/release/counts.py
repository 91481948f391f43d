"""PRIVATE: exact counts as a session's steps take them from an engine, after the charge. Nothing
here is released or drawn."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from ..domain import Clique, Domain, batches
from ..engines import Counter
from ..errors import PrivacyError, redact_errors
from ..measurement import MOST, SCALE
from ..numbers.sums_plan import SumsPlan
from ..userkeys import UserKey
from .score_grids import SCORE_LIMIT, l1_distance

BLOCK_COLUMNS = 13
"""Columns of two codes that are counted together for the sets inside them: 8,192 cells at most."""
MOST_BLOCKS = 16
"""Blocks that an engine is asked for at once: it looks for the block of each set among them."""


def private(call: Callable[[], Any]) -> Any:
    """Run code that sees private counts. Its errors are replaced by texts without private content."""
    return redact_errors(
        call,
        "not enough memory to count; the step stays charged and can be resumed",
        lambda failed: PrivacyError(
            f"counting failed inside the session ({failed}); nothing was released. The step stays "
            "charged and can be resumed"
        ),
    )


class Counts(Struct, frozen=True, eq=False):
    """What an engine counts for one step. `domain`: of the recoded columns; `codes`: code -> new code
    of each recoded column; `clip`: rows per user that count fully (None: every row counts fully, per
    event). Counts of rows are int64 in units of 1/SCALE rows."""

    engine: Any
    domain: Domain
    codes: Mapping[str, np.ndarray]
    clip: int | None

    def marginals(self, cliques: list[Clique]) -> dict[Clique, np.ndarray]:
        """The marginals of these cliques."""
        more: dict[str, Any] = {"recode": self.codes} if self.codes else {}
        counts = self.engine.marginals(cliques, self.clip, **more)
        return {c: self._in_units(counts[c], self.domain.shape(c)) for c in cliques}

    def _in_units(self, counts: Any, shape: tuple[int, ...]) -> np.ndarray:
        """Numbers of rows, per event, in units of 1/SCALE, cut off like all sums; with a clip counts are
        in these units."""
        counts = require_int64(counts, shape)
        return counts if self.clip is not None else np.minimum(counts, MOST // SCALE) * SCALE

    def gaps(self, cliques: Sequence[Clique], grids: Sequence[np.ndarray]) -> np.ndarray:
        """L1 distances between the marginals and the grids, cut off at SCORE_LIMIT (which cannot raise
        how much one user changes them)."""
        out = np.empty(len(cliques), np.int64)
        for start, stop in batches([g.size for g in grids]):
            counts = self.marginals(list(dict.fromkeys(cliques[start:stop])))
            for i in range(start, stop):
                out[i] = l1_distance(counts[cliques[i]], grids[i])
        return out

    def half_tables(self, columns: Sequence[str], sets: np.ndarray) -> np.ndarray:
        """[sets, 2^width]: marginals of many sets of columns (by number), all recoded to 0 and 1.
        Engines that cannot count them together count each."""
        shape = (len(sets), 1 << sets.shape[1])
        if (together := getattr(self.engine, "half_tables", None)) is not None:
            return self._in_units(together(columns, sets, self.clip, self.codes), shape)
        out = np.empty(shape, np.int64)
        blocks = blocks_of(len(columns), sets)
        for start in range(0, len(blocks), MOST_BLOCKS):
            asked = blocks[start : start + MOST_BLOCKS]
            held = np.concatenate([within for _, within in asked])
            cliques = [tuple(columns[i] for i in one) for one in sets[held]]
            large = [tuple(columns[i] for i in block) for block, _ in asked]
            counted = self.marginals([*large, *cliques])
            out[held] = [counted[c].reshape(-1) for c in cliques]
        return out

    def contrasts(self, sets: Sequence[Clique]) -> np.ndarray:
        """Of each set of columns, rows whose signs have the product 1 less those with -1. `codes`: by
        `distances.signed_codes`, 1 is the sign 0."""
        out = np.empty(len(sets), np.int64)
        for start, stop in batches([self.domain.cells(c) for c in sets]):
            counts = self.marginals(list(dict.fromkeys(sets[start:stop])))
            for i in range(start, stop):
                left = counts[sets[i]]
                for size in self.domain.shape(sets[i]):
                    left = np.tensordot(np.arange(size) - 1, left, axes=1)
                out[i] = left
        return out

    def cells(self, clique: Clique) -> tuple[np.ndarray, np.ndarray]:
        """(cells, sums) of a marginal: the numbers of its cells that are not empty, ascending, and
        their counts."""
        if not counts_sparsely(self.engine):
            table = self.marginals([clique])[clique].reshape(-1)
            filled = np.flatnonzero(table)
            return filled, table[filled]
        recode = self.codes or None
        found = self.engine.marginals([clique], self.clip, sparse=True, recode=recode)[clique]
        filled = found.keys.astype(np.int64)
        sums = self._in_units(found.sums, (len(found.keys),))
        if (np.diff(filled) <= 0).any() or (
            len(filled) and filled[-1] >= self.domain.cells(clique)
        ):
            raise PrivacyError(
                "the engine returned a cell twice, or one that does not exist; nothing was released"
            )
        return filled, sums

    def guessed(self, pairs: Sequence[Clique], skip: Mapping[str, int]) -> np.ndarray:
        """For ordered pairs (A, B), the sum over the values of A of the largest count among their
        cells, cut off at SCORE_LIMIT. Cells that have a code to `skip` are left out."""
        domain = self.domain
        out: dict[Clique, int] = {}
        for a, b in dict.fromkeys(domain.canonical(p) for p in pairs):
            filled, sums = self.cells((a, b))
            codes = np.divmod(filled, domain[b])
            there = (codes[0] != skip.get(a, -1)) & (codes[1] != skip.get(b, -1))
            for pair, known in (((a, b), codes[0]), ((b, a), codes[1])):
                largest = np.zeros(domain[pair[0]], np.int64)
                np.maximum.at(largest, known[there], sums[there])
                out[pair] = min(SCORE_LIMIT, sum(largest.tolist()))
        return np.array([out[p] for p in pairs], np.int64)

    def users(self, key: UserKey, cap: int) -> np.ndarray:
        """Users of each key, or what they add to it; each in at most `cap` keys."""
        return require_int64(self.engine.user_histogram(key, cap), (int(key.size),))

    def user_sums(self, plan: SumsPlan) -> np.ndarray:
        """The sum of the users' vectors."""
        return require_int64(self.engine.user_sums(plan), (plan.encoding.size,))


def counts_sparsely(engine: Counter) -> bool:
    """Whether the engine counts a marginal by its cells that are not empty."""
    return getattr(engine, "counts_sparsely", False)


def blocks_of(columns: int, sets: np.ndarray) -> list[tuple[list[int], np.ndarray]]:
    """Few sets of at most `BLOCK_COLUMNS` columns that contain all of these sets: (columns, the
    numbers of the sets that it is counted for). Engines count the large ones, and add up the others
    from them.

    The columns that not all sets have are divided into groups, and a block has as many groups as a
    set has such columns."""
    always = [i for i in range(columns) if (sets == i).any(axis=1).all()]
    others = [i for i in range(columns) if i not in always]
    most = sets.shape[1] - len(always)
    size = max(1, (BLOCK_COLUMNS - len(always)) // max(1, most))
    group = {i: number // size for number, i in enumerate(others)}
    groups = range(len(set(group.values())))
    within: dict[tuple[int, ...], list[int]] = {}
    for number, one in enumerate(sets.tolist()):
        own = {group[i] for i in one if i in group}
        more = [g for g in groups if g not in own]
        key = tuple(sorted([*own, *more[: most - len(own)]]))
        within.setdefault(key, []).append(number)
    chosen = ([*always, *(i for i in others if group[i] in set(key))] for key in within)
    return [(sorted(block), np.array(held)) for block, held in zip(chosen, within.values())]


def require_int64(array: Any, shape: tuple[int, ...]) -> np.ndarray:
    """An int64 array of this shape, or PrivacyError: sums of floats are not exact, so no proof
    would hold for them."""
    if not isinstance(array, np.ndarray) or array.dtype != np.int64 or array.shape != shape:
        raise PrivacyError(
            "the engine did not return int64 counts of the marginal's shape; nothing was released"
        )
    return array
