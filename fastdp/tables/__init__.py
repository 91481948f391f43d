"""Reads sources and encodes them as tables of codes.

`sources/` has a module for each kind of source; each gives `parts`. Text files go through
`textblocks`, `textlines` and `textvalues`. `part_checks` looks at names and types
before rows are read, `ingest` reads all parts into a `Table` (`table`).
`idvalues` and `userids` number the users, and `bound` weighs the rows of each. `linked_tables`
reads tables that refer to each other, and `drafting` drafts a schema.

A table is private unless it was read with `public=True`. Only `engines`, `release`, `run`,
`metrics`, `report` and the fits on public data import this folder.
"""
