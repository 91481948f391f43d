"""Which ids are one user: by value, in every source alike."""

import datetime
import decimal
import itertools
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

import fastdp
from fastdp.engines.local import local
from fastdp.errors import DataError
from fastdp.tables import idvalues, sql
from fastdp.tables.userids import UserIndex
from tests.builders import schema_with_users

UTC = datetime.UTC
EAST = datetime.timezone(datetime.timedelta(hours=2))
NOON = datetime.datetime(2020, 5, 1, 12)

ONE_ID = [
    [7, 7.0, decimal.Decimal("7"), decimal.Decimal("7.000"), np.int8(7), np.float32(7)],
    [0, 0.0, -0.0, False, decimal.Decimal("-0.00")],
    [decimal.Decimal("1." + "0" * i) for i in range(30)] + [1, True],
    [0.1, decimal.Decimal("0.1"), decimal.Decimal("0.10")],
    [2**62, 2.0**62, decimal.Decimal(2**62)],
    [10**50, decimal.Decimal("1E+50"), decimal.Decimal(10**50)],
    [NOON, NOON.replace(microsecond=0)],
    [NOON.replace(tzinfo=UTC), NOON.replace(tzinfo=EAST, hour=14)],
    [NOON.date(), datetime.datetime(2020, 5, 1)],
]
OTHERS = [
    7.5,
    -7,
    "",
    "a",
    "A",
    b"\xff",
    float("inf"),
    -float("inf"),
    2**62 + 1,
    decimal.Decimal("0.1000001"),
    NOON.replace(microsecond=1),
    NOON.replace(microsecond=2, tzinfo=UTC),
]
NO_ID = [None, float("nan"), decimal.Decimal("NaN"), decimal.Decimal("sNaN"), np.float64("nan")]


@pytest.mark.parametrize("same", ONE_ID)
def test_objects_of_one_value_are_one_id(same):
    assert len({idvalues.of_object(value) for value in same}) == 1


def test_objects_of_different_values_are_different_ids():
    values = [same[0] for same in ONE_ID] + OTHERS
    assert len({idvalues.of_object(value) for value in values}) == len(values)


@pytest.mark.parametrize("value", NO_ID)
def test_null_and_nan_are_no_ids(value):
    assert idvalues.of_object(value) is None


EXTREMES = [10**5000, -(10**5000), decimal.Decimal("1E+999999"), decimal.Decimal("-1E-999999")]
EXTREMES += [datetime.datetime.min.replace(tzinfo=EAST), datetime.datetime.max.replace(tzinfo=EAST)]
EXTREMES += [datetime.date.min, datetime.time(1, 2), datetime.timedelta(1), "\ud800", object()]


@pytest.mark.parametrize("value", EXTREMES, ids=lambda value: type(value).__name__)
def test_no_object_as_an_id_raises(value):
    """One row must not stop a run."""
    assert idvalues.of_object(value) and sql.text(value)


numbers = st.one_of(
    st.integers(-(10**45), 10**45),
    st.floats(allow_nan=False, allow_infinity=False, width=32),
    st.decimals(allow_nan=False, allow_infinity=False, places=3),
)


@settings(max_examples=30, deadline=None)
@given(numbers, numbers, st.integers(0, 5))
def test_numbers_are_one_id_if_they_are_equal(one, other, zeros):
    """Against exact fractions. A float that is not whole stands for the decimal that it is written
    as."""

    def exact(value):
        return Fraction(repr(value)) if isinstance(value, float) and value % 1 else Fraction(value)

    padded = decimal.Decimal(str(one)) if not isinstance(one, float) else one
    assert idvalues.of_object(padded) == idvalues.of_object(one)
    assert (exact(one) == exact(other)) == (idvalues.of_object(one) == idvalues.of_object(other))
    spelled = idvalues.of_object(one)
    assert idvalues.number_spelled(spelled) == spelled
    if not isinstance(one, float):
        padding = b"." + b"0" * zeros if isinstance(one, int) else b"0" * zeros
        sign = b"-" if one < 0 else b"+"
        text = (
            sign
            + b"0" * zeros
            + format(abs(one), "f" if not isinstance(one, int) else "d").encode()
        )
        assert idvalues.number_spelled(b" " + text + padding + b"\t") == spelled


SPELLINGS = [b"7", b"07", b" 7 ", b"+7", b"7.0", b"7.", b"70e-1", b"0.7E1"]


def test_spellings_of_one_number_are_one_id_in_any_company():
    """By the batch's fast way (all are shortest) and by the other."""
    for text in (b"0", b"-0", b"+0", b"00", b"0.0", b"-0e5"):
        assert idvalues.normal(pa.array([text]), "int64").to_pylist() == [b"0"]
    for company in ([], [b"x"], [b"08"], [None]):
        for text in SPELLINGS:
            assert idvalues.normal(pa.array([text, *company]), "int64")[0].as_py() == b"7"
    long = b"1" + b"0" * 60
    for company in ([], [b"x"]):
        both = idvalues.normal(pa.array([long, b"1e60", *company]), "int64").to_pylist()
        assert both[0] == both[1] == idvalues.normal(pa.array([long]), "int64")[0].as_py()


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view(), pa.binary()])
@pytest.mark.parametrize("coded", [False, True])
def test_texts_of_arrow_are_spelled_as_those_of_csv(kind, coded):
    ids = pa.array([text.decode() for text in SPELLINGS] + ["nan", None]).cast(kind)
    ids = ids.dictionary_encode() if coded else ids
    users = UserIndex()
    number = users.add(users.prepare(idvalues.normal(ids, "int64")))
    assert len(set(number[: len(SPELLINGS)].tolist())) == 1 and len(users) == 3
    assert len(set(idvalues.normal(ids, None).to_pylist())) == len(ids)


def test_a_long_number_is_spelled_in_linear_time():
    """In digits: 4 MB took seconds with a regular expression, and hours if it were converted to
    binary."""
    digits = b"7" * (1 << 22)
    assert (
        idvalues.number_spelled(b"0" + digits)
        == idvalues.number_spelled(digits + b".0")
        == digits + b"e0"
    )


MIXED = [7, 7.0, "7", decimal.Decimal("7.00"), 0.0, -0.0, 0, None, float("nan"), "x", b"x", 7.5]
USERS = [0, 0, 0, 0, 1, 1, 1, None, None, 2, 2, 3]


class Cursor:
    """A driver that returns objects of any type, as SQLite without declared types and psycopg
    do."""

    description = (("who",), ("a",))

    def __init__(self):
        self.rows = []

    def execute(self, query):
        self.rows = [(who, i % 5) for i, who in enumerate(MIXED)]

    def fetchmany(self, size):
        rows = self.rows
        self.rows = []
        return rows


@pytest.mark.parametrize("null", ["drop", "own"])
def test_a_driver_gives_the_users_of_the_values(null):
    schema = schema_with_users({"a": 5}, "who", null=null)
    alone = itertools.count(100)
    owners = [
        next(alone) if who is None else who for who in USERS if who is not None or null == "own"
    ]
    table = fastdp.read(fastdp.sql(Cursor(), "select"), schema, threads=1)
    first = dict(zip(owners, table.user.tolist()))
    assert [first[owner] for owner in owners] == table.user.tolist() and table.users == len(
        set(owners)
    )
    assert local(table, 1).marginals([()], 1)[()] <= table.users << 20


@pytest.mark.parametrize(
    "ids, users",
    [
        (np.array([1.0, np.nan, 1.0, -0.0, 0.0, np.nan]), [0, None, 0, 1, 1, None]),
        (np.array([1, None, 1.0, "a", b"a", float("nan")], object), [0, None, 0, 1, 1, None]),
        (np.array(["2020-01-01", "NaT"] * 3, "datetime64[s]"), [0, None] * 3),
    ],
    ids=["floats", "objects", "times"],
)
@pytest.mark.parametrize("null", ["drop", "own"])
def test_codes_with_ids_follow_the_null_policy(ids, users, null):
    schema = schema_with_users({"a": 6}, "who", null=null)
    table = fastdp.Table.from_codes(schema, {"a": np.arange(6)}, ids)
    kept = [i for i, who in enumerate(users) if who is not None or null == "own"]
    assert table.codes["a"].tolist() == kept and table.rows == len(kept) == len(table.user)
    alone = [("row", i) if users[i] is None else users[i] for i in kept]
    first = dict(zip(alone, table.user.tolist()))
    assert [first[who] for who in alone] == table.user.tolist()
    assert table.users == len(set(alone)) == len(table.user_hash)


@pytest.mark.parametrize(
    "ids", [np.array(3), np.zeros((2, 2)), np.zeros(2, complex), np.zeros(2, "i4,i4")]
)
def test_ids_of_another_shape_or_type_are_refused(ids):
    """And the error keeps nothing of them."""
    with pytest.raises(DataError, match=r"^user: expected") as caught:
        fastdp.Table.from_codes({"a": 5}, {"a": [1, 2]}, ids)
    assert caught.value.__context__ is None and caught.value.__cause__ is None


# Ids to user numbers: the same users whatever form the ids come in.


VALUES = {
    "text": st.sampled_from(["", "a", "b", "ab", "\u00e4"]),
    "whole": st.integers(-3, 3),
    "float": st.sampled_from([0.0, -0.0, 1.5, float("nan")]),
}
TYPES = {"text": pa.string(), "whole": pa.int64(), "float": pa.float64()}


def numbered(*arrays) -> tuple[list[int], dict[int, int]]:
    """(user number of each id, number -> public hash)."""
    index = UserIndex()
    numbers = [n for array in arrays for n in index.add(index.prepare(array)).tolist()]
    return numbers, dict(enumerate(index.hashes().tolist()))


def partition(numbers) -> list[list[int]]:
    """Positions of the ids by user, users in the order of their first id."""
    users: dict[int, list[int]] = {}
    for position, number in enumerate(numbers):
        users.setdefault(number, []).append(position)
    return list(users.values())


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(sorted(VALUES)), st.data())
def test_a_dictionary_gives_the_users_of_its_plain_values(kind, data):
    """Indices may be null, a dictionary value may be null or NaN, values may be repeated or not
    occur: the users, and the hash of each, are those of the values written out. Each null or NaN is
    a user alone."""
    values = data.draw(st.lists(st.none() | VALUES[kind], min_size=1, max_size=6))
    indices = data.draw(st.lists(st.none() | st.integers(0, len(values) - 1), max_size=12))
    cut = data.draw(st.integers(0, len(indices)))
    plain = [None if i is None else values[i] for i in indices]
    dictionary = pa.DictionaryArray.from_arrays(
        pa.array(indices, pa.int32()), pa.array(values, TYPES[kind])
    )
    coded, coded_hashes = numbered(dictionary.slice(0, cut), dictionary.slice(cut))
    straight, hashes = numbered(pa.array(plain, TYPES[kind]))
    assert partition(coded) == partition(straight)
    for i, value in enumerate(plain):
        if value is not None and value == value:
            assert coded_hashes[coded[i]] == hashes[straight[i]]
    assert sorted(set(coded)) == list(range(len(coded_hashes)))
    alone = [i for i, value in enumerate(plain) if value is None or value != value]
    assert all([i] in partition(straight) for i in alone)


def test_nulls_and_nans_among_floats_are_all_users_of_their_own():
    """Whatever word stands at a null in the buffer: here that of an id that occurs."""
    words = pa.array([0.0, float("nan"), 0.0, 0.0, float("nan"), 1.5])
    nulls = pa.py_buffer(bytes([0b111010]))
    ids = pa.Array.from_buffers(pa.float64(), 6, [nulls, words.buffers()[1]])
    assert ids.null_count == 2
    assert len(partition(numbered(ids)[0])) == 6 and len(partition(numbered(ids.slice(1))[0])) == 5
