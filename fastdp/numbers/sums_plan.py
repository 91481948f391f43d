"""What an engine adds up over users: the values of a number, through an encoding."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import msgspec
from msgspec import Struct

from ..errors import UsageError
from ..schema import Schema
from . import language, typed
from .encoding import Encoding
from .encodings import ENCODINGS
from .typed import TypedNumber


class SumsPlan(Struct, frozen=True, eq=False):
    """A number and the encoding of its users' values. All of it is public."""

    number: TypedNumber
    encoding: Encoding

    @property
    def size(self) -> int:
        return self.encoding.size

    def to_plain(self) -> dict[str, Any]:
        """The plan without its schema, fit for JSON."""
        plain = {
            "number": self.number.canonical(),
            "private": list(self.number.private),
            "encoding": type(self.encoding).__name__,
        }
        return plain | {"fields": msgspec.to_builtins(msgspec.structs.asdict(self.encoding))}

    @staticmethod
    def from_plain(plain: dict[str, Any], schema: Schema) -> SumsPlan:
        """The plan that `to_plain` described, under the schema of the rows."""
        kinds = {kind.__name__: kind for kind in ENCODINGS}
        kind = kinds.get(plain["encoding"])
        if kind is None:
            raise UsageError(f"unknown encoding {plain['encoding']!r}")
        fields = {k: v for k, v in plain["fields"].items() if k != "type"}
        number = typed.check(language.parse(plain["number"]), schema, plain["private"])
        return SumsPlan(number, msgspec.convert(fields | {"type": kind.__name__}, kind))

    def digest(self) -> str:
        """SHA-256 of the plan, the same in every process."""
        content = [self.to_plain(), self.number.schema.digest()]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
