"""Small pieces of SVG and HTML that stretch to the width of their container, with text that is not scaled.

Charts have no text inside the SVG. Their horizontal axis is 0..n in a view box that stretches
(`preserveAspectRatio="none"`), strokes do not scale, and labels are HTML next to or over them; so one drawing
reads well from 300 to 1200 pixels. A chart carries its tooltips in one attribute (`data-tips`, one per step
along its axis), which the page's script shows on hover, touch and arrow keys.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

HEIGHT = 100.0
NARROW = "\u202f"  # a narrow space that does not break


def text(value: object) -> str:
    """Escaped for use in an element or a double-quoted attribute."""
    return escape(str(value), quote=True)


def num(value: float) -> str:
    """A coordinate as text, with at most two decimals."""
    return f"{value:.2f}".rstrip("0").rstrip(".") or "0"


def percent(share: float, digits: int | None = None) -> str:
    """A share as per cent: three figures under 10 %, one decimal above."""
    value = 100 * share
    if digits is None:
        size = abs(value)
        digits = 1 if size >= 1 or size == 0 else min(4, 1 - math.floor(math.log10(size)))
        if size == 0:
            digits = 0
    return f"{value:.{digits}f}{NARROW}%"


def points(difference: float) -> str:
    """A signed difference of shares, in percentage points."""
    value = 100 * difference
    digits = 1 if abs(value) >= 1 else 2
    shown = f"{abs(value):.{digits}f}"
    if float(shown) == 0:
        return "0"
    return f"{'+' if value > 0 else '−'}{shown}"


def big(value: float) -> str:
    """A count with narrow spaces between thousands; from ten thousand on, rounded to four significant
    digits."""
    if value == int(value):
        return f"{int(value):,}".replace(",", NARROW)
    return f"{value:,.0f}".replace(",", NARROW) if abs(value) >= 100 else f"{value:.3g}"


def tips(values: Sequence[str]) -> str:
    """The attribute that holds all tooltips of a chart, separated by `|`."""
    return text("|".join(v.replace("|", "/") for v in values))


def bars(heights: Sequence[float], top: float, kind: str, gap: float = 0.12) -> str:
    """One path of filled bars, one per unit of x."""
    parts = []
    for i, h in enumerate(heights):
        if h > 0:
            y = HEIGHT * (1 - h / top)
            parts.append(f"M{num(i + gap)} 100V{num(y)}h{num(1 - 2 * gap)}V100z")
    return f'<path class="{kind}" d="{"".join(parts)}"/>'


def ticks(heights: Sequence[float], top: float, kind: str, gap: float = 0.02) -> str:
    """One path of horizontal strokes, one per unit of x, at the given heights."""
    parts = [
        f"M{num(i + gap)} {num(HEIGHT * (1 - h / top))}h{num(1 - 2 * gap)}" for i, h in enumerate(heights)
    ]
    return f'<path class="{kind}" d="{"".join(parts)}"/>'


def whiskers(lows: Sequence[float | None], highs: Sequence[float | None], top: float, kind: str) -> str:
    """One path of vertical strokes from low to high, cut at the top; None: no stroke."""
    y = lambda end: num(HEIGHT * (1 - min(top, end) / top))  # noqa: E731
    parts = [
        f"M{num(i + 0.5)} {y(low)}V{y(high)}"
        for i, (low, high) in enumerate(zip(lows, highs, strict=True))
        if low is not None and high is not None
    ]
    return f'<path class="{kind}" d="{"".join(parts)}"/>'


def chart(n: float, inner: str, label: str, tip: Sequence[str]) -> str:
    """The SVG element around `inner`, which stretches to the full width, with its tooltips."""
    return (
        f'<svg class="chart" role="img" aria-label="{text(label)}" viewBox="0 0 {num(n)} 100" '
        f'preserveAspectRatio="none" tabindex="0" data-tips="{tips(tip)}">{inner}</svg>'
    )


def axis_ends(labels: Sequence[str]) -> str:
    """First, middle and last label under a chart."""
    if not labels:
        return ""
    middle = labels[len(labels) // 2] if len(labels) > 4 else ""
    last = labels[-1] if len(labels) > 1 else ""
    return (
        f'<div class="ends"><span>{text(labels[0])}</span><span>{text(middle)}</span>'
        f"<span>{text(last)}</span></div>"
    )
