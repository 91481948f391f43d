"""Dense and sparse counting against slow twins: any threads, order, chunking, widths; bits must
agree."""

from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from fastdp._util.bit_rows import BitRows
from fastdp.domain import Domain, downward_closure
from fastdp.engines import counting_plan as planning
from fastdp.engines.local import SparseMarginal, local
from fastdp.engines.truth import marginals
from fastdp.errors import DataError, SchemaError, UsageError
from fastdp.measurement import SCALE
from fastdp.release.counts import Counts
from fastdp.release.half_sets import HalfSets, plan_half_sets
from fastdp.release.planned_release import recoded
from fastdp.tables.table import Table
from tests.tiers import slow_cases

from ..reference import counting as slow
from .helpers import tables


def small(domain, cliques, limit=1 << 21):
    return [c for c in cliques if Domain(domain).cells(c) <= limit]


@settings(max_examples=40, deadline=None)
@given(
    tables(),
    st.sampled_from([None, 1, 2, 3, 1000]),
    st.sampled_from([1, 3, 16, 64, 1 << 18]),
    st.sampled_from([0, 1 << 12, 1 << 29]),
    st.sampled_from([1, 2, 3, 4, 8, 40]),
    st.data(),
)
def test_marginals_equal_the_slow_twin(made, clip, chunk, budget, threads, data):
    """However work is handed out: units of a row or of all of them; more threads than cliques and
    fewer; copies of tables or parts of them; weights that are looked up by user a round ahead, or
    none."""
    table, domain, codes, ids = made
    possible = small(domain, [c for k in range(len(domain) + 1) for c in combinations(domain, k)])
    some = st.lists(st.sampled_from(possible), min_size=1, max_size=12, unique=True)
    cliques = data.draw(st.sampled_from([possible, [c[::-1] for c in possible]]) | some)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fastdp.engines.local.CHUNK_ROWS", chunk)
        patch.setattr("fastdp.engines.local.COPIES_BYTES", budget)
        counts = marginals(table, cliques, clip=clip, threads=threads)
    weights = slow.row_weights(list(range(table.rows) if ids is None else ids.tolist()), clip)
    assert list(counts) == cliques
    for clique in cliques:
        want = slow.marginal(domain, codes, clique, weights)
        assert counts[clique].dtype == np.int64 and counts[clique].shape == want.shape
        assert counts[clique].flags.c_contiguous
        assert np.array_equal(counts[clique], want)


@settings(max_examples=25, deadline=None)
@given(tables(), st.sampled_from([None, 1, 2, 1000]), st.integers(1, 4), st.integers(0, 99))
def test_sets_counted_by_bits_equal_recoded_marginals(made, clip, threads, seed):
    """Marginals of all sets of columns in two groups, by words of 64 rows, are those that rows
    counted one by one give; users with more rows than the clip weigh less in both."""
    table, domain, _, _ = made
    rng = np.random.default_rng(seed)
    names = [a for a, n in domain.items() if n > 1]
    halves = {a: (np.arange(domain[a]) > rng.integers(0, domain[a] - 1)) * 1 for a in names}
    for width in range(1, len(names) + 1):
        sets = np.array(list(combinations(range(len(names)), width)))
        sets = sets[rng.permutation(len(sets))]
        found = local(table, threads).half_tables(names, sets, clip, halves)
        cliques = [tuple(names[i] for i in one) for one in sets]
        wanted = local(table, 1).marginals(cliques, clip, recode=halves)
        assert found.dtype == np.int64
        assert np.array_equal(found, [wanted[c].reshape(-1) for c in cliques])


class OnlyMarginals:
    """An engine that cannot count sets by bits; `largest`: the marginals that it really counts."""

    def __init__(self, table):
        self.engine = local(table, 1)
        self.largest: list[tuple[str, ...]] = []

    def marginals(self, cliques, clip=None, *, recode=None):
        self.largest += planning.outer(cliques)
        return self.engine.marginals(cliques, clip, recode=recode)


def test_an_engine_that_only_counts_marginals_counts_few_large_ones():
    """A target's search looks at all sets with the target. They are added up from a few sets of many
    columns: 715 sets of five of 14 columns from five sets of 13."""
    rng = np.random.default_rng(7)
    names = [f"c{i}" for i in range(14)]
    domain = dict.fromkeys(names, 3)
    table = Table.from_codes(domain, {a: rng.integers(0, 3, 200) for a in names})
    halves = {a: np.array([0, 1, 1]) for a in names}
    others = [i for i in range(14) if i != 6]
    sets = np.sort([[6, *c] for c in combinations(others, 4)], axis=1)
    only = OnlyMarginals(table)
    domain = Domain(dict.fromkeys(names, 2))
    found = Counts(only, domain, halves, None).half_tables(names, sets)
    by_bits = Counts(only.engine, domain, halves, None).half_tables(names, sets)
    assert np.array_equal(found, by_bits)
    assert len(sets) == 715 and len(only.largest) <= 5
    few = sets[[0, 400]]
    again = Counts(only, domain, halves, None).half_tables(names, few)
    assert np.array_equal(again, found[[0, 400]])


def test_many_rows_by_bits_are_the_same_for_any_threads():
    """More words than a block and more sets than a piece of work."""
    rng = np.random.default_rng(4)
    rows = 70_000
    width = 4
    bits = rng.integers(0, 2, (14, rows))
    weights = rng.choice([3, 7, 1 << 20], rows)
    sets = np.array(list(combinations(range(14), width)))
    made = BitRows(bits, rows, weights)
    one = made.tables(sets, 1)
    assert np.array_equal(one, made.tables(sets, 3))
    for number in (0, 500, len(sets) - 1):
        cells = np.ravel_multi_index(bits[sets[number]], (2,) * width)
        wanted = np.bincount(cells, weights, minlength=1 << width).astype(np.int64)
        assert np.array_equal(one[number], wanted)


def test_sets_that_share_a_number_are_refused():
    """Sets of eight of 2^10 columns that differ in the first would be one set modulo 2^64: counts
    of one in place of the other are no marginal, and one row could change all of its cells."""
    rows = BitRows(np.zeros((1 << 10, 3), np.uint8), 3)
    sets = np.arange(8)[None, :]
    assert rows.tables(sets[:, :6], 1)[0, 0] == 3
    with pytest.raises(ValueError, match="too many columns"):
        rows.tables(sets, 1)
    columns = tuple(f"c{i}" for i in range(1 << 10))
    domain = Domain(dict.fromkeys(columns, 2))
    sums = np.zeros((1, 1 << 8)), 1.0, np.zeros(1), np.zeros(1)
    with pytest.raises(UsageError, match="too many columns"):
        plan_half_sets(recoded(domain, None), 1, HalfSets(columns, sets), *sums, "wide")


@settings(max_examples=25, deadline=None)
@given(tables(), st.sampled_from([None, 2]), st.integers(1, 4))
def test_sparse_marginals_equal_dense_ones(made, clip, threads):
    table, domain, codes, ids = made
    clique = tuple(domain)[:3]
    sparse = marginals(table, [clique], clip=clip, threads=threads, sparse=True)[clique]
    owners = range(table.rows) if ids is None else ids.tolist()
    want: dict[int, int] = {}
    cells = slow.cells_of(domain, codes, clique)
    for cell, weight in zip(cells, slow.row_weights(list(owners), clip), strict=True):
        want[cell] = want.get(cell, 0) + weight
    assert isinstance(sparse, SparseMarginal)
    assert sparse.keys.tolist() == sorted(want)
    assert sparse.sums.tolist() == [want[k] for k in sorted(want)]
    back = np.zeros(len(sparse.keys), object)
    for name, code in zip(clique, sparse.codes(), strict=True):
        back = back * domain[name] + code.astype(object)
    assert back.tolist() == sorted(want)


@pytest.mark.parametrize("threads", [1, 3, *slow_cases(2, 16)])
@pytest.mark.parametrize("outer", [0, *slow_cases(1), 9])
@pytest.mark.parametrize("budget", [0, 1 << 29])
def test_tables_passed_from_thread_to_thread(threads, outer, budget, monkeypatch):
    """Thousands of short units, threads that share the rows and threads that share the cells: a
    table handed over too early, or a weight looked up too late, would show here."""
    monkeypatch.setattr("fastdp.engines.local.CHUNK_ROWS", 50)
    monkeypatch.setattr("fastdp.engines.local.COPIES_BYTES", budget)
    rng = np.random.default_rng(8)
    domain = {name: 6 for name in "abcdefghij"} | {"k": 300}
    codes = {n: (rng.random(30_000) ** 2 * s).astype(np.uint16) for n, s in domain.items()}
    user = rng.integers(0, 700, 30_000)
    table = Table.from_codes(domain, codes, user=user)
    cliques = downward_closure([("a", "k", "c"), *(("a", name) for name in "bcdefghij"[:outer])])
    weights = {9: slow.row_weights(user.tolist(), 9), None: [1] * len(user)}
    for clip, weight in weights.items():
        want = {clique: slow.marginal(domain, codes, clique, weight) for clique in cliques}
        for _ in range(2):
            counts = marginals(table, cliques, clip=clip, threads=threads)
            assert all(np.array_equal(counts[c], want[c]) for c in cliques)


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("pending", [0, 1 << 22])
def test_projections_through_several_levels(threads, pending, monkeypatch):
    """Runs of axes that are dropped, tables that nobody asked for in between, and results that
    serve others."""
    monkeypatch.setattr(planning, "PENDING_CELLS", pending)
    domain = Domain({"a": 3, "b": 4, "c": 1, "d": 5, "e": 2, "f": 40, "g": 11})
    have = tuple(domain)
    table = np.random.default_rng(1).integers(0, 1 << 50, domain.shape(have))
    wanted = [c for k in range(8) for c in combinations(have, k)] + [("g", "a"), ("f", "b", "e")]
    projected = planning.project_all(domain, {have: table}, wanted, threads)
    assert list(projected) == wanted
    for clique in wanted:
        dropped = tuple(i for i, name in enumerate(have) if name not in clique)
        kept = [name for name in have if name in clique]
        want = table.sum(axis=dropped).transpose([kept.index(name) for name in clique])
        assert (
            projected[clique].shape == domain.shape(clique) and projected[clique].flags.c_contiguous
        )
        assert np.array_equal(projected[clique], want)
    assert not np.shares_memory(projected[("a", "g")], projected[("g", "a")])


def test_sparse_up_to_2_to_the_63_cells():
    domain = {f"c{i}": 1 << 21 for i in range(3)}
    top = (1 << 21) - 1
    codes = {n: np.array([top, 0, top], np.uint32) for n in domain}
    table = Table.from_codes(domain, codes)
    cells = marginals(table, [tuple(domain)], clip=1)[tuple(domain)]
    assert cells.keys.tolist() == [0, (1 << 63) - 1]
    assert cells.sums.tolist() == [SCALE, 2 * SCALE]


def test_refused_before_any_work():
    table = Table.from_codes({"a": 3, "b": 4}, {"a": [1, 2], "b": [0, 3]})
    with pytest.raises(SchemaError, match="no column 'z'"):
        marginals(table, [("a", "z")])
    with pytest.raises(UsageError, match="clip"):
        marginals(table, [("a",)], clip=0)
    with pytest.raises(UsageError, match="threads"):
        local(table, threads=0)
    large = {f"c{i}": 1 << 16 for i in range(4)}
    wide = Table.from_codes(large, {n: np.zeros(1, np.uint16) for n in large})
    with pytest.raises(UsageError, match="2\\^63"):
        marginals(wide, [tuple(large)])
    with pytest.raises(UsageError, match="2\\^32"):
        local(wide).marginals([("c0", "c1")])
    with pytest.raises(DataError, match=r"outside 0\.\.2"):
        Table.from_codes({"a": 3}, {"a": [0, 3]})
    with pytest.raises(DataError, match="missing"):
        Table.from_codes({"a": 3}, {})
    with pytest.raises(DataError, match="different length"):
        Table.from_codes({"a": 3, "b": 2}, {"a": [0], "b": [0, 1]})


def test_marginals_share_no_memory_with_each_other():
    """Not even those whose cells lie in the same order, since one of their columns has a single
    code: whoever changes one changes no other."""
    domain = Domain({"a": 1, "b": 3, "c": 4})
    whole = {("a", "b", "c"): np.arange(12).reshape(1, 3, 4)}
    asked = [p for n in range(4) for p in permutations(domain, n)]
    made = planning.project_all(domain, whole, asked)
    assert len(made) == len(asked) == 16
    for one, other in combinations(made.values(), 2):
        assert not np.shares_memory(one, other)
