"""Two builds of the compiled core, piece by piece: what a change of the build costs.

    python -m bench.builds FOLDER [--rows 200000] [--times 25] [--seconds 5]

`FOLDER` holds another built checkout, whose `fastdp` is compared with this one. Each build works in
a process of its own, and the two take turns at every piece of `bench.history`, on one thread, in
processor time, at least `--times` times and for `--seconds` of this build. Turns are dealt out to
five parts. The least of many short times is steady on a busy machine: a part's figure is this
build's least time over the other's. Kept is the mean of the parts' with its standard error. Pieces that are
hardly more than calls of the wrappers come first: they show what a call costs. Kept in
bench/results/builds.json.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from . import history, machine

PARTS = 5
RESULT = machine.RESULTS / "builds.json"
START = """
import sys
sys.path.insert(0, sys.argv[1])
import fastdp
assert fastdp.__file__.startswith(sys.argv[1]), fastdp.__file__
sys.path[0] = sys.argv[2]
from bench import builds
builds.serve(int(sys.argv[3]))
"""


def calls() -> dict[str, history.Gauge]:
    """Work that is mostly the wrappers' own."""
    import fastdp

    from . import overhead

    domain, asked = overhead.problem(2, 20.0)
    small = fastdp.simulate.taxi(300, seed=1)

    def steps() -> None:
        fastdp.fit(domain, asked, stop="iters", iters=300, threads=1)

    def fits() -> None:
        for _ in range(10):
            fastdp.fit(domain, asked, threads=1)

    def runs() -> None:
        fastdp.synthesize(
            small, schema="taxi-deid2", epsilon=1.0, delta=1e-5, seed=1, sample_seed=1, threads=1
        )

    return {
        "300 steps over 56 cells (bench.overhead)": steps,
        "10 fits over 56 cells (bench.overhead)": fits,
        "a run of 300 rows": runs,
    }


def serve(rows: int) -> None:
    """Makes the pieces, names them, then measures the one whose name comes in on each line."""
    with tempfile.TemporaryDirectory() as folder:
        pieces = calls() | history.gauges(Path(folder), rows)
        for work in pieces.values():
            work()  # what is made only once
        print(json.dumps(list(pieces)), flush=True)
        for line in sys.stdin:
            print(json.dumps(history.spent(pieces[json.loads(line)])), flush=True)


class Child:
    """A process with the `fastdp` of one folder."""

    def __init__(self, folder: Path, rows: int):
        words = [sys.executable, "-c", START, str(folder.resolve()), str(history.ROOT), str(rows)]
        self.process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def said(self):
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def seconds(self, piece: str) -> float:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(piece) + "\n")
        self.process.stdin.flush()
        return self.said()

    def end(self) -> None:
        self.process.communicate()


def compared(own: list[float], others: list[float]) -> tuple[float, float]:
    """Least time of one list over that of the other: the mean over parts, and its standard error."""
    parts = [min(own[i::PARTS]) / min(others[i::PARTS]) for i in range(PARTS)]
    return statistics.fmean(parts), statistics.stdev(parts) / PARTS**0.5


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="a checkout with its core built")
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--times", type=int, default=25)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--no-save", action="store_true")
    options = parser.parse_args(arguments)
    if options.times < PARTS:
        parser.error(f"--times: at least {PARTS}, one for each part")
    about = machine.describe()
    ours = Child(history.ROOT, options.rows)
    other = Child(options.folder, options.rows)
    pieces = ours.said()
    assert pieces == other.said()
    figures = {}
    for piece in pieces:
        own: list[float] = []
        others: list[float] = []
        while len(own) < options.times or sum(own) < options.seconds:
            own.append(ours.seconds(piece))
            others.append(other.seconds(piece))
        ratio, error = compared(own, others)
        figures[piece] = {
            "seconds": min(own),
            "other": min(others),
            "ratio": ratio,
            "error": error,
        }
        print(f"{piece:<46} {min(own):8.4f} s {ratio:7.3f} ± {error:.3f} times", flush=True)
    ours.end()
    other.end()
    if not options.no_save:
        kept = {"machine": about, "rows": options.rows, "pieces": figures}
        RESULT.write_text(json.dumps(kept, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
