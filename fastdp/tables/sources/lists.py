"""Several sources as one. What a source answers is described at `Source`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ...errors import DataError, UsageError
from ...schema.dialect import Dialect
from ..parts import Part
from .source import SOURCES, Source, source_of


@SOURCES.add("list")
class SourceList(Source):
    """A list of sources with the same columns, read one after the other. Every answer is made of
    the members' answers; a list inside a list counts as its members."""

    def __init__(self, given: Any):
        super().__init__(given)
        self.members = [source_of(item) for item in given]
        self.again = all(member.again for member in self.members)

    @classmethod
    def takes(cls, given: Any) -> bool:
        return isinstance(given, list | tuple)

    @property
    def single(self) -> list[Source]:
        if not self.members:
            raise UsageError("the list of sources is empty")
        if isinstance(self.given[0], Mapping):
            raise UsageError(
                "a list of dicts states no types; use polars.DataFrame(rows, schema=...)"
            )
        return [one for member in self.members for one in member.single]

    def parts(self, dialect: Dialect) -> list[Part]:
        return [part for one in self.single for part in one.parts(dialect)]

    def pin(self, before: Mapping[str, Any] | None = None) -> Mapping[str, Any] | None:
        earlier = (before or {}).get("list") or [None] * len(self.members)
        if len(earlier) != len(self.members):
            raise DataError(
                f"the interrupted run read {len(earlier)} sources, and {len(self.members)} are"
                " given; give the same ones"
            )
        pins = [member.pin(one) for member, one in zip(self.members, earlier)]
        return {"list": pins} if any(pins) else None

    def changes(self) -> str:
        return "; ".join(text for member in self.members if (text := member.changes()))

    @property
    def version(self) -> Mapping[str, Any] | None:
        versions = [member.version for member in self.members]
        return {"list": versions} if any(versions) else None

    def paths(self) -> Iterable[str]:
        return [path for member in self.members for path in member.paths()]

    def held(self) -> Iterable[Any]:
        return [column for member in self.members for column in member.held()]
