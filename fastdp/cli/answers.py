"""The command that answers questions about a run: numbers with intervals, at no cost."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from .common import Json, emit

answers_app = typer.Typer()


@answers_app.command(
    epilog="Examples:\n\n\b\n"
    "  fastdp answer run 'count by company'\n"
    "  fastdp answer run 'mean(fare) by company where payment_type = Card'\n"
    "  fastdp answer run 'share where age in 18..65' --level 0.99"
)
def answer(
    run: Annotated[str, typer.Argument(help="A run folder.")],
    question: Annotated[
        str, typer.Argument(help="count, share, mean(COLUMN) or sum(COLUMN) [by COLUMNS] [where CONDITIONS].")
    ],
    level: Annotated[
        float, typer.Option(help="Probability with which each interval holds the truth.")
    ] = 0.95,
    simultaneous: Annotated[
        bool, typer.Option("--simultaneous", help="All intervals together hold with this probability.")
    ] = False,
    population: Annotated[
        bool,
        typer.Option("--population", help="Intervals for the population that the users were drawn from."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Answer a question about the true rows from what a run released, with intervals.

    Conditions are COLUMN = VALUE, COLUMN in A, B, C or COLUMN in LOW..HIGH (LOW <= value < HIGH), joined by
    and. It reads the run folder alone and costs no budget. A row whose basis is unknown has no interval; its
    note says why.
    """
    from .._util.texttable import table as lines
    from ..answers.answer import told
    from ..answers.question import parsed
    from ..run.result import load_run

    of, by, where = parsed(question)
    found = load_run(run).answer(of, by, where, level, simultaneous=simultaneous, population=population)
    sentence = told(found, level, simultaneous)
    if as_json:
        emit({"rows": found.to_pylist(), "intervals": sentence})
        return
    shown = [*by, "estimate", "low", "high", "basis"]
    rows = [shown, *([_text(row[name]) for name in shown] for row in found.to_pylist())]
    typer.echo("\n".join(lines(rows, left=len(by))))
    for note in dict.fromkeys(n for n in found.column("note").to_pylist() if n):
        typer.echo(note)
    typer.echo(sentence)


def _text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return str(value)
