"""What is learnt from public data: outer marginals and associations of columns (`choice`), habits
of users and the assignment of user ids to synthetic rows by these habits (`ids`). `data` is the
interface through which mechanisms use a public table.

Only `choice` and `data` count rows of tables, and only of tables read with `public=True`; mechanisms
never import those two.
"""
