"""The ledger's file, its head and its lock: whatever is missing, exchanged or cannot be written is
an error that names it, and nothing is charged."""

import json
import shutil
import sqlite3
from pathlib import Path

import pytest

from fastdp.errors import LedgerError, UsageError
from fastdp.privacy import ledger_store as store
from fastdp.privacy.accountant import Gaussian
from fastdp.privacy.ledger import Ledger
from fastdp.privacy.unit import Unit


def head(path: Path) -> Path:
    return path.with_name(path.name + ".head")


def test_a_ledger_without_its_file_is_not_begun_anew(ledger, path):
    """With the head alone, neither reading nor opening a data set makes a new chain."""
    path.rename(path.with_name("aside"))
    for attempt in (ledger.datasets, lambda: Ledger(path).open("other", epsilon=1.0, delta=1e-6)):
        with pytest.raises(LedgerError, match="is missing, but its head file exists"):
            attempt()
    assert not path.exists()
    path.with_name("aside").rename(path)
    assert list(ledger.datasets()) == ["trips"]


def test_another_ledger_in_its_place_is_noticed(ledger, path, tmp_path):
    """By a process that has seen the first one, even if file and head belong together."""
    other = tmp_path / "other.db"
    Ledger(other).open("trips", epsilon=30.0, delta=1e-6)
    ledger.datasets()
    for made, place in ((other, path), (head(other), head(path))):
        shutil.copy(made, place)
    with pytest.raises(LedgerError, match="was replaced by another ledger"):
        ledger.reserve("trips", "r", [Gaussian(0.1)], unit=Unit("row"))
    assert Ledger(path).datasets()["trips"]["epsilon"] == 30.0


def test_a_full_disk_is_named_where_it_ended_the_transaction(ledger, path):
    """SQLite rolls back by itself then; a second roll-back would hide the reason."""
    with pytest.raises(LedgerError, match="disk is full"):
        with store.FileStore(path).transaction() as work:
            work._connection.execute("ROLLBACK")
            raise sqlite3.OperationalError("database or disk is full")
    assert list(ledger.datasets()) == ["trips"]


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE meta SET format = format + 1",
        "DELETE FROM meta",
        "INSERT INTO meta SELECT 'x', format FROM meta",
    ],
)
def test_another_format_is_refused(ledger, path, sql):
    with sqlite3.connect(path) as connection:
        connection.execute(sql)
    connection.close()
    with pytest.raises(LedgerError, match="is not a ledger of format"):
        Ledger(path).datasets()


def test_a_lock_that_cannot_be_opened_is_an_error(ledger, path):
    lock = path.with_name(path.name + ".lock")
    lock.unlink(missing_ok=True)
    lock.mkdir()
    with pytest.raises(LedgerError, match=r"lock .* cannot be opened: Is a directory"):
        ledger.datasets()


def test_a_head_that_cannot_be_written_is_an_error_and_the_charge_stands(ledger, path, monkeypatch):
    def full(*_args, **_options):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(store, "write_atomic", full)
        with pytest.raises(
            LedgerError, match=r"head file .* cannot be written: No space left on device"
        ):
            ledger.reserve("trips", "r", [Gaussian(0.1)], unit=Unit("row"))
    assert Ledger(path).spent("trips")["mu"] == pytest.approx(0.1), "in the file it was charged"


def test_a_head_lags_by_one_record_at_most(ledger, path):
    """One record behind, as after a crash between the two files, it is written again; two behind,
    one of the files is not of its time."""
    heads = [head(path).read_bytes()]
    for name in ("rides", "walks"):
        ledger.open(name, epsilon=1.0, delta=1e-6)
        heads.append(head(path).read_bytes())
    head(path).write_bytes(heads[1])
    Ledger(path).open("swims", epsilon=1.0, delta=1e-6)
    assert len(Ledger(path).datasets()) == 4
    for old in heads[:2]:
        head(path).write_bytes(old)
        with pytest.raises(LedgerError) as caught:
            Ledger(path).open("flights", epsilon=1.0, delta=1e-6)
        text = f"the head file {head(path)} is older than the ledger's start"
        assert str(caught.value).startswith(text)


DAMAGED = {
    "of another ledger": lambda head: head | {"id": "another"},
    "of another past": lambda head: head | {"hash": "0" * 64},
    "of a later record": lambda head: head | {"seq": head["seq"] + 1},
    "without a field": lambda head: {"id": head["id"], "hash": head["hash"]},
    "with a number that is none": lambda head: head | {"seq": str(head["seq"])},
    "a list": lambda head: [head],
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_nothing_is_charged_beside_a_head_of_something_else(ledger, path, damage):
    before = path.read_bytes()
    head(path).write_text(json.dumps(DAMAGED[damage](json.loads(head(path).read_text()))))
    with pytest.raises(LedgerError):
        Ledger(path).reserve("trips", "r", [Gaussian(0.1)], unit=Unit("row"))
    assert path.read_bytes() == before


WRONG = [("row", "u"), ("row", None, "own"), ("user",), ("user", ""), ("event", 5), ("people", "u")]


@pytest.mark.parametrize("unit", [*WRONG, ("user", "u", "keep")])
def test_a_unit_has_a_column_just_where_it_has_users(unit):
    with pytest.raises(UsageError, match="unit: "):
        Unit(*unit)
    assert (Unit("row").null, Unit("user", "u").null, Unit("event", "u", "own").null) == (
        None,
        "drop",
        "own",
    )
