"""The only way from private data to numbers that may be released.

`reserve` charges the ledger and opens sessions, and `gateway` is the session that answers.
`noiseplan` plans one answer from public facts. `keyselect` releases the values of a column without
a public list. Only this folder imports both `engines` and `privacy.noise`."""
