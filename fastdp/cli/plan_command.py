"""The command that says what a run would measure, before any data is read."""

import sys
from typing import TYPE_CHECKING, Any

from ..errors import ModelTooLargeError, UsageError
from . import common
from .common import as_options, emit, say, warn
from .linked_options import rows_of
from .option_values import clip_of, epsilons, important_of, values_of
from .parser import command

if TYPE_CHECKING:
    from ..run.plan_result import Plan


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
    options = {
        "clip": clip_of(clip),
        "important": important_of(important, numbers),
        "max_cells": max_cells,
        "memory": None if memory is None else parse_bytes(memory),
        "numbers": numbers,
        "public": table,
        "rows": rows_of(rows),
        "threads": threads,
        "users": users,
        "values": lists,
    }
    of_series = None
    if series is not None or periods is not None:
        of_series = series_of(ledger, series, periods, epsilon, delta)
        epsilon = repr(of_series[0]["epsilon"])
        delta = of_series[0]["delta"]
    if epsilon is None:
        raise UsageError("required: -e/--epsilon (see: fastdp plan --help)")
    asked = epsilons(epsilon)
    plans = [make(schema, mechanism, e, delta, **options) for e in asked]
    for text in (*common.weak_promises(asked, delta), *common.refusals(asked, delta)):
        warn(f"warning: {text}")
    _print(plans, of_series, as_json)
    if refused := [p.too_large for p in plans if p.too_large]:
        warn(as_options(refused[0]))
        sys.exit(ModelTooLargeError.exit_code)


def _print(
    plans: list["Plan"], of_series: tuple[dict[str, Any], Any] | None, as_json: bool
) -> None:
    """Print one plan for each epsilon; of a series, also what its coming periods would have."""
    from ..run.series_horizon import horizon, horizon_lines

    if not as_json:
        for made in plans:
            say(as_options(str(made)))
        if of_series is not None:
            say("\n".join(horizon_lines(*of_series)))
    elif of_series is None:
        emit([made.to_dict() for made in plans])
    else:
        period = plans[0].to_dict()
        emit({"period": period, "series": of_series[0], "horizon": horizon(*of_series)})


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
