"""Tables of 10 million to a billion rows, simulated in parts and counted in one run: time and
memory as they grow.

    python -m bench.scale [--rows 10000000 100000000] [--billion] [--part 5000000] [--engine local]

Taxi trips, simulated part by part (each with taxis of its own) and written as Parquet, one file a
part. Then for every size a process of its own reads the files it needs and counts the 59 marginals
of `taxi-adagrid`, with weights by a clip of 150, on two threads (or two processes). "peak" is of
the driver and of its largest process, "spooled" the codes that were kept in files, "cpu" the
processor's seconds of all of them. Linearity: seconds a row over those of the smallest size; on a
machine that others use, look at the processor's. `--billion`: a billion rows as well, from a stream
that simulates them as they are read, so that no disk has to hold them; what simulating took is left
out of the seconds.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from . import turns
from .machine import describe, keep, peak_mb

ROOT = Path(__file__).parents[1]
THREADS = 2
CLIP = 150
RECIPE = "taxi-adagrid"
BILLION = 1_000_000_000
TAXIS = 10_000_000
"""More than the numbers of one part's taxis."""


def part(number: int, rows: int):
    """One part of the trips: its taxis are no other part's."""
    import pyarrow as pa
    import pyarrow.compute as pc

    import fastdp

    trips = fastdp.simulate.taxi(rows, seed=number, threads=THREADS)
    at = trips.column_names.index("taxi_id")
    ids = pc.add(trips["taxi_id"].cast(pa.int64()), number * TAXIS)
    return trips.set_column(at, "taxi_id", ids)


def write(number: int, rows: int, folder: str) -> None:
    import pyarrow.parquet as pq

    pq.write_table(
        part(number, rows), f"{folder}/trips-{number:04d}.parquet", row_group_size=1 << 18
    )


def processor() -> float:
    """Seconds that this process, and those of its children that have ended, spent on a
    processor."""
    return sum(os.times()[:4])


class Stream:
    """The parts as one Arrow stream, made as they are read; `spent`, `cpu`: seconds that this took,
    by the clock and of the processor (while it is made nothing is read, but what was read may be
    encoded)."""

    def __init__(self, rows: int, each: int):
        self.rows = rows
        self.each = each
        self.spent = 0.0
        self.cpu = 0.0

    def _batches(self):
        for number, start in enumerate(range(0, self.rows, self.each)):
            begun = time.perf_counter()
            before = time.process_time()
            trips = part(number, min(self.each, self.rows - start))
            self.spent += time.perf_counter() - begun
            self.cpu += time.process_time() - before
            yield from trips.to_batches(1 << 18)

    def reader(self):
        import pyarrow as pa

        return pa.RecordBatchReader.from_batches(part(0, 10).schema, self._batches())


def child(engine: str, rows: int, each: int, folder: str | None) -> None:
    import fastdp
    from fastdp.engines.local import local
    from fastdp.mechanisms import recipe
    from fastdp.mechanisms.adagrid import AdaGrid, closure
    from fastdp.tables.ingest import SPOOL_ROWS

    given = recipe.load(RECIPE)
    schema = fastdp.Schema.load(given.schema or "")
    config = given.config(1.0)
    assert isinstance(config, AdaGrid) and config.outer is not None
    cliques = closure(schema.domain, config.outer)
    stream = Stream(rows, each)
    source = stream.reader() if folder is None else sorted(map(str, Path(folder).glob("*.parquet")))
    start = time.perf_counter()
    before = processor()
    table = fastdp.read(
        source if folder is None else source[: -(-rows // each)], schema, threads=THREADS
    )
    counter = local(table, THREADS)
    seen = table.rows
    width = sum(column.itemsize for column in table.codes.values()) + table.user.itemsize
    spooled = seen * width if seen > SPOOL_ROWS else 0
    middle = time.perf_counter()
    counts = counter.marginals(cliques, CLIP)
    end = time.perf_counter()
    spent = processor() - before - stream.cpu
    assert seen == rows and len({int(t.sum()) for t in counts.values()}) == 1
    figures = {
        "rows": rows,
        "read": middle - start - stream.spent,
        "count": end - middle,
        "cpu": spent,
        "simulate": stream.spent,
        "peak_mb": peak_mb(),
        "process_mb": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024,
        "spooled_mb": spooled / 1e6,
        "marginals": len(cliques),
    }
    print(json.dumps(figures))


def run(engine: str, rows: int, each: int, folder: str | None) -> dict:
    command = [
        sys.executable,
        "-m",
        "bench.scale",
        "--child",
        engine,
        "--rows",
        str(rows),
        "--part",
        str(each),
    ]
    command += [] if folder is None else ["--path", folder]
    return turns.run(command, {"PYTHONPATH": str(ROOT)}, ROOT)


def main() -> None:
    parser = turns.parser(__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000_000, 100_000_000])
    parser.add_argument("--billion", action="store_true")
    parser.add_argument("--part", type=int, default=5_000_000, help="rows of a part")
    parser.add_argument("--engine", choices=("local", "partitioned"), default="local")
    parser.add_argument("--write", type=int, help="(of a process that writes one part) its number")
    parser.add_argument("--no-save", action="store_true")
    given = parser.parse_args()
    if given.write is not None:
        write(given.write, given.part, given.path)
        return
    if given.child:
        child(given.child, given.rows[0], given.part, given.path)
        return
    if any(rows % given.part for rows in given.rows):
        parser.error("--rows: whole numbers of parts")
    print(json.dumps(describe()))
    results: list[dict] = []
    print(
        f"{'rows':>15}{'read s':>9}{'count s':>9}{'ns a row':>10}{'linearity':>11}{'cpu s':>8}{'by cpu':>8}",
        end="",
    )
    print(f"{'peak MB':>9}{'process MB':>12}{'spooled MB':>12}")
    with tempfile.TemporaryDirectory() as folder:
        for number in range(max(given.rows) // given.part):
            command = [
                sys.executable,
                "-m",
                "bench.scale",
                "--write",
                str(number),
                "--path",
                folder,
            ]
            subprocess.run([*command, "--part", str(given.part)], check=True, cwd=ROOT)
        for rows in sorted(given.rows):
            results.append(_told(run(given.engine, rows, given.part, folder), results))
    if given.billion:
        results.append(_told(run(given.engine, BILLION, given.part, None), results))
    if not given.no_save:
        name = "scale-billion" if given.billion else f"scale-{given.engine}"
        keep(name, {"engine": given.engine, "part": given.part, "sizes": results})


def _told(figures: dict, before: list[dict]) -> dict:
    figures["ns_a_row"] = 1e9 * (figures["read"] + figures["count"]) / figures["rows"]
    figures["cpu_ns_a_row"] = 1e9 * figures["cpu"] / figures["rows"]
    first = before[0] if before else figures
    for name, key in (("linearity", "ns_a_row"), ("linearity_cpu", "cpu_ns_a_row")):
        figures[name] = figures[key] / first[key]
    print(
        f"{figures['rows']:>15,}{figures['read']:>9.1f}{figures['count']:>9.2f}{figures['ns_a_row']:>10.0f}"
        f"{figures['linearity']:>11.2f}{figures['cpu']:>8.1f}{figures['linearity_cpu']:>8.2f}"
        f"{figures['peak_mb']:>9.0f}{figures['process_mb']:>12.0f}{figures['spooled_mb']:>12.0f}",
        flush=True,
    )
    return figures


if __name__ == "__main__":
    main()
