"""Private key selection: what is kept, what one user can change, what it costs, what it refuses."""

import contextlib
import json
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

import fastdp
from fastdp.errors import BudgetError, PrivacyError, UsageError
from fastdp.privacy import accountant, crosscheck
from fastdp.privacy.accountant import Gaussian, Threshold
from fastdp.release import key_counts, keyselect
from fastdp.release.key_counts import count_keys, weight
from fastdp.release.keyselect import SCALE, select_keys
from fastdp.schema import Schema

from ..reference import counting


def schema(user="who", dtype="string", values=("?",)):
    drop = {"null": "drop", "overflow": "drop"}
    columns = {
        "city": {"kind": "categorical", "dtype": dtype, "values": list(values), **drop},
        "n": {"kind": "integer", "dtype": "int64", "min": 0, "max": 3, **drop},
    }
    plain = {"name": "trips", "columns": columns, "provenance": "by hand"}
    if user:
        plain["user"] = {"column": user, "max_rows": 10}
    return Schema.from_dict(plain)


def trips(common=3, users=2000, seed=0):
    """Cities 0, 1, ... with many users each, and one city per user that nobody else has."""
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(users), 2)
    city = [f"city {rng.integers(common)}" if i % 2 else f"only of {u}" for i, u in enumerate(who)]
    return pa.table({"who": who, "city": city, "n": rng.integers(0, 4, len(who))})


def test_common_values_are_kept_and_any_mechanism_can_use_them():
    keys = select_keys(trips(), schema(), "city", epsilon=1.0, delta=1e-6, keys_per_user=2, seed=1)
    assert keys.values == ("city 0", "city 1", "city 2")
    assert (
        keys.users.dtype == np.float64 and (abs(keys.users - 2000 / 3 / math.sqrt(2)) < 100).all()
    )
    assert keys.statement["private"] is False and keys.statement["keys_per_user"] == 2
    assert keys.statement["sigma"] == pytest.approx(1 / keys.statement["event"]["mu"], rel=1e-9)
    applied = keys.apply(schema())
    assert applied.columns["city"].values == keys.values
    assert "private key selection" in applied.provenance and "by hand" in applied.provenance
    run = fastdp.synthesize(trips(), "mst", 1.0, 1e-9, schema=applied, seed=1, sample_seed=1)
    assert set(run.data["city"].to_pylist()) <= set(keys.values)
    assert "private key selection" in run.privacy["schema"]["provenance"]
    assert any("selected from private data" in note for note in run.privacy["notes"]), (
        "they cost more"
    )


def test_whole_numbers_and_rows_that_are_their_own_user(tmp_path):
    table = pa.table({"city": [7] * 300 + [9] * 200 + [None, 5], "n": [0] * 502})
    keys = select_keys(table, schema(None, "int32", (1,)), "city", epsilon=1.0, delta=1e-6, seed=3)
    assert keys.values == (7, 9)
    import pyarrow.csv as csv

    csv.write_csv(table, tmp_path / "t.csv")
    again = select_keys(
        str(tmp_path / "t.csv"),
        schema(None, "int32", (1,)),
        "city",
        epsilon=1.0,
        delta=1e-6,
        seed=3,
    )
    assert again.values == keys.values


rows = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 8)), min_size=1, max_size=60)


def counted(pairs, cap):
    table = pa.table({"who": [u for u, _ in pairs], "city": [f"v{v}" for _, v in pairs]})
    values, counts = count_keys(table, schema(), "city", "string", cap)
    return dict(zip(values, counts.tolist()))


@given(rows, st.integers(1, 4), st.integers(0, 5))
@settings(max_examples=30, deadline=None)
def test_one_user_changes_at_most_cap_counts_with_a_norm_of_one(pairs, cap, out):
    """Also when the user brings values that nobody else has: the others' choices do not move. The
    values are the most frequent of the user's own rows, and all weigh the same."""
    whole = counted(pairs, cap)
    rest = [p for p in pairs if p[0] != out]
    without = counted(rest, cap) if rest else {}
    change = {v: whole.get(v, 0) - without.get(v, 0) for v in {*whole, *without}}
    own = Counter(f"v{v}" for u, v in pairs if u == out)
    assert own or not any(change.values())
    each = weight(max(1, min(cap, len(own))))
    chosen = {v for v, c in change.items() if c}
    assert len(chosen) == min(cap, len(own)) and all(c in (0, each) for c in change.values())
    assert SCALE**2 * (1 - 1e-4) <= sum(c * c for c in change.values()) <= SCALE**2 or not own
    assert all(own[v] >= own[w] for v in chosen for w in own.keys() - chosen)


@given(rows, st.integers(1, 4), st.sets(st.integers(0, 8)))
@settings(max_examples=25, deadline=None)
def test_known_values_are_left_out_before_users_are_bounded(pairs, cap, known):
    table = pa.table({"who": [u for u, _ in pairs], "city": [f"v{v}" for _, v in pairs]})
    values, counts = count_keys(table, schema(), "city", "string", cap, [f"v{v}" for v in known])
    rest = [p for p in pairs if p[1] not in known]
    assert dict(zip(values, counts.tolist())) == (counted(rest, cap) if rest else {})


@given(st.integers(1, 1024))
def test_weights_are_the_largest_whole_numbers_of_norm_one(t):
    assert t * weight(t) ** 2 <= SCALE**2 < t * (weight(t) + 1) ** 2


def test_the_ledger_is_charged_epsilon_and_delta(tmp_path):
    ledger = fastdp.Ledger(tmp_path / "b.db")
    ledger.open("trips", epsilon=1.0, delta=1e-6, keys=2e-7)
    ledger.open("no keys", epsilon=1.0, delta=1e-6)
    ask = {"epsilon": 0.3, "delta": 2e-7, "keys_per_user": 2, "ledger": ledger}
    keys = select_keys(trips(), schema(), "city", dataset="trips", **ask)
    assert keys.statement["private"] and keys.statement["ledger"]["dataset"] == "trips"
    (entry,) = ledger.entries("trips")
    assert entry["finished"] and entry["parts"] == entry["charged"] == [keys.statement["event"]]
    assert entry["steps"][0]["draws"] == 1 << 42  # as many values as there may be rows
    stated = {"epsilon": 0.3, "delta": 2e-7, "keys_per_user": 2, "unit": "who", "column": "city"}
    assert stated.items() <= keys.statement.items() and keys.statement["event"]["delta"] == 1e-7
    left = ledger.remaining("trips")
    assert left["keys_delta"] == pytest.approx(1e-7)
    spent = ledger.spent("trips")
    assert 0 < spent["epsilon"] <= 0.3
    with pytest.raises(BudgetError, match="delta of 1e-07 for keys"):
        select_keys(trips(), schema(), "city", dataset="trips", **(ask | {"delta": 4e-7}))
    with pytest.raises(BudgetError):
        select_keys(trips(), schema(), "city", dataset="no keys", **ask)
    fastdp.synthesize(
        trips(), "mst", 0.5, 1e-7, schema=keys.apply(schema()), ledger=ledger, dataset="trips"
    )
    assert spent["epsilon"] < ledger.spent("trips")["epsilon"] <= 1.0
    assert ledger.verify()["seq"] > 0


def test_errors_show_no_value(monkeypatch):
    def broken(*args):
        raise ValueError("secret")

    monkeypatch.setattr("fastdp.release.keyselect.count_keys", broken)
    with pytest.raises(fastdp.errors.PrivacyError) as error:
        select_keys(trips(), schema(), "city", epsilon=1.0, delta=1e-6, seed=1)
    assert "secret" not in str(error.value) and error.value.__cause__ is None


WRONG = {
    "column": ("nobody", "n"),
    "epsilon": (0.0, -1.0, math.inf, math.nan),
    "delta": (0.0, 1.0, math.nan),
    "keys_per_user": (0, 1.5, keyselect.MOST_KEYS_PER_USER + 1),
    "threshold_share": (0.0, 1.0, math.nan),
    "dataset": ("x",),
}


@pytest.mark.parametrize("name, value", [(name, value) for name in WRONG for value in WRONG[name]])
def test_bad_arguments_of_key_selection_are_refused(name, value):
    arguments = {"column": "city", "epsilon": 1.0, "delta": 1e-6} | {name: value}
    with pytest.raises(UsageError):
        select_keys(trips(), schema(), **arguments)
    if name == "keys_per_user":  # limits are inclusive
        for most in (1, keyselect.MOST_KEYS_PER_USER):
            assert select_keys(trips(), schema(), **arguments | {name: most}) is not None


def test_thresholds_in_the_accountant():
    events = [Threshold(0.5, 1e-7), Gaussian(0.5)]
    plain = accountant.spent([Gaussian(math.sqrt(0.5))], 9e-7)
    assert accountant.spent(events, 1e-6) == pytest.approx(plain, rel=1e-6)
    assert crosscheck.agree(events, 100.0, 1e-6)
    assert accountant.spent(events, 1e-7) == math.inf


@pytest.mark.parametrize("columns", [1, 3])
def test_the_draws_that_columns_may_need_are_allowed_to_the_last(monkeypatch, columns):
    most = keyselect.MOST_KEYS * columns
    for allowed, fine in ((most - 1, False), (most, True), (most + 1, True)):
        monkeypatch.setattr(keyselect, "allowed_draws", lambda epsilon, delta, n=allowed: n)
        with (
            contextlib.nullcontext()
            if fine
            else pytest.raises(PrivacyError, match="smaller epsilon")
        ):
            keyselect.check_draws(1.0, 1e-6, columns)


def private_schema(columns):
    found = {"kind": "string", "domain": "private"}
    plain = {"name": "t", "columns": {f"c{i}": found for i in range(columns)}}
    return Schema.from_dict(plain)


def test_each_column_of_values_may_take_two_selections():
    """What the first round did not find is looked for once more."""
    assert keyselect.most_selections(private_schema(3)) == 6
    atoms = {"kind": "numeric", "edges": [0, 9], "atoms": "private", "digits": 0}
    assert keyselect.most_selections(Schema.from_dict({"columns": {"x": atoms}})) == 1
    assert keyselect.most_selections(schema()) == 0


def test_a_data_set_without_draws_for_keys_is_refused_before_the_charge(tmp_path):
    """The data set's whole budget has a larger epsilon than the run, so fewer draws are left in it
    than the run may make by itself."""
    book = fastdp.Ledger(tmp_path / "budget.db")
    book.open("d", epsilon=38.0, delta=1e-5, keys=1e-6)
    table = pa.table({"c0": ["a", "b"] * 100})
    calls = (
        lambda: fastdp.synthesize(
            table,
            "mst",
            epsilon=1.0,
            delta=1e-6,
            schema=private_schema(1),
            ledger=book,
            dataset="d",
        ),
        lambda: select_keys(
            table, private_found(), "c0", epsilon=1.0, delta=1e-6, ledger=book, dataset="d"
        ),
    )
    for call in calls:
        with pytest.raises(BudgetError, match="Nothing was read or drawn"):
            call()
        assert not book.entries("d")


def private_found():
    return Schema.from_dict({"columns": {"c0": {"kind": "string", "values": ["?"]}}})


def test_a_count_at_the_threshold_is_not_kept(monkeypatch):
    """Larger ones are: what a user's values pass with probability delta at most is the strict
    comparison."""

    def count():
        return ["a", "b", "c"], np.array([3, 4, 5]) * SCALE

    monkeypatch.setattr(keyselect.noise, "gaussian", lambda width, n, seed: np.zeros(n, np.int64))
    text, users = keyselect._guarded(count, 1.0, 4 * SCALE, None)
    assert json.loads(text.tobytes()) == ["c"] and users.tolist() == [5.0]


@given(st.floats(1e-12, 0.5), st.floats(0, 0.999))
def test_noise_and_threshold_together_meet_delta(delta, share):
    left = keyselect.remaining_delta(delta, share * delta)
    lost = share * delta
    assert 0 <= Fraction(delta) - Fraction(lost) - Fraction(left) <= Fraction(1e-9 * delta)


def test_ties_between_values_are_those_that_a_database_computes():
    """The kernel-free sum of fifth powers against the slow twin of docs/explain/ties.md."""
    ids = [f"n{i}".encode() for i in range(40)]
    values = [f"v{i}".encode() for i in range(40)]
    users = [counting.id_hash(one) for one in ids]
    keys = [counting.id_hash(one) for one in values]
    numbers = key_counts._mix(np.array(users, np.uint64), np.array(keys, np.uint64))
    for user, key, number in zip(users, keys, numbers.tolist(), strict=True):
        words = [(key >> 32) % counting.PRIME, (key & 0xFFFFFFFF) % counting.PRIME]
        assert number == counting.tie_of_words(user, words)
