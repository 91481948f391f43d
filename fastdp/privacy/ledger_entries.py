"""What a ledger shows of its runs and of a series, as plain dictionaries."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from .budget import epsilon_at, root_down
from .chain import State
from .ledger_runs import Run
from .series import period_epsilon


def run_entry(name: str, run: Run) -> dict:
    """One run: who asked for what and when, its steps, and what the data set is charged for it."""
    steps = []
    for (part, number), step in sorted(run.steps.items()):
        events = [e.to_dict() for e in step.events]
        drawn = {
            "part": part,
            "step": number,
            "label": step.label,
            "events": events,
            "draws": step.draws,
        }
        answers = {
            "answered": step.answer is not None,
            "answers": [dict(a) for a in step.answer or ()],
        }
        steps.append(drawn | answers)
    known: dict[str, Any] = {
        "run": name,
        "dataset": run.dataset,
        "seq": run.seq,
        "time": run.time,
        "unit": run.unit.to_dict(),
        "about": dict(run.about),
    }
    known |= {} if run.period is None else {"period": run.period, "late": run.late}
    known |= {"parts": [e.to_dict() for e in run.parts], "steps": steps, "finished": run.finished}
    return known | {
        "published": list(run.published),
        "charged": [e.to_dict() for e in run.charge()],
    }


def series_facts(state: State, dataset: str) -> dict | None:
    """The facts of a series (`Ledger.series`); None if the data set is not one."""
    horizon = state.series.get(dataset)
    if horizon is None:
        return None
    budget = state.budgets[dataset]
    assert budget.mu is not None and budget.delta is not None
    runs = [run for run in state.runs.values() if run.dataset == dataset]
    counted = [run for run in runs if run.counts_at(state.seq)]
    releases = []
    for number, run in enumerate(counted, 1):
        so_far = [event for one in counted[:number] for event in one.parts]
        numbers = {"epsilon": epsilon_at(run.parts, budget.delta)}
        numbers["user_epsilon"] = epsilon_at(so_far, budget.delta)
        releases.append({"period": run.period, "late": run.late} | numbers)
    return {
        "periods": horizon,
        "period": state.units[dataset].period,
        "epsilon": period_epsilon(budget, horizon),
        "delta": budget.delta,
        "mu": root_down(Fraction(budget.mu) ** 2 / horizon),
        "releases": releases,
        "left": horizon - len({run.period for run in counted}),
    }
