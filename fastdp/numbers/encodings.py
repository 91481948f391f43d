"""Encodings: what one user adds to a released vector, in whole numbers, with a proved L2 norm.

An encoding turns the values of each user into an integer vector and adds the vectors up. A user's
vector depends on that user's values and on public facts alone. So adding or removing one user
changes the sum by one such vector, whose L2 norm is at most the root of `sensitivity2`, in grid
units. Every division rounds towards zero, which cannot raise a norm. No float decides a sum.
Proofs: docs/explain/numbers.md.

Sums are int64 and associative: engines may add them up in any order, over any partitions.

`people_encodings` count users, `amount_encodings` add amounts up, in the whole numbers of
`encoding_grid`.
"""

from .amount_encodings import CappedGroups, CappedSum, DirectionHats, Hats, VectorLengths
from .encoding import ClampedSums, Encoding
from .people_encodings import Centred, CentredGroups, GroupCounts, GroupsPerUser, Histogram, Users
from .user_encoding import UserEncoding

PROVED: tuple[type[UserEncoding], ...] = (
    Users,
    Centred,
    GroupCounts,
    CentredGroups,
    GroupsPerUser,
    Histogram,
    CappedSum,
    CappedGroups,
    Hats,
    DirectionHats,
    VectorLengths,
)
"""The only classes that a session counts by, and no subclasses of them: their norms are proved."""
ENCODINGS: tuple[type[Encoding], ...] = (ClampedSums, *PROVED)
"""The classes that engines know by name."""
