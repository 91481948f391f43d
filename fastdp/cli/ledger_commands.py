"""`fastdp ledger ...`: open, show, release and verify a budget ledger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated

import typer

from ..errors import UsageError
from .common import Json, Yes, ask_first, emit

ledger_app = typer.Typer(help="Budget ledgers: open, show, release, verify.", no_args_is_help=True)


@ledger_app.command(
    "open",
    epilog="Example:\n\n\b\n"
    "  fastdp ledger open budget.db trips-2020 --epsilon 2 --delta 1e-5 --unit user:taxi_id",
)
def ledger_open(
    path: Annotated[str, typer.Argument(help="Ledger file (made if missing) or sqlite: URL.")],
    dataset: Annotated[str, typer.Argument(help="Name of the data set.")],
    epsilon: Annotated[float | None, typer.Option("--epsilon", "-e")] = None,
    delta: Annotated[float | None, typer.Option("--delta", "-d")] = None,
    mu: Annotated[float | None, typer.Option(help="Instead of epsilon and delta.")] = None,
    pure: Annotated[float, typer.Option(help="Part of epsilon set aside for pure releases.")] = 0.0,
    keys: Annotated[float, typer.Option(help="Part of delta set aside for key selection.")] = 0.0,
    unit: Annotated[
        str | None,
        typer.Option(help="Whom it protects: user:COLUMN, row, event:COLUMN (default: as the first run)."),
    ] = None,
    null_user: Annotated[
        str | None, typer.Option(help="Rows without a user id: drop (default) or own (each a user).")
    ] = None,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Open a data set with a budget, and a unit, that can never be changed."""
    from ..privacy.ledger import Ledger
    from ..privacy.unit import Unit

    if null_user is not None and unit is None:
        raise UsageError("--null-user needs --unit; give both")
    ask_first([epsilon], delta, yes)
    protects = None if unit is None else Unit.parse(unit, null_user)
    book = Ledger(path)
    book.open(dataset, epsilon=epsilon, delta=delta, mu=mu, pure=pure, keys=keys, unit=protects)
    if as_json:
        emit({"ledger": path, "dataset": dataset, "budget": book.datasets()[dataset], "unit": unit})


@ledger_app.command("show", epilog="Example:\n\n\b\n  fastdp ledger show budget.db trips-2020")
def ledger_show(
    path: Annotated[str, typer.Argument(help="Ledger file.")],
    dataset: Annotated[str | None, typer.Argument(help="Only this data set.")] = None,
    as_json: Json = False,
) -> None:
    """Budgets, units, what was spent, what is left, and every run with date, mechanism and folder."""
    from ..privacy.ledger import Ledger

    ledger = Ledger(path)
    budgets = ledger.datasets()
    shown = {}
    for name in [dataset] if dataset is not None else list(budgets):
        unit = ledger.unit(name)
        shown[name] = {
            "budget": budgets.get(name),
            "unit": None if unit is None else unit.to_dict(),
            "spent": ledger.spent(name),
            "left": ledger.remaining(name),
            "runs": ledger.entries(name),
        }
    if as_json:
        emit(shown)
    else:
        for name, entry in shown.items():
            typer.echo("\n".join(dataset_lines(name, entry)))


@ledger_app.command("release", epilog="Example:\n\n\b\n  fastdp ledger release budget.db 5f2c")
def ledger_release(
    path: Annotated[str, typer.Argument(help="Ledger file.")],
    run: Annotated[str, typer.Argument(help="The run's name, or its first letters (see: ledger show).")],
    as_json: Json = False,
) -> None:
    """End a run that will not be resumed: the part of its reserved budget that no step has charged is
    returned to its data set.

    What was charged stays charged, whether or not its answers were ever seen. The run cannot be resumed
    afterwards; if it is still running, its next step is refused.
    """
    from ..privacy.ledger import Ledger

    ledger = Ledger(path)
    entries = {entry["run"]: entry for entry in ledger.entries()}
    names = [run] if run in entries else [name for name in entries if name.startswith(run)]
    if len(names) != 1:
        raise UsageError(f"{len(names) or 'no'} runs are named {run!r}; list them: fastdp ledger show")
    (name,) = names
    dataset, already = entries[name]["dataset"], entries[name]["finished"]
    before = ledger.remaining(dataset)
    ledger.release(name)
    after = ledger.remaining(dataset)
    if as_json:
        emit({"run": name, "dataset": dataset, "was_finished": already, "before": before, "left": after})
    elif already:
        typer.echo(f"run {name} was over already; nothing changes. {dataset}: {_figures(after)} left")
    else:
        typer.echo(f"run {name} is over. {dataset}: {_figures(before)} were left, now {_figures(after)}")


@ledger_app.command("verify", epilog="Example:\n\n\b\n  fastdp ledger verify budget.db")
def ledger_verify(path: Annotated[str, typer.Argument(help="Ledger file.")], as_json: Json = False) -> None:
    """Replay the whole chain; an error says what was tampered with."""
    from ..privacy.ledger import Ledger

    head = Ledger(path).verify()
    emit(head) if as_json else typer.echo(f"intact: {head['seq']} records, last hash {head['hash']}")


def dataset_lines(name: str, entry: Mapping) -> list[str]:
    """Readable lines about a data set: budget, unit, what is spent and left and why, and each run."""
    nth = "next" if entry["runs"] else "first"
    lines = [
        f"{name}  budget: {_figures(entry['budget'])}",
        f"  protects: {_unit(entry['unit'], f'not fixed yet; the {nth} run fixes it')}",
        f"  spent: {_figures(entry['spent'])}",
        f"  left:  {_figures(entry['left'])}",
        *(f"  {text}" for text in composition_words(entry["budget"] or {}, entry["spent"], entry["left"])),
    ]
    for run in entry["runs"]:
        about, time = run.get("about") or {}, run.get("time")
        when = "no date" if time is None else f"{datetime.fromtimestamp(time, UTC):%Y-%m-%d %H:%M} UTC"
        state = "finished" if run["finished"] else "open, charged as reserved"
        mechanism = about.get("mechanism") or "mechanism not recorded"
        mechanism += f" (recipe {about['recipe']})" if about.get("recipe") else ""
        lines += [
            f"  run {run['run']}  {when}  {mechanism}  {state}",
            f"    folder: {about.get('folder') or 'none recorded'}",
            f"    unit: {_unit(run['unit'], '')}",
            f"    {len(run['steps'])} steps, {_charges(run['charged'])}",
        ]
    return lines


def composition_words(budget: Mapping, spent: Mapping, left: Mapping) -> list[str]:
    """Lines that explain why the epsilon spent and the epsilon left do not add up to the budget's epsilon."""
    total, used, rest = budget.get("epsilon"), spent.get("epsilon"), left.get("epsilon")
    if not (total and used and rest and budget.get("mu") and budget.get("delta")) or budget.get("pure"):
        return []
    whole2, rest2 = budget["mu"] ** 2, left["mu"] ** 2
    return [
        f"(Epsilons of runs do not add up; mu^2 does. The budget's epsilon {total:.4g} is mu^2 {whole2:.4g}:",
        f"{whole2 - rest2:.4g} of it is spent, alone epsilon {used:.4g}; {rest2:.4g} is left, alone "
        f"{rest:.4g}.",
        f"Both together are {total:.4g} again: {used:.4g} spent of {total:.4g} leaves {rest:.4g}, not "
        f"{total - used:.4g}.)",
    ]


def _unit(value: Mapping | None, otherwise: str) -> str:
    from ..privacy.unit import Unit

    return otherwise if value is None else str(Unit.parse(value))


def _figures(values: Mapping | None) -> str:
    numbers = {
        k: v for k, v in (values or {}).items() if isinstance(v, int | float) and not isinstance(v, bool)
    }
    return ", ".join(f"{k} {v:.6g}" for k, v in numbers.items()) or "no limit"


def _charges(events: Sequence[Mapping]) -> str:
    mu2 = sum(e["mu"] ** 2 for e in events if "mu" in e)
    other = [e for e in events if "mu" not in e]
    parts = [f"mu {mu2**0.5:.6g}"] if mu2 else []
    parts += [f"{e['law']} epsilon {e['epsilon']:.6g}" for e in other[:3]]
    return ", ".join(parts) + (" ..." if len(other) > 3 else "") or "nothing charged"
