"""Arguments that cannot be meant are refused with a sentence that names them, before anything is charged or
written; limits are inclusive."""

import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

import fastdp
from fastdp import errors
from fastdp._util import threads
from fastdp.domain import Domain
from fastdp.engines import spark, user_histograms as users
from fastdp.errors import DataError, FastdpError, PrivacyError, UsageError, is_whole
from fastdp.privacy import accountant, gdp
from fastdp.release import keyselect, noiseplan, reserve
from fastdp.release.noiseplan import plan_histogram
from fastdp.tables import bound
from fastdp.tables.table import Table, code_dtype
from fastdp.userkeys import Groups, RowsPerUser

SCHEMA = fastdp.Schema.from_domain({"a": 3, "b": 2})


@pytest.mark.parametrize("check, most", [(spark.check_partitions, 2**15), (bound.check_clip, 2**43 - 1)])
def test_limits_are_inclusive(check, most):
    assert check(1) == 1 and check(most) == most
    for value in (0, most + 1):
        with pytest.raises(UsageError):
            check(value)


class NoEvent:
    epsilon = mu = 0.1


@pytest.mark.parametrize(
    "call",
    [
        lambda: accountant.mu_of(NoEvent()), lambda: gdp.epsilon_of(1e-301, 1e-6),
        lambda: gdp.epsilon_of(1e300, 1e-6), lambda: gdp.epsilon_of(0.5, 0.0),
        lambda: gdp.epsilon_of(0.5, 1.0), lambda: gdp.epsilon_of(0.5, 1e-301),
        lambda: gdp.mu_from(1e30, 1e-6), lambda: noiseplan.positive(0.0, "mu"),
        lambda: noiseplan.positive(math.inf, "mu"), lambda: noiseplan.positive(math.nan, "mu"),
    ],
)  # fmt: skip
def test_numbers_of_privacy_outside_the_range_of_its_arithmetic_are_refused(call):
    with pytest.raises(UsageError):
        call()


def test_codes_are_whole_numbers_in_as_few_bytes_as_hold_them(tmp_path):
    for size, width in ((1, 1), (256, 1), (257, 2), (65_536, 2), (65_537, 4), (2**32, 4)):
        assert code_dtype(size).itemsize == width
    with pytest.raises(UsageError, match=r"limit is 2\^32"):
        code_dtype(2**32 + 1)
    for wrong in (np.zeros(3), np.zeros((3, 1), int), np.array(["a", "b", "c"])):
        with pytest.raises(DataError, match="1-D integer array"):
            Table.from_codes(SCHEMA, {"a": wrong, "b": np.zeros(3, int)})
    with_users = fastdp.Schema.from_domain({"a": 3}, user="who")
    with pytest.raises(DataError, match="user= is missing"):
        Table.from_codes(with_users, {"a": np.zeros(3, int)})
    with pytest.raises(DataError, match="no user column"):
        Table.from_codes(SCHEMA, {"a": np.zeros(3, int), "b": np.zeros(3, int)}, user=[1, 2, 3])


def test_keys_are_not_taken_with_known_noise_from_a_ledger(tmp_path):
    column = {"kind": "categorical", "dtype": "int32", "values": [0, 1]}
    schema = fastdp.Schema.from_dict({"name": "x", "columns": {"a": column}, "user": {"column": "who"}})
    ledger = fastdp.Ledger(tmp_path / "b.db")
    with pytest.raises(UsageError, match="it fixes the noise"):
        fastdp.select_keys(
            pa.table({"who": [1], "a": [0]}), schema, "a", epsilon=1.0, delta=1e-6, ledger=ledger, seed=1
        )
    with pytest.raises(PrivacyError, match="Nothing was read or drawn"):
        keyselect.check_draws(80.0, 1e-12)
    assert keyselect.check_draws(1.0, 1e-6) is None


@pytest.mark.parametrize(
    "asks", [[], [(1.0, 1e-6, "user"), (2.0, 1e-7, "user")], [(1.0, 1e-6, "user"), (2.0, 1e-6, "event")]]
)
def test_a_reservation_has_one_delta_and_one_unit(asks):
    requests = [reserve.BudgetRequest(epsilon=e, delta=d, clip=1, unit=u) for e, d, u in asks]
    with pytest.raises(UsageError, match="at least one epsilon, and the same delta and unit"):
        reserve.reserve(SCHEMA, requests)


def test_every_kind_of_error_has_the_exit_code_of_the_manual():
    """docs/reference/cli.md, by the number; kinds of errors are told apart by it."""
    kinds = ((
        errors.UsageError, 2, "wrong argument"), (errors.SchemaError, 3, "malformed schema"),
        (errors.DataError, 4, "data does not fit the schema"), (errors.BudgetError, 5,
        "budget does not cover the run"), (errors.LedgerError, 6, "ledger missing, locked or tampered with"),
        (errors.PrivacyError, 7, "a check of the guarantee failed"), (errors.ModelTooLargeError, 8,
        "the model would be too large"), (errors.RunError, 10,
        "run folder cannot be written, resumed or verified"), (errors.StoppedEarly, 11,
        "stopped after the first answers"), (errors.Cancelled, 130, "interrupted"),
    )  # fmt: skip
    manual = (Path(__file__).parents[1] / "docs" / "reference" / "cli.md").read_text("utf-8")
    for kind, code, words in kinds:
        assert kind.exit_code == code
        assert f"| {code} | {words}" in manual or f"| {code}, 143 | {words}" in manual
    every = [k for k in vars(errors).values() if isinstance(k, type) and issubclass(k, errors.FastdpError)]
    codes = [kind.exit_code for kind in every]
    assert len(codes) == len(set(codes)) and errors.MeasurementError.exit_code == 9


# Numbers that must be whole are refused in words, whatever is given in their place.


DOMAIN = Domain({"a": 3, "b": 2})
OF_USERS = fastdp.Schema.from_domain(DOMAIN, user="who")
TABLE = Table.from_codes(OF_USERS, {"a": [0, 1], "b": [0, 1]}, user=[1, 2])
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
        OF_USERS, [reserve.BudgetRequest(epsilon=1.0, delta=1e-6, clip=2)], seed=n
    ),
    "rows": lambda n: fastdp.synthesize(TABLE, "mst", 1.0, 1e-6, rows=n),
    "keys per user": lambda n: keyselect.select_keys(
        pa.table({"a": [1], "b": [1], "who": [1]}), OF_USERS, "a", epsilon=1.0, delta=1e-6, keys_per_user=n
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
