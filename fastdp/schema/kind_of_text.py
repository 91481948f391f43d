"""The kind of a text: a number, a date or time, other text, or a word for missing."""

import math
import re
from datetime import datetime

VALUE_KINDS = ("whole number", "number", "date", "time", "time with a zone", "text")
WHOLE, NUMBER, DATE, TIME, ZONED, TEXT = VALUE_KINDS
MISSING = r"(?i)^\s*(na|n/a|nan|null|none|nil|missing|unknown|\?|-+|\.)\s*$"
"""Words for missing values. They are public."""
_BLANK = re.compile(rf"{MISSING}|^\s*$".encode())


def is_missing(text: bytes) -> bool:
    """Whether a text is blank or a word for missing. Columns of numbers, dates and times read it as
    null."""
    return _BLANK.match(text) is not None


def as_number(text: bytes | None) -> float | None:
    """The number that a text spells, as a float; None if it spells none, or is null."""
    number = None if text is None else number_of_text(text)
    return None if number is None else float(number)


def number_of_text(text: bytes) -> float | int | None:
    """The number a text spells, None if it spells none."""
    if b"_" in text:
        return None
    try:
        number = int(text)
        return number if abs(number) < 1 << 64 else math.copysign(math.inf, number)
    except (ValueError, OverflowError):
        pass
    try:
        return float(text)
    except ValueError:
        return None


def moment_of_text(text: bytes) -> datetime | None:
    """The ISO date or time that a text spells, also with slashes in its date; None if it spells
    none."""
    try:
        spelt = text.decode().strip()
        return datetime.fromisoformat(spelt.replace("/", "-", 2) if spelt[4:8:3] == "//" else spelt)
    except ValueError:
        return None


def text_kind(text: bytes) -> str:
    """The kind of a text that is not missing. Whole numbers with leading zeros are text: they are
    ids or postal codes more often than amounts."""
    text = text.strip()
    number = number_of_text(text)
    if number is not None and math.isfinite(number):
        digits = text.lstrip(b"+-")
        if isinstance(number, int):
            return TEXT if digits[:1] == b"0" and len(digits) > 1 else WHOLE
        return NUMBER
    moment = moment_of_text(text)
    if moment is None:
        return TEXT
    if len(text) <= 10:
        return DATE
    if moment.tzinfo is None:
        return TIME
    return ZONED
