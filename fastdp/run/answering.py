"""What `Run.answer` and `Run.top_share` compute, from a run's released facts and its numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from .._util.lazy import pa
from ..answers.answer import answer
from ..answers.answered import Answer
from ..answers.concentration import TopShare, top_share
from ..answers.fact_names import NO_TABLE, in_facts
from ..answers.part_groups import groups_of
from ..answers.people_facts import asks_about_users
from ..answers.values import numbers_of
from ..errors import UsageError
from ..significance import SURE, Z95
from .answer_numbers import (
    LEVEL,
    advised_question,
    example_question,
    from_numbers,
    hint_of,
    line_questions,
    question_of,
    with_advice,
    with_numbers,
    with_share_note,
)
from .run_files import reading_folder

if TYPE_CHECKING:
    from ..answers.facts import Facts
    from ..answers.people_facts import PeopleFacts
    from ..schema import Schema


class Run(Protocol):
    """What is needed of a finished run (`fastdp.Run`)."""

    @property
    def schema(self) -> Schema: ...
    @property
    def out(self) -> Path | None: ...
    @property
    def numbers(self) -> pa.Table | None: ...
    @property
    def _written_schema(self) -> Schema: ...
    @property
    def _facts(self) -> Facts: ...
    @property
    def _people_facts(self) -> PeopleFacts: ...
    @property
    def _mu(self) -> float | None: ...
    def answer(self, of: str, by: str = ...) -> Answer: ...


def answer_of(
    run: Run,
    of: str,
    by: Sequence[str] | str,
    where: Mapping[str, Any] | None,
    level: float,
    **options: Any,
) -> Answer:
    """The answer from released facts. In a plain question at the level of the numbers, numbers that
    were asked for before the run take the place of its lines. Advice is added to wide ones.
    `options`: `simultaneous`, `minus`, `over`, `population` and `basis` of `Run.answer`."""
    about_users = asks_about_users(of)
    users = about_users is not None
    plain = not any(options[name] for name in ("minus", "over", "population", "simultaneous"))
    if users:
        _check_people_were_released(run, of)
    with reading_folder(run.out):
        of = of if about_users is None else about_users
        try:
            facts: Facts = run._facts if not users else run._people_facts
            found = None
            if users and plain and not by and not where:
                found = _mean_per_user(run, of, level)
            if users and found is None:
                of, by, where = in_facts(run.schema, run._people_facts, of, by, where)
            groups = groups_of(facts.schema, by)
            names = tuple(one if isinstance(one, str) else one.name for one in groups)
            if found is None:
                found = answer(facts, of, by, where, level, **options)
            if of == "share" and names and where:
                found = with_share_note(found, "users" if users else "rows")
        except UsageError as error:
            if not users:
                raise
            asked = question_of(of, by, where, users) if plain and level == LEVEL else None
            if known := from_numbers(run.numbers, asked, run.schema):
                return Answer(*known)
            advised = advised_question(of, by, where, users)
            example = example_question(of, by, where)
            hint = hint_of((advised, example), run.numbers, run.schema)
            raise UsageError(f"{error}{hint}") from None
        by_days = not all(isinstance(one, str) for one in groups)
        if by_days or not plain or level != LEVEL:
            return Answer(found, names)
        lines = line_questions(of, names, where, facts.schema, found) if users else None
        whole = of == "count" and not users and not names and not where
        found = with_numbers(
            found,
            run.numbers,
            lines or question_of(of, names, where, users),
            run.schema,
            claimed=whole and run._facts.clipping.claim > 0,
        )
        to_ask = lines or advised_question(of, names, where, users)
        mu = run._mu if of == "count" else None
        return Answer(with_advice(found, run.numbers, to_ask, run.schema, mu), names)


OF_ALL_USERS = re.compile(r"mean\((?:(rows)|(sum\(.+\)))\)", re.S)
"""Means per user that are a total of rows over the number of users."""


def _mean_per_user(run: Run, of: str, level: float) -> pa.Table | None:
    """The mean of `rows` or of a sum per user, as what all rows say over the number of users: None for
    other questions, and where nothing says how many rows there are.

    The histogram of users by that number would need its largest bins, where noise counts as users who have
    more than all others."""
    match = OF_ALL_USERS.fullmatch(of)
    if match is None:
        return None
    total = answer(run._facts, "count" if match[1] else match[2], level=level)
    users = answer(run._people_facts, "count", level=level).to_pylist()[0]
    names = (
        "estimate",
        "error",
        "low",
        "high",
        "basis",
        "noise",
        "clipping",
        "bins",
        "model",
        "note",
    )
    row = {name: value for name, value in total.to_pylist()[0].items() if name in names}
    many = users["estimate"]
    if not run._facts.clipping.known or users["error"] is None or not many > SURE * users["error"]:
        return None
    of_users = {"low": users["high"] - many, "high": many - users["low"], "noise": users["noise"]}
    estimate = row["estimate"] / many

    def with_users(size: float, name: str) -> float:
        return math.hypot(size / many, estimate * of_users[name] / many)

    for name in ("error", "clipping", "bins", "model"):
        row[name] = None if row[name] is None else row[name] / many
    if row["low"] is not None:
        below, above = (abs(row[end] - row["estimate"]) for end in ("low", "high"))
        row["low"] = max(estimate - with_users(below, "low"), 0.0 if row["low"] >= 0 else -math.inf)
        row["high"] = estimate + with_users(above, "high")
        row["noise"] = with_users(row["noise"], "noise")
        row["error"] = math.hypot(row["error"], estimate * of_users["noise"] / many)
    row["estimate"] = estimate
    return pa.Table.from_pylist([row], pa.schema([total.schema.field(name) for name in names]))


def _check_people_were_released(run: Run, of: str) -> None:
    """UsageError where a user of the run is one user in one period, so that nothing is known of people."""
    period = run.schema.period
    if period is not None and period.only is None:
        raise UsageError(
            f"{of!r}: in this run a user is one user in one {period.length}, so nothing was "
            f"released about people; ask a release of one {period.length} (docs/guide/series.md)"
        )


def _middles_over_means(run: Run, column: str) -> float:
    """The total with each row counted as the middle of its bin, as users' sums are, over the total by where
    rows lie in their bins, as answers are. Of a tail the first is a tenth larger."""
    one = run._facts.table((column,))
    if one is None or one.known is not None:
        return 1.0
    (codes,) = one.maps
    rows = np.maximum(one.x, 0.0)[codes] / np.bincount(codes)[codes]
    both = [numbers_of(schema.columns[column]) for schema in (run.schema, run._written_schema)]
    middles, means = (float(rows @ np.where(n.valid, n.middle, 0.0)) for n in both)
    return middles / means if min(middles, means) > 0 and math.isfinite(middles) else 1.0


def top_share_of(run: Run, column: str, part: float, level: float) -> TopShare:
    """The part of a column's total that the largest users have, from the histogram of its sum per user."""
    facts = run._people_facts
    name = f"sum({column})"
    if name not in facts.schema.columns:
        named = column in run.schema.user_amounts
        few = "too few users for it" if facts.tabled else NO_TABLE
        why = few if named else "name it in amounts of the schema's [user]"
        raise UsageError(f"column: the run released no sum of {column!r} per user; {why}")
    found = run.answer("count of users", by=name).to_pylist()
    users = [line for line in found if line[name] is not None]
    bins = facts.schema.columns[name].in_bins
    edges = () if bins is None else bins.edges
    if not 0 < part < 1:
        raise UsageError(f"part: expected a part between 0 and 1, found {part!r}")
    if len(edges) != len(users) + 1 or edges[0] < 0:
        raise UsageError(f"column: {column!r} may be below 0, so users have no shares of its total")
    total = run.answer(f"sum({column})").to_pylist()[0]
    if total["noise"] is None:
        raise UsageError(f"column: the total of {column!r} has no interval: {total['note']}")
    below, above = (
        (total[end] - total["estimate"]) / side for end, side in (("low", -Z95), ("high", Z95))
    )
    everyone = run.answer("count of users").to_pylist()[0]
    scale = _middles_over_means(run, column)
    return top_share(
        counts=np.array([line["estimate"] for line in users]),
        errors=np.array([line["error"] for line in users]),
        edges=edges,
        total=tuple(scale * x for x in (total["estimate"], below, above)),
        users=(everyone["estimate"], everyone["error"]),
        part=part,
        level=level,
    )
