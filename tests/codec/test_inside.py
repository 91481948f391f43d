"""Numbers inside their bins: single values, steps, means. Tolerances are five standard errors of
what is drawn, so that a wrong distribution fails and a right one does not."""

import math

import numpy as np
import pyarrow as pa
import pytest

import fastdp
from fastdp.codec.decode import decode
from fastdp.codec.encode import encode_batch
from fastdp.errors import SchemaError
from fastdp.schema.bins import bins_of, has_tail, tilt

ROWS = 40_000


def schema_of(**plain):
    return fastdp.Schema.from_dict({"columns": {"x": {"kind": "numeric", **plain}}})


def drawn(schema, seed=1):
    """(codes, values): every bin of the column equally often."""
    codes = np.arange(ROWS) % schema.columns["x"].base
    return codes, decode(schema, {"x": codes}, seed).column(0)


COLUMNS = {
    "hours": {"dtype": "int64", "edges": [0, 20, 40, 60, 100], "atoms": [40, 0]},
    "small int": {"dtype": "int8", "edges": [-128, 0, 127], "atoms": [-128, 126]},
    "price": {"dtype": "float64", "digits": 2, "edges": [0, 10, 20], "atoms": [9.99, 12.5]},
    "float": {"dtype": "float64", "edges": [0, 1, 5], "atoms": [0, 2.5]},
    "float32": {"dtype": "float32", "edges": [0, 1, 5], "atoms": [0, 2.5]},
    "money": {"dtype": "decimal128(10, 2)", "edges": [0, 10, 20], "atoms": [0, 9.99]},
    "day": {"dtype": "date32", "edges": ["2020-01-01", "2021-01-01"], "atoms": ["2020-02-29"]},
    "open": {
        "dtype": "float64",
        "digits": 1,
        "edges": ["-inf", 0, "inf"],
        "atoms": [-7.5, 0, 99.9],
    },
}


@pytest.mark.parametrize("plain", COLUMNS.values(), ids=COLUMNS)
def test_an_atom_is_one_code_and_every_value_reads_back(plain):
    schema = schema_of(**plain)
    column = schema.columns["x"]
    codes, values = drawn(schema)
    assert values.null_count == 0
    again, _ = encode_batch(schema, pa.table({"x": values}))
    assert np.array_equal(again["x"], codes)
    assert fastdp.Schema.from_dict(schema.to_dict()) == schema
    for atom in column.atoms:
        code = column.code_of(atom)
        assert len(set(np.asarray(values)[codes == code].tolist())) == 1
        if not column.temporal:
            assert {float(v) for v in values.filter(pa.array(codes == code)).to_pylist()} == {atom}
            assert column.labels()[code] == f"{atom:g}"


@pytest.mark.parametrize(
    "plain, step, at",
    [
        ({"dtype": "int64", "edges": [0, 20, 41, 60], "step": 5}, 5, 0),
        ({"dtype": "float64", "digits": 2, "edges": [0, 10, 50], "endings": [0.99]}, 1, 0.99),
        ({"dtype": "decimal128(9, 2)", "edges": [-10, 10, 50], "endings": [0.99]}, 1, 0.99),
        ({"dtype": "int32", "edges": [0, 7, 100], "step": 5, "means": [1, 30]}, 5, 0),
    ],
)
def test_declared_steps_hold_for_every_value(plain, step, at):
    schema = schema_of(**plain)
    codes, values = drawn(schema)
    numbers = np.array([float(v) for v in values.to_pylist()])
    off = (numbers - at) / step
    assert np.abs(off - np.rint(off)).max() < 1e-6
    again, _ = encode_batch(schema, pa.table({"x": values}))
    assert np.array_equal(again["x"], codes)


@pytest.mark.parametrize(
    "step, shares", [(5, (0.6, 0.1)), (5, (0.3, 0.3)), (5, (0.2, 0.2)), (2, (0.7, 0.3))]
)
def test_steps_inside_bins_have_the_shares_that_the_schema_states(step, shares):
    """Shares are those of all values: draws that are on no grid by choice fall on one by chance.
    Two grids of every second number leave none."""
    grids = [{"step": step, "at": at, "share": share} for at, share in enumerate(shares)]
    schema = schema_of(dtype="int64", edges=[0, 100, 1000], grids=grids)
    _, values = drawn(schema)
    left = np.asarray(values) % step
    for residue, share in enumerate(shares):
        error = 5 * math.sqrt(share * (1 - share) / ROWS)
        assert abs(np.mean(left == residue) - share) < error


MEANS = [
    {"dtype": "float64", "edges": [0, 10, 100], "means": [1.0, 80]},
    {"dtype": "float64", "edges": [0, 10, 20], "means": [5.0, 15]},
    {"dtype": "float64", "edges": [-99_999, 0, 99_999], "means": [-7, 4]},
    {"dtype": "float64", "edges": ["-inf", 0, 10], "means": [-30, 2]},
    {"dtype": "float64", "edges": [0, 10, "inf"], "means": [9.5, 40], "digits": 2},
    {
        "dtype": "float64",
        "edges": [0, 9, 20],
        "means": [2, 15],
        "digits": 1,
        "grids": [{"step": 1, "share": 0.7}],
    },
    {"dtype": "int64", "edges": [0, 3, 100], "means": [0.2, 10]},
    {"dtype": "int64", "edges": ["-inf", 0, "inf"], "means": [-30, 2], "min": -50, "max": 9},
    {
        "dtype": "int64",
        "edges": ["-inf", 0, "inf"],
        "means": [-7, 4],
        "min": -99_999,
        "max": 99_999,
    },
    {
        "dtype": "int64",
        "edges": [0, 50, 100],
        "means": [20, 75],
        "grids": [{"step": 10, "share": 0.7}],
    },
    {
        "dtype": "int64",
        "edges": [0, 50, 100],
        "means": [20, 75],
        "grids": [{"step": 10, "at": 5, "share": 0.7}],
    },
]


@pytest.mark.parametrize("plain", MEANS)
def test_draws_have_the_means(plain):
    schema = schema_of(**plain)
    codes, values = drawn(schema)
    numbers = np.array(values.to_pylist(), float)
    for code, mean in enumerate(schema.columns["x"].means):
        own = numbers[codes == code]
        assert abs(own.mean() - mean) < 5 * own.std() / math.sqrt(len(own)) + 1e-9


@pytest.mark.parametrize(
    "dtype, digits", [("float64", {}), ("int64", {}), ("float64", {"digits": 1})]
)
@pytest.mark.parametrize("tail", [{}, {"tail": {"mean": 30}, "lower_tail": {"mean": 30}}])
def test_open_bins_have_the_tail_that_is_stated_or_that_of_the_next_bin(dtype, digits, tail):
    schema = schema_of(dtype=dtype, edges=["-inf", 0, 20, 60, 100, "inf"], **digits, **tail)
    codes, values = drawn(schema)
    numbers = np.array(values.to_pylist(), float)
    for code, edge, side, mean in ((0, 0, -1, 30 if tail else 20), (4, 100, 1, 30 if tail else 40)):
        beyond = side * (numbers[codes == code] - edge)
        assert beyond.min() >= 0
        assert abs(beyond.mean() - mean) < 5 * mean / math.sqrt(len(beyond)) + (dtype == "int64")


@pytest.mark.parametrize("first", ["-inf", 0])
@pytest.mark.parametrize(
    "most, beyond", [(None, True), (120, True), (100, True), (99, False), (5, False)]
)
def test_numbers_beyond_the_last_edge_are_written_where_a_tail_and_the_bound_allow_them(
    first, most, beyond
):
    bound = {} if most is None else {"max": most}
    schema = schema_of(edges=[first, 20, 100], overflow="code", **bound, tail={"mean": 3})
    assert has_tail(schema.columns["x"]) == beyond


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_limits_are_the_first_and_last_value_of_a_bin(dtype):
    """0.1 and 0.3 are no values of float32: the first above and the last below are."""
    bins, _ = bins_of(schema_of(dtype=dtype, edges=[0.1, 0.3, 7]).columns["x"])
    kind = np.dtype(dtype).type
    assert all(float(kind(x)) == x for x in (*bins.low, *bins.high))
    for (low, high), (a, b) in zip(zip(bins.low, bins.high), [(0.1, 0.3), (0.3, 7)]):
        assert float(np.nextafter(kind(low), kind(-9))) < a <= low
        assert high < b <= float(np.nextafter(kind(high), kind(9)))


def test_a_bin_without_a_round_number_is_even_and_others_keep_their_shares():
    grids = [{"step": 5, "at": 2, "share": 0.6}]
    codes, values = drawn(schema_of(dtype="int64", edges=[0, 53, 57, 1000], grids=grids))
    numbers = np.asarray(values)
    assert np.bincount(numbers[codes == 1] - 53) == pytest.approx(
        np.full(4, ROWS / 12), abs=5 * math.sqrt(ROWS / 12)
    )
    for code in (0, 2):
        own = numbers[codes == code]
        assert abs(np.mean(own % 5 == 2) - 0.6) < 5 * math.sqrt(0.24 * 3 / ROWS)
        assert abs(np.mean(own[own % 5 == 2]) - (27, 0, 527)[code]) < 5 * own.std() / math.sqrt(
            0.15 * ROWS
        )
    all_round = schema_of(
        dtype="int64", edges=[0, 53, 999], grids=[{"step": 5, "at": 2, "share": 1.0}]
    )
    bins, _ = bins_of(all_round.columns["x"])
    assert (bins.low[:2].tolist(), bins.high[:2].tolist()) == ([2, 57], [52, 997])


def test_tilt_at_the_ends_of_a_bin():
    """A mean at an end, or beyond it by rounding, puts all draws there; none leaves the bin."""
    for whole, width in ((True, 10.0), (False, 10.0), (True, 2.0)):
        for mean in (-1.0, 0.0, width, width + 1):
            assert math.isfinite(tilt(mean, width, whole))
    assert tilt(0.0, 1.0, True) == 0.0


@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
def test_ranks_within_bins_are_shared(share):
    """Uniform draws that are equal in a share of the rows and independent elsewhere correlate by
    that share; the standard error of a correlation is at most 1 / sqrt(rows)."""
    x = {"kind": "numeric", "edges": [0, 1, 2]}
    y = {"kind": "numeric", "edges": [0, 100], "rank": {"like": "x", "share": share}}
    schema = fastdp.Schema.from_dict({"columns": {"x": x, "y": y}})
    codes = {"x": np.arange(ROWS) % 2, "y": np.zeros(ROWS, int)}
    table = decode(schema, codes, 3)
    found = np.corrcoef(np.asarray(table["x"]) % 1, np.asarray(table["y"]))[0, 1]
    assert abs(found - share) < 5 / math.sqrt(ROWS)
    part = decode(schema, {k: v[100:200] for k, v in codes.items()}, 3, offset=100)
    assert part.equals(table.slice(100, 100))


WRONG = [
    ({"atoms": [2.5], "whole": True}, "multiple of 1"),
    ({"atoms": [200]}, "not in any bin"),
    ({"step": 5}, "whole = true or digits"),
    ({"step": 0, "whole": True}, "must be multiples"),
    ({"step": 5, "endings": [0.99], "whole": True}, "give step or endings, not both"),
    ({"grids": [{"step": 5, "share": 1.1}], "whole": True}, "at most 1"),
    ({"means": [5]}, "expected 2 means, one per bin"),
    ({"means": [5, 5]}, "outside its bin"),
    ({"means": "all"}, "expected a list"),
    ({"rank": {"share": 1}}, "like"),
    ({"rank": {"like": "y"}}, "a numeric column without a rank"),
    ({"rank": {"like": "x"}}, "a numeric column without a rank"),
]


@pytest.mark.parametrize("plain, said", WRONG)
def test_errors_name_what_is_wrong(plain, said):
    with pytest.raises(SchemaError, match=said):
        schema_of(**{"edges": [0, 10, 100], **plain})
