"""The engine over partitions: conformance, faults it must stand, and faults that conformance must
catch."""

from contextlib import contextmanager, nullcontext

import numpy as np
import pyarrow as pa
import pytest

from fastdp import user_views, userkeys as keys
from fastdp.domain import Domain
from fastdp.engines import messages, partitioned as engine, pieces
from fastdp.engines.local import local
from fastdp.engines.partitioned import Answer, MarginalRequest, PartitionedCounter
from fastdp.errors import BudgetError, DataError, SchemaError, UsageError
from fastdp.tables import ingest
from fastdp.tables.table import Table
from fastdp.tables.userids import UserIndex
from tests.tiers import slow_cases

from ..builders import schema_with_users
from .conformance import check, check_codes


class Held:
    """Partitions that are tables in this process."""

    def __init__(self, tables, threads=1):
        self.tables = list(tables)
        self.threads = threads
        self.count = len(self.tables)
        self.has_users = all(table.user is not None for table in self.tables)

    def answers(self, request):
        for number, table in enumerate(self.tables):
            yield engine.answer(table, number, request, self.threads)

    def close(self):
        self.tables = []


def split_by_user(source, schema, partitions):
    """The partitions of a source as tables of this process, by the hash of the user's id."""
    if schema.user is None:
        where = np.arange(source.num_rows) % partitions
    else:
        ids = UserIndex().prepare(source[schema.user].combine_chunks())
        where = pieces.by_user(ids.hash, partitions)
    return [
        ingest.read(source.filter(pa.array(where == number)), schema, threads=1)
        for number in range(partitions)
    ]


def held(partitions, wrap=lambda back_end: back_end):
    """An opener for `conformance.check`."""

    @contextmanager
    def open_engine(source, schema):
        yield PartitionedCounter(schema, wrap(Held(split_by_user(source, schema, partitions))))

    return open_engine


def test_the_local_engine_conforms():
    check(lambda source, schema: nullcontext(local(ingest.read(source, schema), 2)))


@pytest.mark.parametrize("partitions", [*slow_cases(1, 20), 2])
def test_partitions_count_as_every_engine_must(partitions):
    check(held(partitions))


@pytest.mark.parametrize("kinds", [*slow_cases(None), ("int64", "string", "date32")])
def test_partitions_have_the_codes_of_the_local_engine(kinds):
    """Nothing is refused: each partition is read by the local engine."""
    assert check_codes(held(2), kinds) == {}


class Fault:
    """A back end whose answers somebody tampers with."""

    def __init__(self, inner, answers):
        self.inner = inner
        self.count = inner.count
        self.has_users = inner.has_users
        self._answers = answers

    def answers(self, request):
        return self._answers(list(self.inner.answers(request)))

    def close(self):
        self.inner.close()


def wrapped(answers):
    return lambda inner: Fault(inner, answers)


@pytest.mark.slow
def test_partitions_that_answer_twice_or_not_at_all():
    check(held(8, wrapped(lambda answers: [*answers, *answers[::-1]])))
    with pytest.raises(DataError, match="did not answer"):
        check(held(8, wrapped(lambda answers: answers[:-1])))


def test_adding_up_every_answer_would_be_caught(monkeypatch):
    def careless(answers, request, count, sizes):
        out = [np.zeros(size, np.int64) for size in sizes]
        for one in answers:
            for table, (cells, sums) in zip(out, one.tables, strict=True):
                table[cells] += sums
        return out

    monkeypatch.setattr(engine, "added", careless)
    check(held(3))
    with pytest.raises(AssertionError, match="other integers"):
        check(held(3, wrapped(lambda answers: [*answers, answers[0]])))
    with pytest.raises(AssertionError, match="other integers"):
        check(held(3, wrapped(lambda answers: answers[1:])))


def test_partitions_that_split_a_user_are_caught(monkeypatch):
    rows = iter(range(1 << 40))

    def by_row(hashes, partitions):
        return np.array([next(rows) % partitions for _ in hashes], np.int64)

    monkeypatch.setattr(pieces, "by_user", by_row)
    with pytest.raises(AssertionError, match=r"many rows.*other integers"):
        check(held(2))


def test_answers_that_are_no_answers_are_refused():
    request = MarginalRequest((("a",),), None)
    good = (np.array([0, 2]), np.array([5, 1]))

    def add(cells, sums, partition=0, digest=None):
        return engine.added(
            [Answer(partition, digest or request.digest(), [(cells, sums)])], request, 1, [3]
        )

    assert add(*good)[0].tolist() == [5, 0, 1]
    for cells, sums in [([2, 0], [1, 5]), ([0, 0], [1, 1]), ([0, 3], [1, 1]), ([-1, 0], [1, 1])]:
        with pytest.raises(DataError, match="a partition"):
            add(np.array(cells), np.array(sums))
    with pytest.raises(DataError, match="not exact integers"):
        add(np.array([0]), np.array([0.5]))
    with pytest.raises(DataError, match="different request"):
        add(*good, digest=MarginalRequest((("a",),), 1).digest())
    with pytest.raises(DataError, match="different request"):
        add(*good, partition=1)


def test_messages_give_back_what_was_sent():
    """Also where a column has the name that marks an array."""
    recode = {"array": np.array([0, 1, 1]), "a": np.array([1, 0], np.uint8)}
    key = keys.Groups(("array", "c"), t_max=2, cells=np.array([0, 3, 5])).bind(
        Domain({"array": 3, "c": 2})
    )
    labels = keys.MostCommon(("a",), labels=np.array([0, -1, 1])).bind(Domain({"a": 3}))
    for request in (
        MarginalRequest((("array", "a"), ("c",)), 3, recode),
        MarginalRequest(((),), None),
        engine.UserRequest(key, 2),
        engine.UserRequest(labels, 1),
        engine.UserRequest(keys.RowsPerUser((1, 5)), 1),
        engine.UserRequest(keys.RowsUpTo(5), 1),
        engine.UserRequest(keys.WithoutId(4), 1),
        engine.UserRequest(keys.Agreement((("a",), ("a", "c")), (2, 9)), 1),
        engine.UserRequest(keys.Succession(("a", "c"), (("a", "a"), ("c", "a")), 5, 2, (2, 9)), 1),
        MarginalRequest((("a",),), 1, {}, user_views.UserTable((1, 3), columns=("a",))),
        MarginalRequest((("a",),), 4, recode, user_views.RowGroups((1, 3), name="g")),
    ):
        sent = messages.packed(messages.of_request(request))
        assert messages.to_request(messages.unpacked(sent)).digest() == request.digest()
    assert type(messages.to_error("BudgetError", "x")) is BudgetError
    assert type(messages.to_error("os", "x")) is DataError


def test_refused_before_any_partition_is_asked():
    table = Table.from_codes({"a": 3, "b": 1 << 20, "c": 1 << 20}, {n: [0] for n in "abc"})

    def asked(answers):
        raise AssertionError("a partition was asked")

    counter = PartitionedCounter(table.schema, Fault(Held([table]), asked))
    with pytest.raises(SchemaError, match="no column"):
        counter.marginals([("z",)])
    with pytest.raises(UsageError, match="clip"):
        counter.marginals([("a",)], 0)
    with pytest.raises(UsageError, match="2\\^32"):
        counter.marginals([("b", "c")])
    with pytest.raises(UsageError, match="cap"):
        counter.user_histogram(keys.RowsPerUser((1,)), 0)
    assert counter.marginals([]) == {}


def test_a_hint_changes_no_integer_and_saves_passes():
    """All parts of three expected marginals, round by round, from three passes over the rows; other
    questions, and another clip, are counted as without the hint."""
    domain = {"a": 5, "b": 300, "c": 2, "d": 7}
    rng = np.random.default_rng(4)
    codes = {n: (rng.random(4000) ** 2 * size).astype(np.int64) for n, size in domain.items()}
    schema = schema_with_users(domain, "who")
    who = (rng.random(4000) ** 2 * 90).astype(int)
    table = ingest.read(pa.table({**codes, "who": who}), schema, threads=1)
    passes = []

    class Counting(Held):
        def answers(self, request):
            passes.append(request)
            return super().answers(request)

    expected = [("a", "b", "c"), ("c", "d"), ("d", "a")]
    asked = [
        [("a",), ("b",), ("c",), ("d",)],
        [("b", "a"), ("c", "d"), ("a", "d")],
        [("c", "a", "b")],
    ]
    with PartitionedCounter(schema, Counting([table])) as counter:
        counter.expect(expected)
        for cliques in asked:
            counted = counter.marginals(cliques, 2)
            wanted = local(table, 1).marginals(cliques, 2)
            assert all(np.array_equal(counted[c], wanted[c]) for c in cliques)
        assert len(passes) == 3
        for cliques, clip in (([("b", "d")], 2), ([("a",)], 1)):
            counted = counter.marginals(cliques, clip)
            wanted = local(table, 1).marginals(cliques, clip)
            assert all(np.array_equal(counted[c], wanted[c]) for c in cliques)
        assert len(passes) == 5
