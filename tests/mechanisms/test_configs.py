"""Every mechanism's config: unknown fields are refused wherever they stand, and so are values
beyond limits; by what clips are compared."""

import math
from itertools import combinations, pairwise, product

import msgspec
import pytest

import fastdp
from fastdp import mechanisms
from fastdp.domain import Domain
from fastdp.errors import UsageError
from fastdp.mechanisms import adagrid, names, recipe, registry
from fastdp.mechanisms.adagrid import AdaGrid, Copy
from fastdp.mechanisms.aim import AIM
from fastdp.mechanisms.archetypes import Archetypes, Refine
from fastdp.mechanisms.base import Ids
from fastdp.mechanisms.cliquetree import CliqueTree
from fastdp.mechanisms.mst import MST
from fastdp.mechanisms.shared.workload_weights import WorkloadItem
from fastdp.mechanisms.tworound import Marginal as TwoRoundMarginal, TwoRound
from fastdp.mechanisms.tworound.region import Region
from fastdp.mechanisms.usercounts.mechanism import Total, UserCounts


def structs_of(kind, structs=None) -> set[type]:
    """The config's class and every struct its fields can hold."""
    structs = set() if structs is None else structs
    for part in walk(kind):
        if isinstance(part, type) and issubclass(part, msgspec.Struct) and part not in structs:
            structs.add(part)
            for field in msgspec.structs.fields(part):
                structs_of(field.type, structs)
    return structs


def walk(kind):
    yield kind
    for part in getattr(kind, "__args__", ()):
        yield from walk(part)


@pytest.mark.parametrize("name", mechanisms.names())
def test_no_struct_of_a_config_takes_unknown_fields(name):
    kinds = structs_of(mechanisms.get(name))
    assert mechanisms.get(name) in kinds
    for kind in kinds:
        assert kind.__struct_config__.forbid_unknown_fields, (
            f"{kind.__name__} lets a misspelt field pass"
        )
        assert kind.__struct_config__.frozen


JUST_ABOVE_0 = 1e-9
JUST_BELOW_1 = math.nextafter(1, 0)
INSIDE = ([JUST_ABOVE_0, 0.5, JUST_BELOW_1], [0.0, -0.1, 1.0, 1.5, math.nan])
NOT_NEGATIVE = ([0.0, 0.5, 1e9], [-JUST_ABOVE_0, -1.0, math.nan])
AT_LEAST_1 = ([1, 2, 1 << 40], [0, -1])
BAD_EDGES = [{"b": (0, 1)}, {"a": ()}, {"a": (1, 2)}, {"a": (0, 2, 2)}, {"a": (0, 3, 1)}]
LIMITS = [
    (Ids, "share", {}, INSIDE),
    (MST, "rare", {}, NOT_NEGATIVE),
    (MST, "max_cells", {}, AT_LEAST_1),
    (MST, "clip", {}, ([1, 2, "private", None], [0, -1, "public"])),
    (MST, "clip_share", {"clip": "private"}, INSIDE),
    (MST, "clip_share", {"clip": 5}, ([None], [0.1])),
    (AdaGrid, "threshold", {}, NOT_NEGATIVE),
    (AdaGrid, "selection", {}, ([1e-6, 0.5, 1 - 2**-53], [0.0, 1e-7, 1.0])),
    (AdaGrid, "outer", {}, ([None, (("a",),)], [()])),
    (Copy, "times", {"clique": ("a",)}, ([1, 1000], [0, -1, 1001])),
    (AIM, "selection", {}, INSIDE),
    (AIM, "rare", {}, NOT_NEGATIVE),
    (AIM, "degree", {}, ([None, 1, 6], [0, -1, 7])),
    (AIM, "rounds", {}, ([None, 1, 2, 1 << 14], [0, -1, (1 << 14) + 1])),
    (CliqueTree, "screening_rounds", {}, ([1, 2, 3, 9, 10], [0, -1, 11])),
    (CliqueTree, "rare", {}, NOT_NEGATIVE),
    (TwoRound, "threshold", {}, NOT_NEGATIVE),
    (TwoRound, "selection", {}, INSIDE),
    (TwoRound, "max_marginal", {}, AT_LEAST_1),
    (
        TwoRoundMarginal,
        "weight",
        {"clique": ("a",)},
        ([JUST_ABOVE_0, 2.0], [0.0, -1.0, math.inf, math.nan]),
    ),
    (
        TwoRoundMarginal,
        "edges",
        {"clique": ("a",)},
        ([{}, {"a": (0,)}, {"a": (0, 1, 5)}], BAD_EDGES),
    ),
    (CliqueTree, "deadline", {}, ([None, JUST_ABOVE_0, 1e9], [0.0, -1.0, math.inf, math.nan])),
    (CliqueTree, "memory", {}, ([None, 1 << 24], [(1 << 24) - 1, 0])),
    (Archetypes, "share", {}, INSIDE),
    (Archetypes, "max_rows", {}, AT_LEAST_1),
    (Archetypes, "clip_share", {}, ([None], [0.1])),
    (Refine, "share", {}, INSIDE),
    (
        Total,
        "share",
        {"columns": ("a",)},
        ([0.0, 0.5, JUST_BELOW_1], [-JUST_ABOVE_0, 1.0, math.nan]),
    ),
    (UserCounts, "cap", {}, AT_LEAST_1),
    (UserCounts, "months", {}, ([0, 1], [-1])),
    (UserCounts, "repeats", {}, ([(1,), (2, 5)], [(), (0,), (1, 0)])),
    (UserCounts, "t_max", {"repeats": (1, 4)}, ([None, 4, 5], [3])),
    (UserCounts, "false_presence", {}, INSIDE),
    (UserCounts, "presence", {}, ([0.0, 0.5, JUST_BELOW_1], [-JUST_ABOVE_0, 1.0, math.nan])),
    (
        Archetypes,
        "calibration",
        {"refine": Refine()},
        (["gdp", "classic-rdp"], ["classic-gaussian"]),
    ),
    (Refine, "ways", {}, AT_LEAST_1),
    (Refine, "measured", {}, ([None, (("a",),)], [()])),
    (
        WorkloadItem,
        "weight",
        {"columns": ("a",)},
        ([JUST_ABOVE_0, 2.0], [0.0, -1.0, math.inf, math.nan]),
    ),
    (WorkloadItem, "columns", {}, ([("a",), ("a", "b")], [(), ("a", "a"), ("a", "b", "a")])),
    (Region, "groups", {"column": "a"}, ([{"x": (1,)}], [{}, {"x": ()}, {"x": (1,), "y": ()}])),
]


@pytest.mark.parametrize(
    "kind, field, others, values", LIMITS, ids=lambda x: getattr(x, "__name__", None)
)
def test_a_field_takes_what_its_limits_allow_and_nothing_beyond(kind, field, others, values):
    taken, refused = values
    for value in taken:
        assert getattr(kind(**others, **{field: value}), field) == value
    for value in refused:
        with pytest.raises(ValueError):
            kind(**others, **{field: value})


@pytest.mark.parametrize(
    "kind, field", [(MST, "shares"), (TwoRound, "shares"), (AdaGrid, "rounds")]
)
def test_every_one_of_several_shares_is_positive(kind, field):
    length = 2 if kind is TwoRound else 3
    kind(**{field: (JUST_ABOVE_0,) * length})
    for place, wrong in product(range(length), (0.0, -1.0, math.nan)):
        with pytest.raises(ValueError, match=r"positive|must be between"):
            kind(**{field: tuple(wrong if i == place else 1.0 for i in range(length))})
    if kind is AdaGrid:
        with pytest.raises(ValueError, match=r"positive|must be between"):
            kind(rounds=())
    if kind is TwoRound:
        with pytest.raises(ValueError, match=r"positive|must be between"):
            kind(weights={"a": 1.0, "b": 0.0})


def test_what_a_mechanism_cannot_do_is_no_setting_of_it():
    for name in mechanisms.names():
        kind = mechanisms.get(name)
        if kind.traits.may_choose_clip:
            assert kind(clip="private").clip == "private"
        else:
            with pytest.raises(ValueError, match="cannot choose it"):
                kind(clip="private")


def test_lists_of_mechanisms_come_from_the_registry():
    assert registry.DEFAULT in registry.names()
    keeping = registry.names_where(lambda traits: not traits.no_constraints)
    assert {"mst", "cliquetree"} <= set(keeping) < set(registry.names())
    with pytest.raises(
        UsageError, match=r"mst has no field 'deadline'; mechanisms that have it: aim, cliquetree"
    ):
        recipe.load("mst").with_limits(deadline=3.0)


# What a plan says of any mechanism: its noise and its charges cost the budget, no more and no less.


SIZES = {"a": 4, "b": 5, "c": 2, "d": 10}
CLIP = 5
CAP = 3
FIELDS = {
    "archetypes": {"features": ["a", "b"], "trait": "c"},
    "usercounts": {"noise": "gaussian", "cap": CAP},
}
SHIPPED = frozenset("adagrid aim archetypes cliquetree mst tworound usercounts".split())
"""What a test says of one of these by name, it does not say of a mechanism that is added."""
CASES = [
    *((name, FIELDS.get(name, {})) for name in mechanisms.names()),
    (
        "adagrid",
        {"outer": [["a", "b"], ["b", "c", "d"]], "copies": [{"clique": ["a", "b"], "times": 3}]},
    ),
    ("archetypes", {**FIELDS["archetypes"], "refine": {"share": 0.4}}),
    ("archetypes", {"features": ["a"], "refine": {"share": 0.4, "measured": [["a", "b"], ["d"]]}}),
    ("cliquetree", {"workload": [["a", "b"], ["b", "c", "d"]]}),
    ("cliquetree", {"screening_rounds": 1}),
    (
        "tworound",
        {"round2": [["a", "b"], {"clique": ["c", "d"], "weight": 3}], "weights": {"a": 2}},
    ),
    ("usercounts", {**FIELDS["usercounts"], "method": "hierarchy"}),
]


def planned(name, fields, epsilon, public=None, delta=1e-6):
    columns = {
        n: {"kind": "integer", "max": k - 1, "null": "drop", "overflow": "drop"}
        for n, k in SIZES.items()
    }
    schema = fastdp.Schema.from_dict({"columns": columns, "user": {"column": "who", "max_rows": 6}})
    fixed = {} if name == "usercounts" else {"clip": CLIP}
    public = name == "archetypes" if public is None else public
    return fastdp.plan(
        schema,
        {"mechanism": name, **fixed, **fields},
        epsilon,
        delta,
        public=public,
        rows=10_000_000,
    )


@pytest.mark.parametrize("name, fields", CASES)
@pytest.mark.parametrize("public", [None, True])
@pytest.mark.parametrize("epsilon", [0.2, 8.0])
def test_noise_and_charges_of_a_plan_cost_its_budget(name, fields, public, epsilon):
    """A line of noise sigma costs (sensitivity / sigma)^2 (of sets to be chosen: each; of copies of
    one set: sigma is that of their mean), a charge its share: together mu^2. One user moves a
    marginal by the clip, a histogram of users by the square root of the cap."""
    made = planned(name, fields, epsilon, public)
    moved = math.sqrt(CAP) if name == "usercounts" else CLIP
    times = [1 if set(line.clique) <= set(SIZES) else line.times for line in made.lines]
    cost = math.fsum(
        n * (moved / line.sigma) ** 2 for n, line in zip(times, made.lines, strict=True)
    )
    shares = [share for _, share in made.charges]
    assert min(shares, default=1) > 0
    assert cost + made.mu**2 * math.fsum(shares) == pytest.approx(made.mu**2, rel=1e-9)


@pytest.mark.parametrize("name, fields", CASES)
@pytest.mark.parametrize("public, user", list(product([False, True], repeat=2)))
def test_an_outline_divides_the_budget_over_tables_of_any_width(name, fields, public, user):
    """All of it and no more; every line has its set's cells, those of sets to be chosen those of
    the two largest columns. Clips are compared by the same lines, with pairs of all sizes for sets
    to be chosen."""
    ways = {"public": public, "user": user}
    for width in (1, 2, 4) if fields == FIELDS.get(name, {}) and name != "archetypes" else (4,):
        domain = Domain(dict(list(SIZES.items())[-width:]))
        config = recipe.load({"mechanism": name, **fields}).config(1.0)
        made = config.outline(domain, **ways)
        shares = [share for _, share in made.charges]
        spent = sum(p.share * p.times for p in made.measurements) + sum(shares)
        assert spent == pytest.approx(1.0)
        assert all(p.share > 0 and p.times > 0 for p in made.measurements) and all(
            s > 0 for s in shares
        )
        known = [p for p in made.measurements if set(p.clique) <= set(domain)]
        each_t = getattr(config, "largest_t", 1)  # users are counted by group and T
        assert all(p.averaged and p.cells == domain.cells(p.clique) * each_t for p in known)
        any_set = next((p for p in made.measurements if p not in known), None)
        largest = sorted(domain.values())
        assert any_set is None or (
            any_set.cells == math.prod(largest[-2:]) and not any_set.averaged
        )
        if name in SHIPPED:
            chooses = (name in ("mst", "cliquetree") and width > 1) or name == "aim"
            assert (any_set is not None) == chooses
        pairs = sorted(domain.cells(p) for p in combinations(domain, 2))
        criteria = list(config.clip_criteria(domain, **ways))
        stand_ins = [p for p in criteria if p.clique == ("any", "pair")]
        if stand_ins:
            assert {p.cells for p in stand_ins} == set(pairs)
            shared = {
                "round 2, a spanning tree of pairs": width - 1,
                "marginals of the chosen sets": 2 * width - 1,
            }
            each = [share / shared[what] for what, share in made.charges if what in shared]
            (share,) = {p.share for p in stand_ins}
            assert share == pytest.approx(*(each or [any_set.share]))
        if not public and user:
            assert made == config.outline(domain) and config.clip_criteria(domain) == criteria
        if public and "outer" not in fields and name in SHIPPED - {"aim"}:
            told = name != "tworound" and (width > 1 or name not in ("cliquetree", "mst"))
            assert (made.notes != config.outline(domain, public=False, user=user).notes) == told


@pytest.mark.parametrize("method, epsilon", list(product(["clip", "hierarchy"], [0.2, 8.0])))
def test_laplace_noise_of_a_plan_costs_its_epsilon(method, epsilon):
    """Discrete Laplace noise of scale b has variance 1 / (cosh(1 / b) - 1), and costs cap / b."""
    made = planned(
        "usercounts", {"noise": "laplace", "cap": CAP, "method": method}, epsilon, delta=0.0
    )
    cost = math.fsum(CAP * math.acosh(1 + line.sigma**-2) for line in made.lines)
    assert cost + epsilon * sum(share for _, share in made.charges) == pytest.approx(
        epsilon, rel=1e-9
    )


@pytest.mark.parametrize("name, fields", CASES)
def test_a_larger_epsilon_or_delta_never_adds_noise(name, fields):
    plans = [
        planned(name, fields, e, delta=d)
        for e, d in ((0.5, 1e-9), (0.5, 1e-6), (1.0, 1e-6), (4.0, 1e-6))
    ]
    for less, more in pairwise(plans):
        assert less.mu < more.mu and [ln.clique for ln in less.lines] == [
            ln.clique for ln in more.lines
        ]
        assert all(a.sigma > b.sigma for a, b in zip(less.lines, more.lines, strict=True))


# Recipes: where they come from, fields that depend on epsilon, errors that name the field.


CLIP_STEPS = [{"up_to": 1, "value": 150}, {"up_to": 5, "value": 180}, {"value": 200}]


def test_a_field_may_depend_on_epsilon_also_deep_inside():
    made = recipe.load({"mechanism": "adagrid", "outer": [["a", "b"]], "clip": CLIP_STEPS})
    assert [made.config(e).clip for e in (0.1, 1, 1.01, 5, 6)] == [150, 150, 180, 180, 200]
    copies = [{"clique": ["a", "b"], "times": [{"up_to": 1, "value": 8}, {"value": 2}]}]
    made = recipe.load({"mechanism": "adagrid", "outer": [["a", "b"]], "copies": copies})
    assert made.config(1).copies[0].times == 8
    assert made.config(2).copies[0].times == 2


@pytest.mark.parametrize(
    "steps",
    [
        [{"up_to": 1, "value": 1}],
        [{"value": 1}, {"value": 2}],
        [{"up_to": 2, "value": 1}, {"up_to": 1, "value": 1}, {"value": 2}],
        [{"up_to": "x", "value": 1}, {"value": 2}],
    ],
)
def test_malformed_steps_are_refused(steps):
    with pytest.raises(UsageError, match="clip"):
        recipe.load({"mechanism": "adagrid", "clip": steps}).config(1.0)


def test_a_path_is_read_and_its_schema_found_beside_it(tmp_path):
    (tmp_path / "s.toml").write_text("")
    (tmp_path / "r.toml").write_text('mechanism = "mst"\nschema = "s.toml"\nrare = 2.0\n')
    made = recipe.load(tmp_path / "r.toml")
    assert made.schema == str(tmp_path / "s.toml")
    assert made.config(1.0).rare == 2.0


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("mechanism = ", "not TOML"),
        ("clip = 3", "mechanism ="),
        ('mechanism = "nope"', "choose one of"),
        ('mechanism = "mst"\nschema = 3', "schema"),
    ],
)
def test_bad_files_are_usage_errors(tmp_path, text, match):
    (tmp_path / "r.toml").write_text(text)
    with pytest.raises(UsageError, match=match):
        recipe.load(tmp_path / "r.toml")


def test_recipes_come_as_config_objects_too():
    assert "adagrid" in names()
    config = adagrid.AdaGrid(outer=(("a", "b"),), clip=7)
    assert recipe.load(config).config(1.0) == config
    assert recipe.load(recipe.load(config)) == recipe.load(config)
