"""The official scores of the NIST challenges: DeID2 sprint 3 (`deid2`, with `conjunction`) and
sprint 1, and the contest of 2018."""
