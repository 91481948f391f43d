"""The scoreboard: mechanisms, peers, floors and ceilings on many tables, by the field's measures.

`python -m bench.scoreboard` runs what the store does not have yet and writes the page. The way of
a run: `tables` makes a table and holds rows out, `contestants` names who takes part, `runs` makes
rows in a process of its own, `measures` scores them, `store` keeps the result, `compare` finds wins
and losses, `page` and `plot` show them. `peers` makes environments of other libraries.
"""
