"""The run folder: it appears whole or not at all, and holds only what may be released.

While a run works, its files are in `DIR.tmp-XXXX` next to the folder. At the end all are flushed to
the disk, and the folder gets its name by one rename. What is not for release (timings, log, the
run's own ledger, state to resume from) is in `DIR.private/`, or where `private_dir=` says
(`private_folder`).
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from .._util.files import as_path, replacing, sync, sync_tree, write_atomic
from ..errors import RunError
from .private_folder import OUT_FILE, UnfinishedNote, check_place, folder_path, private_path, secure

STATE_VERSION = 1
"""Of `state.json`; a run that another version began is not resumed."""


class RunFolder:
    """The folder of one run, and its private folder. `state`: what is kept in the private folder to
    resume an interrupted run (arguments, digests, seeds)."""

    def __init__(
        self,
        out: str | os.PathLike,
        *,
        resume: bool = False,
        private_dir: str | os.PathLike | None = None,
    ):
        self.out = folder_path(out, "out=")
        self.private = private_path(self.out, private_dir)
        self.elsewhere = self.private != private_path(self.out, None)
        self.unfinished = UnfinishedNote(self.out)
        self.resume = resume
        self.state: dict[str, Any] = {}
        self._lock: int | None = None
        self._made_private = False
        self._made: list[Path] = []
        self._staging: Path | None = None

    @property
    def finished(self) -> bool:
        """Whether the folder has its final name, so that the results are complete."""
        return (self.out / "privacy.json").is_file()

    def open(self) -> RunFolder:
        """Lock the private folder for this run, and read its state on resume. Raises RunError if
        the run folder exists, cannot be written, or is in use by another run."""
        if _exists(self.out) and not (self.resume and self.finished):
            raise RunError(f"{self.out} already exists; remove it or choose another out=")
        state = self.private / "state.json"
        if _exists(state) and not self.resume:
            raise RunError(
                f"{self.private} has an unfinished run; continue it with resume=True, or remove that "
                "folder"
            )
        self.unfinished.check(self.private)
        if self.resume and self.finished and not _exists(state):
            raise RunError(f"resume=True: {self.out} is complete, so there is nothing to resume")
        if self.resume and not _exists(state):
            raise RunError(
                f"resume=True: there is no run to resume ({state} is missing); if the run has its"
                " private folder elsewhere, give the same private_dir="
            )
        if self.elsewhere:
            check_place(self.private, self.out)
        self._made = [p for p in (*self.out.parents, *self.private.parents) if not _exists(p)]
        try:
            self._lock = self._make_and_lock()
            if self.elsewhere:
                self._claim()
        except RunError:
            self._undo()
            raise
        except OSError as error:
            self._undo()
            places = dict.fromkeys(str(path.parent) for path in (self.out, self.private))
            raise RunError(f"cannot write to {' or '.join(places)}: {error.strerror}") from error
        if self.resume:
            self._read_state(state)
            for name in self.state.get("staging", []):
                shutil.rmtree(self.out.parent / name, ignore_errors=True)
        return self

    def _make_and_lock(self) -> int:
        """Make the private folder if it is missing, and lock it; returns the lock's descriptor."""
        self.out.parent.mkdir(parents=True, exist_ok=True)
        self.private.parent.mkdir(parents=True, exist_ok=True)
        if not os.path.lexists(self.private):
            self.private.mkdir(mode=0o700)
            self._made_private = True
        self._secure()
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        lock = os.open(self.private / "lock", flags, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(lock)
            raise RunError(
                f"another process is using {self.private}; wait until it ends"
            ) from error
        if not self._is_lock(lock):
            os.close(lock)
            raise RunError(f"another process has just used {self.private}; try again")
        return lock

    def _secure(self) -> None:
        """Let only the owner read the private folder. One that `private_dir=` names must be new,
        empty or this run's own."""
        secure(self.private, self.out if self.elsewhere and not self.resume else None)

    def _claim(self) -> None:
        """Write the path of the run folder into the private folder, and that of the private folder
        next to the run folder."""
        self._secure()  # again: another run may have used it before this one had the lock
        write_atomic(self.private / OUT_FILE, os.fsencode(self.out) + b"\n", 0o600)
        self.unfinished.write(self.private)

    def _undo(self) -> None:
        """Remove the folders that `open` made before it failed. Without the lock, only empty ones
        go: another run may use them."""
        if self._made_private and self._lock is not None:
            shutil.rmtree(self.private, ignore_errors=True)
        self._remove_empty([self.private] if self._made_private else [])
        if self._lock is not None:
            self.close()

    def _remove_empty(self, folders: Sequence[Path] = ()) -> None:
        """Remove these folders and the parent folders that this run made, if they are empty."""
        for folder in (*folders, *self._made):
            with contextlib.suppress(OSError):
                folder.rmdir()

    def _is_lock(self, lock: int) -> bool:
        """Whether the locked file is still the file named `lock`. A run that ends removes its file,
        and another run may have made a new one since."""
        try:
            return os.path.samestat(os.fstat(lock), os.stat(self.private / "lock"))
        except FileNotFoundError:
            return False

    def _read_state(self, path: Path) -> None:
        try:
            self.state = json.loads(path.read_text("utf-8"))
        except (OSError, ValueError) as error:
            self._close_lock()
            raise RunError(
                f"{path} cannot be read; remove {self.private} and start again"
            ) from error
        if not isinstance(self.state, dict) or self.state.get("version") != STATE_VERSION:
            self._close_lock()
            raise RunError(
                f"{path} was written by another version of fastdp; finish the run with that version"
            )

    def settle_arguments(
        self,
        arguments: Mapping[str, Any],
        drawn: Mapping[str, Any],
        limits: Sequence[Mapping[str, Any]] = (),
    ) -> Mapping[str, Any]:
        """Store a new run's arguments, limits and what it drew (`drawn`: seed, run id); return
        `drawn`. For a resumed run, check that the arguments are the same, and return what the
        interrupted run drew.

        limits: for each epsilon, the options that may change on resume, such as limits on the model's
        size. They are not compared here; `limits_before` gives the earlier ones.
        """
        arguments = json.loads(json.dumps(dict(arguments), sort_keys=True))
        kept = json.loads(json.dumps(list(limits)))
        if self.resume:
            before = self.state.get("arguments", {})
            for key in sorted({*before, *arguments}):
                if before.get(key) != arguments.get(key):
                    raise RunError(
                        f"resume=True: {key} differs from the run in {self.private}; resume a run with "
                        "the arguments it started with"
                    )
            return self.state["fresh"]
        self.keep(
            version=STATE_VERSION, arguments=arguments, limits=kept, fresh=dict(drawn), staging=[]
        )
        return drawn

    @property
    def limits_before(self) -> Sequence[Mapping[str, Any]]:
        """For each epsilon, the limits with which the interrupted run was started, or last
        resumed."""
        return self.state.get("limits", [])

    @property
    def stopped(self) -> str | None:
        """Why the run ended early because of its own noisy answers; None if it did not. Such a run
        cannot be resumed."""
        return self.state.get("stopped")

    def keep(self, **facts: Any) -> None:
        """Store facts in the run's state file; they replace those of the same names."""
        self.state |= facts
        text = json.dumps(self.state, indent=1)
        write_atomic(self.private / "state.json", text.encode(), 0o600)

    def staging(self) -> Path:
        """The temporary folder to write into. Its name is in the state file before it is made, so
        that a resumed run removes it."""
        if self._staging is None:
            path = self.out.with_name(f"{self.out.name}.tmp-{secrets.token_hex(4)}")
            self.keep(staging=[*self.state.get("staging", []), path.name])
            path.mkdir()
            self._staging = path
        return self._staging

    def publish(self) -> None:
        """Flush all files to disk, then give the folder its final name. All files get the same
        modification time: differences would tell how long steps on private data took."""
        staging = self.staging()
        now = int(time.time())
        for folder, _, files in os.walk(staging, topdown=False):
            for path in (*(Path(folder, name) for name in files), Path(folder)):
                os.utime(path, (now, now))
        sync_tree(staging)
        try:
            os.rename(staging, self.out)
        except OSError as error:
            raise RunError(f"cannot put the results at {self.out}: {error.strerror}") from error
        sync(self.out.parent)
        self._staging = None

    def forget(self) -> None:
        """Remove the state of a run that ended, so that nothing is left to resume, and unlock."""
        (self.private / "state.json").unlink(missing_ok=True)
        self.unfinished.remove(self.private)
        self.close()

    def abandon(self, *, keep: bool) -> None:
        """Clean up after a failure: remove half-written files, and unlock. `keep`: the run was
        charged, so its state stays for `resume=True`. A resumed run's state always stays."""
        if self._staging is not None:
            shutil.rmtree(self._staging, ignore_errors=True)
            self._staging = None
        if not keep and not self.resume:
            self.remove_traces()
        self.close()

    def remove_traces(self) -> None:
        """Remove the private folder if this run made it, else only this run's state in it. Empty
        parent folders that this run made go too."""
        (self.private / "state.json").unlink(missing_ok=True)
        self.unfinished.remove(self.private)
        if self._made_private:
            shutil.rmtree(self.private, ignore_errors=True)
        elif self.elsewhere:
            (self.private / OUT_FILE).unlink(missing_ok=True)
        self._remove_empty()

    def close(self) -> None:
        """Unlock the private folder."""
        with contextlib.suppress(FileNotFoundError):
            (self.private / "lock").unlink()
        self._close_lock()

    def _close_lock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _exists(path: Path) -> bool:
    """Whether the path exists; RunError if that cannot be found out."""
    try:
        return path.exists()
    except OSError as error:
        raise RunError(f"cannot write to {path.parent}: {error.strerror}") from None


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A temporary path to write a file to, which gets the name `path` when the block ends well. So
    the file is written whole or not at all; RunError if it cannot be written."""
    path = as_path(path, "the file to write")
    if not path.parent.is_dir():
        raise RunError(f"cannot write {path}: there is no folder {path.parent}")
    try:
        with replacing(path) as aside:
            yield aside
    except OSError as error:
        raise RunError(f"cannot write {path}: {error.strerror}") from error
