"""Fills in what a user-count config leaves open, for a schema, an epsilon and a delta: columns, cap, levels,
law of the noise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ...errors import UsageError
from ...privacy.calibrate import mu_of_method
from .count_estimates import Noise

if TYPE_CHECKING:
    from ...schema import Schema
    from .mechanism import UserCounts


class Total(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Users by these columns only, measured with `share` of the budget (0: only added up from the groups)."""

    columns: tuple[str, ...]
    share: float = 0.0

    def __post_init__(self):
        if not 0 <= self.share < 1:
            raise ValueError("share must be at least 0 and below 1")


def resolve(config: UserCounts, schema: Schema, epsilon: float, delta: float) -> UserCounts:
    """The config with nothing left open; UsageError where unit, columns or noise make no sense for the
    schema."""
    if config.unit == "user" and schema.user is None:
        raise UsageError(
            'usercounts: unit = "user" needs a user column in the schema; without one only unit = "event" '
            "can be promised"
        )
    if config.unit == "event" and schema.user is not None and config.method == "hierarchy":
        raise UsageError(
            'usercounts: method = "hierarchy" counts people; use unit = "user" or another method'
        )
    columns = _columns(config, schema)
    cap = config.cap if config.cap is not None else schema.max_rows_per_user
    if config.unit == "event":
        cap = 1
    if cap is None:
        raise UsageError(
            "in how many groups may one user count? Give the recipe a `cap`, or the schema's user a "
            "`max_rows`"
        )
    clip = config.fixed_clip if config.fixed_clip is not None else schema.max_rows_per_user or cap
    config = msgspec.structs.replace(
        config, columns=columns, kind=columns[-1], cap=cap, clip=clip, totals=_totals(config, columns)
    )
    return msgspec.structs.replace(config, noise=_law(config, cap, epsilon, delta))


def _law(config: UserCounts, cap: int, epsilon: float, delta: float) -> str:
    """The law that the config sets; else Laplace, unless Gaussian noise has less variance in the groups'
    answers at this delta."""
    if config.noise == "gaussian" and delta == 0:
        raise UsageError('usercounts: noise = "gaussian" needs a delta above 0')
    if config.noise != "auto":
        return config.noise
    if delta == 0:
        return "laplace"
    share = config.shares()[0]
    laplace = Noise(True, cap, epsilon).std(share)
    gaussian = Noise(False, cap, mu_of_method(epsilon, delta, config.calibration)).std(share)
    return "laplace" if laplace <= gaussian else "gaussian"


def _columns(config: UserCounts, schema: Schema) -> tuple[str, ...]:
    """The columns a group is made of, `kind` last."""
    columns = schema.domain.check(config.columns if config.columns is not None else tuple(schema.domain))
    if not columns:
        raise UsageError("usercounts, field 'columns': at least one is needed")
    kind = config.kind or ([c for c in columns if c not in (config.year, config.month)] or columns)[-1]
    if kind not in columns:
        raise UsageError(f"usercounts, field 'kind': {kind!r} is not among the columns")
    for c in columns:
        if schema.columns[c].kind == "numeric":
            raise UsageError(f"usercounts: column {c!r} is numeric; group by columns whose values are listed")
    if config.output == "events" and set(columns) != set(schema.domain):
        raise UsageError('usercounts: output = "events" needs all columns of the schema in `columns`')
    return (*(c for c in columns if c != kind), kind)


def _totals(config: UserCounts, columns: tuple[str, ...]) -> tuple[Total, ...]:
    """The config's totals; else time by kind (many users in each total, so it gets little of the budget) and
    place by kind."""
    if config.totals is not None:
        for total in config.totals:
            if not total.columns or not set(total.columns) < set(columns):
                raise UsageError(
                    f"usercounts, field 'totals': {total.columns} must be some, not all, of {columns}"
                )
        return config.totals
    *others, kind = columns
    time = tuple(c for c in others if c in (config.year, config.month))
    place = tuple(c for c in others if c not in time)
    if time and place:
        return Total(columns=(*time, kind), share=0.05), Total(columns=(*place, kind), share=0.25)
    return (Total(columns=(kind,), share=0.05),) if others else ()
