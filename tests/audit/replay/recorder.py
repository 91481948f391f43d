"""Records a run's steps where it charges and draws, and replays one run's answers in another.

`Recorder()` records run A. `Recorder(first=A)` gives run B the noisy vectors of A. Both patch
`release.steps.Steps.answer`, the functions of `privacy.noise`, `privacy.tail` and `privacy.select`
that draw, and the engine that a session counts with.
"""

import hashlib
import itertools
import logging
import os
import secrets
import uuid
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from unittest.mock import patch

import numpy as np

from fastdp.privacy import crosscheck, ledger, noise, select, tail
from fastdp.privacy.accountant import Event
from fastdp.release import filtered_marginals, keyselect
from fastdp.release.gateway import Session
from fastdp.release.steps import Steps

BELOW = -(1 << 61)
"""A noisy count that passes no threshold, in grid units."""


@dataclass
class Draw:
    """One vector of noise, or one selection. `exact`: what noise was added to (or the scores);
    `keys`: what the entries belong to where the data decide it; `noisy`: their sum (or the index
    that was selected); `facts`: public arguments, which must be equal in both runs."""

    law: str
    width: np.ndarray
    exact: np.ndarray | None = None
    noisy: Any = None
    keys: list | None = None
    facts: dict = field(default_factory=dict)


@dataclass
class Step:
    """One call of `Steps.answer`. `arrays`: what its draw returned, before it was stored."""

    part: int
    number: int
    label: str
    question: dict
    events: list[Event]
    count: int
    draws: list[Draw] = field(default_factory=list)
    arrays: list[np.ndarray] | None = None
    keys: list | None = None
    about: str = ""

    @property
    def kind(self) -> str:
        """The release, as `Steps.answer` was asked for it; used to group figures."""
        kind = str(self.question.get("kind", "?"))
        return f"{kind} {self.about}" if self.about else kind


class Recorder:
    """What one run did. `steps` in order; `problems`: what no run may do; `released`: names to
    bytes of everything that leaves the run; `error`: its type and text. `on_disk`: the run's own
    ledger is a file, which a resumed run needs and which takes a hundred times as long."""

    def __init__(
        self, first: "Recorder | None" = None, seed: int = 0, on_disk: bool = False
    ) -> None:
        self.first = first
        self.seed = seed
        self.on_disk = on_disk
        self.steps: list[Step] = []
        self.problems: list[str] = []
        self.released: dict[str, bytes] = {}
        self.error = ""
        self.said: list[str] = []
        self._open: Step | None = None
        self._known = 0  # depth of calls that draw in a way the recorder knows
        self._drawn: set[tuple[int, int]] = set()
        self._counter = itertools.count(1)

    # What a step does

    def twin(self) -> Step | None:
        """The step of run A that belongs to the open one of run B."""
        at = len(self.steps)
        if self.first is None or at >= len(self.first.steps):
            return None
        return self.first.steps[at]

    def answer(self, real: Callable, steps: Steps, label, question, events, draw, draws):
        step = Step(steps.part, steps.number, label, question, list(events), draws)

        def recorded() -> list[np.ndarray]:
            place = (step.part, step.number)
            if place in self._drawn:
                self.problem(f"step {label!r}: drawn twice")
            self._drawn.add(place)
            self._open = step
            try:
                step.arrays = [np.array(a) for a in draw()]
            finally:
                self._open = None
            for one in step.draws:
                if one.noisy is None:
                    self.problem(f"step {label!r}: noise was drawn and not added")
            twin = self.twin()
            return step.arrays if twin is None or twin.arrays is None else twin.arrays

        try:
            stored = real(steps, label, question, events, recorded, draws)
        finally:
            self.steps.append(step)
        return stored

    def problem(self, text: str) -> None:
        self.problems.append(text)

    def draw(self, law: str, width: Any, facts: dict) -> tuple[Draw, Draw | None]:
        """A draw of the open step, and that of run A."""
        one = Draw(law, np.array(width, np.float64), facts=facts)
        step = self._open
        twin = self.twin()
        if step is None:
            self.problem(f"{law}: noise drawn outside of a charged step")
            return one, None
        step.draws.append(one)
        at = len(step.draws) - 1
        return one, twin.draws[at] if twin is not None and at < len(twin.draws) else None

    def fresh(self) -> int:
        return self.seed * 1_000_003 + next(self._counter)

    # What replaces the program's own functions

    def noise(self, law: str, real: Callable) -> Callable:
        def drawn(width, size, *, seed=None, threads=None):
            with self.known():
                plain = real(width, size, seed=self.fresh())
            if self._known:
                return plain
            one, before = self.draw(law, width, {"size": size})
            if self._open is not None and self._open.keys is not None:
                one.keys = self._open.keys
                one.facts = {}
                self._open.keys = None
            made = plain.view(Drawn)
            made.recorder = self
            made.one = one
            made.before = before
            return made

        return drawn

    def added(self, one: Draw, before: Draw | None, exact: np.ndarray, drawn: np.ndarray):
        """The noisy vector: of run A its own, of run B that of A."""
        if one.noisy is not None:
            self.problem("the same noise was added twice")
        one.exact = np.array(exact)
        one.noisy = one.exact + drawn
        if before is None or before.noisy is None:
            return one.noisy.copy()
        if one.keys is not None and before.keys is not None:
            known = dict(zip(before.keys, before.noisy.tolist(), strict=True))
            one.noisy = np.array([known.get(k, BELOW) for k in one.keys], np.int64)
        elif before.noisy.shape == one.noisy.shape:
            one.noisy = before.noisy
        return one.noisy.copy()

    def selected(self, real: Callable) -> Callable:
        def exponential(scores, epsilon, sensitivity, *, seed=None):
            one, before = self.draw("exponential", epsilon, {"sensitivity": int(sensitivity)})
            one.exact = np.array(scores)
            with self.known():
                one.noisy = real(scores, epsilon, sensitivity, seed=self.fresh())
            if before is not None and before.exact.shape == one.exact.shape:
                one.noisy = before.noisy
            return one.noisy

        return exponential

    def filtered(self, real: Callable) -> Callable:
        """A marginal of which only cells above a threshold are released: empty cells count as 0,
        with the noise of the others."""

        def noisy(plan, exact, seed):
            cells, sums = exact
            facts = {"threshold": plan.threshold, "cells": plan.size}
            one, before = self.draw("gaussian", plan.sigma, facts)
            one.keys = np.asarray(cells).tolist()
            one.exact = np.array(sums)
            inner: list[tuple] = []
            exceeding = tail.exceeding

            def watched(sigma, threshold, empty, **options):
                inner.append((sigma, threshold, empty))
                return exceeding(sigma, threshold, empty, **options)

            with self.known(), patch.object(tail, "exceeding", watched):
                one.noisy = real(plan, exact, lambda position: self.fresh())
            if inner != [(plan.sigma, plan.threshold, plan.size - len(cells))]:
                self.problem("filtered: empty cells are not drawn as the others are")
            return one.noisy if before is None else before.noisy

        return noisy

    def keyed(self, keys: list) -> None:
        """The next vector of the open step has one entry for each of these keys."""
        if self._open is not None:
            self._open.keys = list(keys)

    def key_counter(self, real: Callable) -> Callable:
        def count_keys(*arguments, **options):
            if self._open is None:
                self.problem("key selection: counted outside of a charged step")
            keys, counts = real(*arguments, **options)
            self.keyed(keys)
            return keys, counts

        return count_keys

    def key_threshold(self, real: Callable) -> Callable:
        def guarded(count, width, bar, seed):
            made = real(count, width, bar, seed)
            if self._open is not None and self._open.draws:
                self._open.draws[-1].facts["threshold"] = bar
            return made

        return guarded

    def random_bits(self, real: Callable) -> Callable:
        def drawn(*arguments, **options):
            if not self._known:
                self.problem("random bits drawn in an unknown way")
            return real(*arguments, **options)

        return drawn

    @contextmanager
    def known(self) -> Iterator[None]:
        self._known += 1
        try:
            yield
        finally:
            self._known -= 1

    def counted(self, what: str, about: str = "") -> None:
        if self._open is None:
            self.problem(f"{what} counted outside of a charged step")
        else:
            self._open.about = self._open.about or about

    # The run

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Everything that the program does here is recorded, errors among it."""
        heard = Heard(self.said)
        stream = Stream(self.seed)
        answer = Steps.answer
        start = Session.__init__

        def answered(steps, *arguments):
            return self.answer(answer, steps, *arguments)

        def started(session, engine, *arguments, **options):
            start(session, Watched(engine, self), *arguments, **options)

        replaced: list[tuple[Any, str, Any]] = [
            (Steps, "answer", answered),
            (Session, "__init__", started),
            (noise, "gaussian", self.noise("gaussian", noise.gaussian)),
            (noise, "laplace", self.noise("laplace", noise.laplace)),
            (noise, "fill_random_bytes", self.random_bits(noise.fill_random_bytes)),
            (noise, "_draw", self.random_bits(noise._draw)),
            (select, "exponential", self.selected(select.exponential)),
            (
                filtered_marginals.FilterPlan,
                "noisy",
                self.filtered(filtered_marginals.FilterPlan.noisy),
            ),
            (keyselect, "count_keys", self.key_counter(keyselect.count_keys)),
            (keyselect, "_guarded", self.key_threshold(keyselect._guarded)),
            (secrets, "randbits", stream.randbits),
            (secrets, "token_bytes", stream.token_bytes),
            (secrets, "token_hex", stream.token_hex),
            (uuid, "uuid4", stream.uuid4),
            (ledger, "_now", lambda: 1_700_000_000),
            (os, "fsync", lambda descriptor: None),
        ]
        if not self.on_disk:
            replaced.append((ledger.Ledger, "local", in_memory(ledger.Ledger.local)))
        with ExitStack() as stack:
            stack.enter_context(patch.object(crosscheck, "agree", agreed_once))
            for owner, name, new in replaced:
                stack.enter_context(patch.object(owner, name, new))
            stack.enter_context(heard.listening())
            try:
                yield
            except Exception as error:
                self.error = told(error)


def agreed_once(events, epsilon: float, delta: float, real=crosscheck.agree) -> Any:
    """The second accountant, asked once for each budget of all runs."""
    return _agreed(tuple(events), epsilon, delta, real)


@cache
def _agreed(events: tuple, epsilon: float, delta: float, real: Callable) -> Any:
    return real(list(events), epsilon, delta)


def in_memory(local: Callable) -> Callable:
    """The ledger of a run that names none, without a file."""
    return staticmethod(lambda path=None, **options: local(None, **options))


def told(error: BaseException | None) -> str:
    """Type and text of an error, and of those that a traceback would show with it."""
    texts = []
    while error is not None:
        texts.append(f"{type(error).__name__}: {error}")
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return "\n".join(texts)


class Drawn(np.ndarray):
    """Noise that may only be added to exact numbers, once."""

    recorder: Recorder
    one: Draw
    before: Draw | None

    def __array_finalize__(self, made: Any) -> None:
        for name in ("recorder", "one", "before"):
            setattr(self, name, getattr(made, name, None))

    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        plain = [np.asarray(x).view(np.ndarray) if isinstance(x, Drawn) else x for x in inputs]
        mine = [i for i, x in enumerate(inputs) if isinstance(x, Drawn)]
        if ufunc is not np.add or method != "__call__" or len(mine) != 1 or self.recorder is None:
            if self.recorder is not None:
                self.recorder.problem(f"noise was used in {ufunc.__name__}, not added")
                self.one.noisy = 0
            return getattr(ufunc, method)(*plain, **options)
        exact = np.broadcast_to(plain[1 - mine[0]], self.shape)
        return self.recorder.added(self.one, self.before, exact, plain[mine[0]])


class Watched:
    """A session's engine; what it counts outside of a step is a problem."""

    def __init__(self, engine: Any, recorder: Recorder):
        self._engine = engine
        self._recorder = recorder

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._engine, name)
        if name == "half_tables":  # only some engines have it
            return self._half_tables(found)
        return found

    def _half_tables(self, real: Callable) -> Callable:
        def counted(*arguments, **options):
            self._recorder.counted("sets of columns were", "by bits")
            return real(*arguments, **options)

        return counted

    def marginals(self, *arguments, **options):
        view = getattr(self._engine, "view", None)
        self._recorder.counted("a marginal was", "" if view is None else type(view).__name__)
        return self._engine.marginals(*arguments, **options)

    def user_histogram(self, key, *arguments, **options):
        self._recorder.counted("a histogram of users was", type(key).__name__)
        return self._engine.user_histogram(key, *arguments, **options)

    def user_sums(self, plan, *arguments, **options):
        self._recorder.counted("users' values were", type(plan.encoding).__name__)
        return self._engine.user_sums(plan, *arguments, **options)


class Stream:
    """The operating system's random numbers, the same in every run."""

    def __init__(self, seed: int):
        self.seed = seed
        self.count = itertools.count()

    def token_bytes(self, size: int | None = None) -> bytes:
        name = f"{self.seed}:{next(self.count)}"
        return hashlib.shake_256(name.encode()).digest(size or 32)

    def token_hex(self, size: int | None = None) -> str:
        return self.token_bytes(size).hex()

    def randbits(self, bits: int) -> int:
        return int.from_bytes(self.token_bytes(bits // 8 + 1)) >> (8 - bits % 8)

    def uuid4(self) -> uuid.UUID:
        return uuid.UUID(bytes=self.token_bytes(16), version=4)


class Heard(logging.Handler):
    """Log lines and warnings of fastdp."""

    def __init__(self, said: list[str]):
        super().__init__(logging.INFO)
        self.said = said

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(f"{record.levelname}: {record.getMessage()}")

    @contextmanager
    def listening(self) -> Iterator[None]:
        log = logging.getLogger("fastdp")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            log.addHandler(self)
            try:
                yield
            finally:
                log.removeHandler(self)
                self.said += [f"{w.category.__name__}: {w.message}" for w in caught]
