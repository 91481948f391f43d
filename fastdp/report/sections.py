"""Sections of the page, in reading order. Each function returns HTML, or an empty string if the
data it needs is absent."""

import math
from collections.abc import Callable
from typing import Any

from .._util.texttable import plural
from ..answers.clipping import HISTOGRAM
from ..answers.verdict import WARNING
from ..numbers.number_words import NOTE, figure, group_columns, shown
from . import blocks, words
from .blocks import KEY, listed, nice, per_table, section, table_html
from .charts import distribution, heat
from .svg import Html, big, percent, points, text, within

NUMBERS_SHOWN = 40
"""Lines of numbers that are shown before the reader opens the rest."""
LINES_SHOWN = 12
"""Periods, or means and totals, that are shown before the reader opens the rest."""
TOTALS_IN_HALF = 4
"""Means and totals that are shown in half of the page's width."""
WIDE_SHOWN = 6
"""Numbers that are named as too wide to quote."""


def summary(data: dict) -> str:
    """The verdict first, then how far off the table is, or what is in it, beside the promise."""
    left = "How far off is it?" if data["with_truth"] else "What is in it?"
    found = per_table(data, lambda i: (_trust if data["with_truth"] else _table_facts)(data, i))
    promise = per_table(data, lambda i: _promise(data, i))
    verdict = per_table(data, lambda i: _verdict(data, i))
    return (
        '<section id="summary" class="hero" aria-label="Summary">'
        f'<div class="card wide"><h2>What is it good for?</h2>{verdict}</div>'
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
    rows = ""
    if true:
        off = percent(abs(made / true - 1))
        which = "few" if made < true else "many"
        rows = f"{big(made)} rows for {big(true)} true ones: {off} too {which}."
    return f'<p class="verdict">{text(headline)}</p><p>{text(why)}</p><p>{text(rows)}</p>{more}'


def _verdict(data: dict, i: int) -> str:
    """The run's verdict, word for word as `run.verdict` and `synth` give it."""
    found = data["verdict"][i]
    if not found["headline"]:
        return "<p>Read with care: nothing says how far its numbers are from the truth.</p>"
    word, _, rest = found["headline"].partition(": ")
    alarm = " alarm" if found["warn"] else ""
    out = f'<p class="headline{alarm}"><b>{text(word)}: </b>{text(rest)}</p>'
    sides = (("Good for", "good_for"), ("Not for", "not_for"))
    lists = [
        f"<div><h3>{title}</h3>{listed(found[key])}</div>" for title, key in sides if found[key]
    ]
    out += f'<div class="sides-of">{"".join(lists)}</div>'
    said = [*([WARNING] if found["warn"] else []), *found["figures"]]
    return out + (blocks.details("The same in rows", listed(said)) if said else "")


def _table_facts(data: dict, i: int) -> str:
    table = data["tables"][i]
    size = f"{big(table['rows'])} synthetic rows, {plural(len(data['columns']), 'column')}"
    out = f'<p class="verdict">{size}</p>'
    if table.get("users"):
        out += (
            f'<p class="figure"><b>{big(table["users"])}</b> synthetic users, none of them real</p>'
        )
    return f'{out}{words.MADE}<p class="note">{text(words.QUOTE)}</p>'


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


def limits(data: dict) -> str:
    """What the table keeps and what it does not."""

    def draw(i: int) -> str:
        topics: dict[str, list[str]] = {}
        for topic, sentence in data["limits"][i]:
            topics.setdefault(topic, []).append(sentence)
        return blocks.halves((text(topic), listed(said)) for topic, said in topics.items())

    return section("limits", per_table(data, draw))


def quotes(data: dict) -> str:
    """Numbers that may be quoted: those that were asked for first, then what follows from the
    released marginals. On the owner's page the true number stands beside each."""
    beside = data["with_truth"]

    def draw(i: int) -> str:
        found = data["quotes"][i]
        cards = _asked_cards(data["numbers"][i] or [])
        cards += _quote_cards(found, beside) if found else []
        return blocks.halves(cards)

    lead = None if any(data["quotes"]) else blocks.sections_said()["quotes"]["asked"]
    return section("quotes", per_table(data, draw), lead)


def _asked_cards(rows: list[dict]) -> list[tuple[str, str]]:
    """(title, table) of the numbers that were asked for: those of the whole table together, then
    each one that has groups."""
    if not rows:
        return []
    groups = group_columns(list(rows[0]))
    single = [row for row in rows if all(row[name] is None for name in groups)]
    cards = []
    if single:
        cards.append(
            ("Asked for before the run", _asked(single, lambda row: [row["number"]], [""]))
        )
    rest = [row for row in rows if row not in single]
    for number in dict.fromkeys(row["number"] for row in rest):
        own = [row for row in rest if row["number"] == number]
        by = [name for name in groups if any(row[name] is not None for row in own)]
        table = _asked(own, lambda row, by=by: [str(row[name]) for name in by], by)
        cards.append((text(number), table))
    title, last = cards[-1]
    return [*cards[:-1], (title, f'{last}<p class="note">{text(NOTE)}</p>')]


def _asked(rows: list[dict], names: Callable[..., list[str]], heads: list[str]) -> str:
    """Numbers with their intervals; of sums also that with each user counted up to the cap."""
    capped = any(row["capped"] is not None for row in rows)
    caps = {row["cap"] for row in rows if row["capped"] is not None}
    lines = []
    notes = [f"Capped: each user counts up to {caps.pop():,.10g}."] if len(caps) == 1 else []
    for row in rows:
        told = shown(row)
        ends = told["interval"]
        if told["estimate"] == "-" and row.get("note"):
            ends = "withheld"
            notes.append(f"Withheld: {str(row['note']).removeprefix('withheld: ')}.")
        one_cap = notes and notes[0].startswith("Capped")
        sum_up_to = told["capped"].partition(" (")[0] if one_cap else told["capped"]
        lines.append([*names(row), told["estimate"], ends, *([sum_up_to] if capped else [])])
    heads = [*heads, "estimate", "95 % interval", *(["capped"] if capped else [])]
    table = blocks.folded_table(heads, lines, NUMBERS_SHOWN, "quotes numbers")
    said = " ".join(dict.fromkeys(notes))
    return table + (f'<p class="note">{text(said)}</p>' if said else "")


def _quote_cards(found: dict, beside: bool) -> list[tuple[str, str]]:
    """(title, table) of the number of rows, means and totals, periods and pairs."""

    def line(names: list[str], low: Any, high: Any, estimate: Any, true: Any) -> list[str]:
        half = 0.0 if low is None or high is None else (high - low) / 2
        ends = "no interval"
        if low is not None and high is not None:
            ends = f"{figure(low, half, how=math.floor)} to {figure(high, half, how=math.ceil)}"
        own = [*names, "–" if estimate is None else figure(estimate, half), ends]
        return [*own, _exact(true, half)] if beside else own

    heads = ["estimate", "95 % interval", *(["truth"] if beside else [])]
    whole = found["rows"]
    totals = [line(["rows"], whole["low"], whole["high"], whole["estimate"], whole["true"])]
    totals += [
        line([_in_words(t["what"])], t["low"], t["high"], t["estimate"], t["true"])
        for t in found["totals"]
    ]
    note = f"{whole['note'][0].upper()}{whole['note'][1:]}. " if whole["note"] else ""
    if found["wide"]:
        wide = ", ".join(_in_words(number) for number in found["wide"][:WIDE_SHOWN])
        more = len(found["wide"]) - WIDE_SHOWN
        wide += f" and {more} more" if more > 0 else ""
        note += f"Too wide to quote: {wide}. Ask for them before the run (numbers)."
    kind = "quotes numbers wide" if len(totals) > TOTALS_IN_HALF else "quotes numbers"
    body = blocks.folded_table(["", *heads], totals, LINES_SHOWN, kind)
    cards = [("Totals and means", body + (f'<p class="note">{text(note)}</p>' if note else ""))]
    for one in found["periods"]:
        lines = [line([name], low, high, x, true) for name, x, low, high, true in one["lines"]]
        table = blocks.folded_table(["rows in", *heads], lines, LINES_SHOWN, "quotes numbers")
        cards.append((f"By {nice(one['column'])}", table))
    for pair in found["pairs"]:
        lines = [line([a, b], low, high, x, true) for a, b, x, low, high, true in pair["cells"]]
        body = table_html([*pair["columns"], "rows", *heads[1:]], lines, "quotes")
        said = (
            f"{pair['clear']} of {pair['of']} cells stand clear of 0; the largest are shown. All"
            " intervals of the pair hold together in 95 of 100 cases."
        )
        cards.append((" × ".join(map(nice, pair["columns"])), f'{body}<p class="note">{said}</p>'))
    return cards


def _exact(true: float | None, half: float) -> str:
    """A true number, with more digits than its interval is worth: it is not rounded away."""
    if true is None:
        return "–"
    return f"{true:,.0f}" if float(true).is_integer() else figure(true, half / 100)


def _in_words(number: str) -> str:
    """`mean(fare)` for readers."""
    of, _, name = number.removesuffix(")").partition("(")
    return f"{'mean of' if of == 'mean' else 'total of'} {name.replace('_', ' ')}"


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
            wrong = blocks.bars([("n", 7, one["wrong"])]), blocks.bold(percent(one["wrong"]))
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
            bar = blocks.bars(marks, f"truth {true}\nsynthetic {made}")
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
    if u["habits"]:
        lead += ", and by how settled their habits are (users with at least five rows)"
    lead += "."
    lead += " Last, how often a row and the user's next row agree." if u["order"] else ""
    if not data["with_truth"]:
        lead += " These are synthetic users, made from released numbers."
        noise = [
            n for run in data["runs"] if run for n in run["noise"] or [] if n["label"] == HISTOGRAM
        ]
        for n in noise[:1]:
            lead += f" A bar is off by about {big(round(n['sigma'], 1))} users through noise."
    return section("users", (KEY if data["with_truth"] else "") + per_table(data, draw), lead)
