"""What two recorded runs on neighbouring tables say about the guarantee. All bounds are compared
in exact rationals, without slack, except the probability of passing a threshold (`ROUNDED`)."""

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from scipy.special import log_ndtr

from fastdp.privacy.accountant import BoundedRange, Gaussian, Pure, Threshold
from fastdp.privacy.chain import digest

from .recorder import Draw, Recorder, Step

ROUNDED = 1 + 1e-9
"""Slack of a probability worked out in floating point: `log_ndtr` is right to 1e-12."""


@dataclass
class Figures:
    """Pairs, those that ended without an error, steps, and the largest ratio (what a pair used of
    a charge) by kind of release; `errors`: texts of runs A that ended with one."""

    pairs: int = 0
    finished: int = 0
    steps: int = 0
    errors: dict[str, int] = field(default_factory=dict)
    largest: dict[str, float] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def add(self, other: "Figures") -> None:
        self.pairs += other.pairs
        self.finished += other.finished
        self.steps += other.steps
        for text, count in other.errors.items():
            self.errors[text] = self.errors.get(text, 0) + count
        for kind, ratio in other.largest.items():
            self.largest[kind] = max(ratio, self.largest.get(kind, 0.0))
        for kind, count in other.counts.items():
            self.counts[kind] = self.counts.get(kind, 0) + count

    def note(self, kind: str, ratio: float) -> None:
        self.largest[kind] = max(ratio, self.largest.get(kind, 0.0))
        self.counts[kind] = self.counts.get(kind, 0) + 1

    def lines(self) -> list[str]:
        out = [f"{self.pairs} pairs, {self.finished} without an error, {self.steps} steps"]
        for kind in sorted(self.largest):
            out.append(f"| {kind} | {self.counts[kind]:,} | {self.largest[kind]:.6f} |")
        return out


def compare(a: Recorder, b: Recorder, figures: Figures | None = None) -> list[str]:
    """Everything in which the two runs contradict the guarantee; empty where they do not."""
    figures = Figures() if figures is None else figures
    figures.pairs += 1
    figures.finished += not a.error or a.error.startswith("StoppedEarly")
    if a.error:
        figures.errors[a.error] = figures.errors.get(a.error, 0) + 1
    found = [f"run A: {p}" for p in a.problems] + [f"run B: {p}" for p in b.problems]
    for one, other in zip(a.steps, b.steps):
        figures.steps += 1
        found += _step(one, other, figures)
    if len(a.steps) != len(b.steps):
        found.append(f"steps: {len(a.steps)} in run A, {len(b.steps)} in run B")
    if a.error != b.error:
        found.append(f"errors differ: {a.error!r} and {b.error!r}")
    if a.said != b.said:
        found.append(f"log lines or warnings differ: {_first(a.said, b.said)}")
    for name in sorted(a.released.keys() | b.released.keys()):
        if a.released.get(name) != b.released.get(name):
            found.append(f"released {name!r} differs")
    return found


def _first(one: list, other: list) -> str:
    pairs = [(x, y) for x, y in zip(one, other) if x != y]
    return repr(pairs[0]) if pairs else f"{len(one)} and {len(other)} lines"


def _step(a: Step, b: Step, figures: Figures) -> list[str]:
    name = f"step {a.part}.{a.number} {a.label!r}"
    for what in ("part", "number", "label", "events", "count"):
        if getattr(a, what) != getattr(b, what):
            return [f"{name}: {what} differs: {getattr(a, what)!r} and {getattr(b, what)!r}"]
    if digest(a.question) != digest(b.question):
        return [f"{name}: the questions differ"]
    if (a.arrays is None) != (b.arrays is None):
        return [f"{name}: one run answered it, the other did not"]
    if a.arrays is None or b.arrays is None:
        return []
    if len(a.draws) != len(b.draws):
        return [f"{name}: {len(a.draws)} draws in run A, {len(b.draws)} in run B"]
    found = []
    for x, y in zip(a.draws, b.draws):
        if not _same_noise(x, y):
            found.append(f"{name}: the noise differs: {x.law} of {x.width} and of {y.width}")
    if not found:
        found = [f"{name}: {text}" for text in _charges(a, b, figures)]
    same = len(a.arrays) == len(b.arrays) and all(map(_equal, a.arrays, b.arrays))
    if not same:
        found.append(f"{name}: the answers depend on more than the noisy vectors")
    return found


def _equal(x: np.ndarray, y: np.ndarray) -> bool:
    return x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes()


def _same_noise(x: Draw, y: Draw) -> bool:
    same = x.law == y.law and np.array_equal(x.width, y.width) and x.facts == y.facts
    return same and (x.keys is None) == (y.keys is None)


def _charges(a: Step, b: Step, figures: Figures) -> list[str]:
    """Each draw against its own event, where there are as many, and all against all."""
    found = []
    pairs = list(zip(a.draws, b.draws))
    if any(x.exact is None or y.exact is None for x, y in pairs):
        return ["noise without exact numbers"]
    if any(x.keys is None and x.exact.shape != y.exact.shape for x, y in pairs):
        return ["the vectors have different sizes"]
    costs = [_cost(x, y) for x, y in pairs]
    if len(costs) == len(a.events):
        for event, cost, (x, y) in zip(a.events, costs, pairs):
            found += _charge(a, [event], [cost], [(x, y)], figures)
    else:
        found += _charge(a, a.events, costs, pairs, figures)
    return found


def _charge(step: Step, events, costs, pairs, figures: Figures) -> list[str]:
    """The costs of some draws against the events that were charged for them."""
    found = []
    for law, kinds, limit in (
        ("gaussian", (Gaussian, Threshold), sum(_mu2(e) for e in events)),
        ("laplace", (Pure,), sum(Fraction(e.epsilon) for e in events if isinstance(e, Pure))),
        ("exponential", (BoundedRange,), sum(_range(e) for e in events)),
    ):
        cost = sum((c for c, (x, _) in zip(costs, pairs) if x.law == law), Fraction(0))
        if cost > limit:
            found.append(
                f"one unit changes it by {float(cost):.6g} ({law}), charged are {float(limit):.6g}"
            )
        if any(isinstance(e, kinds) for e in events) and any(x.law == law for x, _ in pairs):
            figures.note(step.kind, float(cost / limit) if limit else 0.0)
    lost = sum(e.delta for e in events if isinstance(e, Threshold))
    for x, y in pairs:
        if x.keys is not None and lost:
            passing = max(_passing(x, y), _passing(y, x))
            figures.note(f"{step.kind}: delta", passing / lost)
            if passing > lost * ROUNDED:
                found.append(f"new keys pass with probability {passing:.3g}, charged is {lost:.3g}")
    return found


def _mu2(event) -> Fraction:
    return Fraction(event.mu) ** 2 if isinstance(event, Gaussian | Threshold) else Fraction(0)


def _range(event) -> Fraction:
    return Fraction(event.epsilon) if isinstance(event, BoundedRange) else Fraction(0)


def _cost(x: Draw, y: Draw) -> Fraction:
    """Squared L2 norm in standard deviations, L1 norm in scales, or the range of the scores."""
    difference = _difference(x, y)
    if x.law == "exponential":
        if not difference:
            return Fraction(0)
        spread = max(difference.values()) - min(difference.values())
        return Fraction(float(x.width)) * spread / (2 * x.facts["sensitivity"])
    power = 2 if x.law == "gaussian" else 1
    cost = Fraction(0)
    width = np.broadcast_to(x.width, x.exact.shape) if x.keys is None else x.width
    for place, change in difference.items():
        if change:
            sigma = Fraction(float(width.reshape(-1)[place if x.keys is None else 0]))
            cost += Fraction(abs(change) ** power) / sigma**power
    return cost


def _difference(x: Draw, y: Draw) -> dict:
    """Change of every entry, by its place or key; an entry that one run lacks is 0 there."""
    if x.keys is None:
        change = (y.exact - x.exact).reshape(-1)
        places = range(len(change)) if x.law == "exponential" else np.flatnonzero(change).tolist()
        return {place: int(change[place]) for place in places}
    before = dict(zip(x.keys, x.exact.tolist()))
    after = dict(zip(y.keys, y.exact.tolist()))
    return {key: after.get(key, 0) - before.get(key, 0) for key in before.keys() | after.keys()}


def _passing(x: Draw, y: Draw) -> float:
    """Probability that a key which only `x` has passes the threshold."""
    known = set(y.keys)
    new = np.array([n for k, n in zip(x.keys, x.exact.tolist()) if k not in known], np.float64)
    below = log_ndtr((x.facts["threshold"] + 0.5 - new) / float(x.width)).sum()
    return float(-np.expm1(below))
