"""Membership at full size: can one tell from what a run released whether a user of 200 rows was in
the data?

    python -m tools.membership --runs 20000 --pipelines 300

`world` holds a small table with and without the user and a recipe for every mechanism, `transcript`
the likelihood ratio of everything that a run's session gave out, `attack` the attacks and what
theory allows them, `__main__` the table of results. See docs/research/reliability.md.
"""
