"""Labels beside the points of a plot, so that none covers a point or another label."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

Box = tuple[float, float, float, float]
"""(left, top, right, bottom), in the plot's units; y grows downwards."""

CHARACTER = 6.2
"""Width of a character: the mean of a sans-serif font of size 11."""
LINE = 12.0
"""Height of a line."""
RADIUS = 4.0
"""Of a point."""


def label_boxes(
    points: Sequence[tuple[float, float]],
    texts: Sequence[str],
    panel: Box,
    taken: Sequence[Box] = (),
) -> list[Box]:
    """The box of every label, in the order of the points: to the right of its point where there is
    room, else to its left, above or below it, or further up or down, line by line. `taken`: where
    other text is."""
    circles = [(x - RADIUS, y - RADIUS, x + RADIUS, y + RADIUS) for x, y in points]
    placed: list[Box] = []
    for (x, y), text in zip(points, texts, strict=True):
        boxes = list(_places(x, y, CHARACTER * len(text), panel))
        around = [*circles, *placed, *taken]
        placed.append(min(boxes, key=lambda box: sum(overlap(box, other) for other in around)))
    return placed


def _places(x: float, y: float, width: float, panel: Box) -> Iterator[Box]:
    """The boxes that a label may have, best first."""
    gap = RADIUS + 2
    for k in range(int((panel[3] - panel[1]) / LINE)):
        for step in dict.fromkeys((k, -k)):
            middle = y + step * LINE
            for left in (x + gap, x - gap - width, x - width / 2):
                box = (left, middle - LINE / 2, left + width, middle + LINE / 2)
                inside = panel[0] <= box[0] and box[2] <= panel[2]
                if inside and panel[1] <= box[1] and box[3] <= panel[3]:
                    yield box
    yield x + gap, y - LINE / 2, x + gap + width, y + LINE / 2


def overlap(a: Box, b: Box) -> float:
    """The common area of two boxes."""
    return max(0.0, min(a[2], b[2]) - max(a[0], b[0])) * max(0.0, min(a[3], b[3]) - max(a[1], b[1]))
