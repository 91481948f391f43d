"""Sections of the page, in reading order. Each function returns HTML, or an empty string if the data it needs
is absent."""

from __future__ import annotations

from ..answers.clipping import HISTOGRAM
from . import words
from .blocks import KEY, nice, per_table, section
from .charts import distribution, heat
from .svg import big, percent, points, text


def summary(data: dict) -> str:
    trust = per_table(data, lambda i: _trust(data, i)) if data["with_truth"] else _facts(data)
    promise = per_table(data, lambda i: _promise(data, i))
    left = "How far off is it?" if data["with_truth"] else "What is in it?"
    return (
        '<section id="summary" class="hero" aria-label="Summary">'
        f'<div class="card"><h2>{left}</h2>{trust}</div>'
        f'<div class="card"><h2>What was promised?</h2>{promise}</div></section>'
    )


def _trust(data: dict, i: int) -> str:
    headline, why = words.verdict(data, i)
    found = original(data, i)
    others = sorted(found["kinds"].items(), key=lambda k: -k[1]["wrong"])[1:4] if found else []
    items = "".join(f"<li>{text(one['what'])}.</li>" for _, one in others)
    more = f"<p>After that:</p><ul>{items}</ul>" if items else ""
    return f'<p class="verdict">{text(headline)}</p><p>{text(why)}</p>{more}'


def original(data: dict, i: int) -> dict | None:
    """The comparison of table i in original values, if there is one."""
    return (data.get("original") or [None] * (i + 1))[i]


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
        use = f". {promise['public_use']}" if promise.get("public_use") else ""
        out.append(f'<p class="note">Public data used: {text(", ".join(promise["public_data"]) + use)}</p>')
    return "".join(out)


def kinds(data: dict) -> str:
    """The worst of each kind of thing that was compared in original values."""

    def draw(i: int) -> str:
        found = original(data, i)
        if not found:
            return ""
        rows = []
        for kind, one in sorted(found["kinds"].items(), key=lambda k: -k[1]["wrong"]):
            bar = (
                f'<svg class="duo" aria-hidden="true"><rect class="n" y="7" height="6" '
                f'width="{100 * one["wrong"]:.2f}%"/></svg>'
            )
            more = "".join(f"<li>{text(item['what'])}</li>" for item in one["items"][1:])
            more = f"<details><summary>more</summary><ul>{more}</ul></details>" if more else ""
            sample = "–" if one["sample"] is None else percent(one["sample"])
            rows.append(
                f'<tr><th scope="row">{text(words.KINDS[kind])}</th>'
                f'<td class="says">{text(one["what"])}{more}</td>'
                f'<td class="duo-cell">{bar}</td><td><b>{percent(one["wrong"])}</b></td>'
                f"<td>{percent(one['mean'])}</td><td>{sample}</td></tr>"
            )
        heads = ("", "at worst", "", "wrong", "mean", "10 % sample")
        kind_of = ("", ' class="says"', ' class="duo-cell"', "", "", "")
        head = "".join(f'<th scope="col"{k}>{name}</th>' for k, name in zip(kind_of, heads, strict=True))
        return (
            f'<div class="scroll"><table class="worst kinds"><thead><tr>{head}</tr></thead>'
            f"<tbody>{''.join(rows)}</tbody></table></div>"
        )

    lead = (
        "Compared in the original values: what the schema’s lists, bins and bounds lost counts as lost. "
        "Numbers with many values are cut into 20 bins of equally many true rows; means differ in standard "
        "deviations. The last column is the worst of a random tenth of the true rows."
    )
    return section("kinds", "The worst of each kind", lead, per_table(data, draw))


def scores(data: dict) -> str:
    if not data.get("scores"):
        return ""
    names = [t["name"] for t in data["tables"]]
    samples = list(dict.fromkeys(n for s in data["scores"] for n in s["baselines"]))
    heads = "".join(f'<th scope="col">{text(n)}</th>' for n in (*names, *samples))
    rows = []
    for s in data["scores"]:
        cells = "".join(f"<td><b>{_value(v)}</b></td>" for v in s["values"])
        cells += "".join(f"<td>{_value(s['baselines'].get(n))}</td>" for n in samples)
        title = f'<th scope="row">{text(s["name"])}<small>{text(s["about"])}</small></th>'
        rows.append(f"<tr>{title}{cells}</tr>")
    table = (
        f'<div class="scroll"><table><thead><tr><th scope="col">score</th>{heads}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )
    return section(
        "scores",
        "Scores, compared with samples of the truth",
        "The last columns are what a random sample of the true rows would score: the yardstick. Of scores "
        "with ↓, lower is better. Scores compare the values as the schema recodes them.",
        table,
    )


def _value(value: float | None) -> str:
    return "–" if value is None else f"{value:.0f}" if value >= 10 else f"{value:.3f}"


def columns(data: dict) -> str:
    def draw(i: int) -> str:
        lost = (original(data, i) or {}).get("columns", {})
        cards = []
        for c in data["columns"]:
            one = c["tables"][i]
            aside = "" if one["tv"] is None else f"{percent(one['tv'])} off"
            if one["tv"] is not None and lost.get(c["name"], 0.0) > one["tv"] + 0.0005:
                aside += f", {percent(lost[c['name']])} in original values"
            if one["mean"]:
                mean, low, high = (f"{v:.4g}" for v in one["mean"])
                aside = f"mean {mean} ({low} to {high})"
            body = distribution(
                c["labels"],
                c["truth"],
                one["share"],
                name=c["name"],
                ordered=c["ordered"],
                span=one["span"],
                folded=c["folded"],
            )
            cards.append(
                f'<figure class="card"><figcaption><b>{nice(c["name"])}</b><span>{aside}</span></figcaption>'
                f"{body}</figure>"
            )
        return f'<div class="multiples">{"".join(cards)}</div>'

    if data["with_truth"]:
        lead = (
            "Bars are the truth, strokes the synthetic table. “Off” is the share of rows that would have to "
            "move to another value."
        )
        return section("columns", "Every column", lead, KEY + per_table(data, draw))
    lead = "Bars are shares of the released rows."
    if any(one["span"] for c in data["columns"] for one in c["tables"]):
        lead += (
            " Thin lines hold the true share in 95 of 100 cases: noise, clip and merged values are in them. "
            "Where a bar ends outside its line, believe the line. Means are of the true rows, with intervals."
        )
    else:
        lead += " Nothing says how far they are from the true shares."
    return section("columns", "Every column", lead, per_table(data, draw))


def pairs(data: dict) -> str:
    pairs_data = data.get("pairs")
    if not pairs_data:
        return ""

    def draw(i: int) -> str:
        ranked = words.pair_list(data, i)
        picture = heat(pairs_data["names"], pairs_data["tables"][i])
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
        "stronger colour is worse; columns carry the numbers of the rows. Values are as the schema recodes "
        "them."
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
                f'height="6" width="{t:.2f}%"/><rect class="s" y="11" height="6" width="{s:.2f}%"/></svg>'
            )
            rows.append(
                f'<tr><td class="what">{what}{flag}</td><td '
                f'class="duo-cell">{bar}</td><td>{percent(c["truth"])}</td>'
                f"<td>{percent(c['table'])}</td><td><b>{points(c['table'] - c['truth'])}</b></td></tr>"
            )
        return (
            '<div class="scroll"><table class="worst"><thead><tr><th scope="col">cell</th><th '
            'class="duo-cell"></th><th scope="col">truth</th><th scope="col">synthetic</th><th '
            f'scope="col">points</th></tr></thead><tbody>{"".join(rows)}</tbody></table></div>'
        )

    lead = "Combinations of two values whose share of rows differs most; at most two of each pair of columns."
    return section("worst", "Worst cells", lead, per_table(data, draw))


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

    lead = f"Share of users ({nice(u['unit'])}) by how many rows they have"
    lead += ", and by how settled their habits are (users with at least five rows)." if u["habits"] else "."
    if not data["with_truth"]:
        noise = [n for run in data["runs"] if run for n in run["noise"] or [] if n["label"] == HISTOGRAM]
        lead += " These are synthetic users, made from released numbers."
        lead += (
            f" A bar is off by about {big(round(noise[0]['sigma'], 1))} users through noise." if noise else ""
        )
    return section(
        "users",
        "Users and their habits" if u["habits"] else "Users",
        lead,
        (KEY if data["with_truth"] else "") + per_table(data, draw),
    )


def _means(mean: list[float], i: int, with_truth: bool) -> str:
    if not with_truth:
        return f"mean {mean[i]:.3g}"
    return f"mean {mean[0]:.3g}, synthetic {mean[1 + i]:.3g}"


def fit(data: dict) -> str:
    def draw(i: int) -> str:
        found = (data["runs"][i] or {}).get("fit")
        if not found or found["loss"] is None:
            return ""
        said = f"Distance {big(found['loss'])} after {big(found['iterations'])} iterations ({found['stop']})"
        if found["rows"]:
            said += f"; noise alone explains about {big(found['rows'] / 2)}"
        return f"<p>{text(said)}.</p>"

    lead = (
        "Distance of the model from the noisy measurements, in units of their noise. Far above what noise "
        "explains, the model is too small for what was measured; below it, it would fit the noise."
    )
    return section("fit", "The fit", lead, per_table(data, draw))
