"""What `verify` reads of released answers: each has the noise and the hash that it should have.

Answers are read batch by batch, in bounded memory; every problem is a text, never raised.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, groupby
from pathlib import Path

import numpy as np
from msgspec import Struct, field

from .._util.lazy import pa, pq
from ..answers.measurements_file import measured_path
from ..errors import RunError
from ..measurement import SCALE
from .parquet_limits import batches, bounded_file
from .strict_json import read_json

MOST_ROWS = 1 << 33
KEPT_ROWS = 1 << 12
"""Measurements with at most this many answers keep them as numbers: enough for a histogram of rows
per user."""


class Answered(Struct):
    """One measurement of a folder, from its entry in measurements.json and its rows; `release` is
    the statement's entry on it.

    `sha256` is over the answers as int64 grid units, as the ledger hashes them; None if an answer
    is not on the grid.
    """

    number: int
    label: str
    clique: tuple[str, ...]
    rows: int
    release: int | None = None
    low: float = math.inf
    high: float = 0.0
    sha256: str | None = None
    values: list[float] = field(default_factory=list)

    def __str__(self) -> str:
        return f"measurement {self.number} ({self.label!r} of {', '.join(self.clique)})"


def measurements_of(folder: Path, releases: Sequence[Mapping]) -> tuple[list[Answered], list[str]]:
    """The folder's measurements, each with the release that it answers, and what is wrong with
    them."""
    description = folder / "measurements.json"
    data = measured_path(folder)
    there = [path for path in (description, data) if path.is_file() or path.is_symlink()]
    if not there:
        return [], []
    if len(there) == 1:
        return [], [f"{there[0].name} is there, but not its other half"]
    entries = [
        Answered(
            int(m["measurement"]), str(m["label"]), tuple(map(str, m["clique"])), int(m["rows"])
        )
        for m in read_json(description)["measurements"]
    ]
    if [m.number for m in entries] != list(range(len(entries))) or any(m.rows < 0 for m in entries):
        return [], ["measurements.json does not number its measurements 0, 1, ..."]
    candidates: dict[tuple, deque[int]] = {}
    # A column of the table of users may be one of the rows' too: those come first.
    in_turn = sorted(enumerate(releases), key=lambda item: item[1].get("of") == "users")
    for i, release in in_turn:
        candidates.setdefault(release_key(release), deque()).append(i)
    every = {key: tuple(found) for key, found in candidates.items()}
    texts = []
    for m in entries:
        same = candidates.get((m.label, m.clique, m.rows))
        if not same:
            texts.append(f"{m} is not a release that the statement lists")
        else:
            m.release = same.popleft()
    if texts:
        return entries, texts
    _scan(data, entries, releases)
    _match_by_noise(entries, releases, every)
    return entries, [text for m in entries for text in _answer_problems(m, releases)]


def release_key(release: Mapping) -> tuple:
    """(label, clique, number of answers) of a release, by which it is matched with its
    measurement."""
    about = tuple(release["attributes"])
    clique = (f"users by {about[0]}",) if release["kind"] == "user_histogram" else about
    return release["label"], clique, release["count"]


def _match_by_noise(
    entries: Sequence[Answered],
    releases: Sequence[Mapping],
    candidates: Mapping[tuple, Sequence[int]],
) -> None:
    """Matches measurements that have the same label, columns and number of answers by their noise.
    `candidates`: the releases of each such key; some may have no measurement. A column of the table
    about users may be one of another table too: the number of rows, of which both have as many
    codes."""
    alike: dict[tuple, list[Answered]] = {}
    for m in entries:
        alike.setdefault((m.label, m.clique, m.rows), []).append(m)
    for key, group in alike.items():
        left: dict[tuple[float, float], deque[int]] = {}
        for i in candidates[key]:
            left.setdefault(_noise_of(releases[i]), deque()).append(i)
        for m in group if len(candidates[key]) > 1 else ():
            same = left.get((m.low, m.high))
            m.release = same.popleft() if same else None
        others = chain.from_iterable(left.values())
        for m in (m for m in group if m.release is None):
            m.release = next(others)


def _noise_of(release: Mapping) -> tuple[float, float]:
    """(least, largest) standard error of a release."""
    return release["sigma"], release.get("sigma_max", release["sigma"])


def _has_noise(m: Answered, release: Mapping) -> bool:
    """Whether the standard errors of a measurement are those of a release."""
    least, largest = _noise_of(release)
    return not m.rows or (math.isclose(m.low, least) and math.isclose(m.high, largest))


def _answer_problems(m: Answered, releases: Sequence[Mapping]) -> Iterator[str]:
    if m.sha256 is None:
        yield f"{m}: its answers are not whole numbers of grid units, which noisy counts are"
    if not _has_noise(m, releases[m.release or 0]):
        yield f"{m}: its standard errors differ from those of the release in the statement"


def _scan(path: Path, entries: Sequence[Answered], releases: Sequence[Mapping]) -> None:
    """Reads the answers once, in batches, and fills in the hash, the standard errors and, for small
    measurements, the answers. RunError if the file is not of the form that a run writes."""

    expected = sum(m.rows for m in entries)
    types = {"measurement": pa.int32(), "value": pa.float64(), "standard_error": pa.float64()}
    with bounded_file(path, list(types)) as file:
        stated = {name: file.schema_arrow.field(name).type for name in types}
        if file.metadata.num_rows != expected or expected > MOST_ROWS or stated != types:
            raise RunError(
                "measurements.pq has different rows or columns than measurements.json states"
            )
        for _, pieces in groupby(
            _pieces(file, list(types), path.name, entries), lambda p: p[0].number
        ):
            digest = hashlib.sha256()
            exact = True
            for m, values, errors in pieces:
                units = values * (
                    1 if releases[m.release or 0]["law"] == "discrete-laplace" else SCALE
                )
                if (
                    np.isfinite(units).all()
                    and (abs(units) < 2.0**62).all()
                    and (np.rint(units) == units).all()
                ):
                    digest.update(units.astype(np.int64).tobytes())
                else:
                    exact = False
                if not np.isfinite(errors).all():
                    raise RunError("measurements.pq has standard errors that are not numbers")
                m.low, m.high = min(m.low, float(errors.min())), max(m.high, float(errors.max()))
                if m.rows <= KEPT_ROWS:
                    m.values += values.tolist()
                m.sha256 = digest.hexdigest() if exact else None
    for m in entries:
        if not m.rows:
            m.sha256 = hashlib.sha256().hexdigest()


def _pieces(
    file: pq.ParquetFile, columns: list[str], name: str, entries: Sequence[Answered]
) -> Iterator[tuple[Answered, np.ndarray, np.ndarray]]:
    """(measurement, answers, standard errors) of each stretch of a batch that is of one
    measurement. The file holds the measurements one after the other."""
    left = [m for m in reversed(entries) if m.rows]
    row = 0
    for batch in batches(file, columns, name):
        numbers, values, errors = (
            column.to_numpy(zero_copy_only=False) for column in batch.columns
        )
        start = 0
        while start < len(numbers):
            m = left[-1]
            stop = min(len(numbers), start + m.rows - row)
            if not (numbers[start:stop] == m.number).all():
                raise RunError("measurements.pq is not in the order of measurements.json")
            yield m, values[start:stop], errors[start:stop]
            row = row + stop - start
            start = stop
            if row == m.rows:
                left.pop()
                row = 0


def choice_problems(part: Mapping, entries: Sequence[Answered]) -> Iterator[str]:
    """A problem where the clip was chosen from a histogram that is not the released one."""
    choice = part.get("clip_choice")
    if choice is None or not entries:
        return
    values = [m.values for m in entries if m.label == choice["release"]]
    if values != [choice["users"]]:
        yield "the clip was chosen from a different histogram than the one in the measurements"


def ledger_answer_problems(
    entry: Mapping, part: int, releases: Sequence[Mapping], entries: Sequence[Answered]
) -> Iterator[str]:
    """Problems where the folder's answers do not have the hashes that the ledger holds for the run
    `entry`."""
    hashes: list[str | None] = []
    for step in entry["steps"]:
        if step["part"] != part:
            continue
        answers = step["answers"]
        for i in range(len(step["events"])):
            release = releases[len(hashes)]
            if release["label"] != step["label"]:
                yield f"ledger: the release {release['label']!r} is recorded as {step['label']!r}"
            stored = answers[i] if len(answers) == len(step["events"]) else None
            if stored is not None and math.prod(stored["shape"]) != release["count"]:
                yield (
                    f"ledger: the release {release['label']!r} has another number of answers than "
                    "were drawn"
                )
            hashes.append(None if stored is None else stored["sha256"])
    drawn: dict[tuple, Counter] = {}
    for release, digest in zip(releases, hashes, strict=True):
        drawn.setdefault(release_key(release), Counter())[digest] += 1
    for m in entries:
        left = drawn.get((m.label, m.clique, m.rows), Counter())
        if not left[m.sha256]:
            yield f"ledger: {m}: its answers differ from those that were drawn"
        left[m.sha256] -= 1
