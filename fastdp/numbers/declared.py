"""What an owner declares in public about a number: nothing here is looked up in data."""

from msgspec import Struct


class Declared(Struct, frozen=True):
    """signed: amounts of users may lie below zero; otherwise what lies below zero counts as zero.
    maximum: of a user's amount in whole units (by group: of the L2 norm of its amounts); what lies
    above is cut off. None: no maximum is declared."""

    signed: bool
    maximum: int | None = None
