"""Cases of the kernels that number users, count rows, draw noise and score tables."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from fastdp._core import bound, count, draw, ids, noise, score

from .casefile import DOUBLE, File


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


def growing_id_cases(out: File, rng: np.random.Generator) -> None:
    """More ids than a table has room for at first."""
    for width in (1, 2):
        number = rng.integers(0, 4000, 9000)
        words = rng.integers(0, 2**63, (4000, width)).astype(np.uint64)
        keys = np.ascontiguousarray(words[number]).reshape(-1)
        hashes = bound.hash_words(words[number, 0].copy())
        for secret in (5, 2**64 - 1):
            number_ids(out, width, secret, keys, hashes)


PARTS = (noise_cases, user_cases, count_cases, growing_id_cases, public_cases)
