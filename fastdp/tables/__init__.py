"""Sources in, private (or public) code columns out: `sources` and `objects` (as `parts`), `textblocks`,
`textlines`, `textvalues`, `identity`, `ingest`, `table`, `userids`, `bound`.

What lies here is private unless read with `public=True`. Only `engines`, `release`, `run`, `evaluate`,
`report` and the fits on public data import it.
"""
