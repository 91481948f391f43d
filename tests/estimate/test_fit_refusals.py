"""Measurements, zeros and starts that do not fit the domain are refused with a sentence that names them."""

import numpy as np
import pytest
import scipy.sparse as sp

from fastdp import Measurement
from fastdp.domain import Domain
from fastdp.errors import MeasurementError, UsageError
from fastdp.estimate.estimator import fit
from fastdp.model.grow import grow

DOMAIN = Domain({"a": 2, "b": 3})
SEEN = [Measurement(("a", "b"), np.arange(6.0) + 1, 1.0)]


@pytest.mark.parametrize(
    "zeros, text",
    [
        ({("z",): [True, False]}, "zeros: "),
        ({("a",): [True, False, False]}, r"2 bools, one per cell"),
        ({("a",): [1, 0]}, r"2 bools, one per cell"),
        ({("a",): [True, True]}, "every combination is excluded"),
        ({("a",): [True, False], ("a", "b"): [False] * 3 + [True] * 3}, "no possible row"),
    ],
)
def test_zeros_are_one_bool_per_cell_and_leave_something(zeros, text):
    masks = {clique: np.array(mask) for clique, mask in zeros.items()}
    with pytest.raises(MeasurementError, match=text):
        fit(DOMAIN, SEEN, zeros=masks)


def test_a_start_is_over_the_same_domain():
    start = fit(Domain({"a": 2, "b": 4}), [Measurement(("b",), np.ones(4), 1.0)])
    with pytest.raises(UsageError, match="'b' has 4 codes in that model and 3 in this domain"):
        fit(DOMAIN, SEEN, warm_start=start)


def test_methods_and_queries_that_do_not_apply():
    with pytest.raises(UsageError, match='method="flow" takes'):
        fit(DOMAIN, SEEN, method="flow")
    model = fit(DOMAIN, SEEN)
    with pytest.raises(UsageError, match="over 3 cells"):
        model.answer(sp.csr_array(np.eye(3)), ("a",))
    with pytest.raises(MeasurementError, match="query: expected None"):
        model.answer("all", ("a",))
    with pytest.raises(UsageError, match="got 0"):
        grow(DOMAIN, {}, 0, 100)
    assert {frozenset(c) for c in grow(DOMAIN, {("a", "b"): 1.0}, 1, 100)} == {frozenset("a"), frozenset("b")}
