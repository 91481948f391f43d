"""The bytes of a text file as UTF-8, in blocks of whole lines.

Lines end at LF (0x0A). Each line is transcoded independently, except in UTF-16 and UTF-32, in which
0x0A need not end a line. A file is transcoded as a whole if its dialect declares one of these
encodings. A line that cannot be decoded becomes a line that is not valid UTF-8, so that it is
malformed.
"""

from __future__ import annotations

import codecs
import os
from collections.abc import Callable, Iterator, Set
from functools import partial
from typing import Any

from .._util.lazy import pa
from ..errors import DataError
from ..schema.dialect import LINE_ENCODINGS, WHOLE_ENCODINGS, Dialect, byte_table

MAX_LINE = 1 << 22
"""Largest number of bytes of a line; a longer line is malformed."""

BLOCK = 1 << 22
"""Bytes read at a time."""

Block = bytes | memoryview

COMPRESSED = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}

_BAD = b"\xff"


def stem(path: str) -> str:
    """The path in lower case without the suffix of a compression."""
    path = path.lower()
    return next((path.removesuffix(ending) for ending in COMPRESSED if path.endswith(ending)), path)


def _mark(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "\udcff", error.end


codecs.register_error("fastdp-mark", _mark)


class _Transcoded:
    """A stream of UTF-16 or UTF-32, read as UTF-8."""

    def __init__(self, stream: Any, encoding: str):
        self.stream = stream
        self.ended = False
        self.decoder = codecs.getincrementaldecoder(encoding)("fastdp-mark")

    def __enter__(self) -> _Transcoded:
        return self

    def __exit__(self, *error: object) -> None:
        self.stream.close()

    def read(self, size: int) -> bytes:
        while not self.ended:
            raw = self.stream.read(size)
            self.ended = not raw
            if text := self.decoder.decode(raw, final=self.ended):
                return text.encode("utf-8", "surrogateescape")
        return b""


def open_bytes(path: str, dialect: Dialect) -> Any:
    """A stream of the file's bytes, decompressed as the suffix of its name says; UTF-16 and UTF-32
    are transcoded to UTF-8."""

    codec = next(
        (codec for ending, codec in COMPRESSED.items() if path.lower().endswith(ending)), None
    )
    stream: Any
    if codec:
        stream = pa.CompressedInputStream(pa.OSFile(path), codec)
    else:
        stream = open(path, "rb", buffering=0)
    return _Transcoded(stream, dialect.encoding) if dialect.encoding in WHOLE_ENCODINGS else stream


def transcoder(encoding: str) -> Callable[[Any], Any]:
    """A function that transcodes whole lines from this encoding to UTF-8, each line
    independently."""
    if encoding in ("utf-8", *WHOLE_ENCODINGS):
        return lambda block: block
    if encoding not in LINE_ENCODINGS:
        table = byte_table(encoding)
        return lambda b: codecs.charmap_decode(b, "strict", table)[0].encode(
            "utf-8", "surrogateescape"
        )

    def one(line: bytes) -> bytes:
        try:
            return line.decode(encoding).encode() if len(line) <= MAX_LINE else _BAD
        except UnicodeDecodeError:
            return _BAD

    return lambda block: b"\n".join(map(one, bytes(block).split(b"\n")))


def blocks(stream: Any, size: int, limit: int) -> Iterator[tuple[bytes, int]]:
    """Yields (bytes of whole lines, number of lines that are left out), in the order of the stream.
    Lines longer than `limit` are left out; the last block may end without LF."""
    carry = b""
    left_out = 0
    skipping = False
    while chunk := stream.read(size):
        start = 0
        if skipping:
            start = chunk.find(b"\n") + 1
            if start == 0:
                continue
            skipping = False
        end = chunk.rfind(b"\n") + 1
        if end <= start:
            carry += chunk[start:]
        else:
            yield b"".join((carry, memoryview(chunk)[start:end])), left_out
            carry = chunk[end:]
            left_out = 0
        if len(carry) > limit:
            carry = b""
            left_out += 1
            skipping = True
    yield carry, left_out


def body(path: str, dialect: Dialect, header: bool) -> Iterator[tuple[bytes, int]]:
    """`blocks` of a file without its header line, not yet transcoded."""
    with open_bytes(path, dialect) as stream:
        for block, left_out in blocks(stream, BLOCK, MAX_LINE):
            if header:
                block = block.partition(b"\n")[2]
                header = False
            yield block, left_out


def pieces(path: str, dialect: Dialect, header: bool) -> Iterator[Callable[[], tuple[Block, int]]]:
    """Functions that return what `body` yields. Of a plain file each reads its own bytes, so that
    threads share the reading: the lines that begin in its BLOCK bytes."""
    if (
        not os.path.isfile(path)
        or stem(path) != path.lower()
        or dialect.encoding in WHOLE_ENCODINGS
    ):
        yield from (lambda found=found: found for found in body(path, dialect, header))
    else:
        yield from (
            partial(_lines, path, at, header) for at in range(0, os.path.getsize(path), BLOCK)
        )


def _lines(path: str, start: int, header: bool) -> tuple[Block, int]:
    """The lines that begin in the BLOCK bytes from `start` on, without the header at 0. A line that
    is too long has enough bytes to be too long."""
    with open(path, "rb") as file:
        at = file.seek(max(start - 1, 0))
        # Most lines end within the last BLOCK // 64 of these bytes.
        text = file.read(start - at + BLOCK + BLOCK // 64)
        # The next piece begins with what follows an LF here or later.
        bound = start - at + BLOCK - 1
        if not (end := text.find(b"\n", bound) + 1):
            text += file.read(MAX_LINE)
            end = text.find(b"\n", bound) + 1 or len(text)
    begin = text.find(b"\n", 0, end) + 1 or end if start or header else 0
    return memoryview(text)[begin:end], 0


def single_byte_encoding(odd: Set[int]) -> str:
    """The likeliest encoding of text that is not UTF-8, by the bytes that it has."""
    return "latin-1" if odd & {0x81, 0x8D, 0x8F, 0x90, 0x9D} else "cp1252"


def first_line(path: str, dialect: Dialect) -> str:
    """The first line of a file: the names of its columns, which are public."""
    line = b""
    try:
        with open_bytes(path, dialect) as stream:
            while b"\n" not in line and len(line) <= MAX_LINE and (chunk := stream.read(1 << 16)):
                line += chunk
        line = line.partition(b"\n")[0]
        if len(line) > MAX_LINE:
            raise DataError(
                f"{path!r}: the first line is too long; it should hold the column names"
            )
        text = transcoder(dialect.encoding)(line).decode("utf-8")
    except UnicodeError:
        guess = single_byte_encoding(set(line))
        raise DataError(
            f"{path!r}: the first line, which should hold the column names, is not "
            f"{dialect.encoding}; it may be {guess}: give --dialect 'encoding = \"{guess}\"', or "
            "put it into the schema's [dialect]"
        ) from None
    return text.removeprefix("\ufeff").removesuffix("\r")
