"""The run folder: it appears whole or not at all, and holds only what may be released.

While a run works, its files are in `DIR.tmp-XXXX` next to the folder; at the end all are flushed to
the disk and the folder gets its name by one rename. What is not for release (timings, log, the
run's own ledger, state to resume from) is in `DIR.private/`.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import shutil
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from .._util.files import as_path, replacing, sync, sync_tree, write_atomic
from ..errors import RunError, UsageError

STATE_VERSION = 1
MOST_NAME, MOST_PATH = 240, 3500
"""Most bytes of the folder's name and of its path. File systems allow 255 and 4096; the staging
folder and its files have longer names than the folder, and are made only after noise was drawn."""


class RunFolder:
    """One run's place on the disk. `state` is what a resumed run must agree with (arguments,
    digests, seeds)."""

    def __init__(self, out: str | os.PathLike, *, resume: bool = False):
        self.out = Path(os.path.abspath(as_path(out, "out=")))
        if not self.out.name:
            raise UsageError("out= must name a folder that fastdp can make")
        if len(os.fsencode(self.out.name)) > MOST_NAME or len(os.fsencode(self.out)) > MOST_PATH:
            raise UsageError(
                f"out=: at most {MOST_NAME} bytes of name and {MOST_PATH} of path are possible"
            )
        self.private = self.out.with_name(self.out.name + ".private")
        self.resume = resume
        self.state: dict[str, Any] = {}
        self._lock: int | None = None
        self._fresh = False
        self._made: list[Path] = []
        self._staging: Path | None = None

    @property
    def finished(self) -> bool:
        return (self.out / "privacy.json").is_file()

    def open(self) -> RunFolder:
        """Take the run folder for this run: locks it, checks that it can be written and that no
        other run uses it. RunError says what to do."""
        if _exists(self.out) and not (self.resume and self.finished):
            raise RunError(f"{self.out} already exists; remove it or choose another out=")
        state = self.private / "state.json"
        if state.exists() and not self.resume:
            raise RunError(f"{self.private} has an unfinished run: use resume=True, or remove it")
        if self.resume and not state.exists():
            raise RunError(f"resume=True: there is no run to resume ({state} is missing)")
        self._made = [p for p in self.out.parents if not p.exists()]
        try:
            self.out.parent.mkdir(parents=True, exist_ok=True)
            self._fresh = not os.path.lexists(self.private)
            if self._fresh:
                self.private.mkdir(mode=0o700)
            self._check_private()
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            self._lock = os.open(self.private / "lock", flags, 0o600)
        except OSError as error:
            raise RunError(f"cannot write to {self.out.parent}: {error.strerror}") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._close_lock()
            raise RunError(
                f"another process is using {self.private}; wait until it ends"
            ) from error
        if not self._holds_lock():
            self._close_lock()
            raise RunError(f"another process has just used {self.private}; try again")
        if self.resume:
            self._read_state(state)
            for name in self.state.get("staging", []):
                shutil.rmtree(self.out.parent / name, ignore_errors=True)
        return self

    def _check_private(self) -> None:
        """Raise RunError if the private folder is a link, no folder, or somebody else's; otherwise
        take it and its files for its owner alone."""
        found = os.lstat(self.private)
        if not stat.S_ISDIR(found.st_mode):
            raise RunError(f"{self.private} is a link or no folder; remove it")
        if found.st_uid != os.geteuid():
            raise RunError(f"{self.private} belongs to somebody else; choose another out=")
        self.private.chmod(0o700)
        for path in self.private.iterdir():
            if path.is_symlink():
                raise RunError(f"{path} is a link; remove it")
            if path.is_file():
                path.chmod(0o600)

    def _holds_lock(self) -> bool:
        """Whether the locked file still has the lock's name: a run that ends removes the file, and
        a new one may have been made since."""
        if self._lock is None:
            return False
        try:
            return os.path.samestat(os.fstat(self._lock), os.stat(self.private / "lock"))
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
                f"{path} is of another version of fastdp; finish the run with that version"
            )

    def agree(
        self,
        arguments: Mapping[str, Any],
        fresh: Mapping[str, Any],
        limits: Sequence[Mapping[str, Any]] = (),
    ) -> Mapping[str, Any]:
        """Store the arguments and what was drawn for the run (`fresh`: seeds, run ids). On resume
        it checks that the arguments are the same, and returns what the interrupted run drew.
        `limits` may differ between the interrupted run and the one that resumes it; `limits_before`
        gives the earlier ones."""
        arguments = json.loads(json.dumps(dict(arguments), sort_keys=True))
        kept = json.loads(json.dumps(list(limits)))
        if self.resume:
            before = self.state.get("arguments", {})
            for key in sorted({*before, *arguments}):
                if before.get(key) != arguments.get(key):
                    raise RunError(f"resume=True: {key} differs from the run in {self.private}")
            return self.state["fresh"]
        self.keep(
            version=STATE_VERSION, arguments=arguments, limits=kept, fresh=dict(fresh), staging=[]
        )
        return fresh

    @property
    def limits_before(self) -> Sequence[Mapping[str, Any]]:
        """For each epsilon, the limits with which the interrupted run was started or last
        resumed."""
        return self.state.get("limits", [])

    @property
    def stopped(self) -> str | None:
        """Why the run's own noisy answers stopped it, None if they did not. A stopped run cannot be
        resumed."""
        return self.state.get("stopped")

    def keep(self, **facts: Any) -> None:
        """Store these facts in the run's state, in place of those of the same names."""
        self.state |= facts
        text = json.dumps(self.state, indent=1)
        write_atomic(self.private / "state.json", text.encode(), 0o600)

    def staging(self) -> Path:
        """The folder to write into; its name is kept in the state before it is made."""
        if self._staging is None:
            path = self.out.with_name(f"{self.out.name}.tmp-{secrets.token_hex(4)}")
            self.keep(staging=[*self.state.get("staging", []), path.name])
            path.mkdir()
            self._staging = path
        return self._staging

    def publish(self) -> None:
        """Flushes all files to disk, then renames the folder. All files get the same modification
        time, since differences would tell how long steps on private data took."""
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
        """Remove the state of a finished run: there is nothing left to resume."""
        (self.private / "state.json").unlink(missing_ok=True)
        self.close()

    def abandon(self, *, keep: bool) -> None:
        """Remove what is half-written. `keep`: noise was drawn, so the state is kept to resume
        from."""
        if self._staging is not None:
            shutil.rmtree(self._staging, ignore_errors=True)
            self._staging = None
        if not keep and not self.resume:
            self.remove_fresh()
        self.close()

    def remove_fresh(self) -> None:
        """Remove the private folder if this run made it, else only this run's state in it; also the
        parent folders that this run made, if they are empty."""
        (self.private / "state.json").unlink(missing_ok=True)
        if self._fresh:
            shutil.rmtree(self.private, ignore_errors=True)
        with contextlib.suppress(OSError):
            for parent in self._made:
                parent.rmdir()

    def close(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            (self.private / "lock").unlink()
        self._close_lock()

    def _close_lock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError as error:
        raise RunError(f"cannot write to {path.parent}: {error.strerror}") from None


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """`files.replacing` with RunError if the file cannot be written."""
    path = as_path(path, "the file to write")
    if not path.parent.is_dir():
        raise RunError(f"cannot write {path}: there is no folder {path.parent}")
    try:
        with replacing(path) as aside:
            yield aside
    except OSError as error:
        raise RunError(f"cannot write {path}: {error.strerror}") from error
