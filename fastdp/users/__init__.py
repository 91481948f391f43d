"""Synthetic users: how many rows they have, what is constant for each of them, and which rows each
gets.

Everything here is post-processing of released numbers (docs/guide/users.md): agreement rates, a
table of users and synthetic rows.
"""
