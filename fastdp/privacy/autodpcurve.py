"""autodp's analytic Gaussian curve, asked in this process or in a process of its own.

Importing autodp takes 0.9 s of one core (it brings scipy.stats). Within `beside()` a process of its own
imports it while the caller goes on: a command whose first second is imports too does not wait for it. The
answer is the same number, and whoever needs it waits for it. Where that process does not answer, this one
does.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.util import find_spec
from pathlib import Path

from ..errors import PrivacyError

BOOT = "from fastdp.privacy.autodpcurve import main; main()"
IDLE = 2
"""Seconds after its last answer for which the process stays: all epsilons of a run are checked at once."""
PATIENCE = 30.0
"""Seconds after which the process is ended and this one computes: many times an import on a busy machine."""


def epsilon(mu: float, delta: float) -> tuple[str, float] | None:
    """autodp's name and its epsilon of a Gaussian event `mu` at `delta`; None where it cannot be imported."""
    child = _CHILD.get()
    answer = None if child is None else _asked(child, mu, delta)
    return _computed(mu, delta) if answer is None else answer


def _computed(mu: float, delta: float) -> tuple[str, float] | None:
    try:
        import autodp.rdp_acct  # noqa: F401  must come first: autodp's own imports are circular otherwise
        from autodp import dp_bank
    except ImportError:
        return None
    from importlib.metadata import version

    try:
        value = float(dp_bank.get_eps_ana_gaussian(1.0 / mu, delta))
    except (RuntimeError, ValueError, AssertionError) as error:
        raise PrivacyError("the second accountant (autodp) gave no answer; nothing was drawn") from error
    return f"autodp {version('autodp')}", value


_CHILD: ContextVar[subprocess.Popen[bytes] | None] = ContextVar("fastdp_autodp_process", default=None)


@contextmanager
def beside() -> Iterator[None]:
    """Within it `epsilon` is answered by a process of its own, which imports autodp from now on. Nothing is
    started where autodp is imported already or absent, or where there is one processor."""
    child = None
    if "autodp" not in sys.modules and find_spec("autodp") is not None and (os.cpu_count() or 1) > 1:
        paths = [str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])]
        try:
            child = subprocess.Popen(
                [sys.executable, "-P", "-c", BOOT],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OPENBLAS_NUM_THREADS": "1"},
            )
        except OSError:
            child = None
    token = _CHILD.set(child)
    try:
        yield
    finally:
        _CHILD.reset(token)
        if child is not None:
            child.kill()
            child.communicate()


def _asked(child: subprocess.Popen[bytes], mu: float, delta: float) -> tuple[str, float] | None:
    """The child's answer; None where it has none."""
    assert child.stdin is not None and child.stdout is not None
    try:
        child.stdin.write(f"{mu.hex()} {delta.hex()}\n".encode())
        child.stdin.flush()
        if not select.select([child.stdout], [], [], PATIENCE)[0]:
            child.kill()
            return None
        name, value = json.loads(child.stdout.readline())
        return str(name), float.fromhex(value)
    except (OSError, ValueError, TypeError):
        return None


def main() -> None:
    """The child: imports autodp, then answers every line "mu delta" (hexadecimal floats) by a line [name,
    epsilon], or by null where there is no answer. It ends with its input, or `IDLE` seconds after an answer.
    """
    gc.disable()  # it imports, and ends
    _computed(1.0, 1e-6)
    for line in sys.stdin:
        mu, delta = map(float.fromhex, line.split())
        try:
            answer = _computed(mu, delta)
        except PrivacyError:
            answer = None
        sys.stdout.write(json.dumps(None if answer is None else [answer[0], answer[1].hex()]) + "\n")
        sys.stdout.flush()
        signal.alarm(IDLE)
