"""What a plan says of the numbers that a run is asked for."""

import math

from msgspec import Struct

from ..errors import UsageError
from ..mechanisms.base import Config
from ..numbers.stand_in import expected_widths
from ..schema import Schema
from .number_options import NumberOptions
from .plan_result import NumberLine
from .validate import check_asked


class NumberPlan(Struct, frozen=True):
    """`share`: of the mu^2 that private domains leave; `why` it is this much; `tails`: whether a total
    is among the numbers of which nobody declared a maximum per user."""

    share: float
    lines: tuple[NumberLine, ...]
    tails: bool
    why: str = ""


NO_NUMBERS = NumberPlan(0.0, (), False)


def number_plan(
    options: NumberOptions | None,
    schema: Schema,
    config: Config,
    delta: float,
    users: int | None,
    rows: int,
    whole: float,
    domains: float,
) -> NumberPlan:
    """The numbers' share of mu^2, and what to expect of each. `whole`: mu of the run; `domains`: the
    share of its square that private domains take."""
    if options is None:
        return NO_NUMBERS
    check_asked(options, schema, [config], delta)
    people = rows if schema.user is None else users
    if people is None:
        raise UsageError(
            "users= is missing: numbers need a public guess of the number of users, for example "
            "users=10_000 (--users 10000)"
        )
    typed = options.typed(schema.stand_in(), tuple(schema.unfinished))
    share = options.share_of(typed)
    mu = whole * math.sqrt((1 - domains) * share)
    most = whole * math.sqrt(1 - domains)
    widths = expected_widths(typed, options.declared(typed), float(people), mu, most)
    lines = [
        NumberLine(
            number=typed[w.number].text,
            share=w.share,
            low=w.low,
            high=w.high,
            unit=w.unit,
            capped=w.capped,
            note=w.note,
        )
        for w in widths
    ]
    tails = any(
        number.aggregate == "sum" and facts.maximum is None
        for number, facts in zip(typed, options.declared(typed), strict=True)
    )
    why = "as stated" if options.share is not None else "expected widths against the rows'"
    if options.important is not None:
        why += "; weights as stated (important)"
    return NumberPlan(share, tuple(lines), tails, why)
