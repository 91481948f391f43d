"""The last release of a series as a prior: its synthetic rows, tested privately as public data is.

An earlier release was charged when it was made, so whatever depends on it costs nothing more
(docs/explain/user-periods.md). Nothing in it is trusted. Where the screening round of a mechanism
finds that a marginal differs, the marginal is measured as if there were no prior.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ..errors import DataError, UsageError
from ..mechanisms.base import Config
from ..mechanisms.registry import names_where
from ..schema import Schema
from ..tables.ingest import read
from .loading import load_run
from .result import Run

if TYPE_CHECKING:
    from ..public.data import PublicTable


def previous_run(given: Any, public: Any, configs: tuple[Config, ...], seeded: bool) -> Run | None:
    """The run that `previous=` names, by its folder or as an object; None without one. UsageError
    if this run cannot use it."""
    if given is None:
        return None
    if not isinstance(given, str | os.PathLike | Run):
        raise UsageError(f"previous: expected a run or its folder, got {type(given).__name__}")
    if public is not None:
        raise UsageError("previous= and public= are both starts of the model; give one of them")
    if not all(config.traits.takes_prior for config in configs):
        able = ", ".join(names_where(lambda traits: traits.takes_prior))
        raise UsageError(f"previous= needs a mechanism that tests a prior: {able}")
    run = load_run(given)
    if not isinstance(run, Run):
        raise UsageError("previous: linked tables cannot be the prior of one table")
    if not run.privacy.get("private") and not seeded:
        raise UsageError(
            "previous: that run protects nobody, because a seed fixed its noise; what depends on it "
            "would not be protected either"
        )
    return run


def read_previous(run: Run | None, schema: Schema, threads: int | None) -> PublicTable | None:
    """The rows of the last release under the schema of this run."""
    if run is None:
        return None
    from ..public.data import PublicTable

    try:
        table = read(run.data, schema.without_users(), public=True, threads=threads)
    except DataError as error:
        raise UsageError(f"previous: its rows do not fit the schema of this run: {error}") from None
    return PublicTable(table)


def previous_entry(run: Run) -> dict[str, Any]:
    """What the statement says of the prior."""
    entry = {"run": run.privacy["ledger"]["run"], "use": "starts of marginals, tested privately"}
    series = run.privacy.get("series")
    return entry if series is None else entry | {"period": series["period"]}
