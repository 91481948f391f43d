"""Maps of places, one tile for each. As in `sections`: HTML, or an empty string if the data is absent."""

from __future__ import annotations

from .blocks import nice, per_table, section
from .charts import tile_map
from .svg import points, text


def areas(data: dict) -> str:
    if not data.get("areas"):
        return ""

    def draw(i: int) -> str:
        drawn = "".join(_area(a, i) for a in data["areas"])
        return drawn if data["with_truth"] else f'<div class="halves">{drawn}</div>'

    notes = dict.fromkeys(a["note"] for a in data["areas"] if a["kind"] == "map")
    said = "One tile per place, shaded by its share of rows (square-root scale)."
    if any(s for a in data["areas"] for s in a["spans"]):
        said += " Point at a tile for the interval of the true share."
    lead = " ".join([said, *notes])
    return section("areas", "Places", lead, per_table(data, draw))


_DIFFERENCE = 'difference <span class="few">too few</span> <span class="many">too many</span>'


def _figure(caption: str, drawing: str) -> str:
    return f"<figure><figcaption>{caption}</figcaption>{drawing}</figure>"


def _area(a: dict, i: int) -> str:
    shares, title = a["tables"][i], f"<h3>{nice(a['column'])}</h3>"
    rest = (
        f'<p class="note">The {len(a["tiles"])} largest places are shown, {a["left_out"]} smaller ones are '
        "left out.</p>"
        if a["left_out"]
        else ""
    )
    if a["truth"] is None:
        span = a["spans"][i] if a["spans"] else None
        tiles = tile_map(a, shares, None, difference=False, name=a["column"], span=span)
        return f'<div class="card">{title}<div class="maps one">{tiles}</div>{rest}</div>'
    gaps = sorted(
        ((m - t, tile["label"]) for m, t, tile in zip(shares, a["truth"], a["tiles"], strict=True)),
        key=lambda g: -abs(g[0]),
    )
    said = "; ".join(f"{text(label)} <b>{points(gap)}</b>" for gap, label in gaps[:4])
    name = a["column"]
    maps = (
        _figure("truth", tile_map(a, a["truth"], None, difference=False, name=name + ", truth"))
        + _figure("synthetic", tile_map(a, shares, None, difference=False, name=name + ", synthetic"))
        + _figure(_DIFFERENCE, tile_map(a, shares, a["truth"], difference=True, name=name + ", difference"))
    )
    return (
        f'<div class="card">{title}<div class="maps">{maps}</div><p class="note">Largest differences, in '
        f"percentage points: {said}.</p>{rest}</div>"
    )
