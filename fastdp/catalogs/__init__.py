"""Metadata of a run for data catalogues: Croissant, Frictionless data packages, OpenLineage.

`described` reads what a run folder says about itself: the statement, the schema, and the names and
types of the written columns. `croissant`, `datapackage` and `openlineage` put it into the words of
each standard. `about` holds what only the publisher knows, such as the licence.

Everything here is a function of released facts, so it costs no budget: two runs with the same
releases give the same bytes.
"""
