"""Error against time as an SVG: one panel a table, both axes logarithmic, no package needed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape

from ..labels import CHARACTER, RADIUS, label_boxes

WIDE = 270
HIGH = 190
GAP = 52
TOP = 34
PANELS_A_ROW = 3
COLOURS = {
    "cliquetree": "#c0392b",
    "fastdp": "#e08e79",
    "plug-in": "#8e44ad",
    "peer": "#1f4e79",
    "floor": "#888888",
}
LEAST_SECONDS = 0.01
"""What takes less is drawn here."""


@dataclass(frozen=True)
class Point:
    """A mechanism on a table: processor seconds and error."""

    name: str
    kind: str
    seconds: float
    error: float


@dataclass(frozen=True)
class Panel:
    """ceiling: the error of a bootstrap of the true rows, as a line. notes: what gave no rows."""

    title: str
    points: tuple[Point, ...]
    ceiling: float | None = None
    notes: tuple[str, ...] = ()


def svg(panels: list[Panel], caption: str) -> str:
    """The picture of all panels."""
    columns = min(PANELS_A_ROW, max(1, len(panels)))
    rows = math.ceil(len(panels) / columns)
    width = columns * (WIDE + GAP) + 16
    height = rows * (HIGH + TOP + 34) + 26
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
        ' font-family="sans-serif" font-size="11">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for i, panel in enumerate(panels):
        left = GAP + i % columns * (WIDE + GAP)
        top = TOP + i // columns * (HIGH + TOP + 34)
        parts += _panel(panel, left, top)
    parts.append(f'<text x="{GAP}" y="{height - 8}" fill="#555">{escape(caption)}</text></svg>')
    return "\n".join(parts) + "\n"


def _panel(panel: Panel, left: float, top: float) -> list[str]:
    seconds = [math.log10(max(LEAST_SECONDS, p.seconds)) for p in panel.points]
    errors = [math.log10(p.error) for p in panel.points]
    if panel.ceiling:
        errors.append(math.log10(panel.ceiling))
    x_low, x_high = min(seconds) - 0.2, max(seconds) + 0.8
    room = 0.1 + 0.09 * len(panel.notes)
    y_low = min(errors) - 0.15
    y_high = max(errors) + room * (1 + max(errors) - min(errors))

    def x_of(value: float) -> float:
        return left + (value - x_low) / (x_high - x_low) * WIDE

    def y_of(value: float) -> float:
        return top + (y_high - value) / (y_high - y_low) * HIGH

    out = [
        f'<text x="{left}" y="{top - 8}" font-weight="bold">{escape(panel.title)}</text>',
        f'<rect x="{left}" y="{top}" width="{WIDE}" height="{HIGH}" fill="none" stroke="#999"/>',
    ]
    for power in range(math.ceil(x_low), math.floor(x_high) + 1):
        out.append(
            f'<text x="{x_of(power):.0f}" y="{top + HIGH + 14}" text-anchor="middle">'
            f"{10.0**power:g} s</text>"
        )
    for tick in _ticks(y_low, y_high):
        y = y_of(math.log10(tick))
        out.append(f'<text x="{left - 4}" y="{y + 4:.0f}" text-anchor="end">{tick:g}</text>')
        out.append(
            f'<line x1="{left}" x2="{left + WIDE}" y1="{y:.1f}" y2="{y:.1f}" stroke="#eee"/>'
        )
    taken = []
    if panel.ceiling:
        y = y_of(math.log10(panel.ceiling))
        out.append(
            f'<line x1="{left}" x2="{left + WIDE}" y1="{y:.1f}" y2="{y:.1f}" stroke="#27ae60"'
            ' stroke-dasharray="4 3"/>'
        )
        out.append(
            f'<text x="{left + WIDE}" y="{top - 8}" text-anchor="end" fill="#27ae60">'
            "- - true rows again</text>"
        )
        taken.append((left, y - 1, left + WIDE, y + 1))
    for k, note in enumerate(panel.notes):
        line = top + 14 + 13 * k
        out.append(f'<text x="{left + 6}" y="{line}" fill="#1f4e79">{escape(note)}</text>')
        taken.append((left + 6, line - 10, left + 6 + CHARACTER * len(note), line + 2))
    places = [(x_of(s), y_of(math.log10(p.error))) for s, p in zip(seconds, panel.points)]
    texts = [p.name for p in panel.points]
    boxes = label_boxes(places, texts, (left, top, left + WIDE, top + HIGH), taken)
    for point, (x, y), text, box in zip(panel.points, places, texts, boxes):
        colour = COLOURS.get(point.name.rstrip("*")) or COLOURS[point.kind]
        out.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{RADIUS:g}" fill="{colour}"/>')
        left_of_it = box[2] < x  # then it ends at its box, however wide its letters are
        start, anchor = (box[2], "end") if left_of_it else (box[0], "start")
        out.append(
            f'<text x="{start:.1f}" y="{box[3] - 2:.1f}" text-anchor="{anchor}" fill="{colour}">'
            f"{escape(text)}</text>"
        )
    return out


def _ticks(low: float, high: float) -> list[float]:
    """Round values between two powers of ten."""
    found = [
        digit * 10.0**power
        for power in range(math.floor(low), math.ceil(high) + 1)
        for digit in (1, 2, 5)
        if low <= math.log10(digit * 10.0**power) <= high
    ]
    return found or [float(f"{10 ** ((low + high) / 2):.2g}")]
