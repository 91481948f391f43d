"""Rows that are encoded already, as sources."""

from __future__ import annotations

from typing import Any

from ...errors import UsageError
from ...schema.dialect import Dialect
from ..parts import Part
from ..table import Table
from .source import SOURCES, Source


@SOURCES.add("codes")
class CodeTable(Source):
    """A `fastdp.Table`: codes under its own schema."""

    opens_freely = False

    @classmethod
    def takes(cls, given: Any) -> bool:
        return isinstance(given, Table)

    @property
    def encoded(self) -> Table:
        return self.given

    def parts(self, dialect: Dialect) -> list[Part]:
        raise UsageError("a fastdp.Table holds codes; pass the source that was read")

    def why_not_learnt(self, domains: bool) -> str:
        return "a fastdp.Table has codes and no values to find a domain from; give its source"

    def why_not_diagnosed(self) -> str:
        return "diagnose reads the values twice: give a path or frame, not a Table or stream"
