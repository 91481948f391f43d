"""Commands that read what a run released: its statement, its checks and its answers, at no cost."""

from pathlib import Path
from typing import Any

from .._util.texttable import plural
from . import waiting
from .common import as_options, emit, print_result, say
from .parser import command


@command("verify")
def verify_run(folder: str, ledger: str | None = None, as_json: bool = False) -> None:
    """Recompute a run's epsilon from its statement, check every hash, compare measurements, schema
    and model with the statement and, with --ledger, with what was drawn; fail if something private
    lies in the folder.
    """
    from .._util.files import as_path
    from .._util.stores import is_store, shown
    from ..run.verify import read_statement, verify

    verdict = verify(folder, ledger=ledger)
    if as_json:
        facts = {"epsilon": verdict.epsilon, "delta": verdict.delta, "private": verdict.private}
        if verdict.user_epsilon is not None:
            facts["user_epsilon"] = verdict.user_epsilon
        emit({"ok": verdict.ok, **facts, "notes": list(verdict.notes)})
        return
    promise = f"epsilon {verdict.epsilon:.6g} at delta {verdict.delta:g}"
    say(f"{shown(folder)}: the statement holds, {promise}")
    if verdict.user_epsilon is not None and not is_store(folder):
        for line in read_statement(as_path(folder, "folder")).get("notes", ()):
            if "released so far" in line:
                say(f"  {line}")
    if not verdict.private:
        say("NOT PRIVATE: the noise was drawn from a known seed")
    for note in verdict.notes:
        say(f"Note: {as_options(note)}.")


@command("statement")
def statement(folder: str, form: str = "text") -> None:
    """Print a run's privacy statement, for a reader, a registry or a reviewer.

    It repeats what privacy.json says; `fastdp verify` checks it.
    """
    from ..privacy.forms import as_form
    from ..run.loading import load_run

    privacy = load_run(folder).privacy
    if form == "json":
        emit(privacy)
        return
    shown = as_form(privacy, form)
    print_result(shown, shown, not isinstance(shown, str))


@command("answer")
def answer(
    run: str,
    question: str,
    where: str | None = None,
    level: float = 0.95,
    simultaneous: bool = False,
    population: bool = False,
    basis: str | None = None,
    as_json: bool = False,
) -> None:
    """Answer a question about the true rows from what a run released, with intervals.

    Conditions are COLUMN = VALUE, COLUMN in A, B, C or COLUMN in LOW..HIGH (LOW <= value < HIGH),
    also COLUMN with >=, >, < or <=, joined by and. It reads the run folder alone and
    costs no budget. A row whose basis is unknown has no interval; its note says why.
    """
    from .._util.texttable import table as lines
    from ..answers.answer_table import interval_note
    from ..answers.question import parsed
    from ..run.loading import load_run

    joined = "and" if " where " in question else "where"
    of, by, conditions = parsed(question if where is None else f"{question} {joined} {where}")
    found = load_run(run).answer(
        of, by, conditions, level, simultaneous=simultaneous, population=population, basis=basis
    )
    sentence = interval_note(found.table, level, simultaneous)
    if as_json:
        emit({"rows": found.to_pylist(), "intervals": sentence})
        return
    shown = ["estimate", "low", "high", "basis"]
    rows = [
        [*group, *(_text(row[name]) for name in shown)]
        for group, row in zip(found.keys(), found.to_pylist())
    ]
    say("\n".join(lines([[*by, *shown], *rows], left=len(by))))
    for note in found.notes:
        say(as_options(note))
    say(sentence)


@command("numbers")
def numbers(run: str, csv: bool = False, as_json: bool = False) -> None:
    """Print the numbers that a run was asked for, with their intervals.

    They were measured directly from the true rows (synth --numbers), and may be quoted. It reads
    the run folder alone and costs no budget.
    """
    from .._util.texttable import table as lines
    from ..errors import UsageError
    from ..numbers.number_words import NOTE, table_rows
    from ..run.loading import load_run

    found = load_run(run).numbers
    if found is None:
        raise UsageError(
            f"{run}: the run was asked for no numbers; ask before a run: synth --numbers"
        )
    rows = found.to_pylist()
    if as_json:
        emit({"numbers": rows, "intervals": NOTE})
    elif csv:
        _print_csv(found.column_names, rows)
    else:
        shown = table_rows(rows)
        say("\n".join(lines(shown, left=shown[0].index("estimate") if shown else 0)))
        say(NOTE)


def _print_csv(names: list[str], rows: list[dict[str, Any]]) -> None:
    import csv
    import sys

    waiting.clear()
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([["" if row[n] is None else row[n] for n in names] for row in rows])


@command("sample")
def sample(
    run: str,
    out: Path,
    rows: int | None = None,
    given: list[str] | None = None,
    where: str | None = None,
    balance: list[str] | None = None,
    nulls: str = "fill",
    seed: int | None = None,
    as_json: bool = False,
) -> None:
    """Write further synthetic rows of a run: any, those that match conditions, or partial rows
    completed.

    Conditions are COLUMN = VALUE, COLUMN in A, B, C or COLUMN in LOW..HIGH (LOW <= value < HIGH),
    also COLUMN with >=, >, < or <=, joined by and. Rows are drawn from the run's model
    given the conditions, however rare they are; no budget is spent. With --given, every row of a
    file comes back with all columns. Of linked tables, give the parents as TABLE=FILE; --out is
    then a folder with a file for each table. The result is about the given rows: if they are
    private, so is it.
    """
    from ..answers.question import conditions
    from ..errors import UsageError
    from ..run.linked_result import LinkedRun
    from ..run.loading import load_run
    from ..run.run_files import write_rows

    if bool(given) == (rows is not None):
        raise UsageError("give either --rows, or --given with a file of partial rows")
    if given and (where or balance):
        raise UsageError("--given completes the rows of a file; leave out --where and --balance")
    loaded = load_run(run)
    if isinstance(loaded, LinkedRun):
        _complete_linked(loaded, given, out, nulls, seed, as_json)
        return
    if given:
        if len(given) > 1:
            raise UsageError(f"--given: expected one file, got {len(given)}")
        made = loaded.complete(Path(given[0]), seed, nulls=nulls)
    else:
        weights = dict.fromkeys(balance or (), "equal")
        made = loaded.sample(rows, seed, conditions(where), weights=weights or None)
    write_rows(made.to_reader(), out)
    facts = {"rows": made.num_rows, "out": str(out)}
    print_result(facts, f"{out}: {plural(made.num_rows, 'synthetic row')}", as_json)


def _complete_linked(
    run: Any,
    given: list[str] | None,
    out: Path,
    nulls: str,
    seed: int | None,
    as_json: bool,
) -> None:
    """Complete the tables of a `LinkedRun`, and write each to its file in a new folder."""
    from ..errors import UsageError
    from ..run.run_files import write_rows

    parts = [item.partition("=") for item in given or ()]
    if not parts or not all(equals for _, equals, _ in parts):
        first = next(iter(run.runs))
        raise UsageError(
            f"this run holds the tables {', '.join(run.runs)}: give the parents as TABLE=FILE, such "
            f"as --given {first}={first}.parquet"
        )
    if out.exists():
        raise UsageError(f"{out} exists already; --out of linked tables is a new folder")
    made = run.complete({name: Path(path) for name, _, path in parts}, seed, nulls=nulls)
    out.mkdir(parents=True)
    for name, rows in made.items():
        write_rows(rows.to_reader(), out / f"{name}.parquet")
    facts = {"rows": {name: rows.num_rows for name, rows in made.items()}, "out": str(out)}
    listed = ", ".join(f"{rows.num_rows:,} of {name}" for name, rows in made.items())
    print_result(facts, f"{out}: {listed}", as_json)


@command("predict")
def predict(run: str, given: Path, target: str, out: Path, as_json: bool = False) -> None:
    """Write the probabilities of a column's values for the rows of a file, under a run's model.

    Columns that the file lacks, and nulls, are not used. No budget is spent. The result is about
    the rows of the file: if they are private, so is it.
    """
    from ..run.loading import load_run
    from ..run.run_files import write_rows

    made = load_run(run).predict(given, target)
    write_rows(made.to_reader(), out)
    facts = {"rows": made.num_rows, "values": made.num_columns, "out": str(out)}
    print_result(facts, f"{out}: {plural(made.num_rows, 'row')} of probabilities", as_json)


def _text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return str(value)
