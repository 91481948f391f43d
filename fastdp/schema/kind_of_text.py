"""A column whose codes are the kind of a text: a number, a date, other text. It is only counted, never
written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from .columns import Column

WHOLE, NUMBER, DATE, TIME, TEXT = KINDS = ("whole number", "number", "date", "time", "text")


@dataclass(frozen=True, kw_only=True)
class TextKind(Column):
    """Code i: the text is of the kind KINDS[i]. Blank texts are null. `codec.text` reads the texts."""

    kind: ClassVar[str] = "textkind"

    @property
    def base(self) -> int:
        return len(KINDS)

    @property
    def can_overflow(self) -> bool:
        return False

    def base_labels(self) -> list[str]:
        return list(KINDS)

    def code_of(self, value: Any) -> int | None:
        return KINDS.index(value) if value in KINDS else None
