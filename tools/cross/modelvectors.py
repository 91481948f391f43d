"""Cases of the model's kernels: plans that `model` makes, in flat arrays, and the native build's
answers."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np

import fastdp
from fastdp._core import cliques, halve, infer, rake, sample as sample_core, tables, treesize
from fastdp._core.condition import Tree
from fastdp.domain import Domain
from fastdp.estimate.dual.dual_plan import DualPlan, plan_dual
from fastdp.estimate.dual.region_graph import Regions
from fastdp.estimate.flow import functionals
from fastdp.model import inner_tables, layout
from fastdp.model.conditional_model import ConditionalModel
from fastdp.model.junction_tree import junction_tree
from tests.estimate.test_dual import made as made_dual, problem_of
from tests.model.test_conditional import random_evidence, random_model
from tests.model.test_infer import random_case

from .casefile import DOUBLE, SINGLE, File


class Pool:
    """Arrays one behind another; `add` says where each begins, -1 for None."""

    def __init__(self, dtype: str):
        self.parts: list[np.ndarray] = [np.zeros(0, dtype)]
        self.size = 0
        self.dtype = dtype

    def add(self, array: Any) -> int:
        if array is None:
            return -1
        at = self.size
        self.parts.append(np.asarray(array, self.dtype).reshape(-1))
        self.size += self.parts[-1].size
        return at

    def all(self) -> np.ndarray:
        return np.concatenate(self.parts)


def flat(rows: Any, width: int) -> np.ndarray:
    return np.array(rows, np.int64).reshape(-1, width)


def flat_plan(plan: Any) -> list[np.ndarray]:
    """The sixteen arrays of a plan of inference, as cases_model.c reads them."""
    bases = Pool("i4")
    dims = Pool("i8")
    links = []

    def link_of(link: Any) -> int:
        at = dims.add([*link.n, *link.ts])
        links.append([link.at, link.size, bases.add(link.base), len(link.n), int(link.shared), at])
        return len(links) - 1

    schedule = plan.schedule
    nodes = []
    for node in schedule.nodes:
        numbers = [link_of(link) for link in node.links]
        head = [
            node.rows,
            node.cells,
            node.table,
            node.row_at,
            node.separator,
            node.local,
            node.lanes,
        ]
        head += [
            node.local_at,
            len(numbers),
            numbers[0] if numbers else 0,
            node.first_hosted,
            node.direct,
        ]
        nodes.append([*head, node.lane_buffer, node.buffer_at])
    stages = flat(schedule.stages, 20)
    hosted = flat(schedule.hosted, 9)
    folds_made = [[host, link_of(link)] for host, link in plan.folds]
    sizes = [plan.size, plan.shared, int(stages[:, 19].any()), schedule.buffer, max(1, plan.rows)]
    heads = np.array([*sizes, schedule.early], np.int64), stages
    return [
        *(*heads, flat(nodes, 14), flat(links, 6), bases.all(), dims.all(), hosted),
        *(flat(schedule.lists[name], 4) for name in ("up", "down", "deliveries", "gathers")),
        flat(folds_made, 2),
        *(flat(schedule.lists[name], 4) for name in ("ratios", "copies", "plain", "sums")),
    ]


def infer_cases(out: File, rng: np.random.Generator) -> None:
    worlds = [random_case(seed)[1:] for seed in range(24)]
    chain = Domain({f"c{i}": 40 for i in range(5)})
    worlds.append((chain, {(f"c{i}", f"c{i + 1}"): rng.normal(size=(40, 40)) for i in range(4)}))
    for domain, potentials in worlds:
        if not potentials or max(np.abs(p).max() for p in potentials.values()) > 60:
            continue
        measured = {frozenset(c): None for c in potentials}
        plan = layout.make_plan(domain, junction_tree(domain, potentials), measured)
        theta = np.zeros(max(plan.size, 1))
        for c, value in potentials.items():
            place = plan.places[frozenset(c)]
            theta[place.at + inner_tables.permute_cells(domain, c, None, place.axes)] += np.ravel(
                value
            )
        change = rng.normal(size=theta.size) * 0.1
        for name, dtype, tolerance in (("infer64", "f8", DOUBLE), ("infer32", "f4", SINGLE)):
            engine = infer.Engine(plan, 1, np.dtype(dtype))
            z = engine.state()
            after = engine.state()
            log_z = engine.infer(theta, 1000.0, z.cells, z.m)
            answers = [z.cells.copy(), z.m.copy(), np.array([log_z])]
            engine.adopt(z, 1000.0)
            engine.move(
                z,
                x=np.zeros_like(z.cells),
                weight=1.0,
                delta=change,
                size=1.0,
                mix=1.0,
                total=1000.0,
                out=after,
                sums=np.zeros((0, 3)),
            )
            engine.normalise(after, 1000.0)
            inputs = [*flat_plan(plan), theta, np.array([1000.0]), change]
            out.case(name, inputs, [*answers, after.cells, after.m], tolerance)
    for n in (1, 1000, 70_000):
        dx, dz, w, m, t, delta = rng.normal(size=(6, n))
        w = np.abs(w)
        stepped = np.zeros(n)
        arrived = np.zeros(n)
        blended = dx.copy()
        mean = dx.copy()
        infer.step(a=0.3, dx=dx, b=0.7, dz=dz, w=w, out=stepped, threads=1)
        facts = np.array(infer.arrive(m=m, t=t, dz=dz, w=w, delta=delta, out=arrived, threads=1))
        loss = np.array([infer.blend(0.3, dz, w, blended, 1)])
        infer.average(0.3, dz, mean, 1)
        inputs = [np.array([0.3, 0.7]), dx, dz, w, m, t, delta]
        out.case("vectors", inputs, [stepped, arrived, facts, blended, loss, mean], 1e-9)


def dual_cases(out: File, rng: np.random.Generator) -> None:
    for seed in range(12):
        _, problem, _ = problem_of(seed)
        if problem is None:
            continue
        plans: list = []

        def plain(tables, plans=plans):
            plans.append(plan_dual([table._replace(inner=None) for table in tables]))
            return plans[0]

        with patch("fastdp.estimate.dual.newton.plan_dual", plain):
            solver, _ = made_dual(problem, 2000.0, rng)
        core = solver.core
        n = len(problem.regions)
        tau = rng.choice([0.1, 1.0, 4.0], n)
        kappa = rng.choice([1.0, 0.01], n)
        x = rng.normal(size=solver.x.size) * 0.01
        cells = np.empty(core.cells)
        seen = np.zeros((2, core.cells), np.float32)
        core.evaluate(x, tau, kappa, seen[0])
        sums = core.evaluate(x, tau, kappa, cells)[:n]
        gradient, diagonal = (a[: x.size].copy() for a in (core.gradient, core.diagonal))
        b = gradient.copy()
        y = core.y.copy()
        inverse = core.inverse.copy()
        solution = core.solve(b, 0.0, 4)
        core.way[: x.size] = b
        core.evaluate(x, tau, kappa, seen[1], (0.5, np.empty(max(1, x.size))))
        state = np.array([core.worst, core.rms**2 * max(1, core.size), core.along])
        gram = core.gram(seen)[:n]
        weights = rng.dirichlet([1.0, 1.0], n)
        core.mix(seen, weights)
        cut = plans[0].lanes
        inputs = [*flat_dual(plans[0]), right_sides(problem, 2000.0), y, inverse, x, tau, kappa, b]
        inputs += [np.array([0.0]), [cut.edges, 4], weights]
        outputs = [
            gradient,
            diagonal,
            sums,
            cells,
            solution,
            state,
            seen[1],
            gram,
            core.y,
            core.inverse,
        ]
        out.case("dual", inputs, [a.copy() for a in outputs], 1e-6)


def table_cases(out: File, rng: np.random.Generator) -> None:
    for rows, cols in ((1, 1), (7, 30), (600, 41)):
        table = rng.gamma(0.5, size=(rows, cols))
        a = rng.random(rows)
        b = rng.random(cols)
        product = tables.outer(a, b, 1)
        squares = tables.squares(table.reshape(-1), product, 1.5, 1)
        *sums, logs = tables.sums(table, 1e-9, 1)
        outputs = [tables.copied(table.T, 1), product, np.array([squares]), *sums, np.array([logs])]
        out.case("tables", [table, a, b, np.array([1.5, 1e-9])], outputs, 1e-9)


def right_sides(problem: Regions, total: float) -> np.ndarray:
    sizes = [
        1 if c.right is None else problem.partitions.cells(c.names) for c in problem.constraints
    ]
    sides = [total if c.right is None else 0.0 for c in problem.constraints]
    return np.repeat(np.array(sides), sizes)


def flat_dual(plan: DualPlan) -> list[np.ndarray]:
    """Arrays 0 to 8 of a case of the dual."""
    pool = Pool("i4")
    shapes = []
    sigmas = []
    links = []
    signs = []
    first = 0
    cut = plan.lanes
    for table, cell, lanes in zip(plan.tables, plan.cells.tolist(), cut.lanes):
        shapes.append([table.rows, table.cols, cell, lanes, len(table.links)])
        cells = table.rows * table.cols
        sigmas.append(np.broadcast_to(np.asarray(table.sigma, np.float64).reshape(-1), (cells,)))
        for link in table.links:
            kind = {"row": 0, "cell": 1}[link.along] if isinstance(link.along, str) else 2
            along = None if kind < 2 else link.along
            links.append([link.at, pool.add(link.base), kind, pool.add(along), first, link.size])
            signs.append(link.sign)
            first += lanes
    spans = np.concatenate(cut.spans)
    return [
        *(
            flat(shapes, 5),
            np.concatenate(sigmas),
            flat(links, 6),
            np.array(signs, np.float64),
            pool.all(),
        ),
        *(cut.items, cut.pieces, spans, cut.feeds),
    ]


def rake_cases(out: File, rng: np.random.Generator) -> None:
    for rows, cols in ((1, 1), (6, 20), (150, 40)):
        cells = rng.gamma(0.5, size=rows * cols)
        base = (rng.integers(0, 3, rows) * 10).astype(np.int32)
        along = rng.integers(0, 10, cols).astype(np.int32)
        goal = rng.gamma(2.0, 10.0, 30)
        table = cells.copy()
        view = rake.View(rows, cols, 30, base, along, np.array([[0, 0, 30]]))  # one lane
        tour = rake.Tour(
            [(table, None, view, goal, None, 1e-3, 2.0), (table, view, None, None, None, 0, 0)], 1
        )
        squares = tour.run()
        inputs = [cells, [rows, cols], base, along, goal, np.array([1e-3, 2.0])]
        out.case("rake", inputs, [table, np.array([squares])], DOUBLE)


def condition_cases(out: File, rng: np.random.Generator) -> None:
    """Rows of random trees given hard and soft evidence. A draw compares a uniform number with sums
    of products, which both processors round alike (csrc/condition.c fuses nothing)."""
    for seed in range(12):
        own = np.random.default_rng(seed)
        model = random_model(own)
        tree = ConditionalModel(model)
        evidence = random_evidence(own, model.domain, 60)
        # The harness compares shares of the largest value, so without impossible rows.
        evidence = evidence.of_rows(np.flatnonzero(np.isfinite(tree.log_probability(evidence))))
        names = list(model.domain)
        sep = Pool("i4")
        stride = Pool("i8")
        tables_ = Pool("f8")
        inverse = Pool("f8")
        overall = Pool("f8")
        children = Pool("i4")
        facts = []
        for attribute, above, strides, table, one_over, total, below in tree.lowered:
            facts.append([attribute, len(above), len(one_over), len(below)])
            sep.add(above), stride.add(strides), tables_.add(table)
            inverse.add(one_over), overall.add(total), children.add(below)
        likely = Pool("f8")
        begins = [likely.add(evidence.likelihood[a]) for a in names]
        start = np.arange(evidence.rows + 1, dtype=np.int64) * 3
        number = rng.integers(0, 1 << 40, 3 * evidence.rows)
        logs, codes, chances = Tree(tree.lowered, model.domain.shape(tuple(names))).run(
            evidence.hard,
            evidence.soft,
            start,
            number,
            seed,
            [evidence.likelihood[a] for a in names],
            True,
            True,
        )
        shape = np.array(model.domain.shape(tuple(names)), np.int64)
        pools = [x.all() for x in (sep, stride, tables_, inverse, overall, children)]
        inputs = [shape, flat(facts, 4), *pools, np.array(begins, np.int64), likely.all()]
        inputs += [evidence.hard, evidence.soft, start, number, seed]
        out.case("condition", inputs, [logs, codes, chances], DOUBLE)


def sample_cases(out: File, rng: np.random.Generator) -> None:
    """Rows of a fitted model, by both methods."""
    domain = Domain({"a": 5, "b": 300, "c": 4, "d": 6})
    joint = rng.gamma(0.5, size=(5, 300)), rng.gamma(0.5, size=(4, 6))
    answers = [
        fastdp.Measurement(("a", "b"), joint[0].reshape(-1) * 50, 1.0),
        fastdp.Measurement(("c", "d"), joint[1].reshape(-1) * 2000, 1.0),
        fastdp.Measurement(("a", "c"), rng.gamma(2.0, 900.0, 20), 1.0),
    ]
    model = fastdp.fit(domain, answers, threads=1)
    seen: dict[str, Any] = {}
    real = sample_core.Tree

    class Noted:
        def __init__(self, nodes, sizes, widths):
            seen.update(nodes=nodes, sizes=sizes, widths=widths)
            self.tree = real(nodes, sizes, widths)

        def fill(self, columns, **rest):
            self.tree.fill(columns, **rest)

    with patch.object(sample_core, "Tree", Noted):
        model.sample(10, seed=1, threads=1)
    nodes = seen["nodes"]
    sizes = seen["sizes"]
    widths = seen["widths"]
    names = Pool("i4")
    tables = Pool("f8")
    overall = Pool("f8")
    decode = Pool("u4")
    facts = []
    for number, same, sep, res, table, total, codes in nodes:
        facts.append([number, same, len(sep), len(res), *table.shape])
        names.add(sep), names.add(res), tables.add(table), overall.add(total)
        if len(res) > 1:
            decode.add(codes)
    for method in (0, 1):
        for rows, shard in ((1, 1000), (4000, 1000)):
            columns = [np.zeros(rows, f"u{w}") for w in widths]
            real(nodes, sizes, widths).fill(
                columns,
                rows,
                shard_rows=shard,
                first=0,
                count=-(-rows // shard),
                method=method,
                seed=77,
                threads=1,
            )
            pools = [x.all() for x in (names, tables, overall, decode)]
            inputs = [[77, method, rows, shard], sizes, widths, flat(facts, 6), *pools]
            out.case("sample", inputs, [np.concatenate([c.astype(np.uint32) for c in columns])])


def other_cases(out: File, rng: np.random.Generator) -> None:
    for row in (0, 4):
        table = rng.random(3 * 5 * 4)
        n = np.array([3, 5, 4], np.int64)
        stride = np.array([4, 0, 1], np.int64)
        sums = np.zeros(12)
        carried = np.zeros(2 * 10)
        start = rng.random(2 * 5)
        step = rng.random(5 * 4)
        base = rng.integers(0, 7, 5).astype(np.int32)
        for offset in (None, np.array([0, 2, 1, 3], np.int32)):
            cliques.run(
                [(table, n, stride, row, sums)],
                [[(start, step, base, offset, carried, None, None)]],
                1,
            )
            out.case(
                "cliques",
                [table, n, stride, row, start, step, base, offset],
                [sums, carried],
                DOUBLE,
            )
    sizes = rng.integers(2, 40, 70).astype(np.uint64)
    for edges in (5, 60, 200):
        graph = treesize.Graph(sizes.tolist())
        bits = np.zeros((70, 2), np.uint64)
        for a, b in rng.integers(0, 70, (edges, 2)).tolist():
            if a != b:
                graph.add((a, b))
                bits[a, b >> 6] |= np.uint64(1) << np.uint64(b & 63)
                bits[b, a >> 6] |= np.uint64(1) << np.uint64(a & 63)
        out.case("treesize", [sizes, bits], [np.array([graph.cells()], np.uint64)])


def size_cases(out: File, rng: np.random.Generator) -> None:
    """Trees of as many columns as a word has bits, one more and one less; sizes beyond what is
    told."""
    for columns in (1, 2, 63, 64, 65, 128, 129):
        for edges, most in ((0, 9), (columns, 9), (2 * columns, 4), (columns, 1 << 40)):
            sizes = rng.integers(1, most, columns).astype(np.uint64)
            graph = treesize.Graph(sizes.tolist())
            bits = np.zeros((columns, (columns + 63) // 64), np.uint64)
            for a, b in rng.integers(0, columns, (edges, 2)).tolist():
                if a != b:
                    graph.add((a, b))
                    bits[a, b >> 6] |= np.uint64(1) << np.uint64(b & 63)
                    bits[b, a >> 6] |= np.uint64(1) << np.uint64(a & 63)
            out.case("treesize", [sizes, bits], [np.array([graph.cells()], np.uint64)])


def ancestor_cases(out: File, rng: np.random.Generator) -> None:
    """Of a fit to AdaGrid's rows, as the flow asks for them."""
    from tools.membership import world

    seen: list[tuple] = []
    real = functionals.Ancestors

    class Noted:
        def __init__(self, *shape):
            self.shape = shape[:5]
            self.kernel = real(*shape)

        def fill(self, m, f, variance, time, total):
            values = self.kernel.fill(m, f, variance, time, total)
            if len(seen) < 6:
                x = rng.normal(size=f.size)
                product = self.kernel.factor(x).copy()
                given = [np.array(a) for a in (*self.shape, m, f, variance)]
                seen.append(([*given, np.array([time, total]), x], [values.copy(), product]))
            return values

        def __getattr__(self, name):
            return getattr(self.kernel, name)

    case = next(c for c in world.cases() if c.name == "adagrid")
    with patch.object(functionals, "Ancestors", Noted):
        fastdp.synthesize(case.sides[0], case.recipe, 3.0, 1e-6, seed=3, sample_seed=3, threads=1)
    for inputs, outputs in seen:
        out.case("ancestors", inputs, outputs, 1e-9)


def halve_cases(out: File, rng: np.random.Generator) -> None:
    """Cells told apart, and cells that share a count because there is room for fewer."""
    sizes = (3, 7, 2, 40)
    items = [[0], [1, 2], [0, 1, 3], [0, 3]]
    weight = np.array([9, 4, 1, 3], np.int64)
    for pairs, sweeps, most in (
        (1, 0, 1 << 40),
        (500, 0, 1 << 40),
        (500, 3, 1 << 40),
        (2000, 2, 12),
    ):
        codes = np.stack([rng.integers(0, n, 2 * pairs) for n in sizes], axis=1).astype(np.uint32)
        order = rng.permutation(2 * pairs).astype(np.int64)
        bits = rng.integers(0, 2, pairs).astype(np.uint8)
        named = [
            list(zip(item, np.cumprod([1, *(sizes[c] for c in item)]).tolist())) for item in items
        ]
        size = np.array(
            [min(most, int(np.prod([sizes[c] for c in item]))) for item in items], np.uint64
        )
        parts = [part for item in named for part in item]
        start = np.cumsum([0, *map(len, named)]).astype(np.int32)
        columns, strides = (np.array(x, t) for x, t in zip(zip(*parts), ("i4", "u8")))
        offset = (np.cumsum(size) - size).astype(np.int64)
        counts = np.zeros(int(size.sum()), np.int32)
        of = halve.Items(sizes, items, weight, most)
        kept = of.halve(order, codes, bits, sweeps)
        shape = [
            start,
            columns,
            strides,
            size,
            offset,
            weight,
            bits,
            np.array([len(sizes), sweeps]),
        ]
        out.case("halve", [order, codes, *shape, counts], [kept])
        ends = np.array([pairs // 2, 2 * pairs], np.int64)
        target = rng.integers(-9, 9, counts.size)
        exchanged = codes.copy()
        after = target.astype(np.int32)
        of.exchange(exchanged, 0, order, ends, 3, 1, after)
        pair = [
            np.array([3], np.int32),
            np.array([1, sizes[0]], np.uint64),
            size[3:],
            offset[3:],
            weight[3:],
        ]
        given = [
            codes,
            order,
            ends,
            *pair,
            np.array([len(sizes), 0, 3, 1]),
            target.astype(np.int32),
        ]
        out.case("exchange", given, [exchanged, after])


PARTS = (
    infer_cases,
    dual_cases,
    rake_cases,
    sample_cases,
    condition_cases,
    other_cases,
    size_cases,
    ancestor_cases,
    halve_cases,
    table_cases,
)
