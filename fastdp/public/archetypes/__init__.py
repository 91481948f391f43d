"""Archetypes of users, learnt from public data alone.

`fit` counts public tables; `conditional`, `mixture` and `prior` are parts of that fit. `model`
holds what was learnt and stores it in a folder. `archetype_users` draws users, and `options` are
the settings. Mechanisms import `model` and `options`, never `fit`.
"""
