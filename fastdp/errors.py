"""Every error fastdp raises on purpose, and the exit code the command line gives it.

An error text says what, where and what to do. It is an output like any other, so it never carries a
value, a count or a name that came from private data.
"""

import math
import numbers
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from typing import Any


class FastdpError(Exception):
    """Base of all errors raised on purpose."""

    exit_code = 1


class UsageError(FastdpError, ValueError):
    """An argument is wrong: its type, range or combination."""

    exit_code = 2


class SchemaError(FastdpError, ValueError):
    """The schema is malformed; names the column and the field."""

    exit_code = 3


class DataError(FastdpError, ValueError):
    """A source does not fit the schema: missing columns, wrong types, broken files."""

    exit_code = 4


class BudgetError(FastdpError):
    """The privacy budget does not cover the request; nothing was drawn."""

    exit_code = 5


class LedgerError(FastdpError):
    """The ledger is missing, locked, tampered with or rolled back; the run fails closed."""

    exit_code = 6


class PrivacyError(FastdpError):
    """A check of the guarantee failed (sensitivity, second accountant, noise source); nothing was
    drawn."""

    exit_code = 7


class ModelTooLargeError(FastdpError, MemoryError):
    """The junction tree would be larger than the limit; names the size and the clique that causes
    it."""

    exit_code = 8


class MeasurementError(FastdpError, ValueError):
    """A measurement given to the estimator is malformed; names it by clique and position."""

    exit_code = 9


class RunError(FastdpError):
    """The run folder cannot be written, resumed or verified."""

    exit_code = 10


class StoppedEarly(FastdpError):
    """By its first noisy answers the schema does not fit the data: what was drawn is charged, the
    rest of the reservation went back."""

    exit_code = 11


class ReportError(FastdpError):
    """The run is complete and its folder is in place, but the report or diagnosis next to it could
    not be made. `runs` holds what `synthesize` would have returned, `failed` what could not be
    made."""

    exit_code = 12
    runs: Any = None
    failed: Sequence[Any] = ()


class Cancelled(FastdpError):
    """The caller's `cancel` stopped the run; no partial files remain."""

    exit_code = 130


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The (public) name most similar to this one; None if none is similar."""

    def plain(text: str) -> str:
        return str(text).strip().casefold().replace(" ", "_")

    by_plain = {plain(n): n for n in names}
    near = get_close_matches(plain(name), list(by_plain))
    return by_plain[near[0]] if near else None


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """The end of a sentence about an unknown name: the nearest known name, or else the list of
    names."""
    names = list(names)
    near = nearest(name, names)
    if near is not None:
        return f"; did you mean {near!r}?"
    if names:
        return f"; there are {', '.join(map(str, names[:30]))}{', ...' if len(names) > 30 else ''}"
    return ""


def is_whole(value: object, least: float = -math.inf, most: float = math.inf) -> bool:
    """Whether a value is a whole number in [least, most]: an int or a float without a fraction, of
    Python or numpy. A bool, a text, NaN or an infinity is not."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return False
    number: Any = value  # numbers.Real has no order for type checkers
    whole = isinstance(number, numbers.Integral) or (
        math.isfinite(number) and number == math.floor(number)
    )
    return whole and bool(least <= number <= most)


def redact_errors(call: Callable[[], Any], memory: str, other: Callable[[str], FastdpError]) -> Any:
    """Run code that sees private rows. Its errors are outputs too: texts that are not ours could
    quote a value, and a lack of memory the number of rows. They are replaced, by
    MemoryError(memory) or by other(name of the class), and the originals are dropped. That holds
    for whatever is raised, panics of foreign code too, but for what asks the program to stop."""
    failed = ""
    try:
        return call()
    except FastdpError as error:
        error.__cause__ = error.__context__ = None
        raise
    except MemoryError:
        pass
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # panics of foreign code too: see the docstring
        failed = type(error).__name__
    raise other(failed) if failed else MemoryError(memory)
