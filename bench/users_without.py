"""What each rule about synthetic users buys: `bench.users` with it and without it, on the same seeds.

    python -m bench.users_without [NAME ...] [--tables cohorts few events patients] [--epsilon 1]
    [--seeds 700 705] [--jobs 1] [--all]

For each NAME of WITHOUT (all, if none is given) it runs every table and seed twice. Tables of the class
that a rule is for are those of `bench.rule_tables` and `bench.people_kinds`, and `rides`. It prints the
measures of `bench.users` that change by more than chance: beyond the 1 % point of Student's t over
paired seeds (--all: every measure). Last, how many of all measures these are; chance alone gives 1 %. A
constant whose line is no more than that can be deleted.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module

import numpy as np
from scipy.stats import t

from . import machine, users
from .people_measures import PEOPLE

WITHOUT: dict[str, tuple[str, ...]] = {
    "the choice": ("choice",),
    "a pool of five": ("mechanisms.with_users.chosen_users.MOST_POOL=3",),
    "other rows of the model": ("mechanisms.with_users.chosen_users.OTHER_ROWS=0",),
    "facts about users": ("mechanisms.with_users.user_questions.LEAST_FACTS=1e9",),
    "a bar for the choice": ("mechanisms.with_users.chosen_users.LEAST_KNOWN=0",),
    "a bar for facts": ("mechanisms.with_users.user_questions.LEAST_FACTS=0",),
    "siblings": ("users.user_choice.MOST_TURNS=0",),
    "tight counts": ("users.user_choice.TIGHT=1",),
    "pairs of columns": ("users.user_choice.PAIR_CODES=0", "users.user_choice.LEAST_PAIRS=0"),
    "an end of sweeps": ("users.user_choice.LEAST_GAIN=0",),
    "distinct values": ("users.user_table.MOST_DISTINCT=0",),
    "constants": ("users.user_table.MOST_CONSTANTS=0",),
    "periods": ("users.user_table.PERIODS=12",),
    "four trials of urns": ("users.trials.TRIALS=1",),
    "limits of parameters": ("users.trials.FARTHEST=9", "users.trials.MOST_MOVED=9"),
    "eight candidates": ("users.dealing.CANDIDATES=4",),
    "pairs that users repeat": ("users.trials.MOST_JOINT=0",),
    "groups of neighbours": ("users.trials.MOST_NEAR=0",),
    "levels": ("users.levels.MOST_LEVELS=0",),
    "levels by two standard errors": ("users.levels.LIKELY=3",),
    "exchanges for order": ("users.dealing.TRIES=0",),
    "an end of exchanges": ("users.order.LEAST_GAIN=0",),
    "chains": ("users.order.MOST_CHAINS=0",),
    "rates near chance": ("users.group_rates.UNKNOWN=30",),
    "avoided values": ("users.rates.MOST_AVOIDED=0",),
    "levels in exchanges": ("users.dealing.COARSE=8",),
    "a least part between users": ("users.levels.LEAST_BETWEEN=0",),
    "bins of one number of rows": ("users.people.CROWDED=1e9",),
    "a least loss for groups": ("users.people.LEAST_LOST=0",),
    "a least lack of users": ("users.user_choice.LEAST_LACKING=0",),
    "a least error of rates": ("mechanisms.with_users.user_questions.LEAST_ERROR=1e-6",),
    "groups of users": ("mechanisms.with_users.user_questions.GROUP_ROWS=1e9",),
}
"""By rule, the constants of fastdp (MODULE.NAME=VALUE) that take it out."""
MEASURES = (*users.MEASURES, "follows", *PEOPLE, "total", "seconds")


def one(name: str, epsilon: float, seed: int, changes: tuple[str, ...]) -> list[float]:
    """The measures of one run; errors of numbers without their sign."""
    chosen = import_module("fastdp.mechanisms.with_users.chosen_users")
    choice = chosen._with_choice
    if changes == ("choice",):
        chosen._with_choice = lambda asked, made, rows, table: made
        changes = WITHOUT["facts about users"]
    try:
        found = users.one(name, None, epsilon, seed, "order", changes)
    finally:
        chosen._with_choice = choice
    found["follows"] -= found["truth"]
    return [abs(found[m]) if m in ("follows", "total", "level") else found[m] for m in MEASURES]


def begin() -> None:
    """One run before all others, so that none of these pays for imports."""
    one("tiny", 1.0, 0, ())


def differences(without: np.ndarray, default: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """By measure, of paired runs [seeds, measures]: (mean difference, its standard error)."""
    apart = without - default
    return apart.mean(axis=0), apart.std(axis=0, ddof=1) / np.sqrt(len(apart))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="rules to leave out")
    some = ["cohorts", "few", "events", "patients"]
    parser.add_argument("--tables", nargs="+", default=some, choices=list(users.TABLES))
    parser.add_argument("--epsilon", nargs="+", type=float, default=[1.0])
    parser.add_argument("--seeds", nargs=2, type=int, default=[700, 705], metavar=("FIRST", "END"))
    parser.add_argument("--jobs", type=int, default=1, help="parallel processes")
    parser.add_argument("--all", action="store_true", help="print every measure")
    parser.add_argument("--no-save", action="store_true", help="keep nothing in bench/results")
    options = parser.parse_args()
    unknown = set(options.names) - set(WITHOUT)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; one of: {', '.join(WITHOUT)}")
    seeds = range(*options.seeds)
    cases = [(table, epsilon) for table in options.tables for epsilon in options.epsilon]
    rules = {"": ()} | {name: WITHOUT[name] for name in options.names or WITHOUT}
    kept: dict[str, dict] = {}
    with ProcessPoolExecutor(options.jobs, initializer=begin) as pool:
        runs = {
            (rule, case): [pool.submit(one, *case, seed, changes) for seed in seeds]
            for rule, changes in rules.items()
            for case in cases
        }
        made = {}
        for key, futures in runs.items():
            made[key] = np.array([future.result() for future in futures])
        for rule in list(rules)[1:]:
            count = 0
            for case in cases:
                default = made["", case]
                without = made[rule, case]
                apart, error = differences(without, default)
                point = t.isf(0.005, len(seeds) - 1)
                changed = np.abs(apart) > point * np.maximum(error, 1e-12)
                count += int(changed[:-1].sum())
                for i in np.flatnonzero(changed | options.all):
                    a, b = default[:, i].mean(), without[:, i].mean()
                    where = f"{case[0]} {case[1]:g}"
                    by = f"{apart[i]:+9.4f} ± {error[i]:.4f}"
                    print(f"without {rule:28} {where:12} {MEASURES[i]:9} {a:9.4f} -> {b:9.4f} {by}")
                    kept.setdefault(rule, {})[f"{where}, {MEASURES[i]}"] = [a, b]
            looks = len(cases) * (len(MEASURES) - 1)
            print(f"without {rule:28} changes {count} of {looks} measures", flush=True)
    if not options.no_save:
        machine.keep("users_without", {"seeds": list(seeds), "changed": kept})


if __name__ == "__main__":
    main()
