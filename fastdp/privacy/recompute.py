"""Works out the figures of a statement again from its releases: `problems` says what does not add
up. `release_checks` has the check of each kind of release."""

from collections.abc import Iterator, Mapping

from ..schema.periods import KIND as USER_PERIOD
from . import clip as clip_rules
from .accountant import Event, event_from_dict
from .budget import combined_mu, epsilon_at
from .chain import part_budget
from .release_checks import MORE, close, is_count, release_problems
from .sampler_distance import PURE, SHARE, added_delta
from .statement import FORMAT, draws_of


def problems(statement: Mapping) -> list[str]:
    """Everything that does not add up when the statement's numbers are worked out again; empty if
    all do.

    The statement may be anything: whatever its values do to the arithmetic is a problem of the
    statement.
    """
    texts: list[str] = []
    try:
        texts.extend(_problems(statement))
    except Exception as error:  # a hostile statement may raise anything: see the docstring
        texts.append(f"the statement is malformed ({type(error).__name__}: {error})")
    return texts


def _problems(statement: Mapping) -> Iterator[str]:
    """What is wrong with a statement whose fields are all there."""
    if statement["format"] != FORMAT:
        yield f"unknown format {statement['format']!r}; this version of fastdp reads {FORMAT!r}"
        return
    delta = statement["delta"]
    parts = statement["parts"]
    caps = [event_from_dict(p["event"]) for p in parts]
    if not parts:
        yield "the statement has no parts"
        return
    epsilon = epsilon_at(caps, delta)
    if not close(statement["epsilon"], epsilon):
        yield f"epsilon is stated as {statement['epsilon']!r}, but the parts give {epsilon!r}"
    if not close(statement["mu"], combined_mu(caps)):
        yield f"mu is stated as {statement['mu']!r}, but the parts give {combined_mu(caps)!r}"
    for i, (entry, cap) in enumerate(zip(parts, caps, strict=True)):
        yield from (f"part {i}: {text}" for text in _part_problems(statement, entry, cap))
    if statement["bound"]["clip"] != [p["clip"] for p in parts]:
        yield "the bound and the parts state different clips"
    if statement["private"] is not ("NOT PRIVATE" not in statement["noise"]["source"]):
        yield "the statement claims privacy, but its noise came from a seed"
    if statement["private"]:
        yield from sampler_problems(epsilon, delta, draws_of(parts), statement["noise"])


def sampler_problems(epsilon: float, delta: float, draws: int, about: Mapping) -> Iterator[str]:
    """What is wrong with the sampler's error that a statement gives (`about`) for so many draws."""
    added = added_delta(epsilon, draws)
    if added > (delta * SHARE if delta > 0 else PURE) * (1 + 1e-6):
        yield (
            f"the noise sampler's error adds {added:.3g} to delta at epsilon {epsilon:.6g}"
            f" ({draws:,} numbers drawn), which is not far below the stated delta {delta:g}: the"
            " guarantee does not hold"
        )
    if "draws" in about and about["draws"] != draws:
        yield (
            f"the statement says that {about['draws']!r} numbers were drawn, but the "
            f"releases give {draws}"
        )


def _part_problems(statement: Mapping, entry: Mapping, cap: Event) -> Iterator[str]:
    """What is wrong with one part: its releases must stay within what it asked."""
    delta = statement["delta"]
    events = [event_from_dict(r["event"]) for r in entry["releases"]]
    if not part_budget(cap).admits(events):
        yield "its releases cost more than the part's bound"
    if entry["asked"]["delta"] != delta:
        yield "its delta differs from the statement's"
    if not epsilon_at([cap], delta) <= entry["asked"]["epsilon"] * MORE:
        yield "its bound exceeds the requested epsilon"
    if not close(entry["epsilon"], epsilon_at([cap], delta)):
        yield "its epsilon does not follow from its bound"
    if not close(entry["spent"]["mu"], combined_mu(events) if events else 0.0):
        yield "the stated cost differs from the cost of its releases"
    bounded = statement["unit"]["kind"] in ("user", USER_PERIOD)
    if not is_count(entry["clip"]) or (not bounded and entry["clip"] != 1):
        yield "the clip must be a whole number of rows, and 1 if no user is protected"
    if "clip_choice" in entry:
        yield from clip_rules.problems(entry["clip_choice"], entry["clip"], entry["releases"])
    for release in entry["releases"]:
        where = repr(release["label"])
        yield from (f"{where}: {text}" for text in release_problems(release, entry["clip"]))
