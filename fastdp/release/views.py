"""Views of the private table, as engines of their own: the same users, other rows
(`user_views.View`)."""

from collections.abc import Mapping, Sequence

import numpy as np

from ..domain import Clique
from ..engines import Counter
from ..errors import PrivacyError, UsageError
from ..numbers.sums_plan import SumsPlan
from ..schema import Schema
from ..user_views import VIEWS, View
from ..userkeys import UserKey


class ViewCounter:
    """`Counter` over the table that a view makes of an engine's table."""

    def __init__(self, engine: Counter, view: View, schema: Schema):
        self.engine = engine
        self.view = view
        self.schema = schema

    @property
    def has_users(self) -> bool:
        return self.engine.has_users

    def marginals(
        self,
        cliques: Sequence[Clique],
        clip: int | None,
        *,
        recode: Mapping[str, np.ndarray] | None = None,
        view: View | None = None,
    ) -> dict[Clique, np.ndarray]:
        if view is not None:
            raise UsageError("a view cannot be made of another view")
        return self.engine.marginals(cliques, clip, recode=recode, view=self.view)

    def user_histogram(self, key: UserKey, cap: int) -> np.ndarray:
        if self.view.per_user:
            raise UsageError("a view has one row per user, so it has no histograms of users")
        return self.engine.user_histogram(key, cap)

    def user_sums(self, plan: SumsPlan) -> np.ndarray:
        raise UsageError("numbers are asked of the table itself, not of a view")


def viewed(engine: Counter, view: View) -> ViewCounter:
    """The engine over a view. PrivacyError unless the view is one of `user_views.VIEWS`."""
    if type(view) not in VIEWS:
        raise PrivacyError("expected a view of fastdp.userkeys")
    schema = engine.schema
    domain = view.domain(engine.schema.domain)
    if view.per_user:
        return ViewCounter(engine, view, Schema.from_domain(domain))
    plain = schema.to_plain()
    group = Schema.from_domain({view.name: domain[view.name]}).to_plain()["columns"]
    return ViewCounter(
        engine, view, Schema.from_dict({**plain, "columns": {**plain["columns"], **group}})
    )
