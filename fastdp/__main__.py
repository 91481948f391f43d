"""`fastdp` and `python -m fastdp`: the command line in a process of its own."""

import atexit
import gc
import os
import sys


def main() -> None:
    """Set up the process, then import and run the command line."""
    # Imports make 120,000 lasting objects and hardly any cycle. Searching them for cycles took 40
    # ms of a small run, and once more at the end; from here on the search begins with the next
    # 200,000.
    gc.set_threshold(200_000, 5, 20)
    atexit.register(_leave_cycles)
    # Threads of BLAS spin for a while as soon as numpy and scipy are imported; nothing here needs
    # them.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from .cli.app import main as run

    run()


def _leave_cycles() -> None:
    """At the end, cycles are left to the system. DuckDB's module would complain of each object."""
    if "_duckdb" not in sys.modules:
        gc.freeze()


if __name__ == "__main__":
    main()
