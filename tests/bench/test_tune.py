"""Leaving rules out: what is switched off is off everywhere and comes back, effects are found where
they are, and the inventory finds every constant."""

import ast
import inspect
import sys
from importlib import import_module
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from bench.tune import __main__ as tune, ablations, inventory, of_class, page, suites
from bench.tune.ablations import ABLATIONS, Ablation, given, owner, places, switched_off
from bench.tune.job import Idle, Wanted, in_order
from bench.tune.judge import compared, judged
from bench.tune.of_class import CLASS
from bench.tune.store import keep, kept
from fastdp import division
from fastdp.mechanisms.cliquetree import tree_state, trends
from fastdp.mechanisms.shared import halving, merged_codes
from fastdp.users import order

SOURCE = '''
"""A module."""
# Constants, chosen on two
# tables.
A = 0.5
"""A share."""
FEW, MANY = 3, 1 << 20
"""Chosen on a table."""
NAMES = ("x", "y")
WORD = "text"
TABLE = {1: (0.4, 0.6)}
lower = 3
'''


def test_the_inventory_finds_constants_with_what_their_text_says(tmp_path, monkeypatch):
    monkeypatch.setattr(inventory, "PACKAGE", tmp_path)
    path = tmp_path / "users" / "one.py"
    path.parent.mkdir()
    path.write_text(SOURCE)
    found = {c.name: c for c in inventory.in_file(path)}
    assert found.keys() == {"A", "FEW", "MANY", "TABLE"}
    assert (found["FEW"].value, found["MANY"].value) == ("3", "1 << 20")
    assert found["A"].path == "users.one.A" and found["A"].kind == "tuned"
    assert found["A"].provenance == "Constants, chosen on two tables."
    assert found["FEW"].provenance == "Chosen on a table."


@pytest.mark.slow
@pytest.mark.parametrize("name", ABLATIONS)
def test_every_ablation_replaces_something_that_is_there(name):
    """Also nothing that a function took for a default: such a value would stay as it is."""
    one = ABLATIONS[name]
    assert one.paths
    for path in (*one.change, *one.around):
        at, attribute = owner(path)
        assert attribute in vars(at), f"{path} is not there"
        if isinstance(at, ModuleType):
            for node in ast.walk(ast.parse(inspect.getsource(at))):
                if isinstance(node, ast.FunctionDef):
                    given = [*node.args.defaults, *filter(None, node.args.kw_defaults)]
                    used = {n.id for d in given for n in ast.walk(d) if isinstance(n, ast.Name)}
                    assert attribute not in used, f"{path} is a default of {node.name}"


def test_what_is_switched_off_is_off_wherever_its_name_is_imported_and_comes_back():
    before = (trends.summed, tree_state.summed, halving.MOST_WORK)
    with switched_off(ABLATIONS["sums of pairs"]):
        assert trends.summed([], {}, None) == tree_state.summed(None, None, None) == []
        tree_state.summed().append("what a run adds must not be in the next one")
        assert tree_state.summed() == []
    with pytest.raises(ZeroDivisionError), switched_off(ABLATIONS["balanced rows"]):
        assert halving.MOST_WORK == 0
        raise ZeroDivisionError
    assert (trends.summed, tree_state.summed, halving.MOST_WORK) == before
    choose = tree_state.CliqueTreeState.choose
    with switched_off(ABLATIONS["before: denoised distances"]):
        assert tree_state.CliqueTreeState.choose is not choose
    assert tree_state.CliqueTreeState.choose is choose


def test_equal_numbers_of_other_modules_are_left_alone():
    """Two modules have a constant of the same name and value: only the one that is named changes."""
    here = places("mechanisms.shared.merged_codes.PAIR_CELLS")
    assert (merged_codes, "PAIR_CELLS") in here
    assert all(getattr(at, name) == merged_codes.PAIR_CELLS for at, name in here)
    assert "fastdp.mechanisms.shared.dependencies" not in [at.__name__ for at, _ in here]
    with switched_off(Ablation("x", "", change={"mechanisms.shared.halving.LEVELS": 1})):
        assert halving.LEVELS == 1
        from fastdp.mechanisms.shared import model_rows

        assert model_rows.LEVELS == 1


def records(name: str, factor: float, tables: int, rng) -> list[dict]:
    """Runs of which those without `name` have errors of `factor` times the others."""
    out = []
    for table in range(tables):
        for seed in range(3):
            error = float(rng.lognormal(-3, 0.2))
            about = {
                "suite": "rows",
                "table": f"t{table}",
                "epsilon": 1.0,
                "seed": seed,
                "commit": "c",
            }
            noisy = error * factor * float(rng.lognormal(0, 0.02))
            out.append(about | {"without": "", "errors": {"pairs": error, "ranges": 0.01}})
            out.append(about | {"without": name, "errors": {"pairs": noisy, "ranges": 0.01}})
    return out


def test_an_effect_is_found_and_its_size_is_right():
    """Ten tables, a cost of 10 %: the effect is log 1.1 within four standard errors, and counts."""
    found = judged("rule", compared(records("rule", 1.1, 10, np.random.default_rng(1))))
    (pairs,) = [e for e in found.effects if e.measure == "pairs"]
    assert abs(pairs.mean - np.log(1.1)) < 4 * pairs.error + 0.003
    assert found.word == "earns its place" and found.acts == found.looked == 10
    better = judged("rule", compared(records("rule", 0.9, 10, np.random.default_rng(2))))
    assert better.word == "better without"


def test_runs_of_different_commits_are_not_compared_with_each_other():
    """All errors doubled from one commit to the next: a rule costs 10 % at both."""
    rng = np.random.default_rng(4)
    first = records("rule", 1.1, 10, rng)
    later = [
        r | {"commit": "d", "errors": {m: 2 * e for m, e in r["errors"].items()}}
        for r in records("rule", 1.1, 10, rng)
    ]
    found = judged("rule", compared([*first, *later]))
    (pairs,) = [e for e in found.effects if e.measure == "pairs"]
    assert abs(pairs.mean - np.log(1.1)) < 0.02 and found.seeds == 6


def test_what_is_kept_gives_the_same_verdict(tmp_path):
    """Also where files are added twice, and where a change does nothing."""
    runs = records("rule", 1.1, 4, np.random.default_rng(5))
    idle = [r | {"without": "idle"} for r in runs if not r["without"]]
    found = compared([*runs, *idle])
    path = tmp_path / "kept.jsonl"
    for _ in range(2):
        keep(found, path)
    assert judged("rule", kept(path)) == judged("rule", found)
    assert judged("idle", kept(path)).word == "acts nowhere"


def test_runs_kept_anew_leave_none_of_another_commit(tmp_path):
    """A rule's line is then of one commit. Rules that were not run again keep theirs."""
    path = tmp_path / "kept.jsonl"
    runs = records("rule", 1.1, 3, np.random.default_rng(6))
    others = [r | {"without": r["without"] and "other"} for r in runs]
    keep(compared([*runs, *others]), path)
    later = [r | {"commit": "d"} for r in runs if r["table"] != "t0"]
    keep(compared(later), path)
    assert {one.commit for one in kept(path) if one.without == "rule"} == {"c", "d"}
    keep(compared(later), path, anew=True)
    assert {(one.without, one.commit) for one in kept(path)} == {("rule", "d"), ("other", "c")}


def test_noise_is_rarely_taken_for_an_effect():
    """Of 200 changes without an effect, about 5 % lie beyond two standard errors (9 degrees of
    freedom: 7.7 %); at most 16 % with a chance above 1 - 1e-4."""
    rng = np.random.default_rng(3)
    words = [judged("rule", compared(records("rule", 1.0, 10, rng))).word for _ in range(200)]
    assert np.mean([word != "not shown" for word in words]) < 0.16


def test_a_change_that_does_nothing_is_not_run_with_further_seeds():
    wanted = in_order("rows", ["t"], [1.0], [5, 6], ["rule"])
    assert [(w.seed, w.without) for w in wanted] == [(5, ""), (5, "rule"), (6, ""), (6, "rule")]
    idle = Idle()
    for one in wanted[:2]:
        idle.learn(vars(one) | {"errors": {"pairs": 0.1}})
    assert idle.has(wanted[3]) and not idle.has(wanted[2])
    assert not idle.has(Wanted("rows", "t", 1.0, 6, "other"))
    runs = [vars(w) | {"commit": "c", "errors": {"pairs": 0.1}} for w in wanted[:3]]
    runs.append(vars(wanted[3]) | {"commit": "c", "idle": True})
    assert judged("rule", compared(runs)).word == "acts nowhere"


def test_another_value_is_measured_by_the_suite_of_its_folder():
    """Constants about users had been set in runs of tables without users, where nothing differs."""
    assert given("mechanisms.shared.halving.EXCHANGE_STRIDES=()").suite == "rows"
    halved = given("division.AGREEMENT*=0.5")
    assert halved.suite == "people"
    assert halved.change == {"division.AGREEMENT": tuple(x / 2 for x in division.AGREEMENT)}
    least = given("users.order.LEAST_GAIN=0.1")
    assert least.suite == "people"
    with switched_off(least):
        assert order.LEAST_GAIN == 0.1


def test_trends_by_gain_leave_out_pairs_that_are_nearer_than_noise():
    """The order of pairs stays, since all trends have as many cells."""
    distances = {("a", "b"): 3000.0, ("a", "c"): 50.0, ("b", "c"): 900.0}
    asked, each = trends.affordable(distances, 0.3, 0.07, 50_000.0)
    assert asked == [("a", "b"), ("b", "c"), ("a", "c")]
    noise = np.sqrt(2 / np.pi) * 9 / np.sqrt(0.07 * each)
    assert 900 < noise < 3000
    with switched_off(ABLATIONS["tried: trends by gain"]):
        kept, same = trends.affordable(distances, 0.3, 0.07, 50_000.0)
    assert kept == [("a", "b")] and same == each


def test_every_rule_that_stays_has_its_evidence():
    """Leaving it out makes a measure worse, over all tables or over those of its class, or the page says
    what else it is for. A rule without runs, planted here, is found."""
    rules = [one.name for one in ablations.ROWS]
    assert page.without_evidence(rules) == []
    assert page.without_evidence([*rules, "planted"]) == ["planted"]


@pytest.mark.slow
def test_tuning_lists_the_values_that_the_modules_have():
    differing = page.differing(inventory.constants())
    assert not differing, f"python -m bench.tune --page: {differing}"


def test_the_page_has_every_threshold_in_standard_errors(tmp_path, monkeypatch):
    """One module decides what stands out. A rule with its own number of standard errors has its reason
    on the page; a new one, planted here, is found."""
    page_text = (page.TUNING.parent / "docs" / "research" / "principles.md").read_text("utf-8")
    table = page_text[page_text.index("| where | rule |") : page_text.index("## Constants")]
    found = inventory.own_thresholds()
    assert "ALARM" in found
    assert [name for name in found if f"{name}`" not in table] == []
    (tmp_path / "planted.py").write_text(
        'STRAY = 2.7\n"""Standard errors by which a pair stands out."""\n'
    )
    monkeypatch.setattr(inventory, "PACKAGE", tmp_path)
    assert inventory.own_thresholds() == ["STRAY"]


def test_every_tuned_constant_has_a_command_that_compares_other_values():
    """The command is the one that its text names, or that of its place; a bench that is named exists."""
    tuned = [one for one in inventory.constants() if one.kind == "tuned"]
    commands = {one.path: one.command for one in tuned}
    assert commands["division.PARENTS"].endswith("--set division.PARENTS=VALUE")
    assert "bench.users" in commands["mechanisms.with_users.chosen_users.POOL_ROWS"]
    for path, command in commands.items():
        words = command.split()
        assert words[:2] == ["python", "-m"] and words[2].startswith("bench."), path
        if "--bench" in words:
            name = words[words.index("--bench") + 1]
            assert hasattr(import_module(f"bench.{name}"), "main"), command
        if "--tables" in words and "--bench" not in words and words[2] == "bench.tune":
            named = words[words.index("--tables") + 1 :]
            assert set(named) <= set(suites.BENCHMARKS), command


def test_rules_are_run_on_the_tables_of_their_class_beside_the_package_as_it_is(monkeypatch):
    """A table of two classes has one run as it is; a rule without a class has no runs."""
    monkeypatch.setattr(suites, "prepared", lambda suite, names: (list(names), {}))
    words = ["--of-class", "--suite", "rows", "--seeds", "1", "--epsilon", "1"]
    options = tune.parser().parse_args([*words, "--without", "triples"])
    found = tune.runs(options, ["GROWTH", "two rounds", "rare"])
    assert {one.table for one in found} == set(CLASS["GROWTH"])
    assert {one.without for one in found} == {"", "GROWTH", "two rounds"}
    assert len(found) == len(set(found)) == 3 * len(CLASS["GROWTH"])


def test_every_class_is_of_a_rule_and_of_tables_that_there_are():
    assert CLASS.keys() <= ABLATIONS.keys()
    assert {name for tables in CLASS.values() for name in tables} <= set(suites.BENCHMARKS)


def test_generated_tables_are_of_their_class():
    """Weak trends are weak and only in one half; a chain forgets; a copy follows from its column."""
    weak = [codes for _, codes in of_class.weak(20_000, 4, 0.2).values()]
    found = np.corrcoef(weak)
    assert abs(found[0, 1] - 0.2) < 0.04 and abs(found[2, 3]) < 0.04 and abs(found[0, 2]) < 0.04
    chain = [codes for _, codes in of_class.chain(20_000, 8, 6, 0.15).values()]
    near, far = (np.mean(chain[0] == codes) for codes in (chain[1], chain[7]))
    assert abs(near - (0.85 + 0.15 / 6)) < 0.02 and far < 0.5
    copied = of_class.copied(5_000, 50)
    pairs = np.unique(np.stack([copied["code"][1], copied["copy"][1]]), axis=1)
    assert pairs.shape[1] == np.unique(pairs[0]).size == np.unique(pairs[1]).size
    for made in (
        of_class.nets(500, 5, 4, 2),
        of_class.sparse(500, 6, 2),
        of_class.tails(500, 3, 40),
    ):
        assert all(0 <= codes.min() and codes.max() < n for n, codes in made.values())


@pytest.mark.slow
def test_another_bench_runs_with_a_change_in_place(monkeypatch):
    seen = []

    def main():
        from fastdp import division

        seen.append((division.PARENTS, sys.argv[1:]))

    monkeypatch.setitem(sys.modules, "bench.planted", SimpleNamespace(main=main))
    monkeypatch.setattr(sys, "argv", [])
    monkeypatch.setattr(tune, "set_start_method", lambda *given, **named: None)
    tune.main(["--set", "division.PARENTS=.4", "--bench", "planted", "--seeds", "1"])
    tune.main(["--bench", "planted", "--set"])
    assert seen == [(0.4, ["--seeds", "1"]), (0.3, ["--set"])]


def test_a_constant_is_measured_where_it_acts():
    """Constants about public data by runs that have some: without, no value of theirs does anything."""
    shared = "mechanisms.shared"
    assert given(f"{shared}.prior_screening.LEAST_USED=0.0").suite == "public"
    assert given(f"{shared}.halving.LEVELS=2").suite == "rows"
    assert given("users.trials.TRIALS=1").suite == "people"
    assert given("division.PARENTS=0.5").suite == "linked"
    assert given("mechanisms.with_users.chosen_users.LEAST_POOL=1").suite == "people"
    here, why = suites.prepared("public", ("factors, shuffled",))
    assert here == ["factors, shuffled"] and not why
