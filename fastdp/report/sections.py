"""Sections of the page, in reading order. Each function returns HTML, or an empty string if the
data it needs is absent."""

from .._util.texttable import plural
from ..answers.clipping import HISTOGRAM
from ..numbers.number_words import NOTE, table_rows
from . import blocks, words
from .blocks import KEY, listed, nice, per_table, section, table_html
from .charts import distribution, heat
from .svg import Html, big, percent, points, text, within

NUMBERS_SHOWN = 40
"""Lines of numbers that are shown before the reader opens the rest."""


def summary(data: dict) -> str:
    left = "How far off is it?" if data["with_truth"] else "What is in it?"
    found = per_table(data, lambda i: (_trust if data["with_truth"] else _table_facts)(data, i))
    promise = per_table(data, lambda i: _promise(data, i))
    return (
        '<section id="summary" class="hero" aria-label="Summary">'
        f'<div class="card"><h2>{left}</h2>{found}</div>'
        f'<div class="card"><h2>What was promised?</h2>{promise}</div></section>'
    )


def _trust(data: dict, i: int) -> str:
    headline, why = words.distance(data, i)
    found = words.original(data, i)
    others = sorted(found["kinds"].values(), key=lambda one: -one["wrong"])[1:4] if found else []
    more = f"<p>After that:</p>{listed(one['what'] + '.' for one in others)}" if others else ""
    true = data["truth"]["rows"]
    made = data["tables"][i]["rows"]
    if true:
        rows = f"{big(made)} rows for {big(true)} true ones: {percent(abs(made / true - 1))} too "
    else:
        rows = ""
    rows += ("few." if made < true else "many.") if rows else ""
    about = f'<p class="verdict">{text(headline)}</p><p>{text(why)}</p><p>{text(rows)}</p>{more}'
    return about + _verdict(data, i)


def _verdict(data: dict, i: int) -> str:
    """The run's verdict, word for word as `run.verdict` and `synth` give it."""
    found = data["verdict"][i]
    if not found["headline"]:
        return "<p>Read with care: nothing says how far its numbers are from the truth.</p>"
    alarm = ' class="alarm"' if found["warn"] else ""
    out = f"<p{alarm}><b>{text(found['headline'])}</b></p>"
    for title, key in (("Good for", "good_for"), ("Not for", "not_for")):
        if found[key]:
            out += f"<h3>{title}</h3>{listed(found[key])}"
    return out


def _table_facts(data: dict, i: int) -> str:
    table = data["tables"][i]
    size = f"{big(table['rows'])} synthetic rows, {plural(len(data['columns']), 'column')}"
    out = f'<p class="verdict">{size}</p>'
    if table.get("users"):
        out += (
            f'<p class="figure"><b>{big(table["users"])}</b> synthetic users, none of them real</p>'
        )
    return f'{out}{_verdict(data, i)}<p class="note">{text(words.QUOTE)}</p>{words.MADE}'


def _promise(data: dict, i: int) -> str:
    promise = (data["runs"][i] or {}).get("promise")
    if not promise:
        return words.NO_STATEMENT
    eps = promise.get("epsilon")
    delta = promise.get("delta")
    head = f"ε = {eps:.4g}" if eps is not None else "stated by μ"
    strength = words.strength(promise)
    out = f'<p class="verdict">{head}{f" · {text(strength)}" if strength else ""}</p>'
    if promise.get("private") is False:
        out += '<p class="alarm">The noise was seeded for a test. This run protects nobody.</p>'
    small = [f"δ = {delta:.2g}"] if delta is not None else []
    if promise.get("mu") is not None:
        small.append(f"μ = {promise['mu']:.4g}")
    if promise.get("mechanism"):
        small.append(f"mechanism {promise['mechanism']}")
    out += f'<p class="figure">{text(" · ".join(small))}</p>'
    out += "".join(f"<p>{text(sentence)}</p>" for sentence in words.promise_words(promise))
    if promise.get("not_protected"):
        out += blocks.details("What is not protected", listed(promise["not_protected"]))
    if promise.get("public_data"):
        use = f". {promise['public_use']}" if promise.get("public_use") else ""
        out += (
            f'<p class="note">Public data used: {text(", ".join(promise["public_data"]) + use)}</p>'
        )
    return out


def numbers(data: dict) -> str:
    """The numbers that were asked for, first of all: they may be printed."""

    def draw(i: int) -> str:
        lines = table_rows(data["numbers"][i] or [])
        if not lines:
            return ""
        table = blocks.folded_table(lines[0], lines[1:], NUMBERS_SHOWN, "quotes")
        return f'<div class="card">{table}<p class="note">{text(NOTE)}</p></div>'

    return section("numbers", per_table(data, draw))


def limits(data: dict) -> str:
    """What the table keeps and what it does not."""

    def draw(i: int) -> str:
        topics: dict[str, list[str]] = {}
        for topic, sentence in data["limits"][i]:
            topics.setdefault(topic, []).append(sentence)
        return blocks.halves((text(topic), listed(said)) for topic, said in topics.items())

    return section("limits", per_table(data, draw))


def quotes(data: dict) -> str:
    """Numbers that may be quoted."""

    def rows(number: float) -> str:
        return big(round(number))

    def span(low: float | None, high: float | None, unknown: str) -> str:
        return unknown if low is None or high is None else f"{rows(low)} to {rows(high)}"

    def draw(i: int) -> str:
        found = data["quotes"][i]
        if not found:
            return ""
        cards = []
        for pair in found["pairs"]:
            heads = (*(n.replace("_", " ") for n in pair["columns"]), "rows", "95 % interval")
            cells = [
                (a, b, rows(x), span(low, high, "no interval"))
                for a, b, x, low, high in pair["cells"]
            ]
            note = f"{pair['clear']} of {pair['of']} cells stand clear of 0; the largest are shown."
            cards.append(("", f'{table_html(heads, cells, "quotes")}<p class="note">{note}</p>'))
        whole = found["rows"]
        total = span(whole["low"], whole["high"], "not known")
        note = text(f"; {whole['note']}" if whole["note"] else "")
        return f'<p class="note">True rows: <b>{total}</b> (95 %){note}.</p>{blocks.halves(cards)}'

    return section("quotes", per_table(data, draw))


def kinds(data: dict) -> str:
    """The worst of each kind of thing that was compared in original values."""

    def draw(i: int) -> str:
        found = words.original(data, i)
        rows = []
        for kind, one in sorted(
            (found or {"kinds": {}})["kinds"].items(), key=lambda k: -k[1]["wrong"]
        ):
            more = listed(item["what"] for item in one["items"][1:])
            said = Html(text(one["what"]) + (blocks.details("more", more) if more else ""))
            sample = "–" if one["sample"] is None else percent(one["sample"])
            wrong = blocks.strip([("n", 7, one["wrong"])]), blocks.bold(percent(one["wrong"]))
            rows.append((words.TABLE_KINDS[kind], said, *wrong, percent(one["mean"]), sample))
        heads = ("", "at worst", "", "wrong", "mean", "10 % sample")
        return table_html(heads, rows, "worst kinds", ("", "says", "duo-cell")) if rows else ""

    return section("kinds", per_table(data, draw))


def scores(data: dict) -> str:
    if not data.get("scores"):
        return ""
    samples = list(dict.fromkeys(n for s in data["scores"] for n in s["baselines"]))
    rows = [
        (
            Html(f"{text(s['name'])}<small>{text(s['about'])}</small>"),
            *(blocks.bold(_value(v)) for v in s["values"]),
            *(_value(s["baselines"].get(n)) for n in samples),
        )
        for s in data["scores"]
    ]
    heads = ("score", *(t["name"] for t in data["tables"]), *samples)
    return section("scores", table_html(heads, rows, "scores"))


def _value(value: float | None) -> str:
    if value is None:
        return "–"
    if value >= 10:
        return f"{value:.0f}"
    return f"{value:.3f}"


def columns(data: dict) -> str:
    def aside(column: dict, i: int) -> str:
        one = column["tables"][i]
        if one["mean"]:
            return "mean {} ({} to {})".format(*within(*one["mean"]))
        if one["tv"] is None:
            return ""
        lost = (words.original(data, i) or {}).get("columns", {}).get(column["name"], 0.0)
        more = f", {percent(lost)} in original values" if lost > one["tv"] + 0.0005 else ""
        return f"{percent(one['tv'])} off{more}"

    def draw(i: int) -> str:
        drawn = ((c["name"], aside(c, i), distribution(c, c["tables"][i])) for c in data["columns"])
        return blocks.figures(drawn)

    said = blocks.sections_said()["columns"]
    if data["with_truth"]:
        return section("columns", KEY + per_table(data, draw), said["truth"])
    known = any(one["span"] for c in data["columns"] for one in c["tables"])
    return section(
        "columns", per_table(data, draw), said["lead"] + said["known" if known else "unknown"]
    )


def pairs(data: dict) -> str:
    found = data.get("pairs")
    if not found:
        return ""

    def draw(i: int) -> str:
        worst = "".join(
            f"<li><span>{nice(a)} × {nice(b)}</span><b>{percent(tv)}</b></li>"
            for tv, a, b in words.pair_list(data, i)[::-1][:6]
        )
        ranked = f'<div class="card"><h3>Furthest off</h3><ol class="list">{worst}</ol></div>'
        picture = heat(found["names"], found["tables"][i])
        return f'<div class="split"><div class="card">{picture}</div>{ranked}</div>'

    lead = blocks.sections_said()["pairs"]["lead"]
    if found["left_out"]:
        lead += (
            f" The {len(found['names'])} most varied columns are shown, {found['left_out']} are"
            " left out."
        )
    return section("pairs", per_table(data, draw), lead)


def worst(data: dict) -> str:
    def draw(i: int) -> str:
        cells = data["worst"][i]
        top = max((max(c["truth"], c["table"]) for c in cells), default=1.0)
        rows = []
        for c in cells:
            named = zip(c["columns"], c["labels"], strict=True)
            what = "".join(f"<span><small>{nice(n)}</small> {text(v)}</span>" for n, v in named)
            if c["truth"] == 0:
                flag = " <em>invented</em>"
            elif c["table"] == 0:
                flag = " <em>missing</em>"
            else:
                flag = ""
            true = percent(c["truth"])
            made = percent(c["table"])
            marks = (("t", 3, c["truth"] / top), ("s", 11, c["table"] / top))
            bar = blocks.strip(marks, f"truth {true}\nsynthetic {made}")
            rows.append(
                (Html(what + flag), bar, true, made, blocks.bold(points(c["table"] - c["truth"])))
            )
        heads = ("cell", "", "truth", "synthetic", "points")
        return table_html(heads, rows, "worst", ("what", "duo-cell")) if rows else ""

    return section("worst", per_table(data, draw)) if any(data.get("worst") or []) else ""


def users(data: dict) -> str:
    u = data.get("users")
    if not u:
        return ""

    def draw(i: int) -> str:
        mean = f"mean {u['mean'][i]:.3g}"
        if data["with_truth"]:
            mean = f"mean {u['mean'][0]:.3g}, synthetic {u['mean'][1 + i]:.3g}"
        drawn = blocks.figures(
            (
                h["name"],
                mean if h is u["rows"] else "",
                distribution(h, {**h, "share": h["tables"][i]}),
            )
            for h in [u["rows"], *u["habits"], *u["order"]]
        )
        of = {n: (c["truth"], c["synthetic"]) for n, c in data["of_users"][i].items()}
        both = ((nice(n), *(f"{t[k]:.2f} / {s[k]:.2f}" for k in t)) for n, (t, s) in of.items())
        heads = (
            "column (truth / synthetic)",
            "two rows agree",
            "users with one value",
            "values per user",
        )
        return drawn + (table_html(heads, list(both)) if of else "")

    lead = f"Share of users ({nice(u['unit'])}) by how many rows they have"
    lead += (
        ", and by how settled their habits are (users with at least five rows)."
        if u["habits"]
        else "."
    )
    lead += " Last, how often a row and the user's next row agree." if u["order"] else ""
    if not data["with_truth"]:
        lead += " These are synthetic users, made from released numbers."
        noise = [
            n for run in data["runs"] if run for n in run["noise"] or [] if n["label"] == HISTOGRAM
        ]
        for n in noise[:1]:
            lead += f" A bar is off by about {big(round(n['sigma'], 1))} users through noise."
    return section("users", (KEY if data["with_truth"] else "") + per_table(data, draw), lead)
