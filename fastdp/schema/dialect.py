"""Dialects of text files: how a line is divided into fields, and how bytes and texts are
interpreted.

A dialect is public, like the schema it belongs to. Options that it does not set follow from the
file's name: tabs and no quotes in .tsv files, commas and double quotes in others.
"""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from ..errors import SchemaError

WHOLE_ENCODINGS = ("utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be")
"""Encodings in which the byte 0x0A need not end a line. A file is transcoded as a whole if its
dialect declares one of them."""

LINE_ENCODINGS = tuple(
    "gb2312 gbk gb18030 big5 big5hkscs cp932 cp949 cp950 shift_jis shift_jis_2004 shift_jisx0213"
    " euc_jp euc_jis_2004 euc_jisx0213 euc_kr johab".split()
)
"""Multi-byte encodings in which 0x0A always ends a line: files are transcoded line by line."""

_MALFORMED = ("drop", "null")


@dataclass(frozen=True)
class Dialect:
    """How the lines of a text file are read.

    delimiter, quote, escape: one ASCII character each; "" means no quote or escape; None: by the
    file's name. encoding: character encoding of the file. In it the byte 0x0A must always end a
    line, except in UTF-16 and UTF-32. null: texts that mean null if they are not quoted. header:
    True if the first line holds the names of the fields, else the names of all fields in order.
    newlines: whether quoted values may contain line ends. If so, the privacy promise assumes that
    the file was written correctly. malformed: whether a line of the wrong shape is dropped or
    becomes a row of nulls; in a table with users it is always dropped. decimal: the mark before the
    decimals of numbers, "." or ","; with a comma, `-1.234,5` is read as -1234.5. None: a point, and
    a file that is not delimited by commas is refused if a column may have decimals.
    """

    delimiter: str | None = None
    quote: str | None = None
    escape: str = ""
    encoding: str = "utf-8"
    null: tuple[str, ...] = ("",)
    header: bool | tuple[str, ...] = True
    newlines: bool = False
    malformed: str = "drop"
    decimal: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "null", _texts("null", self.null))
        if self.header is not True:
            object.__setattr__(self, "header", _texts("header", self.header))
            if not self.header:
                raise _fail("header", "expected true, or the names of all fields")
        used: dict[str, str] = {}
        for name in ("delimiter", "quote", "escape"):
            mark = getattr(self, name)
            if mark is None or (mark == "" and name != "delimiter"):
                continue
            if (
                not isinstance(mark, str)
                or len(mark) != 1
                or not mark.isascii()
                or mark in "\r\n\0"
            ):
                raise _fail(name, f"expected one ASCII character, got {mark!r}")
            if mark in used:
                raise _fail(
                    name,
                    f"{mark!r} is already the {used[mark]}; choose another (quotes inside quotes "
                    "are doubled anyway)",
                )
            used[mark] = name
        if not isinstance(self.newlines, bool):
            raise _fail("newlines", f"must be true or false, got {self.newlines!r}")
        if self.malformed not in _MALFORMED:
            raise _fail(
                "malformed", f"expected one of {', '.join(_MALFORMED)}, got {self.malformed!r}"
            )
        if self.decimal not in (None, ".", ","):
            raise _fail("decimal", f'expected "." or ",", got {self.decimal!r}')
        object.__setattr__(self, "encoding", _encoding(self.encoding))

    def named(self, name: str) -> Dialect:
        """The dialect with all options set, for a file of this name (without the suffix of a
        compression)."""
        tabs = name.lower().endswith(".tsv")
        delimiter = self.delimiter
        if delimiter is None:
            delimiter = "\t" if tabs else ","
        quote = self.quote
        if quote is None:
            quote = "" if tabs or delimiter == '"' else '"'
        return replace(self, delimiter=delimiter, quote=quote)

    @property
    def trusts_writer(self) -> bool:
        """Whether the result of reading one line can depend on other lines; if so, the privacy
        promise holds only if the file was written correctly."""
        return self.newlines or self.encoding in WHOLE_ENCODINGS

    def to_plain(self) -> dict[str, Any]:
        """The options that differ from the defaults."""
        out = {
            f.name: getattr(self, f.name)
            for f in fields(self)
            if getattr(self, f.name) != f.default
        }
        return {k: list(v) if isinstance(v, tuple) else v for k, v in out.items()}

    @classmethod
    def from_plain(cls, plain: Any) -> Dialect:
        """From a mapping of options by name; a Dialect is returned unchanged."""
        if isinstance(plain, Dialect):
            return plain
        if not isinstance(plain, Mapping):
            raise SchemaError(f"dialect: must be a table, got {type(plain).__name__}")
        names = [f.name for f in fields(cls)]
        for key in plain:
            if key not in names:
                raise _fail(str(key), f"unknown key; expected one of {', '.join(names)}")
        return cls(**plain)

    @classmethod
    def from_text(cls, text: str) -> Dialect:
        """From the inside of a TOML table, as on the command line: `delimiter = ";", encoding =
        "cp1252"`."""
        import tomllib

        try:
            return cls.from_plain(tomllib.loads(f"dialect = {{ {text} }}")["dialect"])
        except tomllib.TOMLDecodeError:
            pairs = 'key = value pairs, for example delimiter = ";", encoding = "latin-1"'
            raise SchemaError(f"dialect: expected {pairs}, got {text!r}") from None


def _fail(field: str, text: str) -> SchemaError:
    return SchemaError(f"dialect, field {field!r}: {text}")


def _texts(field: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(v, str) for v in value):
        raise _fail(field, f"must be a list of texts, got {value!r}")
    return tuple(value)


def _encoding(name: Any) -> str:
    """The canonical name of an encoding; SchemaError if it is unknown or its lines cannot be
    separated."""
    try:
        encoding = codecs.lookup(name).name
    except (LookupError, TypeError):
        raise _fail("encoding", f"the encoding {name!r} is not known") from None
    if encoding == "utf-8-sig":
        encoding = "utf-8"
    if encoding in ("utf-8", *WHOLE_ENCODINGS, *LINE_ENCODINGS) or byte_table(encoding) is not None:
        return encoding
    raise _fail(
        "encoding",
        (
            f"{name!r}: fastdp cannot find the ends of lines in this encoding; convert the "
            "file to UTF-8"
        ),
    )


def byte_table(encoding: str) -> str | None:
    """The characters of the 256 bytes in a single-byte encoding that extends ASCII, U+DCFF for
    undefined bytes; None for any other encoding."""
    table = ""
    try:
        for byte in range(256):
            try:
                char = bytes([byte]).decode(encoding)
            except UnicodeDecodeError:
                char = "\udcff"
            if len(char) != 1 or (byte < 128 and ord(char) != byte):
                return None
            table += char
        alone = bytes(b for b in range(256) if table[b] != "\udcff")
        if alone.decode(encoding) != table.replace("\udcff", ""):
            return None
    except (LookupError, UnicodeError, TypeError, ValueError):
        return None
    return table
