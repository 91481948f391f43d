"""The steps of one call of `synthesize`, in order."""

from __future__ import annotations

import hashlib
import json
import resource
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from .._util.files import synthetic_path
from .._util.progress import Reporter
from ..errors import RunError, StoppedEarly, UsageError
from ..mechanisms import recipe as recipes
from ..mechanisms.base import Config, Job, Outcome, go_on
from ..mechanisms.parts.sizes import check_size
from ..mechanisms.parts.zeros import Zeros, check_possible
from ..privacy.clip import PRIVATE, choice_bound
from ..privacy.statement import statement_hashes
from ..privacy.statement import write as write_statement
from .counting import check_source, counting_for, is_table, open_counting
from .diagnosis import write_diagnosis
from .fitting import fit_once
from .folder import RunFolder
from .output import IdSource, Output, stamped, write_measurements
from .publicread import public_entry, read_public
from .result import Run, load_run
from .standing import Standing
from .stopping import INSIST, charge_text, stop_if_empty

if TYPE_CHECKING:
    from ..privacy.ledger import Ledger
    from ..public.archetypes.store import Saved
    from ..public.data import PublicTable
    from ..schema import Schema

LIMITS = ("max_cells", "memory", "deadline")
"""Fields of recipes that limit a run's model or memory; they may be changed when the run is resumed."""


@dataclass
class Work:
    """One call of `synthesize` whose arguments have been checked."""

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
    engine: str | None = None
    partitions: int | None = None
    go_on: bool = False
    diagnose: bool = False
    standing: Standing = field(default_factory=Standing)
    entered: bool = False
    reading: dict[str, int] = field(default_factory=dict)
    asked: Schema | None = None

    def __post_init__(self) -> None:
        if self.asked is None:
            self.asked = self.schema

    def go(self, source: Any, public: Any, folder: RunFolder | None) -> Run | list[Run]:
        """Does the whole run. Afterwards `self.entered` says whether a step of it was charged."""
        from ..release.reserve import BudgetRequest, reserve

        if self.schema.pending:
            check_source(source, self.schema)

        self.standing.follow(self.reporter)
        fresh: Mapping[str, Any] = {"run": secrets.token_hex(16), "sample_seed": self._new_seed()}
        if folder is not None:
            fresh = folder.agree(self.arguments(public), fresh, self.limits())
            if folder.stopped is not None:
                self._book(folder).release(fresh["run"])
                folder.forget()
                raise StoppedEarly(folder.stopped)
            self.standing.opened(folder)
        if self.schema.pending and is_table(public):
            raise UsageError(
                "public=: its schema is found in the run, so give the public source itself, not a table that "
                "was read by some schema"
            )
        public_data = None if self.schema.pending else self._prepare(public)
        asks = [
            BudgetRequest(
                epsilon=e,
                delta=self.delta,
                clip=c.clip,
                method=c.calibration,
                pure=c.pure,
                unit=c.unit,
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
            about={
                "mechanism": self.recipe.mechanism,
                "recipe": self.recipe.name,
                "folder": None if folder is None else str(folder.out),
            },
        )
        asked = ", ".join(f"{e:g}" for e in self.epsilons)
        where = "" if self.dataset is None else f" of data set {self.dataset!r}"
        self.standing.reserved(self.ledger, fresh["run"], f"epsilon {asked} at delta {self.delta:g}", where)
        try:
            if folder is not None and folder.resume:
                self._resume_limits(folder)
            if self.schema.pending:
                self._learn(reserved, source)
                public_data = self._prepare(public)
            runs = self._measure_and_make(
                reserved, source, public, public_data, folder, int(fresh["sample_seed"])
            )
        except StoppedEarly as stop:
            raise self._stopped(stop, reserved, source, folder) from None
        except BaseException:
            # Without a folder, or before the first step, the run cannot be resumed: budget that no step used
            # is returned to the data set.
            self.entered = bool(reserved.reservation.describe()["entry"]["steps"])
            if folder is None or not (self.entered or folder.resume):
                reserved.finish()
            raise
        self.entered = True
        if folder is not None:
            self._diagnosed(source, folder)
            folder.publish()
            self.standing.published()
        reserved.finish(() if folder is None else statement_hashes(folder.out))
        if folder is not None:
            folder.forget()
        return runs if self.several else runs[0]

    def already_done(self, folder: RunFolder, public: Any) -> Run | list[Run]:
        """Completes a run that was interrupted after its folder was in place: ends its reservation and loads
        the folder."""
        fresh = folder.agree(self.arguments(public), {})
        self._book(folder).release(fresh["run"], statement_hashes(folder.out))
        folder.forget()
        places = [folder.out / self._label(i) for i in range(len(self.epsilons))]
        return [load_run(p) for p in places] if self.several else load_run(folder.out)

    def _book(self, folder: RunFolder) -> Ledger:
        """The ledger that this run was charged in."""
        from ..privacy.ledger import Ledger

        if self.ledger is None:
            return Ledger.local(folder.private / "ledger.db")
        return self.ledger if isinstance(self.ledger, Ledger) else Ledger(self.ledger)

    def _stopped(self, stop: StoppedEarly, reserved, source: Any, folder: RunFolder | None) -> StoppedEarly:
        """Ends a run that its own noisy answers stopped: steps entered stay charged, the rest is returned.
        The folder stores the text before the ledger ends the run, so that after a kill between these two
        writes a resumed run still learns that it was stopped."""
        charged = charge_text(reserved, self.epsilons, self.delta, self.dataset)
        text = f"{stop}. {charged} {INSIST}"
        self.entered = True
        if folder is not None:
            folder.keep_stopped(text)
        reserved.finish()
        if folder is not None:
            self._diagnosed(source, folder)
            folder.forget()
        return StoppedEarly(text)

    def _diagnosed(self, source: Any, folder: RunFolder) -> None:
        if self.diagnose:
            write_diagnosis(source, self.schema, folder.private, self.threads)

    def _learn(self, reserved, source: Any) -> None:
        """Finds the schema's private columns within the reservation; all later steps use the finished
        schema."""

        def engine(schema: Schema):
            return counting_for(source, schema, self.engine, self.partitions, self.threads)

        with self.reporter.stage("read", "finding the domain"):
            self.schema = reserved.learn(source, engine, self.reporter.check)
        self.configs = [self.recipe.config(e).resolved(self.schema, e, self.delta) for e in self.epsilons]
        for config in self.configs:
            config.check_all(self.schema)

    def _prepare(self, public: Any) -> PublicTable | Saved | None:
        """Reads the public data and raises every error that can be found without the private data."""
        if public is None:
            public_data = None
        else:
            with self.reporter.stage("read", "reading and encoding"):
                public_data = self._public(public)
        for config in self.configs:
            if self.delta == 0 and not config.pure:
                raise UsageError(f"{config.name} adds Gaussian noise and needs a delta above 0")
            config.ready(self.schema, public_data)
            if self.schema.user is not None and config.deals_ids:
                if public_data is None and config.ids.source == "public":
                    raise UsageError(
                        "ids from public data need public=; give it, or set the recipe's ids.source"
                    )
                if public_data is not None and config.ids.source in ("auto", "public"):
                    public_data.check_habits()
            domain, fixed = self.schema.modelled, Zeros.of(self.schema).cliques
            check_size(config.largest_model(domain, public_data, fixed), domain, config.fit_limit)
        check_possible(self.schema)
        return public_data

    def _measure_and_make(self, reserved, source, public, public_data, folder, sample_seed) -> list[Run]:
        with self.reporter.stage("read", "reading and encoding"):
            counting = open_counting(source, self.schema, self.engine, self.partitions, self.threads)
        self.reading, truth = dict(counting.reading), None
        try:
            outcomes, outputs = self._measured(
                reserved.sessions(counting.counter), public_data, folder, sample_seed
            )
            if self.report and counting.table is not None:
                truth = counting.table.as_truth()  # shares the table's columns
        finally:
            if truth is None or self.engine == "partitioned":
                counting.close()
        if self.report and truth is None:
            from ..tables.ingest import read

            truth = read(source, self.schema, threads=self.threads).as_truth()
        return [self._make(i, o, reserved, outputs[i], public, folder, truth) for i, o in enumerate(outcomes)]

    def _measured(self, sessions, public_data, folder, sample_seed) -> tuple[list[Outcome], list[Output]]:
        """Runs the mechanism in every session; returns its outcomes and the output of rows of each."""
        seeds = np.random.SeedSequence(sample_seed).generate_state(len(sessions), np.uint64) >> np.uint64(1)
        outcomes, outputs = [], []
        for i, (session, config) in enumerate(zip(sessions, self.configs)):
            self.reporter.begin(i, self._label(i) if self.several else "")
            with self.reporter.stage("measure", "measuring"):
                outcome = config.run(session, self._job(i, int(seeds[i]), public_data, folder))
            outcomes.append(outcome)
            outputs.append(
                Output(
                    self.schema,
                    outcome,
                    self._ids(outcome, config, public_data),
                    int(seeds[i]),
                    self.threads,
                    config.outputs,
                    session.private,
                )
            )
            if outcome.model is not None:
                outcome.model.private = session.private
        return outcomes, outputs

    def _make(self, i, outcome: Outcome, reserved, output: Output, public, folder, truth) -> Run:
        self.reporter.begin(i, self._label(i) if self.several else "")
        mechanism = {
            "name": self.recipe.mechanism,
            "recipe": self.recipe.name,
            "config": msgspec.to_builtins(self.configs[i]),
            "limits": self.configs[i].limits_used(),
            **outcome.details,
        }
        if derived := [name for name in self.schema.domain if name not in self.schema.modelled]:
            mechanism["derived"] = derived
        statement = reserved.statement(
            mechanism=mechanism,
            public_data=[] if public is None else [public_entry(public, self._relabel)],
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
            from ..report.evaluate import evaluate

            name = f"report-{self._label(i)}.html" if self.several else "report.html"
            evaluate(
                truth,
                synthetic_path(place),
                schema=self.schema,
                report=str(folder.private / name),
                run=replace(run, timings=self._timings(i)),
            )
        self._write_timings(folder)
        final = folder.out / self._label(i) if self.several else folder.out
        return replace(run, out=final, timings=self._timings(i))

    def _write_rest(self, place: Path, run: Run, outcome: Outcome) -> None:
        import pyarrow.parquet as pq

        if run.model is not None:
            run.model.save(place / "model.fastdp")
        private = self.seed is None
        write_measurements(place, run.measurements, private)
        for name, table in outcome.tables.items():
            pq.write_table(stamped(table, private), place / f"{name}.released.parquet")
        run.schema.save(place / "schema.json")
        write_statement(place, run.privacy)

    def _job(self, i: int, seed: int, public: PublicTable | Saved | None, folder: RunFolder | None) -> Job:
        cache = None if folder is None else folder.private / "state"
        learnt = tuple((self.asked or self.schema).pending)

        def fit(domain, measurements, **options):
            options.setdefault("max_cells", self.configs[i].fit_limit)
            return fit_once(domain, measurements, cache, self.reporter, threads=self.threads, **options)

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
            # Only the first epsilon's answers may stop the run. Stopping at a later epsilon would not return
            # the charges of those before it.
            after_ones=go_on if self.go_on or i else partial(stop_if_empty, self.schema, learnt),
            zeros=Zeros.of(self.schema),
        )

    def _public(self, public: Any) -> PublicTable | Saved | None:
        if public is None:
            return None
        from ..public.archetypes.store import Saved, is_folder
        from ..public.data import PublicTable

        if is_folder(public):
            return Saved(public)
        return PublicTable(read_public(public, self.schema, self._relabel, threads=self.threads))

    @property
    def _relabel(self) -> tuple[str, ...]:
        return self.configs[0].public_relabel

    def _ids(self, outcome: Outcome, config: Config, public: PublicTable | Saved | None) -> IdSource | None:
        """Where the rows' user ids come from; None: no id column."""
        if self.schema.user is None or config.ids.source == "none" or outcome.owners is not None:
            return None
        if outcome.counts is not None:
            return None
        bound = self.schema.max_rows_per_user
        if public is not None and config.ids.source != "private":
            return IdSource(habits=public.habits(outcome.id_columns), bound=bound)
        if bound is None and config.clip == PRIVATE:
            bound = choice_bound(self.schema)  # of the histogram that the clip was chosen from
        if outcome.users is None or bound is None:
            return None
        from ..privacy.clip import seen, size_edges

        edges = np.array(size_edges(bound), np.int64)
        middles = (edges + np.append(edges[1:] - 1, bound)) // 2
        users = np.array(seen(outcome.users.values.tolist(), float(np.max(outcome.users.sigma))))
        return IdSource(sizes=middles, users=users, bound=bound)

    def arguments(self, public: Any) -> dict:
        """What decides a run's measurements and output; a resumed run must have the same."""
        fields = {key: value for key, value in self.recipe.fields.items() if key not in LIMITS}
        return {
            "schema": (self.asked or self.schema).digest(),
            "mechanism": self.recipe.mechanism,
            "fields": json.loads(json.dumps(fields, default=str)),
            "epsilon": [float(e) for e in self.epsilons],
            "delta": self.delta,
            "rows": self.rows,
            "dataset": self.dataset,
            "public": None if public is None else public_entry(public)["name"],
            "seed": self.seed,
            "sample_seed": self.sample_seed,
        }

    def limits(self) -> list[dict]:
        """The arguments that may differ when a run is resumed, as long as no step entered in the ledger
        depended on them."""
        return [config.limits_used() for config in self.configs]

    def _resume_limits(self, folder: RunFolder) -> None:
        """RunError where a limit was changed that decided the question of a step that was entered."""
        before, charge = folder.limits_before, self.standing.charge()
        for i, (config, limits) in enumerate(zip(self.configs, self.limits(), strict=True)):
            fixed = [
                label
                for part, label in (() if charge is None else charge.steps)
                if part == i and (config.max_cells_steps is None or label in config.max_cells_steps)
            ]
            used = before[i] if i < len(before) else {}
            changed = [name for name in limits if limits[name] != used.get(name)]
            if changed and fixed:
                raise RunError(
                    f"--resume: {', '.join(changed)} differs from the run in {folder.private}, whose step "
                    f"{fixed[0]!r} is charged and may have been chosen by it; that run used {used}"
                )
        folder.keep_limits(self.limits())

    def _new_seed(self) -> int:
        return secrets.randbits(62) if self.sample_seed is None else int(self.sample_seed)

    def _label(self, i: int) -> str:
        return f"eps-{self.epsilons[i]:g}"

    def _timings(self, i: int) -> dict[str, float]:
        return self.reporter.spent(self._label(i) if self.several else "")

    def _write_timings(self, folder: RunFolder) -> None:
        stages = {self._label(i): self._timings(i) for i in range(len(self.epsilons))}
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        _write_json(folder.private / "timings.json", {"seconds": stages, "peak_bytes": peak})
        if self.reading:
            _write_json(folder.private / "reading.json", self.reading)


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=2, allow_nan=False) + "\n", "utf-8")
