"""The chain of records: which may follow which, and what they add up to. No file is touched
here."""

import math

import pytest

from fastdp.errors import LedgerError
from fastdp.privacy import chain, sampler_distance as distance
from fastdp.privacy.accountant import Gaussian, Pure, Threshold
from fastdp.privacy.budget import Budget, Totals
from fastdp.privacy.chain import State, canonical, record_hash

USERS = {"kind": "user", "column": "who", "null": "drop"}


def plain(*events) -> list[dict]:
    return [e.to_dict() for e in events]


def opened(name="d", budget=None, **more) -> tuple[str, dict]:
    budget = Budget.of(epsilon=2.0, delta=1e-5) if budget is None else budget
    return "open", {"dataset": name, "budget": budget.to_dict(), **more}


def reserve(*parts, run="r", dataset="d", **more) -> tuple[str, dict]:
    body = {
        "run": run,
        "dataset": dataset,
        "plan": "p",
        "parts": plain(*parts),
        "nonce": "n",
        "unit": USERS,
    }
    return "reserve", body | {"draws": 1000} | more


def step(*events, run="r", part=0, number=0, **more) -> tuple[str, dict]:
    body = {
        "run": run,
        "part": part,
        "step": number,
        "digest": "q",
        "label": "x",
        "nonce": "n",
        "draws": 1,
    }
    return "step", body | {"events": plain(*events)} | more


def answer(run="r", part=0, number=0) -> tuple[str, dict]:
    return "answer", {
        "run": run,
        "part": part,
        "step": number,
        "arrays": [{"sha256": "0"}],
        "nonce": "n",
    }


def finish(run="r", **more) -> tuple[str, dict]:
    return "finish", {"run": run, "nonce": "n", **more}


def grown(*records, state=None) -> State:
    state = State("id") if state is None else state
    for kind, body in records:
        text = canonical(body)
        seq = state.seq + 1
        state.append(seq, kind, text, record_hash(state.hash, seq, kind, text))
    return state


def refused(*records, match) -> None:
    """The last record is refused, and leaves the state as it was; those before are taken."""
    state = grown(*records[:-1])
    before = (
        state.seq,
        state.hash,
        dict(state.totals),
        {n: len(r.steps) for n, r in state.runs.items()},
    )
    with pytest.raises(LedgerError, match=match):
        grown(records[-1], state=state)
    assert before == (
        state.seq,
        state.hash,
        dict(state.totals),
        {n: len(r.steps) for n, r in state.runs.items()},
    )


RUN = [opened(), reserve(Gaussian(0.3), Pure(0.2))]
SUMS = [opened(), reserve(Gaussian(0.3125), Pure(0.2)), step(Gaussian(0.1875))]
KEYS = [opened(budget=Budget.of(epsilon=1.0, delta=1e-5, keys=2e-6)), reserve(Threshold(0.1, 1e-6))]


@pytest.mark.parametrize(
    "records, match",
    [
        ([opened(), opened()], "already open"),
        ([opened(), reserve(Pure(0.1), dataset="other")], "has no data set"),
        ([*RUN, reserve(Pure(0.1))], "only once"),
        ([opened(), reserve()], "at least one part"),
        (
            [
                opened(),
                ("reserve", {k: v for k, v in reserve(Pure(0.1))[1].items() if k != "unit"}),
            ],
            "unit",
        ),
        ([*RUN, step(Gaussian(0.1), run="nobody")], "no run"),
        ([*RUN, step(Gaussian(0.1), part=2)], "no part 2"),
        ([*RUN, step(Gaussian(0.1), part=-1)], "no part -1"),
        ([*RUN, step(Gaussian(0.1), number=1)], "out of order"),
        ([*RUN, step(Gaussian(0.1)), step(Gaussian(0.1))], "out of order"),
        ([*RUN, step(Gaussian(0.1)), step(Pure(0.1), part=1, number=1)], "out of order"),
        ([*RUN, step()], "must have a charge"),
        ([*RUN, finish(), step(Gaussian(0.1))], "finished"),
        ([*RUN, finish(), finish()], "already finished"),
        ([*RUN, finish("nobody")], "no run"),
        ([*RUN, answer()], "belong to no step"),
        ([*RUN, step(Gaussian(0.1)), answer(), answer()], "belong to no step"),
        ([*RUN, step(Gaussian(0.1)), answer(part=1)], "belong to no step"),
        ([*RUN, answer("nobody")], "no run"),
        ([*RUN, step(Gaussian(0.1), draws=-1)], "how many numbers"),
        ([*RUN, step(Gaussian(0.1), draws=1.0)], "how many numbers"),
        ([*RUN, step(Gaussian(0.1), draws=True)], "how many numbers"),
        ([*RUN, step(Gaussian(0.1), draws=1001)], "exceeds its budget"),
        ([*RUN, step(Gaussian(0.30001))], "exceeds its budget"),
        ([*RUN, step(Gaussian(0.1), part=1)], "exceeds its budget"),
        ([*RUN, step(Pure(0.20001), part=1)], "exceeds its budget"),
        ([*RUN, step(Threshold(0.1, 1e-9))], "exceeds its budget"),
        ([*SUMS, step(Gaussian(0.2501), number=1)], "exceeds its budget"),
        ([*KEYS, step(Threshold(0.1, 1.1e-6))], "exceeds its budget"),
        ([*RUN, ("novelty", {})], "unknown kind"),
        ([*RUN, ("step", {"run": "r"})], "malformed"),
        ([*RUN, ("step", step(Gaussian(0.1))[1] | {"events": [{"law": "magic"}]})], "malformed"),
        ([*RUN, ("step", step(Gaussian(0.1))[1] | {"events": 7})], "malformed"),
        ([opened(unit="nonsense")], "malformed"),
        ([("open", {"dataset": "d", "budget": {"epsilon": -1.0, "delta": 0.0}})], "malformed"),
    ],
)
def test_records_that_may_not_come_next_are_refused(records, match):
    refused(*records, match=match)


@pytest.mark.parametrize(
    "records",
    [
        [*RUN, step(Gaussian(0.3))],
        [*RUN, step(Pure(0.2), part=1)],
        [*RUN, step(Gaussian(0.1), draws=1000)],
        [*RUN, step(Gaussian(0.1), draws=0)],
        [*RUN, step(Gaussian(0.1), draws=999), step(Gaussian(0.1), number=1, draws=1)],
        [*SUMS, step(Gaussian(0.25), number=1), step(*[Pure(0.1)] * 2, part=1)],
        [*KEYS, step(Threshold(0.1, 1e-6))],
        [opened(), reserve(Pure(2.0)), step(Pure(2.0))],
        [opened(), reserve(Pure(1.0)), reserve(Pure(1.0), run="s")],
    ],
)
def test_records_just_within_their_limits_are_taken(records):
    assert grown(*records).seq == len(records)


def test_reservations_add_up_and_give_back_what_was_not_entered():
    whole = [opened(), reserve(Pure(1.5))]
    refused(*whole, reserve(Pure(0.6), run="s"), match="exceeds its budget")
    state = grown(*whole, step(Pure(0.5)), finish())
    assert state.totals["d"] == Totals.of([Pure(0.5)])
    grown(reserve(Pure(1.5), run="s"), state=state)
    assert state.totals["d"].pure == 2
    with pytest.raises(LedgerError, match="exceeds its budget"):
        grown(reserve(Pure(1e-6), run="t"), state=state)


def test_groups_of_one_data_set_are_over_the_same_columns():
    first = [*RUN, step(Gaussian(0.1), group=["a"])]
    wider = "but this step protects one user's rows of one group over a, b; the two do not add up"
    refused(*first, step(Gaussian(0.1), number=1, group=["a", "b"]), match=wider)
    refused(
        *first,
        step(Gaussian(0.1), number=1, group=[]),
        match="this step protects one row; the two do not add up",
    )
    state = grown(*first, step(Gaussian(0.1), number=1, group=["a"]), step(Gaussian(0.1), number=2))
    assert state.groups == {"d": ("a",)} and state.runs["r"].steps[0, 2].group is None


def test_draws_are_counted_over_all_runs_of_a_data_set():
    """What the samplers' distance allows under the whole budget, and no more."""
    budget = Budget.of(epsilon=36.0, delta=1e-6)
    allowed = distance.allowed_draws(36.0, 1e-6)
    assert distance.FEWEST < allowed < distance.MOST
    most = allowed - distance.FEWEST
    first = [
        opened(budget=budget),
        reserve(Gaussian(0.1), draws=None),
        step(Gaussian(0.1), draws=most),
    ]
    state = grown(*first)
    assert state.draws_left("d") == distance.FEWEST
    grown(reserve(Gaussian(0.1), run="s"), state=state)
    refused(
        *first[:2],
        step(Gaussian(0.1), draws=most + 1),
        reserve(Gaussian(0.1), run="s"),
        match="random numbers",
    )
    refused(*first[:2], step(Gaussian(0.1), draws=allowed + 1), match="random numbers")
    assert grown(opened(budget=Budget.of(mu=1.0))).draws_left("d") == distance.MOST


def test_records_follow_each_other_without_gap_or_change():
    state = grown(opened())
    kind, body = reserve(Pure(0.1))
    text = canonical(body)
    right = record_hash(state.hash, 2, kind, text)
    for seq, hashed in (
        (3, right),
        (1, right),
        (2, record_hash(state.hash, 3, kind, text)),
        (2, "0" * 64),
    ):
        with pytest.raises(LedgerError, match=r"is damaged|was changed|is missing"):
            state.append(seq, kind, text, hashed)
    state.append(2, kind, text, right)
    assert state.hash == right and state.seq == 2


def test_every_part_of_a_record_is_in_its_hash():
    base = ("a" * 64, 3, "step", '{"x":1}')
    others = [
        ("b" * 64, *base[1:]),
        (base[0], 4, *base[2:]),
        (*base[:2], "open", base[3]),
        (*base[:3], '{"x":2}'),
    ]
    hashes = {record_hash(*record) for record in [base, *others]}
    assert len(hashes) == 5 and State("id").hash != State("other").hash


def test_canonical_json_has_one_form():
    assert canonical({"b": 1, "a": [1.5, None]}) == '{"a":[1.5,null],"b":1}'
    for bad in (math.nan, math.inf):
        with pytest.raises(ValueError, match="JSON compliant"):
            canonical({"a": bad})
    assert chain.digest({"a": 1}) == chain.digest({"a": 1}) != chain.digest({"a": 2})
