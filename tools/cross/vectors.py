"""Cases of the kernels that read, count and draw: inputs, and what the native build makes of
them."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from fastdp._core import bound, codes, count, draw, ids, lines, noise, score

from . import modelvectors
from .casefile import DOUBLE, File


def write(path: Path) -> int:
    """All cases; how many."""
    out = File()
    for part in (*PARTS, *modelvectors.PARTS):
        part(out, np.random.default_rng(7))
    path.write_bytes(b"".join(case for cases in out.cases.values() for case in cases))
    return sum(map(len, out.cases.values()))


def words(numbers: list[int]) -> np.ndarray:
    """128-bit numbers as pairs of 64-bit words, the higher first."""
    low = 2**64 - 1
    return np.array([[z >> 64, z & low] for z in numbers], np.uint64)


def noise_cases(out: File, rng: np.random.Generator) -> None:
    for law in ("gaussian", "laplace"):
        for scale in (
            [1e-3],
            [0.7],
            [2.0**20],
            [1e12],
            [2.0**54],
            np.exp(rng.uniform(-6, 27, 40_000)),
        ):
            key = rng.integers(0, 2**32, 8, dtype=np.uint32)
            scale = np.asarray(scale, np.float64)
            drawn = np.zeros(40_000, np.int64)
            getattr(noise, law)(scale, key, 1, drawn)
            out.case(law, [scale, key], [drawn])
    drawn = np.zeros(3001, np.uint8)
    noise.random_bytes(key, drawn)
    out.case("random_bytes", [key], [drawn])
    for counter in (0, 1, 2**32 - 4):
        nonce = rng.integers(0, 2**32, 3, dtype=np.uint32)
        blocks = [f(key, counter, nonce) for f in (noise.chacha20_block, noise.chacha20_lanes)]
        out.case("chacha20", [key, counter, nonce], blocks)
    most = 7 << 125
    z = [0, 1, most - 1, *(int.from_bytes(rng.bytes(16), "little") % most for _ in range(400))]
    out.case("exp_minus", [words(z)], [words([noise.exp_minus(x) for x in z])])
    u = [0, 2**128 - 1, *(int.from_bytes(rng.bytes(16), "little") for _ in range(400))]
    strips = rng.integers(0, 60, len(u)).astype(np.uint32)
    made = [noise.gauss_exponent(int(s), x) for s, x in zip(strips, u)]
    out.case("gauss_exponent", [strips, words(u)], [words(made)])


def user_cases(out: File, rng: np.random.Generator) -> None:
    for rows, users in ((1, 1), (700, 40), (30_000, 5000)):
        user = rng.integers(0, users, rows).astype(np.uint32)
        hashes = bound.hash_words(rng.integers(0, 2**63, users).astype(np.uint64))
        per_user = bound.rows_per_user(user, users)
        out.case("rows_per_user", [user, users], [per_user])
        start, order = bound.group(user, per_user, None)
        out.case("group", [user, per_user, None], [start, order])
        columns = [
            rng.integers(0, n, rows).astype(t) for n, t in ((9, "u1"), (900, "u2"), (70_000, "u4"))
        ]
        content = bound.hash_rows(columns, rows)
        out.case("hash_rows", columns, [content])
        key = rng.integers(0, 24, rows).astype(np.uint64)
        start, keys = bound.group(user, per_user, key)
        out.case("group", [user, per_user, key], [start, keys])
        common = bound.most_common(start, keys.copy(), hashes, 20, 1)
        out.case("most_common", [start, keys, hashes], [common])
        cells = np.sort(rng.permutation(24 * 3)[:40]).astype(np.int64)
        position = np.full(24 * 3, -1, np.int32)
        position[cells] = np.arange(40)
        for chosen, place, size in ((None, None, 72), (cells, None, 40), (cells, position, 40)):
            made = bound.groups(
                start,
                keys.copy(),
                user_hash=hashes,
                cells=chosen,
                position=place,
                size=size,
                t_max=3,
                cap=2,
                threads=1,
            )
            out.case("user_groups", [start, keys, hashes, chosen, place, 3, 2], [made])
    numbers = rng.integers(0, 2**63, 999).astype(np.uint64)
    out.case("hash_words", [numbers], [bound.hash_words(numbers)])
    texts = [rng.bytes(int(n)) for n in rng.integers(0, 40, 500)]
    offset = np.cumsum([0, *map(len, texts)]).astype(np.int64)
    data = np.frombuffer(b"".join(texts), np.uint8)
    secret = numbers[:2].copy()
    keys = bound.hash_strings(offset, data, secret)
    out.case("hash_strings", [offset, data, secret], [keys])
    hashes = bound.string_hashes(offset, data)
    out.case("string_hashes", [offset, data], [hashes])
    for is_signed in (False, True):
        out.case("word_hashes", [numbers, is_signed], [bound.word_hashes(numbers, is_signed)])
    for width, key, valid in (
        (1, hashes, None),
        (2, keys, (rng.random(500) < 0.9).astype(np.uint8)),
    ):
        number_ids(out, width, 5, key, hashes, valid)


def number_ids(out: File, width: int, secret: int, keys, hashes, valid=None) -> None:
    many = bound.Ids(width, secret)
    place, fresh = many.find(keys, None, hashes, valid, 1 << 32)
    many.settle(place, fresh, 1 << 32)
    many.number(place)
    given = [width, np.array([secret], np.uint64), keys, hashes, valid]
    out.case("number_ids", given, [place, many.hashes()])


def count_cases(out: File, rng: np.random.Generator) -> None:
    sizes = (7, 300, 70)
    for rows, weighted in ((1, False), (5000, True), (20_000, False)):
        columns = [rng.integers(0, n, rows).astype(t) for n, t in zip(sizes, ("u1", "u2", "u4"))]
        user = rng.integers(0, 50, rows).astype(np.uint32) if weighted else None
        weight = rng.integers(1, 2**20, 50).astype(np.uint32) if weighted else None
        given = [*columns, user, weight]
        made = count.Rows(columns, user, weight, rows)
        cliques = [(0,), (1, 2), (0, 1, 2), (2, 0)]
        start = np.cumsum([0, *map(len, cliques)]).astype(np.int32)
        column = np.concatenate(cliques).astype(np.int32)
        size = np.array([sizes[i] for i in column], np.uint32)
        cells = np.array([int(np.prod([sizes[i] for i in c])) for c in cliques], np.int64)
        offset = np.concatenate([[0], np.cumsum(cells)[:-1]]).astype(np.int64)
        tables = np.zeros(cells.sum(), np.int64)
        count.count(
            made,
            start,
            column=column,
            size=size,
            offset=offset,
            cells=cells,
            threads=1,
            chunk=777,
            budget=1 << 20,
            tables=tables,
        )
        out.case("count", [*given, start, column, size, offset, cells, 777, 1 << 20], [tables])
        wide = np.array(sizes, np.uint64)
        numbers = count.cells(made, wide, 1)
        keys, sums = count.sparse(made, numbers.copy(), 18, 1)
        out.case("cells_and_sparse", [*given, wide, 18], [numbers, keys, sums])
    for shape in ((1, 5, 1), (4, 30, 50), (60, 3, 1), (1, 70, 33)):
        table = rng.integers(0, 2**40, shape).astype(np.int64)
        kept = np.zeros(shape[0] * shape[2], np.int64)
        count.Projections([[(table, 1, 2, kept)]]).run(1)
        out.case("project", [table, list(shape)], [kept])


def code_cases(out: File, rng: np.random.Generator) -> None:
    rows = 3000
    nothing = codes.DROP
    whole = rng.integers(-40, 140, rows)
    real = np.where(rng.random(rows) < 0.1, np.nan, np.round(rng.normal(30, 40, rows), 1))
    valid = np.packbits(rng.random(rows + 8) < 0.9, bitorder="little")
    table = rng.permutation(200).astype(np.uint32)
    keys = np.sort(rng.permutation(150)[:60])
    rules: list[tuple[int, dict[str, Any]]] = [
        (
            codes.AFFINE,
            {"lo": -10, "count": 100, "below": 0, "above": nothing, "other": 7, "nan": 3},
        ),
        (codes.TABLE, {"lo": 0, "count": 100, "table": table, "null": 5}),
        (
            codes.SORTED,
            {"count": 60, "ikeys": keys, "fkeys": keys.astype(float), "table": table, "other": 9},
        ),
        (
            codes.EDGES,
            {"count": 60, "ikeys": keys, "fkeys": keys.astype(float), "table": table, "nan": 199},
        ),
    ]
    for rule, fields in rules:
        ready = codes.Map(rule, **fields)
        outside = [fields.get(name, nothing) for name in ("below", "above", "other", "nan", "null")]
        arrays = [
            np.asarray(fields.get(name, []), dtype)
            for name, dtype in (("ikeys", "i8"), ("fkeys", "f8"), ("table", "u4"))
        ]
        for x in (
            whole.astype("i8"),
            whole.astype("i2"),
            (whole % 128).astype("u1"),
            real,
            real.astype("f4"),
        ):
            for bits, width in ((None, 4), (valid, 2)):
                codes_made = np.zeros(rows, f"u{width}")
                keep = np.ones(rows, np.uint8)
                codes.encode([(x, ready, bits, 3 if bits is not None else 0, codes_made, keep)])
                facts = [
                    codes.TYPES[x.dtype.str[1:]],
                    rule,
                    fields.get("lo", 0),
                    fields["count"],
                    *outside,
                ]
                facts += [3 if bits is not None else 0, width]
                out.case("encode", [x, facts, *arrays, bits], [codes_made, keep])
    code = rng.integers(0, 200, rows).astype(np.uint16)
    values = rng.integers(-(2**60), 2**60, 200)
    made = np.zeros(rows, np.int64)
    codes.lookup(code, values, made)
    out.case("lookup", [code, values], [made])
    u = np.zeros(rows)
    codes.uniform(12345, 2**40, u)
    out.case("uniform", [np.array([12345], np.uint64), np.array([2**40], np.uint64)], [u])
    lo = np.sort(rng.normal(0, 1000, 200))
    bins = np.stack([lo, lo + 50, rng.choice([0.0, 7.0, -9.0], 200), lo, lo + 49])
    for even in (True, False):
        use = bins.copy()
        if even:
            use[2] = 0
        for integer, dtype in ((False, "f8"), (True, "i4")):
            made = np.zeros(rows, dtype)
            codes.draw(code, *use, integer, 1.0, 99, 5, made)
            facts = [int(integer), codes.TYPES[dtype]]
            out.case(
                "draw_values", [code, use, facts, 1.0, np.array([99, 5], np.uint64)], [made], DOUBLE
            )


def text_outputs(columns: list, rows: int, facts: list[int]) -> list[Any]:
    """Of each column offsets, the bytes in use, validity by row; then the facts."""
    arrays: list[Any] = []
    for offset, data, valid, _ in columns:
        bits = np.unpackbits(valid, bitorder="little")[:rows]
        arrays += [offset, data[: offset[rows] if rows else 0], bits]
    return [*arrays, facts]


def line_cases(out: File, rng: np.random.Generator) -> None:
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
    for numbers in (
        ["1", "-2", "0"],
        [" 7", "+8 "],
        ["999999999999999999", "-999999999999999999"],
        ["1", "x"],
    ):
        offset = np.cumsum([0, *map(len, numbers)]).astype(np.int32)
        data = np.frombuffer("".join(numbers).encode(), np.uint8)
        x = lines.whole(offset, data, None)
        shortest = lines.shortest(offset, data, None)
        out.case("whole_numbers", [offset, data], [[int(x is not None), int(shortest)], x])


def public_cases(out: File, rng: np.random.Generator) -> None:
    sizes = rng.integers(1, 9, 50)
    start = np.cumsum([0, *sizes]).astype(np.int64)
    counts = rng.integers(1, 2**30, start[-1])
    upto = np.concatenate([np.cumsum(counts[a:b]) for a, b in pairwise(start)]).astype(np.int64)
    value = rng.integers(0, 2**32, start[-1], dtype=np.uint32)
    group = rng.integers(0, 50, 4000).astype(np.int64)
    u = rng.random(4000)
    out.case(
        "draw_groups", [start, upto, value, group, u], [draw.draw(start, upto, value, group, u)]
    )
    row, unit = (rng.integers(0, 40, n).astype(np.uint32) for n in (900, 700))
    grouped = []
    for keys, seed in ((row, 3), (unit, 4)):
        grouped += ids.group(keys, 40, seed)
        out.case("ids_group", [keys, np.array([seed], np.uint64)], list(grouped[-2:]))
    rows = rng.permutation(1000).astype(np.uint32)[:900]
    units = rng.permutation(700).astype(np.uint32)
    user = rng.integers(0, 99, 700).astype(np.uint32)
    owner = np.zeros(1000, np.uint32)
    left = ids.deal(*grouped, rows, units, user, owner)
    out.case("ids_deal", [*grouped, rows, units, user], [owner, *left])
    columns = [rng.integers(0, n, 5000).astype(np.uint8) for n in (3, 30, 200)]
    groups = rng.integers(0, 20, 5000).astype(np.uint32)
    start, packed = score.group_rows(groups, columns, 21)
    out.case("group_rows", [groups, *columns], [start, packed])
    other = score.group_rows(groups[:3000], [c[:3000] for c in columns], 21)
    widths = np.array([3, 30, 200], np.int32)
    made = score.grouped_pairs(start, packed, *other, widths, 1)
    out.case("grouped_pairs", [start, packed, *other, widths], [made], DOUBLE)
    one, two = (rng.integers(0, 77, n).astype(np.uint32) for n in (900, 1200))
    out.case("score_distance", [one, two, 80], [np.array([score.distance(one, two, 80)])], DOUBLE)


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


def edge_cases(out: File, rng: np.random.Generator) -> None:
    """Just inside and just outside of limits: of UTF-8 and JSON, of tables that grow, of blocks, of
    types."""
    for width in (1, 2):
        number = rng.integers(0, 4000, 9000)
        words = rng.integers(0, 2**63, (4000, width)).astype(np.uint64)
        keys = np.ascontiguousarray(words[number]).reshape(-1)
        hashes = bound.hash_words(words[number, 0].copy())
        for secret in (5, 2**64 - 1):
            number_ids(out, width, secret, keys, hashes)
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
    for keep_wrong in (0, 1):
        for limit in (40, 73, 74, 400):
            text = np.frombuffer(b"\n".join([*made, *long]), np.uint8)
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
    for quote, escape, newlines in ((34, -1, 0), (34, 34, 0), (39, 92, 1), (-1, 92, 0)):
        pieces = [
            b"a,",
            b"%b%,c",
            b"%a%%b%,1",
            b"%a%x,1",
            b"%a,b",
            b"\\%,1",
            b"a\\",
            b"%%,%%",
            b" %a%,b",
            b"%a%\r",
            b",",
        ]
        mark = bytes([quote]) if quote > 0 else b'"'
        some = (
            [p.replace(b"%", mark) for p in pieces]
            + [b"," + s for s in SEQUENCES]
            + [s + b",y" for s in SEQUENCES]
        )
        some = [line + b",k" for line in some] + [b"x" * n + b",z,k" for n in range(24, 30)]
        some += [b"NA,N,NAN", b"N,NA,NA", b"NAN,NA,N", b"NA\r", b"\xef\xbb\xbfq,r,s"]
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
    for number in (
        "9" * 18,
        "9" * 19,
        "-" + "9" * 18,
        "0" * 18 + "1",
        "",
        "-",
        "+",
        " ",
        "- 1",
        "1 1",
        "\t1",
        "1\n",
        "0",
        "-0",
    ):
        offset = np.array([0, len(number)], np.int32)
        data = np.frombuffer(number.encode() or b"\0", np.uint8)
        x = lines.whole(offset, data, None)
        shortest = lines.shortest(offset, data, None)
        out.case("whole_numbers", [offset, data], [[int(x is not None), int(shortest)], x])


def limit_cases(out: File, rng: np.random.Generator) -> None:
    """Numbers just inside and just outside of rules and types; rows on both sides of a block of
    4096."""
    nothing = codes.DROP
    table = rng.permutation(70).astype(np.uint32)
    outside = {"below": 60, "above": 61, "other": 62, "nan": 63, "null": 64}
    whole = [
        -(2**63),
        -(2**31),
        -129,
        -128,
        -1,
        0,
        1,
        4,
        5,
        6,
        36,
        37,
        38,
        39,
        127,
        128,
        255,
        256,
        2**31,
        2**63 - 1,
    ]
    real = [
        *map(float, whole),
        4.5,
        5.0,
        -0.0,
        36.999,
        37.0,
        0.1,
        2.0**53,
        2.0**63,
        1e30,
        np.inf,
        -np.inf,
        np.nan,
    ]
    for size in (0, 1, 31, 32, 33, 64):
        keys = np.arange(5, 5 + size, dtype=np.int64)
        for rule, fields in (
            (codes.AFFINE, {"lo": 5, "count": size}),
            (codes.TABLE, {"lo": 5, "count": size, "table": table}),
            (
                codes.SORTED,
                {"count": size, "ikeys": keys, "fkeys": keys.astype(float), "table": table},
            ),
            (
                codes.EDGES,
                {"count": size, "ikeys": keys, "fkeys": keys.astype(float), "table": table},
            ),
        ):
            for dropping in (False, True):
                use = dict(fields, **({k: nothing for k in outside} if dropping else outside))
                for dtype in ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8"):
                    x = np.array(
                        real if dtype[0] == "f" else [w for w in whole if _fits(w, dtype)], dtype
                    )
                    made = np.zeros(x.size, "u1")
                    keep = np.ones(x.size, np.uint8)
                    codes.encode([(x, codes.Map(rule, **use), None, 0, made, keep)])
                    facts = [
                        codes.TYPES[dtype],
                        rule,
                        use.get("lo", 0),
                        size,
                        *(use[k] for k in outside),
                        0,
                        1,
                    ]
                    arrays = [
                        np.asarray(use.get(name, []), kind)
                        for name, kind in (("ikeys", "i8"), ("fkeys", "f8"), ("table", "u4"))
                    ]
                    out.case("encode", [x, facts, *arrays, None], [made, keep])
    for rows in (0, 1, 4095, 4096, 4097, 8193):
        code = rng.integers(0, 200, rows).astype(np.uint8)
        values = rng.integers(0, 250, 200).astype(np.int64)
        made = np.zeros(rows, np.int64)
        codes.lookup(code, values, made)
        u = np.zeros(rows)
        codes.uniform(7, 2**64 - 3000, u)
        if rows:
            out.case("lookup", [code.astype(np.uint16), values], [made])
            out.case(
                "uniform", [np.array([7], np.uint64), np.array([2**64 - 3000], np.uint64)], [u]
            )


def _fits(number: int, dtype: str) -> bool:
    limits = np.iinfo(dtype)
    return limits.min <= number <= limits.max


PARTS = (
    noise_cases,
    user_cases,
    count_cases,
    code_cases,
    line_cases,
    edge_cases,
    limit_cases,
    public_cases,
)
