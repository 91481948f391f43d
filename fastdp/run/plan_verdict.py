"""What a run with this budget would be good for, before it."""

import math
from collections.abc import Mapping, Sequence

from ..answers.precision import Amount, People, expected
from ..answers.verdict import Verdict, judge
from ..measurement import Clique
from ..mechanisms.base import Config
from ..mechanisms.plans import Outline
from ..mechanisms.with_users import users_cost
from ..privacy.clip import PRIVATE
from ..schema import Schema
from .plan_result import NumberLine


def plan_verdict(
    config: Config,
    schema: Schema,
    outline: Outline,
    mu: float,
    bound: int,
    rows: int,
    users: int | None,
    numbers: Sequence[NumberLine],
) -> Verdict:
    """The verdict on this budget (`answers.verdict`).

    A run that chooses its clip is judged at the rows of an average user. If nobody says how many
    users there are, it is judged at clip 1. If rows per user are spread as chance would (geometric),
    a clip at their mean counts 1 - 1/e of the rows.
    """

    clip, guess = bound, ""
    if schema.user is not None and config.clip == PRIVATE:
        clip = 1 if not users else min(bound, max(1, round(rows / users)))
        guess = (
            f"at clip {clip}" if users else "at clip 1, more at the clip that the run will choose"
        )
    ones: dict[str, tuple[int, float]] = {}
    pairs: list[tuple[Clique, float]] = []
    for p in outline.measurements:
        if p.cap is not None:
            continue
        error = clip / (mu * math.sqrt(p.weight)) / (1 - math.exp(-1) if guess and users else 1)
        if len(p.clique) == 1 and p.clique[0] in schema.modelled:
            cells, before = ones.get(p.clique[0], (p.cells, math.inf))
            ones[p.clique[0]] = (cells, 1 / math.hypot(1 / before, 1 / error))
        elif len(p.clique) == 2:
            named = p.clique if set(p.clique) <= set(schema.modelled) else ()
            pairs += [(named, error)] * (1 if named else p.times)
    if config.traits.repeats_noisy_columns and _mostly_noise(ones, rows):
        whole = math.fsum(p.weight * p.times for p in outline.measurements if p.cap is None)
        scale = clip / (mu * math.sqrt(whole / len(ones)))
        error = scale / (1 - math.exp(-1) if guess and users else 1)
        ones = {name: (cells, error) for name, (cells, _) in ones.items()}
        pairs = []
    people = None
    if schema.user is not None:
        people = People(kept=config.traits.makes_users or bool(users_cost(config, schema, False)))
    known = expected(
        ones,
        pairs,
        rows,
        amounts=[n for n, c in schema.columns.items() if c.kind == "numeric"],
        asked=[
            Amount(n.number, n.capped or max(n.low, n.high), n.unit == "points") for n in numbers
        ],
        people=people,
        target=str(getattr(config, "target", None) or ""),
        order=schema.order_columns,
        clip=guess,
    )
    return judge(known)


def _mostly_noise(ones: Mapping[str, tuple[int, float]], rows: int) -> bool:
    """Whether most columns would be noise if they were measured only once."""
    noise = [one.noise for one in expected(ones, (), rows).columns]
    return 2 * sum(noise) > len(noise)
