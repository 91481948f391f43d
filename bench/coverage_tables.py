"""More tables for `bench.coverage`: four generated ones and any text or Parquet file. On `trial`
no constant of `fastdp.answers` was chosen; `orders` and `diary` were looked at for the allowances of
tails and means. `busy` is a hard case on purpose.

`trial`: 2,100 patients, four arms at 30 sites. `orders`: buyers with Pareto(1.2) orders each, of
which the busy ones buy other things in another channel, so that a clip leaves out many rows and not
at random. `diary`: 2,500 people with 12 to 60 entries each, which repeat from entry to entry.
`busy`: 6,000 buyers with Pareto(1.3) orders each; their prices rise by .8 with each doubling of
orders, also among the busiest, and so does the part in one channel.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

MOST_VALUES = 120
"""Columns of a file whose texts have more values are left out."""
BINS = 12
"""Numbers of more values than this are cut into as many bins of equal counts."""


def trial(rows: int = 2_100):
    rng = np.random.default_rng(77)
    arm = rng.integers(0, 4, rows)
    site = rng.choice(30, rows, p=rng.dirichlet(np.full(30, 2.0)))
    age = np.clip(rng.normal(5, 2, rows), 0, 11).astype(int)
    sex = rng.integers(0, 2, rows)
    stage = np.clip(rng.poisson(0.4 + age / 6), 0, 3)
    prior = np.where(rng.random(rows) < 0.7, stage // 2, rng.integers(0, 3, rows))
    score = np.clip(np.round(5 - stage + (arm == 2) + rng.normal(0, 1.5, rows)), 0, 9).astype(int)
    died = (rng.random(rows) < 0.05 + 0.08 * stage - 0.02 * arm).astype(int)
    columns = {"arm": arm, "site": site, "age": age, "sex": sex, "stage": stage, "prior": prior}
    return _coded(columns | {"score": score, "died": died}, None)


def orders(users: int = 9_000):
    rng = np.random.default_rng(78)
    rows = np.minimum(np.ceil(rng.pareto(1.2, users) * 3 + 0.5), 900).astype(int)
    busy = np.log2(rows + 1)
    channel = (rng.random(users) < 1 / (1 + np.exp(3.5 - busy))).astype(int) + (
        rng.random(users) < 0.1
    )
    town = rng.choice(40, users, p=rng.dirichlet(np.full(40, 1.0)))
    user = np.repeat(np.arange(users), rows)
    total = len(user)
    taste = rng.integers(0, 12, users)[user]
    shop = np.where(rng.random(total) < 0.5, taste, rng.zipf(1.7, total) % 25)
    kind = np.where(rng.random(total) < 0.6, shop % 5, (busy[user]).astype(int) % 5)
    price = np.clip(rng.normal(3 + kind + 0.3 * busy[user], 1.5), 0, 15).astype(int)
    month = rng.integers(0, 12, total)
    paid = (rng.random(total) < 0.2 + 0.1 * channel[user]).astype(int)
    columns = {
        "channel": channel[user],
        "town": town[user],
        "shop": shop,
        "kind": kind,
        "price": price,
    }
    return _coded(columns | {"month": month, "paid": paid}, user)


def diary(users: int = 2_500):
    rng = np.random.default_rng(79)
    rows = rng.integers(12, 61, users)
    user = np.repeat(np.arange(users), rows)
    total = len(user)
    home = rng.choice(15, users, p=rng.dirichlet(np.full(15, 1.5)))
    place = np.where(rng.random(total) < 0.7, home[user], rng.integers(0, 15, total))
    mood = np.clip(
        np.round(rng.normal(4, 1.5, users)[user] + rng.normal(0, 1, total)), 0, 8
    ).astype(int)
    sleep = np.clip(np.round(mood / 2 + rng.normal(3, 1.2, total)), 0, 9).astype(int)
    hour = rng.choice(
        24, total, p=np.bincount(rng.normal(15, 5, 9999).astype(int) % 24, minlength=24) / 9999
    )
    act = np.where(rng.random(total) < 0.5, hour // 4, rng.integers(0, 9, total))
    alone = (rng.random(total) < 0.3 + 0.05 * (place % 5)).astype(int)
    columns = {
        "place": place,
        "mood": mood,
        "sleep": sleep,
        "hour": hour,
        "act": act,
        "alone": alone,
    }
    return _coded(columns, user)


def busy(users: int = 6_000, rise: float = 0.8):
    rng = np.random.default_rng(80)
    rows = np.minimum(np.ceil(rng.pareto(1.3, users) * 3 + 0.5), 600).astype(int)
    doublings = np.log2(rows + 1)
    user = np.repeat(np.arange(users), rows)
    total = len(user)
    level = rise * (doublings - 2) + rng.normal(0, 1, users)
    price = np.clip(np.round(8 + level[user] + rng.normal(0, 1.5, total)), 0, 24).astype(int)
    kind = rng.integers(0, 6, total)
    home = rng.integers(0, 12, users)[user]
    online = rng.random(total) < 1 / (1 + np.exp(3.8 - 0.6 * doublings[user]))
    columns = {"price": price, "kind": kind, "home": home, "online": online}
    return _coded(columns, user)


def _coded(columns, user):
    columns = {name: np.asarray(codes, np.int64) for name, codes in columns.items()}
    return {name: int(codes.max()) + 1 for name, codes in columns.items()}, columns, user


def of_file(path: Path, user: str | None):
    """Any table in codes: texts by frequency, numbers of many values in bins of equal counts."""
    import polars as pl

    read = pl.read_parquet if path.suffix == ".parquet" else pl.read_csv
    if path.suffix == ".parquet":
        options = {}
    else:
        options = {"infer_schema_length": None, "null_values": ["NA", ""]}
    frame = read(path, **options)
    if user is not None:
        frame = frame.filter(pl.col(user).is_not_null())
    columns = {}
    for name in frame.columns:
        if name == user or frame[name].n_unique() > (
            MOST_VALUES if frame[name].dtype == pl.String else 1e9
        ):
            continue
        ids = frame[name].rank("dense").fill_null(0).to_numpy().astype(np.int64)
        if frame[name].dtype.is_numeric() and frame[name].n_unique() > 2 * BINS:
            x = frame[name].to_numpy().astype(float)
            edges = np.unique(np.nanquantile(x, np.linspace(0, 1, BINS + 1)[1:-1]))
            ids = np.where(np.isnan(x), len(edges) + 1, np.searchsorted(edges, x, side="right"))
        elif frame[name].n_unique() > MOST_VALUES:
            continue
        codes = np.unique(ids, return_inverse=True)[1]
        if codes.max() > 0:
            columns[name[:24]] = codes
    ids = None if user is None else frame[user].rank("dense").to_numpy().astype(np.int64)
    return _coded(columns, ids)


GENERATED = {"trial": trial, "orders": orders, "diary": diary, "busy": busy}
