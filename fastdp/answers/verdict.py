"""The verdict on a table: what it is good for, what it is not for, and the figures behind it.

There is one judge. A plan hands it what it expects, a finished run what it released
(`precision`), and every place that shows a verdict shows these sentences: `plan`, `synth`,
`run.verdict`, the notebook, the page and the JSON.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from .._util.texttable import plural
from .precision import FAITHFUL, Amount, Precision

WARNING = "warning: most columns show little; use fewer or coarser columns, more rows, or a larger epsilon"
BOUNDED = "values beyond the bounds counted as the nearest one"
NAMED = 8
"""Columns that one sentence names."""
SINGLE_PEOPLE = "anything about one single person: no synthetic row belongs to a real one"


class Verdict(Struct, frozen=True):
    """What a table can show, in sentences for people.

    `headline` says it in one line; `good_for` and `not_for` are kinds of questions with the columns
    they hold for; `figures` are what both follow from. `warn`: most columns show little.
    """

    headline: str
    good_for: tuple[str, ...] = ()
    not_for: tuple[str, ...] = ()
    figures: tuple[str, ...] = ()
    warn: bool = False

    @property
    def lines(self) -> tuple[str, ...]:
        """All of it as lines of text."""
        if not self.headline:
            return ()
        good = [f"good for: {text}" for text in self.good_for]
        bad = [f"not for: {text}" for text in self.not_for]
        advice = [WARNING] if self.warn else []
        return (self.headline, *good, *bad, *advice, *self.figures)

    def __str__(self) -> str:
        return "\n".join(self.lines)

    def to_dict(self) -> dict[str, Any]:
        return {
            "headline": self.headline,
            "good_for": list(self.good_for),
            "not_for": list(self.not_for),
            "figures": list(self.figures),
            "warn": self.warn,
        }


NONE = Verdict("")
"""Of what nothing is known."""
GUESSED = (
    "guessed by Zipf's law: how frequent values are (the second half as frequent as the first, the third"
    " a third as frequent); the run says where they are otherwise"
)
LEARNT = "learnt by the run where a plan guesses otherwise: a typical row shares its value with"
NO_MODELS = "models: of unknown error; name a target before the run (target)"
NO_TARGET = "models: of unknown error; this mechanism cannot be told of a target, cliquetree can"
UNMEASURED = (
    "Unknown: no share of a single column is measured, so nothing says how far the rows are from the"
    " truth"
)


def judge(known: Precision) -> Verdict:
    """The verdict on what is known."""
    columns = known.columns
    if not columns:
        return _without_columns(known)
    noise = [one.names[0] for one in columns if one.noise]
    lost = [name for name in known.lost if name not in noise]
    clear = [one.names[0] for one in columns if one.clear and one.names[0] not in lost]
    rough = [c.names[0] for c in columns if c.names[0] not in {*noise, *lost, *clear}]
    good: list[str] = []
    bad: list[str] = []

    typical = float(np.median([one.half for one in columns]))
    if clear:
        own = [one.half for one in columns if one.names[0] in set(clear)]
        good.append(f"shares of single columns, to {_points(own)}: {listed(clear)}")
    if rough:
        own = [one.half for one in columns if one.names[0] in set(rough)]
        good.append(f"rough shares of the most frequent values, to {_points(own)}: {listed(rough)}")
    if noise:
        bad.append(f"values of {listed(noise)}: mostly noise")
    if lost:
        bad.append(f"values of {listed(lost)}: most rows lie outside the domain")
    if known.clip_warns:
        bad.append(f"shares of all rows: {known.clip}")
    for side, text in (*_pairs(known), *_amounts(known), *_people(known), *_more(known)):
        (good if side else bad).append(text)
    bad.append(SINGLE_PEOPLE)

    warn = 2 * len(noise + lost) > len(columns)
    if warn:
        word = "Mostly noise"
    elif 2 * len(clear) >= len(columns):
        word = "Usable"
    else:
        word = "Rough"
    among = ", among the rows that count," if known.clip_warns else ""
    headline = (
        f"{word}: a share of a single column{among} is known to {_points([typical])} (95 %),"
        f" {len(clear)} of {plural(len(columns), 'column')} clearly"
    )
    return Verdict(headline, tuple(good), tuple(bad), tuple(_figures(known, noise, lost)), warn)


def _without_columns(known: Precision) -> Verdict:
    """Of a run that counts users, not rows by column."""
    told = _told(known)
    good = [f"numbers asked for: {listed(told)}"] if told else []
    bad = ["shares, sums and means of rows: of unknown error", SINGLE_PEOPLE]
    return Verdict(UNMEASURED, tuple(good), tuple(bad))


Sided = tuple[bool, str]
"""Whether the table is good for it, and the sentence."""


def _pairs(known: Precision) -> Iterable[Sided]:
    if not known.of_pairs:
        return
    lost = set(known.lost)
    clear = [pair for pair in known.pairs if not pair.noise]
    seen = [pair for pair in clear if lost.isdisjoint(pair.names)]
    named = [" with ".join(pair.names) for pair in seen if pair.names]
    which = f": {listed(named)}" if named else ""
    if seen:
        most = "about " if known.pairs_chosen else ""
        count = f"{most}{len(seen)} of {plural(known.of_pairs, 'pair')} of columns"
        yield True, f"how columns go together, {count}, to {_points([p.half for p in seen])}{which}"
        if noisy := len(known.pairs) - len(clear):
            yield False, f"{plural(noisy, 'other measured pair')} of columns: mostly noise"
    elif len(clear) < len(known.pairs):
        yield False, "how columns go together: the measured pairs are mostly noise"
    if empty := len(clear) - len(seen):
        where = "most rows lie outside the domain of one of them"
        yield False, f"{plural(empty, 'measured pair')} of columns: {where}"
    rest = known.of_pairs - known.measured_pairs
    if rest <= 0:
        return
    if known.others is not None:
        which = " that count" if known.leaves_out else ""
        apart = f"; it does not tell apart merged values of {listed(known.merged)}"
        yield (
            known.others <= FAITHFUL and not known.merged,
            f"{plural(rest, 'pair')} of columns, not measured: the model has about"
            f" {known.others:.1%} of the rows{which} in a wrong cell{apart if known.merged else ''}",
        )
    elif known.others_told:
        how = "the run will say how far the model is from them"
        yield False, f"{plural(rest, 'pair')} of columns, not measured: {how}"
    elif known.measured_pairs:
        yield False, f"{plural(rest, 'pair')} of columns, not measured: of unknown error"
    else:
        yield False, "how columns go together: no pair is measured"


def _amounts(known: Precision) -> Iterable[Sided]:
    """Sums and means: numbers asked for beforehand first, then what the columns' bins tell."""
    if told := _told(known):
        yield True, f"numbers asked for: {listed(told)}"
    if wide := [one.name for one in known.asked if not one.clear]:
        yield False, f"numbers asked for, too wide to print: {listed(wide)}"
    kinds: dict[str, list[str]] = {}
    for one in known.amounts:
        if one.clear:
            said = f", {BOUNDED}" if one.bounded else ""
            said += ", unless most values are the lowest" if one.unless_low else ""
            kinds.setdefault(said, []).append(f"{one.name} ({_width(one)})")
    for said, means in kinds.items():
        yield True, f"means of numbers{said}: {listed(means)}"
    unclear = [one for one in known.amounts if not one.clear]
    known_width = [one.name for one in unclear if math.isfinite(one.half)]
    unknown = [one.name for one in unclear if one.name not in known_width]
    for names, how in ((known_width, "too wide"), (unknown, "of unknown error")):
        if names:
            ask = "ask for them before the run (numbers)"
            yield False, f"sums and means of {listed(names)}: {how}; {ask}"


def _told(known: Precision) -> list[str]:
    """Numbers that were asked for and are clear, with their widths."""
    return [f"{one.name} ({_width(one)})" for one in known.asked if one.clear]


def _people(known: Precision) -> Iterable[Sided]:
    people = known.people
    if people is None:
        return
    if people.facts and people.half <= 0.25:
        half = _points([people.half])
        yield True, f"questions about people, shares to {half}: {listed(people.facts)}"
    elif people.facts:
        yield False, "questions about people: what was released of users is mostly noise"
    elif people.kept:
        yield False, "questions about people beyond rows per user and what they repeat"
    else:
        yield False, "questions about people: which rows are of one user means little"
    if known.order:
        yield True, f"the order of a user's rows by {listed(known.order)}"
    else:
        yield False, "the order of a user's rows: no order is declared"


def _more(known: Precision) -> Iterable[Sided]:
    if known.target:
        yield True, f"models that predict {known.target}"
    elif known.of_pairs:
        yield False, NO_MODELS if known.takes_target else NO_TARGET


def _figures(known: Precision, noise: Sequence[str], lost: Sequence[str]) -> Iterable[str]:
    """The figures behind the sentences, in rows."""
    if known.rows is not None:
        rows = known.rows * float(np.median([one.half for one in known.columns]))
        at = f" {known.clip}" if known.clip.startswith("at ") else ""
        if math.isfinite(rows):
            yield f"single columns: a count is known within about {rows:,.0f} rows (95 %){at}"
    if noise:
        yield f"mostly noise, {len(noise)} of {len(known.columns)} columns: {listed(noise)}"
    if lost:
        of = f"{len(lost)} of {len(known.columns)} columns"
        yield f"values lost, {of}: most rows lie outside the domain of {listed(lost)}"
    wide = [pair.half for pair in known.pairs if math.isfinite(pair.half)]
    if known.of_pairs:
        most = "about " if known.pairs_chosen and known.measured_pairs else ""
        yield f"pairs: {most}{known.measured_pairs:,} of {known.of_pairs:,} are measured"
    if wide and known.rows is not None:
        half = float(np.median(wide))
        yield f"in measured pairs groups of at least {half * known.rows:,.0f} rows stand out"
        yield _effect(half)
    if known.clip and not known.clip_warns and not known.clip.startswith("at "):
        yield known.clip
    if known.guessed:
        yield GUESSED
    if known.learnt:
        found = [
            f"{one.typical:.1%} of the rows in {one.name} (guess {one.guessed:.1%})"
            for one in known.learnt
        ]
        yield f"{LEARNT} {listed(found)}"


def _effect(half: float) -> str:
    """The difference of two shares, each of half of the rows with an error of `half` of all of them,
    that would be seen."""
    share = 2 * math.sqrt(2) * half
    if share >= 1:
        return (
            "smallest effect: none; not even a share of 0 in one half of the table and 1 in the"
            " other"
        )
    points = rounded_up(100 * share)
    return (
        f"smallest effect: a share that differs by {points} points between two halves of the table"
    )


def _points(halves: Sequence[float]) -> str:
    """Half-widths of shares in percentage points, from the least to the most."""
    ends = sorted({rounded_up(100 * min(halves)), rounded_up(100 * max(halves))}, key=float)
    if ends[-1] == "inf":
        return "an unknown error"
    return f"±{' to '.join(ends)} points"


def _width(amount: Amount) -> str:
    shown = rounded_up(100 * amount.half)
    return f"±{shown} points" if amount.points else f"±{shown} %"


def rounded_up(value: float) -> str:
    """Two digits, rounded up, so that no width is shown smaller than it is."""
    if not math.isfinite(value):
        return "inf"
    if value <= 0:
        return "0"
    step = 10.0 ** (math.floor(math.log10(value)) - 1)
    return f"{math.ceil(value / step - 1e-9) * step:.6g}"


def listed(names: Sequence[str]) -> str:
    """The first names in one line, and how many more there are."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
