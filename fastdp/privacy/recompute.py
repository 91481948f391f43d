"""Works out the figures of a statement again from its releases: `problems` says what does not add
up."""

import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from ..schema.pending import MOST_KEYS_PER_USER
from ..schema.periods import KIND as USER_PERIOD
from . import clip as clip_rules
from .accountant import BoundedRange, Event, Gaussian, Pure, Threshold, event_from_dict
from .budget import combined_mu, epsilon_at
from .chain import part_budget
from .sampler_distance import PURE, SHARE, added_delta
from .scale import laplace_std, least_threshold
from .statement import FORMAT, draws_of

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
"""What a run releases, and the kind of event it is charged as."""
VECTORS = ("distances", "guesses", "contrasts")
"""Vectors of which one user changes every entry by at most the clip."""


def problems(statement: Mapping) -> list[str]:
    """Everything that does not add up when the statement's numbers are worked out again; empty if
    all do.

    The statement may be anything: whatever its values do to the arithmetic is a problem of the
    statement.
    """
    texts: list[str] = []
    try:
        texts.extend(_problems(statement))
    except Exception as error:  # a hostile statement may raise anything: see the docstring
        texts.append(f"the statement is malformed ({type(error).__name__}: {error})")
    return texts


def _problems(statement: Mapping) -> Iterator[str]:
    """What is wrong with a statement whose fields are all there."""
    if statement["format"] != FORMAT:
        yield f"unknown format {statement['format']!r}; this version of fastdp reads {FORMAT!r}"
        return
    delta = statement["delta"]
    parts = statement["parts"]
    caps = [event_from_dict(p["event"]) for p in parts]
    if not parts:
        yield "the statement has no parts"
        return
    epsilon = epsilon_at(caps, delta)
    if not _close(statement["epsilon"], epsilon):
        yield f"epsilon is stated as {statement['epsilon']!r}, but the parts give {epsilon!r}"
    if not _close(statement["mu"], combined_mu(caps)):
        yield f"mu is stated as {statement['mu']!r}, but the parts give {combined_mu(caps)!r}"
    for i, (entry, cap) in enumerate(zip(parts, caps, strict=True)):
        yield from (f"part {i}: {text}" for text in _part_problems(statement, entry, cap))
    if statement["bound"]["clip"] != [p["clip"] for p in parts]:
        yield "the bound and the parts state different clips"
    if statement["private"] is not ("NOT PRIVATE" not in statement["noise"]["source"]):
        yield "the statement claims privacy, but its noise came from a seed"
    if statement["private"]:
        yield from sampler_problems(epsilon, delta, draws_of(parts), statement["noise"])


def sampler_problems(epsilon: float, delta: float, draws: int, about: Mapping) -> Iterator[str]:
    """What is wrong with the sampler's error that a statement gives (`about`) for so many draws."""
    added = added_delta(epsilon, draws)
    if added > (delta * SHARE if delta > 0 else PURE) * (1 + 1e-6):
        yield (
            f"the noise sampler's error adds {added:.3g} to delta at epsilon {epsilon:.6g}"
            f" ({draws:,} numbers drawn), which is not far below the stated delta {delta:g}: the"
            " guarantee does not hold"
        )
    if "draws" in about and about["draws"] != draws:
        yield (
            f"the statement says that {about['draws']!r} numbers were drawn, but the "
            f"releases give {draws}"
        )


def _part_problems(statement: Mapping, entry: Mapping, cap: Event) -> Iterator[str]:
    """What is wrong with one part: its releases must stay within what it asked."""
    delta = statement["delta"]
    events = [event_from_dict(r["event"]) for r in entry["releases"]]
    if not part_budget(cap).admits(events):
        yield "its releases cost more than the part's bound"
    if entry["asked"]["delta"] != delta:
        yield "its delta differs from the statement's"
    if not epsilon_at([cap], delta) <= entry["asked"]["epsilon"] * MORE:
        yield "its bound exceeds the requested epsilon"
    if not _close(entry["epsilon"], epsilon_at([cap], delta)):
        yield "its epsilon does not follow from its bound"
    if not _close(entry["spent"]["mu"], combined_mu(events) if events else 0.0):
        yield "the stated cost differs from the cost of its releases"
    bounded = statement["unit"]["kind"] in ("user", USER_PERIOD)
    if not _whole(entry["clip"]) or (not bounded and entry["clip"] != 1):
        yield "the clip must be a whole number of rows, and 1 if no user is protected"
    if "clip_choice" in entry:
        yield from clip_rules.problems(entry["clip_choice"], entry["clip"], entry["releases"])
    for release in entry["releases"]:
        where = repr(release["label"])
        yield from (f"{where}: {text}" for text in release_problems(release, entry["clip"]))


def release_problems(release: Mapping, clip: int) -> Iterator[str]:
    """What is wrong with one release of a statement: its noise must cover its sensitivity."""
    event = event_from_dict(release["event"])
    law = release["law"]
    kind = release["kind"]
    if type(event) is not LAWS.get((kind, law)):
        yield f"no run releases a {kind} with {law} noise that is charged as {event.law}"
        return
    if not _whole(release["count"]) and release["count"] != 0:
        yield "its number of answers must be a whole number"
        return
    if kind == "schema":
        if event != Gaussian(0.0):
            yield "a finished schema is computed from releases, so it must cost nothing"
        return
    if release.get("of") == "users":  # one row per user: one user is one row, whatever the clip
        clip = 1
    if "draws" in release and kind != "keys":
        yield "only a selection of keys may draw more numbers than it has answers"
    if (
        kind != "select"
        and not 0 < release["sigma"] <= release.get("sigma_max", release["sigma"]) < math.inf
    ):
        yield "its noise must be positive and finite, and the largest at least the smallest"
        return
    if kind in ("marginal", "filtered") and release["sensitivity"] != clip:
        yield "the sensitivity of a marginal must be the clip"
    if kind == "grid" and not (
        _whole(release["clip"]) and release["sensitivity"] == release["clip"]
    ):
        yield "the sensitivity of a domain's cells must be their clip"
        return
    if kind in ("user_histogram", "keys"):
        bound = release["cap"] if law == "discrete-laplace" else math.sqrt(release["cap"])
        if kind == "keys":
            if _whole(release["cap"]) and release["cap"] <= MOST_KEYS_PER_USER:
                bound = 1.0
            else:
                bound = math.nan
        if not _whole(release["cap"]) or not _close(release["sensitivity"], bound):
            yield "its sensitivity does not follow from its cap"
            return
    if kind == "user_vector":
        stated = release["norm2"]
        proved = _vector_norm2(release)
        if proved is None or stated != proved or not _close(release["sensitivity"], proved**0.5):
            yield "its sensitivity does not follow from its encoding"
            return
    norm2 = Fraction(1)
    if kind in VECTORS:
        norm2 = Fraction(release["count"])
        if "weights" in release:
            weights = release["weights"]
            if len(weights) != release["count"] or not all(_whole(w) for w in weights):
                yield "it needs one weight >= 1 for each of its distances"
                return
            norm2 = Fraction(sum(w * w for w in weights), max(weights) ** 2)
        if not _close(release["sensitivity"], clip * math.sqrt(norm2)):
            yield f"the sensitivity of {kind} must be the clip times the norm of their weights"
            return
    if not release["sensitivity"] > 0:
        yield "its sensitivity must be positive"
        return
    # the type that LAWS asks for gives the distribution of the noise
    if isinstance(event, Gaussian | Threshold):
        squared = release["cap"] if kind == "user_histogram" else release["sensitivity"] ** 2
        if kind == "user_vector":
            squared = release["norm2"]
        if kind in VECTORS:
            squared = norm2 * clip**2
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


ENCODINGS: dict[str, Any] = {
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


def _vector_norm2(release: Mapping) -> float | None:
    """The squared sensitivity that is proved for the encoding; None if there is none."""
    norm2 = ENCODINGS.get(release["encoding"])
    cap = release.get("cap", 1)
    return None if norm2 is None or not _whole(cap) else norm2(cap)


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _close(stated: float, computed: float) -> bool:
    return math.isfinite(stated) and abs(stated - computed) <= CLOSE * abs(computed)
