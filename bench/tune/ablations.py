"""What can be switched off, one at a time: heuristics, and constants set to a neutral value.

An ablation names what it replaces by its path below `fastdp`. The replacement is a value, or a
function with the arguments of what it replaces. `switched_off` puts it in place for a while.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field
from functools import cache
from types import ModuleType
from typing import Any

from msgspec.structs import replace

from fastdp.significance import threshold

from . import before, tried

TREE = "mechanisms.cliquetree"
SHARED = "mechanisms.shared"


@dataclass(frozen=True)
class Ablation:
    """about: what is left out. suite: where it is measured (`suites`). change: path -> value, or a
    function. around: path -> a function of what was there that gives what replaces it. options: of
    the mechanism's recipe. about_also: constants that it is about, though it replaces something else."""

    name: str
    about: str
    suite: str = "rows"
    change: Mapping[str, Any] = field(default_factory=dict)
    around: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    about_also: tuple[str, ...] = ()

    @property
    def paths(self) -> tuple[str, ...]:
        """What it replaces; of an option of the recipe, its name."""
        return (*self.change, *self.around, *(f"option {name}" for name in self.options))


def nothing(value: Any) -> Callable[..., Any]:
    """A function that gives this value, whatever it is asked: a new one each time, since callers may
    add to it."""
    return lambda *arguments, **named: copy(value)


def first_as_list(first: Any, *others: Any, **named: Any) -> list:
    """The first argument as it is."""
    return list(first)


def least_squares_only(denoise: Callable) -> Callable:
    """Tables that follow the answers alone: no candidates are mixed."""
    return lambda dual, bound=0.0, candidates=(): denoise(dual, bound, ((12.0, 1.0),))


def no_empty_cells(denoise: Callable) -> Callable:
    """Without the candidates that expect most cells to be empty."""

    def kept(dual, bound=0.0, candidates=None):
        given = inspect.signature(denoise).parameters["candidates"].default
        chosen = given if candidates is None else candidates
        return denoise(dual, bound, tuple(c for c in chosen if c[1] == 1.0))

    return kept


def even_division(table: Any, share: float) -> tuple[float, ...]:
    """Columns, pairs and triples get the same, if triples are measured."""
    return (1 / 3, 1 / 3, 1 / 3) if table.triples is not None else (1 / 2, 1 / 2, 0.0)


def gain_of(candidate: Any, table: Any, sigma: float, total: float) -> float:
    """A candidate's gain, as if every deviation were found."""
    return candidate.gain(sigma)


def nothing_open(shares: Callable) -> Callable:
    """1-ways are not measured a third time: what is open goes to the batches."""

    def divided(*arguments, **named):
        plan = shares(*arguments, **named)
        return plan.decided(1.0) if plan.batches else plan

    return divided


def hardly_any_distances(shares: Callable) -> Callable:
    """Distances of the finished model get next to nothing."""
    return lambda *arguments, **named: replace(shares(*arguments, **named), final=1e-6)


ROWS = (
    Ablation("trends", "trends of pairs that are not measured", change={"division.TRENDS": 0.0}),
    Ablation(
        "sums of pairs",
        "sums over three groups of measured pairs, in the last fit",
        change={f"{TREE}.trends.summed": nothing([])},
    ),
    Ablation(
        "steering",
        "rows exchanged for trends that the model cannot hold",
        change={f"{TREE}.trends.drawn_to_zero": nothing({})},
    ),
    Ablation(
        "shrunk trends",
        "trends drawn towards what the model has",
        change={
            f"{TREE}.trends.drawn_to_zero": lambda lacks: {p: v for p, (v, _) in lacks.items()}
        },
    ),
    Ablation(
        "groups of codes",
        "pairs over groups of neighbouring codes",
        change={f"{TREE}.resolutions.group_maps": nothing({})},
    ),
    Ablation(
        "LEAST_PER_CELL",
        "groups wherever a cell has less than a row",
        change={f"{TREE}.tree_state.LEAST_PER_CELL": 0.0},
    ),
    Ablation(
        "explained by others",
        "candidates that others explain are not measured",
        change={f"{SHARED}.screening.unexplained": first_as_list},
    ),
    Ablation(
        "CHEAP",
        "cheap candidates are measured although others explain them",
        change={f"{TREE}.tree_state.CHEAP": 0.0},
    ),
    Ablation(
        "hidden factors",
        "dense tables",
        change={f"{TREE}.dense_tables.decided": nothing((None, 0.0))},
    ),
    Ablation(
        "hidden classes",
        "dense tables without an order",
        change={f"{TREE}.dense_tables.by_classes": nothing((None, 0.0))},
    ),
    Ablation(
        "ties",
        "columns of dense tables that are tied to each other",
        change={f"{TREE}.dense_tables.DenseTable.tie": nothing(None)},
    ),
    Ablation(
        "learnt errors",
        "what answers miss, by released distances",
        change={f"{TREE}.tree_state.CliqueTreeState.learn": nothing(None)},
    ),
    Ablation(
        "contrasts",
        "contrasts of columns of two values",
        change={f"{TREE}.two_valued.names_of": nothing([])},
    ),
    Ablation(
        "first look",
        "first contrasts decide how the others are divided",
        change={f"{TREE}.two_valued.TwoValuedTable.division": even_division},
    ),
    Ablation(
        "factors of pairs",
        "factors of the contrasts of pairs",
        change={f"{TREE}.two_valued.Contrasts.risk": nothing(0.0)},
    ),
    Ablation(
        "shrunk 1-ways",
        "1-ways by what their counts are on average",
        change={f"{SHARED}.merged_codes.expected_counts": first_as_list},
    ),
    Ablation(
        "groups of rare numbers",
        "rare numbers merged with neighbours",
        change={f"{SHARED}.merged_codes.rare_groups": nothing(0)},
    ),
    Ablation("rare", "rare values are merged", options={"rare": 0.0}),
    Ablation(
        "NOISE_RATIO",
        "noisy 1-ways get a larger share",
        change={"division.NOISE_RATIO": 1e9},
    ),
    Ablation(
        "MOST_ONES",
        "a share that the first round gives to 1-ways or batches",
        around={f"{TREE}.budget_shares.shares": nothing_open},
    ),
    Ablation(
        "two rounds",
        "a third screening round",
        options={"screening_rounds": 2},
    ),
    Ablation(
        "GROWTH",
        "the limit on cells grows from round to round",
        change={f"{TREE}.tree_state.GROWTH": 1},
    ),
    Ablation(
        "DEFAULT_CELLS",
        "models of a twelfth of the cells",
        options={"max_cells": 1 << 18},
        about_also=("mechanisms.limits.size_limits.DEFAULT_CELLS",),
    ),
    Ablation(
        "triples",
        "sets of three columns as candidates",
        change={f"{TREE}.tree_state.MAX_TRIPLE_CELLS": 0},
    ),
    Ablation(
        "forest first",
        "the first batch is a forest of pairs",
        change={f"{SHARED}.screening.forest": first_as_list},
    ),
    Ablation(
        "portions",
        "marginals get noise by their cells (power 2/3)",
        change={"division.portion": nothing(1.0)},
    ),
    Ablation(
        "columns that follow",
        "wide columns that follow from others are drawn beside the model",
        change={f"{SHARED}.dependencies.wide_pairs": nothing([])},
    ),
    Ablation(
        "balanced rows",
        "rows drawn several times over and halved",
        change={f"{SHARED}.halving.MOST_WORK": 0},
    ),
    Ablation(
        "EXCHANGE_STRIDES",
        "exchanges after the halvings",
        change={f"{SHARED}.halving.EXCHANGE_STRIDES": ()},
    ),
    Ablation(
        "least total",
        "a least number of rows, in standard errors",
        change={f"{SHARED}.one_ways.LIKELY": 0.0},
    ),
    Ablation(
        "mixed strengths",
        "tables between smooth and close, mixed by Stein's estimate",
        around={"estimate.dual.newton.denoise": least_squares_only},
        about_also=("estimate.dual.newton.CANDIDATES",),
    ),
    Ablation(
        "empty cells",
        "candidates of the mixture that expect empty cells",
        around={"estimate.dual.newton.denoise": no_empty_cells},
        about_also=("estimate.dual.newton.CANDIDATES",),
    ),
    Ablation("stop by risk", "the last fit stops where its risk is least", options={"stop": "tol"}),
    Ablation(
        "asked where told",
        "pairs are not measured whose answers are expected to be left out in the end",
        change={f"{TREE}.tree_state.CliqueTreeState.tells": nothing(True)},
    ),
    Ablation(
        "answers left out",
        "answers that say no more than independent columns are left out of the last fit",
        change={f"{TREE}.beyond_independence.telling": first_as_list},
    ),
    Ablation(
        "least cells",
        "effective cells that any table with the same sums has",
        change={f"{SHARED}.screening.least_cells": nothing(1.0)},
    ),
    Ablation(
        "affordable batch",
        "of a batch, the part that is worth most together",
        change={f"{SHARED}.screening.affordable_batch": first_as_list},
    ),
    Ablation(
        "findings",
        "resolutions by what an answer finds, not by the gain of a candidate",
        change={f"{SHARED}.screening.findings": gain_of},
    ),
    Ablation(
        "FINAL_SHARE",
        "distances of the finished model",
        around={f"{TREE}.budget_shares.shares": hardly_any_distances},
    ),
)
PEOPLE = (
    Ablation(
        "levels",
        "levels of users' amounts",
        "people",
        {"users.levels.MOST_LEVELS": 0},
    ),
    Ablation(
        "joint urns",
        "pairs of columns that users repeat together",
        "people",
        {"users.trials.MOST_JOINT": 0},
    ),
    Ablation(
        "near urns",
        "groups of neighbouring codes that users repeat",
        "people",
        {"users.trials.MOST_NEAR": 0},
    ),
    Ablation("chains", "succession of a user's rows", "people", {"users.order.MOST_CHAINS": 0}),
    Ablation("trials", "trial dealings", "people", {"users.trials.TRIALS": 0}),
)
NUMBERS = (
    Ablation(
        "ENDS",
        "tails that end",
        "numbers",
        {"numbers.tail_posterior.ENDS": 0.0, "numbers.tail_posterior.FOLLOWS": 1.0},
    ),
    Ablation("MISFIT", "doubt of the model", "numbers", {"numbers.tail_posterior.MISFIT": 1e-9}),
)
PUBLIC = (
    Ablation(
        "public tables",
        "public tables as priors",
        "public",
        {f"{SHARED}.public_prior.PublicMarginals.of": nothing(None)},
    ),
)
REPLACED = (
    Ablation(
        "before: shrunk 1-ways",
        "CLEAR = 4 standard deviations, SHRINK = 1.25 times what noise explains",
        change={f"{SHARED}.merged_codes.expected_counts": before.shrunk_to_uniform},
    ),
    Ablation(
        "before: weak 1-ways",
        "only 1-ways that do not stand out of noise are drawn, to uniform by their likeliest spread",
        change={
            f"{SHARED}.merged_codes.expected_counts": before.weak_to_uniform,
            f"{SHARED}.merged_codes.shape_of": before.projected,
        },
    ),
    Ablation(
        "before: counts of rare values",
        "James and Stein's factor in place of the likeliest spread",
        change={f"{SHARED}.merged_codes.shape_of": before.shape_of},
    ),
    Ablation(
        "before: grid of 64",
        "a grid that rounds numbers to 1/64 of the largest",
        change={"significance.posterior_means": before.posterior_means},
    ),
    Ablation(
        "before: EXPLAINED",
        "distances, not squares: what explains less than three quarters explains nothing",
        change={f"{SHARED}.screening.unexplained": before.unexplained},
    ),
    Ablation(
        "before: denoised distances",
        "empirical-Bayes means of a screening round's distances",
        around={f"{TREE}.tree_state.CliqueTreeState.choose": before.with_denoised},
    ),
    Ablation(
        "before: public priors",
        "public priors by moments of their own, where these explain a fifth and a standard error",
        "public",
        {f"{SHARED}.public_prior.assess_public_prior": before.by_moments},
    ),
    Ablation(
        "before: wide pairs",
        "no pair of at most 131,072 cells is asked whether one column follows from the other",
        around={f"{SHARED}.dependencies.wide_pairs": before.of_many_cells},
    ),
    Ablation(
        "before: ONES_PER_COLUMN",
        "first 1-ways get .013 of mu^2 for each column, at least .1 and at most .55",
        around={f"{TREE}.budget_shares.shares": before.first_by_columns},
    ),
    Ablation(
        "before: FEW_ROUNDS",
        "two screening rounds where 1-ways are noisy",
        around={f"{TREE}.budget_shares.shares": before.few_rounds},
    ),
    Ablation(
        "before: accounted",
        "sqrt(2 log 2K) standard deviations",
        change={f"{SHARED}.screening.threshold": before.largest_of},
    ),
)
TRIED = (
    Ablation(
        "tried: looks of users",
        "`threshold` by the number of looks in urns and chains, in place of SURE",
        "people",
        {"users.trials.SURE": threshold(24), "users.order.SURE": threshold(24)},
    ),
    Ablation(
        "tried: posterior 1-ways",
        "every 1-way by `posterior_means`",
        change={f"{SHARED}.merged_codes.expected_counts": before.by_posterior},
    ),
    Ablation("tried: rare 2", "values below two standard errors merged", options={"rare": 2.0}),
    Ablation("tried: rare 4", "values below four standard errors merged", options={"rare": 4.0}),
    Ablation(
        "tried: shares by errors",
        "1-ways against pairs by the expected error of all pairs, after the first screening round",
        change={
            f"{TREE}.clique_tree.CliqueTree.decide_open_share": tried.decided_by_errors,
        },
        around={f"{TREE}.budget_shares.shares": tried.least_ones},
    ),
    Ablation(
        "tried: trends by gain",
        "of pairs with a trend to ask, only those further off than nine cells of its noise",
        around={f"{TREE}.trends.affordable": tried.gaining},
    ),
    Ablation(
        "tried: LEAST_GAIN 0",
        "exchanges for order end where nothing is gained",
        "people",
        {"users.order.LEAST_GAIN": 0.0},
    ),
    Ablation(
        "tried: LEAST_GAIN .05",
        "exchanges for order end 25 times as early",
        "people",
        {"users.order.LEAST_GAIN": 0.05},
    ),
)
ABLATIONS = {one.name: one for one in (*ROWS, *REPLACED, *TRIED, *PUBLIC, *PEOPLE, *NUMBERS)}


SUITE_OF = {
    "users.": "people",
    "mechanisms.with_users.": "people",
    "numbers.": "numbers",
    f"{SHARED}.prior_screening.": "public",
    f"{SHARED}.public_prior.": "public",
    "division.AGREEMENT": "people",
    "division.USERS": "people",
    "division.ORDER_OF_ROWS": "people",
    "division.PARENTS": "linked",
    "mechanisms.adagrid.": "adagrid",
}
"""The suite that measures constants of a place, where it is not that of rows."""


def given(text: str) -> Ablation:
    """Another value of one constant: "mechanisms.shared.halving.LEVELS=2". All numbers of a constant
    times one: "division.USERS*=.5". Its place says which suite measures it."""
    path, value = text.split("=", 1)
    if path.endswith("*"):
        path = path[:-1]
        value = repr(times(vars(owner(path)[0])[owner(path)[1]], float(value)))
    suite = next((suite for place, suite in SUITE_OF.items() if path.startswith(place)), "rows")
    return Ablation(text, f"{path} = {value}", suite, {path: ast.literal_eval(value)})


def times(value: Any, factor: float) -> Any:
    """All numbers of a constant times one."""
    if isinstance(value, dict):
        return {name: times(one, factor) for name, one in value.items()}
    return tuple(times(v, factor) for v in value) if isinstance(value, tuple) else value * factor


def owner(path: str) -> tuple[Any, str]:
    """(the module or class, the attribute) of a path below fastdp."""
    parts = path.split(".")
    at: Any = None
    for i in range(len(parts) - 1, 0, -1):
        try:
            at = importlib.import_module(".".join(["fastdp", *parts[:i]]))
        except ModuleNotFoundError:
            continue
        for name in parts[i:-1]:
            at = getattr(at, name)
        return at, parts[-1]
    raise ValueError(f"{path!r} names nothing in fastdp")


@cache
def imported(module: ModuleType) -> frozenset[tuple[str, str, str]]:
    """(module, its name there, name here) of everything that a module imports by name."""
    out = set()
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.ImportFrom):
            dots = "." * node.level
            package = module.__name__ if hasattr(module, "__path__") else module.__package__
            source = importlib.util.resolve_name(f"{dots}{node.module or ''}", package)
            out |= {(source, one.name, one.asname or one.name) for one in node.names}
    return frozenset(out)


def places(path: str) -> list[tuple[Any, str]]:
    """Where a path's value is looked up: where it is defined, and modules that import its name."""
    at, name = owner(path)
    out = [(at, name)]
    if not isinstance(at, ModuleType):
        return out
    value = vars(at)[name]
    for other in list(sys.modules.values()):
        own = getattr(other, "__name__", "")
        if own.startswith("fastdp.") and other is not at and getattr(other, "__file__", ""):
            if any(there is value for there in vars(other).values()):
                if not str(other.__file__).endswith(".py"):
                    continue
                found = imported(other)
                out += [
                    (other, here)
                    for source, there, here in found
                    if (source, there) == (at.__name__, name)
                ]
    return out


@contextmanager
def switched_off(one: Ablation | None) -> Iterator[None]:
    """The package without what the ablation leaves out."""
    import fastdp.run.execute  # noqa: F401  so that every module that looks a name up is there

    before: list[tuple[Any, str, Any]] = []
    try:
        if one is not None:
            for path, value in [*one.change.items(), *one.around.items()]:
                at, name = owner(path)
                there = vars(at)[name]
                new = value(there) if path in one.around else value
                for where, here in places(path):
                    before.append((where, here, vars(where)[here]))
                    setattr(where, here, new)
        yield
    finally:
        for where, here, value in reversed(before):
            setattr(where, here, value)
