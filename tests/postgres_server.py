"""A PostgreSQL server for tests, started in a temporary folder: `make test-sql`."""

import os
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

FOLDERS = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
USER = "fastdp"
NOBODY = 65534


def why_not() -> str:
    """Why there can be no server; empty if there can."""
    if os.environ.get("FASTDP_TEST_SQL") != "1":
        return "PostgreSQL is tested by `make test-sql`"
    if not FOLDERS and shutil.which("initdb") is None:
        return "there is no PostgreSQL server here (on Debian: package postgresql)"
    for name in ("adbc_driver_postgresql", "psycopg"):
        try:
            __import__(name)
        except ImportError:
            return f"the package {name} is not installed"
    if os.geteuid() == 0 and shutil.which("setpriv") is None:
        return "a PostgreSQL server does not run as root, and there is no setpriv"
    return ""


@contextmanager
def server():
    """The address of an empty database, reached by a socket in the server's own folder."""
    folder = Path(tempfile.mkdtemp(prefix="fastdp-pg-", dir="/tmp"))
    programs = FOLDERS[-1] if FOLDERS else Path(str(shutil.which("initdb"))).parent
    prefix = []
    if os.geteuid() == 0:
        prefix = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
        os.chown(folder, NOBODY, NOBODY)

    def run(*command):
        subprocess.run([*prefix, *map(str, command)], check=True, capture_output=True, cwd=folder)

    data = folder / "data"
    run(programs / "initdb", "-D", data, "-U", USER, "-A", "trust", "-E", "UTF8", "--no-sync")
    options = f"-k {folder} -c listen_addresses='' -c fsync=off"
    run(programs / "pg_ctl", "-D", data, "-w", "-l", folder / "log", "-o", options, "start")
    try:
        yield f"postgresql:///postgres?host={folder}&user={USER}"
    finally:
        run(programs / "pg_ctl", "-D", data, "-m", "immediate", "stop")
        shutil.rmtree(folder, ignore_errors=True)
