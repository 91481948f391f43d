"""A world of user ids of every type that a source can hold: which rows are one user's, which rows have no
id, and what is random by an id."""

import datetime
import math
from collections.abc import Callable
from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import fastdp

from . import hostile
from .worlds import NEIGHBOURS, Scene, synthesize, with_any_facts, world

Own = Callable[[int], Any]
"""The id of the user of this number in the table that both runs have."""

MOMENT = datetime.datetime(2020, 3, 29, 1, 30)
"""An hour that Berlin's clocks skipped, if it is read as theirs."""
ARROW: dict[str, tuple[pa.DataType, Own, list]] = {
    "text": (pa.string(), str, ["", " 1", "1 ", "01", "1.0", "é", "\0", "x" * 70_000]),
    "view": (pa.string_view(), str, ["", "abcdefghijklm", "x" * 300]),
    "bytes": (pa.large_binary(), lambda i: b"%d" % i, [b"", b"\xff\xfe", b"1\0"]),
    "fixed bytes": (pa.binary(3), lambda i: b"%03d" % i, [b"\0\0\0", b"\xff\xff\xff"]),
    "uint64": (pa.uint64(), int, [2**64 - 1, 2**63, 2**63 - 1]),
    "int8": (pa.int8(), int, [-128, 127, -1]),
    "float": (pa.float64(), float, [math.inf, -math.inf, 5e-324, -5e-324, 2.0**53, math.nan]),
    "decimal": (pa.decimal128(38, 2), Decimal, [Decimal("1e35"), Decimal("-0.01")]),
    "wide decimal": (pa.decimal256(76, 30), Decimal, [Decimal("1e45"), Decimal("-1e-30")]),
    "date": (pa.date32(), lambda i: datetime.date(2020, 1, 1 + i), [datetime.date.max]),
    "milliseconds": (pa.date64(), lambda i: i * 86_400_000, [-1, 2**62]),
    "zone": (pa.timestamp("us", "Europe/Berlin"), int, [-(2**63) + 1, 2**63 - 1, 10**15]),
    "nanoseconds": (pa.timestamp("ns"), int, [-(2**63) + 1, 2**63 - 1]),
    "clock": (pa.time64("us"), int, [86_399_999_999]),
}
"""Types of Arrow: the ids of others, and hostile ids."""
SPELLINGS: dict[str, tuple[list[list], Own]] = {
    "numbers": (
        [
            ["1007", "01007", "+1007", "1007.0", "1007e0", "10070e-1", " 1007\t"],
            ["0x7"],
            ["1e400", "10e399"],
            ["9" * 60, "9" * 60 + ".0"],
            ["nan", "NaN", ""],
        ],
        str,
    ),
    "times": (
        [
            ["2020-03-29", "2020-03-29T00:00", "20200329T000000", "2020-03-29 00:00:00.000"],
            ["2020-03-29T12:00+02:00", "2020-03-29T10:00Z"],
            ["2020-02-30"],
        ],
        lambda i: f"2021-01-{1 + i:02}",
    ),
    "objects": (
        [
            [1007, 1007.0, Decimal("1007.00"), np.int64(1007), np.float32(1007)],
            [10**400],
            ["\ud800"],
            [b"\xff"],
            [(1, 2)],
            [MOMENT, np.datetime64(MOMENT, "us")],
            [math.nan, None, Decimal("sNaN"), np.datetime64("NaT")],
        ],
        int,
    ),
}
"""Columns in which one id has several spellings: ids, each in all of its spellings, and those of others."""
NOBODY = ("nan", "NaN", "", None)


@world("identities", pairs=12)
def identities(rng: np.random.Generator) -> Scene:
    """Users with ids of any type: in Arrow's arrays, in dictionaries with values that occur twice or never,
    in slices, in frames of Python's objects, and as texts that spell numbers or times. The neighbour has one
    user more, whose id may be hostile or spelled in several ways; or rows without an id."""
    kinds = [*ARROW, *SPELLINGS, *SPELLINGS]
    kinds = kinds if find_spec("pandas") else [kind for kind in kinds if kind != "objects"]
    return ids_of(rng, kinds[rng.integers(len(kinds))])


def ids_of(rng: np.random.Generator, kind: str) -> Scene:
    """A scene of the world with ids of this kind."""
    null = str(rng.choice(["drop", "own"]))
    user = {"column": "u", "max_rows": hostile.MOST_ROWS, "null": null}
    user |= {"numbers": {"dtype": "int64"}, "times": {"dtype": "timestamp[us]"}}.get(kind, {})
    plain = hostile.schema(rng, "ng").to_dict() | {"user": user}
    mechanism: dict[str, Any] = {"mechanism": str(rng.choice(["cliquetree", "usercounts"]))}
    mechanism |= {"columns": ["n", "g"]} if mechanism["mechanism"] == "usercounts" else {}
    run = synthesize(fastdp.Schema.from_dict(plain), mechanism=mechanism, epsilon=20.0)
    own = ARROW[kind][1] if kind in ARROW else SPELLINGS[kind][1]
    base = hostile.rows(rng)
    ids = [None if who is None else own(who) for who in base["u"].to_pylist()]
    others = []
    for _ in range(NEIGHBOURS):
        spellings = _hostile_id(rng, kind)
        more = hostile.victim(rng, base)
        if _is_nobody(spellings[0]):  # of rows without an id each is a unit
            more = more.slice(0, 1)
        who = [spellings[i] for i in rng.integers(0, len(spellings), more.num_rows)]
        at = rng.permutation(base.num_rows + more.num_rows)
        rows = pa.concat_tables([base, more]).take(pa.array(at))
        others.append((rows, [[*ids, *who][i] for i in at]))
    layout = int(rng.integers(4))

    def run_on(data: tuple[pa.Table, list], folder: Path) -> dict[str, bytes] | None:
        return with_any_facts(run)(_with_ids(kind, layout, *data), folder)

    return Scene((base, ids), others, run_on)


def _hostile_id(rng: np.random.Generator, kind: str) -> list:
    """One id in all of its spellings, which nobody else has; or no id."""
    if kind in ARROW:
        ids = [*ARROW[kind][2], None]
        return [ids[rng.integers(len(ids))]]
    ids = SPELLINGS[kind][0]
    return ids[rng.integers(len(ids))]


def _is_nobody(who: Any) -> bool:
    return who in NOBODY or (isinstance(who, float) and math.isnan(who))


def _with_ids(kind: str, layout: int, rows: pa.Table, ids: list) -> Any:
    """The rows with these ids: in a frame of objects, or in one of four layouts of Arrow."""
    if kind == "objects":
        import pandas as pd

        frame = rows.drop_columns("u").to_pandas()
        return frame.assign(u=pd.Series(ids, dtype=object))
    array = pa.array(ids, ARROW[kind][0] if kind in ARROW else pa.string())
    if layout in (1, 2) and not pa.types.is_string_view(array.type):
        # Each row's id is a value of its own, and the first is one that no row has. Rows without an id have
        # no value, or one that is null.
        values = array.drop_null() if layout == 1 else array
        place = iter(range(1, len(array) + 1))
        at = [None if layout == 1 and who is None else next(place) for who in ids]
        values = pa.concat_arrays([values[:1], values])
        array = pa.DictionaryArray.from_arrays(pa.array(at, pa.int32()), values)
    if layout == 3:
        array = pa.concat_arrays([array[:3], array]).slice(min(3, len(array)))
    return rows.set_column(0, "u", array)
