"""Numbers of a run as tables: what was asked and found (`run.numbers`), and the noisy vectors behind
it, from which `verify` computes the numbers again."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby, islice
from typing import Any

import numpy as np
from msgspec.structs import replace

from .._util.lazy import pa
from ..errors import RunError
from ..mechanisms.base import Outcome
from ..numbers.asking import NumberResult
from ..numbers.measure_numbers import measure_numbers
from ..numbers.sums_plan import SumsPlan
from ..numbers.typed import TypedNumber
from ..numbers.user_encoding import UserEncoding
from ..release.gateway import Session
from ..release.user_vectors import KIND, UserVector, plan_vector
from ..schema import Schema
from ..users.user_quotes import Quote, usable
from .number_options import NumberOptions, number_options

NUMBERS = "numbers"
VECTORS = "number_vectors"
"""Names of the two tables in `Run.tables` and of their files."""
FIGURES = ("estimate", "low", "high", "cap", "capped", "capped_low", "capped_high", "mu")
MOST_EXACT = 2.0**50
"""Whole numbers of grid units up to here survive the division by a unit and back: two roundings
move them by less than a half."""
MOST_TEXTS = 3
"""Problems of numbers that are told: a hostile table may have millions."""
CLOSE = 1e-6
"""How far a figure may be from the one computed again, as a part of the interval and of the figure:
logarithms differ between machines."""


class Recorded:
    """A session that keeps the vectors it released."""

    def __init__(self, session: Session):
        self.session = session
        self.vectors: list[tuple[str, UserVector]] = []

    def user_vector(self, plan: SumsPlan, *, mu: float, label: str) -> UserVector:
        found = self.session.user_vector(plan, mu=mu, label=label)
        self.vectors.append((label, found))
        return found


class Replayed:
    """Answers with vectors that were released before; RunError if another one is asked for.
    `digests`: sha256 of each vector in its grid units, as the ledger hashes it, by label; None where
    a float is too coarse for its unit. `lines`: what a statement lists of each vector that was asked
    for, by label."""

    def __init__(self, table: pa.Table):
        self.vectors: dict[str, UserVector] = {}
        self.digests: dict[str, str | None] = {}
        self.lines: dict[str, dict[str, Any]] = {}
        values = table["value"].to_numpy()
        errors = table["standard_error"].to_numpy()
        for label, mine in _stretches(table["label"].to_pylist()):
            if label in self.vectors or len(np.unique(errors[mine])) > 1:
                raise RunError(f"the vector {label!r} is not one of a single noise")
            self.vectors[label] = UserVector(values[mine], float(errors[mine][0]))

    def user_vector(self, plan: SumsPlan, *, mu: float, label: str) -> UserVector:
        found = self.vectors.get(label)
        if found is None or len(found.values) != plan.size:
            raise RunError(f"the released vectors do not contain {label!r}")
        assert isinstance(plan.encoding, UserEncoding)
        self.digests[label] = _digest(found.values * plan.encoding.unit)
        (self.lines[label],) = plan_vector("user", plan, mu, label).lines(label)
        return found

    def unlisted(self, releases: Sequence[Mapping[str, Any]]) -> Iterator[str]:
        """Problems where the vectors are not those of a statement's releases, each with the charge and the
        noise that the numbers take. A statement that left some out would claim less than was released."""
        listed = {r["label"]: r for r in releases if r["kind"] == KIND}
        for label, line in self.lines.items():
            if not _agrees(line, listed.get(label)):
                yield f"the vector {label!r} is not a release that the statement lists"
            elif not _agrees(line["sigma"], self.vectors[label].sigma):
                yield f"the vector {label!r} has another standard error than its release"
        for label in {**self.vectors, **listed}:
            if label not in self.lines:
                yield f"no number that was asked for takes the vector {label!r}"


def _stretches(labels: Sequence[str]) -> Iterator[tuple[str, slice]]:
    """Stretches of equal labels: each label, and its rows."""
    row = 0
    for label, same in groupby(labels):
        start, row = row, row + sum(1 for _ in same)
        yield label, slice(start, row)


def _agrees(computed: Any, stated: Any) -> bool:
    """Whether a release is stated as it was computed. Figures may differ by the roundings of another
    machine's logarithms."""
    if isinstance(computed, Mapping):
        return (
            isinstance(stated, Mapping)
            and computed.keys() == stated.keys()
            and all(_agrees(value, stated[name]) for name, value in computed.items())
        )
    if isinstance(computed, float):
        number = isinstance(stated, int | float) and not isinstance(stated, bool)
        return number and math.isclose(computed, stated, rel_tol=CLOSE)
    return computed == stated


def measured_numbers(
    session: Session, options: NumberOptions, numbers: Sequence[TypedNumber], mu: float
) -> dict[str, pa.Table]:
    """Measure all numbers for `mu`; returns the tables NUMBERS and VECTORS. One step of the ledger
    for each vector. The seed of the estimators' draws is public, so that anybody can compute the
    numbers again from the vectors."""
    recorded = Recorded(session)
    results = measure_numbers(recorded, numbers, options.declared(numbers), mu=mu, seed=0)
    return {NUMBERS: number_table(numbers, results), VECTORS: vector_table(recorded.vectors)}


def number_table(numbers: Sequence[TypedNumber], results: Sequence[NumberResult]) -> pa.Table:
    """One row for each result: number, a column for each `by` name (null where it does not apply),
    the figures, note."""
    names = list(dict.fromkeys(name for number in numbers for name in number.by))
    labels = {i: number.labels() for i, number in enumerate(numbers) if number.by}
    groups: dict[str, list[str | None]] = {name: [] for name in names}
    for result in results:
        number = numbers[result.number]
        own = {} if result.group is None else dict(zip(number.by, _labels(labels, result)))
        for name in names:
            groups[name].append(own.get(name))
    columns: dict[str, Any] = {
        "number": pa.array([numbers[r.number].text for r in results], pa.string())
    } | {name: pa.array(texts, pa.string()) for name, texts in groups.items()}
    for name in FIGURES:
        columns[name] = pa.array([getattr(r, name) for r in results], pa.float64())
    columns["note"] = pa.array([r.note for r in results], pa.string())
    return pa.table(columns)


def with_quoted_numbers(
    outcome: Outcome, options: NumberOptions, numbers: Sequence[TypedNumber], written: Schema
) -> Outcome:
    """The outcome, whose synthetic users are chosen such that its numbers hold, each within its
    error; as it is where no users are chosen. `written`: the schema by which rows are written, which
    says what number a synthetic row has on average."""
    dealer = outcome.dealer
    if dealer is None or dealer.choice is None:
        return outcome
    known = zip(numbers, options.declared(numbers), strict=True)
    by_text = {n.text: (replace(n, schema=written), declared) for n, declared in known}
    seen: dict[str, int] = {}
    quotes = []
    for line in outcome.tables[NUMBERS].to_pylist():
        number, declared = by_text[line["number"]]
        group = seen.get(number.text, 0)
        seen[number.text] = group + 1
        if line["estimate"] is not None:
            most = None
            if declared.maximum is not None:
                most = declared.maximum * float(number.unit)
            quotes.append(Quote(number, group, line["estimate"], line["low"], line["high"], most))
    choice = replace(dealer.choice, quotes=usable(quotes), rows=float(outcome.rows.total))
    return replace(outcome, dealer=replace(dealer, choice=choice))


def _labels(labels: dict[int, list[tuple[str, ...]]], result: NumberResult) -> tuple[str, ...]:
    return labels[result.number][result.group or 0]


def vector_table(vectors: Sequence[tuple[str, UserVector]]) -> pa.Table:
    """The released vectors: label, value, standard error."""
    labels = [label for label, found in vectors for _ in found.values]
    values = [found.values for _, found in vectors]
    errors = [np.full(len(found.values), found.sigma) for _, found in vectors]
    return pa.table(
        {
            "label": pa.array(labels, pa.string()),
            "value": pa.array(np.concatenate(values) if values else [], pa.float64()),
            "standard_error": pa.array(np.concatenate(errors) if errors else [], pa.float64()),
        }
    )


def _digest(units: np.ndarray) -> str | None:
    """The hash of a vector in grid units; None if floats do not tell two of its values apart."""
    if not (np.abs(units) < MOST_EXACT).all():
        return None
    return hashlib.sha256(np.rint(units).astype(np.int64).tobytes()).hexdigest()


def number_problems(
    about: Any,
    schema: Schema,
    tables: dict[str, pa.Table],
    releases: Sequence[Mapping[str, Any]],
    drawn: Mapping[str, Collection[str]] | None = None,
) -> list[str]:
    """What does not agree between a folder's numbers, its vectors, what the statement says was
    asked (`about`: its mechanism's `numbers`) and the `releases` that it lists. `drawn`: hashes of the
    answers that the run's ledger holds, by label."""
    found = tables.get(NUMBERS)
    vectors = tables.get(VECTORS)
    if about is None and found is None and vectors is None:
        return []
    if about is None or found is None or vectors is None:
        return ["numbers were asked for, released or measured, but not all of these agree"]
    options = number_options({k: v for k, v in about.items() if k not in ("mu", "private")})
    if options is None:
        return ["the statement lists no numbers, but the folder has some"]
    numbers = options.typed(schema, about.get("private", ()))
    declared = options.declared(numbers)
    replayed = Replayed(vectors)
    again = number_table(
        numbers, measure_numbers(replayed, numbers, declared, mu=about["mu"], seed=0)
    )
    if again.num_rows != found.num_rows or again.column_names != found.column_names:
        return ["the numbers are not those that the statement says were asked for"]
    wrong = list(islice(replayed.unlisted(releases), MOST_TEXTS))
    for i, (stated, computed) in enumerate(zip(found.to_pylist(), again.to_pylist(), strict=True)):
        if not _same(stated, computed):
            wrong.append(f"row {i + 1} of the numbers does not follow from the released vectors")
    if drawn is not None:
        for label, digest in replayed.digests.items():
            if digest is not None and digest not in drawn.get(label, ()):
                wrong.append(f"ledger: the vector {label!r} differs from the one that was drawn")
    return wrong[:MOST_TEXTS]


def _same(stated: dict[str, Any], computed: dict[str, Any]) -> bool:
    wide = max((abs(computed[n]) for n in ("low", "high") if computed[n] is not None), default=0.0)
    for name, value in computed.items():
        other = stated[name]
        if isinstance(value, float) and isinstance(other, float):
            if not abs(value - other) <= CLOSE * max(abs(value), wide):
                return False
        elif value != other:
            return False
    return True
