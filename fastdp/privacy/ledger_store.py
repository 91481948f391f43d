"""Where a ledger's chain is kept: an SQLite file that survives crashes and refuses to be rolled
back.

Every change is one record in one transaction under an exclusive lock (`flock` on `PATH.lock`, and
SQLite's own by BEGIN IMMEDIATE). The journal is SQLite's rollback journal with synchronous=EXTRA. A
commit is the unlinking of the journal, and only EXTRA syncs the folder after it. So a power cut
cannot bring the journal, and with it the past, back.

After each commit, still under the lock, the chain's head (number and hash of the last record) goes
to `PATH.head`. It is written to another file, synced and renamed, and the folder is synced. A crash
in between leaves the head one record behind, never ahead. So a database whose last record is older
than its head was rolled back. One that is more than a record ahead of it was written by something
else. Both fail closed. Restoring database and head together to an old state cannot be seen from
these files alone. The statements of the runs since then show it (`Ledger.verify(statement)`).
"""

import contextlib
import fcntl
import hashlib
import json
import os
import secrets
import sqlite3
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from .._util.files import write_atomic
from ..errors import LedgerError
from .chain import State, canonical, record_hash

FORMAT = 1
"""Number of the file format; a ledger of another one is refused."""
PIECE = 64 << 20
"""Bytes of stored answers in one row of the database, whose rows are limited to a gigabyte."""
NONCE_BYTES = 16
"""Random bytes in each record: its published hash then tells nothing of its contents."""
TABLES = (
    "CREATE TABLE meta (id TEXT NOT NULL, format INTEGER NOT NULL)",
    (
        "CREATE TABLE chain (seq INTEGER PRIMARY KEY, kind TEXT NOT NULL, body TEXT NOT NULL,"
        " hash TEXT NOT NULL)"
    ),
    (
        "CREATE TABLE answers (run TEXT, part INTEGER, step INTEGER, array INTEGER, piece INTEGER,"
        " data BLOB NOT NULL, PRIMARY KEY (run, part, step, array, piece))"
    ),
)


class Transaction:
    """A view of the chain under the lock; `append` adds the transaction's one record."""

    def __init__(self, connection: sqlite3.Connection, state: State):
        self._connection = connection
        self.state = state
        self._pending: tuple[int, str, str, str] | None = None

    def append(self, kind: str, body: dict) -> None:
        """Check the record by the chain's rules, then insert it; it counts once the transaction
        commits."""
        if self._pending is not None:
            raise LedgerError("a transaction holds one record")
        body = {**body, "nonce": secrets.token_hex(NONCE_BYTES)}
        self.state.check(kind, body)
        text = canonical(body)
        seq = self.state.seq + 1
        self._pending = (seq, kind, text, record_hash(self.state.hash, seq, kind, text))
        self._connection.execute("INSERT INTO chain VALUES (?, ?, ?, ?)", self._pending)

    def put_arrays(
        self, run: str, part: int, step: int, arrays: Sequence[np.ndarray]
    ) -> list[dict]:
        """Store released answers; returns their shape, type and hash for the record."""
        described = []
        for i, array in enumerate(arrays):
            raw = np.ascontiguousarray(array).data.cast("B") if array.size else memoryview(b"")
            for piece, start in enumerate(range(0, max(len(raw), 1), PIECE)):
                row = (run, part, step, i, piece, raw[start : start + PIECE])
                self._connection.execute("INSERT INTO answers VALUES (?, ?, ?, ?, ?, ?)", row)
            about = {"dtype": array.dtype.str, "shape": list(array.shape)}
            described.append(about | {"sha256": hashlib.sha256(raw).hexdigest()})
        return described

    def get_arrays(self, run: str, part: int, step: int, described: Sequence) -> list[np.ndarray]:
        """The stored answers; LedgerError if one is missing or does not match its hash."""
        arrays = []
        for i, about in enumerate(described):
            pieces = self._connection.execute(
                "SELECT data FROM answers WHERE run=? AND part=? AND step=? AND array=? ORDER BY"
                " piece",
                (run, part, step, i),
            ).fetchall()
            raw = b"".join(p[0] for p in pieces)
            if not pieces or hashlib.sha256(raw).hexdigest() != about["sha256"]:
                raise LedgerError(f"the stored answers of step {step} are missing or were changed")
            dtype: np.dtype = np.dtype(about["dtype"])
            arrays.append(np.frombuffer(raw, dtype).reshape(about["shape"]))
        return arrays

    def drop_arrays(self, run: str) -> None:
        self._connection.execute("DELETE FROM answers WHERE run=?", (run,))

    def hash_at(self, seq: int) -> str | None:
        """The hash of a record, None if there is none of that number."""
        return _hash_at(self._connection, seq)

    def apply(self) -> bool:
        """Take the committed record into the state; whether there was one."""
        if self._pending is None:
            return False
        self.state.append(*self._pending)
        return True


def _hash_at(connection: sqlite3.Connection, seq: int) -> str | None:
    row = connection.execute("SELECT hash FROM chain WHERE seq=?", (seq,)).fetchone()
    return row[0] if row else None


class MemoryStore:
    """A chain that lives and dies with the process, for runs without a ledger of their own."""

    path = None

    def __init__(self):
        self._connection = sqlite3.connect(
            ":memory:", check_same_thread=False, isolation_level=None
        )
        self._lock = threading.RLock()
        self._state = State(uuid.uuid4().hex)
        for statement in TABLES:
            self._connection.execute(statement)

    @contextlib.contextmanager
    def transaction(self, create: bool = False) -> Iterator[Transaction]:
        with self._lock:
            self._connection.execute("BEGIN")
            work = Transaction(self._connection, self._state)
            try:
                yield work
                self._connection.execute("COMMIT")
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            work.apply()


class FileStore:
    """A chain in an SQLite file, with its head and its lock next to it; safe for many processes,
    threads and forks.

    `trace` is called with the name of each point that matters after a crash; only tests pass one.
    """

    def __init__(
        self, path: Path, timeout: float = 30.0, trace: Callable[[str], None] | None = None
    ):
        self.path = Path(path)
        self.head = self.path.with_name(self.path.name + ".head")
        self._lock_path = self.path.with_name(self.path.name + ".lock")
        self._timeout = timeout
        self._state: State | None = None
        self._thread_lock = threading.RLock()
        self._trace = trace or (lambda point: None)

    @contextlib.contextmanager
    def transaction(self, create: bool = False) -> Iterator[Transaction]:
        """Lock, catch up with the chain, yield, commit, sync, move the head. Nothing is kept if the
        body raises."""
        with self._thread_lock, self._locked(create):
            connection = self._connect(create)
            try:
                with self._sqlite_errors():
                    connection.execute("BEGIN IMMEDIATE")
                    state = self._catch_up(connection)
                    work = Transaction(connection, state)
                try:
                    yield work
                except BaseException:
                    if connection.in_transaction:  # a full disk has ended it already
                        connection.execute("ROLLBACK")
                    raise
                with self._sqlite_errors():
                    connection.execute("COMMIT")
                self._trace("committed")
                if work.apply():
                    self._write_head(state)
            except sqlite3.Error as error:
                raise LedgerError(f"the ledger at {self.path} cannot be written: {error}") from None
            finally:
                connection.close()

    @contextlib.contextmanager
    def _sqlite_errors(self):
        try:
            yield
        except sqlite3.OperationalError as error:
            if "lock" in str(error):
                hint = "another program holds it"
            else:
                hint = "disk full, read-only or damaged?"
            raise LedgerError(f"the ledger at {self.path}: {error} ({hint})") from None
        except sqlite3.DatabaseError as error:
            raise LedgerError(f"the ledger at {self.path} is damaged: {error}") from None

    @contextlib.contextmanager
    def _locked(self, create: bool):
        """The ledger's lock, for as long as the block lasts. LedgerError if there is no ledger (and
        `create` is False), or if another run holds the lock until the timeout."""
        there = self.path.exists()
        if not there and self.head.exists():
            raise LedgerError(
                f"the ledger {self.path} is missing, but its head file exists; restore the "
                "ledger from a backup"
            )
        if not there and not create:
            raise LedgerError(
                f"there is no ledger at {self.path}; open a data set in it first: "
                "Ledger(path).open(name, epsilon=..., delta=...), or `fastdp ledger open`"
            )
        try:
            handle = os.open(self._lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise LedgerError(
                f"the ledger's lock {self._lock_path} cannot be opened: {error.strerror}"
            ) from None
        try:
            deadline = time.monotonic() + self._timeout
            while True:
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except OSError:
                    if time.monotonic() > deadline:
                        raise LedgerError(
                            f"the ledger at {self.path} stayed locked for {self._timeout:g} "
                            "s, because another run uses it; try again later"
                        ) from None
                    time.sleep(0.005)
            yield
        finally:
            os.close(handle)

    def _connect(self, create: bool) -> sqlite3.Connection:
        """A connection whose writes are on disk when they return. `create`: a new ledger gets its
        tables."""
        with self._sqlite_errors():
            if create:  # for its owner alone, like its lock and its head
                # A file that is there is not opened: closing it would drop the locks that SQLite
                # holds on it.
                with contextlib.suppress(OSError):  # SQLite says what is wrong
                    os.close(
                        os.open(
                            self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600
                        )
                    )
            uri = f"{self.path.absolute().as_uri()}?mode={'rwc' if create else 'rw'}"
            connection = sqlite3.connect(
                uri, uri=True, timeout=self._timeout, isolation_level=None, check_same_thread=False
            )
            try:
                connection.execute("PRAGMA journal_mode=DELETE")
                connection.execute("PRAGMA synchronous=EXTRA")
                connection.execute("PRAGMA fullfsync=1")
                if (
                    create
                    and not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
                ):
                    self._create(connection)
            except sqlite3.Error:
                connection.close()
                raise
        return connection

    def _create(self, connection: sqlite3.Connection) -> None:
        connection.execute("BEGIN IMMEDIATE")
        for statement in TABLES:
            connection.execute(statement)
        connection.execute("INSERT INTO meta VALUES (?, ?)", (uuid.uuid4().hex, FORMAT))
        connection.execute("COMMIT")

    def _catch_up(self, connection: sqlite3.Connection) -> State:
        """The state of the whole chain: records this process has seen are trusted if their last
        hash still stands."""
        meta = connection.execute("SELECT id, format FROM meta").fetchall()
        if len(meta) != 1 or meta[0][1] != FORMAT:
            raise LedgerError(f"{self.path} is not a ledger of format {FORMAT}")
        state = self._state or State(meta[0][0])
        if state.id != meta[0][0]:
            raise LedgerError(f"the ledger at {self.path} was replaced by another ledger")
        if state.seq and _hash_at(connection, state.seq) != state.hash:
            raise LedgerError(f"the ledger at {self.path} was rolled back or changed while in use")
        rows = connection.execute(
            "SELECT seq, kind, body, hash FROM chain WHERE seq > ? ORDER BY seq", (state.seq,)
        ).fetchall()
        head = self._read_head()
        self._state = None
        for row in rows:
            state.append(*row)
        self._state = state
        self._check_head(connection, state, head)
        return state

    def _check_head(self, connection: sqlite3.Connection, state: State, head: dict | None) -> None:
        """Raise LedgerError unless the head file, which remembers the last record, fits the ledger."""
        if head is None:
            if state.seq:
                raise LedgerError(
                    f"the head file {self.head} is missing; restore it together with the ledger"
                )
            self._write_head(state)
            return
        if head["id"] != state.id:
            raise LedgerError(f"{self.head} belongs to another ledger")
        if head["seq"] > state.seq:
            raise LedgerError(
                f"the ledger at {self.path} was rolled back: it ends at record {state.seq}, "
                f"but its head file states record {head['seq']}; restore the newer ledger"
            )
        if head["seq"] and (_hash_at(connection, head["seq"]) or "missing") != head["hash"]:
            raise LedgerError(
                f"the ledger at {self.path} and its head file disagree; restore both from one "
                "backup"
            )
        if head["seq"] < state.seq - 1:
            raise LedgerError(
                f"the head file {self.head} is older than the ledger's start; one of them was "
                "rolled back, restore both from one backup"
            )
        if head["seq"] < state.seq:
            self._write_head(state)

    def _read_head(self) -> dict | None:
        """What the head file says; None if there is none."""
        try:
            head = json.loads(self.head.read_text())
        except FileNotFoundError:
            return None
        except (OSError, ValueError):
            raise LedgerError(f"the head file {self.head} cannot be read") from None
        if (
            not isinstance(head, dict)
            or {"id", "seq", "hash"} - set(head)
            or type(head["seq"]) is not int
        ):
            raise LedgerError(f"the head file {self.head} is malformed")
        return head

    def _write_head(self, state: State) -> None:
        text = canonical({"id": state.id, "seq": state.seq, "hash": state.hash})
        try:
            write_atomic(self.head, text.encode(), mode=0o600)
        except OSError as error:
            raise LedgerError(
                f"the head file {self.head} cannot be written: {error.strerror}"
            ) from None
        self._trace("head")
