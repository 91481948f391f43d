"""What a plan says of any mechanism: its noise and its charges cost the budget, no more and no less."""

import math
from itertools import pairwise

import pytest

import fastdp
from fastdp import mechanisms

SIZES = {"a": 4, "b": 5, "c": 2, "d": 10}
CLIP, CAP = 5, 3
FIELDS = {
    "archetypes": {"features": ["a", "b"], "trait": "c"},
    "usercounts": {"noise": "gaussian", "cap": CAP},
}
CASES = [
    *((name, FIELDS.get(name, {})) for name in mechanisms.names()),
    ("adagrid", {"outer": [["a", "b"], ["b", "c", "d"]], "copies": [{"clique": ["a", "b"], "times": 3}]}),
    ("archetypes", {**FIELDS["archetypes"], "refine": {"share": 0.4}}),
    ("archetypes", {"features": ["a"], "refine": {"share": 0.4, "measured": [["a", "b"], ["d"]]}}),
    ("cliquetree", {"workload": [["a", "b"], ["b", "c", "d"]]}),
    ("cliquetree", {"screening_rounds": 1}),
    ("tworound", {"round2": [["a", "b"], {"clique": ["c", "d"], "weight": 3}], "weights": {"a": 2}}),
    ("usercounts", {**FIELDS["usercounts"], "method": "hierarchy"}),
]


def planned(name, fields, epsilon, public=None, delta=1e-6):
    columns = {
        n: {"kind": "integer", "max": k - 1, "null": "drop", "overflow": "drop"} for n, k in SIZES.items()
    }
    schema = fastdp.Schema.from_dict({"columns": columns, "user": {"column": "who", "max_rows": 6}})
    fixed = {} if name == "usercounts" else {"clip": CLIP}
    public = name == "archetypes" if public is None else public
    return fastdp.plan(
        schema, {"mechanism": name, **fixed, **fields}, epsilon, delta, public=public, rows=10_000_000
    )


@pytest.mark.parametrize("name, fields", CASES)
@pytest.mark.parametrize("public", [None, True])
@pytest.mark.parametrize("epsilon", [0.2, 8.0])
def test_noise_and_charges_of_a_plan_cost_its_budget(name, fields, public, epsilon):
    """A line of noise sigma costs (sensitivity / sigma)^2 (of sets to be chosen: each; of copies of one set:
    sigma is that of their mean), a charge its share: together mu^2. One user moves a marginal by the clip, a
    histogram of users by the square root of the cap."""
    made = planned(name, fields, epsilon, public)
    moved = math.sqrt(CAP) if name == "usercounts" else CLIP
    times = [1 if set(line.clique) <= set(SIZES) else line.times for line in made.lines]
    cost = math.fsum(n * (moved / line.sigma) ** 2 for n, line in zip(times, made.lines, strict=True))
    shares = [share for _, share in made.charges]
    assert min(shares, default=1) > 0
    assert cost + made.mu**2 * math.fsum(shares) == pytest.approx(made.mu**2, rel=1e-9)


@pytest.mark.parametrize("name, fields", CASES)
def test_a_larger_epsilon_or_delta_never_adds_noise(name, fields):
    plans = [
        planned(name, fields, e, delta=d) for e, d in ((0.5, 1e-9), (0.5, 1e-6), (1.0, 1e-6), (4.0, 1e-6))
    ]
    for less, more in pairwise(plans):
        assert less.mu < more.mu and [ln.clique for ln in less.lines] == [ln.clique for ln in more.lines]
        assert all(a.sigma > b.sigma for a, b in zip(less.lines, more.lines, strict=True))
