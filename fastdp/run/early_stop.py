"""Stopping a run by its own first noisy answers: when it stops, and what it reports as charged."""

from collections.abc import Collection, Sequence

from .._util.texttable import plural
from ..errors import StoppedEarly
from ..measurement import Measurement
from ..mechanisms.base import Config, OnesFirst
from ..mechanisms.shared.empty_columns import dropping_columns, empty_columns
from ..privacy.budget import epsilon_at, from_dict
from ..release.reserve import Reserved
from ..schema import Schema

ADVICE = (
    "Look at the data with `fastdp check` and correct the schema, or continue with"
    " ignore_empty_columns=True"
)

NAMED = 5
"""At most this many columns are named in the error that the table has no rows."""


def plan_note(config: Config) -> str:
    """What a run of this mechanism does if a column contains almost no value of its domain."""
    if isinstance(config, OnesFirst):
        return (
            "the run stops after its first 1-ways, charged for what was drawn by then, where a"
            " column turns out almost all null or outside its domain; ignore_empty_columns=True"
            " continues"
        )
    return (
        f"{config.name} does not measure columns one by one first and does not stop early where the"
        " schema does not fit the data: look with `fastdp check` before"
    )


def stop_if_empty(schema: Schema, learnt: Collection[str], ones: Sequence[Measurement]) -> None:
    """Raise StoppedEarly if the noisy 1-ways show that a column contains almost no value of its
    domain. Also if they show no rows at all and a policy may have left them out.

    `learnt`: columns whose domain was found in the run itself; they are left out, since most of
    their values may rightly lie outside.
    """
    empty = empty_columns(schema, ones, learnt)
    if empty:
        raise StoppedEarly(
            "stopped after the 1-way marginals: their noisy counts show almost no known "
            f"value in {'; '.join(map(str, empty))}"
        )
    dropping = dropping_columns(schema, ones, learnt)
    if dropping:
        named = ", ".join(map(repr, dropping[:NAMED])) + ("" if len(dropping) <= NAMED else ", ...")
        raise StoppedEarly(
            "stopped after the 1-way marginals: their noisy counts show no rows. The table is empty"
            " or too small for this noise, or values that cannot be read left all rows out, since"
            f" null = 'drop' ({named}), for example after a column's type changed"
        )


def charge_text(
    reserved: Reserved, epsilons: Sequence[float], delta: float, dataset: str | None
) -> str:
    """What the steps entered so far cost, and where the rest of the reservation goes."""
    steps = reserved.reservation.describe()["entry"]["steps"]
    spent = epsilon_at([from_dict(event) for step in steps for event in step["events"]], delta)
    asked = ", ".join(f"{e:g}" for e in epsilons)
    where = "" if dataset is None else f" to data set {dataset!r}"
    return (
        f"Charged: {plural(len(steps), 'step')} ({', '.join(step['label'] for step in steps)}), epsilon"
        f" {spent:.4g} at delta {delta:g}, of the {asked} reserved; the rest went back{where}."
    )
