"""Whether a statement agrees with the ledger that it refers to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..errors import LedgerError
from .chain import State
from .ledger_runs import Run
from .unit import Unit


def check_statement(state: State, hash_at: Callable[[int], str | None], statement: Mapping) -> None:
    """Raise LedgerError unless the statement's run is in the ledger, unchanged.

    hash_at: the hash of a record, by its number.
    """
    reference = statement.get("ledger")
    if not isinstance(reference, Mapping):
        raise LedgerError("the statement does not name a ledger")
    _check_reference(state, hash_at, reference)
    name = str(reference["run"])
    _check_claims(state.run(name), statement)
    _check_series(state, name, statement)


def _check_reference(
    state: State, hash_at: Callable[[int], str | None], reference: Mapping
) -> None:
    """Raise LedgerError if the statement refers to another ledger, to a later one, or to a chain
    that has changed since."""
    if reference.get("id") != state.id:
        raise LedgerError("the statement refers to another ledger")
    seq = reference.get("seq")
    if type(seq) is not int or not 0 < seq <= state.seq:
        raise LedgerError(
            "the ledger was rolled back: the statement refers to a later record than its last"
        )
    if hash_at(seq) != reference.get("hash"):
        raise LedgerError("the ledger and the statement disagree about the records before the run")
    state.run(str(reference.get("run")))


def _check_claims(run: Run, statement: Mapping) -> None:
    """Raise LedgerError if the statement claims another unit, other parts, or lists other releases,
    than the run was charged for."""
    parts = statement.get("parts")
    if parts is None and "event" not in statement:
        return  # a reference alone
    if parts is None:
        parts = [{"event": statement.get("event"), "releases": [{"event": statement.get("event")}]}]
    elif not _same_unit(run.unit, statement.get("unit")):
        raise LedgerError(
            "the statement names a different unit than the ledger's record of this run"
        )
    try:
        claimed = [p["event"] for p in parts], [[r["event"] for r in p["releases"]] for p in parts]
    except (KeyError, TypeError):
        raise LedgerError(
            "the statement does not state the charges of its parts and releases"
        ) from None
    drawn = [[e.to_dict() for e in run.drawn(i)] for i in range(len(run.parts))]
    charged = [e.to_dict() for e in run.parts], drawn
    if claimed != charged or statement["ledger"].get("dataset") != run.dataset:
        raise LedgerError(
            "the statement states a different charge than the ledger's record of this run"
        )


def _check_series(state: State, name: str, statement: Mapping) -> None:
    """Raise LedgerError if the statement lists other releases of its series than the ledger."""
    if "parts" in statement and statement.get("series") != state.series_facts(name):
        raise LedgerError(
            "the statement's series differs from the ledger's record of it, so that what it says "
            "of one user over all periods does not hold"
        )


def _same_unit(unit: Unit, stated: Any) -> bool:
    return (
        isinstance(stated, Mapping) and {k: stated.get(k) for k in unit.to_dict()} == unit.to_dict()
    )
