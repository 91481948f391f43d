"""Other libraries, each in a virtual environment of its own, so that versions do not clash.

`python -m bench.scoreboard --install` makes the environments in bench/out/peers and keeps in the
store what could not be installed, with pip's last words.
"""

from __future__ import annotations

import ctypes
import json
import math
import os
import re
import resource
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "out" / "peers"
PROGRAM = Path(__file__).with_name("peer_program.py")
INSTALL_SECONDS = 1800
CLOCK = 3.0
"""How many times its limit of the processor a run may take by the clock, on a busy machine."""
PR_SET_PDEATHSIG = 1
"""Of prctl(2): the signal that a process gets when its parent ends."""


@dataclass(frozen=True)
class Library:
    """package: whose version counts. requirements: what pip gets. mechanisms: those that take
    part."""

    package: str
    requirements: tuple[str, ...]
    mechanisms: tuple[str, ...] = ("MST", "AIM")


LIBRARIES = {
    "mbi": Library("mbi", ("mbi==2.0.0", "pandas")),
    "opendp": Library("opendp", ("opendp[mbi]", "pandas", "pyarrow")),
    "dpmm": Library("dpmm", ("dpmm",), ("MST", "MST-500", "AIM")),
    "smartnoise": Library("smartnoise-synth", ("smartnoise-synth",)),
    "private-pgm": Library("private-pgm", ("private-pgm",), ()),
    "dpsynth": Library("dpsynth", ("dpsynth",), ()),
    "sdmetrics": Library("sdmetrics", ("sdmetrics>=0.17,<1",), ()),
}
"""mbi's package has estimators and no mechanisms: `mbi_mechanisms` has them as published. The
original programs of MST and AIM (private-pgm) and those of Google (dpsynth) are tried too. dpmm's MST
takes 5,000 iterations and is seldom done in a limit; with 500 it takes part as MST-500. sdmetrics
makes no rows: it gives a measure (`measures`), in its own environment since it needs pandas before 3."""
NAMES = tuple(f"{name} {kind}" for name, one in LIBRARIES.items() for kind in one.mechanisms)


def python(library: str) -> Path:
    return FOLDER / library / "bin" / "python"


def command(library: str) -> tuple[str, ...]:
    return str(python(library)), str(PROGRAM)


def version(library: str) -> str:
    """The version that is installed; empty if none is."""
    if not (python(library).exists() and (FOLDER / f"{library}.version").is_file()):
        return ""
    return (FOLDER / f"{library}.version").read_text("utf-8").strip()


def installed() -> list[str]:
    return [name for name in LIBRARIES if version(name)]


def install(names: list[str], report: Path) -> dict[str, str]:
    """Makes the environments that are not there yet. Returns what happened by library, and keeps
    it in `report` beside what it holds of others."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    found = json.loads(report.read_text("utf-8")) if report.is_file() else {}
    for name in names:
        print(f"{name}: making its environment", file=sys.stderr, flush=True)
        start = time.monotonic()
        reason = _make(name)
        seconds = time.monotonic() - start
        found[name] = reason or f"{LIBRARIES[name].package} {version(name)}"
        print(f"{name}: {found[name]} ({seconds:.0f} s)", file=sys.stderr, flush=True)
    report.parent.mkdir(parents=True, exist_ok=True)
    report.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    return found


def _make(name: str) -> str | None:
    """None if the library is installed at the end, else why it is not."""
    library = LIBRARIES[name]
    if version(name):
        return None
    done = _run([sys.executable, "-m", "venv", str(FOLDER / name)])
    pip = [str(python(name)), "-m", "pip", "install", "-q", "--no-compile"]
    done = done or _run([*pip, *library.requirements])
    if done is not None:
        return f"not installed: {done}"
    asked = f"from importlib.metadata import version; print(version({library.package!r}))"
    shown = subprocess.run([str(python(name)), "-c", asked], capture_output=True, text=True)
    (FOLDER / f"{name}.version").write_text(shown.stdout, "utf-8")
    return None


def _run(words: list[str]) -> str | None:
    """None, or the last line of error of a command that failed."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=INSTALL_SECONDS)
    except subprocess.TimeoutExpired:
        return f"not done in {INSTALL_SECONDS} s"
    if done.returncode == 0:
        return None
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    errors = [line for line in lines if line.lower().startswith("error")]
    return (errors or lines or ["it failed without a word"])[-1].strip()[:200]


@dataclass(frozen=True)
class Ended:
    """How a child process ended. reason: None if it ended well."""

    reason: str | None
    peak_mb: float


def limited(words: tuple[str, ...], limit: float, log: Path) -> Ended:
    """Runs a command that may use `limit` seconds of the processor, and `CLOCK` times as many by the
    clock. Its peak memory is what the system says of the child and its children."""
    with log.open("wb") as sink:
        child = subprocess.Popen(
            words,
            stdout=sink,
            stderr=sink,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=lambda: _limit_processor(limit),
        )
    until = time.monotonic() + CLOCK * limit
    late = False
    while True:
        done, status, usage = os.wait4(child.pid, os.WNOHANG)
        if done:
            break
        if time.monotonic() > until and not late:
            os.killpg(child.pid, signal.SIGKILL)
            late = True
        time.sleep(0.05)
    child.returncode = os.waitstatus_to_exitcode(status)
    peak_mb = usage.ru_maxrss / 1024
    if late:
        used = usage.ru_utime + usage.ru_stime
        reason = f"not done in {CLOCK * limit:g} s, {used:.0f} s of the processor"
        return Ended(reason, peak_mb)
    if child.returncode in (-signal.SIGKILL, -signal.SIGXCPU):
        return Ended(f"not done in {limit:g} s of the processor", peak_mb)
    if child.returncode:
        return Ended(_last_words(log.read_text("utf-8", "replace")), peak_mb)
    return Ended(None, peak_mb)


def _last_words(text: str) -> str:
    """What a program said from its last error on, in one line; else its last line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [i for i, line in enumerate(lines) if re.match(r"[\w.]*(Error|Exception)\b", line)]
    if errors:
        return " ".join(lines[errors[-1] :])[:200]
    return (lines or ["it failed without a word"])[-1][:200]


def _limit_processor(seconds: float) -> None:
    """In the child: a limit of processor seconds, and an end together with its parent."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    bound = math.ceil(seconds)
    resource.setrlimit(resource.RLIMIT_CPU, (bound, bound))
