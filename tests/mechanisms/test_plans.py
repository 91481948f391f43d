"""A mechanism states its plan once: running measures what a step lists, for the share it lists."""

import math

import pytest

from fastdp.domain import Domain
from fastdp.mechanisms import recipe
from fastdp.mechanisms.plans import Outline, Planned, PlannedStep

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


def test_a_plan_is_read_by_labels_of_its_steps():
    line = Planned(("a",), 0.25, 7)
    plan = Outline((PlannedStep("first", 0.5, (line, line)), PlannedStep("choice", 0.25)))
    whole = plan.after(PlannedStep("rows per user", 0.25))
    assert whole.measurements == (line, line)
    assert whole.charges == (("rows per user", 0.25), ("choice", 0.25))
    assert plan.lines("choice") == () and plan.share("first") == 0.5 and plan.share("none") == 0.0
