"""Private release of the values that a column has, for columns without a public list of values.

The list of values is itself a release. So it is measured before anything else, as a step of its own
in the ledger, and the resulting schema serves every mechanism. Each user counts in at most
`keys_per_user` values, the most frequent of their own rows. They add 1 / sqrt(t) to each of t
values: a vector of L2 norm 1. Only values that then have a user are candidates: their weighted
counts get Gaussian noise, and those whose noisy count passes a threshold are kept. The candidates
depend on the data. One user changes which values are candidates in at most `keys_per_user` places,
and with probability at most delta one of these passes. That delta is charged in addition to the
noise (`accountant.Threshold`). Guarantee and proof: docs/explain/keys.md."""

from __future__ import annotations

import json
import math
import os
import uuid
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from ..engines.engine import KeySource
from ..errors import PrivacyError, UsageError, did_you_mean, is_whole, redact_errors
from ..measurement import SCALE
from ..privacy import crosscheck, gdp, noise, scale
from ..privacy.accountant import Threshold
from ..privacy.chain import digest
from ..privacy.ledger import Ledger, opened
from ..privacy.sampler_distance import allowed_draws
from ..privacy.scale import least_threshold
from ..privacy.statement import KEYS_NOTE
from ..privacy.unit import Unit
from ..schema import Schema, dtypes
from ..schema.bins import digits
from ..schema.coding import Listed
from ..schema.columns import Column
from ..schema.pending import MOST_KEYS_PER_USER
from .key_counts import count_keys
from .steps import Steps

ROUNDED = 1 - 2.0**-40
"""A difference times this is below the exact one: more than the rounding of a float."""
MOST_KEYS = scale.MAX_ROWS
"""The most values that a column may have, and so random numbers drawn: no table has as many rows.
"""


@dataclass(frozen=True, eq=False)
class Keys:
    """The values that passed the threshold, in ascending order, with noisy weighted numbers of
    users. These are float64; a user with t values weighs 1 / sqrt(t) in each. All of it may be
    released.

    `statement` says what the release cost. `apply` puts the values into a schema and says in the
    schema's provenance where they came from.
    """

    column: str
    values: tuple[int | str, ...]
    users: np.ndarray
    statement: dict = field(repr=False)

    def apply(self, schema: Schema) -> Schema:
        """The schema with these values as the column's list; other values follow its `overflow`
        policy."""
        if not self.values:
            raise UsageError(
                f"column {self.column!r}: no value passed the threshold, so the list is empty; "
                "use a larger budget, or write the values down"
            )
        plain = schema.to_dict()
        entry = dict(plain["columns"][self.column], values=list(self.values))
        entry.pop("names", None)
        plain["columns"] = {**plain["columns"], self.column: entry}
        cost = f"epsilon {self.statement['epsilon']:g}, delta {self.statement['delta']:g}"
        said = f"values of {self.column!r} {KEYS_NOTE} ({cost})"
        plain["provenance"] = "; ".join(filter(None, [plain.get("provenance"), said]))
        return Schema.from_dict(plain)


def select_keys(
    source: Any,
    schema: Schema,
    column: str,
    *,
    epsilon: float,
    delta: float,
    keys_per_user: int = 1,
    threshold_share: float = 0.5,
    ledger: Ledger | str | os.PathLike | None = None,
    dataset: str | None = None,
    run: str | None = None,
    seed: int | None = None,
) -> Keys:
    """The values of one categorical column (whole numbers or text) that enough users have; costs
    (epsilon, delta).

    schema: says which column holds the users (without one, each row is its own user) and the
    column's type. Its list of values is not looked at. threshold_share: part of delta that pays for
    the threshold, the rest for the noise. With a ledger, its data set must have been opened with
    `keys=`, a part of delta set aside. run: a name, by which an interrupted run can be resumed.
    seed: for tests only, fixes the noise. Empty values (null) are not keys; they follow the
    schema's null policy."""
    _check_options(schema, column, epsilon, delta, keys_per_user, threshold_share)
    if ledger is not None and seed is not None:
        raise UsageError(
            "seed= is for tests, because it fixes the noise; it cannot be used with a ledger"
        )
    cap = 1 if schema.user is None else int(keys_per_user)
    lost = delta * threshold_share
    event = Threshold(gdp.mu_from(epsilon, remaining_delta(delta, lost)), lost)
    if seed is None:
        check_draws(epsilon, delta)
    agreed = crosscheck.agree([event], epsilon, delta)
    question = key_question(schema, column, cap, event, ())

    ledger, dataset = opened(ledger, dataset)
    draws = MOST_KEYS if seed is None else None
    label = f"keys of {column}"
    reservation = ledger.reserve(
        dataset,
        run or uuid.uuid4().hex,
        [event],
        digest(question),
        unit=Unit.of(schema),
        draws=draws,
        needed=draws or 0,
        about={"mechanism": label},
    )
    steps = Steps(
        reservation=reservation,
        part=0,
        bound=cap,
        clip=cap,
        number=0,
        seed=seed,
        trace=lambda point: None,
    )
    values, users, noise_facts = release_keys(
        steps=steps,
        source=source,
        column=schema.columns[column],
        schema=schema,
        cap=cap,
        event=event,
        label=label,
        seed=seed,
    )
    statement = {
        "kind": "keys",
        "private": seed is None,
        "column": column,
        "epsilon": float(epsilon),
        "delta": float(delta),
        "event": event.to_dict(),
        "unit": _unit_name(schema),
        "keys_per_user": cap,
        **noise_facts,
        "second": agreed,
        "ledger": reservation.describe()["reference"],
    }
    reservation.finish()
    return Keys(column, values, users, statement)


def _check_options(
    schema: Schema,
    column: str,
    epsilon: float,
    delta: float,
    keys_per_user: int,
    threshold_share: float,
) -> None:
    """Raise UsageError unless keys of this column can be selected with these options."""
    _check_kind(schema, column)
    if not is_whole(keys_per_user, 1) or keys_per_user > MOST_KEYS_PER_USER:
        raise UsageError(
            f"keys_per_user: expected 1 to {MOST_KEYS_PER_USER}, got {keys_per_user!r}"
        )
    if not 0 < threshold_share < 1:
        raise UsageError("threshold_share must lie strictly between 0 and 1")
    if not (0 < epsilon < math.inf and 0 < delta < 1):
        raise UsageError("key selection needs epsilon > 0 and delta strictly between 0 and 1")


def _unit_name(schema: Schema) -> str:
    if schema.period is not None:
        return f"{schema.user} in one {schema.period.length} of {schema.period.of}"
    return schema.user or "row"


def remaining_delta(delta: float, lost: float) -> float:
    """delta - lost, rounded down: the part of delta for which the noise is calibrated. That noise
    and a threshold that costs `lost` together meet delta."""
    return (delta - lost) * ROUNDED


def most_selections(schema: Schema) -> int:
    """The most selections of keys by which a run finds the schema's private columns: two rounds of
    each column of values, and one of each column of atoms."""
    return 2 * sum(column.keyed for column in schema.pending.values()) + len(schema.atomic)


def check_draws(epsilon: float, delta: float, selections: int = 1) -> None:
    """Raise PrivacyError if the noise of so many selections of keys could take so many random
    numbers that the sampler's error is not far below delta."""
    if allowed_draws(epsilon, delta) < MOST_KEYS * selections:
        raise PrivacyError(
            f"key selection at epsilon {epsilon:g} and delta {delta:g}: the noise sampler's "
            "error, times e^epsilon, is not far below delta for a column of unknown size; "
            "use a smaller epsilon or a larger delta. Nothing was read or drawn"
        )


def key_question(
    schema: Schema, column: str, cap: int, event: Threshold, known: Collection
) -> dict:
    """The public facts that decide what a step of key selection releases; the ledger holds their
    digest."""
    about = {"kind": "keys", "column": column, "cap": cap, "event": event.to_dict()}
    return {**about, "schema": schema.digest(), **({"known": list(known)} if known else {})}


def release_keys(
    steps: Steps,
    source: Any,
    column: Column,
    schema: Schema,
    cap: int,
    event: Threshold,
    label: str,
    seed: int | None,
    known: Collection[int | str] = (),
) -> tuple[tuple[int | str, ...], np.ndarray, dict[str, float]]:
    """One step of a reservation: (values kept, noisy weighted users of each, sigma and threshold in
    users). `known`: values that earlier steps released; their rows are left out. Values of a
    numeric column are in units of its last digit."""
    width = scale.gaussian_sigma(SCALE**2, event.mu)
    scale.check_gaussian(width, None, SCALE**2, event.mu)
    bar = threshold(width, cap, event.delta)
    places = None if column.in_bins is None else digits(column.in_bins)
    if schema.period is not None and isinstance(source, KeySource):
        raise UsageError(f"{label!r}: this engine does not count by user and period")
    count = partial(
        count_keys,
        source,
        schema,
        name=column.source,
        dtype=column.dtype,
        cap=cap,
        known=known,
        places=places,
    )
    question = key_question(schema, column.name, cap, event, known)
    draw = partial(_guarded, count, width, bar, seed)
    values, users = steps.answer(label, question, [event], draw, MOST_KEYS)
    return (
        tuple(json.loads(values.tobytes())),
        users,
        {"sigma": width / SCALE, "threshold": bar / SCALE},
    )


def threshold(width: float, cap: int, delta: float) -> int:
    """The threshold in grid units, rounded up: values with a larger noisy count are kept. With
    probability at most delta one of a user's own t <= cap values passes, each of which counts
    `weight(t)`."""
    return math.ceil(least_threshold(width / SCALE, cap, delta) * SCALE) + 1


def _guarded(count: Callable[[], tuple[list, np.ndarray]], width, bar, seed) -> list[np.ndarray]:
    """Count users per value, add noise and keep what passes the threshold `bar`. Errors carry no
    private content."""

    def keep() -> list[np.ndarray]:
        keys, counts = count()
        check_candidates(counts)
        noisy = counts + noise.gaussian(width, len(counts), seed=seed)
        kept = sorted((keys[i], i) for i in np.flatnonzero(noisy > bar))
        text = json.dumps([value for value, _ in kept]).encode()
        users = noisy[[i for _, i in kept]].astype(np.float64) / SCALE
        return [np.frombuffer(text, np.uint8).copy(), users]

    return redact_errors(
        keep,
        "not enough memory to count keys; the step stays charged",
        lambda failed: PrivacyError(
            f"counting keys failed ({failed}); nothing was released. The step stays charged"
        ),
    )


def check_candidates(counts: np.ndarray) -> None:
    """Raise PrivacyError unless every value that is about to get noise has a user; nothing was
    drawn yet."""
    if (counts < 1).any():
        raise PrivacyError("key selection: a candidate value has no users; nothing was drawn")


def _check_kind(schema: Schema, column: str) -> None:
    """Raise UsageError if the column is not a categorical one of whole numbers or text."""
    if column not in schema.columns:
        raise UsageError(
            f"the schema has no column {column!r}{did_you_mean(column, schema.columns)}"
        )
    key_column = schema.columns[column]
    if not isinstance(key_column.coding, Listed) or dtypes.family(key_column.dtype) not in (
        "int",
        "string",
    ):
        raise UsageError(
            f"column {column!r}: key selection needs a categorical column of whole numbers or text"
        )
