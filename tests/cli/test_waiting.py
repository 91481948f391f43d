"""Commands that are silent for long show on a terminal that they work."""

import io
import sys
import threading

from fastdp.cli import common, parser, waiting
from fastdp.cli.show import progress_for


class Terminal(io.StringIO):
    def isatty(self):
        return True


def terminal(monkeypatch):
    """A terminal as standard error, and a line that appears at once. In the test itself: pytest
    sets its own standard error after the fixtures."""
    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    monkeypatch.setattr(waiting, "SILENT", 0.0)
    monkeypatch.setattr(waiting, "BEAT", 0.001)
    return shown


def run(monkeypatch, *arguments):
    """Call a command that works until its line is there, or a second where there is none."""
    written = threading.Event()
    real = waiting.Waiting.tick

    def tick(self):
        real(self)
        written.set()

    def slow(as_json: bool = False) -> None:
        """Wait."""
        written.wait(10.0 if waiting.CURRENT else 0.0)
        common.say("done")

    monkeypatch.setattr(waiting.Waiting, "tick", tick)
    monkeypatch.setitem(parser.COMMANDS, ("slow",), slow)
    monkeypatch.setitem(parser.HELP, "slow", {"examples": ""})
    parser.call(["slow", *arguments])
    assert waiting.CURRENT is None


def test_a_silent_command_shows_that_it_works_until_it_prints(monkeypatch):
    """`plan` is silent for seconds on a busy machine while it imports what it needs."""
    shown = terminal(monkeypatch)
    run(monkeypatch)
    text = shown.getvalue()
    assert "fastdp slow: working, 0." in text
    assert text.endswith(waiting.ERASE), "the line must not stay beside what is printed"
    assert sys.stdout.getvalue() == "done\n"


def test_a_log_and_a_program_get_no_such_line(monkeypatch):
    shown = terminal(monkeypatch)
    run(monkeypatch, "--json")
    shown.isatty = lambda: False
    run(monkeypatch)
    assert shown.getvalue() == ""


def test_the_line_ends_where_a_command_shows_its_own_progress(monkeypatch):
    shown = terminal(monkeypatch)
    with waiting.waiting("synth", False):
        line = waiting.CURRENT
        with progress_for(True, "auto"):
            before = shown.getvalue()
            line.tick()
            assert shown.getvalue() == before
            assert not before or before.endswith(waiting.ERASE)
