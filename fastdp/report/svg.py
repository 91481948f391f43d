"""Small pieces of SVG and HTML that stretch to the width of their container, with text that is not
scaled.

Charts have no text inside the SVG. Their horizontal axis is 0..n in a view box that stretches
(`preserveAspectRatio="none"`). Strokes do not scale, and labels are HTML next to or over them. So
one drawing reads well from 300 to 1200 pixels. A chart carries its tooltips in one attribute
(`data-tips`, one per step along its axis), which the page's script shows on hover, touch and arrow
keys.
"""

import math
from collections.abc import Iterable, Sequence
from html import escape

HEIGHT = 100.0  # of a chart, in the units of its viewBox
NARROW = "\u202f"  # a narrow space that does not break


class Html(str):
    """A text that is HTML already."""


def text(value: object) -> str:
    """Escaped for use in an element or a double-quoted attribute."""
    return value if isinstance(value, Html) else escape(str(value), quote=True)


def num(value: float) -> str:
    """A coordinate as text, with at most two decimals."""
    return f"{value:.2f}".rstrip("0").rstrip(".") or "0"


def percent(share: float, digits: int | None = None) -> str:
    """A share as per cent: three figures under 10 %, one decimal above."""
    value = 100 * share
    if digits is None:
        size = abs(value)
        if size == 0:
            digits = 0
        elif size >= 1:
            digits = 1
        else:
            digits = min(4, 1 - math.floor(math.log10(size)))
    return f"{value:.{digits}f}{NARROW}%"


def points(difference: float) -> str:
    """A signed difference of shares, in percentage points."""
    value = 100 * difference
    shown = f"{abs(value):.{1 if abs(value) >= 1 else 2}f}"
    if float(shown) == 0:
        return "0"
    return f"+{shown}" if value > 0 else f"−{shown}"


def big(value: float) -> str:
    """A count with commas between thousands, as in numbers to quote."""
    if value == int(value):
        return f"{int(value):,}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def within(estimate: float, low: float, high: float) -> list[str]:
    """An estimate and the ends of its interval, with as many digits as tell the ends apart."""
    width = high - low
    digits = max(0, 1 - math.floor(math.log10(width))) if width > 0 else 9
    plain = digits < 7 and max(abs(low), abs(high)) < 1e6
    return [f"{value:.{digits}f}" if plain else f"{value:.4g}" for value in (estimate, low, high)]


def tips(values: Sequence[str]) -> str:
    """The attribute that holds all tooltips of a chart, separated by `|`."""
    return text("|".join(v.replace("|", "/") for v in values))


def path(kind: str, parts: Iterable[str]) -> str:
    drawn = "".join(parts)
    return f'<path class="{kind}" d="{drawn}"/>' if drawn else ""


def height(value: float, top: float) -> str:
    """The coordinate of a value in a chart that ends at `top`, where larger values are cut."""
    return num(HEIGHT * (1 - min(value, top) / top))


def bars(heights: Sequence[float], top: float, kind: str, gap: float = 0.12) -> str:
    """One path of filled bars, one per unit of x."""
    across = num(1 - 2 * gap)
    drawn = [(i, height(h, top)) for i, h in enumerate(heights) if h > 0]
    return path(kind, (f"M{num(i + gap)} 100V{y}h{across}V100z" for i, y in drawn))


def ticks(heights: Sequence[float], top: float, kind: str, gap: float = 0.02) -> str:
    """One path of horizontal strokes, one per unit of x, at the given heights."""
    across = num(1 - 2 * gap)
    return path(kind, (f"M{num(i + gap)} {height(h, top)}h{across}" for i, h in enumerate(heights)))


def whiskers(
    lows: Sequence[float | None], highs: Sequence[float | None], top: float, kind: str
) -> str:
    """One path of vertical strokes from low to high; None: no stroke."""
    ends = [
        (i, a, b) for i, (a, b) in enumerate(zip(lows, highs)) if a is not None and b is not None
    ]
    return path(kind, (f"M{num(i + 0.5)} {height(a, top)}V{height(b, top)}" for i, a, b in ends))


def chart(n: float, inner: str, label: str, tip: Sequence[str]) -> str:
    """The SVG element around `inner`, which stretches to the full width, with its tooltips."""
    return (
        f'<svg class="chart" role="img" aria-label="{text(label)}" viewBox="0 0 {num(n)} 100" '
        f'preserveAspectRatio="none" tabindex="0" data-tips="{tips(tip)}">{inner}</svg>'
    )


def axis_ends(labels: Sequence[str]) -> str:
    """Under a chart: each of a few labels below its bar, or the first, middle and last label."""
    if 1 < len(labels) <= 5:
        return ends(*labels).replace("ends", "ends each", 1)
    if not labels:
        return ""
    middle = labels[len(labels) // 2] if len(labels) > 4 else ""
    return ends(labels[0], middle, labels[-1] if len(labels) > 1 else "")


def ends(*labels: str) -> str:
    """Texts under a chart, spread over its width."""
    return f'<div class="ends">{"".join(f"<span>{text(label)}</span>" for label in labels)}</div>'
