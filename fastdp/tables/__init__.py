"""Reads sources and encodes them as tables of codes: `sources/` (as `parts`),
`textblocks`, `textlines`, `textvalues`, `identity`, `ingest`, `table`, `idvalues`, `userids`,
`bound`.

A table is private unless it was read with `public=True`. Only `engines`, `release`, `run`,
`evaluate`, `report` and the fits on public data import this folder.
"""
