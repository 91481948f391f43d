"""What releases about users cost: their shares of mu^2, and their labels in the statement."""

import math

from ...schema import Schema
from ..base import Config
from ..plans import Outline

SHARES = {
    "agreement rates": 0.06,
    "number of rows": 0.023,
    "rows without a user id": 0.002,
    "table of users": 0.03,
}
CONSTANTS_LABEL = "users whose rows disagree"
FACTS_LABEL = "facts about users"
FACTS_SHARE = 0.06
SHARES |= {CONSTANTS_LABEL: 0.01, FACTS_LABEL: FACTS_SHARE}
"""Shares of mu^2 (chosen on flights, Chicago trips and simulated trips). Of the first only a part,
and the third, are spent where users repeat nothing; of constants what a standard error of .01 needs,
and nothing where no column can be constant; the last, the table about users, where it is not
noise."""
ORDER_LABEL = "order of users' rows"
ORDER_SHARE = 0.02
"""The share where the schema declares an order (chosen on Chicago trips)."""
ROWS_LABEL = "number of rows"
SIZES_LABEL = "rows per user in fine bins"
NULLS_LABEL = "rows without a user id"


def users_cost(config: Config, schema: Schema, public: bool) -> float:
    """The share of mu^2 that a run may spend on users, in addition to the mechanism's share."""
    auto = config.ids.source == "auto" and config.traits.users_by_default and not public
    wanted = auto or config.ids.source == "users"
    repeats = schema.user is not None and schema.max_rows_per_user != 1
    return math.fsum(shares(schema).values()) if wanted and repeats else 0.0


def shares(schema: Schema) -> dict[str, float]:
    """What is released about users, by its share of mu^2."""
    ordered = {ORDER_LABEL: ORDER_SHARE} if schema.order else {}
    return SHARES | ordered


def plan_charges(outline: Outline, schema: Schema, cost: float) -> tuple[tuple[str, float], ...]:
    """The charges of a mechanism's plan within what users leave it, and those of users."""
    own = tuple((what, share * (1 - cost)) for what, share in outline.charges)
    return own + tuple(shares(schema).items()) if cost else own
