"""User counts the slow way: query sets by loops over months, histograms by pandas."""

import pandas as pd


def cells(public: pd.DataFrame, columns, user, years, months=3, repeats=(1, 2), t_max=None):
    """The set of (values of the columns..., T) asked about. `columns` include year and month;
    `years` of the schema."""
    seen = public.groupby([user, *columns]).size()
    distinct = set()
    for key, t in seen.items():
        group = dict(zip(columns, key[1:], strict=True))
        for step in range(-months, months + 1):
            when = group["year"] * 12 + group["month"] - 1 + step
            moved = group | {"year": when // 12, "month": when % 12 + 1}
            if moved["year"] in years:
                t_seen = int(t) if t_max is None else min(int(t), t_max)
                for one in {t_seen, *repeats}:
                    distinct.add((*(int(moved[c]) for c in columns), one))
    return distinct


def histogram(private: pd.DataFrame, columns, user, asked):
    """{values of the columns: sum over T of T times the users with exactly T rows}, of the cells
    asked about."""
    per_user = private.groupby([user, *columns]).size().rename("T").reset_index()
    users = per_user.groupby([*columns, "T"]).size()
    out = {}
    for key, n in users.items():
        if tuple(int(k) for k in key) in asked:
            group = tuple(int(k) for k in key[:-1])
            out[group] = out.get(group, 0) + int(key[-1]) * int(n)
    return out
