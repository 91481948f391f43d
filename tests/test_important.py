"""What the owner calls important: how it is read, and what it does to a run."""

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, strategies as st

import fastdp
from fastdp.cli.app import main
from fastdp.cli.option_values import important_of
from fastdp.division import USERS, share_for_weight
from fastdp.domain import Domain
from fastdp.errors import UsageError
from fastdp.important import STATED, Emphasis, Important
from fastdp.mechanisms.cliquetree import CliqueTree
from fastdp.mechanisms.shared.workload_weights import Workload
from fastdp.numbers.allocation import default_share, shares
from fastdp.run.number_options import number_options
from tests.builders import schema_with_users
from tests.mechanisms.growing import RowsSession, dependent_rows
from tests.mechanisms.test_cliquetree import run as grow

DOMAIN = Domain({"a": 4, "b": 3, "c": 5})


def test_weights_hold_for_what_contains_or_is_contained():
    stated = Important(columns={"a": 3.0}, pairs=(("b", "c"), ("a", "b")))
    named = stated.of_cliques(DOMAIN)
    assert named == {("a",): 3.0, ("b", "c"): STATED, ("a", "b"): STATED}
    weight = Emphasis({("a",): 3.0, ("b", "c"): 5.0}).weight
    found = {c: 5 * weight(frozenset(c)) for n in (1, 2, 3) for c in combinations("abc", n)}
    assert found == {
        ("a",): 3,
        ("b",): 5,
        ("c",): 5,
        ("a", "b"): 3,
        ("a", "c"): 3,
        ("b", "c"): 5,
        ("a", "b", "c"): 5,
    }
    assert Emphasis({("a",): 0.5}).weight(frozenset("b")) == 1  # others are 1 where it matters less


def test_nothing_stated_changes_no_weight():
    for workload in (Workload(DOMAIN), Workload(DOMAIN, [("a", "b")]), Workload(DOMAIN, (), "a")):
        other = Workload(DOMAIN, [*workload.items], None, Important().of_cliques(DOMAIN))
        assert [other.weight((a,)) for a in DOMAIN] == [workload.weight((a,)) for a in DOMAIN]


SCHEMA = fastdp.Schema.from_domain({"a": 4, "b": 3, "c": 5})
PEOPLE = schema_with_users({"a": 12, "b": 9, "c": 3}, "who", max_rows=20)


@pytest.mark.parametrize(
    ("stated", "text"),
    [
        ({"columns": ["x"]}, "no column 'x'"),
        ({"columns": {"a": 1000}}, "from 0.01 to 100"),
        ({"columns": ["a", "a"]}, "expected each once"),
        ({"pairs": [["a", "a"]]}, "expected two columns"),
        ({"pairs": [["a", "b"], ["b", "a"]]}, "is named twice"),
        ({"pairs": [["a", "b", "c"]]}, "length 2"),
        ({"users": 2}, "releases nothing about users"),
        ({"numbers": 2}, "asked for no numbers"),
        ({"sums": 2}, "unknown field .*; there are columns, pairs, numbers, users"),
    ],
)
def test_what_fits_nothing_is_refused_by_run_and_plan(stated, text):
    """Before anything is charged: the ledger stays as it was."""
    table = fastdp.Table.from_codes(SCHEMA, {a: np.zeros(9, int) for a in SCHEMA.domain})
    for call in (
        lambda: fastdp.plan(SCHEMA, "auto", 1.0, rows=1000, important=stated),
        lambda: fastdp.synthesize(table, "auto", 1.0, important=stated),
    ):
        with pytest.raises(UsageError, match=text):
            call()


def test_a_mechanism_that_weighs_nothing_says_so():
    with pytest.raises(UsageError, match="mechanisms that do: cliquetree"):
        fastdp.plan(SCHEMA, "mst", 1.0, rows=1000, important={"columns": ["a"]})
    fastdp.plan(PEOPLE, "mst", 1.0, rows=1000, users=90, numbers="count of users")


def test_a_pair_that_matters_is_measured_with_less_noise():
    """Its columns, too. The planted bug, weights that nothing reads, leaves the noise as it is."""
    domain, rows = dependent_rows(columns=7, keep=0.5)
    noise = {}
    for stated in (Important(), Important(pairs=(("c2", "c3"),))):
        session = RowsSession(domain, rows, mu=1.0)
        grow(session, important=stated)
        assert math.isclose(session.spent, 1.0, rel_tol=1e-9)
        best = {}
        for request in session.asked:
            best[request.clique] = max(request.mu, best.get(request.clique, 0.0))
        noise[bool(stated.pairs)] = best
    pair = next(c for c in noise[True] if set(c) == {"c2", "c3"})
    assert noise[True][pair] > 1.2 * noise[False][pair]
    assert noise[True]["c2",] > 1.1 * noise[False]["c2",]
    assert noise[True]["c0",] < noise[False]["c0",]


def test_ones_of_a_column_get_the_portion_of_its_weight():
    domain = Domain(dict.fromkeys("abcd", 6))
    lines = CliqueTree(important=Important(columns={"b": 8.0})).outline(domain).lines("1-ways")
    share = {line.clique: line.share for line in lines}
    assert math.isclose(share["b",] / share["a",], 4.0)


TEXTS = ["count of users where rows > 2", "sum(rows)"]


@given(st.floats(0.02, 50), st.floats(0.02, 50))
def test_numbers_get_more_by_the_root_of_their_weight(weight, other):
    """A weight that all share leaves the division among them as it is."""
    plain = number_options([TEXTS[0], "share of users where rows > 3"])
    typed = plain.typed(PEOPLE)
    stated = plain.weighed(Important(numbers={plain.questions[0]: weight})).typed(PEOPLE)
    both = plain.weighed(Important(numbers=other)).typed(PEOPLE)
    assert [n.weight for n in stated] == [weight, 1.0] and both[0].weight == other
    declared = plain.declared(typed)
    before, moved, even = (shares(t, declared, 1e4, 0.5).numbers for t in (typed, stated, both))
    ratio = moved[0] / moved[1] / (before[0] / before[1])
    assert ratio == pytest.approx(math.sqrt(weight), rel=0.02)  # shares are rounded to 1 / 4096
    assert even == pytest.approx(before, abs=2e-3)
    least = min(default_share(typed), default_share(both))
    assert (default_share(both) > least) <= (other > 1)


def test_users_that_matter_are_released_with_their_raised_shares(tmp_path):
    """The ledger has them; all of the budget is spent, and the folder verifies."""
    rng = np.random.default_rng(1)
    who = np.repeat(np.arange(300), rng.integers(1, 9, 300))
    shop = rng.integers(0, 12, 300)[who]
    codes = {"a": shop, "b": rng.integers(0, 9, who.size), "c": rng.integers(0, 3, who.size)}
    table = fastdp.Table.from_codes(PEOPLE, codes, user=who)
    out = tmp_path / "run"
    stated = {"users": 3.0, "columns": {"b": 2.0}}
    made = fastdp.synthesize(
        table, "auto", 4.0, 1e-6, important=stated, seed=1, sample_seed=1, out=out
    )
    lines = made.privacy["parts"][0]["releases"]
    share = {r["label"]: r["event"]["mu"] ** 2 / made.privacy["mu"] ** 2 for r in lines}
    whole = math.fsum(USERS.values())
    more = share_for_weight(whole, 3.0) / whole
    assert more > 1.5
    for what in ("number of rows", "rows without a user id"):
        assert share[what] == pytest.approx(more * USERS[what], rel=1e-6)
    spent = sum(r["event"]["mu"] ** 2 for r in lines)
    assert spent == pytest.approx(made.privacy["mu"] ** 2, rel=1e-6)
    assert fastdp.verify(out).ok
    config = made.privacy["mechanism"]["config"]
    assert config["important"] | stated == config["important"]
    plan = fastdp.plan(PEOPLE, "auto", 4.0, 1e-6, rows=1500, important=stated)
    planned = {part.what: part for part in plan.division}
    assert planned["number of rows"].share == pytest.approx(share["number of rows"], rel=1e-6)
    assert "matters 3 times as much" in planned["number of rows"].why
    assert "b (2 times)" in str(plan)


def test_the_command_line_reads_what_matters():
    read = important_of(["a=3", "b, c=5", "users=2", f"{TEXTS[0]}", "c"], TEXTS)
    assert read == {
        "columns": {"a": 3.0, "c": STATED},
        "pairs": [{"columns": ["b", "c"], "weight": 5.0}],
        "numbers": {TEXTS[0]: STATED},
        "users": 2.0,
    }
    assert important_of(None, None) is None
    assert important_of(["share of users where any(a = 1)=2"], ["share of users where any(a = 1)"])[
        "numbers"
    ] == {"share of users where any(a = 1)": 2.0}
    for texts in (["a=much"], ["a=1", "a=2"], ["numbers=2", f"{TEXTS[0]}=2"]):
        with pytest.raises(UsageError, match="--important"):
            important_of(texts, TEXTS)


def test_the_command_line_shows_the_division(tmp_path, capsys):
    file = tmp_path / "schema.json"
    SCHEMA.save(file)
    arguments = ["plan", "-s", str(file), "-e", "1", "--rows", "9000", "--important", "a,b=9"]
    main(arguments)
    shown = capsys.readouterr().out
    assert "how the budget is divided" in shown and "a and b (9 times)" in shown
