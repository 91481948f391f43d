"""Partial rows completed: codes drawn given what is known, decoded, and checked against the
constraints."""

from __future__ import annotations

from collections.abc import Callable, Collection

import numpy as np

from .._util.lazy import pa
from ..codec.decode import decode
from ..codec.per_user import drawn_fields, once_for_each_user
from ..codec.possible import compiled_constraints
from ..codec.violations import broken_codes, count_violations, rows_with_broken_codes
from ..errors import DataError
from ..schema import Schema
from .conditions import pin_numbers
from .frames import Given, disagreeing, with_given
from .known_rows import Codes, Known, Law

TRIES = 64
"""How often a row is drawn again whose computed column was given and came out differently. Only
columns that are computed from several others need it."""

Draw = Callable[[Known], tuple[Codes, np.ndarray]]
"""Draws rows: (codes of all columns, log probability of what is known of each row)."""


def complete_rows(
    law: Law,
    given: Given,
    seed: int,
    *,
    draw: Draw | None = None,
    outputs: bool = False,
    threads: int | None = None,
    users: tuple[np.ndarray, Collection[str]] | None = None,
) -> pa.Table:
    """Whole rows as values, without users. `draw`: how codes are drawn at first, if not from the law
    row by row. `users`: the number of each row's user, and the columns that are constant for a user.
    DataError names the first given row that no row within the constraints has."""
    codes = complete_codes(law, given, seed, draw, threads)
    return completed_values(
        law.schema, given, codes, seed, outputs=outputs, threads=threads, users=users
    )


def complete_codes(
    law: Law,
    given: Given,
    seed: int,
    draw: Draw | None = None,
    threads: int | None = None,
) -> Codes:
    """The codes of whole rows; see `complete_rows`."""
    schema = law.schema

    def row_by_row(known: Known, stream: str) -> tuple[Codes, np.ndarray]:
        return law.draw(known, seed, stream, threads)

    codes, logs = row_by_row(given.known, "") if draw is None else draw(given.known)
    lost = np.flatnonzero(~np.isfinite(logs))
    if len(lost) and given.open:
        again, found = row_by_row(given.relaxed(lost), "null")
        for name, column in codes.items():
            column[lost] = again[name]
        lost = lost[~np.isfinite(found)]
    if len(lost):
        raise DataError(_impossible(schema, given, int(lost[0]), len(lost)))
    return _agreeing(schema, given, codes, row_by_row)


def completed_values(
    schema: Schema,
    given: Given,
    codes: Codes,
    seed: int,
    *,
    outputs: bool = False,
    threads: int | None = None,
    users: tuple[np.ndarray, Collection[str]] | None = None,
) -> pa.Table:
    """The values of completed rows; DataError if given numbers break a constraint."""
    pin_numbers(schema, given, codes, seed)
    whole = compiled_constraints(schema).complete(codes) if schema.constraints else codes
    rows = decode(schema, whole, seed, outputs=outputs, threads=threads, pinned=given.pinned)
    if users is not None:
        owner, constant = users
        fields = drawn_fields(schema, constant)
        rows = once_for_each_user(schema, fields, rows, whole, owner, seed, 0)
    rows = with_given(rows, given)
    if schema.constraints and (broken := count_violations(schema, rows)):
        listed = [f"{n + 1} ({schema.constraints[n].text})" for n, count in broken.items() if count]
        if listed:
            # A model that holds the columns of a constraint apart gives such rows a probability, and
            # what was drawn for them was moved to fit.
            known = given.known.codes
            asked = {
                a: np.where(known[a] >= 0, known[a], c) if a in known else c
                for a, c in whole.items()
            }
            lost = rows_with_broken_codes(schema, asked)
            if len(lost) and _broken_as_given(schema, given, int(lost[0])):
                raise DataError(_impossible(schema, given, int(lost[0]), len(lost)))
            raise DataError(
                f"the given values do not fit constraint {', '.join(listed)} in "
                f"{max(broken.values()):,} rows; correct them, or leave one of the columns out"
            )
    return rows


def _agreeing(
    schema: Schema,
    given: Given,
    codes: Codes,
    draw: Callable[[Known, str], tuple[Codes, np.ndarray]],
) -> Codes:
    """The codes, where rows whose given computed columns came out differently are drawn again."""
    if not given.codes:
        return codes
    rules = compiled_constraints(schema)
    for attempt in range(TRIES):
        wrong = np.flatnonzero(disagreeing(schema, given, rules.complete(codes)))
        if not len(wrong):
            return codes
        again, _ = draw(given.known.of_rows(wrong), f"again {attempt}")
        for name, column in codes.items():
            column[wrong] = again[name]
    names = ", ".join(given.codes)
    raise DataError(
        f"row {wrong[0] + 1}: no row was found whose computed columns ({names}) have the given values; "
        "leave these columns out, or give the columns that they are computed from"
    )


def _given_codes(given: Given, row: int) -> Codes:
    return {a: c[row : row + 1] for a, c in given.known.codes.items() if c[row] >= 0}


def _broken_as_given(schema: Schema, given: Given, row: int) -> list[int]:
    """Numbers of the constraints that the given codes of a row break by themselves."""
    return broken_codes(schema, _given_codes(given, row)) if schema.constraints else []


def _impossible(schema: Schema, given: Given, row: int, count: int) -> str:
    known = _given_codes(given, row)
    broken = _broken_as_given(schema, given, row)
    more = f" (and {count - 1:,} more)" if count > 1 else ""
    if broken:
        listed = ", ".join(f"{n + 1} ({schema.constraints[n].text})" for n in broken)
        return f"row {row + 1}{more}: its values break constraint {listed}; correct them, or make one null"
    names = ", ".join(known) or "its columns"
    return (
        f"row {row + 1}{more}: no row can have these values of {names} together, by the schema's "
        "constraints; correct them, or make one null"
    )
