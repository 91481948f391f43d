"""Trends beyond the model in rows that are drawn given evidence. Means of n products of scores have
a standard error below 2 / sqrt(n); five of them are allowed."""

import numpy as np
import pytest

import fastdp
from fastdp.domain import Domain
from fastdp.errors import DataError
from fastdp.model.graphical_model import Model, Node
from fastdp.model.row_facts import RowFacts
from fastdp.ondemand.known_rows import Known
from fastdp.ondemand.row_law import RowLaw
from tests.tiers import slow_cases

CODES = 8
ROWS = 60_000
SCORES = (np.arange(CODES) - 3.5) / np.std(np.arange(CODES))
WANTED = {("a", "b"): 0.2, ("b", "c"): -0.15}
SLACK = 5 * 2 / np.sqrt(ROWS)


def law(trends):
    """Columns a, b, c hang on d, and on nothing else."""
    rng = np.random.default_rng(1)
    domain = Domain({"a": CODES, "b": CODES, "c": CODES, "d": 3})
    tables = rng.random((3, 3, CODES)) + 1.0
    nodes = [Node((), ("d",), np.full((1, 3), 1 / 3))]
    nodes += [
        Node(("d",), (a,), table / table.sum(axis=1, keepdims=True) / 3)
        for a, table in zip("abc", tables)
    ]
    model = Model(domain, nodes, total=1.0)
    model.facts = RowFacts(scores=dict.fromkeys("abc", SCORES), trends=trends)
    return RowLaw(fastdp.Schema.from_domain(dict(domain), user=None), model)


def means(rows):
    return {(a, b): float(np.mean(SCORES[rows[a]] * SCORES[rows[b]])) for a, b in WANTED}


@pytest.mark.parametrize(
    "given", [(), ("b", "d"), *slow_cases((("a",),), (("b",),), (("d",),), (("a", "c"),))]
)
def test_rows_follow_the_trends_whatever_is_given(given):
    """The given codes are those of rows without trends, so that their own distribution is the
    model's. Every column keeps its distribution given d."""
    plain = law({})
    steered = law(WANTED)
    before, _ = plain.draw(Known(ROWS), 1)
    known = Known(ROWS, {a: before[a] for a in given})
    rows, _ = steered.draw(known, 2)
    found = means(rows)
    model = means(plain.draw(known, 2)[0])
    for pair, change in WANTED.items():
        asked = 0.0 if set(pair) <= set(given) else change
        assert abs(found[pair] - model[pair] - asked) < SLACK + 0.03, pair
    for a in "abc":
        shares = np.histogram2d(rows["d"], rows[a], (3, CODES), [[0, 3], [0, CODES]])[0] / ROWS
        assert np.abs(shares - plain.model.marginal(("d", a))).max() < 5 * np.sqrt(1 / 24 / ROWS)
    assert all((rows[a] == before[a]).all() for a in given)


def test_a_row_depends_on_its_own_number_alone():
    steered = law(WANTED)
    whole, _ = steered.draw(Known(200), 3, threads=2)
    some = np.array([199, 3, 77])
    part, _ = steered.draw(Known(200).of_rows(some), 3, threads=1)
    assert all((whole[a][some] == part[a]).all() for a in whole)


def test_the_trends_survive_the_model_file(tmp_path):
    made = law(WANTED).model
    made.save(tmp_path / "model.fastdp")
    facts = fastdp.Model.load(tmp_path / "model.fastdp").facts
    assert facts is not None and facts.trends == WANTED
    assert all(np.array_equal(facts.scores[a], SCORES) for a in "abc")
    made.facts = RowFacts(scores={"a": SCORES, "b": SCORES * np.nan}, trends={("a", "b"): 0.1})
    made.save(tmp_path / "bad.fastdp")
    with pytest.raises(DataError, match="facts about rows"):
        fastdp.Model.load(tmp_path / "bad.fastdp")
