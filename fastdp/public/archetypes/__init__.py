"""Archetypes of users, learnt from public data alone: `fit` counts public tables, `model` holds
what was learnt, `store` keeps it in a folder. Mechanisms import `model` and `options`, never `fit`.
"""
