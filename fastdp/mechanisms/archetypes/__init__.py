"""Archetypes: kinds of users that are learnt in public and counted in private.

`archetype_mechanism` is the mechanism with its config, `options` what a recipe says of the public
model.
`fit` learns that model (`model`) from public rows: a Gaussian `mixture` of cells, chains of
`conditional` distributions, and the `prior` of a refined run. `archetype_users` makes users of it.
"""

from .archetype_mechanism import Archetypes, Refine

__all__ = ["Archetypes", "Refine"]
