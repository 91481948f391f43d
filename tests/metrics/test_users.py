"""The metric `users`: figures worked out by hand, its range, and where it applies."""

import numpy as np
import pyarrow as pa
import pytest

import fastdp

SCHEMA = fastdp.Schema.from_domain({"a": 4, "b": 4}, user="who")
# Users 1 and 2 have one value of a; user 3 agrees in one of three pairs; user 4, with one row, has no pairs.
TRUTH = pa.table(
    {
        "who": [1, 1, 2, 2, 3, 3, 3, 4],
        "a": [0, 0, 1, 1, 2, 2, 3, 0],
        "b": [0, 1, 0, 1, 0, 1, 2, 3],
    }
)


def users(truth, made, **options):
    return fastdp.evaluate(truth, made, SCHEMA, metrics="users", **options)["users"]


def test_figures_of_a_small_table():
    same = users(TRUTH, TRUTH)
    assert same["rows"] == same["agreement"] == same["constant"] == same["distinct"] == 0
    a, b = (same["columns"][name]["truth"] for name in "ab")
    assert a["agreement"] == pytest.approx((1 + 1 + 1 / 3) / 3) and b["agreement"] == 0
    assert a["constant"] == pytest.approx(2 / 3) and b["constant"] == 0
    assert a["distinct"] == pytest.approx(4 / 3) and b["distinct"] == pytest.approx(7 / 3)
    assert same["rows_per_user"]["truth"]["users"] == 4 and same["rows_per_user"]["truth"]["max"] == 3


def test_differences_are_those_of_the_figures():
    """Ids dealt anew, so that user 1 has a = 0, 1 and user 2 has a = 0, 1: agreement of a falls by 2/3."""
    dealt = TRUTH.set_column(0, "who", pa.array([1, 2, 1, 2, 3, 3, 3, 4]))
    scores = users(TRUTH, dealt)
    assert scores["agreement"] == pytest.approx((2 / 3 + 2 / 3) / 2)  # a falls, b rises
    assert scores["constant"] == pytest.approx((2 / 3 + 2 / 3) / 2) and scores["rows"] == 0
    one = TRUTH.set_column(0, "who", pa.array(np.zeros(8, np.int64)))
    assert users(TRUTH, one)["rows"] == 1.0


def test_it_applies_where_both_tables_have_users():
    without = TRUTH.drop_columns(["who"])
    every = fastdp.evaluate(TRUTH, TRUTH, SCHEMA, metrics="all", marginals=5)
    assert "users" in every
    assert "users" not in fastdp.evaluate(TRUTH, without, SCHEMA, metrics="users")
    assert "users" not in fastdp.evaluate(TRUTH, TRUTH, metrics="users")  # nobody says whose rows they are
    texts = TRUTH.set_column(0, "who", pa.array([f"synthetic-{i}" for i in range(8)]))
    assert users(TRUTH, texts)["rows_per_user"]["synthetic"]["users"] == 8


def test_a_page_shows_it(tmp_path):
    fastdp.evaluate(TRUTH, TRUTH, SCHEMA, report=tmp_path / "r.html", marginals=5)
    assert "agreement of users" in (tmp_path / "r.html").read_text("utf-8")
