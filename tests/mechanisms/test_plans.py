"""A mechanism states its plan once: running measures what a step lists, for the share it lists."""

import math

import pytest

import fastdp
from fastdp.domain import Domain
from fastdp.errors import SchemaError
from fastdp.mechanisms import recipe
from fastdp.mechanisms.base import run_in_parts
from fastdp.mechanisms.mst import MST
from fastdp.mechanisms.plans import Outline, Planned, PlannedStep
from fastdp.mechanisms.shared.planned_mechanism import PlannedMechanism

from .growing import RowsSession, dependent_rows, job_of

MU = 2.0
CASES = {
    "mst": {},
    "aim": {"rounds": 6},
    "cliquetree": {"screening_rounds": 1},
    "adagrid": {"outer": [["c0", "c1", "c2"]], "copies": [{"clique": ["c0"], "times": 3}]},
    "tworound": {},
}


class Recording(RowsSession):
    """Notes what is measured under each label."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.schema.modelled = self.domain
        self.measured = {}

    def measure(self, requests, label, *, recode=None):
        self.measured.setdefault(label, []).extend(requests)
        return super().measure(requests, label, recode=recode)


@pytest.mark.parametrize("name", sorted(CASES))
def test_steps_without_a_choice_are_measured_as_the_plan_lists_them(name):
    sizes, columns = dependent_rows(rows=800, columns=3, size=3)
    session = Recording(sizes, columns, mu=MU)
    config = recipe.load({"mechanism": name, **CASES[name]}).config(1.0)
    plan = config.outline(Domain(sizes), user=False)
    config.run(session, job_of(session))
    fixed = [
        step
        for step in plan.steps
        if step.lines and all(set(line.clique) <= set(sizes) for line in step.lines)
    ]
    assert fixed, "every mechanism begins with measurements that depend on nothing private"
    for step in fixed:
        asked = [(r.clique, r.mu) for r in session.measured[step.label]]
        listed = [line for line in step.lines for _ in range(line.times)]
        assert asked == [(p.clique, MU * math.sqrt(p.share)) for p in listed]
    assert session.spent <= MU**2 * (1 + 1e-9)


@pytest.mark.parametrize("name", sorted(CASES))
def test_between_the_two_parts_only_single_columns_are_known(name):
    """The early stop and questions about users come after the 1-ways and before all else."""
    sizes, columns = dependent_rows(rows=800, columns=3, size=3)
    session = Recording(sizes, columns, mu=MU)
    config = recipe.load({"mechanism": name, **CASES[name]}).config(1.0)
    seen = []

    def between(ones):
        measured = [request for requests in session.measured.values() for request in requests]
        assert {len(request.clique) for request in measured} == {1}
        seen.append(({m.clique for m in ones}, session.spent))
        return 0.0

    run_in_parts(config, session, job_of(session), between)
    ((cliques, spent),) = seen
    assert cliques == {(column,) for column in sizes} and spent < 0.9 * session.spent


class Whole(MST, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """As a plug-in may be: it extends a mechanism of fastdp and has a `run` of its own."""

    def run(self, session, job):
        return "its own"


def test_a_mechanism_with_its_own_run_is_never_divided():
    assert run_in_parts(Whole(), None, None, lambda ones: pytest.fail("divided")) == "its own"


class Listed(PlannedMechanism, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The marginals of a field, as a plug-in might have them."""

    sets: tuple[tuple[str, ...], ...]

    def plan(self, domain):
        return {clique: 1.0 for clique in self.sets}


def test_a_planned_marginal_is_in_the_table_and_listed_once():
    """The same set in another order is one marginal with both shares; nothing planned is lost."""
    domain = Domain({"a": 2, "b": 3})
    (step,) = Listed(sets=(("a", "b"), ("b", "a"), ("b",))).steps(domain, 0.1).steps
    assert {line.clique: line.share for line in step.lines} == pytest.approx(
        {("a", "b"): 0.6, ("b",): 0.3}
    )
    with pytest.raises(SchemaError, match="no column 'c'"):
        Listed(sets=(("a", "c"),)).check(fastdp.Schema.from_domain({"a": 2, "b": 3}))


def test_a_plan_is_read_by_labels_of_its_steps():
    line = Planned(("a",), 0.25, 7)
    plan = Outline((PlannedStep("first", 0.5, (line, line)), PlannedStep("choice", 0.25)))
    whole = plan.after(PlannedStep("rows per user", 0.25))
    assert whole.measurements == (line, line)
    assert whole.charges == (("rows per user", 0.25), ("choice", 0.25))
    assert plan.lines("choice") == () and plan.share("first") == 0.5 and plan.share("none") == 0.0


def test_a_plan_that_takes_more_than_its_shares_names_the_step():
    once = Planned(("any", "pair"), 0.25, 7, times=2)
    assert PlannedStep("pairs", 0.5, (once,)).lines == (once,)
    with pytest.raises(
        ValueError, match=r"step 'pairs': its lines take 0.5 of mu.2 and the step has"
    ):
        PlannedStep("pairs", 0.25, (once,))
    with pytest.raises(ValueError, match=r"1.2 of mu.2, which is 1 in all: ones 0.6, pairs 0.6"):
        Outline((PlannedStep("ones", 0.6), PlannedStep("pairs", 0.6)))
