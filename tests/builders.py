"""What many tests begin with: a schema whose rows have users, an open ledger, a run that is
killed."""

import json
from contextlib import contextmanager

import pytest

import fastdp


def schema_with_users(sizes, user="u", **facts):
    """Columns of so many codes each, and what the schema says of its users."""
    plain = fastdp.Schema.from_domain(sizes, user=user).to_dict()
    return fastdp.Schema.from_dict(plain | {"user": plain["user"] | facts})


def open_ledger(folder, dataset="d", **budget):
    ledger = fastdp.Ledger(folder / "b.db")
    ledger.open(dataset, **budget)
    return ledger


def statement_of(folder):
    return json.loads((folder / "privacy.json").read_text())


@contextmanager
def killed_at(where):
    """What stands in the block dies where it calls this function, and with it the block."""

    def die(*_, **__):
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(where, die)
        yield
