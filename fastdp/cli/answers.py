"""Commands that use what a run released, at no cost: numbers with intervals, and rows under a condition."""

from __future__ import annotations

from pathlib import Path
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


@answers_app.command(
    epilog="Examples:\n\n\b\n"
    "  fastdp sample run --rows 1000 --out some.parquet\n"
    "  fastdp sample run --rows 500 --where 'payment_type = Card and shift in 0..3' --out card.csv"
)
def sample(
    run: Annotated[str, typer.Argument(help="A run folder.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write: .parquet, .csv or .arrow.")],
    rows: Annotated[int, typer.Option(help="Number of rows.")],
    where: Annotated[str | None, typer.Option(help="Conditions, as in `fastdp answer`.")] = None,
    seed: Annotated[int | None, typer.Option(help="Fixes which rows are chosen.")] = None,
    as_json: Json = False,
) -> None:
    """Write some of a run's synthetic rows, at random: all kinds, or those that match conditions.

    Conditions are COLUMN = VALUE, COLUMN in A, B, C or COLUMN in LOW..HIGH (LOW <= value < HIGH), joined by
    and. No row is written twice, and no budget is spent.
    """
    from ..answers.question import conditions
    from ..run.result import load_run, write_rows

    made = load_run(run).sample(rows, seed, conditions(where))
    write_rows(made.to_reader(), out)
    if as_json:
        emit({"rows": made.num_rows, "out": str(out)})


def _text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return str(value)
