"""A run from end to end: reserve, read, measure, fit, sample, decode, write.

`synthesize` holds no global state; several runs may go on in one process at once.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import resource
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from .errors import RunError, UsageError
from .mechanisms import recipe as recipes
from .mechanisms.base import Config, Job, Outcome
from .output import IdSource, Output, write_measurements
from .plan import check_budget, clip_of, resolve_schema
from .privacy.statement import write as write_statement
from .progress import STAGES, Progress, Reporter
from .runfolder import RunFolder

if TYPE_CHECKING:
    import pyarrow as pa

    from .measurement import Measurement
    from .model import Model
    from .privacy.ledger import Ledger
    from .publicchoice import PublicTable
    from .schema import Schema


@dataclass(frozen=True, eq=False)
class Run:
    """A finished run. Everything in it may be released, except `timings`, which depend on the data."""

    privacy: dict
    measurements: tuple[Measurement, ...]
    model: Model | None
    schema: Schema
    out: Path | None = None
    timings: dict[str, float] = field(default_factory=dict)
    tables: Mapping[str, pa.Table] = field(default_factory=dict)
    _output: Output | None = None

    @cached_property
    def data(self) -> Any:
        """The synthetic rows: a `pyarrow.Table`, or with `out=` a lazy `pyarrow.dataset.Dataset`."""
        if self.out is not None:
            import pyarrow.dataset as ds

            return ds.dataset(synthetic_path(self.out), format="parquet")
        import pyarrow as pa

        return pa.concat_tables(self._output.tables())

    def reader(self) -> pa.RecordBatchReader:
        """The synthetic rows as an Arrow stream, shard by shard; nothing is kept."""
        import pyarrow as pa

        if self.out is not None:
            return self.data.scanner().to_reader()
        schema = self._output.arrow_schema()
        batches = (batch for table in self._output.tables() for batch in table.to_batches())
        return pa.RecordBatchReader.from_batches(schema, batches)

    def __arrow_c_stream__(self, requested_schema=None):
        return self.reader().__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        where = f", out={str(self.out)!r}" if self.out else ""
        return f"<fastdp.Run epsilon={self.privacy.get('epsilon')} delta={self.privacy.get('delta')}{where}>"


def synthetic_path(folder: Path) -> Path:
    """Where a run folder keeps its rows: one file or a folder of shards."""
    one = folder / "synthetic.parquet"
    return one if one.exists() else folder / "synthetic"


def synthesize(
    table: Any,
    mechanism: str | os.PathLike | Mapping | Config = "adagrid",
    epsilon: float | Sequence[float] = 1.0,
    delta: float = 1e-9,
    *,
    schema: Schema | str | os.PathLike | None = None,
    rows: int | None = None,
    public: Any = None,
    ledger: Ledger | str | os.PathLike | None = None,
    dataset: str | None = None,
    seed: int | None = None,
    sample_seed: int | None = None,
    threads: int | None = None,
    progress: Callable[[Progress], None] | None = None,
    cancel: Callable[[], bool] | threading.Event | None = None,
    out: str | os.PathLike | None = None,
    resume: bool = False,
    report: bool = False,
) -> Run | list[Run]:
    """Private synthetic rows like those of `table`.

    table: a `fastdp.Table`, or any source `fastdp.read` takes (then `schema`, or a recipe that names one).
    mechanism: a mechanism's name, a recipe's name or path, a mapping, or a config object.
    epsilon: one number, or several: one joint reservation and a list of runs (in `out`, a folder eps-E each).
    rows: how many to make; None: the total estimated from the noisy answers.
    public: public data (a table read with public=True, or a source) for ids, and for mechanisms that use it.
    seed: fixes the noise; for tests only, refused with a ledger, stamps the statement private: false.
    sample_seed: fixes what comes after the noise (rows, values, ids).
    progress: called with a `Progress`; cancel: a function or Event that says stop. Both from any thread.
    out: the run folder, which appears whole or not at all; resume: carry on a run that died there, with its noise.
    report: write DIR.private/report.html, which sees the truth and is not for release.
    """
    several = not isinstance(epsilon, int | float)
    epsilons = [float(e) for e in epsilon] if several else [epsilon]
    if not epsilons or len(set(epsilons)) != len(epsilons):
        raise UsageError("epsilon: give at least one, each once")
    for e in epsilons:
        check_budget(e, delta)
    if rows is not None and (isinstance(rows, bool) or int(rows) != rows or rows < 0):
        raise UsageError(f"rows must be a whole number >= 0, got {rows!r}")
    if (resume or report) and out is None:
        raise UsageError("resume and report need out=, the run's folder")
    if ledger is not None and seed is not None:
        raise UsageError("seed fixes the noise and is for tests only; it cannot be used with a ledger")
    recipe = recipes.load(mechanism)
    schema = resolve_schema(getattr(table, "schema", None) if _is_table(table) else schema, recipe)
    configs = [recipe.config(e) for e in epsilons]
    for config in configs:
        clip_of(config, schema)
    work = _Work(
        schema=schema,
        recipe=recipe,
        configs=configs,
        epsilons=epsilons,
        delta=float(delta),
        rows=None if rows is None else int(rows),
        ledger=ledger,
        dataset=dataset,
        seed=seed,
        sample_seed=sample_seed,
        threads=threads,
        reporter=Reporter(progress, cancel, len(epsilons)),
        several=several,
        report=report,
    )
    if out is None:
        return work.go(table, public, None)
    folder = RunFolder(out, resume=resume)
    folder.open()
    try:
        if folder.finished:
            return work.already_done(folder, public)
        return work.go(table, public, folder)
    except BaseException:
        folder.abandon(keep=work.drew)
        raise


@dataclass
class _Work:
    """One call of `synthesize`, arguments checked."""

    schema: Schema
    recipe: recipes.Recipe
    configs: list[Config]
    epsilons: list[float]
    delta: float
    rows: int | None
    ledger: Any
    dataset: str | None
    seed: int | None
    sample_seed: int | None
    threads: int | None
    reporter: Reporter
    several: bool
    report: bool
    drew: bool = False

    def go(self, source: Any, public: Any, folder: RunFolder | None) -> Run | list[Run]:
        from .opening import Ask, reserve

        fresh = {"run": secrets.token_hex(16), "sample_seed": self._new_seed()}
        if folder is not None:
            fresh = folder.agree(self.arguments(public), fresh)
        asks = [
            Ask(
                epsilon=e,
                delta=self.delta,
                clip=c.clip,
                method=c.calibration,
                pure=getattr(c, "pure", False),
                unit=getattr(c, "unit", "user"),
            )
            for e, c in zip(self.epsilons, self.configs)
        ]
        reserved = reserve(
            self.schema,
            asks,
            ledger=self.ledger,
            dataset=self.dataset,
            run=fresh["run"],
            plan=hashlib.sha256(json.dumps(self.arguments(public), sort_keys=True).encode()).hexdigest(),
            seed=self.seed,
            work=None if folder is None else folder.private,
        )
        try:
            runs = self._measure_and_make(reserved, source, public, folder, int(fresh["sample_seed"]))
        except BaseException:
            # Without a folder, or before anything was asked, nobody can carry on: what no step entered goes back.
            if folder is None or not (self.drew or folder.resume):
                reserved.finish()
            raise
        if folder is not None:
            folder.publish()
        reserved.finish()
        if folder is not None:
            folder.forget()
        return runs if self.several else runs[0]

    def already_done(self, folder: RunFolder, public: Any) -> Run | list[Run]:
        """The run died after its folder was put in place: all that is left is to end its reservation."""
        from .privacy.ledger import Ledger

        fresh = folder.agree(self.arguments(public), {})
        ledger = self.ledger
        if ledger is None:
            ledger = Ledger.local(folder.private / "ledger.db")
        (ledger if isinstance(ledger, Ledger) else Ledger(ledger)).release(fresh["run"])
        folder.forget()
        places = [folder.out / self._label(i) for i in range(len(self.epsilons))]
        return [load_run(p) for p in places] if self.several else load_run(folder.out)

    def _measure_and_make(self, reserved, source, public, folder, sample_seed) -> list[Run]:
        from .engines.local import local

        with self.reporter.stage("read", "reading and encoding"):
            table, mine = self._table(source)
            known = self._public(public)
        doors = reserved.doors(local(table, self.threads))
        seeds = np.random.SeedSequence(sample_seed).generate_state(len(doors), np.uint64) >> np.uint64(1)
        outcomes, outputs = [], []
        for i, (door, config) in enumerate(zip(doors, self.configs)):
            self.reporter.begin(i, self._label(i) if self.several else "")
            self.drew = True
            with self.reporter.stage("measure", "measuring"):
                outcome = config.run(door, self._job(i, int(seeds[i]), known, folder))
            outcomes.append(outcome)
            outputs.append(
                Output(self.schema, outcome, self._ids(outcome, config, known), int(seeds[i]), self.threads)
            )
        truth = table.as_truth() if self.report else None
        if mine and truth is None:
            table.close()
        return [self._make(i, o, reserved, outputs[i], public, folder, truth) for i, o in enumerate(outcomes)]

    def _make(self, i, outcome: Outcome, reserved, output: Output, public, folder, truth) -> Run:
        self.reporter.begin(i, self._label(i) if self.several else "")
        mechanism = {
            "name": self.recipe.mechanism,
            "recipe": self.recipe.name,
            "config": msgspec.to_builtins(self.configs[i]),
            **outcome.details,
        }
        statement = reserved.statement(
            mechanism=mechanism,
            public_data=[] if public is None else [_public_entry(public)],
            notes=outcome.notes,
            only=i if self.several else None,
        )
        run = Run(
            privacy=statement,
            measurements=outcome.measurements,
            model=outcome.model,
            schema=self.schema,
            tables=outcome.tables,
            _output=output,
        )
        if folder is None:
            return replace(run, timings=self._timings(i))
        staging = folder.staging()
        place = staging / self._label(i) if self.several else staging
        place.mkdir(exist_ok=True)
        with self.reporter.stage("write"):
            output.write(place, self.reporter)
            self._write_rest(place, run, outcome)
        if self.several and i == len(self.epsilons) - 1:
            joint = reserved.statement(mechanism=mechanism, public_data=statement["public_data"])
            write_statement(staging, joint)
        if truth is not None:
            from .evaluate import evaluate

            name = f"report-{self._label(i)}.html" if self.several else "report.html"
            evaluate(
                truth, synthetic_path(place), schema=self.schema, report=str(folder.private / name), run=run
            )
        self._write_timings(folder)
        final = folder.out / self._label(i) if self.several else folder.out
        return replace(run, out=final, timings=self._timings(i), _output=None)

    def _write_rest(self, place: Path, run: Run, outcome: Outcome) -> None:
        import pyarrow.parquet as pq

        if run.model is not None:
            run.model.save(place / "model.fastdp")
        write_measurements(place, run.measurements)
        for name, table in outcome.tables.items():
            pq.write_table(table, place / f"{name}.released.parquet")
        run.schema.save(place / "schema.json")
        write_statement(place, run.privacy)

    def _job(self, i: int, seed: int, public: PublicTable | None, folder: RunFolder | None) -> Job:
        cache = None if folder is None else folder.private / "state"

        def fit(domain, measurements, **options):
            return self._fit(domain, measurements, cache, options)

        return Job(
            schema=self.schema,
            epsilon=self.epsilons[i],
            fit=fit,
            rows=self.rows,
            public=public,
            seed=seed,
            threads=self.threads,
            progress=self.reporter.update,
            check=self.reporter.check,
        )

    def _fit(self, domain, measurements, cache: Path | None, options: dict) -> Model:
        """Fits, or loads what a run that died had fitted to the same answers."""
        from .model import Model, fit

        path = None if cache is None else cache / f"model-{_digest(domain, measurements, options)}.fastdp"
        if path is not None and path.exists():
            return Model.load(path)

        def told(*args, **kwargs) -> None:
            self.reporter.check()
            calls[0] += 1
            self.reporter.update("fit", 1 - 0.97 ** calls[0], "fitting the model")

        calls = [0]
        with self.reporter.stage("fit", "fitting the model"):
            model = fit(domain, measurements, threads=self.threads, callback=told, **options)
        if path is not None:
            cache.mkdir(exist_ok=True)
            part = path.with_name(f"{path.stem}.part-{secrets.token_hex(4)}.fastdp")
            model.save(part)
            os.replace(part, path)
        return model

    def _table(self, source: Any) -> tuple[Any, bool]:
        if _is_table(source):
            return source, False
        from .table import read

        return read(source, self.schema, threads=self.threads), True

    def _public(self, public: Any) -> PublicTable | None:
        if public is None:
            return None
        from .publicchoice import PublicTable
        from .table import read

        if not _is_table(public):
            public = read(public, self.schema, public=True, threads=self.threads)
        return PublicTable(public)

    def _ids(self, outcome: Outcome, config: Config, public: PublicTable | None) -> IdSource | None:
        """Where the rows' user ids come from; None: no id column."""
        if self.schema.user is None or config.ids.source == "none" or outcome.owners is not None:
            return None
        bound = self.schema.max_rows_per_user
        if public is not None and config.ids.source != "private":
            return IdSource(habits=public.habits(outcome.id_columns), bound=bound)
        if config.ids.source == "public":
            raise UsageError("ids from public data need public=; give it, or set the recipe's ids.source")
        if outcome.users is None:
            return None
        from .mechanisms.common import size_edges

        edges = np.array(size_edges(bound))
        middles = (edges + np.append(edges[1:] - 1, bound)) // 2
        return IdSource(sizes=middles, users=outcome.users.values, bound=bound)

    def arguments(self, public: Any) -> dict:
        """What decides a run's measurements and output; a resumed run must have the same."""
        return {
            "schema": self.schema.digest(),
            "mechanism": self.recipe.mechanism,
            "fields": json.loads(json.dumps(self.recipe.fields, default=str)),
            "epsilon": [float(e) for e in self.epsilons],
            "delta": self.delta,
            "rows": self.rows,
            "dataset": self.dataset,
            "public": None if public is None else _public_entry(public)["name"],
            "seed": self.seed,
            "sample_seed": self.sample_seed,
        }

    def _new_seed(self) -> int:
        return secrets.randbits(62) if self.sample_seed is None else int(self.sample_seed)

    def _label(self, i: int) -> str:
        return f"eps-{self.epsilons[i]:g}"

    def _timings(self, i: int) -> dict[str, float]:
        label = self._label(i) if self.several else ""
        found: dict[str, float] = {}
        for run, stage, seconds in self.reporter.timings:
            if run in ("", label):
                found[stage] = found.get(stage, 0.0) + seconds
        # Some stages happen inside others; each second is shown once.
        for outer, inner in (("measure", ("fit",)), ("write", ("sample", "ids"))):
            if outer in found:
                found[outer] = max(0.0, found[outer] - sum(found.get(name, 0.0) for name in inner))
        return {name: found[name] for name in STAGES if name in found}

    def _write_timings(self, folder: RunFolder) -> None:
        stages = {self._label(i): self._timings(i) for i in range(len(self.epsilons))}
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        _write_json(folder.private / "timings.json", {"seconds": stages, "peak_bytes": peak})


def _is_table(source: Any) -> bool:
    from .table import Table

    return isinstance(source, Table)


def _public_entry(public: Any) -> dict:
    if isinstance(public, str | os.PathLike):
        return {"name": os.fspath(public), "use": "user ids and choices of the mechanism"}
    return {"name": f"a {type(public).__name__} in memory", "use": "user ids and choices of the mechanism"}


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=2, allow_nan=False) + "\n", "utf-8")


def _digest(domain, measurements, options: dict) -> str:
    h = hashlib.sha256(json.dumps([dict(domain), options], default=str).encode())
    for m in measurements:
        h.update(repr((m.clique, m.query)).encode())
        h.update(np.ascontiguousarray(m.values).tobytes())
        h.update(np.ascontiguousarray(m.sigma).tobytes())
    return h.hexdigest()[:24]


def load_run(out: str | os.PathLike) -> Run:
    """A finished run folder as a `Run` (its measurements stay in measurements.parquet)."""
    from .model import Model
    from .schema import Schema

    folder = Path(out)
    try:
        statement = json.loads((folder / "privacy.json").read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise RunError(f"{folder} is no finished run folder: privacy.json is missing or broken") from error
    model = None
    with contextlib.suppress(FileNotFoundError):
        model = Model.load(folder / "model.fastdp")
    return Run(
        privacy=statement,
        measurements=(),
        model=model,
        schema=Schema.load(folder / "schema.json"),
        out=folder,
    )
