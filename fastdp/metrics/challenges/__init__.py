"""The official scores of the NIST challenges: DeID2 sprint 3 (`deid2`, with `conjunction`) and
sprint 1, and the contest of 2018."""

from . import deid2, nist2018, sprint1

__all__ = ["deid2", "nist2018", "sprint1"]
