"""One night of private synthetic data: a script to copy, for cron or any scheduler.

    python nightly.py nightly.toml --date 2026-01-31

Every date gets one run folder and is charged once against a lifetime budget. The script is safe to
start again at any time: it continues a run that was killed, and leaves a finished night alone. It
writes one JSON event per line on standard output. Nothing in an event depends on private rows,
except the time that passes and what noisy answers decide. docs/guide/nightly.md explains the exit
codes, of which those below are the script's own.
"""

import argparse
import datetime
import json
import signal
import sys
import tomllib
from pathlib import Path

import fastdp
from fastdp.errors import BudgetError, FastdpError, StoppedEarly

DONE = 0
NO_DELIVERY = 20
STOPPED = 143

OUTSIDE = 0.01
"""An event names the columns in which at least this share of the rows lies outside the schema."""


def emit(event: str, **facts: object) -> None:
    """Write one event."""
    print(json.dumps({"event": event, **facts}, default=str), flush=True)


class Night:
    """One date: where its delivery is, and where its run folder goes."""

    def __init__(self, settings: dict, base: Path, date: str):
        self.settings = settings
        self.date = date
        self.source = base / settings["source"].format(date=date)
        self.schema = base / settings["schema"]
        self.ledger = base / settings["ledger"]
        self.out = base / settings["folder"] / date
        self.private = Path(f"{self.out}.private")
        self.held = self.ledger.parent / f"held-{date}.json"

    @property
    def finished(self) -> bool:
        return (self.out / "privacy.json").exists() and not self.begun

    @property
    def begun(self) -> bool:
        """Whether a run of this date was started and not ended: it is continued, with its noise."""
        return (self.private / "state.json").exists()

    def say(self, event: str, **facts: object) -> None:
        emit(event, date=self.date, **facts)

    def run(self, again: bool) -> int:
        """Make this night's rows, unless they are there. Returns the exit code."""
        if self.finished:
            fastdp.verify(self.out, ledger=self.ledger)
            self.say("already", out=self.out)
            return DONE
        if self.held.exists() and not again:
            facts = json.loads(self.held.read_text())
            self.say("held", text=facts["text"], remove=self.held)
            return StoppedEarly.exit_code
        if not self.source.exists() and not self.begun:
            self.say("no-delivery", source=self.source)
            return NO_DELIVERY
        try:
            run = self._synthesize()
        except StoppedEarly as error:  # part of the budget is spent: a person must look first
            self.held.write_text(json.dumps({"text": str(error)}))
            raise
        fastdp.verify(run.out, ledger=self.ledger)
        self.held.unlink(missing_ok=True)
        self._report(run)
        return DONE

    def _synthesize(self) -> fastdp.Run:
        resume = self.begun
        self.say("start", resume=resume)
        return fastdp.synthesize(
            self.source,
            self.settings["mechanism"],
            self.settings["epsilon"],
            self.settings["delta"],
            schema=self.schema,
            ledger=self.ledger,
            dataset=self.settings["dataset"],
            out=self.out,
            resume=resume,
            progress=Stages(self),
        )

    def _report(self, run: fastdp.Run) -> None:
        """Events about a finished run. All of them follow from what was released."""
        before = sorted(self.out.parent.glob("*/schema.json"))
        before = [file for file in before if file.parent.name < self.date]
        if before and fastdp.Schema.load(before[-1]) != run.schema:
            self.say("schema-changed", since=before[-1].parent.name)
        for column in run.schema.domain:
            for row in run.answer("share", by=[column]).to_pylist():
                new = f"{column}: values outside the schema" in row["note"]
                if new and (row["low"] or 0) > OUTSIDE:  # None: the interval is unknown
                    facts = {"column": column, "share": row["estimate"], "low": row["low"]}
                    self.say("outside-schema", **facts)
        notes = run.privacy.get("notes", [])
        self.say("done", out=run.out, rows=run.dataset.count_rows(), notes=notes)


class Stages:
    """A progress callback that writes an event for each stage of a run."""

    def __init__(self, night: Night):
        self.night = night
        self.stage = ""

    def __call__(self, progress) -> None:
        if progress.stage != self.stage:
            self.stage = progress.stage
            self.night.say("progress", stage=progress.stage, fraction=round(progress.fraction, 3))


def open_budget(settings: dict, base: Path) -> None:
    """Open the lifetime budget on the first night; an existing one is left as it is."""
    ledger = base / settings["ledger"]
    ledger.parent.mkdir(parents=True, exist_ok=True)
    if not ledger.exists():
        fastdp.Ledger(ledger).open(settings["dataset"], **settings["budget"])


def nights_to_run(settings: dict, base: Path, date: str) -> list[str]:
    """Earlier nights that were begun and not ended, then this one."""
    states = (base / settings["folder"]).glob("*.private/state.json")
    begun = [file.parent.name.removesuffix(".private") for file in states]
    return [*sorted(name for name in begun if name < date), date]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("settings", type=Path)
    parser.add_argument("--date", default=datetime.date.today().isoformat())
    parser.add_argument("--again", action="store_true", help="run a night that is held")
    given = parser.parse_args(arguments)
    settings = tomllib.loads(given.settings.read_text())
    base = given.settings.resolve().parent

    def stop(number, frame):
        raise SystemExit(STOPPED)

    signal.signal(signal.SIGTERM, stop)
    code = DONE
    date = given.date
    try:
        open_budget(settings, base)
        for date in nights_to_run(settings, base, given.date):
            code = Night(settings, base, date).run(given.again)
            if code != DONE:
                return code
    except BudgetError as error:
        emit("budget-spent", date=date, text=str(error))
        return error.exit_code
    except FastdpError as error:
        kind = type(error).__name__
        emit("failed", date=date, kind=kind, exit_code=error.exit_code, text=str(error))
        return error.exit_code
    return code


if __name__ == "__main__":
    sys.exit(main())
