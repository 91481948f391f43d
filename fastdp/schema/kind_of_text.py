"""The kind of a text (a number, a date, other text), and a column whose codes are these kinds. It
is only counted, never written."""

import re
from dataclasses import dataclass
from typing import ClassVar

from .columns import Column

VALUE_KINDS = ("whole number", "number", "date", "time", "time with a zone", "text")
WHOLE, NUMBER, DATE, TIME, ZONED, TEXT = VALUE_KINDS
MISSING = r"(?i)^\s*(na|n/a|nan|null|none|nil|missing|unknown|\?|-+|\.)\s*$"
"""Words for missing values. They are public."""
_BLANK = re.compile(rf"{MISSING}|^\s*$".encode())


def is_missing(text: bytes) -> bool:
    """Whether a text is blank or a word for missing. Columns of numbers, dates and times read it as
    null."""
    return _BLANK.match(text) is not None


@dataclass(frozen=True, kw_only=True)
class TextKind(Column):
    """Code i: the text is of the kind VALUE_KINDS[i]. Missing texts are null. `codec.text` reads them."""

    kind: ClassVar[str] = "textkind"

    @property
    def base(self) -> int:
        return len(VALUE_KINDS)

    @property
    def can_overflow(self) -> bool:
        return False
