"""Checks of single releases in a statement: does the noise of each cover its sensitivity?

Every kind of release has a line in `LAWS` and a sensitivity in `SENSITIVITIES`. Nothing here reads
data: all of it is worked out from what the statement says.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import Any, NamedTuple

from ..schema.pending import MOST_KEYS_PER_USER
from .accountant import BoundedRange, Event, Gaussian, Pure, Threshold, event_from_dict
from .scale import laplace_std, least_threshold

CLOSE = 1e-9
"""Relative: figures that another machine's logarithms have rounded agree to this."""
MORE = 1 + CLOSE
"""A figure times this is above every figure that agrees with it."""
LESS = 1 - CLOSE
"""A figure times this is below every figure that agrees with it."""
LAWS: dict[tuple[str, str], type] = {
    ("marginal", "gaussian"): Gaussian,
    ("user_histogram", "gaussian"): Gaussian,
    ("user_histogram", "discrete-laplace"): Pure,
    ("select", "exponential"): BoundedRange,
    ("distances", "gaussian"): Gaussian,
    ("guesses", "gaussian"): Gaussian,
    ("contrasts", "gaussian"): Gaussian,
    ("filtered", "gaussian"): Gaussian,
    ("user_vector", "gaussian"): Gaussian,
    ("grid", "gaussian"): Gaussian,
    ("keys", "threshold"): Threshold,
    ("schema", "none"): Gaussian,
}
"""Kind of a release and distribution of its noise -> the kind of event that it is charged as."""
VECTORS = ("distances", "guesses", "contrasts")
"""Vectors of which one user changes every entry by at most the clip."""


class Sensitivity(NamedTuple):
    """The square of a sensitivity that is proved, exactly where noise is Gaussian; None where nothing
    is. `problem`: what is wrong with the one that the statement gives, or ""."""

    squared: Fraction | float | None
    problem: str = ""


def release_problems(release: Mapping, clip: int) -> Iterator[str]:
    """What is wrong with one release of a statement: its noise must cover its sensitivity."""
    event = event_from_dict(release["event"])
    law = release["law"]
    kind = release["kind"]
    if type(event) is not LAWS.get((kind, law)):
        yield f"no run releases a {kind} with {law} noise that is charged as {event.law}"
        return
    if not is_count(release["count"]) and release["count"] != 0:
        yield "its number of answers must be a whole number"
        return
    if kind == "schema":
        if event != Gaussian(0.0):
            yield "a finished schema is computed from releases, so it must cost nothing"
        return
    if "draws" in release and kind != "keys":
        yield "only a selection of keys may draw more numbers than it has answers"
    if kind != "select" and not _noise_is_stated(release):
        yield "its noise must be positive and finite, and the largest at least the smallest"
        return
    # Of a table about users one user is one row, whatever the clip.
    rows = 1 if release.get("of") == "users" else clip
    proved = SENSITIVITIES.get(kind, as_stated)(release, rows)
    if proved.problem:
        yield proved.problem
    if proved.squared is None:
        return
    if not release["sensitivity"] > 0:
        yield "its sensitivity must be positive"
        return
    yield from _noise_problems(release, event, proved.squared)


def _noise_is_stated(release: Mapping) -> bool:
    """Whether its noise is positive and finite, and the largest at least the smallest."""
    least = release["sigma"]
    return 0 < least <= release.get("sigma_max", least) < math.inf


def _noise_problems(release: Mapping, event: Event, squared: Fraction | float) -> Iterator[str]:
    """Whether the noise is as large as sensitivity and event require; the event's type says how it
    is distributed."""
    if isinstance(event, Gaussian | Threshold):
        # sigma is the smallest over the rows; a row's scalar is at most 1, so its noise is at least
        # this
        if Fraction(release["sigma"]) ** 2 * Fraction(event.mu) ** 2 < squared:
            yield "its noise is too small for its sensitivity and mu"
        if isinstance(event, Threshold):
            bar = least_threshold(release["sigma"], release["cap"], event.delta)
            if not release["threshold"] >= bar * LESS:
                yield "its threshold is too low for its noise and delta"
    elif isinstance(event, Pure):
        least = laplace_std(release["sensitivity"] / event.epsilon)
        if release["sigma"] < least * LESS:
            yield "its noise is too small for its sensitivity and epsilon"


def as_stated(release: Mapping, clip: int) -> Sensitivity:
    """Of a selection, whose event bounds the score itself."""
    return Sensitivity(release["sensitivity"] ** 2)


def _of_marginal(release: Mapping, clip: int) -> Sensitivity:
    """A user has at most `clip` rows, each in one cell."""
    problem = "the sensitivity of a marginal must be the clip"
    stated = release["sensitivity"]
    return Sensitivity(stated**2, "" if stated == clip else problem)


def _of_grid(release: Mapping, clip: int) -> Sensitivity:
    """Cells of a domain are counted at a clip of their own."""
    if is_count(release["clip"]) and release["sensitivity"] == release["clip"]:
        return Sensitivity(release["sensitivity"] ** 2)
    return Sensitivity(None, "the sensitivity of a domain's cells must be their clip")


def _of_user_histogram(release: Mapping, clip: int) -> Sensitivity:
    """A user is in at most `cap` bins, in each as one."""
    cap = release["cap"]
    norm = cap if release["law"] == "discrete-laplace" else math.sqrt(cap)
    if is_count(cap) and close(release["sensitivity"], norm):
        return Sensitivity(cap)
    return Sensitivity(None, "its sensitivity does not follow from its cap")


def _of_keys(release: Mapping, clip: int) -> Sensitivity:
    """A user adds 1 / sqrt(t) to each of t values: a vector of norm 1."""
    cap = release["cap"]
    if is_count(cap) and cap <= MOST_KEYS_PER_USER and close(release["sensitivity"], 1.0):
        return Sensitivity(release["sensitivity"] ** 2)
    return Sensitivity(None, "its sensitivity does not follow from its cap")


ENCODINGS: dict[str, Callable[[int], float]] = {
    "Users": lambda _: 1.0,
    "Centred": lambda _: 0.25,
    "GroupCounts": lambda most: float(most),
    "CentredGroups": lambda most: most / 2,
    "GroupsPerUser": lambda _: 1.0,
    "Histogram": lambda _: 1.0,
    "CappedSum": lambda cap: float(cap) ** 2,
    "CappedGroups": lambda cap: float(cap) ** 2,
    "Hats": lambda _: 1.0,
    "DirectionHats": lambda _: 1.0,
    "VectorLengths": lambda _: 1.0,
}
"""Squared sensitivity of an encoding of users' values, of its `cap` (docs/explain/numbers.md)."""


def _of_user_vector(release: Mapping, clip: int) -> Sensitivity:
    """The encoding of users' values is named; its squared norm is proved."""
    stated = release["norm2"]
    proved = ENCODINGS.get(release["encoding"])
    cap = release.get("cap", 1)
    norm2 = None if proved is None or not is_count(cap) else proved(cap)
    if norm2 is None or stated != norm2 or not close(release["sensitivity"], norm2**0.5):
        return Sensitivity(None, "its sensitivity does not follow from its encoding")
    return Sensitivity(stated)


def _of_vector(release: Mapping, clip: int) -> Sensitivity:
    """One user changes each entry by at most the clip, times the entry's weight if it has one."""
    entries = Fraction(release["count"])
    if "weights" in release:
        weights = release["weights"]
        if len(weights) != release["count"] or not all(map(is_count, weights)):
            return Sensitivity(None, "it needs one weight >= 1 for each of its distances")
        entries = Fraction(sum(w * w for w in weights), max(weights) ** 2)
    if close(release["sensitivity"], clip * math.sqrt(entries)):
        return Sensitivity(entries * clip**2)
    kind = release["kind"]
    return Sensitivity(
        None, f"the sensitivity of {kind} must be the clip times the norm of their weights"
    )


SENSITIVITIES: dict[str, Callable[[Mapping, int], Sensitivity]] = {
    "marginal": _of_marginal,
    "filtered": _of_marginal,
    "grid": _of_grid,
    "user_histogram": _of_user_histogram,
    "keys": _of_keys,
    "user_vector": _of_user_vector,
    **dict.fromkeys(VECTORS, _of_vector),
}
"""Kind of a release -> its sensitivity, from the statement's line and the clip."""


def is_count(value: Any) -> bool:
    """Whether it is a whole number of at least 1."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def close(stated: float, computed: float) -> bool:
    """Whether two figures agree up to the rounding of another machine's logarithms."""
    return math.isfinite(stated) and abs(stated - computed) <= CLOSE * abs(computed)
