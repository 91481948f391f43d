"""Snapshots of what users see: help, printed results, privacy statements, main error texts.

One plain text file a case, in `texts/`. Numbers that noise, a budget share or a processor could
change are masked (`#`). After a change of wording that is meant:

    python -m tests.snapshots            # or with names of cases

and look at the diff. At most 100 files; figures belong to property tests, not here.
"""
