"""Charts of the page: each function takes plain numbers and returns a piece of HTML."""

from collections.abc import Mapping, Sequence
from typing import Any

from .svg import axis_ends, bars, chart, ends, num, percent, points, text, ticks, whiskers

MAX_NAMED_ROWS = 12
"""Values of a column without an order that get a bar with a name each."""


def distribution(column: Mapping[str, Any], table: Mapping[str, Any]) -> str:
    """The distribution of one column: the truth as bars, and the synthetic table as horizontal
    strokes. Without the truth, the synthetic table is drawn as bars with the intervals of the true
    shares.

    `column` has `name`, `labels` and `truth` (shares or None), `table` has `share` and may have
    `span`: lower and upper ends of intervals, None if there is none. Few named values are drawn as
    labelled rows; many or ordered values as a histogram. If the last value stands for `folded` rare
    values together, it is described in words. It is not drawn, since its share may be larger than
    all others.
    """
    labels = column["labels"]
    truth = column["truth"]
    made = table["share"]
    none: Any = ([None] * len(labels),) * 2
    low, high = table.get("span") or none
    ordered = column.get("ordered", True)
    tips = []
    for i, label in enumerate(labels):
        if truth is not None:
            off = points(made[i] - truth[i])
            tips.append(f"{label}\ntruth {percent(truth[i])}\nsynthetic {percent(made[i])} ({off})")
        else:
            span = "" if low[i] is None else f"\ntruth: {percent(low[i])} to {percent(high[i])}"
            tips.append(f"{label}\n{percent(made[i])}{span}")
    if len(labels) <= 2 or (not ordered and len(labels) <= MAX_NAMED_ROWS):
        return _rows(column["name"], labels, truth, made, (low, high), tips)
    rest = ""
    n = len(labels) - bool(column.get("folded"))
    if n < len(labels) and any(shares[-1] > 0 for shares in (made, truth or made)):
        if truth is None:
            held = percent(made[-1])
        else:
            held = f"{percent(truth[-1])}, synthetic {percent(made[-1])}"
        rest = ends(f"{labels[-1]}: {held}")
    labels, made, truth, low, high = (v and v[:n] for v in (labels, made, truth, low, high))
    top = _top(truth, made, high) * 1.04
    gap = 0.12 if n <= 30 else 0.06
    if truth is None:
        marks = bars(made, top, "s", gap) + whiskers(low, high, top, "e")
    else:
        marks = bars(truth, top, "t", gap) + ticks(made, top, "sl")
    peak = percent(top / 1.04, 0) if top > 0.095 else percent(top / 1.04)
    drawn = chart(n, marks, f"{column['name']}: distribution over {n} values", tips[:n])
    under = axis_ends(labels) if ordered else ends(labels[0], "most frequent first →")
    return f'<div class="plot"><span class="peak">{text(peak)}</span>{drawn}</div>{under}{rest}'


def _top(*drawn: Sequence[float | None] | None) -> float:
    """The largest value that is drawn."""
    return (
        max((value for shares in drawn for value in shares or () if value is not None), default=0)
        or 1e-12
    )


def _rows(
    name: str, labels: list[str], truth: Any, made: Sequence[float], span: Any, tips: list[str]
) -> str:
    """Few named values, each as a row with its bar."""
    top = _top(truth, made, span[1])
    out = ""
    for i, label in enumerate(labels):
        x = num(100 * made[i] / top)
        if truth is None:
            marks = f'<rect class="s" y="5" height="10" width="{x}%"/>'
            if span[0][i] is not None:
                a, b = (num(100 * min(1.0, end[i] / top)) for end in span)
                marks += f'<line class="e" x1="{a}%" x2="{b}%" y1="10" y2="10"/>'
        else:
            marks = f'<rect class="t" y="4" height="12" width="{num(100 * truth[i] / top)}%"/>'
            marks += f'<line class="sl" x1="{x}%" x2="{x}%" y1="1" y2="19"/>'
        out += (
            f'<span class="name" title="{text(label)}">{text(label)}</span>'
            f'<svg class="bar" data-tip="{text(tips[i])}" aria-hidden="true">{marks}</svg>'
            f'<span class="value">{percent((made if truth is None else truth)[i])}</span>'
        )
    label = f"{text(name)}: shares of {len(labels)} values"
    return f'<div class="rows" role="img" aria-label="{label}">{out}</div>'


def _tone(depth: float) -> str:
    """The class of a text's colour on a cell of this depth (0 to 1), which the theme chooses."""
    if depth > 0.92:
        return " hi"
    return " mid" if depth > 0.57 else ""


def heat(names: Sequence[str], rows: Sequence[Sequence[float]]) -> str:
    """Lower triangle of a matrix with one share of rows per pair of columns, as a heat map."""
    n = len(names)
    shown = [text(name) for name in names]
    high = max((v for row in rows for v in row), default=0.0) or 1.0
    h = 30 if n <= 16 else 18
    wide = 100 / (n - 1)
    cells = ""
    for i, row in enumerate(rows):
        for j, value in enumerate(row):
            tip = text(f"{names[i]} × {names[j]}\n{percent(value)} in the wrong cell")
            depth = value / high
            cells += (
                f'<rect class="cell" x="{num(wide * j)}%" y="{(i - 1) * h}" width="{num(wide)}%" '
                f'height="{h}" fill-opacity="{num(0.04 + 0.92 * depth)}" data-tip="{tip}"/>'
            )
            if n <= 12:
                tone = _tone(depth)
                said = f"{100 * value:.{0 if value >= 0.1 else 1}f}"
                at = f'x="{num(wide * (j + 0.5))}%" y="{(i - 0.5) * h + 4}"'
                cells += f'<text class="in{tone}" {at}>{said}</text>'
    labels = [
        f' title="{text(a)}"><b>{i + 1}</b><span>{shown[i]}</span>' for i, a in enumerate(names)
    ]
    left = "".join(f'<span style="height:{h}px"{label}</span>' for label in labels[1:])
    every = 1 if n <= 16 else 5  # of many columns, some numbers are left out
    above = "".join(f"<span>{'' if j % every else j + 1}</span>" for j in range(n - 1))
    return (
        f'<div class="heat"><div class="corner"{labels[0]}</div><div'
        f' class="heads">{above}</div><div class="sides">{left}</div><svg class="cells"'
        f' style="height:{(n - 1) * h}px" role="img" tabindex="0" aria-label="Every pair of'
        f' columns: rows in the wrong cell">{cells}</svg></div>'
    )
