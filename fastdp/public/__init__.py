"""What may be learnt from public data: outer marginals and associations (`choice`), users' habits and ids
dealt by them (`ids`), and archetypes.

Only `choice` and `archetypes.fit` count tables, and only tables read with `public=True`; mechanisms never
import those two.
"""
