"""Charts of the page: each function takes plain numbers and returns a piece of HTML."""

from __future__ import annotations

from collections.abc import Sequence

from .svg import axis_ends, bars, chart, num, percent, points, text, ticks, whiskers

MAX_NAMED_ROWS = 12


Span = tuple[Sequence[float | None], Sequence[float | None]]
"""Lower and upper ends of intervals, None where there is none."""


def distribution(
    labels: Sequence[str],
    truth: Sequence[float] | None,
    table: Sequence[float],
    *,
    name: str,
    ordered: bool = True,
    span: Span | None = None,
    folded: int = 0,
) -> str:
    """The distribution of one column: the truth as bars and the synthetic table as horizontal strokes;
    without the truth, the synthetic table as bars with the intervals of the true shares.

    Few named values are drawn as labelled rows; many or ordered values as a histogram. If the last value
    stands for `folded` rare values together, it is described in words and not drawn, since its share may be
    larger than all others.
    """
    if len(labels) <= 2 or (not ordered and len(labels) <= MAX_NAMED_ROWS):
        return _rows(labels, truth, table, span, name)
    rest = ""
    if folded:
        held = (
            f"{percent(table[-1])}"
            if truth is None
            else f"{percent(truth[-1])}, synthetic {percent(table[-1])}"
        )
        if table[-1] > 0 or (truth is not None and truth[-1] > 0):
            rest = f'<div class="ends"><span>{text(labels[-1])}: {held}</span></div>'
        labels, table = labels[:-1], table[:-1]
        truth = None if truth is None else truth[:-1]
        span = None if span is None else (span[0][:-1], span[1][:-1])
    top = _top(truth, table, span) * 1.04
    tip = [_tip(labels[i], truth, table, span, i) for i in range(len(labels))]
    gap = 0.12 if len(labels) <= 30 else 0.06
    if truth is None:
        marks = bars(table, top, "s", gap)
        if span is not None:
            marks += whiskers(*span, top, "e")
    else:
        marks = bars(truth, top, "t", gap) + ticks(table, top, "sl")
    peak = percent(top / 1.04, 0) if top > 0.095 else percent(top / 1.04)
    drawn = chart(len(labels), marks, f"{name}: distribution over {len(labels)} values", tip)
    under = axis_ends(labels) if ordered else _rank_note(labels)
    return f'<div class="plot"><span class="peak">{text(peak)}</span>{drawn}</div>{under}{rest}'


def _top(truth: Sequence[float] | None, table: Sequence[float], span: Span | None) -> float:
    """The largest value that is drawn."""
    return max([*(truth or ()), *table, *(v for v in (span[1] if span else ()) if v is not None), 1e-12])


def _rank_note(labels: Sequence[str]) -> str:
    return f'<div class="ends"><span>{text(labels[0])}</span><span>most frequent first →</span></div>'


def _tip(label: str, truth: Sequence[float] | None, table: Sequence[float], span: Span | None, i: int) -> str:
    if truth is not None:
        gap = points(table[i] - truth[i])
        return f"{label}\ntruth {percent(truth[i])}\nsynthetic {percent(table[i])} ({gap})"
    return f"{label}\n{percent(table[i])}{_between(span, i)}"


def _between(span: Span | None, i: int) -> str:
    """The interval in words, for a tooltip."""
    low, high = (None, None) if span is None else (span[0][i], span[1][i])
    return "" if low is None or high is None else f"\ntruth: {percent(low)} to {percent(high)}"


def _rows(
    labels: Sequence[str], truth: Sequence[float] | None, table: Sequence[float], span: Span | None, name: str
) -> str:
    top = _top(truth, table, span)
    out = []
    for i, label in enumerate(labels):
        share = table[i]
        tip = _tip(label, truth, table, span, i)
        if truth is None:
            marks = f'<rect class="s" y="5" height="10" width="{num(100 * share / top)}%"/>'
            low, high = (None, None) if span is None else (span[0][i], span[1][i])
            if low is not None and high is not None:
                ends = [num(100 * min(1.0, end / top)) for end in (low, high)]
                marks += '<line class="e" x1="{}%" x2="{}%" y1="10" y2="10"/>'.format(*ends)
        else:
            marks = f'<rect class="t" y="4" height="12" width="{num(100 * truth[i] / top)}%"/>'
            x = num(100 * share / top)
            marks += f'<line class="sl" x1="{x}%" x2="{x}%" y1="1" y2="19"/>'
        out.append(
            f'<span class="name" title="{text(label)}">{text(label)}</span>'
            f'<svg class="bar" data-tip="{text(tip)}" aria-hidden="true">{marks}</svg>'
            f'<span class="value">{percent(share if truth is None else truth[i])}</span>'
        )
    return (
        f'<div class="rows" role="img" aria-label="{text(name)}: shares of {len(labels)} '
        f'values">{"".join(out)}</div>'
    )


def heat(
    names: Sequence[str], rows: Sequence[Sequence[float | None]], what: str = "in the wrong cell"
) -> str:
    """Lower triangle of a matrix with one share of rows per pair of columns, as a heat map. `what` says in
    words what the shares mean."""
    n, shown = len(names), [name.replace("_", " ") for name in names]
    high = max((v for row in rows for v in row if v is not None), default=0.0) or 1.0
    h = 30 if n <= 16 else 18
    cells = []
    write = n <= 12
    for i, row in enumerate(rows):
        for j, value in enumerate(row):
            if value is None:
                continue
            tip = f"{names[i]} × {names[j]}\n{percent(value)} {what}"
            depth = value / high
            cells.append(
                f'<rect class="cell" x="{num(100 * j / (n - 1))}%" y="{(i - 1) * h}" '
                f'width="{num(100 / (n - 1))}%" '
                f'height="{h}" fill-opacity="{num(0.04 + 0.92 * depth)}" data-tip="{text(tip)}"/>'
            )
            if write:
                tone = " hi" if depth > 0.92 else " mid" if depth > 0.57 else ""  # text colour, by theme
                cells.append(
                    f'<text class="in{tone}" x="{num(100 * (j + 0.5) / (n - 1))}%" y="{(i - 0.5) * h + 4}">'
                    f"{100 * value:.{0 if value >= 0.1 else 1}f}</text>"
                )
    left = "".join(
        f'<span style="height:{h}px" '
        f'title="{text(names[i])}"><b>{i + 1}</b><span>{text(shown[i])}</span></span>'
        for i in range(1, n)
    )
    step = 1 if n <= 16 else 5
    above = "".join(f"<span>{j + 1 if j % step == 0 else ''}</span>" for j in range(n - 1))
    return (
        '<div class="heat"><div class="corner" '
        f'title="{text(names[0])}"><b>1</b><span>{text(shown[0])}</span></div><div '
        f'class="heads">{above}</div><div class="sides">{left}</div><svg class="cells" '
        f'style="height:{(n - 1) * h}px" role="img" tabindex="0" aria-label="Every pair of columns: rows '
        f'{text(what)}">{"".join(cells)}</svg></div>'
    )
