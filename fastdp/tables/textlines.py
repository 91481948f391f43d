"""Text files as parts: every physical line is read independently, by the compiled automaton of
`_core.lines`.

Law. The result of a line (a row, no row, or a malformed row) is a function of that line, the
dialect and MAX_LINE alone. It does not depend on where the file is cut into blocks, nor on the
thread that reads it. Two kinds of dialect break this rule and must be declared
(`Dialect.trusts_writer`): newlines in values, and UTF-16 or UTF-32.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from .._core import lines as core
from .._util.lazy import pa, pc
from ..errors import DataError
from ..schema.dialect import Dialect
from . import textblocks
from .parts import Part, Tally, Unit, cut
from .textblocks import Block


def kind_of(path: str) -> Callable[[str, Dialect], Part] | None:
    """The function that opens a text file of this name; None if the name is not that of a text
    file."""
    name = textblocks.stem(path)
    if name.endswith((".csv", ".tsv")):
        return delimited
    return json_lines if name.endswith((".jsonl", ".ndjson")) else None


def names_of(path: str, dialect: Dialect) -> list[str]:
    """Names of the fields of a delimited file."""
    if isinstance(dialect.header, tuple):
        return list(dialect.header)
    style: dict[str, Any] = (
        {"quotechar": dialect.quote} if dialect.quote else {"quoting": csv.QUOTE_NONE}
    )
    if dialect.escape:
        style["escapechar"] = dialect.escape
    line = textblocks.first_line(path, dialect)
    try:
        names = next(
            csv.reader([line], delimiter=dialect.delimiter or ",", strict=True, **style), []
        )
    except csv.Error:
        raise DataError(
            f"{path!r}: the first line, which should hold the column names, does not parse; "
            "set the dialect"
        ) from None
    if not names:
        raise DataError(
            f"{path!r}: the file is empty, or its first line is; the first line should hold the column"
            " names"
        )
    return names


def delimited(path: str, dialect: Dialect) -> Part:
    """The part of a delimited file. Every column is binary: values are parsed later by the schema's
    types, so no value can fail to parse here."""

    dialect = dialect.named(textblocks.stem(path))
    names = names_of(path, dialect)
    header = dialect.header is True
    rule = _rule(dialect)
    tally = Tally()
    transcode = textblocks.transcoder(dialect.encoding)

    def units(columns: Sequence[str], user: str | None) -> Iterator[Unit]:
        column = np.full(len(names), -1, np.int32)
        column[[names.index(name) for name in columns]] = np.arange(len(columns))
        keep = _kept(dialect, user)

        def split(text: Block, final: bool = True) -> tuple[pa.RecordBatch, int]:
            made, rows, wrong, used = core.split(
                text=text,
                dialect=rule,
                column=column,
                columns=len(columns),
                limit=textblocks.MAX_LINE,
                keep_wrong=keep,
                final=final,
            )
            tally.add(wrong)
            batch = _batch(made, columns, rows)
            return (_with_points(batch, user) if dialect.decimal == "," else batch), used

        if dialect.newlines:
            blocks = _with_long_lines(textblocks.body(path, dialect, header))
            return _records(map(transcode, blocks), split, tally, keep)
        read = partial(_cut, lambda block: split(transcode(block))[0], tally, keep)
        return (partial(read, piece) for piece in textblocks.pieces(path, dialect, header))

    if dialect.delimiter == " " and names.count("") > 1:
        raise DataError(f"{path}: its first line is {ALIGNED}")
    schema = pa.schema([(name, pa.binary()) for name in names])
    hint = _other_delimiter(names, dialect.delimiter or ",")
    either = dialect.delimiter != "," and dialect.decimal is None
    return Part(
        path, schema, units, text=frozenset(names), hint=hint, either_mark=either, tally=tally
    )


ALIGNED = (
    "aligned by blanks, and fastdp reads one delimiter between two values; write it with commas"
    " first, for example: sed -E 's/^ +//; s/ +/,/g' FILE > NEW.csv"
)


COMMAS = r"^\s*[+-]?(\d{1,3}(\.\d{3})+(,\d+)?|\d+,\d*|,\d+)([eE][+-]?\d+)?\s*$"
"""Numbers with a decimal comma, and with points between their thousands or none."""


def _with_points(batch: pa.RecordBatch, user: str | None) -> pa.RecordBatch:
    """The texts of a file with decimal commas. Those that are such numbers get a decimal point, and
    lose the points between their thousands. Each depends on itself alone. Ids stay as they are."""

    def read(texts: pa.Array) -> pa.Array:
        bare = pc.replace_substring(texts, pattern=b".", replacement=b"")
        points = pc.replace_substring(bare, pattern=b",", replacement=b".")
        return pc.if_else(pc.match_substring_regex(texts, COMMAS), points, texts)

    names = batch.schema.names
    columns = (c if n == user else read(c) for n, c in zip(names, batch.columns, strict=True))
    return pa.record_batch(list(columns), names=names)


def _other_delimiter(names: Sequence[str], delimiter: str) -> str:
    """A hint for error texts if the names in the header look as if the file had another delimiter;
    else an empty text. The names are public."""
    if len(names) == 1 and re.search(r"\S {2,}\S", names[0]):
        return f"; its first line looks {ALIGNED}"
    marks = {
        mark: sum(name.count(mark) for name in names) for mark in ";\t|,:" if mark != delimiter
    }
    best = max(marks, key=lambda mark: marks[mark])
    if marks[best] < len(names):
        return ""
    written = "\\t" if best == "\t" else best
    hint = f'give dialect={{"delimiter": "{written}"}}, or put it into the schema\'s [dialect]'
    return f"; its first line looks delimited by {best!r}: {hint}"


def _rule(dialect: Dialect) -> core.Dialect:
    marks = (dialect.delimiter, dialect.quote, dialect.escape)
    delimiter, quote, escape = (ord(m) if m else -1 for m in marks)
    return core.Dialect(
        delimiter, quote, escape, dialect.newlines, [text.encode() for text in dialect.null]
    )


def damaged_lines(path: str, dialect: Dialect, columns: Sequence[str], most: int) -> list[int]:
    """Line numbers (from 1, including the header) of the first malformed lines, at most `most`;
    PRIVATE, for the data's owner. Empty if lines are not read independently (newlines in values,
    UTF-16, UTF-32), or if the file is not a text file. Lines that are left out because of their
    length count in the numbering, but their own numbers are not returned."""
    kind = kind_of(path) or (delimited if dialect.delimiter is not None else None)
    dialect = dialect.named(textblocks.stem(path)) if kind is delimited else dialect
    if kind is None or dialect.trusts_writer:
        return []
    transcode = textblocks.transcoder(dialect.encoding)
    header = kind is delimited and dialect.header is True
    if kind is delimited:
        rule = _rule(dialect)
        column = np.full(len(names_of(path, dialect)), -1, np.int32)
        column[0] = 0

        def wrong(block: bytes) -> int:
            return core.split(
                text=transcode(block),
                dialect=rule,
                column=column,
                columns=1,
                limit=textblocks.MAX_LINE,
                keep_wrong=False,
                final=True,
            )[2]

    else:
        keys = core.Texts([name.encode() for name in columns])

        def wrong(block: bytes) -> int:
            return core.json(transcode(block), keys, textblocks.MAX_LINE, False)[2]

    numbers: list[int] = []
    at = 1 + header
    for block, left_out in textblocks.body(path, dialect, header):
        at += left_out
        lines = block.split(b"\n")
        if wrong(block):
            numbers += [at + i for i, line in enumerate(lines) if wrong(line)]
            if len(numbers) >= most:
                return numbers[:most]
        at += len(lines) - 1
    return numbers


def json_lines(path: str, dialect: Dialect) -> Part:
    """The part of a file with one JSON object per line. Any key can be read as a column: which keys
    occur is not checked, since that depends on the rows."""

    tally = Tally()
    transcode = textblocks.transcoder(dialect.encoding)

    def units(columns: Sequence[str], user: str | None) -> Iterator[Unit]:
        keys = core.Texts([name.encode() for name in columns])
        keep = _kept(dialect, user)

        def members(block: Block) -> pa.RecordBatch:
            made, rows, wrong = core.json(transcode(block), keys, textblocks.MAX_LINE, keep)
            tally.add(wrong)
            return _batch(made, columns, rows)

        read = partial(_cut, members, tally, keep)
        return (partial(read, piece) for piece in textblocks.pieces(path, dialect, False))

    return Part(path, pa.schema([]), units, tally=tally, any_name=True)


def _kept(dialect: Dialect, user: str | None) -> bool:
    """Whether a malformed line becomes a row of nulls. In a table with users it is left out,
    whatever the dialect says: it has no id, and rows without an id are protected one by one."""
    return dialect.malformed == "null" and user is None


def _cut(
    read: Callable[[Block], pa.RecordBatch],
    tally: Tally,
    keep: bool,
    piece: Callable[[], tuple[Block, int]],
) -> Iterator[pa.RecordBatch]:
    """The rows of a piece of text. For each line that was left out because of its length, `keep`
    puts a malformed line (not valid UTF-8) in its place. Without it, the line is added to the
    tally."""
    block, left_out = piece()
    if keep and left_out:
        block = b"\xff\n" * left_out + block
    tally.add(0 if keep else left_out)
    yield from cut(read(block))


def _with_long_lines(blocks: Iterator[tuple[bytes, int]]) -> Iterator[bytes]:
    """The blocks. In place of each line that was left out because of its length stands another one
    that is too long. Whatever record it lies in is malformed and ends with it."""
    for block, left_out in blocks:
        for _ in range(left_out):
            yield b"\xff" * (textblocks.MAX_LINE + 1) + b"\n"
        yield block


def _records(
    texts: Iterator[bytes],
    split: Callable[..., tuple[pa.RecordBatch, int]],
    tally: Tally,
    keep: bool,
) -> Iterator[Unit]:
    """Units of a file whose values may contain newlines. The end of a record is known only after
    all records before it were read, so units are made in order. A record longer than MAX_LINE is
    malformed and ends at the first LF after MAX_LINE bytes."""
    carry = b""
    skipping = False
    for text in texts:
        if skipping:
            end = text.find(b"\n")
            if end < 0:
                continue
            text = text[end + 1 :]
            skipping = False
        carry += text
        batch, used = split(carry, False)
        yield partial(cut, batch)
        carry = carry[used:]
        if len(carry) > textblocks.MAX_LINE:
            carry = b"\xff\n" if keep else b""
            skipping = True
            tally.add(0 if keep else 1)
    yield partial(cut, split(carry, True)[0])


def _batch(made: list[core.Column], columns: Sequence[str], rows: int) -> pa.RecordBatch:
    """A record batch that uses the buffers filled by the kernel, without a copy."""

    arrays = []
    for offset, data, valid, nulls in made:
        parts = (valid if nulls else None, offset, data[: offset[-1]])
        buffers = [None if part is None else pa.py_buffer(part) for part in parts]
        arrays.append(pa.Array.from_buffers(pa.binary(), rows, buffers, nulls))
    return pa.record_batch(arrays, names=list(columns))
