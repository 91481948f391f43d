"""The section on where the error comes from: what each step of the run adds to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..metrics.causes import STEPS
from .blocks import bold, folded_table, per_table, section, sections_said
from .svg import Html, percent, points, text

NOTHING = "–"
"""What a step adds that adds nothing; a step that adds nothing anywhere has no column."""
SHOWN = 12
"""Columns and pairs that are shown before the reader opens the rest."""


def draw(data: dict) -> str:
    """The section's HTML; empty without the truth."""

    def one(i: int) -> str:
        found = (data.get("causes") or [None] * (i + 1))[i]
        if not found:
            return ""
        top = max([p["wrong"] for p in (*found["columns"].values(), *found["pairs"])], default=1.0)
        items = [(name, parts) for name, parts in found["columns"].items()]
        columns = _table("column", sorted(items, key=_worst_first), top)
        pairs = [(" × ".join(p["columns"]), p) for p in found["pairs"]]
        drawn = f'<div class="card"><p class="says">{text(sentence(found))}</p>{_legend(found)}{columns}'
        return drawn + (_table("pair", pairs, top) if pairs else "") + "</div>"

    return section("causes", per_table(data, one))


def _worst_first(item: tuple[str, Mapping]) -> float:
    """A key for sorting: the part of the rows that is wrong, largest first."""
    return -item[1]["wrong"]


def sentence(found: Mapping) -> str:
    """What contributes most to the error of single columns, in words."""
    mean = found["mean"]
    said = sections_said()["causes"]
    parts = sorted(((mean[step], step) for step in STEPS), reverse=True)
    named = [f"{said[step]} {percent(part)}" for part, step in parts if part >= 0.0005]
    whole = f"Of a column, {percent(mean['wrong'])} of the rows have a wrong value on average"
    return f"{whole}: {', '.join(named)}." if named else f"{whole}."


def _legend(found: Mapping) -> str:
    """The colours of the steps that add something."""
    said = sections_said()["causes"]
    every = [*found["columns"].values(), *found["pairs"]]
    steps = [step for step in STEPS if any(_part(parts[step]) != NOTHING for parts in every)]
    items = "".join(f'<span><i class="c-{s}"></i>{text(said[s])}</span>' for s in steps)
    return f'<p class="key causes-key">{items}</p>'


def _table(what: str, items: Sequence[tuple[str, Mapping]], top: float) -> str:
    said = sections_said()["causes"]
    steps = [step for step in STEPS if any(_part(parts[step]) != NOTHING for _, parts in items)]
    heads = (what, "", "wrong", *(said[step] for step in steps))
    rows = []
    for name, parts in items:
        cells = [_part(parts[step]) for step in steps]
        rows.append((name, _bar(parts, top), bold(percent(parts["wrong"])), *cells))
    return folded_table(heads, rows, SHOWN, "worst causes", ("", "duo-cell"))


def _part(part: float | None) -> str:
    """A part in percentage points; a step that cannot be told from the next
    belongs to the model."""
    if part is None:
        return "in model"
    return NOTHING if abs(part) < 0.0005 else points(part)


def _bar(parts: Mapping, top: float) -> Html:
    """The parts above 0 beside each other, as long as the error together."""
    above = {step: max(parts[step] or 0.0, 0.0) for step in STEPS}
    scale = parts["wrong"] / max(sum(above.values()), 1e-12) / max(top, 1e-12)
    at = 0.0
    bars = ""
    for step, part in above.items():
        width = 100 * part * scale
        bars += f'<rect class="c-{step}" x="{at:.2f}%" y="5" height="10" width="{width:.2f}%"/>'
        at += width
    return Html(f'<svg class="duo" aria-hidden="true">{bars}</svg>')
