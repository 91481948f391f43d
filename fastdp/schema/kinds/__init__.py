"""The kinds of columns, one module each: its options, codes, values, numbers and private domain.

A module registers its class with `kind_registry.kind`; nothing else lists the kinds. What a class
may say is in `columns.SourceColumn` and `columns.Column`; docs/contributing/adding-a-column-kind.md
adds one step by step.
"""
