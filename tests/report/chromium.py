"""A headless Chromium spoken to over a pipe (the DevTools protocol), with nothing but the standard
library."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-extensions --hide-scrollbars "
    "--disable-dev-shm-usage --remote-debugging-pipe"
).split()


def find() -> str | None:
    """The browser's path, or None where there is none."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Browser:
    """One browser with one page. `complaints` gathers console errors, exceptions and blocked or failed
    loads."""

    def __init__(self, executable: str, patience: float = 60.0):
        self.patience = patience
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self._next, self._buffer, self._session = 0, b"", None
        self._home = tempfile.mkdtemp(prefix="fastdp-browser-")
        low_read, self._out = os.pipe()
        self._in, low_write = os.pipe()
        # The protocol wants descriptors 3 (to the browser) and 4 (from it); ours must not be among them.
        read_end, write_end = (fcntl.fcntl(end, fcntl.F_DUPFD, 20) for end in (low_read, low_write))
        os.close(low_read)
        os.close(low_write)
        plumbing = f'exec 3<&{read_end} 4>&{write_end} {read_end}<&- {write_end}>&-; exec "$0" "$@"'
        self._process = subprocess.Popen(
            ["bash", "-c", plumbing, executable, *FLAGS, f"--user-data-dir={self._home}", "about:blank"],
            pass_fds=(read_end, write_end),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(read_end)
        os.close(write_end)
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(t["targetId"] for t in targets if t["type"] == "page")
        self._session = self.call("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._in)
        os.close(self._out)
        shutil.rmtree(self._home, ignore_errors=True)

    def call(self, method: str, **params: Any) -> dict:
        """One command of the protocol and its result."""
        self._next += 1
        message: dict[str, Any] = {"id": self._next, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        answer = self._until(lambda m: m.get("id") == self._next)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def _until(self, wanted) -> dict:
        deadline = time.monotonic() + self.patience
        while True:
            while b"\0" in self._buffer:
                raw, self._buffer = self._buffer.split(b"\0", 1)
                message = json.loads(raw)
                self._note(message)
                if wanted(message):
                    return message
            if not select.select([self._in], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise TimeoutError("the browser did not answer in time")
            piece = os.read(self._in, 1 << 20)
            if not piece:
                raise RuntimeError("the browser closed the pipe")
            self._buffer += piece

    def _note(self, message: dict) -> None:
        method, params = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.complaints.append(str(params["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.complaints.append(str(params["args"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.complaints.append(str(params["entry"]))
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])

    def open(self, path: Path, width: int = 1280, height: int = 900, theme: str = "light") -> None:
        """Load a file in a window of that size and colour scheme, and wait for it."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])
        self.complaints.clear()
        self.requests.clear()
        self.call("Page.navigate", url=path.resolve().as_uri())
        deadline = time.monotonic() + self.patience
        while (
            self.run("document.readyState + (document.documentElement?.dataset.ready || '')") != "complete1"
        ):
            if time.monotonic() > deadline:
                raise TimeoutError("the page did not become ready")
            time.sleep(0.05)

    def run(self, script: str) -> Any:
        """The value of a script's last expression."""
        done = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in done:
            raise RuntimeError(str(done["exceptionDetails"]))
        return done["result"].get("value")

    def screenshot(self, path: Path, whole: bool = True) -> None:
        """A PNG of the window, or of the whole page."""
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))
