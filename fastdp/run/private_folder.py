"""The private folder of a run: where it may lie, whose it is, and who may read it.

It is `DIR.private` next to the run folder, or the folder that `private_dir=` names, for run folders
that are synchronised elsewhere. A folder that is named must be new, empty, or this run's own from
before. Its files become readable by their owner alone, and no two runs share one.
"""

import os
import stat
from pathlib import Path

from .._util.files import as_path, write_atomic
from ..errors import RunError, UsageError

OUT_FILE = "run-folder.txt"
"""The file in a private folder elsewhere that names the run folder it belongs to."""
MOST_BYTES = 4096
"""The most bytes read from a file that holds one path."""
MOST_NAME = 240
MOST_PATH = 3500
"""The most bytes of a folder's name and of its path. File systems allow 255 and 4096; the staging
folder and its files have longer names than the folder, and are made only after noise was drawn."""


def folder_path(given: str | os.PathLike, what: str) -> Path:
    """The absolute path of a folder to make; UsageError if it is empty or too long. `what`: the
    argument, as the error names it."""
    path = Path(os.path.abspath(as_path(given, what)))
    if not path.name or not os.fspath(given):
        raise UsageError(f"{what} must name a folder that fastdp can make")
    if len(os.fsencode(path.name)) > MOST_NAME or len(os.fsencode(path)) > MOST_PATH:
        raise UsageError(
            f"{what}: the folder's name has more than {MOST_NAME} bytes, or its path more than "
            f"{MOST_PATH}; choose a shorter one"
        )
    return path


def private_path(out: Path, given: str | os.PathLike | None) -> Path:
    """The private folder of the run folder `out`: the given one, or the one next to it."""
    if given is None:
        return out.with_name(out.name + ".private")
    return folder_path(given, "private_dir=")


def check_place(private: Path, out: Path) -> None:
    """Raise UsageError if the private folder would lie in any run folder, or `out` in the private
    folder. Links are followed."""
    own = Path(os.path.realpath(private))
    released = Path(os.path.realpath(out))
    if own.is_relative_to(released) or released.is_relative_to(own):
        raise UsageError(
            f"private_dir= and out= must not lie in one another, got {private} and {out}"
        )
    for folder in own.parents:
        if (folder / "privacy.json").is_file():
            raise UsageError(
                f"private_dir= must not lie in a run folder, which is for release ({folder})"
            )


def secure(private: Path, only_of: Path | None) -> None:
    """Let only the owner read the folder `private`, which exists, and its files.

    Raises RunError, with nothing changed, if it is not a folder, belongs to another user or holds
    links. `only_of`: a run folder; also refuse files that are not an earlier run's of that folder.
    """
    found = os.lstat(private)
    if not stat.S_ISDIR(found.st_mode):
        raise RunError(f"{private} is a link or no folder; remove it")
    if found.st_uid != os.geteuid():
        raise RunError(f"{private} belongs to somebody else; choose another folder")
    inside = list(private.iterdir())
    if only_of is not None:
        _check_unused(private, {path.name for path in inside}, only_of)
    for path in inside:
        if path.is_symlink():
            raise RunError(f"{path} is a link; remove it")
    private.chmod(0o700)
    for path in inside:
        if path.is_file():
            path.chmod(0o600)


def _check_unused(private: Path, names: set[str], out: Path) -> None:
    """Raise RunError if `private` holds files (`names`) other than those of an earlier run of
    `out`."""
    if names <= {"lock"}:
        return
    owner = _path_in(private / OUT_FILE)
    if owner is None:
        raise RunError(
            f"private_dir=: {private} holds files that are not a run's; give a new or empty folder"
        )
    if owner != os.fspath(out):
        raise RunError(
            f"private_dir=: {private} is the private folder of {owner}; each run has its own, so"
            " give a new or empty folder"
        )


class UnfinishedNote:
    """The note `DIR.unfinished` next to a run folder whose private folder lies elsewhere.

    It holds the path of that private folder until the run is complete. Without it, a user could
    restart an interrupted run without `private_dir=` and be charged twice. fastdp compares the path
    but never writes to it: whoever can write the note could choose where private files go.
    """

    def __init__(self, out: Path) -> None:
        self.file = out.with_name(out.name + ".unfinished")

    def check(self, private: Path) -> None:
        """Raise RunError if the note names another private folder than this one."""
        if not os.path.lexists(self.file):
            return
        noted = _path_in(self.file)
        if noted != os.fspath(private):
            where = "elsewhere" if noted is None else f"in {noted}"
            raise RunError(
                f"{self.file} says that an unfinished run keeps its private files {where}: repeat"
                " its private_dir= with resume=True, or remove that file to start a new run"
            )

    def write(self, private: Path) -> None:
        """Write the note."""
        write_atomic(self.file, os.fsencode(private) + b"\n", 0o600)

    def remove(self, private: Path) -> None:
        """Remove the note if it names this private folder."""
        if os.path.lexists(self.file) and _path_in(self.file) == os.fspath(private):
            self.file.unlink(missing_ok=True)


def _path_in(file: Path) -> str | None:
    """The path that a file of one line holds; None if it cannot be read."""
    try:
        handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as opened:
            return os.fsdecode(opened.read(MOST_BYTES)).removesuffix("\n")
    except (OSError, ValueError):
        return None
