"""Arguments that cannot be meant are refused with a sentence that names them, before anything is
charged or written; limits are inclusive."""

import math
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

import fastdp
from fastdp import errors
from fastdp._util import threads
from fastdp.domain import Domain, code_dtype
from fastdp.engines import spark, user_histograms as users
from fastdp.errors import DataError, FastdpError, PrivacyError, UsageError, is_whole
from fastdp.estimate.fit_options import Options
from fastdp.measurement import Measurement, Request
from fastdp.mechanisms.archetypes.options import Options as ArchetypeOptions, Step
from fastdp.mechanisms.limits.model_size import LargestModel, check_size
from fastdp.mechanisms.limits.size_limits import parse_bytes
from fastdp.mechanisms.usercounts.mechanism import Total, UserCounts
from fastdp.privacy import accountant, gdp
from fastdp.privacy.accountant import Gaussian
from fastdp.privacy.budget import Budget
from fastdp.privacy.calibrate import calibrate
from fastdp.privacy.ledger import Ledger
from fastdp.privacy.select import exponential
from fastdp.queries import Binned, Grid, Identity, Sparse
from fastdp.release import keyselect, planned_release, reserve
from fastdp.release.histogram_plan import plan_histogram
from fastdp.release.selection import score_grid_number, score_weights
from fastdp.tables import bound
from fastdp.tables.table import Table
from fastdp.user_views import RowGroups
from fastdp.userkeys import (
    MOST_ROWS,
    Agreement,
    Groups,
    MostCommon,
    RowsPerUser,
    RowsUpTo,
    Succession,
    WithoutId,
)

DOMAIN = Domain({"a": 3, "b": 2})
SCHEMA = fastdp.Schema.from_domain(DOMAIN)
OF_USERS = fastdp.Schema.from_domain(DOMAIN, user="who")
SEEN = Measurement(("a", "b"), np.ones(6), 1.0)
MODEL = fastdp.fit(DOMAIN, [SEEN])


def below(x):
    return math.nextafter(x, -math.inf)


def request(**facts):
    return reserve.BudgetRequest(**{"epsilon": 1.0, "delta": 1e-6, "clip": 1} | facts)


def archetypes(**fields):
    return ArchetypeOptions(features=("a",), **fields).resolve(DOMAIN)


def counts(**fields):
    return UserCounts(method="hierarchy", cap=2, **fields).resolved(OF_USERS, 1.0, 1e-6)


def keys(**facts):
    plain = {"columns": {"a": {"kind": "string", "values": ["x"]}}, "user": {"column": "who"}}
    rows = pa.table({"a": ["x"], "who": [1]})
    given = {"epsilon": 1.0, "delta": 1e-6, "seed": 1} | facts
    return keyselect.select_keys(rows, fastdp.Schema.from_dict(plain), "a", **given)


def linked_plan(rows, **options):
    return fastdp.plan("households", epsilon=1.0, delta=1e-6, rows=rows, **options)


EACH = {"households": 9, "persons": 9}
TO_ITSELF = Step(target="a", given=("b",))
LEAST = 5e-324
LARGEST = sys.float_info.max
NAN = math.nan
NOT_POSITIVE = (0.0, math.inf, NAN)
RANGES = {  # a call, numbers at the ends of its range, numbers just beyond
    "partitions of Spark": (spark.check_partitions, (1, 2**15), (0, 2**15 + 1)),
    "clip": (bound.check_clip, (1, 2**43 - 1), (0, 2**43)),
    "mu to epsilon": (
        lambda x: gdp.epsilon_of(x, 1e-6),
        (0, 1e-300, 1e3),
        (1e-301, 1e300, -1.0, NAN),
    ),
    "delta to epsilon": (
        lambda x: gdp.epsilon_of(0.5, x),
        (1e-300, below(1.0)),
        (0.0, 1e-301, 1.0),
    ),
    "epsilon to mu": (lambda x: gdp.mu_from(x, 1e-6), (0.0, 1e3), (1e30, -1.0, math.inf)),
    "epsilon of a calibration": (
        lambda x: calibrate(x, 1e-5),
        (1e-3, 1e3),
        (*NOT_POSITIVE, -1.0, "x"),
    ),
    "delta of a calibration": (
        lambda x: calibrate(1.0, x),
        (1e-300, 0.99),
        (0.0, below(1.0), 1.0, NAN),
    ),
    "sensitivity": (lambda x: calibrate(1.0, 1e-5, x), (1e-9, 1e9), NOT_POSITIVE),
    "count": (lambda n: calibrate(1.0, 1e-5, 1.0, n), (1, 10**6), (0, 1.5, "many")),
    "method": (lambda name: calibrate(1.0, 1e-5, 1.0, 1, name), ("gdp", "classic-rdp"), ("magic",)),
    "event": (accountant.mu_of, (Gaussian(1.0),), (SimpleNamespace(epsilon=0.1, mu=0.1),)),
    "mu of a release": (
        lambda x: planned_release.positive(x, "mu"),
        (LEAST, LARGEST),
        NOT_POSITIVE,
    ),
    "epsilon of a run": (lambda x: request(epsilon=x), (LEAST, LARGEST), NOT_POSITIVE),
    "delta of a run": (lambda x: request(delta=x), (LEAST, below(1.0)), (1.0, below(0.0), NAN)),
    "mu of a request": (lambda x: Request(("a",), x), (LEAST, LARGEST), (*NOT_POSITIVE, -1.0)),
    "budget": (lambda x: Budget(x, 1e-6), (LEAST, LARGEST), NOT_POSITIVE),
    "delta of a budget": (lambda x: Budget(1.0, x), (0.0, below(1.0)), (1.0, below(0.0), None)),
    "mu of a budget": (lambda x: Budget(mu=x), (LEAST, LARGEST), NOT_POSITIVE),
    "pure part": (lambda x: Budget(1.0, 1e-6, pure=x), (0.0, below(1.0)), (1.0, below(0.0))),
    "part for keys": (
        lambda x: Budget(1.0, 0.5, keys=x),
        (0.0, LEAST, below(0.5)),
        (0.5, below(0.0)),
    ),
    "keys of a budget in mu": (
        lambda x: Budget(mu=1.0, keys=x),
        (0.0, below(1.0)),
        (1.0, below(0.0)),
    ),
    "weight of a score": (
        lambda x: score_weights([x], 1, "", 2**8),
        (LEAST, below(2**8)),
        (0.0, 2**8, NAN),
    ),
    "penalty": (lambda x: score_grid_number(x, ""), (0.0, -below(2**41)), (2**41, -(2**41), NAN)),
    "unit of a query": (lambda n: Sparse(np.eye(2), n), (1, 2**20), (0, 2**20 + 1)),
    "rows of a user": (RowsUpTo, (1, MOST_ROWS), (0, MOST_ROWS + 1)),
    "rows without a user": (WithoutId, (1, 2**20), (0, 3, 2**21)),
    "unit of a run": (lambda x: request(unit=x), ("user", "event"), ("person", "")),
    "edges of rows per user": (RowsPerUser, ((1,), (1, 5)), ((), (2, 1), (1, 1), (0, 1), (1.5,))),
    "edges of a view": (RowGroups, ((1,), (1, 5)), ((), (2, 3), (1, 1))),
    "labels": (
        lambda x: MostCommon(("a",), x, keys=3).bind(DOMAIN),
        ([0, 1, 2],),
        ([0, 1], [0, 1, 3]),
    ),
    "cells of groups": (
        lambda x: Groups(("a",), 2, x).bind(DOMAIN),
        ([], [0, 5]),
        ([6], [-1], [1, 0], [1, 1]),
    ),
    "features": (
        lambda x: Agreement(x).bind(DOMAIN),
        ((("a",), ("a", "b")),),
        ((), ((),), (("z",),)),
    ),
    "order of rows": (
        lambda x: Succession(x, (), 1, 2).bind(DOMAIN),
        (("b",), ("a", "b")),
        ((), ("z",)),
    ),
    "ends of an order": (lambda n: Succession(("a",), (), 1, n).bind(DOMAIN), (1, 3), (0, 4)),
    "pair of an order": (
        lambda x: Succession(("a",), [x], 1, 1).bind(DOMAIN),
        (("a", "a"),),
        (("a", "b"),),
    ),
    "cells of an order": (
        lambda n: Succession("xy", (), 1, 1).bind(Domain({"x": 2**31, "y": n})),
        (2**31 - 1,),
        (2**31,),
    ),
    "columns of a measurement": (
        lambda x: Measurement(x, [1.0], 1.0),
        ("a", ("a", "b")),
        (("",), (1,), ("a", "a")),
    ),
    "values": (
        lambda x: Measurement("a", x, 1.0),
        ([1.0], [0]),
        ([NAN], [math.inf], ["x"], np.array([1])),
    ),
    "sigma": (
        lambda x: Measurement("a", [1.0, 2.0], x),
        (1, [LEAST, 2.0]),
        (0.0, -1.0, NAN, [1.0], [1.0, 0.0]),
    ),
    "rows of a query": (lambda n: Measurement("a", [1.0] * n, 1.0, Identity(3)), (3,), (2, 4)),
    "entries of a matrix": (lambda x: Sparse(np.array([[x, 1.0]])), (0.0, 1.0), (NAN, math.inf)),
    "maps of bins": (
        lambda x: Binned((3, 2), x),
        ([None, [0, 0]], [[0, 1, 0], None]),
        ([None], [None, [0]], [None, [0, -1]]),
    ),
    "fine cells": (
        lambda x: Grid(("a",), (3,), x),
        ([0, 1, 2],),
        ([0, 1], [0, 2, 1], [0, 1, 3], [-1, 0, 1]),
    ),
    "stop of a fit": (
        lambda x: Options(stop=x),
        ("noise", "risk", "refined", "tol"),
        ("iters", "never"),
    ),
    "tolerance of a fit": (lambda x: Options(tol=x), (None, LEAST, 1.0), (0.0, -1.0, NAN)),
    "calls of a fit": (lambda x: Options(iters=x), (None, 1, 2.0), (0, 1.5)),
    "method of a fit": (
        lambda x: Options(method=x),
        ("auto", "dual", "mirror-descent"),
        ("magic",),
    ),
    "precision of a fit": (lambda x: Options(tables=x), ("float64", "float32"), ("float16",)),
    "total of a fit": (
        lambda x: fastdp.fit(DOMAIN, [SEEN], total=x),
        (None, 1.0),
        (0.0, -1.0, NAN, math.inf, "x"),
    ),
    "measurements of a fit": (
        lambda x: fastdp.fit(DOMAIN, x),
        ([SEEN],),
        ([], [1], {}, [SEEN, None]),
    ),
    "rows of a sample": (lambda x: MODEL.sample(x), (0, 5), (-1, 1.5, 2**60, True)),
    "rows of a shard": (lambda x: MODEL.sample(5, shard_rows=x), (1, 2**31), (-1, 2**31 + 1, 1.5)),
    "number of a shard": (lambda x: MODEL.sample(5, 1, shard=x, shard_rows=2), (0, 2), (-1, 3)),
    "seed of a sample": (lambda x: MODEL.sample(2, x), (None, 0, 10**30), (-1, 1.5, "x", True)),
    "seed of a shard": (lambda x: MODEL.sample(2, x, shard=0), (0,), (None,)),
    "method of a sample": (
        lambda x: MODEL.sample(2, method=x),
        ("round", "independent"),
        ("magic",),
    ),
    "scores": (lambda x: exponential(x, 1.0, 1), ([1], [2, -(2**63)]), ([], [[1]], [1.0], ["a"])),
    "sensitivity of scores": (
        lambda x: exponential([1, 2], 1.0, x),
        (1, 2**62),
        (0, -1, 1.0, True),
    ),
    "trait": (lambda x: archetypes(trait=x), (None, "b"), ("a", "z")),
    "chain": (
        lambda x: archetypes(chain=x),
        (None, [Step(target="b", given=("a",))]),
        ([], [TO_ITSELF]),
    ),
    "kind of counts": (lambda x: counts(kind=x), (None, "a"), ("z", "who")),
    "columns of counts": (lambda x: counts(columns=x), (None, ("a",), ("b", "a")), ((), ("z",))),
    "totals of counts": (
        lambda x: counts(totals=(Total(columns=x),)),
        (("a",),),
        ((), ("a", "b"), ("z",)),
    ),
    "unit of counts": (lambda x: counts(unit=x), ("user",), ("event",)),
    "rows of linked tables": (linked_plan, (EACH,), (9, None, {}, {"persons": 9})),
    "name of a data set": (
        lambda x: Ledger.local().open(x, epsilon=1.0, delta=0.1),
        ("d",),
        ("", None, 3),
    ),
    "draws of keys": (lambda x: keyselect.check_draws(x, 1e-6), (1.0,), (200.0,)),
    "cells of a model": (
        lambda n: check_size(LargestModel(n, True, (("a",), ("b",))), DOMAIN, 9),
        (9,),
        (10,),
    ),
    "public of linked tables": (
        lambda x: linked_plan(EACH, public=x),
        (None,),
        (pa.table({"a": [1]}),),
    ),
    "memory": (parse_bytes, ("4G", "512mb", "1.5KiB", "7"), ("", "G", "4X", "inf", "1e999G")),
}


@pytest.mark.parametrize("name", RANGES)
def test_ranges_hold_what_they_say_up_to_their_ends(name):
    call, inside, outside = RANGES[name]
    for value in inside:
        call(value)
    for value in outside:
        with pytest.raises(FastdpError):
            call(value)


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
    schema = fastdp.Schema.from_dict(
        {"name": "x", "columns": {"a": column}, "user": {"column": "who"}}
    )
    ledger = fastdp.Ledger(tmp_path / "b.db")
    with pytest.raises(UsageError, match="it fixes the noise"):
        fastdp.select_keys(
            pa.table({"who": [1], "a": [0]}),
            schema,
            "a",
            epsilon=1.0,
            delta=1e-6,
            ledger=ledger,
            seed=1,
        )
    with pytest.raises(PrivacyError, match="Nothing was read or drawn"):
        keyselect.check_draws(80.0, 1e-12)


@pytest.mark.parametrize(
    "asks",
    [[], [(1.0, 1e-6, "user"), (2.0, 1e-7, "user")], [(1.0, 1e-6, "user"), (2.0, 1e-6, "event")]],
)
def test_a_reservation_has_one_delta_and_one_unit(asks):
    requests = [reserve.BudgetRequest(epsilon=e, delta=d, clip=1, unit=u) for e, d, u in asks]
    with pytest.raises(UsageError, match="at least one epsilon, and the same delta and unit"):
        reserve.reserve(SCHEMA, requests)


def test_every_kind_of_error_has_the_exit_code_of_the_manual():
    """docs/reference/cli.md, by the number; kinds of errors are told apart by it."""
    kinds = {
        errors.UsageError: (2, "wrong argument"),
        errors.SchemaError: (3, "malformed schema"),
        errors.DataError: (4, "data does not fit the schema"),
        errors.BudgetError: (5, "budget does not cover the run"),
        errors.LedgerError: (6, "ledger missing, locked or tampered with"),
        errors.PrivacyError: (7, "a check of the guarantee failed"),
        errors.ModelTooLargeError: (8, "the model would be too large"),
        errors.RunError: (10, "run folder cannot be written, resumed or verified"),
        errors.StoppedEarly: (11, "stopped after the first answers"),
        errors.Cancelled: (130, "interrupted"),
    }
    manual = (Path(__file__).parents[1] / "docs" / "reference" / "cli.md").read_text("utf-8")
    for kind, (code, words) in kinds.items():
        assert kind.exit_code == code
        assert f"| {code} | {words}" in manual or f"| {code}, 143 | {words}" in manual
    every = [
        k
        for k in vars(errors).values()
        if isinstance(k, type) and issubclass(k, errors.FastdpError)
    ]
    codes = [kind.exit_code for kind in every]
    assert len(codes) == len(set(codes)) and errors.MeasurementError.exit_code == 9


# Numbers that must be whole are refused in words, whatever is given in their place.


TABLE = Table.from_codes(OF_USERS, {"a": [0, 1], "b": [0, 1]}, user=[1, 2])
KEY = RowsPerUser((1, 2))
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
    "keys per user": lambda n: keys(keys_per_user=n),
}


@pytest.mark.parametrize(
    "value", ["x", "1", math.nan, math.inf, -math.inf, 1.5, True, -1, [], {}, 1j, b"1"]
)
@pytest.mark.parametrize("call", CALLS)
def test_what_is_no_whole_number_is_an_error_in_words(call, value):
    if (call, value) != ("seed", -1):  # any whole number is a seed
        with pytest.raises(FastdpError):
            CALLS[call](value)


@given(
    st.integers()
    | st.integers(-9, 9).map(float)
    | st.integers(-9, 9).map(np.int8)
    | st.just(10**400)
)
def test_whole_numbers_of_any_type_are_whole(n):
    assert (
        is_whole(n) and is_whole(n, n, n) and not is_whole(n, n + 1) and not is_whole(n, most=n - 1)
    )


@given(st.floats())
def test_a_float_is_whole_where_it_has_no_fraction(x):
    assert is_whole(x) == (math.isfinite(x) and x == int(x))
    assert is_whole(np.float64(x)) == is_whole(x)
