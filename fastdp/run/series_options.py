"""A run of a series: its unit, epsilon, delta and data set come from the ledger."""

from dataclasses import replace
from typing import Any

from ..errors import UsageError
from ..privacy.ledger import Ledger
from ..schema import Schema
from ..schema.periods import Period, code_of
from ..tables.sources.source import Source
from .spec import DEFAULT_DELTA, RunOptions


def with_series(
    epsilon: Any, delta: Any, options: RunOptions
) -> tuple[Any, Any, RunOptions, Period | None]:
    """(epsilon, delta, options, period) of a run.

    In a series, epsilon and delta are the ledger's share for one period unless the caller gave
    them, and `dataset` is the series. For other runs all stays as it is, and the period is None.
    UsageError if the options contradict each other or the ledger.
    """
    name = options.series
    if name is None:
        for option, unset in (("period", None), ("late", False)):
            if getattr(options, option) is not unset:
                raise UsageError(f"{option}= is for a release of a series; give series= too")
        return epsilon, delta, options, None
    if not isinstance(name, str):
        raise UsageError(f"series: expected the name of a series in the ledger, got {name!r}")
    if options.ledger is None:
        raise UsageError("series= names a series of a ledger, so it needs ledger=")
    if options.dataset is not None and str(options.dataset) != name:
        raise UsageError("series= names the data set of the ledger; leave dataset= out")
    book = options.ledger if isinstance(options.ledger, Ledger) else Ledger(options.ledger)
    facts = book.series(name)
    unit = book.unit(name)
    if facts is None or unit is None:
        raise UsageError(
            f"data set {name!r} is not a series; open one with a number of periods (`fastdp ledger "
            "open ... --periods`, or Ledger.open(..., periods=...))"
        )
    if options.period is None:
        raise UsageError(f"period= is missing: name the {facts['period']} to release")
    code_of(facts["period"], options.period)
    epsilon = facts["epsilon"] if epsilon is None else epsilon
    delta = facts["delta"] if delta is DEFAULT_DELTA else delta
    return epsilon, delta, replace(options, dataset=name), unit.period_of_rows(options.period)


def in_series(schema: Schema, period: Period | None, table: Source) -> Schema:
    """The schema by which a release of a series reads the rows of its period alone; without a
    series, the schema as it is."""
    if period is None:
        return schema
    if table.schema is not None:
        if schema.period != period:
            raise UsageError(
                "series=: the table was read before, without the series' unit; give the source itself"
            )
        return schema
    if schema.period is not None and schema.period.during(None) != period.during(None):
        raise UsageError(
            f"series=: the schema's unit is {schema.period.during(None).to_plain()}, that of the "
            f"series is {period.during(None).to_plain()}; remove the schema's"
        )
    return schema.with_period(period)
