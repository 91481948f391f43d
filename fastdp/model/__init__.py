"""The graphical model: its junction tree, tables, marginals, rows and file.

`junction_tree` and `layout` say which cliques a model has and where their tables lie (`rooted_nodes`,
`inner_tables`), `schedule` how threads share a pass over them.
`graphical_model` answers and samples (`marginals`, `out_of_clique`, `sampler`). `array_file` stores
arrays, and `table_ops` moves tables to given sums. `estimate/` fits models. Never sees private
data: imports no schema, no table, nothing of privacy.
"""
