"""The encodings that engines know by name."""

from .encoding import ClampedSums, Encoding

ENCODINGS: tuple[type[Encoding], ...] = (ClampedSums,)
