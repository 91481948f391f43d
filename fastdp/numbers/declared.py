"""What is public about a number: what an owner declares of it, and what the schema says. Nothing here
is looked up in data."""

from msgspec import Struct


class Declared(Struct, frozen=True):
    """signed: amounts of users may lie below zero; otherwise what lies below zero counts as zero.
    maximum: of a user's amount in whole units (by group: of the L2 norm of its amounts); what lies
    above is cut off. None: no maximum is declared. allowed: what the schema lets a user have
    (`public_bounds`), of either sign. Nothing is cut off there. None: it has no bound. likely: the
    same with edges of bins as bounds, where nothing better is known: a guess."""

    signed: bool
    maximum: int | None = None
    allowed: int | None = None
    likely: int | None = None
