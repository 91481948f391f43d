"""The program: commands parse their arguments, call the library and print the result. Nothing is
computed here."""

import os
import sys
from pathlib import Path

from ..errors import FastdpError, ModelTooLargeError, UsageError, did_you_mean
from . import (
    catalog_commands,
    completion,
    events,
    interrupt,
    ledger_commands,
    plan_command,
    released_commands,
    schemas,
    synth_command,
    truth_commands,
)
from .common import as_options, emit, print_result, say, warn
from .linked_options import write_tables
from .parser import FLAGS, call, command

REGISTERED = (
    catalog_commands,
    completion,
    ledger_commands,
    plan_command,
    released_commands,
    schemas,
    synth_command,
    truth_commands,
)
"""Modules that add their commands and flags to the parser's when they are imported."""


@command("simulate")
def simulate(
    kind: str, rows: int, out: Path, seed: int = 0, year: int | None = None, as_json: bool = False
) -> None:
    """Simulated tables to try things on; no real record inside."""
    from .. import simulate as simulators

    kinds = ("taxi", "incidents", "census", "flights", "households", "purchases")
    maker = getattr(simulators, kind, None) if kind in kinds else None
    if maker is None:
        raise UsageError(f"there is no simulator {kind!r}{did_you_mean(kind, kinds)}")
    if rows < 0:
        raise UsageError(f"--rows must be >= 0, got {rows}")
    extra = {} if year is None else {"year": year}
    if extra and kind in ("census", "households", "purchases"):
        raise UsageError("--year is for taxi, incidents and flights")
    write_tables(maker(rows, seed=seed, **extra), out)
    if as_json:
        emit({"out": str(out), "kind": kind, "rows": rows, "seed": seed, **extra})


@command("calibrate")
def calibrate(
    epsilon: float,
    delta: float,
    sensitivity: float = 1.0,
    count: int = 1,
    method: str = "gdp",
    as_json: bool = False,
) -> None:
    """The noise scale for a budget, rounded up."""
    from ..privacy.calibrate import calibrate as sigma_of

    sigma = sigma_of(epsilon, delta, sensitivity, count, method)
    print_result({"sigma": sigma, "method": method}, repr(sigma), as_json)


@command("doctor")
def doctor(as_json: bool = False) -> None:
    """Show what is installed: version, kernels, threads, packages.

    Exit code 1 if something is wrong.
    """
    from .doctor import facts, text

    report = facts()
    print_result(report, text(report), as_json)
    if report["problems"]:
        sys.exit(1)


def version() -> None:
    from .. import __version__

    say(f"fastdp {__version__}")


FLAGS["--version"] = version


def main(arguments: list[str] | None = None) -> None:
    """Run the program. Exit code: 0, or the code of the error's class (see fastdp.errors); 130
    after Ctrl-C, 143 after SIGTERM."""
    arguments = sys.argv[1:] if arguments is None else arguments
    interruption = interrupt.begin(arguments)
    try:
        with interruption.heard():
            call(arguments)
            sys.stdout.flush()
    except interrupt.Stopped:
        interruption.end()
    except BrokenPipeError:  # `fastdp ledger show ... | head`: nobody reads the rest
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(1)
    except FastdpError as error:
        interruption.end()
        text = interruption.with_commands(as_options(str(error)))
        if "--json" in arguments:
            kind = type(error).__name__
            emit({"error": {"kind": kind, "text": text, "exit_code": error.exit_code}})
        if events.asked_for(arguments):
            events.failed(type(error).__name__, text, error.exit_code, interruption.status)
        warn(text)
        sys.exit(error.exit_code)
    except MemoryError:
        interruption.end()
        text = interruption.out_of_memory()
        code = ModelTooLargeError.exit_code
        if events.asked_for(arguments):
            events.failed("MemoryError", text, code, interruption.status)
        warn(text)
        sys.exit(code)
