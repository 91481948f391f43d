"""Kernels refuse arguments outside of their stated ranges with FDP_ERR_ARGUMENT before they touch any array,
and take those just inside. The wrappers let few of these through: the C sources are compiled and called."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from ctypes import POINTER, Structure, byref, c_double, c_int, c_int64, c_uint8, c_uint32, c_uint64, c_void_p
from pathlib import Path

import numpy as np
import pytest

from fastdp._core.ancestors import MOST, Ancestors

ROOT = Path(__file__).parents[2]
SOURCES = (
    "halve",
    "ids",
    "bound",
    "bound_users",
    "draw",
    "score",
    "codes",
    "treesize",
    "lines",
    "lines_json",
)
COMPILER = shutil.which("cc") or shutil.which("gcc")
OK, REFUSED, OVERFLOW = 0, -2, -3

pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C compiler")


@pytest.fixture(scope="module")
def core(tmp_path_factory):
    library = tmp_path_factory.mktemp("core") / "core.so"
    files = [ROOT / "csrc" / f"{name}.c" for name in SOURCES]
    flags = ["-shared", "-fPIC", "-O0", "-w", "-std=gnu11", "-DFDP_NO_CLONES", "-pthread"]
    subprocess.run([COMPILER, *flags, "-o", library, *files, "-lm"], check=True)
    return ctypes.CDLL(str(library))


def at(array):
    return array.ctypes.data_as(c_void_p)


def ints(*values, dtype=np.int64):
    return np.array(values, dtype)


@pytest.mark.parametrize(
    "pairs, items, weight, size, code",
    [
        (0, 0, 1, 1, OK),
        (0, 1 << 12, 1, 1, OK),
        (0, (1 << 12) + 1, 1, 1, REFUSED),
        (-1, 1, 1, 1, REFUSED),
        (1 << 29, 0, 1, 1, REFUSED),
        (0, 1, 0, 1, OK),
        (0, 1, -1, 1, REFUSED),
        (0, 1, 1 << 20, 1, OK),
        (0, 1, (1 << 20) + 1, 1, REFUSED),
        (0, 1, 1, 0, REFUSED),
    ],
)
def test_halving(core, pairs, items, weight, size, code):
    weights, sizes = np.full(max(items, 1), weight, np.int64), np.full(max(items, 1), size, np.uint64)
    got = core.fdp_halve(
        c_int64(pairs),
        1,
        items,
        None,
        None,
        None,
        None,
        None,
        at(sizes),
        None,
        at(weights),
        None,
        0,
        None,
        None,
        None,
    )
    assert got == code


@pytest.mark.parametrize(
    "n, keys, code",
    [(-1, 3, REFUSED), (0, 0, REFUSED), (0, 1, OK), (3, 3, OK), (3, 2, REFUSED), (2**32, 3, REFUSED)],
)
def test_grouping_of_ids(core, n, keys, code):
    key, order, start = ints(0, 2, 1, dtype=np.uint32), np.zeros(4, np.uint32), np.zeros(8, np.int64)
    assert core.fdp_ids_group(at(key), c_int64(n), c_int64(keys), c_uint64(1), at(order), at(start)) == code


@pytest.mark.parametrize(
    "counts, units, code",
    [
        ((2, 1), 3, OK),
        ((2, 1), 2, REFUSED),
        ((2, 1), 4, REFUSED),
        ((-1, 1), 0, REFUSED),
        ((0, 0), 0, OK),
        ((3, 0), 3, OK),
        ((4, -1), 3, REFUSED),
    ],
)
def test_units_of_users(core, counts, units, code):
    user, cell = np.full(9, 77, np.uint32), np.full(9, 77, np.uint32)
    given = (ints(0, 2), ints(*counts), ints(5, 6, dtype=np.uint32), ints(0))
    got = core.fdp_ids_units(*map(at, given), c_int64(1), c_int64(units), at(user), at(cell))
    assert got == code and (user[max(units, 0) :] == 77).all() and (cell[max(units, 0) :] == 77).all()


@pytest.mark.parametrize("width, code", [(0, REFUSED), (1, OK), (2, OK), (3, REFUSED), (4, OK), (8, REFUSED)])
def test_widths_of_codes(core, width, code):
    codes, out = np.zeros(4, np.uint64), np.zeros(4, np.uint64)
    assert core.fdp_hash_column(c_int64(1), at(codes), width, at(out)) == code
    table = np.zeros(4, np.uint64)
    assert core.fdp_lookup(at(codes), width, ctypes.c_size_t(1), at(table), 8, at(out)) == code
    bins = (c_void_p * 5)(*(at(np.zeros(4)) for _ in range(5)))
    got = core.fdp_draw(
        *(
            at(codes),
            width,
            ctypes.c_size_t(0),
            byref(bins),
            0,
            c_double(1),
            c_uint64(1),
            c_uint64(0),
            9,
            at(out),
        )
    )
    assert got == code


class Map(Structure):
    _fields_ = [
        *(("rule", c_int), ("lo", c_int64), ("count", c_uint64), ("ikeys", c_void_p), ("fkeys", c_void_p)),
        *(("table", c_void_p), ("below", c_uint32), ("above", c_uint32), ("other", c_uint32)),
        *(("nan", c_uint32), ("null", c_uint32)),
    ]


@pytest.mark.parametrize("width", [0, 1, 2, 3, 4, 8])
@pytest.mark.parametrize("type_", [-1, 0, 6, 7, 9, 10])
def test_types_and_widths_of_values(core, type_, width):
    x, out, keep = np.zeros(2, np.uint64), np.zeros(2, np.uint64), np.ones(2, np.uint8)
    rule = Map(rule=0, lo=0, count=5)
    inside = 0 <= type_ <= 9 and width in (1, 2, 4)
    got = core.fdp_encode(
        at(x), type_, ctypes.c_size_t(1), byref(rule), None, c_int64(0), width, at(out), at(keep)
    )
    assert got == (OK if inside else REFUSED)


@pytest.mark.parametrize(
    "size, code", [(0, REFUSED), (1, OK), (2, OK), (3, REFUSED), (4, OK), (8, OK), (16, REFUSED)]
)
def test_sizes_of_looked_up_values(core, size, code):
    codes, table, out = np.zeros(4, np.uint8), np.arange(8, dtype=np.uint64), np.zeros(4, np.uint64)
    assert core.fdp_lookup(at(codes), 1, ctypes.c_size_t(2), at(table), size, at(out)) == code


@pytest.mark.parametrize(
    "group, code", [(-1, REFUSED), (0, OK), (1, REFUSED), (2, OK), (3, REFUSED), (2**40, REFUSED)]
)
def test_groups_that_are_drawn_from(core, group, code):
    """The second group is empty."""
    start, upto, value = ints(0, 2, 2, 3), ints(1, 3, 4), ints(7, 8, 9, dtype=np.uint32)
    uniform, out = np.array([0.9]), np.zeros(1, np.uint32)
    got = core.fdp_draw_groups(
        *(at(start), c_int64(3), at(upto), at(value), at(ints(group)), at(uniform), c_int64(1), at(out))
    )
    assert got == code and out[0] == ({0: 8, 2: 9}[group] if code == OK else 0)


@pytest.mark.parametrize("columns", [-1, 0, 1, 2, 8, 9])
def test_columns_of_scores(core, columns):
    table = np.zeros(4, np.uint8)
    pointers = (POINTER(c_uint8) * 9)(*(table.ctypes.data_as(POINTER(c_uint8)) for _ in range(9)))
    start, packed, group = np.zeros(3, np.int64), np.zeros(4, np.uint64), np.zeros(4, np.uint32)
    got = core.fdp_score_group_rows(
        at(group), pointers, c_int64(4), columns, c_int64(1), at(start), at(packed)
    )
    assert got == (OK if 1 <= columns <= 8 else REFUSED)
    sizes, distance = np.full(9, 2, np.int32), np.zeros(40)
    got = core.fdp_score_grouped_pairs(
        *(at(packed), at(start), at(packed), at(start), c_int64(1), at(sizes), columns, 1, at(distance))
    )
    assert got == (OK if 2 <= columns <= 8 else REFUSED)


@pytest.mark.parametrize("size, code", [(2**62 - 1, OK), (2**62, REFUSED), (2**63, REFUSED)])
def test_sizes_of_trees(core, size, code):
    sizes, graph, cells = ints(3, size, dtype=np.uint64), np.zeros(2, np.uint64), np.full(1, 5, np.uint64)
    assert core.fdp_treesize(2, at(sizes), at(graph), at(cells)) == code
    assert cells[0] == (min(size + 3, 2**62) if code == OK else 0)


@pytest.mark.parametrize(
    "threads, t_max, cap, code", [(1, 1, 1, OK), (0, 1, 1, REFUSED), (1, 0, 1, REFUSED), (1, 1, 0, REFUSED)]
)
def test_caps_and_threads_of_groups(core, threads, t_max, cap, code):
    start, nothing = np.zeros(1, np.int64), np.zeros(1, np.uint64)
    cells = (c_int64 * 4)()
    got = core.fdp_groups(
        *(c_int64(0), at(start), at(nothing), at(nothing), byref(cells)),
        *(c_int64(t_max), c_int64(cap), threads, at(np.zeros(2, np.int64))),
    )
    assert got == code
    if t_max == cap == 1:
        out = np.zeros(2, np.int64)
        given = (c_int64(0), at(start), at(nothing), at(nothing), c_uint64(2), threads, at(out))
        assert core.fdp_most_common(*given) == code


def test_rows_that_are_not_the_users_are_refused(core):
    user, start, order = ints(0, 1, 1, dtype=np.uint32), np.zeros(3, np.int64), np.zeros(3, np.uint64)
    for counts, code in (((1, 2), OK), ((1, 1), REFUSED), ((2, 2), REFUSED)):
        count = ints(*counts, dtype=np.uint32)
        got = core.fdp_group(c_int64(3), at(user), c_int64(2), at(count), None, at(start), at(order))
        assert got == code
    full = np.full(2, 2**32 - 1, np.uint32)
    assert core.fdp_rows_per_user(c_int64(1), at(user), at(full)) == OVERFLOW
    full[:] = 2**32 - 2
    assert core.fdp_rows_per_user(c_int64(1), at(user), at(full)) == OK and full[0] == 2**32 - 1


@pytest.mark.parametrize("n, fields, limit", [(-1, 1, 1), (2**31 - 1, 1, 1), (0, 0, 1), (0, 1, 0), (0, 1, 1)])
def test_lengths_of_texts(core, n, fields, limit):
    """Texts up to nearly 2^31 bytes, at least one field, lines of at least one byte."""
    text, result = np.zeros(64, np.uint8), np.zeros(64, np.int64)
    good = (n, fields, limit) == (0, 1, 1)
    if not good:  # refused before anything is looked at
        dialect = np.zeros(64, np.int64)
        got = core.fdp_lines_split(
            *(at(text), c_int64(n), at(dialect), fields, at(np.full(1, -1, np.int32)), c_int64(limit)),
            *(0, 1, at(result), 0, None, at(result)),
        )
        assert got == REFUSED
    if good or fields == 1:
        keys = np.zeros(2, np.int32)
        got = core.fdp_lines_json(
            *(
                at(text),
                c_int64(n),
                c_int64(limit),
                0,
                at(result),
                at(text),
                0,
                at(keys),
                at(text),
                None,
                at(result),
            )
        )
        assert got == (OK if good else REFUSED)


@pytest.mark.parametrize("entries, fits", [(1, True), (32, True), (33, False)])
def test_entries_of_a_row_of_the_approximate_inverse(entries, fits):
    """A row has the parts of a cell of five attributes and what is left of it, and no more."""
    first = np.cumsum([0, *[1] * (entries - 1), entries]).astype(np.int64)
    column = np.array([*range(entries - 1), *range(entries)], np.int32)
    mask = np.ones(column.size, np.uint8)
    shape = (first, column, mask, np.zeros(entries, np.int64), np.zeros(1, np.int64), 1)
    kernel = Ancestors(*shape)
    given = (np.full(1, 9.0), np.full(entries, 9.0), np.ones(entries), 1.0, 100.0)
    if fits:
        assert np.isfinite(kernel.fill(*given)).all() and MOST == 32
    else:
        with pytest.raises(ValueError, match="the approximate inverse of the covariance"):
            kernel.fill(*given)
