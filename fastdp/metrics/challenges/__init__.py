"""The official scores of the NIST DeID2 challenge, sprint 3 (`deid2`, with `conjunction`)."""
