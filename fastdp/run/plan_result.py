"""What `plan` returns, and its words and figures for people: what `print(plan)` and `fastdp plan`
show."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from msgspec import structs

from .._util.html import text_html
from .._util.texttable import plural, size, table
from ..answers.verdict import NONE, Verdict, rounded_up
from ..division import Part
from ..measurement import Clique
from ..release.domaincosts import vanishing


@dataclass(frozen=True)
class Line:
    """`times` measurements of one marginal, or of `times` different marginals chosen in the run.
    `sigma`: standard error of a cell, in rows, after averaging the measurements of the same
    marginal; `detectable`: the count of rows that is three standard errors."""

    clique: Clique
    cells: int
    times: int
    sigma: float
    detectable: float
    note: str = ""


@dataclass(frozen=True)
class DomainLine:
    """How one private column is found. The noise is that of a cell of the last partition, in rows,
    or of the count of a value, in users; `bar`: how many rows or users a cell or value needs to be
    seen. `listed`: its values are looked for, and those of fewer users vanish."""

    column: str
    how: str
    sigma: float
    bar: float
    listed: bool = False


@dataclass(frozen=True)
class NumberLine:
    """What to expect of a number that is asked for. `share`: of the numbers' mu^2. `low`, `high`: how far
    its interval reaches below and above the estimate, in the `unit`: parts of it, or "points" of a share.
    `capped`: half the width of its capped sum. `note`: why it would be too wide to use."""

    number: str
    share: float
    low: float
    high: float
    unit: str
    capped: float | None = None
    note: str = ""


@dataclass(frozen=True)
class ClipOption:
    """A clip that the run may choose. `sigma`: the noise per cell of a typical planned marginal, in
    rows. With public data also `lost`, the share of public rows that the clip loses, and `error`,
    the criterion by which the run would compare clips (see `privacy.clip`)."""

    clip: int
    sigma: float
    lost: float | None = None
    error: float | None = None


@dataclass(frozen=True)
class Plan:
    """The plan of one epsilon; `print` shows it.

    `charges`: what is paid for besides measurements, as shares of mu^2. `division`: every share of the
    run's mu^2, with the reason; they add up to 1. With public data,
    `clip_bias` is the share of its rows that the clip loses, and `clip_suggested` the clip of least
    error on it. For a run that chooses its clip, `clip_options` lists some of the clips it may
    choose. `clip_noise` is the noise, in users, of the histogram that it chooses by. `clip` is then
    the largest clip it may choose. The noise of the lines is that at `clip_expected`: the clip that
    the run would choose on so many users, or `clip` where nobody says how many. `model_cells`: cells of
    the model, or, unless `model_exact`, of the largest model that the run may choose; `too_large`:
    why the run would be refused for its size. `numbers`: what to expect of the numbers that are
    asked for, which have `numbers_share` of mu^2. `less_noise`: the share of noise that the calibration
    saves over "classic-rdp". `verdict`: what this budget can show, in words. Of linked tables,
    `table` is the table's name and `children` are the plans of the child tables.
    """

    mechanism: str
    epsilon: float
    delta: float
    calibration: str
    mu: float
    clip: int
    unit: str
    lines: tuple[Line, ...]
    charges: tuple[tuple[str, float], ...]
    cliques: tuple[Clique, ...]
    model_cells: int
    too_large: str
    memory_bytes: int
    seconds: float
    rows: int
    notes: tuple[str, ...]
    less_noise: float = 0.0
    clip_bias: float | None = None
    clip_suggested: int | None = None
    clip_options: tuple[ClipOption, ...] = ()
    clip_noise: float | None = None
    clip_expected: int = 1
    model_exact: bool = True
    domain: tuple[DomainLine, ...] = ()
    domain_share: float = 0.0
    domain_delta: float = 0.0
    verdict: Verdict = NONE
    numbers: tuple[NumberLine, ...] = ()
    numbers_share: float = 0.0
    division: tuple[Part, ...] = ()
    table: str = ""
    children: tuple[Plan, ...] = ()

    def __str__(self) -> str:
        return plan_text(self)

    def _repr_html_(self) -> str:
        """For notebooks."""
        return text_html(plan_text(self))

    @property
    def vanishing(self) -> str:
        """Which values private domains will not show; empty if none are private."""
        bars = {line.column: line.bar for line in self.domain if line.listed}
        return vanishing(list(bars), max(bars.values())) if bars else ""

    @property
    def measurements(self) -> int:
        return sum(line.times for line in self.lines)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            **asdict(self),
            "division": [structs.asdict(part) for part in self.division],
            "verdict": self.verdict.to_dict(),
            "vanishing": self.vanishing,
            "children": [child.to_dict() for child in self.children],
            "measurements": self.measurements,
        }


def plan_text(plan: Plan) -> str:
    head = f"Table {plan.table}: " if plan.table else ""
    return "\n\n".join([head + _text(plan), *map(plan_text, plan.children)])


def _text(plan: Plan) -> str:
    """A plan as lines for people: what the budget can show, noise by marginal, charges, model,
    memory and time."""
    clip = f"chosen in the run, at most {plan.clip}" if plan.clip_options else str(plan.clip)
    lines = [
        f"{plan.mechanism}, epsilon {plan.epsilon:g}, delta {plan.delta:g} ({plan.calibration}): "
        f"mu {plan.mu:.4f}, clip {clip}, unit {plan.unit}"
    ]
    if plan.verdict.lines:
        lines += [
            f"What this budget can show on {plan.rows:,} rows:",
            *(f"  {text}" for text in plan.verdict.lines),
        ]
    lines += [f"  not for: {plan.vanishing}"] if plan.vanishing else []
    lines += _domain(plan)
    at = f" at clip {plan.clip_expected}" if plan.clip_options else ""
    heads = ("marginal", "cells", "times", f"noise per cell (rows{at})", "detectable count", "")
    rows = []
    for p in plan.lines:
        numbers = (f"{p.cells:,}", str(p.times), f"{p.sigma:,.1f}", f"{p.detectable:,.0f}")
        rows.append((" x ".join(p.clique), *numbers, p.note))
    lines += table([heads, *rows])
    lines += _division(plan)
    lines += _numbers(plan)
    lines.append(f"{plural(plan.measurements, 'measurement')}; model: {_model(plan)}")
    about = "about" if plan.model_exact else "at most about"
    lines.append(
        f"for {plan.rows:,} rows: {about} {size(plan.memory_bytes)}, besides a frame that you hold,"
        f" and {duration(plan.seconds)}"
    )
    if plan.less_noise > 0:
        lines.append(
            f"{plan.less_noise:.0%} less noise than the classic-rdp calibration would need"
        )
    if plan.clip_options:
        lines += _clips(plan)
    elif plan.clip_bias is not None:
        better = f"; least error at clip {plan.clip_suggested}" if plan.clip_suggested else ""
        lines.append(f"clip {plan.clip} loses {plan.clip_bias:.2%} of the public rows{better}")
    lines += [f"Note: {note}." for note in plan.notes]
    return "\n".join(lines)


def _domain(plan: Plan) -> list[str]:
    """Lines on the private columns, which are found before anything else is measured."""
    if not plan.domain:
        return []
    heads = ("private domain", "noise (rows or users)", "seen from", "")
    rows = [(d.column, f"{d.sigma:,.1f}", f"{d.bar:,.0f}", d.how) for d in plan.domain]
    paid = f"domains: at most {plan.domain_share:.1%} of mu^2"
    if plan.domain_delta:
        paid += f" and {plan.domain_delta:g} of delta"
    return [
        *table([heads, *rows]),
        paid + "; sizes below are guesses, what is measured has the rest",
    ]


def _division(plan: Plan) -> list[str]:
    """What the budget is spent on, and why so much."""
    rows = [(part.what, f"{part.share:.1%}", part.why) for part in plan.division]
    return table([("how the budget is divided", "of mu^2", ""), *rows]) if rows else []


def two_digits(number: float) -> str:
    """A number with two significant digits, and all its digits from 100 on."""
    return f"{number:.2g}" if number < 99.5 else f"{number:,.0f}"


def _numbers(plan: Plan) -> list[str]:
    """What to expect of the numbers that are asked for."""
    if not plan.numbers:
        return []

    def reach(low: float, high: float, unit: str) -> str:
        if not max(low, high) < 1e3:
            return "too wide to use"
        points = " points" if unit == "points" else " %"
        near = rounded_up(100 * low), rounded_up(100 * high)
        return f"±{near[0]}{points}" if near[0] == near[1] else f"-{near[0]} / +{near[1]}{points}"

    rows = [("number", "expected interval", "capped sum", "share of mu^2", "")]
    for n in plan.numbers:
        capped = "" if n.capped is None else reach(n.capped, n.capped, "relative")
        share = f"{n.share * plan.numbers_share:.2%}"
        rows.append((n.number, reach(n.low, n.high, n.unit), capped, share, n.note))
    return [f"numbers: {plan.numbers_share:.1%} of mu^2", *table(rows)]


def _model(plan: Plan) -> str:
    if plan.too_large:
        return plan.too_large
    if not plan.model_cells:
        return "none" if plan.model_exact else "chosen in the run"
    if plan.model_exact:
        return f"{plan.model_cells:,} cells in {len(plan.cliques)} cliques"
    return f"chosen in the run, at most {plan.model_cells:,} cells"


def _clips(plan: Plan) -> list[str]:
    """The clips a run may choose, with the noise of each and what public data says of it."""
    seen = plan.clip_bias is not None
    heads = (
        "clip",
        "noise per cell (rows)",
        *(("public rows lost", "expected error") if seen else ()),
    )
    rows = []
    for option in plan.clip_options:
        costs: tuple[str, ...] = ()
        if option.lost is not None and option.error is not None:
            costs = (f"{option.lost:.1%}", f"{option.error:.3f}")
        rows.append((f"{option.clip:,}", f"{option.sigma:,.1f}", *costs))
    lines = [
        (
            "The clip is chosen by a noisy histogram of rows per user (noise"
            f" {plan.clip_noise:,.1f} users per bin): the one with the least"
        ),
        (
            f"expected error from rows lost and noise. The noise above is that of {_shown_clip(plan)};"
            " of some clips, in a typical marginal:"
        ),
        *table([heads, *rows], left=0),
    ]
    if seen:
        lines.append(f"The public data would choose clip {plan.clip_suggested}")
    return lines


def _shown_clip(plan: Plan) -> str:
    """Which clip the noise of the lines belongs to."""
    if plan.clip_expected == plan.clip:
        return "the largest clip"
    return f"clip {plan.clip_expected}, the one to expect if rows per user are spread by chance"


def duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
