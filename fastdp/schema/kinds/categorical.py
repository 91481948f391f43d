"""Columns with a public list of values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any, ClassVar

import numpy as np

from ...errors import SchemaError
from .. import dtypes
from ..amounts import Amount, amount_of_numbers
from ..canonical import Scalar, canonical_value
from ..coding import Listed
from ..columns import Column, fail, same_numbers
from ..entry import is_number
from ..kind_registry import kind
from ..within_bin import without_none

EXPECTED_VALUES = 32
"""The number of values that a plan assumes for a column whose values are still to be found."""
OTHER = "(other)"
"""The value that stands for all texts which are not in the list that the run found."""


@kind("categorical", "string")
@dataclass(frozen=True, kw_only=True)
class Categorical(Column):
    """A public list of values; code i stands for `values[i]`, shown as `names[i]`."""

    options: ClassVar[tuple[str, ...]] = ("values", "names", "other", "nan")
    finds: ClassVar[str] = "values"
    kept_options: ClassVar[tuple[str, ...]] = ("other", "nan")
    private_options: ClassVar[tuple[str, ...]] = ("keys_per_user",)
    values: tuple[Scalar, ...] = ()
    names: tuple[str, ...] | None = None
    other: Scalar | None = None
    _codes: Mapping[Scalar, int] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.values:
            raise fail(
                self.name, "values", "the list is empty; list every value that the column may take"
            )
        listed = enumerate(self.values)
        values = tuple(canonical_value(self.name, f"values[{i}]", v, self.dtype) for i, v in listed)
        codes = {v: i for i, v in enumerate(values)}
        if len(codes) != len(values):
            twice = next(v for i, v in enumerate(values) if codes[v] != i)
            raise fail(self.name, "values", f"{twice!r} is listed twice")
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "_codes", codes)
        if self.names is not None and len(self.names) != len(values):
            raise fail(self.name, "names", f"expected {len(values)}, one name per value")
        if self.other is not None:
            object.__setattr__(
                self, "other", canonical_value(self.name, "other", self.other, self.dtype)
            )
        self._check_policies("among the listed values", clamps=False)

    @property
    def base(self) -> int:
        return len(self.values)

    @property
    def coding(self) -> Listed:
        return Listed(self.values, self.other)

    def base_labels(self) -> list[str]:
        return list(self.names) if self.names is not None else [str(v) for v in self.values]

    def code_of(self, value: Any) -> int | None:
        try:
            return self._codes.get(canonical_value(self.name, "value", value, self.dtype))
        except SchemaError:
            return None

    def _own_plain(self) -> dict[str, Any]:
        names = None if self.names is None else list(self.names)
        return without_none(values=list(self.values), names=names, other=self.other)

    @classmethod
    def from_entry(cls, entry: Any, common: dict[str, Any]) -> Categorical:
        values = entry.list("values")
        if values is None:
            raise fail(entry.name, "values", "missing; list every value that the column may take")
        return cls(
            **common,
            nan=entry.nan(),
            names=entry.texts("names"),
            other=entry.plain.get("other"),
            dtype=entry.dtype("string" if entry.kind == "string" else _guess_dtype(values)),
            values=tuple(values),
        )

    @property
    def is_text(self) -> bool:
        return isinstance(self.values[0], str)

    @property
    def ordered(self) -> bool:
        return False

    @property
    def writes_overflow(self) -> bool:
        return self.other is not None

    def read_back(self) -> np.ndarray:
        """Another code where `other`, written for values outside the list, is one of its values."""
        out = super().read_back()
        if self.overflow_code is not None and self.other is not None:
            code = self.code_of(self.other)
            out[self.overflow_code] = self.overflow_code if code is None else code
        return out

    def code_values(self) -> np.ndarray:
        family = dtypes.family(self.dtype)
        if family == "date":
            return np.array(self.values, "datetime64[D]")
        if family == "timestamp":
            return np.array([str(v).split("+")[0] for v in self.values], "datetime64[us]")
        if family == "decimal":
            return np.array([float(v) for v in self.values])
        return np.array(self.values)

    def shown_values(self) -> tuple[list[Any], str]:
        if dtypes.family(self.dtype) in ("date", "timestamp", "decimal"):
            return [str(v) for v in self.values], "string"
        return list(self.values), self.dtype

    def code_numbers(self) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        if dtypes.family(self.dtype) not in ("int", "float", "decimal", "bool"):
            return None
        return same_numbers([float(v) for v in self.values])

    def whole_values(self) -> list[int] | None:
        whole = [v for v in self.values if isinstance(v, int) and not isinstance(v, bool)]
        return whole if len(whole) == len(self.values) else None

    def moved_to(self, largest: int) -> Categorical:
        shift = largest - max(int(v) for v in self.values)
        return replace(self, values=tuple(int(v) + shift for v in self.values), other=None)

    def amount(self) -> Amount | None:
        if self.temporal:
            return super().amount()
        if dtypes.family(self.dtype) not in ("int", "float", "decimal"):
            return None
        values = [float(v) for v in self.values if not isinstance(v, bool)]
        # A list says how large its values are, and not that none outside it is below zero.
        return amount_of_numbers(self, [-math.inf, *values] if values else [])

    def released_counts(self) -> Sequence[int]:
        """One value may stand for all others, and a list of which none was released has one."""
        size = len(self.values)
        extra = self.overflow.action == "value" or size == 1
        return (size - 1, size) if extra else (size,)

    @classmethod
    def public_entry(cls, entry: Any) -> dict[str, Any] | None:
        """Of booleans, whose two values are public."""
        if entry.kind == "categorical" and entry.text("dtype") is None:
            raise fail(
                entry.name,
                "dtype",
                "missing; set it to a text or whole-number type, for example string or int32",
            )
        if entry.dtype(cls.private_type) != "bool":
            return None
        rest = {k: v for k, v in entry.plain.items() if k not in ("domain", "keys_per_user")}
        return {**rest, "values": [False, True]}

    @classmethod
    def check_private(cls, column: Any) -> None:
        if dtypes.family(column.dtype) not in ("string", "int", "bool"):
            raise fail(
                column.name,
                "dtype",
                f"private values need a column of texts or whole numbers, got {column.dtype}",
            )

    @classmethod
    def values_entry(cls, column: Any, values: Sequence[int | str]) -> dict[str, Any]:
        """The table with these values. For texts, one further value stands for all other texts,
        unless the document states an overflow policy. Other whole numbers get the overflow code,
        unless the list is empty."""
        text = dtypes.family(column.dtype) == "string"
        rest: int | str = column.stated.get("other") or (OTHER if text else 0)
        if "overflow" in column.stated or (values and not text):
            listed = list(values) or [rest]
            return column.finished("categorical", "code", "code", values=listed)
        values = [*dict.fromkeys([*values, rest])]
        entry = column.finished("categorical", "code", {"value": rest}, values=values)
        return {k: v for k, v in entry.items() if k != "other"}

    @classmethod
    def stand_in_entry(cls, column: Any) -> dict[str, Any]:
        text = dtypes.family(column.dtype) == "string"
        return cls.values_entry(column, [str(i) if text else i for i in range(EXPECTED_VALUES)])


def _guess_dtype(values: list[Any]) -> str:
    if all(isinstance(v, bool) for v in values):
        return "bool"
    if all(map(is_number, values)):
        return "int64" if all(isinstance(v, int) for v in values) else "float64"
    if all(isinstance(v, date) for v in values):
        return "timestamp[us]" if any(hasattr(v, "hour") for v in values) else "date32"
    return "string"
