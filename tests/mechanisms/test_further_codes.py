"""Codes for nulls and other values, in tables whose columns have two values and almost none of these."""

from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest

import fastdp
from fastdp.domain import Domain
from fastdp.measurement import Measurement
from fastdp.mechanisms.cliquetree import CliqueTree
from fastdp.mechanisms.cliquetree.further_codes import FurtherCodes, have_two_values
from fastdp.mechanisms.shared.code_compression import Compression
from fastdp.mechanisms.shared.merged_codes import Merged
from fastdp.model.graphical_model import Model
from fastdp.model.marginals import marginals

from .growing import RowsSession, job_of
from .test_two_valued import answers


class SignedSession(RowsSession):
    """Keeps the signs of contrasts."""

    def contrasts(self, sets, signs, *, mu, label):
        self.signs = signs
        return super().contrasts(sets, signs, mu=mu, label=label)


def drafted(rows=4000, columns=6):
    """Yes and no, with codes for other values and nulls, which no row has."""
    domain, made = answers(rows=rows, columns=columns)
    return dict.fromkeys(domain, 4), made


def run(domain, columns, mu=0.4):
    session = SignedSession(domain, columns, mu=mu, seed=4)
    return session, CliqueTree().run(session, job_of(session))


def test_codes_that_no_row_has_are_no_third_value():
    """Contrasts are measured, in which these codes have the sign 0: with another sign, a row that has
    one would count as a row with a value. Rows come in the schema's codes, and without hidden columns."""
    domain, columns = drafted()
    session, outcome = run(domain, columns)
    assert {"contrasts of pairs", "contrasts of triples"} <= set(session.steps)
    assert all(session.signs[a].tolist() == [1, -1, 0, 0] for a in domain)
    rows = outcome.rows.some(4000, 1)
    assert list(rows) == list(domain)
    assert len(outcome.model.hidden) == 6
    for a, b in combinations(domain, 2):
        true = np.bincount(4 * columns[a] + columns[b], minlength=16) / 4000
        made = np.bincount(4 * rows[a].astype(int) + rows[b], minlength=16) / 4000
        assert np.abs(true - made).sum() / 2 < 0.06


def test_codes_that_stand_out_are_left_to_the_tree():
    """A tenth of the rows of one column are nulls."""
    domain, columns = drafted()
    columns["c2"] = np.where(np.arange(4000) % 10 == 0, 3, columns["c2"])
    session, outcome = run(domain, columns)
    assert "contrasts of pairs" not in session.steps
    assert outcome.model.hidden == ()


def merged_of(rows, error=10.0):
    """Merged codes of columns with these rows by code, as they were released."""
    domain = Domain({a: len(x) for a, x in rows.items()})
    ones = tuple(Measurement((a,), x, error) for a, x in rows.items())
    shape = {a: np.maximum(x, 0.0) for a, x in rows.items()}
    return Merged(Compression(domain, {}), ones, shape, 1000.0, {}, released=ones)


def test_the_decision_allows_for_the_number_of_columns():
    """3.2 standard errors are nothing special as the largest of 16, and they are as the only one."""
    some = {f"c{i}": np.array([600.0, 400.0, 0.0]) for i in range(16)}
    some["c5"] = np.array([600.0, 400.0, 32.0])
    assert have_two_values(merged_of(some), list(some))
    assert not have_two_values(merged_of(some), ["c5"])
    assert have_two_values(merged_of({"a": np.array([600.0, 400.0])}), ["a"])


def test_further_codes_have_their_part_and_know_of_nothing():
    """The model has the parts of the 1-way, in rows with either value alike; rows without further codes
    are those of the model of two values. Noise below 0 is no rows."""
    rows = {
        "a": np.array([600.0, 200.0, 150.0, 50.0]),
        "b": np.array([300.0, 700.0]),
        "c": np.array([500.0, 510.0, -10.0]),
    }
    merged = merged_of(rows, 1e-3)
    further = FurtherCodes.of(merged, list(rows))
    assert further.parts["a"] == pytest.approx([0.15, 0.05], abs=1e-3)
    assert further.parts["b"].size == 0
    assert further.parts["c"] == pytest.approx([0.0], abs=1e-3)
    assert further.without([("a", "b"), ("c",)]) == pytest.approx([0.8, 1.0], abs=1e-3)
    one = further.left_out(merged.ones[0])
    assert one.values == pytest.approx([750.0, 250.0], abs=1)
    table = np.array([[[200.0, 50.0], [250.0, 250.0]], [[50.0, 100.0], [50.0, 50.0]]])
    told = Measurement(("a", "b", "c"), table.reshape(-1), 1.0)
    two = fastdp.fit(dict.fromkeys("abc", 2), [told], total=1000.0, stop="tol")
    model, after = further.added(two, merged)
    assert len(model.hidden) == 2
    assert model.domain == after.domain
    found = marginals(model, [("a", "b"), ("b", "c")], 1)
    product = np.outer([0.15, 0.05], table.sum(axis=(0, 2)))
    assert found["a", "b"][2:] == pytest.approx(product, abs=1.0)
    assert found["a", "b"][:2] == pytest.approx(0.8 * table.sum(axis=2), abs=1.0)
    assert found["b", "c"][:, :2] == pytest.approx(table.sum(axis=0), abs=1.0)


def test_noise_is_no_further_code():
    """Rows are drawn towards the mean of all columns, and that is taken for 0 where it is smaller than its
    standard error: in a table without nulls, noise above 0 in one column is none."""
    noise = [25.0, -20.0, 10.0, -15.0]
    rows = {f"c{i}": np.array([600.0, 400.0, x]) for i, x in enumerate(noise)}
    further = FurtherCodes.of(merged_of(rows, 20.0), list(rows))
    assert all(not part.any() for part in further.parts.values())
    rows = {f"c{i}": np.array([600.0, 400.0, x + 30]) for i, x in enumerate(noise)}
    further = FurtherCodes.of(merged_of(rows, 20.0), list(rows))
    assert [float(p.sum()) for p in further.parts.values()] == pytest.approx([0.03] * 4, rel=0.2)


def test_without_further_codes_nothing_is_added():
    merged = merged_of({"a": np.array([600.0, 400.0]), "b": np.array([300.0, 700.0])})
    model = SimpleNamespace(hidden=())
    assert FurtherCodes.of(merged, ["a", "b"]).added(model, merged) == (model, merged)


def test_a_run_is_answered_completed_and_loaded(tmp_path):
    """Hidden columns are no columns to those who ask: answers about pairs are measured and hold, missing
    values are completed, and the folder says the same."""
    domain, columns = drafted(rows=3000, columns=4)
    table = fastdp.Table.from_codes(domain, columns)
    done = fastdp.synthesize(table, "cliquetree", 5.0, 1e-6, seed=3, out=tmp_path / "run")
    assert fastdp.verify(tmp_path / "run")
    loaded = fastdp.load_run(tmp_path / "run")
    assert loaded.model.hidden == done.model.hidden
    assert set(done.data.column_names) == set(domain)
    inside = []
    for a, b in combinations(columns, 2):
        asked, again = (r.answer("count", where={a: 1, b: 0}).table for r in (done, loaded))
        assert asked["basis"].to_pylist() == ["measured"]
        assert asked["low"].to_pylist() == pytest.approx(again["low"].to_pylist())
        truth = np.sum((columns[a] == 1) & (columns[b] == 0))
        inside.append(asked["low"][0].as_py() <= truth <= asked["high"][0].as_py())
    assert np.mean(inside) >= 0.8
    assert any("pairs: 6 of 6 are measured" in line for line in done.verdict.figures)


def test_hidden_columns_are_stored_as_in_earlier_versions_where_there_is_one(tmp_path):
    """Files of one hidden column have its name, so that either version reads them."""
    model = fastdp.fit({"a": 2, "h": 2, "k": 2}, [Measurement(("a",), [3.0, 5.0], 1.0)], total=8.0)
    for hidden in ((), ("h",), ("h", "k")):
        model.hidden = hidden
        model.save(tmp_path / "model.fastdp")
        assert Model.load(tmp_path / "model.fastdp").hidden == hidden
