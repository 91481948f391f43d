"""Numbers that a data owner asks for before a run: their language, their types, and the exact value
that each user has in them.

`language` parses a question into `number_nodes`, and `typed` checks it against the schema by
`number_types`; `number_text` writes it. `user_evaluation` evaluates it for every user in whole
numbers of a public unit, as `user_values`. An `encoding` maps these to integer vectors that are added
up (`encodings`: with proved norms); `sums_plan` joins a question with an encoding. Nothing here adds
noise or releases anything: only `release` sees the sums. `user_features` are facts about users in the
same language, from codes alone.

`measure_numbers` asks a session for noisy sums and turns them into estimates with intervals.
`allocation` divides mu^2. `asked_people`, `asked_sums`, `asked_means` and `asked_quantile` each ask
(`asking`) for the vectors of one kind of number. `sum_estimates`, `group_estimates`,
`tail_posterior` and `quantile_zoom` estimate; `adding_up` makes totals and groups agree. `stand_in`
says what to expect before a run.
"""
