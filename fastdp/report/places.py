"""Where an area lies on the page: tile grids for columns that name places.

Chicago's 77 community areas have a hand-made layout that keeps neighbours together (north is up, the lake
is on the right). Any other column of places gets a plain grid in the schema's order.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

_CHICAGO = """
 9  .  12  .  2  1  .  .  .  .
76 10  11 13  4 77  .  .  .  .
 . 17  15 16 14  5  3  .  .  .
 . 18  19 20 21 22  6  .  .  .
 .  .   . 23 24  7  8  .  .  .
 .  .  25 26 27 28 32  .  .  .
 .  .   .  . 29 31 34 33  .  .
 .  .   . 30 59 60 35 36 39  .
 .  .  56 57 58 61 37 38 41  .
 .  .  64 62 63 67 68 40 42  .
 .  .   . 65 66 71 69 45 43  .
 .  .   .  . 70 73 44 47 48 46
 .  .   .  . 74 72 49 50 51 52
 .  .   .  .  . 75 53  .  .  .
 .  .   .  .  .  .  . 54  . 55
"""
CHICAGO_TILES: dict[int, tuple[int, int]] = {
    int(cell): (x, y)
    for y, line in enumerate(_CHICAGO.strip().splitlines())
    for x, cell in enumerate(line.split())
    if cell != "."
}
CHICAGO_NAMES = (
    "Rogers Park|West Ridge|Uptown|Lincoln Square|North Center|Lake View|Lincoln Park|Near North Side|"
    "Edison Park|Norwood Park|Jefferson Park|Forest Glen|North Park|Albany Park|Portage Park|Irving Park|"
    "Dunning|Montclare|Belmont Cragin|Hermosa|Avondale|Logan Square|Humboldt Park|West Town|Austin|"
    "West Garfield Park|East Garfield Park|Near West Side|North Lawndale|South Lawndale|Lower West Side|"
    "Loop|Near South Side|Armour Square|Douglas|Oakland|Fuller Park|Grand Boulevard|Kenwood|"
    "Washington Park|Hyde Park|Woodlawn|South Shore|Chatham|Avalon Park|South Chicago|Burnside|"
    "Calumet Heights|Roseland|Pullman|South Deering|East Side|West Pullman|Riverdale|Hegewisch|"
    "Garfield Ridge|Archer Heights|Brighton Park|McKinley Park|Bridgeport|New City|West Elsdon|Gage Park|"
    "Clearing|West Lawn|Chicago Lawn|West Englewood|Englewood|Greater Grand Crossing|Ashburn|"
    "Auburn Gresham|Beverly|Washington Heights|Mount Greenwood|Morgan Park|O'Hare|Edgewater"
).split("|")

_PLACE = re.compile(
    r"(^|_)(area|neighbou?rhood|region|district|puma|county|borough|zip|tract|precinct|ward|city|state)(_|$)",
    re.IGNORECASE,
)
MAX_TILES = 300


def names_places(column: str) -> bool:
    """Whether the column's name says that its values are places."""
    return bool(_PLACE.search(column))


def _plain(name: str) -> str:
    name = re.sub(r"\[.*?\]|\(.*?\)|\bthe\b|\bhills\b", "", name.lower())
    return re.sub(r"[^a-z]", "", name)


_BY_NAME = {_plain(name): i + 1 for i, name in enumerate(CHICAGO_NAMES)}


def chicago_number(label: str) -> int | None:
    """The community area (1..77) that a label means: its number, or its name in any common spelling."""
    text = label.strip()
    if re.fullmatch(r"\d+(\.0)?", text):
        number = int(float(text))
        return number if 1 <= number <= 77 else None
    return _BY_NAME.get(_plain(text))


def layout(column: str, labels: list[str], weight: Sequence[float]) -> dict:
    """Tiles for a column of places: `{"kind", "width", "height", "tiles": [{x, y, code, text, label}]}`.

    `code` is the position in `labels`. The Chicago layout is used when the column speaks of community
    areas and nearly all of its labels are areas; labels that are none (unknown, outside) sit in the free
    corner. A generic grid holds at most `MAX_TILES` tiles, those of the largest
    `weight`, in the order of their codes; of many places only those that occur.
    """
    numbers = [chicago_number(label) for label in labels]
    known = sum(n is not None for n in numbers)
    if "community_area" in column.lower() and known >= 70 and known >= len(labels) - 4:
        return _chicago(labels, numbers)
    used = [i for i in range(len(labels)) if weight[i] > 0 or len(labels) <= 40]
    heavy = sorted(used, key=lambda i: -weight[i])[:MAX_TILES]
    n = len(heavy)
    width = min(20, max(8, math.ceil(math.sqrt(n * 1.3))))
    crowded = n > 120
    tiles = [
        {
            "x": i % width,
            "y": i // width,
            "code": c,
            "text": "" if crowded else _short(labels[c]),
            "label": labels[c],
        }
        for i, c in enumerate(sorted(heavy))
    ]
    return {"kind": "grid", "width": width, "height": max(1, math.ceil(n / width)), "tiles": tiles}


def _chicago(labels: list[str], numbers: list[int | None]) -> dict:
    tiles, strangers = [], 0
    for code, (label, number) in enumerate(zip(labels, numbers, strict=True)):
        if number is None:
            x, y, text, name = strangers, 14, "?", label
            strangers += 1
        else:
            (x, y), text = CHICAGO_TILES[number], str(number)
            name = f"{number} {CHICAGO_NAMES[number - 1]}"
        tiles.append({"x": x, "y": y, "code": code, "text": text, "label": name})
    return {"kind": "chicago", "width": 10, "height": 15, "tiles": tiles}


def _short(label: str) -> str:
    """At most four characters that still hint at the place."""
    if len(label) <= 4:
        return label
    words = re.findall(r"[A-Za-z0-9]+", label)
    if len(words) > 1:
        return "".join(word[0].upper() for word in words)[:3]
    return label[:3]
