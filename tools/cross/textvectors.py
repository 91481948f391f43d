"""Cases of the kernels that read text: separated lines, lines of JSON, whole numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastdp._core import lines

from .casefile import File

ESCAPES = ("0000", "0020", "007f", "0080", "07ff", "0800", "d7ff", "e000", "ffff", "FFFD", "00E9")
PAIRS = (
    "d800\\udc00",
    "dbff\\udfff",
    "D83D\\uDE00",
    "d800",
    "dc00\\ud800",
    "d800\\ue000",
    "dbffx",
    "d800\\udbff",
)
SEQUENCES = (
    *(
        b"\x7f",
        b"\xc2\x80",
        b"\xdf\xbf",
        b"\xe0\xa0\x80",
        b"\xed\x9f\xbf",
        b"\xee\x80\x80",
        b"\xef\xbf\xbf",
    ),
    *(b"\xf0\x90\x80\x80", b"\xf4\x8f\xbf\xbf", b"\xf1\x80\x80\x80", b"\xf3\xbf\xbf\xbf"),
    *(
        b"\x80",
        b"\xbf",
        b"\xc0\x80",
        b"\xc1\xbf",
        b"\xc2",
        b"\xc2\x7f",
        b"\xc2\xc0",
        b"\xe0\x9f\xbf",
        b"\xe0\xa0",
    ),
    *(
        b"\xe1\x80\x7f",
        b"\xe1\x80\xc0",
        b"\xed\xa0\x80",
        b"\xed\xbf\xbf",
        b"\xf0\x8f\xbf\xbf",
        b"\xf0\x90\x80",
    ),
    *(
        b"\xf4\x90\x80\x80",
        b"\xf5\x80\x80\x80",
        b"\xf1\x80\x80\x7f",
        b"\xf1\x7f\x80\x80",
        b"\xfe",
        b"\xff",
    ),
)
"""Texts in UTF-8 on both sides of every limit of it: each is a character, or none."""
NUMBERS = (
    *(
        "0",
        "-0",
        "1",
        "-1",
        "10",
        "01",
        "-01",
        "00",
        "1.0",
        "1.",
        ".1",
        "-.1",
        "1.05e10",
        "1e5",
        "1E+5",
        "1e-05",
    ),
    *(
        "1e",
        "1e+",
        "e5",
        "-",
        "+1",
        "1.e5",
        "1.5.5",
        "1e5e5",
        "0x1",
        "1 ",
        " 1",
        "NaN",
        "Infinity",
        "1_0",
        "٣",
    ),
)


def text_outputs(columns: list, rows: int, facts: list[int]) -> list[Any]:
    """Of each column offsets, the bytes in use, validity by row; then the facts."""
    arrays: list[Any] = []
    for offset, data, valid, _ in columns:
        bits = np.unpackbits(valid, bitorder="little")[:rows]
        arrays += [offset, data[: offset[rows] if rows else 0], bits]
    return [*arrays, facts]


def line_cases(out: File, rng: np.random.Generator) -> None:
    """Random lines of common and odd pieces."""
    _separated(out, rng)
    _json(out, rng)
    for numbers in (
        ["1", "-2", "0"],
        [" 7", "+8 "],
        ["999999999999999999", "-999999999999999999"],
        ["1", "x"],
    ):
        _whole_numbers(out, numbers)


def _separated(out: File, rng: np.random.Generator) -> None:
    pieces = [
        b"a",
        b"12",
        b"-7",
        b'"x,y"',
        b'"a""b"',
        b"",
        b"NA",
        "é".encode(),
        b"\xff",
        b'"open',
        b"\\,",
    ]
    for quote, escape, newlines in ((34, -1, 0), (34, 92, 0), (-1, -1, 0), (34, -1, 1)):
        for keep_wrong in (0, 1):
            made = [b",".join(rng.choice(pieces, rng.choice([3, 3, 3, 2, 4]))) for _ in range(400)]
            text = np.frombuffer(b"\n".join(made) + b"\r\n\n\xef\xbb\xbfa,b,c", np.uint8)
            start = np.array([0, 2], np.int32)
            nulls = np.frombuffer(b"NA\0", np.uint8)
            dialect = lines.Dialect(44, quote, escape, bool(newlines), [b"NA"])
            split = lines.split(
                text,
                dialect,
                column=np.arange(3, dtype=np.int32),
                columns=3,
                limit=30,
                keep_wrong=bool(keep_wrong),
                final=True,
            )
            columns, rows, wrong, consumed = split
            asked = [44, quote, escape, newlines, 30, keep_wrong, 1]
            out.case(
                "split",
                [text, asked, start, nulls],
                text_outputs(columns, rows, [rows, wrong, consumed]),
            )


def _json(out: File, rng: np.random.Generator) -> None:
    values = [
        "1",
        "-2.5e3",
        '"t\\u00e9xt"',
        "null",
        "true",
        "[1]",
        '{"a":1}',
        '"\\ud83d\\ude00"',
        "01",
        '"',
    ]
    for keep_wrong in (0, 1):
        made = [
            "{"
            + ",".join(f'"{k}":{rng.choice(values, p=[0.25] * 3 + [0.25 / 7] * 7)}' for k in names)
            + "}"
            for names in (
                rng.permutation(["a", "bb", "c", "d"])[: rng.integers(0, 5)] for _ in range(300)
            )
        ]
        text = np.frombuffer("\n".join(made).encode(), np.uint8)
        keys = [b"a", b"bb", b"c"]
        columns, rows, wrong = lines.json(text, lines.Texts(keys), 200, bool(keep_wrong))
        start = np.cumsum([0, *map(len, keys)]).astype(np.int32)
        joined = np.frombuffer(b"".join(keys) + b"\0", np.uint8)
        out.case(
            "json",
            [text, [200, keep_wrong], start, joined],
            text_outputs(columns, rows, [rows, wrong, 0]),
        )


def _whole_numbers(out: File, numbers: list[str]) -> None:
    offset = np.cumsum([0, *map(len, numbers)]).astype(np.int32)
    data = np.frombuffer("".join(numbers).encode() or b"\0", np.uint8)
    x = lines.whole(offset, data, None)
    shortest = lines.shortest(offset, data, None)
    out.case("whole_numbers", [offset, data], [[int(x is not None), int(shortest)], x])


def text_edge_cases(out: File, rng: np.random.Generator) -> None:
    """Just inside and just outside of limits: of UTF-8, JSON, separated lines and whole numbers."""
    _json_edges(out)
    _separated_edges(out)
    for number in (
        "9" * 18,
        "9" * 19,
        "-" + "9" * 18,
        "0" * 18 + "1",
        *("", "-", "+", " ", "- 1", "1 1", "\t1", "1\n", "0", "-0"),
    ):
        _whole_numbers(out, [number])


def _json_edges(out: File) -> None:
    text_rows = _json_rows()
    for keep_wrong in (0, 1):
        for limit in (40, 73, 74, 400):
            text = np.frombuffer(b"\n".join(text_rows), np.uint8)
            names = [b"a", b"bb", b"c"]
            columns, rows, wrong = lines.json(text, lines.Texts(names), limit, bool(keep_wrong))
            start = np.cumsum([0, *map(len, names)]).astype(np.int32)
            joined = np.frombuffer(b"".join(names) + b"\0", np.uint8)
            facts = [rows, wrong, 0]
            out.case(
                "json",
                [text, [limit, keep_wrong], start, joined],
                text_outputs(columns, rows, facts),
            )


def _json_rows() -> list[bytes]:
    """Rows of JSON, right and wrong, and some that are nearly or just too long."""
    texts = [f'"\\u{e}"' for e in (*ESCAPES, *PAIRS)] + [f'"a\\{c}b"' for c in 'bfnrt"/\\uxUN0']
    texts += [
        '"\\u00e"',
        '"\\u00g0"',
        '"\\',
        '"\\u',
        '"a\x01b"',
        '"a\x1fb"',
        '"\x7f"',
        '"',
        '""',
        "'a'",
        "nul",
        "nulll",
    ]
    texts += [
        "true",
        "false",
        "tru",
        "True",
        "[]",
        "[1,]",
        "[1,2]",
        "[[1],[2]]",
        "{}",
        '{"x":[{}]}',
        "[}",
        "{]",
        "",
        ",",
    ]
    values = [text.encode() for text in (*texts, *NUMBERS)] + [b'"' + s + b'"' for s in SEQUENCES]
    made = [b'{"a":' + v + b"}" for v in values] + [
        b'{"a":1,"bb":' + v + b',"c":2}' for v in values[::3]
    ]
    made += [
        b' { "a" : 1 , "c" : 2 } ',
        b'{"a":1}x',
        b'{"a":1',
        b'{"a" 1}',
        b"{a:1}",
        b'{"a":1,}',
        b"{}",
        b"[]",
        b"x",
    ]
    made += [
        b'{"a":1,"a":2}',
        b'{"\\u0061":3}',
        b'{"aa":1,"":2,"a":4}',
        b"\xef\xbb\xbf" + b'{"a":5}',
        b'{"a":6}\r',
        b"\r",
    ]
    long = [b'{"a":"' + b"x" * n + b'"}' for n in range(60, 70)]
    return [*made, *long]


def _separated_edges(out: File) -> None:
    for quote, escape, newlines in ((34, -1, 0), (34, 34, 0), (39, 92, 1), (-1, 92, 0)):
        mark = bytes([quote]) if quote > 0 else b'"'
        some = _separated_rows(mark)
        for ending in (b"", b"\n", b"\r\n", b"\n%open,".replace(b"%", mark)):
            for final in (0, 1):
                text = np.frombuffer(b"\n".join(some) + ending, np.uint8)
                dialect = lines.Dialect(44, quote, escape, bool(newlines), [b"NA"])
                fields = np.arange(3, dtype=np.int32)
                columns, rows, wrong, consumed = lines.split(
                    text,
                    dialect,
                    column=fields,
                    columns=3,
                    limit=30,
                    keep_wrong=True,
                    final=bool(final),
                )
                asked = [44, quote, escape, newlines, 30, 1, final]
                start = np.array([0, 2], np.int32)
                nulls = np.frombuffer(b"NA\0", np.uint8)
                made = text_outputs(columns, rows, [rows, wrong, consumed])
                out.case("split", [text, asked, start, nulls], made)


def _separated_rows(mark: bytes) -> list[bytes]:
    """Lines of three fields, right and wrong, where `mark` quotes."""
    pieces = [
        *(b"a,", b"%b%,c", b"%a%%b%,1", b"%a%x,1", b"%a,b", b"\\%,1"),
        *(b"a\\", b"%%,%%", b" %a%,b", b"%a%\r", b","),
    ]
    some = (
        [p.replace(b"%", mark) for p in pieces]
        + [b"," + s for s in SEQUENCES]
        + [s + b",y" for s in SEQUENCES]
    )
    some = [line + b",k" for line in some] + [b"x" * n + b",z,k" for n in range(24, 30)]
    return [*some, b"NA,N,NAN", b"N,NA,NA", b"NAN,NA,N", b"NA\r", b"\xef\xbb\xbfq,r,s"]


PARTS = (line_cases, text_edge_cases)
