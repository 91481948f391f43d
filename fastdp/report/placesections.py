"""Sections about places: scores by area, maps, places by month. As in `sections`, each function returns HTML,
or an empty string if the data it needs is absent."""

from __future__ import annotations

from .blocks import nice, per_table, section
from .charts import grid_map, score_bars, score_map, tile_map
from .place_maps import layout
from .svg import big, points, text


def groups(data: dict) -> str:
    """The k-marginal score by pickup area and by shift."""
    if not any(data.get("groups") or []):
        return ""

    def draw(i: int) -> str:
        g = data["groups"][i]
        if g is None:
            return ""
        plan = layout("pickup_community_area", g["areas"], [1.0] * len(g["areas"]))
        value = dict(enumerate(g["by_area"]))
        plan["tiles"] = [t for t in plan["tiles"] if value[t["code"]] is not None]
        picture = score_map(plan, [value[t["code"]] for t in plan["tiles"]], name="score by pickup area")
        bars = score_bars(g["shifts"], g["by_shift"], name="score by shift")
        return (
            '<div class="split even"><div class="card"><h3>by pickup area</h3><div class="maps '
            f'one">{picture}</div></div>'
            f'<div class="card"><h3>by shift</h3>{bars}'
            '<p class="note">21 shifts of eight hours, from the first of the week to the last. Places and '
            "shifts with few rows score low "
            "for any method: their cells are smaller than the noise, and smaller than the luck of the draw "
            "in a sample.</p></div></div>"
        )

    lead = (
        "The k-marginal score of the rows of each pickup area and of each shift: the stronger the shade, the "
        "closer to the truth."
    )
    return section("groups", "Where it is close", lead, per_table(data, draw))


def areas(data: dict) -> str:
    if not data.get("areas"):
        return ""

    def draw(i: int) -> str:
        drawn = "".join(_area(a, i) for a in data["areas"])
        return drawn if data["with_truth"] else f'<div class="halves">{drawn}</div>'

    notes = dict.fromkeys(a["note"] for a in data["areas"] if a["kind"] == "map")
    lead = " ".join(["One tile per place, shaded by its share of rows (square-root scale).", *notes])
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
        tiles = tile_map(a, shares, None, difference=False, name=a["column"])
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


def periods(data: dict) -> str:
    p = data.get("periods")
    if not p:
        return ""

    def draw(i: int) -> str:
        counts, rows, cols = p["tables"][i], p["rows"], p["columns"]
        high = max((v for m in [counts, p["truth"] or []] for row in m for v in row), default=0)
        note = ""
        if p["folded"]:
            there = (
                ""
                if p["truth"] is None
                else f" in the truth and {big(p['rest']['tables'][i])} in the synthetic table"
            )
            held = p["rest"]["tables"][i] if p["truth"] is None else p["rest"]["truth"]
            note = (
                f'<p class="note">{p["folded"]} smaller places, not shown, hold {big(held)} rows{there}.</p>'
            )

        def grid(values: list, name: str, **options) -> str:
            return grid_map(
                rows, cols, values, high, name=f"{name} by place and month", unit="rows", **options
            )

        if p["truth"] is None:
            return f'<div class="card">{grid(counts, "rows")}{note}</div>'
        gap = [[m - t for m, t in zip(a, b, strict=True)] for a, b in zip(counts, p["truth"], strict=True)]
        figures = (
            _figure("truth", grid(p["truth"], "truth"))
            + _figure("synthetic", grid(counts, "synthetic"))
            + _figure(_DIFFERENCE, grid(gap, "difference", signed=True))
        )
        return f'<div class="card"><div class="trio">{figures}</div>{note}</div>'

    lead = "Rows per place and month, largest places first (square-root scale, one scale for all)."
    return section("months", "Places by month", lead, per_table(data, draw))
