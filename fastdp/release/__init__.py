"""The only way from private data to numbers that may be released.

`reserve` charges the ledger and opens sessions, and `gateway` is the session that answers.
`planned_release` says what a kind of release is, and each kind has a module. `keyselect` releases
the values of a column without a public list. Only this folder imports both `engines` and
`privacy.noise`."""
