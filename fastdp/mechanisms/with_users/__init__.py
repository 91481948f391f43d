"""A mechanism's run, and synthetic users who behave like users (docs/guide/users.md).

`user_questions` asks about users while the mechanism runs, and decides by the answers. Then
`chosen_users` makes users in three steps: a *pool* of users, dealt from the model's rows; a *table*
about users (`table_about_users`), released with the pool as a prior; the *choice* of whole users of the
pool. `user_budget` has the shares of mu^2, `user_demands` what a run can make. A table about users is
modelled by any mechanism that is a `table_model`.
"""

from msgspec.structs import replace

from ...errors import UsageError
from ...release.gateway import Session
from ...users.dealing import SAMPLE_ROWS
from ...users.rates import chance
from .. import registry
from ..base import Config, Job, Outcome
from ..shared.model_rows import ModelRows
from .chosen_users import with_chosen_users
from .table_model import TableModel
from .user_budget import NULLS_LABEL, ROWS_LABEL, plan_charges, users_cost
from .user_demands import check_users, group_column
from .user_questions import UserQuestions

__all__ = [
    "NULLS_LABEL",
    "ROWS_LABEL",
    "check_users",
    "group_column",
    "plan_charges",
    "run_with_users",
    "users_cost",
]


def run_with_users(
    config: Config, session: Session, job: Job, tables: TableModel | None = None
) -> Outcome:
    """The mechanism's outcome; where users are asked for, with the dealer of its rows. `tables`: models
    tables about users; the default mechanism if it is left out."""
    cost = users_cost(config, job.schema, job.public is not None)
    if not cost:
        return config.run(session, job)
    model = registry.get(registry.DEFAULT)() if tables is None else tables
    asked = UserQuestions(config, session, job, cost, model)
    rows, of_rows = asked.rows()
    outcome = config.run(rows, replace(of_rows, after_ones=asked.after_ones))
    if not isinstance(outcome.rows, ModelRows):
        raise UsageError(
            f'ids.source = "users": {config.name} can make its rows only once; use "auto"'
        )
    if asked.decided is None:
        some = outcome.rows.plain().some(min(outcome.rows.total, SAMPLE_ROWS), job.seed)
        asked.ask(dict(zip(session.domain, chance(some, tuple(session.domain)))))
    return with_chosen_users(asked, outcome)
