"""Positions of places on the page: tile grids for columns whose values are places.

If the places are those of a map that ships with fastdp (schema/builtin/maps), they have the layout of the
map. Any other column of places gets a plain grid in the order of the schema's values.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files

_PLACE = re.compile(
    r"(^|_)(area|neighbou?rhood|region|district|puma|county|borough|zip|tract|precinct|ward|city|state)(_|$)",
    re.IGNORECASE,
)
MAX_TILES = 300


def names_places(column: str) -> bool:
    """Whether the column's name says that its values are places."""
    return bool(_PLACE.search(column))


@dataclass(frozen=True)
class PlaceMap:
    """A layout made by hand: `tiles` maps the number of a place (from 1) to its (x, y); `names` are in the
    order of these numbers."""

    column: str
    note: str
    optional: tuple[str, ...]
    beyond: tuple[int, int]
    tiles: Mapping[int, tuple[int, int]]
    names: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> PlaceMap:
        """The map that a TOML text describes; for the format see the files in schema/builtin/maps."""
        plain = tomllib.loads(text)
        tiles = {
            int(cell): (x, y)
            for y, line in enumerate(plain["grid"].strip().splitlines())
            for x, cell in enumerate(line.split())
            if cell != "."
        }
        return cls(
            plain["column"],
            plain.get("note", ""),
            tuple(plain.get("optional", ())),
            tuple(plain["beyond"]),
            tiles,
            tuple(plain["places"]),
        )

    @cached_property
    def _by_name(self) -> dict[str, int]:
        return {self._plain(name): i + 1 for i, name in enumerate(self.names)}

    def _plain(self, name: str) -> str:
        words = "".join(rf"|\b{re.escape(word)}\b" for word in self.optional)
        return re.sub(r"[^a-z]", "", re.sub(rf"\[.*?\]|\(.*?\){words}", "", name.lower()))

    def number(self, label: str) -> int | None:
        """The number (from 1) of the place that a label names, by its number or by its name, where case,
        blanks, punctuation and brackets do not matter; None if it is no place of this map."""
        text = label.strip()
        if re.fullmatch(r"\d+(\.0)?", text):
            number = int(float(text))
            return number if 1 <= number <= len(self.names) else None
        return self._by_name.get(self._plain(text))

    def fits(self, column: str, numbers: Sequence[int | None]) -> bool:
        """Whether a column holds the places of this map, by its name and by the numbers of its labels (None:
        a label that is no place). At least nine tenths of the map's places must occur, and at most four
        labels may be None."""
        placed = sum(n is not None for n in numbers)
        return self.column in column.lower() and placed >= max(0.9 * len(self.names), len(numbers) - 4)

    def layout(self, labels: Sequence[str], numbers: Sequence[int | None]) -> dict:
        tiles, strangers = [], 0
        for code, (label, number) in enumerate(zip(labels, numbers, strict=True)):
            if number is None:
                x, y, text, name = self.beyond[0] + strangers, self.beyond[1], "?", label
                strangers += 1
            else:
                (x, y), text = self.tiles[number], str(number)
                name = f"{number} {self.names[number - 1]}"
            tiles.append({"x": x, "y": y, "code": code, "text": text, "label": name})
        wide, high = (1 + max(xy[k] for xy in self.tiles.values()) for k in (0, 1))
        return {"kind": "map", "note": self.note, "width": wide, "height": high, "tiles": tiles}


@cache
def place_maps() -> tuple[PlaceMap, ...]:
    """The maps that ship with fastdp."""
    folder = files("fastdp.schema.builtin") / "maps"
    names = sorted(f.name for f in folder.iterdir() if f.name.endswith(".toml"))
    return tuple(PlaceMap.parse((folder / name).read_text("utf-8")) for name in names)


def layout(column: str, labels: list[str], weight: Sequence[float]) -> dict:
    """Tiles for a column of places: `{"kind", "width", "height", "tiles": [{x, y, code, text, label}]}`.

    `code` is the position in `labels`. A map is used if the column and its labels fit it (`PlaceMap.fits`);
    labels that are no place (unknown, outside) are put in a free corner. Otherwise a plain grid holds at most
    `MAX_TILES` tiles, those of the largest `weight`, in the order of their codes; if there are more than 40
    labels, those of weight 0 are left out.
    """
    for place_map in place_maps():
        numbers = [place_map.number(label) for label in labels]
        if place_map.fits(column, numbers):
            return place_map.layout(labels, numbers)
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


def _short(label: str) -> str:
    """An abbreviation of the label, at most four characters."""
    if len(label) <= 4:
        return label
    words = re.findall(r"[A-Za-z0-9]+", label)
    if len(words) > 1:
        return "".join(word[0].upper() for word in words)[:3]
    return label[:3]
