"""Sections of the page, in reading order. Each gives HTML, or an empty string where its facts are absent."""

from __future__ import annotations

from collections.abc import Callable

from . import words
from .charts import curve, distribution, grid_map, heat, score_axis, score_bars, score_map, tile_map
from .places import layout
from .svg import big, percent, points, text


def nice(name: str) -> str:
    """A column's name for reading: underscores become spaces that may break."""
    return text(name.replace("_", " "))


def section(ident: str, title: str, lead: str, body: str) -> str:
    if not body:
        return ""
    return (
        f'<section id="{ident}" aria-labelledby="{ident}-h"><h2 id="{ident}-h">{text(title)}</h2>'
        f'<p class="lead">{lead}</p>{body}</section>'
    )


def per_table(data: dict, draw: Callable[[int], str]) -> str:
    """`draw(i)` for every table; the page shows the one that is picked."""
    drawn = [draw(i) for i in range(len(data["tables"]))]
    if len(drawn) == 1:
        return drawn[0]
    return "".join(
        f'<div class="of" data-of="{i}"><p class="which">{text(data["tables"][i]["name"])}</p>{html}</div>'
        for i, html in enumerate(drawn)
        if html
    )


KEY = '<p class="key"><span><i class="kt"></i>truth</span><span><i class="ks"></i>synthetic</span></p>'


def summary(data: dict) -> str:
    trust = per_table(data, lambda i: _trust(data, i)) if data["with_truth"] else _facts(data)
    promise = per_table(data, lambda i: _promise(data, i))
    left = "Can I trust this table?" if data["with_truth"] else "What is in it?"
    return (
        '<section id="summary" class="hero" aria-label="Summary">'
        f'<div class="card"><h2>{left}</h2>{trust}</div>'
        f'<div class="card"><h2>What was promised?</h2>{promise}</div></section>'
    )


def _trust(data: dict, i: int) -> str:
    headline, why = words.verdict(data, i)
    out = [f'<p class="verdict">{text(headline)}</p>']
    score = words.main_score(data)
    if score is not None and score["values"][i] is not None:
        value, top = score["values"][i], score["top"]
        shown = f"{value:.0f}" if top >= 100 else f"{value:.3f}"
        out.append(f'<p class="figure"><b>{shown}</b> of {top:g} · {text(score["name"])}</p>')
        out.append(
            score_axis(
                [value],
                score["baselines"],
                top,
                name=score["name"],
                tables=[data["tables"][i]["name"]],
                labelled=True,
            )
        )
    out.append(f"<p>{text(why)}</p>")
    findings = words.findings(data, i)
    out.append("<ul>" + "".join(f"<li>{text(f)}</li>" for f in findings) + "</ul>" if findings else "")
    return "".join(out)


def _facts(data: dict) -> str:
    return per_table(data, lambda i: _table_facts(data, i))


def _table_facts(data: dict, i: int) -> str:
    table = data["tables"][i]
    out = [f'<p class="verdict">{big(table["rows"])} synthetic rows, {len(data["columns"])} columns</p>']
    if table.get("users"):
        out.append(f'<p class="figure"><b>{big(table["users"])}</b> synthetic users, none of them real</p>')
    out.append(
        "<p>The rows were made from noisy totals. One that equals a real record does so by chance, and "
        "everything on this page was computed from what was released; the true data was not opened to make "
        "it.</p>"
    )
    advice = words.advice(data, i)
    out.append("<ul>" + "".join(f"<li>{text(a)}</li>" for a in advice) + "</ul>")
    return "".join(out)


def _promise(data: dict, i: int) -> str:
    run = data["runs"][i] if i < len(data["runs"]) else None
    promise = (run or {}).get("promise")
    if not promise:
        return (
            '<p class="verdict none">No privacy statement</p><p>This table came without one. Treat it as if '
            "it carried no guarantee until its maker shows the statement (<code>privacy.json</code>).</p>"
        )
    eps, delta = promise.get("epsilon"), promise.get("delta")
    head = f"ε = {eps:.4g}" if eps is not None else "stated by μ"
    strength = words.strength(promise)
    out = [f'<p class="verdict">{head}{f" · {text(strength)}" if strength else ""}</p>']
    if promise.get("private") is False:
        out.append('<p class="alarm">The noise was seeded for a test. This run protects nobody.</p>')
    small = [f"δ = {delta:.2g}"] if delta else ["δ = 0"] if delta is not None else []
    if promise.get("mu") is not None:
        small.append(f"μ = {promise['mu']:.4g}")
    if promise.get("mechanism"):
        small.append(f"mechanism {promise['mechanism']}")
    out.append(f'<p class="figure">{text(" · ".join(small))}</p>')
    out += [f"<p>{text(sentence)}</p>" for sentence in words.promise_words(promise)]
    if promise.get("not_protected"):
        items = "".join(f"<li>{text(x)}</li>" for x in promise["not_protected"])
        out.append(f"<details><summary>What is not protected</summary><ul>{items}</ul></details>")
    if promise.get("public_data"):
        out.append(f'<p class="note">Public data used: {text(", ".join(promise["public_data"]))}</p>')
    return "".join(out)


def scores(data: dict) -> str:
    if not data.get("scores"):
        return ""
    names = [t["name"] for t in data["tables"]]
    heads = "".join(
        f'<th scope="col"><i class="dot m{i % 6}"></i>{text(n)}</th>' for i, n in enumerate(names)
    )
    base = [b["name"] for b in data["scores"][0]["baselines"]]
    base += [b["name"] for s in data["scores"] for b in s["baselines"] if b["name"] not in base]
    base = list(dict.fromkeys(base))
    heads += "".join(f'<th scope="col"><i class="diamond"></i>{text(n)}</th>' for n in base)
    rows = []
    for s in data["scores"]:
        top = s["top"]
        baseline = {b["name"]: b["value"] for b in s["baselines"]}
        cells = "".join(
            f'<td data-label="{text(n)}"><b>{_value(v, top)}</b></td>'
            for n, v in zip(names, s["values"], strict=True)
        )
        cells += "".join(f'<td data-label="{text(n)}">{_value(baseline.get(n), top)}</td>' for n in base)
        axis = score_axis(s["values"], s["baselines"], top, name=s["name"], tables=names)
        low = "" if s["better"] == "high" else " <em>lower is better</em>"
        rows.append(
            f'<tr><th scope="row">{text(s["name"])}{low}<small>{text(s["about"])}</small></th>'
            f'<td class="axis-cell">{axis}</td>{cells}</tr>'
        )
    table = (
        '<div class="scroll"><table class="scores"><thead><tr><th scope="col">score</th><th '
        f'class="axis-cell"></th>{heads}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )
    return section(
        "scores",
        "Scores beside samples of the truth",
        "Diamonds show what a random sample of the true rows would score: the yardstick. Discs are the "
        "synthetic tables.",
        table,
    )


def groups(data: dict) -> str:
    """Where the k-marginal score is high and low: by pickup area, by shift."""
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


def _value(value: float | None, top: float) -> str:
    if value is None:
        return "–"
    return f"{value:.0f}" if top >= 100 else f"{value:.3f}"


def columns(data: dict) -> str:
    def draw(i: int) -> str:
        cards = []
        for c in data["columns"]:
            one = c["tables"][i]
            off = "" if one["tv"] is None else f"<span>{percent(one['tv'])} off</span>"
            body = distribution(
                c["labels"],
                c["truth"],
                one["share"],
                name=c["name"],
                ordered=c["ordered"],
                error=one["error"],
                folded=c["folded"],
            )
            cards.append(
                f'<figure class="card"><figcaption><b>{nice(c["name"])}</b>{off}</figcaption>{body}</figure>'
            )
        return f'<div class="multiples">{"".join(cards)}</div>'

    if data["with_truth"]:
        lead = (
            "Bars are the truth, strokes the synthetic table. “Off” is the share of rows that would have to "
            "move to another value."
        )
        return section("columns", "Every column", lead, KEY + per_table(data, draw))
    bars = any(one["error"] for c in data["columns"] for one in c["tables"])
    by_model = any(one["model"] for c in data["columns"] for one in c["tables"])
    lead = (
        "Shares of rows, by the model that the table was drawn from."
        if by_model
        else "Shares of rows in the released table."
    )
    if bars:
        lead += (
            " Thin lines span plus and minus two standard errors of the noise that was added; they do not "
            "cover the model’s own bias."
        )
    return section("columns", "Every column", lead, per_table(data, draw))


def pairs(data: dict) -> str:
    pairs_data = data.get("pairs")
    if not pairs_data:
        return ""

    def draw(i: int) -> str:
        ranked = words.pair_list(data, i)
        picture = heat(
            pairs_data["names"], pairs_data["tables"][i], [n.replace("_", " ") for n in pairs_data["names"]]
        )
        worst = "".join(
            f"<li><span>{nice(a)} × {nice(b)}</span><b>{percent(tv)}</b></li>"
            for tv, a, b in ranked[::-1][:6]
        )
        return (
            f'<div class="split"><div class="card">{picture}</div><div class="card"><h3>Furthest off</h3><ol '
            f'class="list">{worst}</ol></div></div>'
        )

    lead = (
        "Share of rows, in per cent, that sit in a wrong cell when two columns are looked at together. A "
        "stronger colour is worse; columns carry the numbers of the rows."
    )
    if pairs_data["left_out"]:
        shown = len(pairs_data["names"])
        lead += f" The {shown} most varied columns are shown, {pairs_data['left_out']} are left out."
    if pairs_data["grouped"]:
        lead += " Very fine columns are grouped for this picture."
    return section("pairs", "Every pair of columns", lead, per_table(data, draw))


def worst(data: dict) -> str:
    if not any(data.get("worst") or []):
        return ""

    def draw(i: int) -> str:
        cells = data["worst"][i]
        if not cells:
            return ""
        top = max(max(c["truth"], c["table"]) for c in cells)
        rows = []
        for c in cells:
            what = "".join(
                f"<span><small>{nice(n)}</small> {text(v)}</span>"
                for n, v in zip(c["columns"], c["labels"], strict=True)
            )
            flag = " <em>invented</em>" if c["truth"] == 0 else " <em>missing</em>" if c["table"] == 0 else ""
            t, s = 100 * c["truth"] / top, 100 * c["table"] / top
            tip = f"truth {percent(c['truth'])}\nsynthetic {percent(c['table'])}"
            bar = (
                f'<svg class="duo" data-tip="{text(tip)}" aria-hidden="true"><rect class="t" y="3" '
                f'height="6" width="{t:.2f}%"/>'
                f'<rect class="s" y="11" height="6" width="{s:.2f}%"/></svg>'
            )
            rows.append(
                f'<tr><td class="what">{what}{flag}</td><td '
                f'class="duo-cell">{bar}</td><td>{percent(c["truth"])}</td>'
                f"<td>{percent(c['table'])}</td><td><b>{points(c['table'] - c['truth'])}</b></td></tr>"
            )
        return (
            '<div class="scroll"><table class="worst"><thead><tr><th scope="col">cell</th><th '
            'class="duo-cell"></th><th scope="col">truth</th>'
            '<th scope="col">synthetic</th><th '
            f'scope="col">points</th></tr></thead><tbody>{"".join(rows)}</tbody></table></div>'
        )

    lead = "Combinations of two values whose share of rows differs most; at most two of each pair of columns."
    return section("worst", "Worst cells", lead, per_table(data, draw))


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


def users(data: dict) -> str:
    u = data.get("users")
    if not u:
        return ""

    def draw(i: int) -> str:
        cards = []
        for h in [u["rows"], *u["habits"]]:
            body = distribution(h["labels"], h["truth"], h["tables"][i], name=h["name"], ordered=True)
            aside = f"<span>{_means(u['mean'], i, data['with_truth'])}</span>" if h is u["rows"] else ""
            cards.append(
                "<figure "
                f'class="card"><figcaption><b>{nice(h["name"])}</b>{aside}</figcaption>{body}</figure>'
            )
        return f'<div class="multiples">{"".join(cards)}</div>'

    lead = (
        f"Share of users ({nice(u['unit'])}) by how many rows they have, and by how settled their habits are "
        "(users with at least five rows)."
    )
    return section(
        "users", "Users and their habits", lead, (KEY if data["with_truth"] else "") + per_table(data, draw)
    )


def _means(mean: list[float], i: int, with_truth: bool) -> str:
    if not with_truth:
        return f"mean {mean[i]:.3g}"
    return f"mean {mean[0]:.3g}, synthetic {mean[1 + i]:.3g}"


def fit(data: dict) -> str:
    def draw(i: int) -> str:
        run = data["runs"][i] if i < len(data["runs"]) else None
        trace = (run or {}).get("fit") or {}
        steps = trace.get("trace") or []
        if len(steps) < 2:
            return ""
        rows = trace.get("rows")
        level = (rows / 2, "what noise alone explains") if rows else None
        drawn = curve(
            [s["iteration"] for s in steps],
            [s["loss"] for s in steps],
            name="loss of the fit by iteration",
            unit="iteration",
            level=level,
        )
        facts = [f"{big(steps[-1]['iteration'])} iterations"]
        if steps[-1].get("seconds") is not None:
            facts.append(f"{steps[-1]['seconds']:.3g} s")
        if trace.get("stop"):
            facts.append(f"ended by: {trace['stop']}")
        return f'<div class="card">{drawn}<p class="note">{text(" · ".join(facts))}</p></div>'

    body = per_table(data, draw)
    return section(
        "fit",
        "The fit",
        "Distance of the model from the noisy measurements, in units of their noise (logarithmic). Going "
        "below the noise would fit the noise.",
        body,
    )
