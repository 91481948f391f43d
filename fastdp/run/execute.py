"""A run from top to bottom: reserve, find domains, read, measure, fit, write, publish.

Every argument was checked before (`validate`). What can fail without private data fails before the
reservation (`prepare`). From the reservation on, each step is charged in the ledger before it
counts.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from .._util.progress import LOG
from ..answers.evidence import code_maps
from ..errors import FastdpError, StoppedEarly
from ..measurement import Measurement
from ..mechanisms.base import Job, Outcome
from ..mechanisms.limits.structural_zeros import StructuralZeros
from ..mechanisms.shared.model_rows import ModelRows
from ..mechanisms.with_users import run_with_users
from ..privacy.statement import statement_hashes
from ..release.gateway import Session
from ..release.reserve import BudgetRequest, Reserved, reserve
from ..schema.wide_bins import wide_outer_bins
from ..significance import LIKELY
from .counter import counter_for, key_source, open_counter
from .early_stop import ADVICE, charge_text, stop_if_empty
from .finalize import complete_timings, finalize, write_json
from .folder import RunFolder
from .id_source import id_source
from .loading import load_run
from .number_table import measured_numbers, with_quoted_numbers
from .output import Output, spawned_seeds
from .owner_files import Comparison, diagnose, write_notes, write_owner_files
from .placed_means import with_placed_means
from .preload import preload
from .prepare import check_ahead, check_limits, prepare, prepare_previous
from .result import Run
from .row_count_checks import UNSURE, estimated_total
from .source_pins import STATE, check_unchanged, pin_sources, with_source_facts
from .spec import RunSpec

if TYPE_CHECKING:
    from ..public.data import PublicTable

Measure = Callable[
    [Any, Reserved, Any, Any, RunFolder | None, int], tuple[list[Run], list[Comparison]]
]


def execute(
    spec: RunSpec, source: Any, folder: RunFolder | None, measure: Measure | None = None
) -> Run | list[Run]:
    """Does the whole run. Afterwards `spec.status.entered` says whether a step of it was charged.
    `measure`: reads, measures and writes; that of linked tables in place of that of one table."""
    names = _begin(spec, source, folder)
    public = previous = None
    if spec.schema.pending:
        check_ahead(spec)
    else:
        for part in spec.tables:
            public = prepare(part)
        previous = prepare_previous(spec)
    reserved = _reserve(spec, names["run"], folder)
    try:
        if folder is not None and folder.resume:
            check_limits(spec, folder)
        if spec.schema.unfinished:
            with spec.reporter.stage("read", "finding the domain"):
                engine = partial(counter_for, source, options=spec.options)
                spec = spec.with_schema(reserved.learn(key_source(source, spec.options), engine))
            public = prepare(spec)
            previous = prepare_previous(spec)
        measure = measure or _measure_and_write
        seed = int(names["sample_seed"])
        prior = public if previous is None else previous
        runs, compared = measure(spec, reserved, source, prior, folder, seed)
    except StoppedEarly as stop:
        raise _stopped(spec, stop, reserved, source, folder) from None
    except BaseException:
        # Without a folder, or before the first step, the run cannot be resumed: budget that no step
        # used is returned to the data set.
        spec.status.entered = was_charged(reserved)
        if folder is None or not (spec.status.entered or folder.resume):
            reserved.finish()
        raise
    spec.status.entered = True
    if folder is not None:
        folder.publish()
        spec.status.published = True
    reserved.finish(() if folder is None else statement_hashes(folder.out))
    done = runs if spec.several else runs[0]
    if folder is not None:
        folder.forget()
        spec.status.over = True
        spec.reporter.begin(len(spec.epsilons) - 1, "")
        made = bool(compared) or spec.options.diagnose
        try:
            with spec.reporter.stage("report", "writing the report" if made else ""):
                write_owner_files(spec, source, folder, compared, done)
        finally:
            complete_timings(spec, runs, folder)
    else:
        complete_timings(spec, runs, None)
    return done


def was_charged(reserved: Reserved) -> bool:
    """Whether a step was entered in the ledger. True if the ledger cannot be asked: then the state
    to resume from must be kept."""
    try:
        return bool(reserved.reservation.describe()["entry"]["steps"])
    except (FastdpError, OSError):
        return True


def load_finished(spec: RunSpec, folder: RunFolder) -> Run | list[Run]:
    """Completes a run that was interrupted after its folder was in place: ends its reservation and
    loads the folder."""
    names = folder.settle_arguments(spec.arguments(), {})
    spec.open_ledger(folder).release(names["run"], statement_hashes(folder.out))
    folder.forget()
    places = [folder.out / spec.label(i) for i in range(len(spec.epsilons))]
    return [load_run(p) for p in places] if spec.several else load_run(folder.out)


def _begin(spec: RunSpec, source: Any, folder: RunFolder | None) -> Mapping[str, Any]:
    """The run's name in the ledger and its seed for rows: new ones, or those of the run that is
    resumed."""
    pins = pin_sources(source, folder)
    spec.check_source(source)
    spec.status.reporter = spec.reporter
    seed = spec.options.sample_seed
    seed = secrets.randbits(62) if seed is None else seed
    names: Mapping[str, Any] = {"run": secrets.token_hex(16), "sample_seed": seed}
    if folder is not None:
        names = folder.settle_arguments(spec.arguments(), names, spec.limits())
        if folder.stopped is not None:
            spec.open_ledger(folder).release(names["run"])
            folder.forget()
            raise StoppedEarly(folder.stopped)
        spec.status.folder = folder
        if not folder.resume:
            folder.keep(**{STATE: pins})
    preload(any(config.traits.fits_sparse for config in spec.configs))
    return names


def _reserve(spec: RunSpec, run: str, folder: RunFolder | None) -> Reserved:
    """Reserves the budget of all epsilons in the ledger; nothing of the private data was read
    before."""
    for text in (text for part in spec.tables for text in wide_outer_bins(part.schema)):
        LOG.warning("fastdp: warning: %s", text)
    options = spec.options
    place = None if folder is None else str(folder.out)
    asks = [
        BudgetRequest(
            epsilon=e, delta=spec.delta, clip=c.clip, method=c.calibration, pure=c.pure, unit=c.unit
        )
        for e, c in zip(spec.epsilons, spec.configs)
    ]
    reserved = reserve(
        spec.schema,
        asks,
        ledger=options.ledger,
        dataset=options.dataset,
        run=run,
        schemas=[part.schema for part in spec.tables] if len(spec.tables) > 1 else None,
        plan=hashlib.sha256(json.dumps(spec.arguments(), sort_keys=True).encode()).hexdigest(),
        seed=options.seed,
        work=None if folder is None else folder.private,
        about={"mechanism": spec.recipe.mechanism, "recipe": spec.recipe.name, "folder": place},
        period=None if options.series is None else options.period,
        late=options.late,
        check=spec.reporter.check,
    )
    asked = ", ".join(f"{e:g}" for e in spec.promised)
    where = "" if options.dataset is None else f" of data set {options.dataset!r}"
    spec.status.reserved(options.ledger, run, f"epsilon {asked} at delta {spec.delta:g}{where}")
    return reserved


def _measure_and_write(
    spec: RunSpec,
    reserved: Reserved,
    source: Any,
    prior: Any,
    folder: RunFolder | None,
    sample_seed: int,
) -> tuple[list[Run], list[Comparison]]:
    """Reads the private rows, runs the mechanism for every epsilon and finalizes each run. Also
    returns what the report is to compare."""
    options = spec.options
    with spec.reporter.stage("read", "reading and encoding"):
        counter = open_counter(source, spec.reading_schema, options)
    if folder is not None and counter.reading:
        write_json(folder.private / "reading.json", dict(counter.reading))
    truth = None
    try:
        changed = check_unchanged(source, was_charged(reserved))
        outcomes, outputs = _measure(spec, reserved.sessions(counter.counter), prior, sample_seed)
        if options.report and counter.table is not None:
            values = source.again and source.encoded is None
            truth = source if values else counter.table.as_truth()  # shares the table's columns
    finally:
        if truth is None or truth is source:
            counter.close()
    outcomes = [with_source_facts(outcome, source, changed) for outcome in outcomes]
    runs = [
        finalize(
            spec=spec,
            i=i,
            outcome=o,
            reserved=reserved,
            output=outputs[i],
            folder=folder,
            engine=counter.about,
        )
        for i, o in enumerate(outcomes)
    ]
    if truth is None:
        return runs, []
    labels = [spec.label(i) if spec.several else "" for i in range(len(runs))]
    places = [run.out for run in runs]
    return runs, [Comparison(truth, p, label) for p, label in zip(places, labels) if p is not None]


def _measure(
    spec: RunSpec, sessions: list, prior: Any, sample_seed: int
) -> tuple[list[Outcome], list[Output]]:
    """Run the mechanism in every session; returns its outcomes and the output of rows of each."""
    outcomes = []
    outputs = []
    for i, (session, seed) in enumerate(zip(sessions, spawned_seeds(sample_seed, len(sessions)))):
        config = spec.configs[i]
        spec.reporter.begin(i, spec.label(i) if spec.several else "")
        own, numbers = _divided(spec, session)
        with spec.reporter.stage("measure", "measuring"):
            made = run_with_users(config, own, job_of(spec, i, seed, prior), early_stop_of(spec, i))
            outcome = checked_outcome(spec, made, session, seed)
        written = with_placed_means(spec.schema, outcome.measurements, outcome.tables)
        if numbers is not None:
            with spec.reporter.stage("measure", "measuring numbers"):
                outcome = _with_numbers(spec, outcome, numbers)
                assert spec.numbers is not None
                outcome = with_quoted_numbers(outcome, spec.numbers, spec.asked_numbers, written)
        public = prior if spec.previous is None else None
        ids = id_source(spec.schema, outcome, config, public)
        threads = spec.options.threads
        outcomes.append(outcome)
        outputs.append(
            Output(
                schema=written,
                outcome=outcome,
                source=ids,
                seed=seed,
                threads=threads,
                extra=config.outputs,
                private=session.private,
            )
        )
    return outcomes, outputs


def _divided(spec: RunSpec, session: Session) -> tuple[Session, Session | None]:
    """(the mechanism's session, the session of the numbers that were asked for): the numbers' share
    of mu^2 is set aside before the mechanism measures anything."""
    if spec.numbers is None:
        return session, None
    share = spec.numbers.share_of(spec.asked_numbers)
    return session.part(1 - share), session.part(share)


def _with_numbers(spec: RunSpec, outcome: Outcome, session: Session) -> Outcome:
    """The outcome with the numbers that were asked for, measured by their own share of mu^2."""
    assert spec.numbers is not None and session.mu is not None
    numbers = spec.asked_numbers
    tables = measured_numbers(session, spec.numbers, numbers, session.mu)
    private = [name for name in spec.asked.unfinished]
    about = spec.numbers.plain() | {"share": spec.numbers.share_of(numbers), "mu": session.mu}
    about |= {"private": private} if private else {}
    return replace(
        outcome,
        tables={**outcome.tables, **tables},
        details={**outcome.details, "numbers": about},
    )


def checked_outcome(spec: RunSpec, outcome: Outcome, session: Session, seed: int) -> Outcome:
    """A mechanism's outcome, noted if the number of rows is noise, and then without users; its
    model as it is to be stored."""
    if spec.options.rows is None and isinstance(outcome.rows, ModelRows):
        total, error = estimated_total(spec.schema, outcome.measurements) or (1.0, 0.0)
        if total < LIKELY * error:
            rows = outcome.rows.again(0, seed) if spec.schema.user else outcome.rows
            outcome = replace(outcome, rows=rows, notes=(*outcome.notes, UNSURE))
    if outcome.model is not None:
        outcome.model.private = session.private
        outcome.model.merged = code_maps(outcome.tables.get("codes"))
        if isinstance(outcome.rows, ModelRows):
            outcome.model.facts = outcome.rows.facts
    return outcome


def job_of(spec: RunSpec, i: int, seed: int, prior: PublicTable | None) -> Job:
    """What the mechanism of epsilon `i` is given in addition to its session. `prior`: public data, or
    the last release where the run has one."""
    threads = spec.options.threads

    def fit(domain, measurements, **options):
        from ..estimate.estimator import fit  # loaded while rows are read (`preload`)

        options.setdefault("max_cells", spec.configs[i].fit_limit)
        with spec.reporter.stage("fit", "fitting the model"):
            return fit(domain, measurements, threads=threads, callback=report, **options)

    def report(calls: int, loss: float, seconds: float) -> None:
        spec.reporter.check()
        spec.reporter.update("fit", 1 - 0.97**calls, "fitting the model")

    def working(text: str) -> AbstractContextManager[None]:
        return spec.reporter.stage("users", text)

    return Job(
        schema=spec.schema,
        epsilon=spec.epsilons[i],
        fit=fit,
        rows=spec.options.rows,
        public=prior if spec.previous is None else None,
        previous=None if spec.previous is None else prior,
        seed=seed,
        threads=threads,
        zeros=StructuralZeros.of(spec.schema),
        quoted=spec.numbers is not None,
        working=working,
    )


def early_stop_of(spec: RunSpec, i: int) -> Callable[[Sequence[Measurement]], None]:
    """What looks at the noisy 1-ways of epsilon `i`. Only the first epsilon's answers may stop the
    run. Stopping at a later epsilon would not return the charges of those before it."""
    learnt = (*spec.asked.pending, *spec.made_columns)

    def check(ones: Sequence[Measurement]) -> None:
        if i == 0 and not spec.options.ignore_empty_columns:
            stop_if_empty(spec.schema, learnt, ones)

    return check


def _stopped(
    spec: RunSpec, stop: StoppedEarly, reserved: Reserved, source: Any, folder: RunFolder | None
) -> StoppedEarly:
    """End a run that its own noisy answers stopped: steps entered stay charged, the rest is
    returned. The folder stores the text before the ledger ends the run. So after a kill between
    these two writes, a resumed run still learns that it was stopped."""
    charged = charge_text(reserved, spec.promised, spec.delta, spec.options.dataset)
    text = f"{stop}. {charged} {ADVICE}"
    spec.status.entered = True
    if folder is not None:
        folder.keep(stopped=text)
    reserved.finish()
    if folder is not None:
        folder.forget()
        write_notes(spec, source, folder)
        failed = diagnose(spec, source, folder)
        if failed is not None:
            text += f". The diagnosis could not be made: {failed.why}"
    return StoppedEarly(text)
