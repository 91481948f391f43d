"""A mechanism's run, and synthetic users who behave like users (docs/guide/users.md).

`user_questions` asks about users while the mechanism runs, and decides by the answers. Then
`chosen_users` makes users in three steps: a *pool* of users, dealt from the model's rows; a *table*
about users (`table_about_users`), released with the pool as a prior; the *choice* of whole users of the
pool. `user_budget` has the shares of mu^2, `user_demands` what a run can make. A table about users is
modelled by any mechanism that is a `table_model`.
"""

from collections.abc import Callable, Sequence

from ...errors import UsageError
from ...measurement import Measurement
from ...release.gateway import Session
from ...users.rates import chance
from ...users.trials import SAMPLE_ROWS
from .. import registry
from ..base import Config, Job, Outcome, run_checked, run_in_parts
from ..shared.model_rows import ModelRows
from .chosen_users import with_chosen_users
from .table_model import TableModel
from .user_budget import (
    NULLS_LABEL,
    ROWS_LABEL,
    plan_charges,
    shares as user_shares,
    users_cost,
)
from .user_demands import check_users, group_column
from .user_questions import UserQuestions

__all__ = [
    "NULLS_LABEL",
    "ROWS_LABEL",
    "check_users",
    "group_column",
    "plan_charges",
    "run_with_users",
    "user_shares",
    "users_cost",
]


def run_with_users(
    config: Config,
    session: Session,
    job: Job,
    check: Callable[[Sequence[Measurement]], None],
    tables: TableModel | None = None,
) -> Outcome:
    """The mechanism's outcome; where users are asked for, with the dealer of its rows. `check` sees the
    noisy 1-ways and raises `StoppedEarly` if the run should end there. `tables`: models tables about
    users; the default mechanism if it is left out."""
    cost = users_cost(config, job.schema, job.public is not None)
    if not cost:
        return run_checked(config, session, job, check)
    model = registry.get(registry.DEFAULT)() if tables is None else tables
    asked = UserQuestions(config, session, job, cost, model)
    rows, of_rows = asked.rows()

    def between(ones: Sequence[Measurement]) -> float:
        of_columns = [m for m in ones if set(m.clique) <= set(session.domain)]
        check(of_columns)
        return asked.ask_by(of_columns)

    outcome = run_in_parts(config, rows, of_rows, between)
    if not isinstance(outcome.rows, ModelRows):
        raise UsageError(
            f'ids.source = "users": {config.name} can make its rows only once; use "auto"'
        )
    if asked.decided is None:
        some = outcome.rows.plain().some(min(outcome.rows.total, SAMPLE_ROWS), job.seed)
        asked.ask(chance(some, tuple(session.domain)))
    return with_chosen_users(asked, outcome)
