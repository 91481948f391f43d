"""What releases about users cost: their shares of mu^2, and their labels in the statement."""

import math

from ...division import ORDER_OF_ROWS, USERS, share_for_weight
from ...schema import Schema
from ..base import Config
from ..plans import Outline

CONSTANTS_LABEL = "users whose rows disagree"
FACTS_LABEL = "facts about users"
ORDER_LABEL = "order of users' rows"
ROWS_LABEL = "number of rows"
SIZES_LABEL = "rows per user in fine bins"
NULLS_LABEL = "rows without a user id"


def users_cost(config: Config, schema: Schema, public: bool) -> float:
    """The share of mu^2 that a run may spend on users, in addition to the mechanism's share."""
    auto = config.ids.source == "auto" and config.traits.users_by_default and not public
    wanted = auto or config.ids.source == "users"
    repeats = schema.user is not None and schema.max_rows_per_user != 1
    return math.fsum(shares(schema, config).values()) if wanted and repeats else 0.0


def shares(schema: Schema, config: Config) -> dict[str, float]:
    """What is released about users, by its share of mu^2: as declared, and raised where the owner
    says that users matter more than rows."""
    parts = USERS | ({ORDER_LABEL: ORDER_OF_ROWS} if schema.order else {})
    if config.important.users == 1:
        return parts
    whole = math.fsum(parts.values())
    factor = share_for_weight(whole, config.important.users) / whole
    return {what: factor * share for what, share in parts.items()}


def plan_charges(
    outline: Outline, schema: Schema, config: Config, cost: float
) -> tuple[tuple[str, float], ...]:
    """The charges of a mechanism's plan within what users leave it, and those of users."""
    own = tuple((what, share * (1 - cost)) for what, share in outline.charges)
    return own + tuple(shares(schema, config).items()) if cost else own
