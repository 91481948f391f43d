"""Public data in `cliquetree`, `mst` and `adagrid`: it helps where it is right, costs next to
nothing where it is wrong, and no more than the budget is spent."""

import numpy as np
import pytest

from fastdp.mechanisms.cliquetree import CliqueTree
from fastdp.mechanisms.mst import MST
from fastdp.mechanisms.shared import prior_screening, public_prior
from tests.tiers import first

from .growing import RowsPublic, RowsSession, dependent_rows, job_of
from .test_cliquetree import error

KINDS = {"cliquetree": CliqueTree, "mst": MST}


def go(kind, domain, rows, public=None, mu=0.3, seed=0, **fields):
    session = RowsSession(domain, rows, mu=mu, seed=seed)
    given = None if public is None else RowsPublic(domain, public)
    job = job_of(session, public=given)
    return KINDS[kind](**fields).run(session, job), session


def chain(seed=0, rows=4000):
    return dependent_rows(rows=rows, columns=5, size=6, seed=seed, keep=0.7)


def permuted(rows):
    return {a: (c + 1 + i) % 6 for i, (a, c) in enumerate(rows.items())}


def shuffled(rows, seed=3):
    rng = np.random.default_rng(seed)
    return {a: rng.permutation(c) for a, c in rows.items()}


def mean_error(kind, public, seeds, mu=0.06):
    domain, rows = chain()
    errors = []
    for seed in range(seeds):
        outcome, session = go(kind, domain, rows, public, mu=mu, seed=seed)
        errors.append(error(session, outcome))
    return float(np.mean(errors))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mu", [0.02, 5.0])
@pytest.mark.parametrize("change", [dict, permuted])
def test_the_budget_is_spent_and_never_exceeded(kind, mu, change):
    domain, rows = chain()
    _, session = go(kind, domain, rows, change(chain(seed=9)[1]), mu=mu)
    assert mu**2 * (1 - 1e-9) < session.spent <= mu**2 * (1 + 1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_right_public_data_is_used_in_place_of_measurements(kind):
    domain, rows = chain()
    _, public = chain(seed=9, rows=20_000)
    outcome, session = go(kind, domain, rows, public, mu=0.1)
    rested, beside = (
        {tuple(c) for c in outcome.details["public"][k]}
        for k in ("prior_only", "prior_and_answers")
    )
    edges = {(f"c{i}", f"c{i + 1}") for i in range(4)}
    assert edges <= rested | beside and len(edges & rested) >= 2
    assert not rested & {r.clique for r in session.asked}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_right_public_data_helps_and_wrong_does_not_hurt(kind):
    _, public = chain(seed=9, rows=20_000)
    none = mean_error(kind, None, 6)
    assert mean_error(kind, public, 6) < 0.7 * none
    for wrong in (permuted(public), shuffled(public)):
        # The spread of six seeds; bench.public measures 2 %.
        assert mean_error(kind, wrong, 6) < 1.1 * none


@pytest.mark.parametrize("kind", first(1, ["mst", "cliquetree"]))
def test_believing_everything_would_be_noticed(kind, monkeypatch):
    """The planted bug: starts are taken without a verdict."""

    def trusting(to_model, to_start, apart, noise):
        return [public_prior.PriorAssessment(a, 0.0) for a in apart]

    none = mean_error(kind, None, 3)
    monkeypatch.setattr(prior_screening, "assess_public_prior", trusting)
    _, public = chain(seed=9, rows=20_000)
    assert mean_error(kind, permuted(public), 3) > 1.1 * none


def test_triples_are_asked_for_only_where_all_their_pairs_are_taken():
    rng = np.random.default_rng(3)
    a, b = rng.integers(0, 5, 20_000), rng.integers(0, 5, 20_000)
    late = rng.random(20_000) < 0.7
    skew = rng.random(20_000) < 0.5
    rows = {
        "a": a,
        "b": np.where(skew, a, b),
        "c": np.where(late, (a + b) % 5, a),
        "d": np.where(late, a, b),
    }
    half = {n: c[:10_000] for n, c in rows.items()}
    other = {n: c[10_000:] for n, c in rows.items()}
    outcome, session = go("cliquetree", dict.fromkeys("abcd", 5), half, other, mu=1.0)
    steps = [s for s in session.steps if s.startswith("screening")]
    beside = [cliques for step, cliques in zip(steps, session.looks) if "public" in step]
    assert beside and all(len(c) == 2 for c in beside[0])
    taken = {
        tuple(c) for k in ("prior_only", "prior_and_answers") for c in outcome.details["public"][k]
    }
    for cliques in beside[1:]:
        for c in cliques:
            assert len(c) == 3 and {(c[0], c[1]), (c[0], c[2]), (c[1], c[2])} <= taken
