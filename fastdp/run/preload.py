"""What later steps of a run need, loaded while its rows are read.

Reading leaves the interpreter idle: files are decoded and encoded by threads of compiled code.
Importing the estimator and hashing the package take a tenth of a second each.
"""

import contextlib
import threading

from ..privacy.statement import build_hash


def preload(sparse: bool) -> None:
    """Start the imports in a thread of their own and return. `sparse`: the fit needs scipy.sparse.
    Nothing waits for the thread. Code that needs a module waits for that module, and meets the
    error again if its import failed."""
    threading.Thread(target=_load, args=(sparse,), name="fastdp-ahead", daemon=True).start()


def _load(sparse: bool) -> None:
    with contextlib.suppress(Exception):  # who needs the module meets its error
        if sparse:
            import scipy.sparse  # noqa: F401
        from ..estimate import estimator  # noqa: F401
        from ..model import array_file, sampler  # noqa: F401

        build_hash()
