"""Slow, obvious twins of csrc/lines.c: what one line becomes, as a function of that line; and lines
as the pieces between LFs."""

import json
import re

WRONG = "wrong"
BOM = b"\xef\xbb\xbf"


def trimmed(line: bytes) -> bytes:
    """One CR at the end and one byte order mark at the start are taken off."""
    line = line[3:] if line.startswith(BOM) else line
    return line[:-1] if line.endswith(b"\r") else line


def fields_of(
    line: str, delimiter: str, quote: str | None, escape: str | None
) -> list[tuple[str, str, bool]] | None:
    """(value, as it is written, whether it was quoted) of each field; None where the line does not
    parse. A state machine, one character a step."""
    fields = []
    value = ""
    written = ""
    state = "start"
    for c in line:
        written += c
        if state == "escaped":
            value = value + c
            state = "plain"
        elif state == "quoted escaped":
            value = value + c
            state = "quoted"
        elif state == "quoted":
            if c == escape:
                state = "quoted escaped"
            elif c == quote:
                state = "closed"
            else:
                value += c
        elif state == "closed" and c == quote:
            value = value + c
            state = "quoted"
        elif c == delimiter:
            fields.append((value, written[:-1], state == "closed"))
            value = ""
            written = ""
            state = "start"
        elif state == "closed":
            return None
        elif state == "start" and c == quote:
            state = "quoted"
        elif c == escape:
            state = "escaped"
        else:
            value = value + c
            state = "plain"
    if state in ("quoted", "escaped", "quoted escaped"):
        return None
    return [*fields, (value, written, state == "closed")]


def split_line(
    line: bytes, count: int, delimiter=",", quote='"', escape=None, nulls=("",), limit=1 << 22
):
    """What becomes of one line of delimited text: None (no row), WRONG, or its values, None where
    they are null."""
    if len(line) > limit:
        return WRONG
    line = trimmed(line)
    if not line:
        return None
    try:
        fields = fields_of(line.decode("utf-8"), delimiter, quote, escape)
    except UnicodeDecodeError:
        return WRONG
    if fields is None or len(fields) != count:
        return WRONG
    return [  # an escaped null text is no null
        None if not quoted and written in nulls else value.encode()
        for value, written, quoted in fields
    ]


def split(text: bytes, count: int, **dialect) -> list:
    """What each line of a text becomes."""
    return [split_line(line, count, **dialect) for line in text.split(b"\n")]


class _NotJson(ValueError):
    pass


def _refuse(*_):
    raise _NotJson


class _Number(str):
    pass


def _depth(value) -> int:
    if isinstance(value, list):
        return 1 + max((_depth(v) for v in value), default=0)
    return 1 + max((_depth(v) for _, v in value), default=0) if isinstance(value, tuple) else 0


def _texts(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for v in value:
            yield from _texts(v)
    elif isinstance(value, tuple):
        for k, v in value:
            yield k
            yield from _texts(v)


def json_line(line: bytes, keys, limit=1 << 22, depth=64):
    """What becomes of one JSON line: None, WRONG, or the texts of these keys' values."""
    if len(line) > limit:
        return WRONG
    line = trimmed(line)
    if not line:
        return None
    try:
        value = json.loads(
            line.decode("utf-8"),
            object_pairs_hook=tuple,
            parse_int=_Number,
            parse_float=_Number,
            parse_constant=_refuse,
        )
        for text in _texts(value):
            text.encode("utf-8")
    except (ValueError, RecursionError):
        return WRONG
    if not isinstance(value, tuple) or _depth(value) > depth:
        return WRONG
    out = []
    for key in keys:
        values = [v for k, v in value if k == key]
        if len(values) > 1 or any(isinstance(v, list | tuple) for v in values):
            return WRONG
        single = values[0] if values else None
        out.append(
            {None: None, True: b"true", False: b"false"}[single]
            if not isinstance(single, str)
            else single.encode()
        )
    return out


def records(text: bytes, quote=b'"', delimiter=b",", escape=None, limit=1 << 22) -> list[bytes]:
    """With newlines in values: the records of a text, each up to the first LF outside quotes. One
    that is longer than the limit goes on to the first LF from there."""
    out = []
    at = 0
    while at < len(text):
        end = _record_end(text, at, quote, delimiter, escape)
        if end - at > limit:
            next_line = text.find(b"\n", at + limit)
            end = len(text) if next_line < 0 else next_line
        out.append(text[at:end])
        at = end + 1
    return out


def _record_end(text, at, quote, delimiter, escape):
    at += 3 if text[at : at + 3] == BOM else 0
    inside = False
    fresh = True
    while at < len(text):
        c = text[at : at + 1]
        if inside:
            if c == escape:
                at += 1
            elif c == quote:
                if text[at + 1 : at + 2] == quote:
                    at += 1
                else:
                    inside = False
        elif c == b"\n":
            return at
        elif c == quote and fresh:
            inside = True
        elif c == escape and text[at + 1 : at + 2] != b"\n":
            at += 1
        fresh = c == delimiter and not inside
        at += 1
    return len(text)


def whole(text: bytes) -> int | None:
    """The number of a text that is a whole number of at most 18 digits, with blanks around it or
    without."""
    match = re.fullmatch(rb"[ \t-\r]*([+-]?[0-9]{1,18})[ \t-\r]*", text)
    return int(match[1]) if match else None


def is_shortest(text: bytes) -> bool:
    return re.fullmatch(rb"0|-?[1-9][0-9]{0,37}", text) is not None
