"""`fastdp ledger ...`: open, show, release and verify a budget ledger."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from ..errors import UsageError
from .common import ask_first, emit, print_result, say
from .parser import command


@command("ledger", "open")
def ledger_open(
    path: str,
    dataset: str,
    epsilon: float | None = None,
    delta: float | None = None,
    mu: float | None = None,
    pure: float = 0.0,
    keys: float = 0.0,
    unit: str | None = None,
    null_user: str | None = None,
    periods: int | None = None,
    period_epsilon: float | None = None,
    yes: bool = False,
    as_json: bool = False,
) -> None:
    """Open a data set with a budget, and a unit, that can never be changed; or, with --periods, a
    series of releases."""
    from ..privacy.ledger import Ledger
    from ..privacy.unit import Unit

    if null_user is not None and unit is None:
        raise UsageError("--null-user needs --unit; give both")
    ask_first([epsilon], delta, yes)
    protects = None if unit is None else Unit.parse(unit, null_user)
    book = Ledger(path)
    book.open(
        dataset,
        epsilon=epsilon,
        delta=delta,
        mu=mu,
        pure=pure,
        keys=keys,
        unit=protects,
        periods=periods,
        period_epsilon=period_epsilon,
    )
    if as_json:
        made: dict[str, Any] = {
            "ledger": path,
            "dataset": dataset,
            "budget": book.datasets()[dataset],
            "unit": unit,
        }
        emit(made if periods is None else made | {"series": book.series(dataset)})
    elif periods is not None:
        say("\n".join(_horizon(book.series(dataset), book.datasets()[dataset])))


@command("ledger", "show")
def ledger_show(path: str, dataset: str | None = None, as_json: bool = False) -> None:
    """Budgets, units, what was spent, what is left, and every run with date, mechanism and
    folder."""
    from ..privacy.ledger import Ledger

    ledger = Ledger(path)
    budgets = ledger.datasets()
    shown: dict[str, dict] = {}
    for name in [dataset] if dataset is not None else list(budgets):
        unit = ledger.unit(name)
        spent = ledger.spent(name)
        left = ledger.remaining(name)
        shown[name] = {
            "budget": budgets.get(name),
            "unit": None if unit is None else unit.to_dict(),
        }
        shown[name] |= {"spent": spent, "left": left, "runs": ledger.entries(name)}
        if (series := ledger.series(name)) is not None:
            shown[name]["series"] = series
    if as_json:
        emit(shown)
    else:
        for name, entry in shown.items():
            say("\n".join(dataset_lines(name, entry)))


@command("ledger", "release")
def ledger_release(path: str, run: str, as_json: bool = False) -> None:
    """End a run that will not be resumed: the part of its reserved budget that no step has charged
    is returned to its data set.

    What was charged stays charged, whether or not its answers were ever seen. The run cannot be
    resumed afterwards; if it is still running, its next step is refused.
    """
    from ..privacy.ledger import Ledger

    ledger = Ledger(path)
    entries = {entry["run"]: entry for entry in ledger.entries()}
    names = [run] if run in entries else [name for name in entries if name.startswith(run)]
    if len(names) != 1:
        raise UsageError(
            f"this ledger has {len(names) or 'no'} runs named {run!r}; list them with: "
            "fastdp ledger show"
        )
    (name,) = names
    dataset = entries[name]["dataset"]
    already = entries[name]["finished"]
    before = ledger.remaining(dataset)
    ledger.release(name)
    after = ledger.remaining(dataset)
    if as_json:
        emit(
            {
                "run": name,
                "dataset": dataset,
                "was_finished": already,
                "before": before,
                "left": after,
            }
        )
    elif already:
        say(f"run {name} was over already; nothing changes. {dataset}: {_figures(after)} left")
    else:
        say(f"run {name} is over. {dataset}: {_figures(before)} were left, now {_figures(after)}")


@command("ledger", "verify")
def ledger_verify(path: str, as_json: bool = False) -> None:
    """Replay the whole chain; an error says what was tampered with."""
    from ..privacy.ledger import Ledger

    head = Ledger(path).verify()
    text = f"intact: {head['seq']} records, last hash {head['hash']}"
    print_result(head, text, as_json)


def dataset_lines(name: str, entry: Mapping) -> list[str]:
    """Readable lines about a data set: budget, unit, what is spent and left and why, and each
    run."""
    nth = "next" if entry["runs"] else "first"
    lines = [
        f"{name}  budget: {_figures(entry['budget'])}",
        f"  protects: {_unit(entry['unit'], f'not fixed yet; the {nth} run fixes it')}",
        f"  spent: {_figures(entry['spent'])}",
        f"  left:  {_figures(entry['left'])}",
        *(
            f"  {text}"
            for text in composition_words(entry["budget"] or {}, entry["spent"], entry["left"])
        ),
        *(f"  {text}" for text in _horizon(entry.get("series"), entry["budget"])),
    ]
    for run in entry["runs"]:
        about = run.get("about") or {}
        time = run.get("time")
        if time is None:
            when = "no date"
        else:
            when = f"{datetime.fromtimestamp(time, UTC):%Y-%m-%d %H:%M} UTC"
        state = "finished" if run["finished"] else "open, charged as reserved"
        mechanism = about.get("mechanism") or "mechanism not recorded"
        mechanism += f" (recipe {about['recipe']})" if about.get("recipe") else ""
        lines += [
            f"  run {run['run']}  {when}  {mechanism}  {state}",
            f"    folder: {about.get('folder') or 'none recorded'}",
            *([f"    period: {run['period']}"] if run.get("period") else []),
            f"    unit: {_unit(run['unit'], '')}",
            f"    {len(run['steps'])} steps, {_charges(run['charged'])}",
        ]
    return lines


def composition_words(budget: Mapping, spent: Mapping, left: Mapping) -> list[str]:
    """Lines that explain why the epsilon spent and the epsilon left do not add up to the budget's
    epsilon."""
    total = budget.get("epsilon")
    used = spent.get("epsilon")
    rest = left.get("epsilon")
    if not (total and used and rest and budget.get("mu") and budget.get("delta")) or budget.get(
        "pure"
    ):
        return []
    whole2 = budget["mu"] ** 2
    rest2 = left["mu"] ** 2
    return [
        (
            f"(Epsilons of runs do not add up; mu^2 does. The budget's epsilon {total:.4g} is mu^2"
            f" {whole2:.4g}:"
        ),
        (
            f"{whole2 - rest2:.4g} of it is spent, alone epsilon {used:.4g}; {rest2:.4g} is left,"
            f" alone {rest:.4g}."
        ),
        (
            f"Both together are {total:.4g} again: {used:.4g} spent of {total:.4g} leaves"
            f" {rest:.4g}, not {total - used:.4g}.)"
        ),
    ]


def _horizon(series: Mapping | None, budget: Mapping | None) -> list[str]:
    """A series, drawn; nothing for other data sets."""
    from ..privacy.budget import Budget
    from ..run.series_horizon import horizon_lines

    if series is None or budget is None:
        return []
    return horizon_lines(series, Budget.from_dict(budget))


def _unit(value: Mapping | None, otherwise: str) -> str:
    from ..privacy.unit import Unit

    return otherwise if value is None else str(Unit.parse(value))


def _figures(values: Mapping | None) -> str:
    numbers = ((k, v) for k, v in (values or {}).items() if type(v) in (int, float))
    return ", ".join(f"{k} {v:.6g}" for k, v in numbers) or "no limit"


def _charges(events: Sequence[Mapping]) -> str:
    mu2 = sum(e["mu"] ** 2 for e in events if "mu" in e)
    other = [e for e in events if "mu" not in e]
    parts = [f"mu {mu2**0.5:.6g}"] if mu2 else []
    parts += [f"{e['law']} epsilon {e['epsilon']:.6g}" for e in other[:3]]
    return ", ".join(parts) + (" ..." if len(other) > 3 else "") or "nothing charged"
