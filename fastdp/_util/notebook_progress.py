"""Progress in a notebook: one display that is updated, where IPython runs and shows output to a
person.

Nothing is imported: a notebook has IPython loaded already.
"""

import sys
import threading
import time
from collections.abc import Callable
from html import escape
from typing import Any

from .progress import Progress

EVERY = 0.2
"""Seconds between two updates, at least."""
SHORT = 0.4
"""Seconds after which a call that is usually over by then shows its bar."""


def progress_callback(progress: Any, after: float = 0.0) -> Any:
    """What a run reports its progress to: the callback that the caller gave, or the notebook's bar where
    none was given, which appears `after` so many seconds. None if `progress` is False."""
    if progress is None:
        return notebook_progress(after)
    if progress is False:
        return None
    return progress


def notebook_progress(after: float = 0.0) -> Callable[[Progress], None] | None:
    """A callback that shows a bar in the cell that is running; None outside of notebooks."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if ipython is None or shell is None or getattr(shell, "kernel", None) is None:
        return None
    return _Display(ipython.display, after)


class _Display:
    """Shows progress in the cell's output: displays a bar once, then updates it. Nothing before
    `after` seconds."""

    def __init__(self, display: Any, after: float):
        self._display = display
        self._after = after
        self._handle = None
        self._lock = threading.Lock()
        self._last = 0.0

    def __call__(self, progress: Progress) -> None:
        if progress.seconds < self._after:
            return
        now = time.monotonic()
        with self._lock:
            if now - self._last < EVERY and progress.fraction < 1:
                return
            self._last = now
            shown = self._display.HTML(bar_html(progress))
            if self._handle is None:
                self._handle = self._display.display(shown, display_id=True)
            else:
                self._handle.update(shown)


def bar_html(progress: Progress) -> str:
    """A bar, the stage and the time left."""
    left = progress.seconds_left
    words = f"{progress.run} {progress.text or progress.stage}".strip()
    if progress.fraction >= 1:
        words = f"fastdp: done in {progress.seconds:.1f} s"
        left = None
    after = "" if left is None else f", about {left:.0f} s left"
    return (
        f'<progress max="1" value="{min(1.0, progress.fraction):.3f}"'
        f' style="width:16em"></progress> {escape(words)}{after}'
    )
