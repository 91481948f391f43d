"""Measures the numbers that were asked for before a run, one after the other.

`measure_numbers` divides the numbers' mu^2, asks the session for vectors of users, and turns each
into an estimate with a 95 % interval. All choices between two releases (cap, rough mean, ranges,
withheld groups) follow from released values, public declarations and a public seed. The order of
releases and their mu depend on nothing else, so a run that is resumed asks the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

import msgspec
import numpy as np
from msgspec import Struct

from ..errors import UsageError
from . import (
    allocation,
    group_estimates as groups,
    language,
    quantile_zoom as quantiles,
    sum_estimates as sums,
)
from .declared import Declared
from .encodings import (
    LARGEST,
    LARGEST_SHIFT,
    MOST_WEIGHT,
    CappedGroups,
    CappedSum,
    Centred,
    CentredGroups,
    DirectionHats,
    GroupCounts,
    GroupsPerUser,
    Hats,
    Histogram,
    UserEncoding,
    Users,
    octaves,
    rounded_cap,
)
from .sum_estimates import Interval, normal
from .sums_plan import SumsPlan
from .typed import TypedNumber

TOP = 1 << 40
"""Users' values saturate here; the last corner where no maximum is declared."""
FIRST_HATS = 0.25
"""Part of a sum's mu^2 for the first hats. They show what the capped sum needs; the rest of mu^2 is
for hats again. Less would leave the cap to noise."""
LEAST_CAPPED = 0.15
"""Part of a sum's mu^2 that the capped sum has at least, where a smaller one would do."""
STEPS = 64
"""What the capped sum gets is a whole multiple of 1 / STEPS, so that no last bit decides a charge."""
HATS = 0.5
"""Part of the mu^2 of groups, residuals and sums with a declared maximum that hats get; the capped
sums get the rest. With .3 the upper end is a fifth higher, with .7 the capped sum has 1.3 times the
noise."""
ROUGH = 0.1
"""Part of a mean's mu^2 for the rough sum."""
ROWS = 0.1
"""Part of a mean's mu^2 for the rows that divide it."""
FEW_GROUPS = 4
"""Users of up to so many groups are counted directly, with noise sqrt(groups) / mu, at most 2 / mu."""
PILOT = 0.2
"""Part of mu^2 for the number of groups per user."""


class Released(Protocol):
    """Answers of an encoding and the standard deviation of their noise."""

    @property
    def values(self) -> np.ndarray: ...
    @property
    def sigma(self) -> float: ...


class Releases(Protocol):
    """What is asked of a session (`release.gateway.Session`)."""

    def user_vector(self, plan: SumsPlan, *, mu: float, label: str) -> Released: ...


class NumberResult(Struct, frozen=True):
    """One line: `number` of those asked, `group` of its groups (None without `by`). Amounts, not
    units. estimate, low, high: None where the group is withheld; cap, capped: each user counted up
    to the cap, with an exact interval; mu: what the number cost in all."""

    number: int
    group: int | None
    estimate: float | None
    low: float | None
    high: float | None
    cap: float | None = None
    capped: float | None = None
    capped_low: float | None = None
    capped_high: float | None = None
    mu: float = 0.0
    note: str = ""


class Asking:
    """Asks for vectors of one number: each request takes a part of the number's mu^2."""

    def __init__(self, session: Releases, number: TypedNumber, mu: float, seed: int, index: int):
        self.session, self.number, self.mu, self.count = session, number, mu, 0
        self.name = f"number {index + 1}"
        self.rng = np.random.Generator(np.random.Philox(key=[seed, 1000 + index]))

    def __call__(self, encoding: UserEncoding, part: float, what: str) -> tuple[np.ndarray, float]:
        mu = self.mu * math.sqrt(part) * (1 - 1e-12)
        label = f"{self.name} ({what}): {self.number.text}"
        found = self.session.user_vector(SumsPlan(self.number, encoding), mu=mu, label=label)
        return found.values, float(found.sigma)


class Ask(Protocol):
    """`Asking`, or a part of it."""

    def __call__(
        self, encoding: UserEncoding, part: float, what: str
    ) -> tuple[np.ndarray, float]: ...


Line = tuple[int | None, Interval | None, tuple[float, Interval] | None, str]
"""(group, estimate, (cap, capped sum), note), in units."""


def check_numbers(numbers: Sequence[TypedNumber]) -> None:
    """UsageError for a number that no mechanism measures; before anything is charged."""
    for number in numbers:
        if number.aggregate == "quantile" and number.by:
            raise UsageError(
                f"{number.text!r}: quantiles are not measured by group; ask for a mean by group, "
                "or for the share of users above a value"
            )


def measure_numbers(
    session: Releases,
    numbers: Sequence[TypedNumber],
    declared: Sequence[Declared],
    *,
    mu: float,
    seed: int,
    users: float | None = None,
) -> list[NumberResult]:
    """All numbers, for mu in all (sum of squares). `users`: a public guess of their number, by
    which mu^2 is divided; None: `allocation.USERS`. `seed`: of the draws inside estimators."""
    check_numbers(numbers)
    shares = allocation.shares(numbers, declared, users or allocation.USERS, mu)
    mus = [mu * math.sqrt(share) for share in shares.numbers]
    counted = None
    if shares.users:
        plan = SumsPlan(numbers[shares.first], Users())
        spent = mu * math.sqrt(shares.users) * (1 - 1e-12)
        found = session.user_vector(plan, mu=spent, label="number of users")
        counted = (float(found.values[0]), float(found.sigma))
    results = []
    for i, (number, facts) in enumerate(zip(numbers, declared, strict=True)):
        ask = Asking(session, number, mus[i], seed, i)
        lines = _measured(ask, number, facts, counted)
        results += [_result(i, number, mus[i], line) for line in lines]
    return _consistent(numbers, declared, results)


def _measured(
    ask: Asking, number: TypedNumber, facts: Declared, users: tuple[float, float] | None
) -> list[Line]:
    kind = number.aggregate
    if number.of == "users" and kind in ("count", "share"):
        if number.by:
            return _people_by_group(ask, number)
        assert users is not None
        return [_people(ask, number, users)]
    if kind == "quantile":
        return [_quantile(ask, number, facts)]
    if kind in ("mean", "share"):
        return _mean_by_group(ask, number, facts) if number.by else [_mean(ask, facts)]
    return _sum_by_group(ask, number, facts) if number.by else [_sum(ask, facts)]


def _result(index: int, number: TypedNumber, mu: float, line: Line) -> NumberResult:
    group, found, capped, note = line
    share = number.aggregate == "share"
    unit = 1.0 if share or number.aggregate == "count" else float(number.unit)
    result = NumberResult(index, group, None, None, None, mu=mu, note=note)
    if found is not None:
        values = (found.estimate, found.low, found.high)
        middle, low, high = (min(max(v, 0.0), 1.0) if share else v * unit for v in values)
        result = msgspec.structs.replace(result, estimate=middle, low=low, high=high)
    if capped is not None:
        cap, cut = capped
        result = msgspec.structs.replace(
            result,
            cap=cap * unit,
            capped=cut.estimate * unit,
            capped_low=cut.low * unit,
            capped_high=cut.high * unit,
        )
    return result


def _people(ask: Asking, number: TypedNumber, users: tuple[float, float]) -> Line:
    """Users for whom a predicate holds: y + n / 2 of them, a share of 1/2 + y / n."""
    n, noise = users
    if number.number.where is None:
        return None, _at_least(normal(n, noise), 0.0), None, "measured once for all numbers"
    (y,), s = ask(Centred(), 1.0, "users")
    if number.aggregate == "count":
        found = normal(float(y) + n / 2, math.hypot(s, noise / 2))
        return None, _at_least(found, 0.0), None, ""
    n = max(n, 1.0)
    share = 0.5 + float(y) / n
    away = min(abs(share - 0.5), 0.5)
    return None, normal(share, math.hypot(s, away * noise) / n), None, ""


def _people_by_group(ask: Asking, number: TypedNumber) -> list[Line]:
    """Users by group: directly where a user is in one group or groups are few."""
    size = number.groups
    most = 1 if number.one_group else size
    if number.aggregate == "share":
        values, s = ask(CentredGroups(groups=size, most=most), 1.0, "users by group")
        return [_share_of_group(g, values[g], 2 * values[size + g], s) for g in range(size)]
    if number.one_group or size <= FEW_GROUPS:
        values, s = ask(GroupCounts(groups=size, most=most), 1.0, "users by group")
        return [(g, _at_least(normal(float(v), s), 0.0), None, "") for g, v in enumerate(values)]
    return _people_in_many_groups(ask, size)


def _people_in_many_groups(ask: Asking, size: int) -> list[Line]:
    """Users by group where each may be in many: a user in k groups adds min(1, cap / sqrt(k)) to
    each, so the noise is that of the cap. What is missing is known in all from the released number
    of groups per user; a group's part of it is modelled as between none and twice its share."""
    edges = (1, *(2**i + 1 for i in range(size.bit_length())))
    counts, noise = ask(GroupsPerUser(edges=edges), PILOT, "groups per user")
    cap, missing = _groups_cap(counts, noise, edges, size, noise * math.sqrt(PILOT))
    capped, s = ask(CappedGroups(cap=cap, groups=size), 1 - PILOT, "users by group")
    part = missing / max(float(capped.sum()), 1.0)
    note = f"each user counted in full in up to {cap * cap} groups, in part in more"
    lines: list[Line] = []
    for g, value in enumerate(capped.tolist()):
        seen = max(value, 0.0)
        found = Interval(
            value + part * seen,
            value - sums.Z * s,
            value + 2 * part * seen + sums.Z * s * (1 + part),
        )
        lines.append((g, _at_least(found, 0.0), None, note))
    return lines


def _groups_cap(
    counts: np.ndarray, noise: float, edges: Sequence[int], size: int, whole: float
) -> tuple[int, float]:
    """(cap, entries that it leaves out): the noise of a group plus the entries that a group misses
    on average are least. A bin that noise hides holds at most a quarter of the bin before."""
    most = [*(min(edge - 1, size) for edge in edges[1:]), size]
    users: list[float] = []
    for count in counts[1:].tolist():
        before = users[-1] if users else 0.0
        users.append(count if count > 2 * noise else min(noise, before / 4))
    best: tuple[float, int, float] | None = None
    for cap in octaves(math.isqrt(size - 1) + 1):
        missing = sum(n * max(0.0, k - cap * math.sqrt(k)) for n, k in zip(users, most))
        cost = cap * whole + missing / size
        if best is None or cost < best[0]:
            best = (cost, cap, missing)
    assert best is not None
    return best[1], best[2]


def _share_of_group(group: int, y: float, n: float, s: float) -> Line:
    """1/2 + y / n, where n has twice the noise of y."""
    if n < groups.NEED * s:
        return group, None, None, "withheld: too few users for a share"
    share = 0.5 + y / n
    away = min(abs(share - 0.5), 0.5)
    return group, normal(share, s * math.hypot(1, 2 * away) / n), None, ""


def _sum(ask: Asking, facts: Declared) -> Line:
    """A total and the sum with each user counted up to a cap."""
    seen, part = _hats(ask, facts)
    cap = seen.cap
    (capped,), sigma = ask(CappedSum(cap=cap, signed=facts.signed), part, "capped sum")
    exact = normal(float(capped), sigma)
    found = sums.total(seen, ask.rng, (float(capped), sigma)).interval()
    if sums.nothing_above(seen):
        found = sums.linear(seen, (float(capped), sigma))
    if not facts.signed:
        found = _at_least(found, 0.0)
    return None, found, (float(cap), exact), _above(facts)


def _hats(ask: Asking, facts: Declared) -> tuple[sums.Look, float]:
    """(What hats show, the part of mu^2 for the capped sum). Without a declared maximum the capped
    sum gets what makes it printable, by the first hats. All the rest is for hats again, which the
    tail needs. With a maximum both are combined exactly, and each gets half."""
    corners = octaves(_top(facts))
    at = np.array(corners)
    hats = Hats(corners=corners, signed=facts.signed)
    first = HATS if facts.maximum is not None else FIRST_HATS
    values, s = ask(hats, first, "hats")
    whole = s * math.sqrt(first)
    part = 1 - first
    seen = sums.look(values, s, at, facts.signed, whole, whole / math.sqrt(part))
    if facts.maximum is not None:
        return seen, part
    wanted = math.ceil(STEPS * (seen.relative * whole / sums.AIM) ** 2)
    needed = max(LEAST_CAPPED, wanted / STEPS)
    if needed >= part:
        return seen, part
    again, noise = ask(hats, part - needed, "hats again")
    values = values + s**2 / (s**2 + noise**2) * (again - values)
    s = s * noise / math.hypot(s, noise)
    return sums.look(values, s, at, facts.signed, whole, whole / math.sqrt(needed)), needed


def _sum_by_group(ask: Asking, number: TypedNumber, facts: Declared) -> list[Line]:
    size = number.groups
    corners = octaves(_top(facts))
    hats = DirectionHats(corners=corners, groups=size, signed=facts.signed)
    values, s = ask(hats, HATS, "hats by group")
    whole = s * math.sqrt(HATS)
    seen = groups.look(values, s, np.array(corners), size, facts.signed, whole)
    cap = seen.cap
    cut = CappedGroups(cap=cap, groups=size, signed=facts.signed)
    capped, sigma = ask(cut, 1 - HATS, "capped sums by group")
    lines: list[Line] = []
    for g in range(size):
        exact = normal(float(capped[g]), sigma)
        if not seen.given[g]:
            note = "withheld: too little of the group is visible; the capped sum holds"
            lines.append((g, None, (float(cap), exact), note))
            continue
        found = groups.total(seen, g, ask.rng, (float(capped[g]), sigma)).interval()
        if not facts.signed:
            found = _at_least(found, 0.0)
        lines.append((g, found, (float(cap), exact), _above(facts)))
    return lines


def _mean(ask: Asking, facts: Declared) -> Line:
    """R0 + D / N: a rough mean R0 from hats, the sum D of value - R0 * weight from signed hats and a
    capped sum, the sum N of weights from hats."""
    rows, look_rows = _rows(ask)
    rough, shift = _rough(ask, facts, rows)
    rest = 1 - ROUGH - ROWS
    corners = octaves(min(LARGEST, _top(facts) << (shift + 1)))
    reading: dict[str, Any] = {"of": "residual", "signed": True, "rough": rough, "shift": shift}
    values, s = ask(Hats(corners=corners, **reading), rest * HATS, "hats of residuals")
    seen = sums.look(values, s, np.array(corners), True, s * math.sqrt(HATS))
    cut = CappedSum(cap=seen.cap, **reading)
    (capped,), sigma = ask(cut, rest * (1 - HATS), "capped sum of residuals")
    d = sums.total(seen, ask.rng, (float(capped), sigma)).resampled(ask.rng)
    n = np.maximum(sums.total(look_rows, ask.rng).resampled(ask.rng), 1.0)
    low, middle, high = np.quantile((rough + d / n) / 2**shift, (0.025, 0.5, 0.975))
    return None, Interval(float(middle), float(low), float(high)), None, ""


def _rows(ask: Ask) -> tuple[float, sums.Look]:
    """The sum of weights, roughly, and what its hats show."""
    corners = octaves(MOST_WEIGHT)
    values, s = ask(Hats(corners=corners, of="weight"), ROWS, "rows")
    seen = sums.look(values, s, np.array(corners), False, s)
    here = slice(0, seen.above.measured + 1)
    return float(seen.above.c[here] @ seen.corners[here]), seen


def _rough(ask: Ask, facts: Declared, rows: float) -> tuple[int, int]:
    """(R0 * 2^shift as a whole number, shift): the sum that hats show, divided by the rows. Any R0
    is right; one near the mean leaves small residuals."""
    corners = octaves(_top(facts))
    values, s = ask(Hats(corners=corners, signed=facts.signed), ROUGH, "rough sum")
    seen = sums.look(values, s, np.array(corners), facts.signed, s)
    amount = 0.0
    for sign, side in ((1, seen.above), (-1, seen.below)):
        if side is not None:
            here = slice(0, seen.above.measured + 1)
            amount += sign * float(side.c[here] @ seen.corners[here])
    mean = amount / max(rows, 1.0)
    if not facts.signed:
        mean = max(mean, 0.0)
    shift = min(LARGEST_SHIFT, max(0, LARGEST_SHIFT + 2 - int(abs(mean)).bit_length()))
    return round(mean * 2**shift), shift


def _mean_by_group(ask: Asking, number: TypedNumber, facts: Declared) -> list[Line]:
    """As `_mean` with one rough mean for all groups, and direction hats over groups."""
    size = number.groups
    rows, _ = _rows(_Part(ask, 0.5))
    rough, shift = _rough(_Part(ask, 0.5), facts, rows)
    rest = 1 - ROUGH - ROWS
    weights = octaves(MOST_WEIGHT)
    values, s = ask(
        DirectionHats(corners=weights, groups=size, of="weight"), ROUGH, "rows by group"
    )
    seen_rows = groups.look(values, s, np.array(weights), size, False, s)
    corners = octaves(min(LARGEST, _top(facts) << (shift + 1)))
    reading: dict[str, Any] = {"of": "residual", "signed": True, "rough": rough, "shift": shift}
    hats = DirectionHats(corners=corners, groups=size, **reading)
    values, s = ask(hats, rest * HATS, "hats of residuals by group")
    seen = groups.look(values, s, np.array(corners), size, True, s * math.sqrt(HATS))
    cut = CappedGroups(cap=seen.cap, groups=size, **reading)
    capped, sigma = ask(cut, rest * (1 - HATS), "capped residuals by group")
    lines: list[Line] = []
    for g in range(size):
        if not seen_rows.given[g]:
            lines.append((g, None, None, "withheld: too few rows of the group are visible"))
            continue
        d = groups.total(seen, g, ask.rng, (float(capped[g]), sigma)).resampled(ask.rng)
        n = np.maximum(groups.total(seen_rows, g, ask.rng).resampled(ask.rng), 1.0)
        low, middle, high = np.quantile((rough + d / n) / 2**shift, (0.025, 0.5, 0.975))
        lines.append((g, Interval(float(middle), float(low), float(high)), None, ""))
    return lines


class _Part:
    """`Asking` with every part multiplied by a factor."""

    def __init__(self, ask: Asking, factor: float):
        self.ask, self.factor = ask, factor

    def __call__(self, encoding: UserEncoding, part: float, what: str) -> tuple[np.ndarray, float]:
        return self.ask(encoding, part * self.factor, what)


def _quantile(ask: Asking, number: TypedNumber, facts: Declared) -> Line:
    top = _top(facts)
    least = -top if facts.signed else 0
    edges = quantiles.first_edges(top, facts.signed)
    found: list[quantiles.Ranks] = []
    low, high = least, top + 1
    q = float(number.q or 0.5)
    for i, share in enumerate(quantiles.SHARES):
        if found:
            a, b = found[-1].bracket(quantiles.SURE, low, high)
            low, high = max(a, low), min(b, high)
            if low >= high:
                low, high = a, b
            inside = found[-1].between(low, high)
            parts = quantiles.parts(inside, 1 / (ask.mu * math.sqrt(share)))
            edges = quantiles.zoomed(low, high, parts)
        counts, s = ask(Histogram(edges=edges), share, f"histogram {i + 1}")
        found.append(quantiles.ranks(counts, s, edges, q))
    return None, quantiles.interval(found, least, top + 1), None, ""


def _top(facts: Declared) -> int:
    return rounded_cap(min(facts.maximum or TOP, TOP))


def _above(facts: Declared) -> str:
    if facts.maximum is None:
        return "upper end: from a model of users above the cap"
    return "each user counted up to the declared maximum"


def _at_least(found: Interval, least: float) -> Interval:
    """What is known in public of the number cuts its interval."""
    return Interval(max(found.estimate, least), max(found.low, least), max(found.high, least))


def _consistent(
    numbers: Sequence[TypedNumber], declared: Sequence[Declared], results: list[NumberResult]
) -> list[NumberResult]:
    """Totals and their groups add up: least squares by precision, where each user's groups are
    parts of its total. Intervals move with their estimates, which keeps their width; the variance
    after the step is smaller. Withheld groups enter with their capped sums."""
    out = list(results)
    totals = {_key(n): i for i, n in enumerate(numbers) if not n.by and _adds_up(n)}
    places: dict[int, list[int]] = {}
    for place, result in enumerate(results):
        places.setdefault(result.number, []).append(place)
    for i, number in enumerate(numbers):
        if not number.by or not _adds_up(number) or _key(number) not in totals:
            continue
        lines = places[totals[_key(number)]] + places[i]
        known = [_known(out[place]) for place in lines]
        signs = np.array([1.0] + [-1.0] * (len(lines) - 1))
        value, variance = (np.array(column) for column in zip(*known, strict=True))
        moves = -signs * variance * (signs @ value) / max(variance.sum(), 1e-300)
        for place, move in zip(lines, moves.tolist(), strict=True):
            if out[place].estimate is not None:
                out[place] = _moved(out[place], move, declared[i].signed)
    return out


def _key(number: TypedNumber) -> str:
    return language.render(msgspec.structs.replace(number.number, by=(), pick=()))


def _adds_up(number: TypedNumber) -> bool:
    """Whether the groups of a number add up to its total: sums and counts of rows, and of users
    where each is in one group."""
    sums_up = number.aggregate in ("sum", "count")
    return sums_up and (number.of == "rows" or number.one_group)


def _known(result: NumberResult) -> tuple[float, float]:
    """(value, variance) of a line; of a withheld one the capped sum."""
    value, low = result.estimate, result.low
    if value is None or low is None:
        value, low = result.capped or 0.0, result.capped_low or 0.0
    return value, ((value - low) / sums.Z) ** 2


def _moved(result: NumberResult, by: float, signed: bool) -> NumberResult:
    assert result.estimate is not None and result.low is not None and result.high is not None
    values = [v + by for v in (result.estimate, result.low, result.high)]
    estimate, low, high = values if signed else [max(v, 0.0) for v in values]
    return msgspec.structs.replace(result, estimate=estimate, low=low, high=high)
