"""Planted bugs that the replay audit must report. Each is a patch of the program, the world in
which it shows, and a part of the report."""

from contextlib import ExitStack, contextmanager
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest

from fastdp._util.progress import LOG
from fastdp.engines import local as local_engine, user_histograms
from fastdp.engines.local import LocalCounter
from fastdp.errors import DataError
from fastdp.measurement import SCALE
from fastdp.mechanisms.cliquetree.dense_classes import ClassTable
from fastdp.mechanisms.cliquetree.dense_tables import DenseTable
from fastdp.mechanisms.cliquetree.tree_state import CliqueTreeState
from fastdp.mechanisms.cliquetree.two_valued import TwoValuedTable
from fastdp.mechanisms.shared import merged_codes
from fastdp.mechanisms.shared.public_prior import PublicMarginals
from fastdp.mechanisms.with_users import table_about_users
from fastdp.privacy import noise
from fastdp.privacy.accountant import Gaussian
from fastdp.privacy.ledger import Reservation
from fastdp.release import domainsteps, gateway, key_counts, keyselect, marginal_plan
from fastdp.release.counts import Counts
from fastdp.release.gateway import Session
from fastdp.release.marginal_plan import MarginalPlan, MarginalsPlan
from fastdp.run import execute, owner_files
from fastdp.tables import bound, idvalues, ingest, linked_tables, sql
from fastdp.tables.table import Table
from fastdp.tables.userids import UserIndex
from fastdp.users import people, rates
from fastdp.users.two_rows import TwoRows

from ..tiers import slow_cases
from .replay import hostile, worlds
from .replay.audit import audit_scenes
from .replay.compare import Figures
from .replay.identities import ids_of
from .replay.worlds import World

BUGS = {}
PAIRS = 12


def four_rows(epsilon):
    """Rows count up to four of a user; the tree of `mst` is chosen privately. With much noise all
    codes are merged, so that one user changes one cell; with little, candidates differ."""

    def make(rng):
        recipe = {"mechanism": "mst", "clip": 4}
        run = worlds.synthesize(hostile.schema(rng), mechanism=recipe, epsilon=epsilon)
        return worlds.of_users(rng, run)

    return World("four rows", PAIRS, make)


def bug(world, report, pairs=PAIRS):
    """Register a function that returns the patches of a bug, with the world, the report and the
    pairs within which it has to come."""

    def register(patches):
        BUGS[patches.__name__] = (world, report, pairs, patches)
        return patches

    return register


def engine_of(session):
    return session._Session__engine


def rows_of(session):
    """The exact number of rows, which no mechanism can see. (The recorder wraps the engine of a run, not
    that of an earlier release which a world makes.)"""
    engine = engine_of(session)
    return int(getattr(engine, "_engine", engine).table.rows)


@bug(four_rows(3.0), "charged are")
def sensitivity_off_by_one_row():
    real = marginal_plan.plan_marginal

    def planted(domain, clip, *asked):
        return real(domain, max(1, clip - 1), *asked)

    return [patch.object(marginal_plan, "plan_marginal", planted)]


@bug(four_rows(30.0), "charged are")
def sensitivity_of_a_selection_halved():
    real = gateway.plan_selection

    def planted(clip, **asked):
        return real(clip=max(1, clip // 2), **asked)

    return [patch.object(gateway, "plan_selection", planted)]


@bug("sets of a target", "charged are", pairs=24)
def sensitivity_of_picks_halved():
    real = gateway.plan_half_sets

    def planted(clip, **asked):
        return real(clip=max(1, clip // 2), **asked)

    return [patch.object(gateway, "plan_half_sets", planted)]


@bug("sets of a target", "charged are", pairs=24)
def bits_without_the_weights_of_users():
    """Every row counts fully, however many a user has."""
    real = local_engine.BitRows

    def planted(columns, rows, weights=None):
        return real(columns, rows, None if weights is None else np.full(rows, SCALE))

    return [patch.object(local_engine, "BitRows", planted)]


@bug("sets of a target", "the questions differ", pairs=24)
def sets_by_exact_counts():
    """The first set is left out where the number of rows is odd."""
    real = Session.select_half_set

    def planted(self, sets, estimates, *, allowed, **options):
        some = allowed[rows_of(self) % 2 :]
        return real(self, sets, estimates, allowed=some, **options)

    return [patch.object(Session, "select_half_set", planted)]


@bug("columns of two values", "charged are", pairs=24)
def sensitivity_of_contrasts_halved():
    real = gateway.plan_contrasts

    def planted(domain, clip, *asked):
        return real(domain, max(1, clip // 2), *asked)

    return [patch.object(gateway, "plan_contrasts", planted)]


@bug("columns of two values", "label differs", pairs=24)
def division_by_exact_counts():
    """Triples are asked about again where the number of rows is odd."""
    real = TwoValuedTable.division

    def planted(self, share):
        columns, pairs, triples = real(self, share)
        odd = rows_of(self.state.session) % 2
        return (columns, pairs, triples) if odd else (columns + triples, pairs, 0.0)

    return [patch.object(TwoValuedTable, "division", planted)]


@bug("mechanism mst", "the questions differ")
def candidates_by_exact_counts():
    real = Session.select_l1

    def planted(self, cliques, estimates, *, allowed=None, **options):
        allowed = range(len(cliques)) if allowed is None else allowed
        inner = engine_of(self)._engine
        cells = {c: np.count_nonzero(inner.marginals([c])[c]) for c in cliques}
        full = [i for i in allowed if cells[cliques[i]] > 6]
        return real(self, cliques, estimates, allowed=full or list(allowed), **options)

    return [patch.object(Session, "select_l1", planted)]


@bug("mechanism mst", "counted outside of a charged step")
def counted_before_the_charge():
    real = Session.measure

    def planted(self, requests, label, **options):
        engine_of(self).marginals([requests[0].clique], 1)
        return real(self, requests, label, **options)

    return [patch.object(Session, "measure", planted)]


@bug("mechanism mst", "steps:")
def branch_on_the_exact_number_of_rows():
    real = execute.run_with_users

    def planted(config, session, *of_run):
        if rows_of(session) % 2:
            session.measure([gateway.Request((next(iter(session.domain)),), 1e-3)], "one more")
        return real(config, session, *of_run)

    return [patch.object(execute, "run_with_users", planted)]


@bug("mechanism mst", "errors differ")
def error_text_with_a_private_value():
    real = execute.run_with_users

    def planted(config, session, *of_run):
        if rows_of(session) > 3:
            raise DataError(f"{rows_of(session)} rows are too many")
        return real(config, session, *of_run)

    return [patch.object(execute, "run_with_users", planted)]


@bug("mechanism mst", "log lines or warnings differ")
def log_line_with_a_private_value():
    real = execute.run_with_users

    def planted(config, session, *of_run):
        LOG.warning("measuring %s rows", rows_of(session))
        return real(config, session, *of_run)

    return [patch.object(execute, "run_with_users", planted)]


@bug("session", "the noise differs", pairs=60)
def noise_from_a_private_number():
    def planted(plan, table, seed):
        exact = table.reshape(-1)
        exact = exact if plan.query is None else plan.query.product(exact)
        return exact + noise.gaussian(plan.sigma * (1 + int((exact > 0).sum())), plan.rows)

    return [patch.object(MarginalPlan, "noisy", planted)]


@bug("session", "charged are", pairs=60)
def clip_applied_after_counting():
    """Cells are cut off at the clip; a user with many rows still changes many cells."""
    real = LocalCounter.marginals

    def planted(self, cliques, clip=None, *arguments, **options):
        if clip is None or arguments or options.get("sparse"):
            return real(self, cliques, clip, *arguments, **options)
        plain = real(self, cliques, None, **options)
        return {c: np.minimum(a, clip) * SCALE for c, a in plain.items()}

    return [patch.object(LocalCounter, "marginals", planted)]


@bug("mechanism adagrid", "charged are")
def weights_not_capped():
    return [patch.object(bound, "user_weights", lambda table, clip: None)]


@bug("session", "label differs")
def label_with_a_private_count():
    real = Session.user_histogram

    def planted(self, *arguments, label, **options):
        label = f"{label} of {rows_of(self)} rows"
        return real(self, *arguments, label=label, **options)

    return [patch.object(Session, "user_histogram", planted)]


@bug("mechanism usercounts", "released 'out/rows.txt' differs")
def file_with_a_private_count():
    real = execute.finalize
    seen = []
    measure = execute._measure

    def measured(spec, sessions, *arguments):
        seen.append(rows_of(sessions[0]))
        return measure(spec, sessions, *arguments)

    def planted(folder, **made):
        (folder.staging() / "rows.txt").write_text(str(seen[-1]))
        return real(folder=folder, **made)

    return [
        patch.object(execute, "_measure", measured),
        patch.object(execute, "finalize", planted),
    ]


@bug("resumed", "drawn twice")
def resume_counts_and_draws_again():
    real = Reservation.enter
    store = Reservation.store

    def entered(self, *arguments, **options):
        real(self, *arguments, **options)

    def stored(self, part, number, arrays):
        try:
            store(self, part, number, arrays)
        except Exception:
            pass
        return list(arrays)

    return [patch.object(Reservation, "enter", entered), patch.object(Reservation, "store", stored)]


@bug("mechanism tworound", "charged are")
def half_the_share_charged():
    half = property(lambda self: [Gaussian(p.mu / 2) for p in self.plans])
    return [patch.object(MarginalsPlan, "events", half)]


@bug("select_keys", "new keys pass with probability")
def threshold_of_keys_too_low():
    real = keyselect.threshold
    return [patch.object(keyselect, "threshold", lambda *a: real(*a) * 9 // 10)]


@bug("select_keys", "charged are")
def users_count_in_too_many_keys():
    real = key_counts.weight
    return [patch.object(key_counts, "weight", lambda values: real(max(1, values - 1)))]


@bug("session", "depend on more than the noisy vectors")
def true_total_beside_the_noise():
    real = MarginalPlan.noisy

    def planted(plan, table, seed):
        noisy = real(plan, table, seed)
        return noisy if plan.query is not None else noisy + int(table.sum()) // SCALE

    return [patch.object(MarginalPlan, "noisy", planted)]


@bug("session", "noise was drawn and not added")
def noise_forgotten():
    def planted(plan, table, seed):
        noise.gaussian(plan.sigma, plan.rows)
        exact = table.reshape(-1)
        return exact if plan.query is None else plan.query.product(exact)

    return [patch.object(MarginalPlan, "noisy", planted)]


@bug("private domain", "depend on more than the noisy vectors")
def private_number_in_the_found_schema():
    real = domainsteps.schema_bytes

    def planted(finished):
        return real(finished).replace(b'"provenance":"', b'"provenance":"%d ' % SEEN[-1])

    count = keyselect.count_keys

    def counted(*arguments, **options):
        keys, users = count(*arguments, **options)
        SEEN.append(int(users.sum()))
        return keys, users

    return [
        patch.object(domainsteps, "schema_bytes", planted),
        patch.object(keyselect, "count_keys", counted),
    ]


SEEN = [0]


@bug("partitioned engine", "charged are")
def partitions_that_split_users():
    def planted(source, schema, partitions):
        step = -(-max(source.num_rows, 1) // partitions)
        return [
            worlds.fastdp.read(source.slice(i * step, step), schema, threads=1)
            for i in range(partitions)
        ]

    return [patch.object(worlds, "split_by_user", planted)]


@bug("table about users", "charged are")
def facts_of_rows_and_not_of_users():
    """The table about users has a row for each private row: a user with many changes many."""
    real = user_histograms._facts

    def planted(table, view, threads):
        made = real(table, view, threads)
        there = table.rows_per_user()[table.rows_per_user() > 0]
        codes = {name: np.repeat(own, there) for name, own in made.codes.items()}
        return Table(made.schema, codes, rows=int(there.sum()), public=made.public)

    return [patch.object(user_histograms, "_facts", planted)]


@bug("table about users", "events differs")
def facts_asked_by_the_exact_number_of_users():
    real = table_about_users.user_facts

    def planted(domain, roles, order, amounts, bound, *about):
        return real(domain, roles, order, amounts, max(1, bound - SEEN[-1] % 2 * 2), *about)

    return [counting_rows(), patch.object(table_about_users, "user_facts", planted)]


def counting_rows():
    """A patch by which SEEN holds the exact number of rows from then on."""
    sessions = execute._measure

    def measured(spec, made, *arguments):
        SEEN.append(rows_of(made[0]))
        return sessions(spec, made, *arguments)

    return patch.object(execute, "_measure", measured)


@bug("habits", "steps:")
def habits_by_exact_counts():
    """Whether users repeat something is decided by whether the number of rows is odd."""

    def planted(z, false_alarms):
        return bool(SEEN[-1] % 2)

    return [counting_rows(), patch.object(rates, "stand_out_together", planted)]


@bug("many values", "the questions differ")
def counts_expected_of_exact_rows():
    """Counts stay as noisy as they were where the number of rows is even."""
    real = merged_codes.expected_counts

    def planted(ones, *arguments):
        found = real(ones, *arguments)
        return found if SEEN[-1] % 2 else list(ones)

    return [counting_rows(), patch.object(merged_codes, "expected_counts", planted)]


@bug("divided contrasts", "label differs")
def contrasts_divided_by_exact_counts():
    """All of the rest goes to the pairs where the number of rows is odd."""
    real = TwoValuedTable.division

    def planted(self, share):
        return (0.0, 1.0, 0.0) if SEEN[-1] % 2 else real(self, share)

    return [counting_rows(), patch.object(TwoValuedTable, "division", planted)]


@bug("very many rows", "the questions differ")
def last_users_by_exact_counts():
    """One bin less where the number of rows is odd."""
    real = people.last_users

    def planted(*arguments):
        return real(*arguments) - SEEN[-1] % 2

    return [counting_rows(), patch.object(people, "last_users", planted)]


@bug("command line", "released 'printed' differs")
def notes_where_there_are_some():
    """The owner is pointed to the notes only if something was left out."""
    real = owner_files._write

    def planted(path, text):
        if "Nothing to note" not in text:
            real(path, text)

    return [patch.object(owner_files, "_write", planted)]


@bug("databases", "charged are", pairs=24)
def types_from_values():
    """A column in which all values are there is read otherwise than one with nulls, as pandas does."""
    real = sql.column_of_objects

    def planted(values, *arguments):
        some = any(value is None for value in values)
        return real([value and f"{value}.5" for value in values] if some else values, *arguments)

    return [patch.object(sql, "column_of_objects", planted)]


@bug("linked children", "charged are")
def levels_beside_those_of_other_keys():
    """A key's level is moved by the levels of all keys, so that one key changes rows of others."""
    real = linked_tables.level_codes

    def planted(*arguments):
        level = real(*arguments)
        there = level < linked_tables.LEVELS
        return np.where(there, (level + level[there].sum()) % linked_tables.LEVELS, level)

    return [patch.object(linked_tables, "level_codes", planted)]


@bug("all of a series", "charged are", pairs=24)
def a_month_with_the_rows_of_all_months():
    """Rows of other months are read as well, as those of the same user."""
    real = UserIndex.prepare
    return [
        patch.object(ingest, "taking_part", lambda codes, period: None),
        patch.object(UserIndex, "prepare", lambda self, ids, periods=None: real(self, ids)),
    ]


@bug("users of few rows", "released 'out/")
def tables_of_two_rows_by_exact_counts():
    """Users are chosen by no table of two rows where the number of rows is odd."""
    real = TwoRows.of

    def planted(codes, names, start, most, seed):
        return real(codes, names, start, 0 if SEEN[-1] % 2 else most, seed)

    return [counting_rows(), patch.object(TwoRows, "of", planted)]


@bug("amounts without users", "charged are")
def amounts_of_rows_counted_twice():
    real = LocalCounter.user_sums
    return [patch.object(LocalCounter, "user_sums", lambda self, plan: 2 * real(self, plan))]


@bug("beside independent columns", "released 'out/")
def independent_columns_by_exact_counts():
    """Independent columns are used where the number of rows is odd."""
    real = CliqueTreeState.of_independent.fget

    def planted(state):
        far = -1e9 if SEEN[-1] % 2 else 1e9
        return {c: (far, sigma) for c, (_, sigma) in real(state).items()}

    return [counting_rows(), patch.object(CliqueTreeState, "of_independent", property(planted))]


@bug("hidden classes", "label differs")
def classes_by_exact_counts():
    """Classes are left alone where the number of rows is odd."""
    real = ClassTable.worth

    def planted(self, *arguments):
        return real(self, *arguments) and SEEN[-1] % 2 == 0

    return [counting_rows(), patch.object(ClassTable, "worth", planted)]


@bug("hidden factors", "released 'out/")
def ties_by_exact_counts():
    """Columns are tied to each other only where the number of rows is even."""
    real = DenseTable.tie

    def planted(self, result):
        if SEEN[-1] % 2 == 0:
            real(self, result)

    return [counting_rows(), patch.object(DenseTable, "tie", planted)]


@bug("a prior and users", "label differs")
def priors_by_exact_counts():
    """Priors are tested only where the number of rows is even."""
    real = PublicMarginals.priors

    def planted(self, *arguments):
        return {} if SEEN[-1] % 2 else real(self, *arguments)

    return [counting_rows(), patch.object(PublicMarginals, "priors", planted)]


@bug("mechanism mst", "random bits drawn in an unknown way")
def noise_by_another_door():
    real = Counts.marginals

    def planted(*arguments):
        noise.fill_random_bytes(8)
        return real(*arguments)

    return [patch.object(Counts, "marginals", planted)]


@bug(World("numbers as ids", PAIRS, lambda rng: ids_of(rng, "numbers")), "charged are", pairs=24)
def ids_as_they_are_written():
    return [patch.object(idvalues, "number_spelled", lambda text: text)]


@bug(World("texts as ids", PAIRS, lambda rng: ids_of(rng, "text")), "charged are", pairs=40)
def users_by_their_places_in_a_dictionary():
    real = UserIndex.prepare

    def planted(index, ids, periods=None):
        if isinstance(ids, pa.DictionaryArray) and periods is None:
            return real(index, ids.indices.cast(pa.large_string()))
        return real(index, ids, periods)

    return [patch.object(UserIndex, "prepare", planted)]


@contextmanager
def planted(patches):
    with ExitStack() as stack:
        for one in patches:
            stack.enter_context(one)
        yield


SLOW = (
    "sensitivity_of_a_selection_halved",
    "clip_applied_after_counting",
    "partitions_that_split_users",
    "facts_of_rows_and_not_of_users",
    "facts_asked_by_the_exact_number_of_users",
    "habits_by_exact_counts",
    "counts_expected_of_exact_rows",
    "contrasts_divided_by_exact_counts",
    "last_users_by_exact_counts",
    "types_from_values",
    "notes_where_there_are_some",
    "levels_beside_those_of_other_keys",
    "a_month_with_the_rows_of_all_months",
    "tables_of_two_rows_by_exact_counts",
    "amounts_of_rows_counted_twice",
    "independent_columns_by_exact_counts",
    "classes_by_exact_counts",
    "ties_by_exact_counts",
    "priors_by_exact_counts",
)
"""Each takes seconds, and has another bug beside it that is reported in the same words."""


@pytest.mark.parametrize("name", [*(name for name in BUGS if name not in SLOW), *slow_cases(*SLOW)])
def test_a_planted_bug_is_reported(name):
    world, report, pairs, patches = BUGS[name]
    found = []
    with planted(patches()):
        for of_scene in audit_scenes(world, pairs, 0, Figures()):
            found += of_scene
            if any(report in text for text in of_scene):
                return
    raise AssertionError(found[:5] or "nothing was reported")


def test_there_are_more_than_ten():
    assert len(BUGS) >= 20
