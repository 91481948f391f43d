"""A column whose codes are the kinds of its texts. It is only counted, never written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..columns import Column
from ..kind_of_text import VALUE_KINDS, text_kind
from ..kind_registry import kind


@kind("textkind", internal=True)
@dataclass(frozen=True, kw_only=True)
class TextKind(Column):
    """Code i: the text is of the kind VALUE_KINDS[i]. Missing texts are null."""

    @classmethod
    def from_entry(cls, entry: Any, common: dict[str, Any]) -> TextKind:
        """From a document that a run sends to other processes; no user writes one."""
        return cls(**common, dtype=entry.dtype("float64"))

    @property
    def base(self) -> int:
        return len(VALUE_KINDS)

    @property
    def can_overflow(self) -> bool:
        return False

    @property
    def blank_is_null(self) -> bool:
        return True

    def code_of_text(self, text: bytes) -> int:
        return VALUE_KINDS.index(text_kind(text))
