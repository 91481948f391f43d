"""Numbers that a data owner asks for before a run: their language, their types, and the exact value
that each user has in them.

`language` parses a question, and `typed` checks it against the schema. `engines.user_evaluation`
evaluates it for every user in whole numbers of a public unit, as `user_values`. An `encoding` maps
these to integer vectors that are added up; `sums_plan` joins a question with an encoding. Nothing
here adds noise or releases anything: only `release` sees the sums.
"""
