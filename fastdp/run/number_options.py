"""The numbers that a run is asked for: a list of questions, or a table with what is declared of them.

In a recipe: `numbers = ["sum(amount)"]`, or a table `[numbers]` with `list`, `share` (of mu^2), `max`
(per user) and `signed`. `max` and `signed` hold for all numbers, or are tables by question. All of
it is public, and checked before anything is charged.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from typing import Any

import msgspec
from msgspec import Struct, structs

from .._util.invalid import explain_invalid
from ..errors import UsageError, did_you_mean
from ..important import Important
from ..numbers import language, number_text
from ..numbers.allocation import default_share
from ..numbers.declared import Declared
from ..numbers.measure_numbers import check_numbers
from ..numbers.public_bounds import most_of_user
from ..numbers.typed import TypedNumber, check
from ..schema import Schema

MOST_NUMBERS = 100
"""Questions of one run. Each has a share of mu^2: of a hundred, a tenth of the precision of one."""


class NumberOptions(Struct, frozen=True, forbid_unknown_fields=True, rename={"questions": "list"}):
    """Questions, and what is declared of them. important: weights of all numbers, or by question, as
    the run's `important` states them."""

    questions: tuple[str, ...]
    share: float | None = None
    max: float | dict[str, float] | None = None
    signed: bool | dict[str, bool] | None = None
    important: float | dict[str, float] | None = None

    def typed(self, schema: Schema, private: Collection[str] = ()) -> tuple[TypedNumber, ...]:
        """The questions under a schema; UsageError where one cannot be measured. private: columns
        whose values the run finds."""
        numbers = tuple(check(text, schema, private) for text in self.questions)
        check_numbers(numbers)
        return tuple(structs.replace(n, weight=self._weight(n)) for n in numbers)

    def _weight(self, number: TypedNumber) -> float:
        """How many times as much the number's error matters as that of the rows."""
        if isinstance(self.important, Mapping):
            return float(self._of(self.important, number, 1.0))
        return 1.0 if self.important is None else self.important

    def weighed(self, important: Important) -> NumberOptions:
        """The options with the weights that the owner states; UsageError where they fit no
        number."""
        if not important.names_numbers:
            return self
        asked = [_canonical(text) for text in self.questions]
        for text in important.numbers if isinstance(important.numbers, Mapping) else ():
            if _canonical(text) not in asked:
                meant = did_you_mean(text, self.questions)
                raise UsageError(f"important, numbers: {text!r} is not among the questions{meant}")
        if self.share is not None and not isinstance(important.numbers, Mapping):
            raise UsageError(
                "important, numbers: their share is stated as well (numbers, share); state one"
            )
        return structs.replace(self, important=important.numbers)

    def declared(self, numbers: Sequence[TypedNumber]) -> list[Declared]:
        """What is declared of each number, and what its schema says, in its whole units."""
        return [
            Declared(
                bool(self._of(self.signed, number, number.signed)),
                self._maximum(number),
                None if number.family == "people" else most_of_user(number),
                None if number.family == "people" else most_of_user(number, edges=True),
            )
            for number in numbers
        ]

    def _of(self, given: Any, number: TypedNumber, default: Any) -> Any:
        if not isinstance(given, Mapping):
            return default if given is None else given
        found = {_canonical(text): value for text, value in given.items()}
        return found.get(number.canonical(), default)

    def _maximum(self, number: TypedNumber) -> int | None:
        stated = None if number.family == "people" else self._of(self.max, number, None)
        if stated is None:
            return None
        units = int(Decimal(str(stated)) / number.unit)
        if not 1 <= units <= 1 << 40:
            raise UsageError(
                f"numbers, max of {number.text!r}: expected between {number.unit} and "
                f"{number.unit * (1 << 40)}, got {stated:g}"
            )
        return units

    def share_of(self, numbers: Sequence[TypedNumber]) -> float:
        """The share of mu^2 that the numbers get: as stated, or weighed against the rows."""
        return default_share(numbers) if self.share is None else self.share

    def plain(self) -> dict[str, Any]:
        """The options as a recipe has them, without those that are not given."""
        plain = msgspec.json.decode(msgspec.json.encode(self))
        return {key: value for key, value in plain.items() if value is not None}


def exact_fields(numbers: Sequence[TypedNumber]) -> tuple[str, ...]:
    """The fields whose exact values are read for the numbers."""
    return tuple(sorted({name for number in numbers for name in number.amounts}))


def _canonical(text: str) -> str:
    return number_text.render(language.parse(text))


def number_options(given: Any) -> NumberOptions | None:
    """The options of `numbers=`, of a recipe's `numbers`, or None; UsageError says what is wrong."""
    if given is None or isinstance(given, NumberOptions):
        return given
    if isinstance(given, str):
        given = [given]
    if isinstance(given, Sequence):
        given = {"list": list(given)}
    if not isinstance(given, Mapping):
        raise UsageError(
            "numbers: expected a list of questions such as 'count of users', or a table with "
            f"list, share, max and signed; got {type(given).__name__}"
        )
    known = ("list", "share", "max", "signed")
    for key in given:
        if key not in known:
            raise UsageError(f"numbers: unknown field {key!r}{did_you_mean(str(key), known)}")
    try:
        options = msgspec.convert({"list": (), **given}, NumberOptions)
    except msgspec.ValidationError as error:
        raise UsageError(f"numbers: {explain_invalid(error, NumberOptions)}") from None
    _check(options)
    return options if options.questions else None


def _check(options: NumberOptions) -> None:
    if len(options.questions) > MOST_NUMBERS:
        raise UsageError(f"numbers: at most {MOST_NUMBERS} questions fit into one run")
    asked = [_canonical(text) for text in options.questions]
    if twice := next((t for t in asked if asked.count(t) > 1), None):
        raise UsageError(f"numbers: {twice!r} is asked twice; remove one")
    share = options.share
    if share is not None and not (math.isfinite(share) and 0 < share < 1):
        raise UsageError(f"numbers, share: expected a share of mu^2 between 0 and 1, got {share!r}")
    for name in ("max", "signed"):
        stated = getattr(options, name)
        for text in stated if isinstance(stated, Mapping) else ():
            if _canonical(text) not in asked:
                meant = did_you_mean(text, options.questions)
                raise UsageError(f"numbers, {name}: {text!r} is not among the questions{meant}")
        values = stated.values() if isinstance(stated, Mapping) else [stated]
        if name == "max" and not all(v is None or (math.isfinite(v) and v > 0) for v in values):
            raise UsageError("numbers, max: expected positive amounts per user")
