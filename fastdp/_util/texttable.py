"""Tables of text in columns, for people."""

from collections.abc import Sequence

WIDEST = 60
"""Characters of a column that has a head; longer texts are cut."""


def table(rows: Sequence[Sequence[str]], left: int = 1) -> list[str]:
    """Lines of a table; its first `left` columns, and one without a head, are set to the left."""
    heads = rows[0]

    def cut(text: str, head: str) -> str:
        return text if len(text) <= WIDEST or not head else text[: WIDEST - 3] + "..."

    cells = [[cut(text, heads[i]) for i, text in enumerate(row)] for row in rows]
    widths = [
        max((len(row[i]) for row in cells if i < len(row)), default=0) for i in range(len(heads))
    ]
    return [
        "  ".join(
            text.ljust(width) if i < left or not heads[i] else text.rjust(width)
            for i, (text, width) in enumerate(zip(row, widths))
        ).rstrip()
        for row in cells
    ]


def plural(number: int, what: str) -> str:
    """The number with its noun: 1 column, 2 columns."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def size(count: float) -> str:
    """A number of bytes for people."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"
