"""Small parts of mechanisms and fits against what their texts say of them."""

import math
from functools import partial
from itertools import pairwise, product
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, strategies as st

from fastdp.domain import Domain
from fastdp.estimate.descent import optimisers
from fastdp.estimate.descent.optimisers import Stop
from fastdp.estimate.estimator import fit
from fastdp.estimate.flow.flow_solver import SETTLED, TRIES, WIDE, Flow, goal_of
from fastdp.measurement import Measurement
from fastdp.mechanisms import with_users
from fastdp.mechanisms.base import Ids
from fastdp.mechanisms.cliquetree import CliqueTree, trends
from fastdp.mechanisms.limits import size_limits
from fastdp.mechanisms.limits.size_limits import PAIR_BYTES, PUBLIC_PAIR_BYTES
from fastdp.mechanisms.mst import MST
from fastdp.mechanisms.shared import dependencies
from fastdp.mechanisms.shared.merged_codes import merge
from fastdp.mechanisms.shared.model_rows import GroupedRows, ModelRows
from fastdp.mechanisms.shared.user_histogram import size_edges
from fastdp.mechanisms.usercounts.mechanism import in_bins, total_rows
from fastdp.public.archetypes import mixture
from tests.builders import schema_with_users


@given(st.lists(st.tuples(st.integers(1, 900), st.booleans()), min_size=4, max_size=30), st.data())
def test_scores_of_groups_have_mean_0_and_variance_1(codes, data):
    """Over all rows; in the order of the mean codes, and 0 for codes without a place in the
    order."""
    rows, alone = np.array([float(n) for n, _ in codes]), np.array([a for _, a in codes])
    some = sorted(data.draw(st.lists(st.integers(0, 2), min_size=len(codes), max_size=len(codes))))
    groups = np.unique(np.where(alone, 3, some), return_inverse=True)[1]
    merged = merge(Domain({"a": len(codes)}), [Measurement("a", rows, 1e-3)], 0.0)
    score = trends.group_scores(merged, "a", groups, alone)
    each = score[groups]
    assert (each[alone] == 0).all() and (np.diff(each[~alone]) >= 0).all()
    if len(set(groups[~alone])) > 1:
        assert [rows @ each, rows @ each**2 / rows.sum()] == pytest.approx([0, 1], abs=1e-6)


def test_a_fit_stops_by_its_rule():
    """Noise: at half the rows, and `slack` standard deviations of that; looked at every five calls
    where an order does not fit. Tolerance: no relative fall over ten losses, at the best one or
    long after it."""
    n, calls = Stop.WINDOW, (7, 6 + Stop.WINDOW // 2, 7 + Stop.WINDOW // 2)
    for rows, slack in ((8, 0.0), (8, 2.0), (50, 1.0)):
        level = rows / 2 + slack * math.sqrt(rows / 2)
        for loss, fits in ((level - 1e-9, True), (level + 1e-9, True), (level - 1e-9, False)):
            looks, ends = [], ["noise level" if fits and loss < level else ""] * 3
            facts = SimpleNamespace(
                rows=rows, orders_fit=lambda at, to=looks, yes=fits: to.append(at) or yes
            )
            stop = Stop("noise", facts, 1e-3, 40, slack)
            assert [stop(loss, call, call) for call in calls] == ends
            assert looks == ([*calls] if fits else [7, calls[2]]) * (loss < level)
            assert [stop(loss, 0, call) for call in (39, 40, 41)][1:] == ["iterations"] * 2
        options, lines = (
            SimpleNamespace(stop="noise", slack=slack),
            SimpleNamespace(constant=rows / 9, size=rows / 3),
        )
        assert goal_of(options, facts, lines).loss == pytest.approx(level)
        options.stop = "refined"
        assert goal_of(options, facts, lines).loss == pytest.approx(
            min(level, rows * (1 / 9 + SETTLED / 6))
        )
    facts = SimpleNamespace(rows=2, orders_fit=None)

    def end(losses):
        stop = Stop("tol", facts, 1e-3, None)
        return next((i for i, x in enumerate(losses, 1) if stop(x, None, i)), None)

    assert end([5.0] * 3 * n) == n + 1 and end([5.0 * 0.999**i for i in range(99)]) is None
    assert end([5.0 * 0.99995**i for i in range(99)]) == n + 1
    assert end([5.0] * 5 + [6.0] * 300) == 10 * n + 1 and end([5.0] * 5 + [6.0] * 60 + [5.0]) == 66
    assert end([5.0 * 0.99**i for i in range(150)] + [6.0] * 300) == 299  # half of all losses
    forgot = Stop("tol", facts, 1e-3, None)
    assert [forgot(5.0, None, 1) for _ in range(n)] == [""] * n
    forgot.forget(5.0)
    assert [forgot(5.0, None, 1) for _ in range(n)][-2:] == ["", "tolerance"]
    timed = Stop("iters", facts, 0.0, None, flow=2.0)
    assert [timed(1.0, None, 1, t) for t in (1.9, 2.0)] == ["", "time"]


@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 4))
def test_means_find_clusters_that_lie_far_apart(seed, clusters, columns):
    """Every cluster is one label where there are as many means; where there are more, only points
    of one cluster share a label; nobody is nearer to another label's mean than to its own."""
    rng = np.random.default_rng(seed)
    of = rng.permutation(np.repeat(np.arange(clusters), rng.integers(1, 5, clusters)))
    x = 1e6 * of[:, None] + rng.random((len(of), columns))
    share = rng.dirichlet(np.ones(len(of)))
    for size in (clusters, clusters + 2):
        label = mixture.kmeans(x, share, size, rng)
        assert all(len(set(of[label == k])) == 1 for k in set(label))
        assert (
            len(set(label)) == min(size, len(of))
            if size == clusters
            else len(set(label)) >= clusters
        )
        means = {
            k: np.average(x[label == k], axis=0, weights=share[label == k]) for k in set(label)
        }
        for point, k in zip(x, label):
            assert (
                np.linalg.norm(point - means[k])
                <= min(np.linalg.norm(point - m) for m in means.values()) + 1e-3
            )


def test_rows_of_groups_have_the_shares_and_the_odds_asked_for():
    """Of every group its part of the shard, and of each kind of row in it as many as its odds
    leave."""
    domain, table = Domain({"g": 2, "a": 3}), np.array([[300.0, 200, 100], [10, 40, 50]])
    model = fit(domain, [Measurement(("g", "a"), table.reshape(-1), 0.01)])
    odds = np.array([[1.0, 0.5, 0.0], [0.25, 1.0, 3.0]])
    rows = GroupedRows(ModelRows(model, 9001, 3), "g", np.array([2.0, 1.0]), {"a": odds})
    made = rows.shard(0)
    found = np.zeros((2, 3))
    np.add.at(found, (made["g"], made["a"]), 1)
    assert found.sum(axis=1).tolist() == [6001, 3000]
    left = table * np.minimum(odds, 1)
    wanted = left / left.sum(axis=1, keepdims=True) * [[6001], [3000]]
    assert (np.abs(found - wanted) < 5 * np.sqrt(wanted) + 1).all() and found[0, 2] == 0
    assert rows.again(50, 1).shard(0)["g"].tolist().count(0) == 33


def test_users_cost_their_shares_where_they_are_asked_for_and_can_repeat_something():
    many, one = (schema_with_users({"a": 3}, "who", max_rows=n) for n in (2, 1))
    whole = sum(with_users.SHARES.values())
    for config, source, public in product(
        (CliqueTree, MST), ("auto", "users", "private"), (False, True)
    ):
        asked = source == "users" or (source == "auto" and config is CliqueTree and not public)
        made = config(ids=Ids(source=source))
        assert with_users.users_cost(made, many, public) == pytest.approx(whole * asked)
        assert with_users.users_cost(made, one, public) == 0
    session = SimpleNamespace(mu=0.5)
    for users, columns, which in ((None, 3, 0), (1e3, 2, 1), (1e5, 4, 0), (1e5, 4, 1)):
        coarse = (
            None
            if users is None
            else SimpleNamespace(values=np.array([7e7, users / 4, 3 * users / 4]))
        )
        state = SimpleNamespace(session=session, coarse=coarse)
        share = with_users._Users._enough(state, columns, which)
        there = max(1.0, users or 1.0) / (3 if which else 1)
        error = math.sqrt((columns + 1) / share) / 0.5 / there / 2  # of a rate: a user adds 2 a - 1
        assert error == pytest.approx(with_users.LEAST_ERROR) or (
            share == with_users.PARTS[which] and error > with_users.LEAST_ERROR
        )


@given(st.floats(1e-4, 1.0), st.floats(1e-6, 1e4), st.floats(10, 1e6))
def test_trends_are_released_of_the_farthest_pairs_with_noise_within_bounds(share, unit, total):
    distances = {
        (a, b): float(7 * i % 11) for i, (a, b) in enumerate(zip("abcdefghijk", "bcdefghijkl"))
    }
    pairs, each = trends.affordable(distances, share, unit, total)
    assert pairs == sorted(distances, key=distances.get, reverse=True)[: len(pairs)]
    if pairs:
        part = 1 / math.sqrt(unit * each) / total  # the noise of a sum
        assert trends.FINEST * (1 - 1e-9) <= part <= trends.COARSEST * (1 + 1e-9)
        assert each * len(pairs) <= trends.SHARE * share * (1 + 1e-9)
    least = 1 / (unit * (trends.COARSEST * total) ** 2)  # of the share, for one more
    assert len(pairs) == 11 or (len(pairs) + 1) * least > trends.SHARE * share * (1 - 1e-9)


def test_rows_of_users_in_bins_count_by_the_middle_of_their_bin():
    edges = np.array(size_edges(1000))
    sizes = Measurement("n", np.arange(1.0, len(edges) + 1), 1.0)
    middles = [np.arange(first, end).mean() for first, end in zip(edges, [*edges[1:], 1001])]
    job = SimpleNamespace(rows=None, schema=SimpleNamespace(max_rows_per_user=1000))
    assert total_rows(sizes, job) == pytest.approx(sizes.values @ middles)
    each = Measurement("n", np.arange(1.0, 1001), np.arange(1.0, 1001))
    assert total_rows(each, job) == pytest.approx(sum(k * k for k in range(1, 1001)))
    binned = in_bins(each, 1000)
    assert in_bins(sizes, 1000) is sizes and binned.values.sum() == each.values.sum()
    for i, (first, end) in enumerate(zip(edges, [*edges[1:], 1001])):
        assert binned.values[i] == sum(range(first, end))
        assert binned.sigma[i] ** 2 == pytest.approx(sum(k * k for k in range(first, end)))


def test_limits_of_memory_and_time_are_limits_of_cells():
    for power, unit in enumerate(("", "K", "M", "G", "T")):
        assert size_limits.parse_bytes(f"3{unit}") == 3 * 1024**power
    memory, pair, model = 10**9, size_limits.pair_cells, partial(size_limits.model_cells, None)
    for public, each in ((False, PAIR_BYTES), (True, PAIR_BYTES + PUBLIC_PAIR_BYTES)):
        assert pair(memory, 10**9, public) == memory // 2 // each and pair(None, 7, public) == 7
        assert (
            pair(memory, 50_000, public) == 50_000
            and pair(1, 10**9, public) == size_limits.LEAST_CELLS
        )
    cells = [memory // 2 // size_limits.CELL_BYTES, 2 * size_limits.CELLS_PER_SECOND]
    assert [model(memory, None), model(None, 2.0), model(memory, 2.0)] == [*cells, min(cells)]
    assert model(None, None, 9) == size_limits.model_cells(9, memory, 2.0) == 9
    assert model(1 << 24, 1e-9) == size_limits.LEAST_CELLS


class Descent:
    """A descent on a scale: attempts of a size up to 1 / curvature lower the loss by a tenth."""

    def __init__(self, curvature, threads=1):
        self.loss, self.steepest, self.calls, self.time, self.threads = 100.0, 64.0, 1, 0.0, threads
        self.curvature, self.tried, self.kept, self.x, self.z_next = curvature, [], [], None, None
        self.quadratic = SimpleNamespace(rows=0, loss=lambda *_: self.loss - self.fall)

    def attempt(self, mix, size):
        """Bregman distance 1, and the curvature that the step is found to have."""
        self.calls += 1
        self.tried.append((mix, size))
        self.fall = 0.1 * self.loss if size * mix <= 1 / self.curvature(len(self.kept)) else -1.0
        return 1e-3, 1e-3 * self.curvature(len(self.kept))

    def accept(self, mix):
        self.kept.append(self.tried[-1])
        self.loss -= 0.1 * self.loss
        return self.loss

    def restated(self):
        return self.loss


@pytest.mark.parametrize("rule", ["tol", "noise", "iters"])
def test_steps_of_a_descent_follow_the_curvature_and_momentum_follows_nesterov(rule):
    """A step is taken once its size is within 1 / (t L) of the curvature L that is found, and L may
    shrink only by SHRINK a step. The weights t of the newest point have (1 - t) / t^2 = 1 / t'^2 of
    the one before; a fit that stops by its noise keeps at least STEADY of it. Plain descent halves
    and doubles its steps."""
    clock = SimpleNamespace(tick=lambda calls, loss: None)
    curve = lambda k: 3.0 if k < 20 else 500.0  # noqa: E731
    descent = Descent(curve)
    loss, ended = optimisers.accelerated(descent, Stop(rule, descent.quadratic, 1e-9, 60), clock)
    assert ended == "iterations" and loss == descent.loss and descent.calls == 60
    weights, bounds = (np.array(x) for x in zip(*((t, 1 / (t * size)) for t, size in descent.kept)))
    assert weights[0] == 1 and bounds[0] == 64
    least = optimisers.STEADY if rule == "noise" else 0.0
    free = weights[1:] > least
    assert ((1 - weights[1:]) / weights[1:] ** 2)[free] == pytest.approx(
        (1 / weights[:-1] ** 2)[free]
    )
    assert (weights[1:][~free] == least).all() and (weights[-1] == least) == (rule == "noise")
    found = np.array([curve(k) for k in range(len(bounds))])
    assert (bounds >= found * (1 - 1e-9)).all() and (
        bounds[1:] >= optimisers.SHRINK * bounds[:-1] * (1 - 1e-9)
    ).all()
    assert bounds[19] == pytest.approx(
        max(optimisers.MARGIN * 3, 64 * optimisers.SHRINK**19)
    ) and bounds[20] == pytest.approx(optimisers.GROW * 500)
    assert len(descent.tried) == len(bounds) + 1  # one step too long, where the curvature rose
    plain = Descent(curve)
    assert (
        optimisers.mirror_descent(plain, Stop(rule, plain.quadratic, 1e-9, 60), clock)[1]
        == "iterations"
    )
    sizes, kept = [size for _, size in plain.tried], {size for _, size in plain.kept}
    assert sizes[0] == 1 / 64 and {t for t, _ in plain.tried} == {1.0}
    assert all(b == (2 * a if a <= 1 / 3 and a in kept else a / 2) for a, b in pairwise(sizes[:10]))
    assert plain.loss == pytest.approx(100 * 0.9 ** len(plain.kept))


@given(st.floats(0.3, 4.0), st.floats(1.1, 100), st.floats(0.01, 0.99), st.integers(0, 9))
def test_a_flow_goes_back_to_where_it_crossed_the_noise_level(power, before, height, calls):
    """Along a stride whose loss falls from `before` to 1: not above the level, and below it by WIDE
    of the stride's own excess at most, unless TRIES calls, or those that are left, were too few.
    The state and the functionals are those of the loss."""
    flow, wanted = object.__new__(Flow), 1 + height * (before - 1)
    flow._at, flow._z, flow._spare, flow._velocity, flow.loss, flow.f = (
        0.0,
        1.0,
        None,
        2.0,
        1.0,
        1.0,
    )
    flow.calls, flow.most, tried = 0, calls, []
    flow.engine = SimpleNamespace(team=None)
    loss_at = lambda share: before + (1 - before) * share**power  # noqa: E731
    flow.lines = SimpleNamespace(change=lambda way, team: way / 2, loss=loss_at, active=0)
    flow._delta = [0.0]

    def arrive():
        flow._spare, flow.calls, share = flow._delta[0], flow.calls + 1, flow._delta[0]
        tried.append(share)
        return share

    flow._try = arrive
    flow.back(before, wanted)
    assert flow._z == flow.f and flow.loss == loss_at(flow.f) <= wanted and flow._at != flow._z
    close = flow.loss >= wanted - WIDE * (wanted - 1)
    assert close or len(tried) == min(TRIES, calls)
    best = [1.0, *(x for x in tried if loss_at(x) <= wanted)]
    assert flow.f == best[-1] == min(best) and all(
        not loss_at(x) >= wanted - WIDE * (wanted - 1) for x in best[:-1]
    )
    if tried:  # false position: aims just below the level on the line between both ends
        assert wanted - WIDE * (wanted - 1) <= before + (1 - before) * tried[0] < wanted


@given(
    st.lists(st.integers(0, 26), min_size=12, max_size=12, unique=True),
    st.booleans(),
    st.integers(0, 3),
)
def test_columns_are_drawn_given_what_most_rows_can_be_guessed_from(steps, noisy, frequent):
    """A column follows where the rows that can be guessed, less two standard errors, are FOLLOWS of
    all and LIFT of those without its most frequent value; the strongest first, each after its
    source, no circles."""
    sizes = {"a": 300, "b": 310, "c": 500, "d": 900}
    domain, total = Domain(sizes), 1e6
    shares = {
        n: np.r_[0.8 if i == frequent else 2 / k, np.ones(k - 1)]
        for i, (n, k) in enumerate(sizes.items())
    }
    shares = {n: np.r_[s[0], (1 - s[0]) * s[1:] / s[1:].sum()] for n, s in shares.items()}
    asked, numbers, error = [], (0.7203 + 0.015 * step for step in steps), 0.02 * noisy

    def guesses(pairs, *, mu, label, recode, skip):
        asked.extend((p, next(numbers)) for p in pairs)
        assert mu == pytest.approx(0.3 * math.sqrt(0.04)) and not skip
        return SimpleNamespace(
            values=total * np.array([x for _, x in asked]), sigma=np.full(len(asked), total * error)
        )

    session = SimpleNamespace(domain=domain, mu=0.3, guesses=guesses, most_filtered=800 * 900)
    ones = [Measurement(n, total * s, 1e-3) for n, s in shares.items()]
    found = dependencies.find(session, ones, 0.04, {"b"}, 10**5)
    assert {p for p, _ in asked} == {
        p for p in dependencies.wide_pairs(domain, {"b"}, 10**5) if domain.cells(p) <= 800 * 900
    }
    follow, source = {}, {}
    for (a, b), x in sorted(asked, key=lambda item: -item[1]):
        part, largest = min(1.0, x - 2 * error), shares[b].max()
        if part >= dependencies.FOLLOWS and part - largest >= dependencies.LIFT * (1 - largest):
            column, of = (b, a) if 2 * sizes[b] > sizes[a] else (a, b)
            up = of
            while up in source:
                up = source[up]
            if column not in source and up != column:
                source[column], follow[column] = of, part
    assert {d.column: d.source for d in found} == source
    assert {d.column: d.part for d in found} == pytest.approx(follow)
    places = [d.column for d in found]
    assert all(d.source not in places[i:] for i, d in enumerate(found))
