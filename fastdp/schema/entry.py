"""One column's table of a schema document while it is parsed. Every error names the column and the
field."""

import math
from collections.abc import Callable, Iterable, Mapping
from datetime import date
from typing import Any, TypeGuard

from ..errors import SchemaError, did_you_mean, nearest
from . import dtypes, epoch
from .columns import Policy, fail
from .kind_registry import KINDS, documented
from .within_bin import Tail

COMMON = ("kind", "source", "dtype", "null", "overflow", "user", "note")
"""Keys of every column's table."""
PRIVATE = "private"
ANY = "any"
"""The kind of a column of texts whose kind is to be found, too: numbers, dates and times, or a list
of texts. Where the column's dtype is stated, only dates and times are looked for."""


def check_has_private_domain(name: str, kind: str, finds: str) -> None:
    """Raise SchemaError if a run has nothing to find for columns of this kind."""
    if not finds:
        raise fail(
            name,
            "domain",
            f'domain = "private" has no effect on a column of kind {kind!r}; remove it',
        )


OTHER_WORDS = {
    word: f"; write {written}"
    for words, written in {
        "bool boolean logical": 'kind = "categorical" with values = [false, true]',
        "text str varchar category enum": 'kind = "string" with values, the list of all texts',
        "int int32 int64 whole": 'kind = "integer" with min and max',
        "float float64 double number decimal real": 'kind = "numeric" with edges',
        "date datetime time timestamps": (
            'kind = "timestamp" with parts, or "numeric" with a dtype and edges of dates'
        ),
    }.items()
    for word in words.split()
}
"""What to write in place of words that other tools use for kinds of columns."""


class Entry:
    """One column's table while it is parsed: checks the types of values, and that every key was
    used."""

    def __init__(self, name: str, plain: Any):
        if not isinstance(name, str) or not name:
            raise SchemaError(f"columns: expected names that are non-empty strings, got {name!r}")
        if not isinstance(plain, Mapping):
            raise SchemaError(
                f"column {name!r}: expected a table with a 'kind', got {kind_of(plain)}"
            )
        self.name = name
        self.plain = plain
        kind = self.text("kind")
        if kind is None:
            raise fail(name, "kind", f"missing; expected one of {', '.join(documented())}")
        if kind == ANY and self.text("domain") is None:
            raise fail(name, "domain", f'missing; kind {ANY!r} needs domain = "private"')
        if not KINDS.registered(kind):
            near = nearest(kind, documented())
            hint = OTHER_WORDS.get(kind.lower(), f"; did you mean {near!r}?" if near else "")
            raise fail(
                name, "kind", f"expected one of {', '.join(documented())}, got {kind!r}{hint}"
            )
        self.kind = kind
        self.private = self.text("domain") is not None
        described = KINDS.get(kind)
        keys: tuple[str, ...] = (*COMMON, *described.options, "domain")
        if self.private:
            self.choice("domain", PRIVATE, (PRIVATE,))
            check_has_private_domain(name, kind, described.finds)
            keys = (*COMMON, *described.kept_options, *described.private_options, "domain")
        for key in plain:
            if key not in keys:
                of = f"kind {kind!r}{' with a private domain' if self.private else ''}"
                raise fail(name, str(key), f"unknown for {of}{did_you_mean(str(key), keys)}")

    def _typed(self, key: str, fits: Callable[[Any], bool], expected: str) -> Any:
        value = self.plain.get(key)
        if value is not None and not fits(value):
            raise fail(self.name, key, f"must be {expected}, got {shown(value)}")
        return value

    def text(self, key: str) -> str | None:
        return self._typed(key, _is_text, "text")

    def choice(self, key: str, default: str, options: Iterable[str]) -> str:
        value = self.text(key)
        value = default if value is None else value
        if value not in options:
            raise fail(self.name, key, f"expected one of {', '.join(options)}, got {value!r}")
        return value

    def whole(self, key: str, default: int | None = None) -> int | None:
        value = self._typed(key, lambda v: is_number(v) and v % 1 == 0, "a whole number")
        return default if value is None else int(value)

    def number(self, key: str) -> float | None:
        return self._typed(key, lambda v: is_number(v) and math.isfinite(v), "a finite number")

    def nan(self) -> str:
        """Whether NaN counts as a null or as a value outside the domain."""
        return self.choice("nan", "null", ("null", "overflow"))

    def limit(self, key: str, dtype: str) -> float | None:
        """min or max of numbers; of dates and times in days or seconds since 1970."""
        value = self.plain.get(key)
        if value is not None and is_temporal(dtype):
            return moment_of(self.name, key, value, dtype)
        return self.number(key)

    def flag(self, key: str, default: bool) -> bool:
        value = self._typed(key, lambda v: isinstance(v, bool), "true or false")
        return default if value is None else value

    def list(self, key: str) -> list[Any] | None:
        value = self._typed(key, lambda v: isinstance(v, list | tuple), "a list")
        return None if value is None else list(value)

    def texts(self, key: str) -> tuple[str, ...] | None:
        value = self.list(key)
        if value is not None and not all(map(_is_text, value)):
            raise fail(self.name, key, "must be a list of texts")
        return None if value is None else tuple(value)

    def date(self, key: str) -> str | None:
        value = self.plain.get(key)
        if value is None:
            return None
        try:
            return date.fromisoformat(str(value)[:10]).isoformat()
        except ValueError:
            raise fail(self.name, key, f"expected a date like 2022-01-31, got {value!r}") from None

    def dtype(self, default: str) -> str:
        value = self.text("dtype")
        named = dtypes.canonical(default if value is None else value)
        if named is None:
            raise fail(
                self.name,
                "dtype",
                f"{value!r} is not a known type; use for example int32, float64, string, bool",
            )
        return named

    def policy(self, key: str, default: str = "code") -> Policy:
        value = self.plain.get(key, default)
        if isinstance(value, Mapping):
            if set(value) != {"value"}:
                raise fail(self.name, key, "a table here must have exactly one key, 'value'")
            shown = value["value"]
            return Policy("value", shown.isoformat() if isinstance(shown, date) else shown)
        if value not in ("code", "drop", "clamp"):
            raise fail(
                self.name, key, f"expected code, drop, clamp or {{ value = ... }}, got {value!r}"
            )
        return Policy(str(value))

    def tail(self, key: str) -> Tail | None:
        value = self.plain.get(key)
        if value is None:
            return None
        if not isinstance(value, Mapping) or not set(value) <= {"law", "mean", "width"}:
            raise fail(self.name, key, "expected a table with law, and mean or width")
        law = value.get("law", "exponential")
        if isinstance(law, str):
            need = {"exponential": "mean", "uniform": "width"}.get(law)
        else:
            need = None
        if need is None:
            raise fail(
                self.name, f"{key}.law", f"expected exponential or uniform, got {shown(law)}"
            )
        size = value.get(need)
        if not is_number(size) or not 0 < size < math.inf:
            raise fail(self.name, f"{key}.{need}", f"expected a number > 0, got {shown(size)}")
        return Tail(law, **{need: size})


def is_number(value: Any) -> TypeGuard[int | float]:
    """Whether a value of a document is a number; a bool, which is an int in Python, is not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def kind_of(value: Any) -> str:
    if isinstance(value, Mapping):
        return "a table"
    return "a list" if isinstance(value, list) else type(value).__name__


def shown(value: Any) -> str:
    return repr(value) if isinstance(value, int | float | str | None) else kind_of(value)


def is_temporal(dtype: str) -> bool:
    """Whether a type holds dates or times."""
    return dtypes.family(dtype) in ("date", "timestamp")


def moment_of(column: str, where: str, value: Any, dtype: str) -> float:
    """Whole days or seconds since 1970 of a date or time in a document; infinities are returned
    unchanged."""
    if isinstance(value, float) and math.isinf(value):
        return value
    try:
        return float(
            epoch.coarse(value.isoformat() if isinstance(value, date) else str(value), dtype)
        )
    except ValueError:
        raise fail(
            column, where, f"expected an ISO date or time (whole seconds), got {shown(value)}"
        ) from None
