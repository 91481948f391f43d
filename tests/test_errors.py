"""Numbers that must be whole are refused in words, whatever is given in their place."""

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fastdp
from fastdp._util import threads
from fastdp.domain import Domain
from fastdp.engines import spark
from fastdp.engines import user_histograms as users
from fastdp.errors import FastdpError, is_whole
from fastdp.release import keyselect, reserve
from fastdp.release.noiseplan import plan_histogram
from fastdp.tables import bound
from fastdp.tables.table import Table
from fastdp.userkeys import Groups, RowsPerUser

DOMAIN = Domain({"a": 3, "b": 2})
SCHEMA = fastdp.Schema.from_domain(DOMAIN, user="who")
TABLE = Table.from_codes(SCHEMA, {"a": [0, 1], "b": [0, 1]}, user=[1, 2])
KEY = RowsPerUser((1, 2))
MODEL = fastdp.fit(DOMAIN, [fastdp.Measurement(("a", "b"), np.ones(6), 1.0)])
CALLS = {
    "size of an attribute": lambda n: Domain({"a": n}),
    "threads": threads.resolve,
    "clip": bound.check_clip,
    "partitions of Spark": spark.check_partitions,
    "cap": lambda n: users.checked(DOMAIN, KEY, n),
    "cap of a session": lambda n: plan_histogram(DOMAIN, "user", KEY, n, 1.0, None, "users"),
    "rows of a group": lambda n: Groups(("a",), t_max=n),
    "code": lambda n: MODEL.conditioned({"a": n}),
    "seed": lambda n: reserve.reserve(
        SCHEMA, [reserve.BudgetRequest(epsilon=1.0, delta=1e-6, clip=2)], seed=n
    ),
    "rows": lambda n: fastdp.synthesize(TABLE, "mst", 1.0, 1e-6, rows=n),
    "keys per user": lambda n: keyselect.select_keys(
        pa.table({"a": [1], "b": [1], "who": [1]}), SCHEMA, "a", epsilon=1.0, delta=1e-6, keys_per_user=n
    ),
}


@pytest.mark.parametrize("value", ["x", "1", math.nan, math.inf, -math.inf, 1.5, True, -1, [], {}, 1j, b"1"])
@pytest.mark.parametrize("call", CALLS)
def test_what_is_no_whole_number_is_an_error_in_words(call, value):
    if (call, value) != ("seed", -1):  # any whole number is a seed
        with pytest.raises(FastdpError):
            CALLS[call](value)


@given(st.integers() | st.integers(-9, 9).map(float) | st.integers(-9, 9).map(np.int8) | st.just(10**400))
def test_whole_numbers_of_any_type_are_whole(n):
    assert is_whole(n) and is_whole(n, n, n) and not is_whole(n, n + 1) and not is_whole(n, most=n - 1)


@given(st.floats())
def test_a_float_is_whole_where_it_has_no_fraction(x):
    assert is_whole(x) == (math.isfinite(x) and x == int(x))
    assert is_whole(np.float64(x)) == is_whole(x)
