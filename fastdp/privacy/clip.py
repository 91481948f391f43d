"""The choice of a clip, which trades rows lost against noise, from public or noisy numbers of
rows per user.

At clip C the rows of a user with R rows weigh min(1, C / R). So S(C) = sum of min(R, C) of N rows
are kept, and every answer's noise is proportional to C. For a marginal of m cells whose noise at
clip 1 has standard deviation s per cell, let

    lost = 1 - S(C) / N,    x = C s m sqrt(2 / pi) / (2 S(C)),    y = d lost + x,    error = a y / (a + y).

x is the expected total variation distance that the noise causes, relative to the rows that are
kept. `d` is the distance per share of rows lost: 1 where lost rows are missing from the output;
`TV_PER_LOST_ROW` where the total is corrected. So y is the error of a model that follows the
marginal. A model can also do without the marginal, at an error of `a`. It is `TV_WITHOUT_MARGINAL`
where the model then takes columns as independent, and 1 where it has nothing else. A fit uses both,
the better one more. Its error a y / (a + y) is at most the smaller of the two, and at least half of
it. The clip of least mean error over all planned marginals is chosen. Marginals that are noise at
any clip, such as pairs with daily dates, cost about a at every clip, so they do not decide.

Nothing here sees private data: sizes are public or were released with noise. All sums are exactly
rounded, so that `fastdp verify` finds the same clip on any machine.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from ..errors import UsageError
from ..rows_per_user import RowsPosterior, size_edges as size_edges
from ..schema import Schema

PRIVATE = "private"
"""The value of `clip` in a recipe whose runs choose their clip from a noisy histogram."""

MAX_CHOSEN = 1 << 14
"""The largest clip a run may choose where the schema states no bound."""

TV_PER_LOST_ROW = 0.2
"""Total variation distance between the kept rows and all rows, divided by the share of rows lost.
Measured as the mean over all pairs of columns. Chicago taxis of 2022: 0.13 to 0.19. Simulated
taxis, whose habits hardly depend on how much they drive: 0.02 to 0.04."""
TV_PER_LOST_ROW_GROUPED = 0.07
"""The same in runs whose model of rows may tell groups of users by rows apart, which puts most rows
back where they belong. Chosen on the tables of docs/guide/users.md. Below 0.07 synthetic users
become more accurate still, but intervals of large counts become wide (docs/research/users.md)."""
MAX_LOST_SHARE = 0.6
"""The largest share of rows that a clip chosen with TV_PER_LOST_ROW_GROUPED may leave out, unless
TV_PER_LOST_ROW would leave out more. From 0.5 to 2/3, rows of generated tables hardly change;
synthetic users become more accurate, and rows of few users less."""

TV_WITHOUT_MARGINAL = 0.2
"""Total variation distance of a marginal from what a model says without it. In the mean, pairs of
columns are 0.08 (adult) and 0.2 (Chicago trips) from independent ones. Tried on eight tables with
two mechanisms and epsilons 1 and 5 (docs/research/measured.md): from 0.1 to 0.3 the errors of runs
hardly change."""

DOMAIN_KINDS = ("grid", "keys", "schema")
"""Kinds of releases by which a run finds its schema's private columns; they precede all others."""


def resolve(clip: int | str | None, schema: Schema) -> int:
    """Rows of one user that count fully: `clip` if it is a number, else the schema's bound. A run
    may choose no more than that. It is 1 where each row is its own user."""
    if schema.user is None:
        return 1
    if clip == PRIVATE:
        return choice_bound(schema)
    rows = clip if isinstance(clip, int) else schema.max_rows_per_user
    if rows is not None:
        return rows
    raise UsageError(
        f"clip: the number of rows of one user (column {schema.user!r}) that count is "
        "missing; set `clip` in the recipe (clip=), or `max_rows` of the schema's user"
    )


def choice_bound(schema: Schema) -> int:
    """The largest clip a run may choose: the schema's bound, else `MAX_CHOSEN`. Users with more
    rows are in the histogram's last bin, and count as users of that many rows."""
    return MAX_CHOSEN if schema.max_rows_per_user is None else schema.max_rows_per_user


class ClipLine(Struct, frozen=True):
    """What a clip costs: `lost` share of the rows, mean `noise` (x above), mean `error`."""

    clip: int
    lost: float
    noise: float
    error: float


class ClipChoice(Struct, frozen=True):
    """The clip of least error, and the costs of every candidate. `rows`: the number of rows of the
    table, by the sizes that the choice was made from."""

    clip: int
    lines: tuple[ClipLine, ...]
    rows: float

    @property
    def line(self) -> ClipLine:
        return next(line for line in self.lines if line.clip == self.clip)

    @property
    def clip_correction(self) -> float:
        """The factor from rows kept at the clip to all rows of the table."""
        return 1 / (1 - self.line.lost)


def candidates(bound: int) -> tuple[int, ...]:
    """Clips to choose from: the rounded powers of 2^(1/4) below the bound (four per octave), and
    the bound."""
    steps = range(math.ceil(4 * math.log2(bound)))
    return (*sorted({c for c in (round(2 ** (i / 4)) for i in steps) if c < bound}), bound)


def unit_noise(mu: float, measured: Iterable[tuple[int, float]]) -> list[float]:
    """x * S(C) / C, in rows, of marginals given as (cells, share of mu^2)."""
    half = math.sqrt(2 / math.pi) / 2
    return [half * cells / (mu * math.sqrt(share)) for cells, share in measured]


def choose(
    sizes: Sequence[float],
    users: Sequence[float],
    noise: Sequence[float],
    clips: Sequence[int],
    *,
    displaced: float = 1.0,
    alone: float = 1.0,
    also: Sequence[int] = (),
) -> ClipChoice:
    """The clip of least error among `clips` (public numbers) for users[i] users of sizes[i] rows
    each; of equal ones the first.

    noise: of each planned marginal, by `unit_noise`. displaced, alone: d and a above. also: clips
    that are reported, not chosen. Without any rows all clips cost the same.
    """
    sizes = [float(r) for r in sizes]
    users = [float(u) for u in users]
    if not all(0 <= n < math.inf for n in noise):
        raise UsageError("the noise per unit of clip must be finite and >= 0")
    rows = math.fsum(r * u for r, u in zip(sizes, users))
    lines = {
        c: _line(
            sizes=sizes,
            users=users,
            rows=rows,
            noise=noise,
            clip=c,
            displaced=displaced,
            alone=alone,
        )
        for c in sorted({*clips, *also})
    }
    best = min((lines[c] for c in clips), key=lambda line: line.error)
    return ClipChoice(best.clip, tuple(lines.values()), rows)


def _line(
    sizes, users, rows: float, noise: Sequence[float], clip: int, displaced, alone
) -> ClipLine:
    kept = math.fsum(min(r, clip) * u for r, u in zip(sizes, users))
    lost = 1 - kept / rows if rows > 0 else 0.0
    x = [n * clip / kept if kept > 0 else math.inf for n in noise] or [0.0]
    error = math.fsum(alone - alone**2 / (alone + displaced * lost + v) for v in x) / len(x)
    return ClipLine(clip, lost, math.fsum(min(v, 1e9) for v in x) / len(x), error)


def noise_bound(cells: int) -> float:
    """A bound in standard errors that the noise of none of `cells` empty cells exceeds, with high
    probability."""
    return math.sqrt(2 * math.log(20 * max(cells, 2)))


def from_histogram(
    values: Sequence[float], bound: int, sigma: float
) -> tuple[list[float], list[float]]:
    """(sizes, users) of a noisy histogram over `size_edges(bound)`, by the posterior of
    `rows_per_user`. sigma: standard deviation of the noise."""
    return RowsPosterior.of(size_edges(bound), values, sigma, bound).points()


def from_release(
    values: Sequence[float],
    noise: Sequence[float],
    bound: int,
    sigma: float,
    displaced: float = TV_PER_LOST_ROW,
) -> ClipChoice:
    """The clip of a run that measured this noisy histogram: a function of what was released and of
    public numbers."""
    sizes, users = from_histogram(values, bound, sigma)
    found = choose(
        sizes, users, noise, candidates(bound), displaced=TV_PER_LOST_ROW, alone=TV_WITHOUT_MARGINAL
    )
    if displaced == TV_PER_LOST_ROW:
        return found
    clips = [line.clip for line in found.lines if line.lost <= max(MAX_LOST_SHARE, found.line.lost)]
    return choose(sizes, users, noise, clips, displaced=displaced, alone=TV_WITHOUT_MARGINAL)


def described(
    choice: ClipChoice, release: str, bound: int, values, noise, sigma: float, displaced: float
) -> dict[str, Any]:
    """A choice as it is written in the statement: everything `from_release` needs to recompute
    it."""
    source = {
        "from": "noisy histogram of rows per user",
        "release": release,
        "bound": bound,
        "users": [float(v) for v in values],
        "noise": [float(n) for n in noise],
    }
    return source | {"sigma": sigma, "displaced": displaced, "lost": choice.line.lost}


def problems(entry: dict[str, Any], clip: int, releases: Sequence[Any]) -> Iterable[str]:
    """What is wrong with the statement's entry on the choice of a clip."""
    first: Any = next((r for r in releases if r.get("kind") not in DOMAIN_KINDS), {})
    stated = [first.get(k) for k in ("label", "kind", "attributes", "cap", "count")]
    if stated != [entry["release"], "user_histogram", ["RowsPerUser"], 1, len(entry["users"])]:
        yield "the histogram from which the clip was chosen is not the first release"
    if entry["sigma"] != first.get("sigma"):
        yield "the noise stated for the choice of the clip is not the histogram's noise"
    if (displaced := entry.get("displaced", TV_PER_LOST_ROW)) not in (
        TV_PER_LOST_ROW,
        TV_PER_LOST_ROW_GROUPED,
    ):
        yield f"no clip is chosen by an error of {displaced} for each share of rows lost"
        return
    chosen = from_release(entry["users"], entry["noise"], entry["bound"], entry["sigma"], displaced)
    if chosen.clip != clip:
        yield f"the clip is stated as {clip}, but the histogram gives {chosen.clip}"
    elif abs(chosen.line.lost - entry["lost"]) > 1e-9:
        yield "the stated rows lost at the clip are not those that the histogram gives"


def nonnegative(values: Sequence[float]) -> list[float]:
    """The nearest vector (least squares) of numbers >= 0 with the same sum, or zeros where that is
    negative."""
    array = [float(v) for v in np.asarray(values, np.float64)]
    total = math.fsum(array)
    top = 0.0
    excess = 0.0
    if total <= 0:
        return [0.0] * len(array)
    for k, v in enumerate(sorted(array, reverse=True), 1):
        top += v
        if v > (top - total) / k:
            excess = (top - total) / k
    return [max(0.0, v - excess) for v in array]
