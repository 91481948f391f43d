"""Which columns are drawn given others."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, strategies as st

from fastdp.domain import Domain
from fastdp.measurement import Measurement
from fastdp.mechanisms.shared import dependencies
from fastdp.significance import LIKELY


@given(
    st.lists(st.integers(0, 26), min_size=12, max_size=12, unique=True),
    st.booleans(),
    st.integers(0, 3),
)
def test_columns_are_drawn_given_what_most_rows_can_be_guessed_from(steps, noisy, frequent):
    """A column follows where the rows that can be guessed, less LIKELY standard errors,
    are FOLLOWS of those without its most frequent value. The strongest come first, each
    after its source, no circles."""
    sizes = {"a": 300, "b": 310, "c": 500, "d": 900}
    domain = Domain(sizes)
    total = 1e6
    shares = {
        n: np.r_[0.8 if i == frequent else 2 / k, np.ones(k - 1)]
        for i, (n, k) in enumerate(sizes.items())
    }
    shares = {n: np.r_[s[0], (1 - s[0]) * s[1:] / s[1:].sum()] for n, s in shares.items()}
    asked = []
    numbers = (0.7203 + 0.015 * step for step in steps)
    error = 0.02 * noisy

    def guesses(pairs, *, mu, label, recode, skip):
        asked.extend((p, next(numbers)) for p in pairs)
        assert mu == pytest.approx(0.3 * math.sqrt(0.04)) and not skip
        return SimpleNamespace(
            values=total * np.array([x for _, x in asked]), sigma=np.full(len(asked), total * error)
        )

    session = SimpleNamespace(domain=domain, mu=0.3, guesses=guesses, most_filtered=800 * 900)
    ones = [Measurement(n, total * s, 1e-3) for n, s in shares.items()]
    found = dependencies.find(session, ones, 0.04, {"b"}, 10**5)
    assert {p for p, _ in asked} == {
        p for p in dependencies.wide_pairs(domain, {"b"}, 10**5) if domain.cells(p) <= 800 * 900
    }
    follow = {}
    source = {}
    for (a, b), x in sorted(asked, key=lambda item: -item[1]):
        part = min(1.0, x - LIKELY * error)
        largest = shares[b].max()
        if part - largest >= dependencies.FOLLOWS * (1 - largest):
            column, of = (b, a) if 2 * sizes[b] > sizes[a] else (a, b)
            up = of
            while up in source:
                up = source[up]
            if column not in source and up != column:
                source[column] = of
                follow[column] = part
    assert {d.column: d.source for d in found} == source
    assert {d.column: d.part for d in found} == pytest.approx(follow)
    places = [d.column for d in found]
    assert all(d.source not in places[i:] for i, d in enumerate(found))


@pytest.mark.parametrize("rows, asked", [(1e6, False), (50_000, True)])
def test_pairs_with_more_cells_than_rows_are_asked_about(rows, asked):
    """Of two columns of 600 codes, 300 have rows. A model can hold the 90,000 cells of these, and
    knows them only where there are as many rows."""
    names = ("a", "b")
    pairs = []

    def guesses(given, **about):
        pairs.extend(given)
        return SimpleNamespace(values=np.zeros(len(given)), sigma=np.full(len(given), 0.01 * rows))

    session = SimpleNamespace(
        domain=Domain(dict.fromkeys(names, 600)), mu=0.3, guesses=guesses, most_filtered=10**6
    )
    counts = np.repeat([rows / 300, -5.0], 300)
    ones = [Measurement((n,), counts, 1.0) for n in names]
    found = dependencies.find(session, ones, 0.04, set(), 10**6)
    assert bool(pairs) == asked and found == ([] if asked else None)
