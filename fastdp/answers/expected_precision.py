"""The precision of a run before it: from the noise of its plan and a public guess of the rows.

Nobody knows the shares of values yet. They are taken as those of Zipf's law, where the k-th most
frequent value is k times rarer than the first. After the run, columns are named of which the guess
was another word (`released_precision`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from msgspec import structs

from ..measurement import Measurement
from ..schema import Schema
from ..schema.columns import Column
from .clipping import Clipping
from .evidence import marginals_of
from .facts import Facts
from .precision import Amount, Known, People, Precision, half_width, means
from .values import numbers_of

NOTHING_CLIPPED = Clipping()


def zipf_shares(values: int) -> np.ndarray:
    """Shares of so many values by Zipf's law, the most frequent first."""
    ranks = 1.0 / np.arange(1, min(values, 1_000_000) + 1)
    return ranks / ranks.sum()


def zipf(values: int) -> float:
    """The typical share of a column of so many values by Zipf's law."""
    return float(np.square(zipf_shares(values)).sum())


def expected_precision(
    ones: Mapping[str, tuple[int, float]],
    pairs: Sequence[tuple[tuple[str, ...], float]],
    rows: int,
    *,
    clipping: Clipping = NOTHING_CLIPPED,
    schema: Schema | None = None,
    private: Sequence[str] = (),
    asked: Sequence[Amount] = (),
    people: People | None = None,
    target: str = "",
    takes_target: bool = False,
    order: Sequence[str] = (),
    clip: str = "",
    others_told: bool = False,
) -> Precision:
    """The precision of a run on about `rows` rows. `ones`: values and standard error of a count, by
    column; `pairs`: names, or none where the run chooses them, and standard error of a count. Counts
    are of rows that count at the clip; `clipping` says how many do. `schema`: whose columns of
    amounts have means, which are answered from the expected counts as from released ones, but of
    `private` columns, whose domain the run finds. `others_told`: as in `Precision`."""
    counted = max(rows * (1 - clipping.lost), 1.0)
    typical = {name: zipf(size) for name, (size, _) in ones.items()}
    clearest = iter(_clearest_pairs([*typical.values()], len(pairs)))
    columns = []
    for name, (size, error) in ones.items():
        half = half_width(zipf_shares(size) * counted, error, clipping, counted)
        columns.append(Known((name,), half, typical[name]))
    usual = float(np.median([*typical.values()])) if typical else 1.0
    measured = []
    for names, error in pairs:
        named = math.prod(typical.get(name, usual) for name in names)
        share = named if names else next(clearest, usual * usual)
        half = half_width(np.array([share * counted]), error, clipping, counted)
        measured.append(Known(tuple(names), half, share))
    return Precision(
        rows=float(rows),
        columns=tuple(columns),
        pairs=tuple(measured),
        measured_pairs=len(measured),
        of_pairs=math.comb(len(ones), 2),
        pairs_chosen=any(not names for names, _ in pairs),
        others_told=others_told,
        amounts=() if schema is None else _expected_means(schema, private, ones, counted, clipping),
        asked=tuple(asked),
        people=people,
        target=target,
        takes_target=takes_target,
        order=tuple(order),
        clip=clip,
        guessed=True,
    )


def _clearest_pairs(typical: Sequence[float], count: int) -> list[float]:
    """The typical shares of so many pairs of columns, the largest first: a run that chooses its pairs
    may choose these. They are among the columns with the largest shares, one more than pairs."""
    first = np.sort(np.array(typical))[::-1][: count + 1]
    shares = np.multiply.outer(first, first)[np.triu_indices(first.size, 1)]
    return np.sort(shares)[::-1][:count].tolist()


def _expected_means(
    schema: Schema,
    private: Sequence[str],
    ones: Mapping[str, tuple[int, float]],
    counted: float,
    clipping: Clipping,
) -> tuple[Amount, ...]:
    """Means as a run would answer them whose counts had the expected errors. Nobody knows where the
    values lie. If a mean is too wide with most values the lowest, as of counts, those in the middle
    are taken as the most frequent."""
    known = [
        (name, size, error)
        for name, (size, error) in ones.items()
        if name not in private and size == schema.modelled.get(name)
    ]

    def imagined_means(place: Callable[[np.ndarray], np.ndarray]) -> list[Amount]:
        imagined = [
            Measurement((name,), place(zipf_shares(size)) * counted, error)
            for name, size, error in known
        ]
        marginals = marginals_of(imagined, schema.modelled, {})
        return means(Facts(schema, marginals, clipping))

    there = {name for name, _, _ in known}
    out = []
    for low, middle in zip(
        imagined_means(_lowest_first), imagined_means(_middle_first), strict=True
    ):
        if low.name not in there or _around_zero(schema.columns[low.name]):
            low = structs.replace(low, half=math.inf)
        elif middle.clear and not low.clear:
            low = structs.replace(middle, unless_low=True)
        out.append(low)
    return tuple(out)


def _around_zero(column: Column) -> bool:
    """Whether the mean may be 0, so that nobody knows how large a part of it an error is."""
    numbers = numbers_of(column)
    valid = numbers.valid
    return bool(valid.any() and numbers.low[valid].min() < 0 < numbers.high[valid].max())


def _lowest_first(shares: np.ndarray) -> np.ndarray:
    """Shares of which most are at the lowest places: those of Zipf's law, squared."""
    return np.square(shares) / np.square(shares).sum()


def _middle_first(shares: np.ndarray) -> np.ndarray:
    """The shares, from the largest on, at the places from the middle on."""
    from_middle = np.abs(np.arange(shares.size) - (shares.size - 1) / 2)
    out = np.empty(shares.size)
    out[np.argsort(from_middle, kind="stable")] = shares
    return out
