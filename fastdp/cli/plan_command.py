"""The command that says what a run would measure, before any data is read."""

import sys
from typing import Any

from ..errors import ModelTooLargeError, UsageError
from . import common
from .common import as_options, emit, say, warn
from .linked_options import rows_of
from .option_values import clip_of, epsilons, important_of, values_of
from .parser import command


@command("plan")
def plan(
    epsilon: str | None = None,
    delta: float = 1e-9,
    mechanism: str = "auto",
    schema: str | None = None,
    rows: str | None = None,
    users: int | None = None,
    public: str | None = None,
    dialect: str | None = None,
    clip: str | None = None,
    max_cells: int | None = None,
    memory: str | None = None,
    threads: int | None = None,
    numbers: list[str] | None = None,
    important: list[str] | None = None,
    values: list[str] | None = None,
    ledger: str | None = None,
    series: str | None = None,
    periods: int | None = None,
    as_json: bool = False,
) -> None:
    """What a run would measure: noise per cell, detectable counts, model size, memory, time. Needs
    no data.

    Exit code 8 means that the model may exceed its limit: such a run would be refused.
    """
    common.check_paths(public, schema=schema)
    from ..mechanisms.limits.size_limits import parse_bytes
    from ..run.plan import plan as make, public_table

    style = common.dialect_of(dialect)
    lists = values_of(values)
    table: Any = False
    if public is not None:
        table = public_table(public, schema, mechanism, threads, style, lists)
    limits: dict[str, Any] = {"clip": clip_of(clip), "max_cells": max_cells, "threads": threads}
    limits["memory"] = None if memory is None else parse_bytes(memory)
    limits |= {"rows": rows_of(rows), "users": users, "public": table, "numbers": numbers}
    limits["values"] = lists
    limits["important"] = important_of(important, numbers)
    of_series = None
    if series is not None or periods is not None:
        of_series = series_of(ledger, series, periods, epsilon, delta)
        epsilon = repr(of_series[0]["epsilon"])
        delta = of_series[0]["delta"]
    if epsilon is None:
        raise UsageError("required: -e/--epsilon (see: fastdp plan --help)")
    asked = epsilons(epsilon)
    plans = [make(schema, mechanism, e, delta, **limits) for e in asked]
    for text in (*common.weak_promises(asked, delta), *common.refusals(asked, delta)):
        warn(f"warning: {text}")
    if as_json and of_series is not None:
        from ..run.series_horizon import horizon

        facts, budget = of_series
        coming = horizon(facts, budget)
        emit({"period": plans[0].to_dict(), "series": facts, "horizon": coming})
    elif as_json:
        emit([p.to_dict() for p in plans])
    else:
        for p in plans:
            say(as_options(str(p)))
    if of_series is not None and not as_json:
        from ..run.series_horizon import horizon_lines

        facts, budget = of_series
        say("\n".join(horizon_lines(facts, budget)))
    if refused := [p.too_large for p in plans if p.too_large]:
        warn(as_options(refused[0]))
        sys.exit(ModelTooLargeError.exit_code)


def series_of(
    ledger: str | None,
    series: str | None,
    periods: int | None,
    epsilon: str | None,
    delta: float,
) -> tuple[dict[str, Any], Any]:
    """(facts, budget) of a series in a ledger, or of one that is not open yet: of so many periods,
    with epsilon for one user over all of them."""
    from ..privacy.budget import Budget
    from ..privacy.ledger import Ledger
    from ..run.series_horizon import planned_series

    if series is None:
        lifetime = None if epsilon is None else epsilons(epsilon)
        if lifetime is None or len(lifetime) != 1:
            raise UsageError("--periods needs --epsilon: the lifetime budget of one user")
        return planned_series(lifetime[0], delta, periods)
    if ledger is None or periods is not None or epsilon is not None:
        raise UsageError("--series needs --ledger, and takes epsilon and periods from it")
    book = Ledger(ledger)
    facts = book.series(series)
    if facts is None:
        raise UsageError(f"data set {series!r} is not a series (see: fastdp ledger open --periods)")
    return facts, Budget.from_dict(book.datasets()[series])
