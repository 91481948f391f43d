"""Users' values in numbers: the slow twin on every engine, any order of rows, any number of threads,
hostile values, and faults that these tests must catch."""

from contextlib import contextmanager, nullcontext
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

import fastdp
from fastdp.codec.exact_numbers import exact_numbers, of_floats
from fastdp.engines import asked_numbers, messages, partitioned, pieces
from fastdp.engines.local import local
from fastdp.engines.partitioned import NumberRequest, PartitionedCounter
from fastdp.errors import DataError
from fastdp.numbers import user_evaluation
from fastdp.numbers.encoding import ClampedSums
from fastdp.numbers.sums_plan import SumsPlan
from fastdp.numbers.typed import check
from fastdp.numbers.user_values import Block
from fastdp.schema.amounts import LARGEST, MISSING, Amount
from fastdp.tables import ingest, part_checks
from fastdp.tables.sources.source import open_parts
from fastdp.tables.userids import UserIndex
from tests.tiers import first

from . import numbers_cases as cases
from .conformance import check_numbers
from .test_partitioned import held

ALL = -(1 << 40), 1 << 40


def plan_of(question, schema=cases.SCHEMA):
    number = check(question, schema)
    return SumsPlan(number, ClampedSums(number.groups, *ALL))


def block_of(table):
    return Block(table.users, table.user, table.codes, table.exact)


@pytest.mark.parametrize("threads", first(1, [3, 1]))
def test_the_local_engine_conforms(threads):
    check_numbers(lambda s, schema: nullcontext(local(ingest.read(s, schema), threads)))


@pytest.mark.parametrize("partitions", first(1, [7, 1]))
def test_partitions_sum_numbers_as_every_engine_must(partitions):
    check_numbers(held(partitions))


@contextmanager
def through_pieces(source, schema):
    """Rows that travelled as between Spark's tasks: encoded, dealt, joined, written and read as
    blobs, and asked by messages."""
    secret = b"0" * 16
    parts = open_parts(source, schema.dialect)
    wanted = part_checks.checked_columns(parts, schema)
    encoded = ingest.encoded(parts, schema, wanted, UserIndex(schema.user, secret), 1)
    joined = {p: pieces.Joined(schema, UserIndex(secret=secret)) for p in range(5)}
    for partition, piece in pieces.dealt(encoded, 5):
        joined[partition].add(piece)
    tables = []
    for one in joined.values():
        head, *rest = pieces.blobs(one.table())
        tables.append(pieces.Tables(fastdp.Schema.from_dict(schema.to_dict()), head))
        for blob in rest:
            tables[-1].add(blob)
        tables[-1] = tables[-1].table()

    class Sent:
        count = len(tables)

        def answers(self, request):
            sent = messages.packed(messages.of_request(request))
            for i, table in enumerate(tables):
                yield partitioned.answer(table, i, messages.to_request(messages.unpacked(sent)), 1)

        def close(self):
            tables.clear()

    yield PartitionedCounter(schema, Sent())


def test_rows_and_requests_survive_the_way_between_processes():
    check_numbers(through_pieces)


def test_weights_and_entries_are_the_twins():
    made = cases.make(seed=3)
    table = ingest.read(made.source, cases.SCHEMA)
    for question in cases.QUESTIONS:
        number = check(question, cases.SCHEMA)
        values = user_evaluation.user_values(number, block_of(table))
        got = np.zeros((3, number.groups), np.int64)
        parts = (values.value, values.weight, np.ones_like(values.value))
        for row, part in zip(got, parts):
            np.add.at(row, values.group, part)
        assert np.array_equal(got, cases.wanted(question, made.rows)), question
        assert values.users == table.users and values.offsets[-1] == len(values.value)
        each = np.repeat(np.arange(table.users), np.diff(values.offsets))
        assert len(np.unique(each * number.groups + values.group)) == len(each), question
        if number.one_group:
            assert np.diff(values.offsets).max() <= 1, question


def test_the_order_of_rows_and_the_blocks_do_not_matter(monkeypatch):
    made = cases.make(users=40, rows=700, seed=5)
    plain = local(ingest.read(made.source, cases.SCHEMA), 1)
    turned = made.source.take(pa.array(np.random.default_rng(1).permutation(700)))
    monkeypatch.setattr(asked_numbers, "BLOCK_ROWS", 64)
    other = local(ingest.read(turned, cases.SCHEMA), 3)
    for question in cases.QUESTIONS:
        plan = plan_of(question)
        assert np.array_equal(plain.user_sums(plan), other.user_sums(plan)), question


def test_first_by_row_number_would_be_caught(monkeypatch):
    """A planted fault: the first row as it comes, in place of the first in the schema's order."""

    def at_end(self, values, keys, first):
        return values[self.order][self.start]

    monkeypatch.setattr(user_evaluation._Segments, "at_end", at_end)
    with pytest.raises(AssertionError, match="first"):
        check_numbers(lambda s, schema: nullcontext(local(ingest.read(s, schema), 1)))


def test_sums_that_wrap_around_would_be_caught(monkeypatch):
    """A planted fault: rows are read without a bound, so that two of 2^62 add up below zero."""
    monkeypatch.setattr("fastdp.codec.exact_numbers.LARGEST", 1 << 63)
    with pytest.raises((AssertionError, OverflowError)):
        check_numbers(lambda s, schema: nullcontext(local(ingest.read(s, schema), 1)))


def test_one_user_with_very_many_large_values_saturates(monkeypatch):
    """Also where a sum is computed in two halves, which gives the same integers."""
    source = pa.table({"who": [1] * 50 + [2] * 50, "x": [2**62] * 50 + [-(2**62), 3] * 25})
    schema = fastdp.Schema.from_dict(
        {"user": "who", "columns": {"x": {"kind": "numeric", "dtype": "int64", "edges": [0, 9]}}}
    ).with_exact(["x"])
    table = ingest.read(source, schema)
    for direct in (1 << 22, 1):
        monkeypatch.setattr(user_evaluation, "_DIRECT_ROWS", direct)
        values = user_evaluation.user_values(check("sum(x)", schema), block_of(table))
        assert values.value.tolist() == [LARGEST, -LARGEST]
    made = cases.make(seed=9)
    check_halves = local(ingest.read(made.source, cases.SCHEMA), 1)
    want = cases.wanted("sum(amount) by month", made.rows)[0]
    assert np.array_equal(check_halves.user_sums(plan_of("sum(amount) by month")), want)


def test_rows_without_users_are_users():
    schema = fastdp.Schema.from_dict(
        {"columns": {"x": {"kind": "numeric", "edges": [0, 9], "digits": 1}}}
    ).with_exact(["x"])
    engine = local(ingest.read(pa.table({"x": [0.25, 1.35, None, 7.0]}), schema), 1)
    assert engine.user_sums(plan_of("sum(x)", schema)).tolist() == [2 + 14 + 70]
    assert engine.user_sums(plan_of("count of users", schema)).tolist() == [4]
    assert engine.user_sums(plan_of("share of users where x > 1", schema)).tolist() == [2]


def test_a_table_without_rows():
    schema = cases.SCHEMA
    empty = local(ingest.read(cases.make().source.slice(0, 0), schema), 2)
    for question in cases.QUESTIONS:
        assert not empty.user_sums(plan_of(question)).any(), question


def test_codes_of_whole_numbers_serve_where_nothing_else_was_read():
    table = fastdp.Table.from_codes({"a": 5}, {"a": np.array([0, 4, 3])}, user=np.array([7, 7, 8]))
    assert local(table, 1).user_sums(plan_of("sum(a)", table.schema)).tolist() == [7]
    made = cases.make()
    plain = ingest.read(made.source, cases.SCHEMA.with_exact([]))
    with pytest.raises(DataError, match="exact numbers of 'amount' were not read"):
        local(plain, 1).user_sums(plan_of("sum(amount)"))
    with pytest.raises(DataError, match="were not read"):
        counter = PartitionedCounter(plain.schema, None)
        counter.user_sums(plan_of("sum(amount)"))


def test_floats_are_rounded_by_the_decimal_they_are_written_as():
    """2.675 is stored as 2.67499...; it is written 2.675, a tie, so 2.68."""
    numbers = [2.675, 2.665, 1.005, -2.675, 0.125, 0.375, 1e300, -np.inf, np.nan, 8.5e9, 0.285]
    want = [268, 266, 100, -268, 12, 38, LARGEST, -LARGEST, MISSING, 850_000_000_000, 28]
    assert of_floats(np.array(numbers), 2).tolist() == want
    small = of_floats(np.array([2.675, 0.125, 1.005], np.float32), 2)
    assert small.tolist() == [268, 12, 100]
    rng = np.random.default_rng(0)
    for places in (0, 2, 4):
        floats = np.round(rng.normal(0, 1000, 3000), places + 1)
        want = [round(Decimal(str(x)).scaleb(places)) for x in floats.tolist()]
        assert of_floats(floats, places).tolist() == want


@pytest.mark.parametrize(
    ("kind", "values", "want"),
    [
        (pa.uint64(), [2**64 - 1, 3, None], [LARGEST, 300, MISSING]),
        (pa.int8(), [-3, 0, 5], [-300, 0, 500]),
        (pa.bool_(), [True, None, False], [100, MISSING, 0]),
        (pa.decimal128(38, 18), [Decimal("1000.005"), Decimal("-0.015"), None], None),
        (pa.decimal128(20, 0), [Decimal(7), Decimal(10**19), None], [700, LARGEST, MISSING]),
        (pa.string(), ["1.005", " 2 ", "x"], [100, 200, MISSING]),
        (pa.string(), ["", "1e999999", "1_0"], [MISSING, LARGEST, MISSING]),
        (pa.dictionary(pa.int8(), pa.string()), ["2.675", None, "nan"], [268, MISSING, MISSING]),
        (pa.float32(), [0.125, None, float("inf")], [12, MISSING, LARGEST]),
        (pa.null(), [None, None, None], [MISSING] * 3),
    ],
)
def test_sources_of_every_form(kind, values, want):
    want = [100_000, -2, MISSING] if want is None else want
    got = exact_numbers(Amount("x", "x", "float64", "number", 2), pa.array(values, kind))
    assert got.tolist() == want
    sliced = pa.chunked_array([pa.array([values[0], *values], kind).slice(1)])
    assert exact_numbers(Amount("x", "x", "float64", "number", 2), sliced).tolist() == want


def test_times_on_the_local_clock():
    zoned = Amount("t", "t", "timestamp[us, tz=Europe/Berlin]", "time")
    moments = pa.array([0, None], pa.timestamp("us", "UTC"))
    assert exact_numbers(zoned, moments).tolist() == [3600, MISSING]
    days = Amount("d", "d", "date32", "date")
    assert exact_numbers(days, pa.array([86_399, -1], pa.timestamp("s"))).tolist() == [0, -1]
    assert exact_numbers(days, pa.array(["1970-01-03", "x"])).tolist() == [2, MISSING]


def test_requests_differ_where_questions_do():
    one, two = (NumberRequest(plan_of(q).to_plain(), 1) for q in cases.QUESTIONS[:2])
    assert one.digest() != two.digest()
    assert plan_of("sum( amount )").digest() == plan_of("sum(amount)").digest()


def test_values_are_kept_for_the_next_encoding_of_the_same_number(monkeypatch):
    """Sums from kept values are those of a fresh engine; another number is evaluated anew."""
    made = cases.make(seed=2)
    table = ingest.read(made.source, cases.SCHEMA)
    engine = local(table, 2)
    evaluated = []
    evaluate = asked_numbers.user_values

    def watched(number, block, by_user):
        evaluated.append(number.text)
        return evaluate(number, block)

    monkeypatch.setattr(asked_numbers, "user_values", watched)
    for question in ("sum(amount)", "sum(amount) by month"):
        number = check(question, cases.SCHEMA)
        for high in (5000, 700):
            plan = SumsPlan(number, ClampedSums(number.groups, 0, high))
            assert np.array_equal(engine.user_sums(plan), local(table, 1).user_sums(plan))
    assert evaluated.count("sum(amount)") == 3  # once for this engine, twice for fresh ones
    monkeypatch.setattr(asked_numbers, "KEPT_ENTRIES", 1)
    plan = plan_of("count of users")
    assert engine.user_sums(plan) == engine.user_sums(plan) == local(table, 1).user_sums(plan)
