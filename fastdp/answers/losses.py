"""What a run left out, lost or did not measure, in words: from its statement and released numbers
alone."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from .best_linear import estimate
from .clipping import Z95
from .facts import Facts
from .verdict import listed

LEAST = 0.001
"""A loss of a smaller share of the rows is not named."""

Statement = Mapping[str, Any]


def losses(facts: Facts, statement: Statement, makes_users: bool = False) -> list[tuple[str, str]]:
    """(topic, sentence) pairs: rows, values, pairs, users. `makes_users`: as in `kept_of_users`."""
    out = [("rows", text) for text in _rows(facts)]
    out += [("values", text) for text in _values(facts)]
    out += [("pairs", text) for text in _pairs(facts, statement)]
    return out + [
        ("users", text) for text in kept_of_users(facts.schema.user, statement, makes_users)
    ]


def _rows(facts: Facts) -> list[str]:
    out = []
    clip = facts.clipping
    if clip.text:
        out.append(f"{clip.text[0].upper()}{clip.text[1:]}.")
    if clip.known and clip.lost > LEAST:
        out.append(
            "These are rows of users with many. Intervals allow for them; the synthetic rows do"
            " not."
        )
    kinds = (("null", "a missing value"), ("overflow", "a value outside the schema"))
    fields = facts.schema.fields.items()
    dropped = {
        what: [n for n, f in fields if getattr(f, which).action == "drop"] for which, what in kinds
    }
    for what, names in dropped.items():
        if names:
            out.append(
                f"Rows with {what} in {listed(names)} were dropped; nothing says how many there"
                " were."
            )
    return out


def _values(facts: Facts) -> list[str]:
    out = []
    other = []
    merged = []
    alone = []
    for name in facts.schema.modelled:
        column = facts.schema.columns[name]
        found = _shares(facts, name)
        if found is None:
            continue
        share, errors = found
        code = column.overflow_target
        if code is not None and share[code] > max(LEAST, Z95 * errors[code]):
            other.append((min(1.0, float(share[code])), name))
        codes = facts.codes.get(name)
        if codes is None:
            continue
        together = np.bincount(codes)[codes] > 1
        if int(codes.max()) == 0 and column.size > 1:
            alone.append(name)
        elif together.any():
            merged.append((min(1.0, share[together].sum()), name, int(together.sum()), column.size))
    if other:
        names = [f"{name} ({share:.1%} of the rows)" for share, name in sorted(other, reverse=True)]
        out.append(
            f"Values that the schema does not list count as one value: {listed(names)} have it."
        )
    if merged:
        merged.sort(reverse=True)
        names = [f"{n} ({k} of {size}, {s:.1%} of the rows)" for s, n, k, size in merged]
        how = "How they go with other columns is not kept."
        out.append(
            f"Rare or neighbouring values were counted together in pairs: {listed(names)}. {how}"
        )
    if alone:
        out.append(
            f"Nothing but noise: {listed(alone)}. These columns are unrelated to all others."
        )
    fields = facts.schema.fields
    clamped = [n for n, f in fields.items() if f.overflow.action == "clamp"]
    if clamped:
        out.append(f"Values beyond the bounds count as the nearest one: {listed(clamped)}.")
    binned = [n for n, f in fields.items() if f.binned]
    if binned:
        out.append(f"Only bins were counted, and values are spread over them: {listed(binned)}.")
    return out


def _shares(facts: Facts, name: str) -> tuple[np.ndarray, np.ndarray] | None:
    """The share of each code and its standard error; None if the column was not measured."""
    table = facts.table((name,))
    total = 0.0 if table is None else float(table.x.sum())
    if table is None or table.known is not None or not total > 0:
        return None
    (codes,) = table.maps
    together = np.bincount(codes)[codes] * total
    return (
        np.maximum(table.x, 0.0)[codes] / together,
        np.sqrt(table.cell_variances())[codes] / together,
    )


def _pairs(facts: Facts, statement: Statement) -> list[str]:
    pairs = math.comb(len(facts.schema.modelled), 2)
    if not pairs:
        return []
    measured = facts.measured_pairs()
    out = [f"{len(measured):,} of {pairs:,} pairs of columns were measured."]
    rest = {s: d for s, d in facts.distances.items() if len(s) == 2 and s not in measured}
    total = estimate(facts.marginals, ())
    if rest and total is not None and total.x[0] > 0:
        worst = max(rest, key=lambda s: rest[s])
        share = {s: min(1.0, d / 2 / float(total.x[0])) for s, d in rest.items()}
        which = " that count" if facts.clipping.leaves_out else ""
        out.append(
            f"The others follow from the model, which has about {np.mean(list(share.values())):.1%}"
            f" of the rows{which} in a wrong cell of them, at worst {share[worst]:.1%}"
            f" ({' with '.join(sorted(worst))})."
        )
    elif len(measured) < pairs:
        out.append(
            "The others follow from the model; nothing says how far they are from the truth."
        )
    mechanism = statement.get("mechanism")
    left = mechanism.get("left_out") if isinstance(mechanism, Mapping) else None
    if left:
        sets = [" with ".join(map(str, s)) for s in left if isinstance(s, list)]
        out.append(f"Too large to be measured: {listed(sets)}.")
    larger = sum(len(m.axes) > 2 for m in facts.marginals)
    larger += sum(len(columns) > 2 for columns in facts.contrasts)
    none = "No set of three columns was measured: what three columns do together is a guess."
    some = (
        f"{larger:,} sets of three columns or more were measured; what others do together is a"
        " guess."
    )
    out.append(some if larger else none)
    return out


def kept_of_users(user: str | None, statement: Statement, makes_users: bool = False) -> list[str]:
    """What synthetic users keep of true ones, and what they do not. Nothing is said if the
    mechanism makes whole users (`makes_users`) instead of dealing rows to them."""
    mechanism = statement.get("mechanism")
    config = mechanism.get("config") if isinstance(mechanism, Mapping) else None
    source = ((config or {}).get("ids") or {}).get("source")
    if user is None or not isinstance(mechanism, Mapping) or source == "none":
        return []
    roles = mechanism.get("users")
    if isinstance(roles, Mapping):
        constant, *own = (
            [str(v) for v in roles.get(k) or ()] for k in ("constant", "repeated", "avoided")
        )
        repeated = own[0] + own[1]
        free = [n for n in roles.get("agreement", ()) if n not in (*constant, *repeated)]
        kept = ["rows per user"]
        kept += [f"one value per user in {listed(constant)}"] if constant else []
        kept += [f"how often two rows of a user agree in {listed(repeated)}"] if repeated else []
        order = roles.get("order")
        chains = [f"{x} and the next row's {y}" for x, y in (order or {}).get("chains", ())]
        kept += [f"the order of their rows by {listed(order['columns'])}"] if order else []
        kept += [f"how often {listed(chains)} agree"] if chains else []
        lost = [] if order else ["how one row follows from the last"]
        lost += ["which columns a user repeats together"]
        lost += [f"what a user does in {listed(free)}"] if free else []
        return [f"Synthetic users keep {', '.join(kept)}.", f"They do not keep {', '.join(lost)}."]
    if makes_users:
        return []
    if statement.get("public_data") and source != "private":
        return [
            "Synthetic users have the habits of users in the public data, not those of true users."
        ]
    random = (
        "Which rows are of one user is random: habits, sequences and values per user mean nothing."
    )
    return [f"Synthetic users keep the number of rows per user. {random}"]
