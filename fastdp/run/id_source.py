"""Where the rows of an outcome get their user ids from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..mechanisms.base import Config, Outcome
from ..privacy.clip import PRIVATE, choice_bound, size_edges
from ..rows_per_user import RowsPosterior, mean_rows
from ..schema import Schema
from .output import IdSource

if TYPE_CHECKING:
    from ..public.data import PublicTable


def id_source(
    schema: Schema, outcome: Outcome, own: Config, public: PublicTable | None
) -> IdSource | None:
    """Where the rows' user ids come from; None: no id column."""
    if schema.user is None or own.ids.source == "none" or outcome.owners is not None:
        return None
    if outcome.counts is not None:
        return None
    if outcome.dealer is not None:
        return IdSource(dealer=outcome.dealer)
    bound = schema.max_rows_per_user
    if public is not None and own.ids.source != "private":
        columns = outcome.id_columns if own.ids.columns is None else own.ids.columns
        return IdSource(habits=public.habits(columns), bound=bound)
    if bound is None and own.clip == PRIVATE:
        bound = choice_bound(schema)  # of the histogram that the clip was chosen from
    if outcome.users is None or bound is None:
        return None
    errors = np.sqrt(outcome.users.variances)
    found = RowsPosterior.of(size_edges(bound), outcome.users.values, errors, bound)
    sizes, users = (np.array(x) for x in found.points())
    if not users.sum() > 0:  # nothing stands out of the noise: bins count alike
        sizes = mean_rows(found.edges, bound)
        users = np.zeros(len(found.edges))
    return IdSource(sizes=np.rint(sizes).astype(np.int64), users=users, bound=bound)
