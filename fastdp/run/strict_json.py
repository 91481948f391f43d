"""JSON of a folder that may be hostile: a limit of bytes, finite numbers, each name once."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..errors import RunError

MOST_JSON = 64 << 20
"""Largest JSON file, in bytes, that is read at all. As Python objects it takes up to 25 times as
many."""


def read_json(path: Path, whole: Callable[[str], int] | None = None) -> Any:
    """The file's content; RunError if it is a link, too large, or not strict JSON. `whole`: reads
    whole numbers; those of 64 bits unless given."""
    if path.is_symlink() or not path.is_file():
        raise RunError(f"{path} is not a plain file")
    try:
        if path.stat().st_size > MOST_JSON:
            raise RunError(
                f"{path} is larger than {MOST_JSON >> 20} MB, the most that a run writes"
            )
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise RunError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise RunError(f"{path} is not JSON (not UTF-8)") from None
    try:
        return json.loads(
            text,
            object_pairs_hook=_with_unique_names,
            parse_constant=_refuse_constant,
            parse_float=_finite_float,
            parse_int=whole or _int64,
        )
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise RunError(f"{path} is not JSON that a run writes ({reason})") from None


def _with_unique_names(pairs: list[tuple[str, object]]) -> dict:
    """A JSON object, refused where a name occurs twice: readers differ in which of the two values
    they take."""
    if len({name for name, _ in pairs}) != len(pairs):
        raise ValueError("a name occurs twice")
    return dict(pairs)


def _refuse_constant(text: str) -> float:
    raise ValueError(f"{text} is not a number")


def _finite_float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("a number is too large")
    return number


def _int64(text: str) -> int:
    number = int(text) if len(text) <= 20 else 1 << 64
    if not -(1 << 63) <= number < 1 << 63:
        raise ValueError("a whole number is too large")
    return number


def within_floats(text: str) -> int:
    """A whole number that a float can hold. Edges that a run found are written as whole numbers
    where they are, and may be beyond 2^63."""
    number = int(text) if len(text) <= 310 else 1 << 1024
    if abs(number) > sys.float_info.max:
        raise ValueError("a whole number is too large")
    return number
