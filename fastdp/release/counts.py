"""PRIVATE: exact counts as a session's steps take them from an engine, after the charge. Nothing
here is released or drawn. Errors of code that sees private data are replaced by texts without
private content.

`clip`: rows per user that count fully; None: every row counts fully, per event. Counts are int64 in
units of 1/SCALE rows. `domain`: of the recoded columns; `codes`: code -> new code of each recoded
column.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..domain import Clique, Domain, batches
from ..engines import Counter
from ..errors import PrivacyError, redact_errors
from ..measurement import MOST, SCALE
from .noiseplan import SCORE_LIMIT, l1_distance, require_int64

Codes = dict[str, np.ndarray]
BLOCK_COLUMNS = 13
"""Columns of two codes that are counted together for the sets inside them: 8,192 cells at most."""
MOST_BLOCKS = 16
"""Blocks that an engine is asked for at once: it looks for the block of each set among them."""


def private(call: Callable[[], Any]) -> Any:
    """Run code that sees private data."""
    return redact_errors(
        call,
        "not enough memory to count; the step stays charged and can be resumed",
        lambda failed: PrivacyError(
            f"counting failed inside the session ({failed}); nothing was released. The step stays "
            "charged and can be resumed"
        ),
    )


def marginals(
    engine: Counter, cliques: list[Clique], domain: Domain, clip: int | None, codes: Codes
) -> dict[Clique, np.ndarray]:
    """The marginals of these cliques."""
    more: dict[str, Any] = {"recode": codes} if codes else {}
    counts = private(lambda: engine.marginals(cliques, clip, **more))
    out = {c: require_int64(counts[c], domain.shape(c)) for c in cliques}
    return out if clip is not None else {c: _in_units(a) for c, a in out.items()}


def _in_units(rows: np.ndarray) -> np.ndarray:
    """Numbers of rows in units of 1/SCALE, cut off like all sums."""
    return np.minimum(rows, MOST // SCALE) * SCALE


def gaps(
    engine: Counter,
    cliques: Sequence[Clique],
    grids: Sequence[np.ndarray],
    domain: Domain,
    clip: int | None,
    codes: Codes,
) -> np.ndarray:
    """L1 distances between the marginals and the grids, cut off at SCORE_LIMIT (which cannot raise
    how much one user changes them)."""
    out = np.empty(len(cliques), np.int64)
    for start, stop in batches([g.size for g in grids]):
        counts = marginals(engine, list(dict.fromkeys(cliques[start:stop])), domain, clip, codes)
        for i in range(start, stop):
            out[i] = l1_distance(counts[cliques[i]], grids[i])
    return out


def half_tables(
    engine: Any, columns: Sequence[str], sets: np.ndarray, clip: int | None, codes: Codes
) -> np.ndarray:
    """[sets, 2^width]: marginals of many sets of columns (by number), all recoded to 0 and 1.
    Engines that cannot count them together count each."""
    shape = (len(sets), 1 << sets.shape[1])
    if (together := getattr(engine, "half_tables", None)) is not None:
        tables = require_int64(private(lambda: together(columns, sets, clip, codes)), shape)
        return tables if clip is not None else _in_units(tables)
    halved = Domain(dict.fromkeys(columns, 2))
    out = np.empty(shape, np.int64)
    blocks = blocks_of(len(columns), sets)
    for start in range(0, len(blocks), MOST_BLOCKS):
        asked = blocks[start : start + MOST_BLOCKS]
        held = np.concatenate([within for _, within in asked])
        cliques = [tuple(columns[i] for i in one) for one in sets[held]]
        large = [tuple(columns[i] for i in block) for block, _ in asked]
        counted = marginals(engine, [*large, *cliques], halved, clip, codes)
        out[held] = [counted[c].reshape(-1) for c in cliques]
    return out


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


def contrasts(
    engine: Counter, sets: Sequence[Clique], domain: Domain, clip: int | None, codes: Codes
) -> np.ndarray:
    """Of each set of columns, rows whose signs have the product 1 less those with -1. `codes`: by
    `distances.signed_codes`, 1 is the sign 0."""
    out = np.empty(len(sets), np.int64)
    for start, stop in batches([domain.cells(c) for c in sets]):
        counts = marginals(engine, list(dict.fromkeys(sets[start:stop])), domain, clip, codes)
        for i in range(start, stop):
            left = counts[sets[i]]
            for size in domain.shape(sets[i]):
                left = np.tensordot(np.arange(size) - 1, left, axes=1)
            out[i] = left
    return out


def counts_sparsely(engine: Counter) -> bool:
    """Whether the engine counts a marginal by its cells that are not empty."""
    return getattr(engine, "counts_sparsely", False)


def cells(
    engine: Any, clique: Clique, domain: Domain, clip: int | None, codes: Codes
) -> tuple[np.ndarray, np.ndarray]:
    """(cells, sums) of a marginal: the numbers of its cells that are not empty, ascending, and
    their counts."""
    if not counts_sparsely(engine):
        table = marginals(engine, [clique], domain, clip, codes)[clique].reshape(-1)
        filled = np.flatnonzero(table)
        return filled, table[filled]
    found = private(lambda: engine.marginals([clique], clip, sparse=True, recode=codes or None))[
        clique
    ]
    filled = found.keys.astype(np.int64)
    sums = require_int64(found.sums, (len(found.keys),))
    if (np.diff(filled) <= 0).any() or (len(filled) and filled[-1] >= domain.cells(clique)):
        raise PrivacyError(
            "the engine returned a cell twice, or one that does not exist; nothing was released"
        )
    return filled, sums if clip is not None else _in_units(sums)


def guessed(
    domain: Domain,
    pairs: Sequence[Clique],
    skip: Mapping[str, int],
    cells_of: Callable[[Clique], tuple[np.ndarray, np.ndarray]],
) -> np.ndarray:
    """For ordered pairs (A, B), the sum over the values of A of the largest count among their
    cells, cut off at SCORE_LIMIT. Cells that have a code to `skip` are left out. `cells_of`:
    (cells, counts) of a pair in the domain's order."""
    out: dict[Clique, int] = {}
    for a, b in dict.fromkeys(domain.canonical(p) for p in pairs):
        filled, sums = cells_of((a, b))
        codes = np.divmod(filled, domain[b])
        there = (codes[0] != skip.get(a, -1)) & (codes[1] != skip.get(b, -1))
        for pair, known in (((a, b), codes[0]), ((b, a), codes[1])):
            largest = np.zeros(domain[pair[0]], np.int64)
            np.maximum.at(largest, known[there], sums[there])
            out[pair] = min(SCORE_LIMIT, sum(largest.tolist()))
    return np.array([out[p] for p in pairs], np.int64)
