"""A pytest plugin that reads test files once and then runs chosen tests in forked processes.

A line of JSON on the file descriptor MUTANTS_READ asks for one run: `tests` in their order with the
seconds that each may take, whether to `stop` at the first failure, and the file (`path`, or null)
whose functions get the code of its text on disk. The answer on MUTANTS_WRITE is a list of the tests
that failed, or NO_END or "exit CODE" in their place. A test that takes longer than its seconds ends
the process.
"""

from __future__ import annotations

import contextlib
import faulthandler
import functools
import gc
import json
import os
import signal
import tempfile
from collections import Counter
from pathlib import Path
from types import CodeType, FunctionType
from typing import IO, Any, NoReturn

import pytest
from hypothesis import Phase, settings

NO_END = "no end"


def pytest_configure() -> None:
    """One failing example is enough: no time goes into smaller ones."""
    phases = (Phase.explicit, Phase.generate)
    settings.register_profile(
        "mutants", settings.default, phases=phases, report_multiple_bugs=False
    )
    settings.load_profile("mutants")


def pytest_runtestloop(session: pytest.Session) -> bool:
    with (
        open(int(os.environ["MUTANTS_READ"])) as requests,
        open(int(os.environ["MUTANTS_WRITE"]), "w") as out,
    ):
        for line in requests:
            with tempfile.TemporaryFile("w+") as failed, tempfile.TemporaryFile("w+") as late:
                child = os.fork()
                if not child:
                    _run(session, json.loads(line), failed, late)
                try:
                    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
                finally:
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(child, signal.SIGKILL)  # and what the tests have left behind
                failed.seek(0)
                hung = os.fstat(late.fileno()).st_size > 0
                answer = json.load(failed) if not code else [NO_END if hung else f"exit {code}"]
            print(json.dumps(answer), file=out, flush=True)
    return True


def _run(session: pytest.Session, request: dict[str, Any], out: IO[str], late: IO[str]) -> NoReturn:
    code = 3
    try:
        os.setsid()
        if request["path"]:
            exchange(Path(request["path"]))
        place = {name: n for n, name in enumerate(request["tests"])}
        items = sorted(
            (i for i in session.items if i.nodeid in place), key=lambda i: place[i.nodeid]
        )
        # Their files cannot be read any more.
        failed = [*(place.keys() - {i.nodeid for i in items})]
        for item, after in zip(items, [*items[1:], None]):
            before = session.testsfailed
            faulthandler.dump_traceback_later(request["tests"][item.nodeid], exit=True, file=late)
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
            faulthandler.cancel_dump_traceback_later()
            if session.testsfailed > before:
                failed.append(item.nodeid)
                if request["stop"]:
                    break
        json.dump(failed, out)
        out.flush()
        code = 0
    finally:
        os._exit(code)


def exchange(path: Path) -> None:
    """Gives every living function of a file the code of the file's text now."""
    new = {_key(code): code for code in _codes(path, path.read_bytes())}
    for thing in gc.get_objects():
        if isinstance(thing, FunctionType) and thing.__code__.co_filename == str(path):
            thing.__code__ = new[_key(thing.__code__)]
        elif isinstance(thing, functools._lru_cache_wrapper) and thing.__module__.startswith(
            "fastdp"
        ):
            thing.cache_clear()


def exchangeable(path: Path, old: bytes, new: bytes) -> bool:
    """Whether a file's functions can be told apart, and are the same ones in both texts."""
    keys = [Counter(map(_key, _codes(path, text))) for text in (old, new)]
    return keys[0] == keys[1] and max(keys[0].values()) == 1


def _codes(path: Path, text: bytes) -> list[CodeType]:
    """The code of every function of a text that can outlive a call."""
    out = [compile(text, str(path), "exec", dont_inherit=True)]
    for code in out:
        out += [c for c in code.co_consts if isinstance(c, CodeType) and c.co_name not in PASSING]
    return out


PASSING = ("<genexpr>", "<listcomp>", "<setcomp>", "<dictcomp>")


def _key(code: CodeType) -> tuple[object, ...]:
    return (
        code.co_qualname,
        code.co_firstlineno,
        code.co_varnames[: code.co_argcount],
        code.co_freevars,
    )
