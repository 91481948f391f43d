"""A mechanism that measures one column with each other column: a star."""

from fastdp.plugins import Clique, Domain, PlannedMechanism, mechanism


@mechanism("star", about="tables in which all columns depend on one")
class Star(PlannedMechanism, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`centre`: the column in the middle; None: the first."""

    centre: str | None = None

    def plan(self, domain: Domain) -> dict[Clique, float]:
        centre = self.centre or next(iter(domain))
        others = [name for name in domain if name != centre]
        return {(centre, name): 1.0 for name in others} or {(centre,): 1.0}
