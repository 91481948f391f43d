"""What remains tuned, and what leaving each rule out costs.

`python -m bench.tune` switches one heuristic or constant off at a time, and measures with the same
seeds as without the change. `inventory` lists the constants of the package, `ablations` says what
can be switched off, `suites` measures one run, `job` makes all runs of a job, `judge` compares
them, `page` writes `tuning.toml` and docs/research/principles.md from the store.
"""
