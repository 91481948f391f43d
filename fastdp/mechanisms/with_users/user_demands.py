"""Users that a run can make: what is asked of config and schema, before anything is charged."""

from ...errors import UsageError
from ...numbers.user_features import check_features
from ...schema import Schema
from ...schema.constraints import columns_of
from ...users.order import MOST_TIMES
from ..base import Config
from ..plans import ROWS_PER_USER

GROUP = "rows of the user"


def check_users(config: Config, schema: Schema) -> None:
    """Raise UsageError if users are asked for that this run cannot make."""
    if config.ids.source == "users" and (
        not config.deals_ids or config.pure or config.unit != "user"
    ):
        needs = 'a mechanism that makes rows first, with Gaussian noise and unit "user"'
        raise UsageError(f'ids.source = "users" needs {needs}; use "auto" with this {config.name}')
    likely = schema.stand_in()
    check_features(likely)
    order = likely.order_columns
    for name in order:
        if name not in likely.modelled:
            raise UsageError(
                f"column {name!r}: it is computed from others, so rows cannot be in its order"
            )
    if order and likely.domain.cells(order) >= MOST_TIMES:
        names = ", ".join(order)
        raise UsageError(
            f"user, field 'order': {names} have 2^32 combinations or more; use coarser parts"
        )
    constant = {name for name, role in likely.of_users().items() if role == "constant"}
    for name in sorted(
        constant & constrained_columns(likely) - set(followed_columns(likely).values())
    ):
        raise UsageError(
            f'column {name!r}: remove user = "constant", since it takes part in a constraint'
        )


def constrained_columns(schema: Schema) -> set[str]:
    """The columns that constraints name."""
    return {name for c in schema.constraints for name in columns_of(schema, c)}


def followed_columns(schema: Schema) -> dict[str, str]:
    """Columns, each with the one column that it follows from, of which no other constraints name
    either."""
    named = [columns_of(schema, c) for c in schema.constraints]
    alone = [n for n, c in zip(named, schema.constraints) if c.column and len(n) == 2]
    return {
        b: a
        for a, b in alone
        if all((n in alone and n[0] == a) or not {a, b} & set(n) for n in named)
    }


def group_column(schema: Schema, of_users: bool) -> str:
    """The column of groups of users that a view has in addition to those of the schema."""
    name = ROWS_PER_USER if of_users else GROUP
    while name in schema.domain:
        name += "_"
    return name
