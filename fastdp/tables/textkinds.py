"""The kind of a text: a whole number, a date, money. Used to report problems of a column and to
draft a schema; kinds are reported, values are not."""

from __future__ import annotations

import numpy as np

from .._util.lazy import pa, pl
from ..schema.kind_of_text import MISSING
from .textvalues import to_text

_DAY = r"\d{4}(-\d{2}-|/\d{2}/)\d{2}"
_CLOCK = r"\d{2}:\d{2}(:\d{2}(\.\d+)?)?"
TEXT_PATTERNS = {
    "blank text": r"^\s*$",
    "word for missing (NA, null, ...)": MISSING,
    "whole number": r"^\s*[+-]?\d+\s*$",
    "number with a point": (
        r"^\s*[+-]?(\d+\.\d*|\.\d+)([eE][+-]?\d+)?\s*$|^\s*[+-]?\d+[eE][+-]?\d+\s*$"
    ),
    "money": r"^\s*[+-]?[$€£¥]\s*[+-]?[\d.,]+\s*$|^\s*[+-]?[\d.,]+\s*([$€£¥]|EUR|USD|GBP|CHF)\s*$",
    "percentage": r"^\s*[+-]?[\d.,]+\s*%\s*$",
    "ISO date": rf"^\s*{_DAY}\s*$",
    "ISO time": rf"^\s*{_DAY}[T ]{_CLOCK}\s*$",
    "ISO time with a zone": rf"^\s*{_DAY}[T ]{_CLOCK}\s*(Z|[+-]\d{{2}}(:?\d{{2}})?)\s*$",
    "date in another form": r"^\s*\d{1,4}[./-]\d{1,2}[./-]\d{1,4}([ T].*)?$",
    "number with commas": r"^\s*[+-]?\d[\d.,' ]*\d\s*$",
    "time of day": r"^\s*\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?\s*([AaPp][Mm])?\s*$",
    "truth value": r"(?i)^\s*(true|false|yes|no|t|f|y|n)\s*$",
    "word with blanks around it": r"^\s+\S.*$|^.*\S\s+$",
}
"""The kind of a text is the first whose pattern matches, in this order; if none does, it is `WORD`.
"""
WORD = "word"
NUMBERS = {"whole number", "number with a point"}
_TIMES = {"ISO date", "ISO time", "ISO time with a zone"}
READABLE = {
    "int": {"whole number"},
    "float": NUMBERS,
    "decimal": NUMBERS,
    "date": _TIMES,
    "timestamp": _TIMES,
    "bool": {"truth value", "whole number"},
    "string": {*TEXT_PATTERNS, WORD},
}
"""By family of types (`schema.dtypes.family`): the kinds of text that are read as values of that
family."""


def series(texts: pa.Array | pa.ChunkedArray) -> pl.Series:
    """Texts, or bytes that need not be UTF-8, as a Polars series."""

    if isinstance(texts, pa.ChunkedArray):
        texts = pa.concat_arrays(texts.chunks) if texts.num_chunks else pa.array([], texts.type)
    if pa.types.is_binary(texts.type) or pa.types.is_large_binary(texts.type):
        texts = to_text(texts)
    return pl.Series(pl.from_arrow(texts))


def count_kinds(texts: pl.Series) -> dict[str, int]:
    """How many of the texts are of each kind; nulls are left out."""
    left = texts.drop_nulls()
    counts: dict[str, int] = {}
    for kind, pattern in TEXT_PATTERNS.items():
        if not len(left):
            break
        match = left.str.contains(pattern).to_numpy()
        number = int(np.count_nonzero(match))
        if number:
            counts[kind] = number
            left = left.filter(~match)
    if len(left):
        counts[WORD] = len(left)
    return counts
