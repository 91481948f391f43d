"""The steps of one call of `synthesize`, in order."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ..answers.evidence import code_maps
from ..errors import StoppedEarly
from ..mechanisms.base import Job, Outcome, ignore_empty_columns
from ..mechanisms.shared.structural_zeros import StructuralZeros
from ..privacy.statement import statement_hashes
from .ahead import load_ahead
from .counting import check_source, counting_for, open_counting
from .diagnosis import write_diagnosis
from .fitting import fit_once
from .folder import RunFolder
from .idsource import id_source
from .making import make
from .output import Output
from .prepare import check_ahead, keep_limits, prepare
from .result import Run, load_run
from .stopping import INSIST, charge_text, stop_if_empty
from .work import Work

if TYPE_CHECKING:
    from ..public.archetypes.store import Saved
    from ..public.data import PublicTable
    from ..schema import Schema


def go(work: Work, source: Any, public: Any, folder: RunFolder | None) -> Run | list[Run]:
    """Does the whole run. Afterwards `work.entered` says whether a step of it was charged."""
    from ..release.reserve import BudgetRequest, reserve

    check_source(source, work.schema)
    work.standing.follow(work.reporter)
    fresh: Mapping[str, Any] = {"run": secrets.token_hex(16), "sample_seed": work.new_seed()}
    if folder is not None:
        fresh = folder.agree(work.arguments(public), fresh, work.limits())
        if folder.stopped is not None:
            work.book(folder).release(fresh["run"])
            folder.forget()
            raise StoppedEarly(folder.stopped)
        work.standing.opened(folder)
    load_ahead()
    public_data = check_ahead(work, public) if work.schema.pending else prepare(work, public)
    asks = [
        BudgetRequest(
            epsilon=e,
            delta=work.delta,
            clip=c.clip,
            method=c.calibration,
            pure=c.pure,
            unit=c.unit,
        )
        for e, c in zip(work.epsilons, work.configs)
    ]
    reserved = reserve(
        work.schema,
        asks,
        ledger=work.ledger,
        dataset=work.dataset,
        run=fresh["run"],
        plan=hashlib.sha256(json.dumps(work.arguments(public), sort_keys=True).encode()).hexdigest(),
        seed=work.seed,
        work=None if folder is None else folder.private,
        about={
            "mechanism": work.recipe.mechanism,
            "recipe": work.recipe.name,
            "folder": None if folder is None else str(folder.out),
        },
    )
    asked = ", ".join(f"{e:g}" for e in work.epsilons)
    where = "" if work.dataset is None else f" of data set {work.dataset!r}"
    work.standing.reserved(work.ledger, fresh["run"], f"epsilon {asked} at delta {work.delta:g}", where)
    try:
        if folder is not None and folder.resume:
            keep_limits(work, folder)
        if work.schema.pending:
            _learn(work, reserved, source)
            public_data = prepare(work, public)
        runs = _measure_and_make(
            work, reserved, source, public, public_data, folder, int(fresh["sample_seed"])
        )
    except StoppedEarly as stop:
        raise _stopped(work, stop, reserved, source, folder) from None
    except BaseException:
        # Without a folder, or before the first step, the run cannot be resumed: budget that no step used
        # is returned to the data set.
        work.entered = bool(reserved.reservation.describe()["entry"]["steps"])
        if folder is None or not (work.entered or folder.resume):
            reserved.finish()
        raise
    work.entered = True
    if folder is not None:
        _diagnosed(work, source, folder)
        folder.publish()
        work.standing.published()
    reserved.finish(() if folder is None else statement_hashes(folder.out))
    if folder is not None:
        folder.forget()
    return runs if work.several else runs[0]


def already_done(work: Work, folder: RunFolder, public: Any) -> Run | list[Run]:
    """Completes a run that was interrupted after its folder was in place: ends its reservation and loads
    the folder."""
    fresh = folder.agree(work.arguments(public), {})
    work.book(folder).release(fresh["run"], statement_hashes(folder.out))
    folder.forget()
    places = [folder.out / work.label(i) for i in range(len(work.epsilons))]
    return [load_run(p) for p in places] if work.several else load_run(folder.out)


def _stopped(work: Work, stop: StoppedEarly, reserved, source: Any, folder: RunFolder | None) -> StoppedEarly:
    """Ends a run that its own noisy answers stopped: steps entered stay charged, the rest is returned.
    The folder stores the text before the ledger ends the run, so that after a kill between these two
    writes a resumed run still learns that it was stopped."""
    charged = charge_text(reserved, work.epsilons, work.delta, work.dataset)
    text = f"{stop}. {charged} {INSIST}"
    work.entered = True
    if folder is not None:
        folder.keep_stopped(text)
    reserved.finish()
    if folder is not None:
        _diagnosed(work, source, folder)
        folder.forget()
    return StoppedEarly(text)


def _diagnosed(work: Work, source: Any, folder: RunFolder) -> None:
    if work.diagnose:
        write_diagnosis(source, work.schema, folder.private, work.threads)


def _learn(work: Work, reserved, source: Any) -> None:
    """Finds the schema's private columns within the reservation; all later steps use the finished
    schema."""

    def engine(schema: Schema):
        return counting_for(source, schema, work.engine, work.partitions, work.threads)

    with work.reporter.stage("read", "finding the domain"):
        work.schema = reserved.learn(source, engine, work.reporter.check)
    work.configs = [work.recipe.config(e).resolved(work.schema, e, work.delta) for e in work.epsilons]
    for config in work.configs:
        config.check_all(work.schema)


def _measure_and_make(work: Work, reserved, source, public, public_data, folder, sample_seed) -> list[Run]:
    with work.reporter.stage("read", "reading and encoding"):
        counting = open_counting(source, work.schema, work.engine, work.partitions, work.threads)
    work.reading, truth = dict(counting.reading), None
    try:
        outcomes, outputs = _measured(
            work, reserved.sessions(counting.counter), public_data, folder, sample_seed
        )
        if work.report and counting.table is not None:
            truth = counting.table.as_truth()  # shares the table's columns
    finally:
        if truth is None or work.engine == "partitioned":
            counting.close()
    if work.report and truth is None:
        from ..tables.ingest import read

        truth = read(source, work.schema, threads=work.threads).as_truth()
    return [make(work, i, o, reserved, outputs[i], public, folder, truth) for i, o in enumerate(outcomes)]


def _measured(work: Work, sessions, public_data, folder, sample_seed) -> tuple[list[Outcome], list[Output]]:
    """Runs the mechanism in every session; returns its outcomes and the output of rows of each."""
    seeds = np.random.SeedSequence(sample_seed).generate_state(len(sessions), np.uint64) >> np.uint64(1)
    outcomes: list[Outcome] = []
    outputs: list[Output] = []
    with ThreadPoolExecutor(1) as keeper:
        kept: list[Future] = []
        keep = partial(_keep, keeper, kept)
        _run_mechanism(work, sessions, seeds, public_data, folder, keep, outcomes, outputs)
        for future in kept:
            future.result()
    return outcomes, outputs


def _run_mechanism(work: Work, sessions, seeds, public_data, folder, keep, outcomes, outputs) -> None:
    for i, (session, config) in enumerate(zip(sessions, work.configs)):
        work.reporter.begin(i, work.label(i) if work.several else "")
        with work.reporter.stage("measure", "measuring"):
            outcome = config.run(session, _job(work, i, int(seeds[i]), public_data, folder, keep))
        outcomes.append(outcome)
        outputs.append(
            Output(
                work.schema,
                outcome,
                id_source(work.schema, outcome, config, public_data),
                int(seeds[i]),
                work.threads,
                config.outputs,
                session.private,
            )
        )
        if outcome.model is not None:
            outcome.model.private = session.private
            outcome.model.merged = code_maps(outcome.tables.get("codes"))


def _keep(keeper: ThreadPoolExecutor, kept: list[Future], save: Callable[[], None]) -> None:
    """Models are stored by one thread while the run goes on; the run waits for it before rows are made."""
    kept.append(keeper.submit(save))


def _job(
    work: Work,
    i: int,
    seed: int,
    public: PublicTable | Saved | None,
    folder: RunFolder | None,
    keep: Callable[[Callable[[], None]], object],
) -> Job:
    cache = None if folder is None else folder.private / "state"
    learnt = tuple((work.asked or work.schema).pending)

    def fit(domain, measurements, **options):
        options.setdefault("max_cells", work.configs[i].fit_limit)
        return fit_once(
            domain, measurements, cache, work.reporter, keep=keep, threads=work.threads, **options
        )

    return Job(
        schema=work.schema,
        epsilon=work.epsilons[i],
        fit=fit,
        rows=work.rows,
        public=public,
        seed=seed,
        threads=work.threads,
        progress=work.reporter.update,
        check=work.reporter.check,
        # Only the first epsilon's answers may stop the run. Stopping at a later epsilon would not return
        # the charges of those before it.
        after_ones=ignore_empty_columns if work.go_on or i else partial(stop_if_empty, work.schema, learnt),
        zeros=StructuralZeros.of(work.schema),
    )
