"""The kernel that reads lines against its slow twin, on random bytes."""

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st

from fastdp._core import lines

from ..reference import lines as slow

LIMIT = 1 << 22


def dialect(delimiter=",", quote='"', escape=None, nulls=("",), newlines=False):
    code = [-1 if c is None else ord(c) for c in (quote, escape)]
    return lines.Dialect(ord(delimiter), *code, newlines, [n.encode() for n in nulls])


def values(column, rows):
    offset, data, valid, nulls = column
    bits = np.unpackbits(valid, bitorder="little")[:rows]
    assert nulls == rows - int(bits.sum())
    whole = data.tobytes()
    return [whole[offset[i] : offset[i + 1]] if bits[i] else None for i in range(rows)]


def fast(text, count, want=None, limit=LIMIT, keep=False, **options):
    want = list(range(count)) if want is None else want
    column = np.full(count, -1, np.int32)
    column[want] = np.arange(len(want))
    columns, rows, wrong, consumed = lines.split(
        text,
        dialect(**options),
        column=column,
        columns=len(want),
        limit=limit,
        keep_wrong=keep,
        final=True,
    )
    assert consumed == len(text)
    return list(map(list, zip(*(values(c, rows) for c in columns), strict=True))), wrong


def check(text, count, **options):
    rows = [line for line in slow.split(text, count, **options) if line is not None]
    want = [row for row in rows if row != slow.WRONG]
    assert fast(text, count, **options) == (want, len(rows) - len(want))
    kept = [[None] * count if row == slow.WRONG else row for row in rows]
    assert fast(text, count, keep=True, **options)[0] == kept


# Bytes that matter, and enough others to pass the eight-byte steps and the block copies.
PIECES = [
    b",",
    b'"',
    b"\\",
    b"\n",
    b"\r",
    b"\r\n",
    b"\t",
    b"a",
    b"NA",
    b"0123456",
    b"x" * 17,
    b"\xc3\xa9",
    b"\xff",
]
PIECES += [
    b"\xef\xbb\xbf",
    b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
    b"\xe0\x80\x80",
    b"\xf0\x9f\x9a\x95",
    b"\0",
    b" ",
]
texts = st.lists(st.sampled_from(PIECES) | st.binary(max_size=3), max_size=60).map(b"".join)
DIALECTS = [
    {},
    {"quote": None, "delimiter": "\t"},
    {"escape": "\\"},
    {"quote": None, "escape": "\\"},
    {"nulls": ("NA", "0123456"), "delimiter": "a"},
    {"nulls": ()},
]


# Lines that are almost right: fields in and out of quotes, joined by what joins them.
FIELDS = [
    "",
    "a",
    '"a"',
    '""',
    '"a""b"',
    '"a"b',
    '"a" ',
    '"a,b"',
    '"',
    'a"b',
    '"a""',
    "\\",
    "a\\,b",
    '"a\\"b"',
    "é",
]
almost = st.lists(
    st.lists(st.sampled_from(FIELDS), min_size=1, max_size=4).map(",".join), max_size=6
)
texts = texts | almost.map("\n".join).map(str.encode)


@settings(max_examples=50, deadline=None)
@given(
    text=texts,
    count=st.integers(1, 4),
    options=st.sampled_from(DIALECTS),
    limit=st.sampled_from([LIMIT, 5, 20]),
)
@example(text=b'a"b,"c\n', count=2, options={}, limit=LIMIT)
@example(text=b'"5\'10\\"",x\nb,c\n', count=2, options={}, limit=LIMIT)
@example(text=b'1,"open', count=2, options={}, limit=LIMIT)
@example(text=b'5555\t"hi\n1\t2\n', count=2, options=DIALECTS[1], limit=LIMIT)
@example(text=b'"a"b\n', count=2, options={}, limit=LIMIT)
def test_the_kernel_does_what_its_twin_does(text, count, options, limit):
    """The twin reads each line by itself: so no line changes what another becomes."""
    check(text, count, limit=limit, **options)


def records_of(text, count, options, block, limit):
    """The kernel with newlines in values, fed piece by piece, the way the reader feeds it."""
    column = np.arange(count, dtype=np.int32)
    rule = dialect(newlines=True, **options)
    rows = []
    wrong = 0
    carry = b""
    pieces = [text[i : i + block] for i in range(0, len(text), block)] or [b""]
    skipping = False
    for i, piece in enumerate(pieces):
        final = i == len(pieces) - 1
        if skipping:
            end = piece.find(b"\n")
            if end < 0:
                continue
            piece = piece[end + 1 :]
            skipping = False
        carry += piece
        columns, n, bad, used = lines.split(
            carry, rule, column=column, columns=count, limit=limit, keep_wrong=False, final=final
        )
        rows += list(map(list, zip(*(values(c, n) for c in columns), strict=True)))
        wrong = wrong + bad
        carry = carry[used:]
        if len(carry) > limit and not final:
            wrong = wrong + 1
            carry = b""
            skipping = True
    return rows, wrong


@settings(max_examples=30, deadline=None)
@given(
    text=texts,
    count=st.integers(1, 3),
    options=st.sampled_from([{}, {"escape": "\\"}]),
    block=st.integers(1, 200),
    limit=st.sampled_from([LIMIT, 6]),
)
def test_newlines_in_values_where_they_are_declared(text, count, options, block, limit):
    escape = options.get("escape")
    pieces = slow.records(text, escape=escape and escape.encode(), limit=limit)
    made = [slow.split_line(piece, count, limit=limit, **options) for piece in pieces]
    rows = [row for row in made if row is not None]
    want = [row for row in rows if row != slow.WRONG]
    assert records_of(text, count, options, block, limit) == (want, len(rows) - len(want))


def json_fast(text, keys, limit=LIMIT):
    columns, rows, wrong = lines.json(text, lines.Texts([k.encode() for k in keys]), limit)
    return list(map(list, zip(*(values(c, rows) for c in columns), strict=True))), wrong


def json_check(text, keys, limit=LIMIT):
    rows = [slow.json_line(line, keys, limit) for line in text.split(b"\n")]
    rows = [row for row in rows if row is not None]
    want = [row for row in rows if row != slow.WRONG]
    assert json_fast(text, keys, limit) == (want, len(rows) - len(want))


JSON = [
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    '"',
    '"a"',
    '"b"',
    '"\\u0061"',
    "1",
    "-0",
    "01",
    "1.5e+3",
    "1.",
    "true",
    "false",
]
JSON += [
    "null",
    " ",
    "\t",
    "\n",
    "\r",
    "NaN",
    "\\",
    '{"a":1}',
    '{"a":"x","b":null}',
    '"\\ud83d\\ude95"',
    '"\\ud83d"',
]
JSON += [
    '{"a":{"a":[1,{}]},"b":2}',
    '{"a":1,"a":2}',
    '"\x01"',
    '"\\/\\b\\n"',
    "é",
    "\ufeff",
    "{}",
    "[" * 70 + "]" * 70,
]


@settings(max_examples=50, deadline=None)
@given(
    pieces=st.lists(st.sampled_from(JSON).map(str.encode) | st.binary(max_size=2), max_size=14),
    limit=st.sampled_from([LIMIT, 9]),
)
@example(pieces=[b'{"c":', b"[" * 64 + b"]" * 64, b"}"], limit=LIMIT)
@example(pieces=[b'{"c":', b"[" * 63 + b"]" * 63, b"}"], limit=LIMIT)
def test_json_lines_against_the_twin(pieces, limit):
    json_check(b"".join(pieces), ["a", "b"], limit)


objects = st.dictionaries(
    st.sampled_from(["a", "b", "cé", '"', "\\"]),
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
)


@settings(max_examples=30, deadline=None)
@given(rows=st.lists(objects, max_size=6), ascii_only=st.booleans(), data=st.data())
def test_json_lines_that_a_writer_made_or_almost(rows, ascii_only, data):
    import json

    text = "\n".join(json.dumps(row, ensure_ascii=ascii_only) for row in rows).encode(
        "utf-8", "surrogatepass"
    )
    keys = ["a", "cé", '"']
    json_check(text, keys)
    if text:
        at = data.draw(st.integers(0, len(text) - 1))
        json_check(text[:at] + data.draw(st.binary(max_size=2)) + text[at + 1 :], keys)


def buffers(items):
    offset = np.cumsum([0, *(len(t or b"") for t in items)]).astype(np.int32)
    valid = np.packbits([t is not None for t in items], bitorder="little")
    return offset, np.frombuffer(b"".join(t or b"" for t in items) + b"\0", np.uint8), valid


WHOLE = [b"0", b"-0", b"007", b" 7", b"+7\t", b"-12", b"", b"x", b"1.0", b"1 2", b"-" + b"9" * 38]
numbers = st.sampled_from([*WHOLE, *(b"9" * digits for digits in (18, 19, 38, 39))])


@settings(max_examples=30, deadline=None)
@given(
    items=st.lists(
        numbers | st.none() | st.integers().map(lambda i: str(i).encode()), min_size=1, max_size=9
    )
)
def test_whole_numbers_are_parsed_as_by_the_slow_twin(items):
    offset, data, valid = buffers(items)
    want = [0 if t is None else slow.whole(t) for t in items]
    parsed = lines.whole(offset, data, valid)
    assert (None if parsed is None else parsed.tolist()) == (None if None in want else want)
    assert lines.shortest(offset, data, valid) == all(
        t is None or slow.is_shortest(t) for t in items
    )


@settings(max_examples=30, deadline=None)
@given(
    text=texts, count=st.integers(1, 3), options=st.sampled_from(DIALECTS), newlines=st.booleans()
)
def test_what_lies_behind_the_text_is_not_read(text, count, options, newlines):
    """A text is a part of a larger buffer: whatever follows it, even a quote, an escape or half a
    character, changes no value and no line."""
    column = np.arange(count, dtype=np.int32)
    read = []
    for behind in (b"\0", b'"', b"\\", b",", b"\n", b"\x80", b"}"):
        whole = np.frombuffer(text + behind * 9, np.uint8)[: len(text)]
        columns, rows, wrong, consumed = lines.split(
            whole,
            dialect(**options, newlines=newlines),
            column=column,
            columns=count,
            limit=LIMIT,
            keep_wrong=False,
            final=True,
        )
        keyed, objects, odd = lines.json(whole, lines.Texts([b"a", b"b"]), LIMIT)
        read.append(
            (
                [values(c, rows) for c in columns],
                wrong,
                consumed,
                [values(c, objects) for c in keyed],
                odd,
            )
        )
    assert all(one == read[0] for one in read)


NESTED = (
    b'{"a": [1, [2, "x"], {"y": null}], "b": "t\\u00e9\\ud83d\\ude00"}',
    b' {"c": {"d": [true, false], "e": {}} , "b" : -1.5e+3, "a":[]}',
    b'{"a": "\\"q\\\\", "z": [0.25, "\\u0041", [[]]], "b": true}',
)


@pytest.mark.parametrize("whole", NESTED)
def test_what_lies_behind_an_object_that_is_cut_short_is_not_read(whole):
    """Cut after any byte, an object is the same whatever follows the cut."""
    for end in range(1, len(whole) + 1):
        read = []
        for behind in b'\0"\\,:[]{}0e.-u4t\n\x80':
            text = np.frombuffer(whole[:end] + bytes([behind]) * 9, np.uint8)[:end]
            keyed, objects, odd = lines.json(text, lines.Texts([b"b", b"q"]), LIMIT)
            read.append(([values(c, objects) for c in keyed], odd))
        assert all(one == read[0] for one in read), whole[:end]
        assert (objects == 1 and not odd) == (end == len(whole)), whole[:end]
