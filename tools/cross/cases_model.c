/* Kernels of the model: inference, the dual, raking, sampling, conditional rows, marginals of many cliques,
 * ancestors, sizes of trees, halving, whole tables. */
#include "ancestors.h"
#include "cliques.h"
#include "condition.h"
#include "dual.h"
#include "halve.h"
#include "harness.h"
#include "infer.h"
#include "rake.h"
#include "sample.h"
#include "tables.h"
#include "treesize.h"

static void *zeros(int64_t count, size_t size) {
    void *room = calloc((size_t)count + 8, size);
    if (!room) exit(2);
    return room;
}

/* A plan of inference in flat arrays: 0 sizes, 1 stages [, 16], 2 nodes [, 14], 3 links [, 6], 4 bases, 5
 * dimensions, 6 hosted [, 6], 7 and 8 slices [, 4], 9 deliveries and 10 gathers [, 4], 11 folds [, 2]. */
typedef struct {
    fdp_tree tree;
    fdp_stage *stages;
    fdp_node *nodes;
    fdp_link *links;
    fdp_hosted *hosted;
    fdp_fold *folds;
    fdp_work work;
} plan;

static void open_plan(cross_case *c, plan *p, size_t real) {
    const int64_t *sizes = AT(int64_t, 0), *s = AT(int64_t, 1), *n = AT(int64_t, 2), *l = AT(int64_t, 3);
    int64_t rows = sizes[4], buffer = sizes[3], stages = COUNT(1) / 20, nodes = COUNT(2) / 14,
            links = COUNT(3) / 6;
    int64_t hosted = COUNT(6) / 9, folds = COUNT(11) / 2;
    p->stages = zeros(stages, sizeof *p->stages);
    p->nodes = zeros(nodes, sizeof *p->nodes);
    p->links = zeros(links, sizeof *p->links);
    p->hosted = zeros(hosted, sizeof *p->hosted);
    p->folds = zeros(folds, sizeof *p->folds);
    for (int64_t i = 0; i < links; i++, l += 6) {
        fdp_link *link = &p->links[i];
        link->at = l[0];
        link->size = l[1];
        link->base = l[2] < 0 ? NULL : AT(int32_t, 4) + l[2];
        link->nd = (int32_t)l[3];
        link->shared = (int32_t)l[4];
        for (int d = 0; d < link->nd; d++) {
            link->n[d] = AT(int64_t, 5)[l[5] + d];
            link->ts[d] = AT(int64_t, 5)[l[5] + link->nd + d];
        }
    }
    for (int64_t i = 0; i < stages; i++, s += 20) {
        fdp_run *runs[] = {&p->stages[i].nodes,   &p->stages[i].hosted, &p->stages[i].up,
                           &p->stages[i].down,    &p->stages[i].ratios, &p->stages[i].deliveries,
                           &p->stages[i].gathers, &p->stages[i].plain,  &p->stages[i].sums};
        for (int k = 0; k < 9; k++) *runs[k] = (fdp_run){s[2 * k], s[2 * k + 1]};
        p->stages[i].needs = s[18];
        p->stages[i].large = s[19];
    }
    for (int64_t i = 0; i < nodes; i++, n += 14)
        p->nodes[i] = (fdp_node){.rows = n[0],
                                 .cells = n[1],
                                 .table = n[2],
                                 .row_at = n[3],
                                 .separator = n[4],
                                 .local = (int32_t)n[5],
                                 .lanes = (int32_t)n[6],
                                 .local_at = n[7],
                                 .n_links = n[8],
                                 .links = p->links + n[9],
                                 .first_hosted = n[10],
                                 .direct = n[11],
                                 .lane_buffer = n[12],
                                 .buffer_at = n[13]};
    memcpy(p->hosted, AT(int64_t, 6), (size_t)hosted * sizeof *p->hosted);
    for (int64_t i = 0; i < folds; i++) {
        p->folds[i].host_at = AT(int64_t, 11)[2 * i];
        p->folds[i].link = p->links[AT(int64_t, 11)[2 * i + 1]];
    }
    p->tree = (fdp_tree){.size = sizes[0],
                         .shared = sizes[1],
                         .large = (int32_t)sizes[2],
                         .n_stages = stages,
                         .n_up = COUNT(7) / 4,
                         .n_down = COUNT(8) / 4,
                         .n_early = sizes[5],
                         .n_hosted = hosted,
                         .n_copies = COUNT(13) / 4,
                         .stages = p->stages,
                         .nodes = p->nodes,
                         .hosted = p->hosted,
                         .folds = p->folds,
                         .up = (const fdp_slice *)c->a[7].data,
                         .down = (const fdp_slice *)c->a[8].data,
                         .deliveries = (const fdp_piece *)c->a[9].data,
                         .gathers = (const fdp_piece *)c->a[10].data,
                         .ratios = (const fdp_piece *)c->a[12].data,
                         .copies = (const fdp_piece *)c->a[13].data,
                         .plain = (const fdp_piece *)c->a[14].data,
                         .sums = (const fdp_piece *)c->a[15].data};
    p->work = (fdp_work){.up = zeros(sizes[1], 8),
                         .ratio = zeros(sizes[1], real),
                         .message = zeros(rows, 8),
                         .buffer = zeros(buffer, 8),
                         .reach = zeros(hosted, 8),
                         .rows = zeros(FDP_DIRECT_ROW, 8),
                         .up_sums = zeros(p->tree.n_up * (FDP_DIRECT_SUM + 1), 8),
                         .down_sums = zeros(p->tree.n_down * 2, 8),
                         .parts = zeros(COUNT(12), 8)};
}

static void close_plan(plan *p) {
    void *all[] = {p->stages,    p->nodes,        p->links,          p->hosted,      p->folds,
                   p->work.up,   p->work.ratio,   p->work.message,   p->work.buffer, p->work.reach,
                   p->work.rows, p->work.up_sums, p->work.down_sums, p->work.parts};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}

/* plan, 16 potentials, 17 total, 18 change -> 19 cells, 20 marginals, 21 log Z; 22 cells and 23 marginals
 * after a step by the change */
#define INFER(NAME, REAL, SUFFIX) \
    static void NAME(cross_case *c) { \
        plan p; \
        int far = 0; \
        double log_z = 0, moved = 0, total = REAL_AT(17); \
        int64_t rows = AT(int64_t, 0)[4]; \
        open_plan(c, &p, sizeof(REAL)); \
        fdp_state z = {cross_room(c, 19), zeros(rows, 8), zeros(p.tree.size, 8)}; \
        fdp_state next = {cross_room(c, 22), zeros(rows, 8), zeros(p.tree.size, 8)}; \
        REAL *mean = cross_room(c, 19); \
        cross_code(c, fdp_infer_##SUFFIX(&p.tree, AT(double, 16), total, &c->team, &p.work, &z, &log_z)); \
        cross_code(c, fdp_normalise_##SUFFIX(&p.tree, total, &c->team, &p.work, &z)); \
        cross_same(c, 19, z.cells); \
        cross_same(c, 20, z.m); \
        cross_same(c, 21, &log_z); \
        cross_code(c, fdp_adopt_##SUFFIX(&p.tree, total, &c->team, &p.work, &z)); \
        cross_same(c, 20, z.m); \
        cross_code(c, fdp_move_##SUFFIX(&p.tree, NULL, 0, AT(double, 18), 1.0, 1.0, total, &c->team, \
                                        &p.work, &z, 1.0, mean, &next, NULL, &far, &moved)); \
        if (far) cross_code(c, FDP_ERR_ARGUMENT); \
        cross_code(c, fdp_normalise_##SUFFIX(&p.tree, total, &c->team, &p.work, &next)); \
        cross_same(c, 22, next.cells); \
        cross_same(c, 23, next.m); \
        void *all[] = {z.cells, z.rowsum, z.m, next.cells, next.rowsum, next.m, mean}; \
        for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]); \
        close_plan(&p); \
    }
INFER(infer64, double, f64)
INFER(infer32, float, f32)

/* (a, b), dx, dz, w, m, t, delta -> step, arrival, (distance, curvature), blend, loss, average */
static void vectors(cross_case *c) {
    int64_t n = COUNT(1);
    double a = AT(double, 0)[0], b = AT(double, 0)[1], facts[2], loss = 0;
    double *out = zeros(n, 8);
    cross_code(c, fdp_step(n, a, AT(double, 1), b, AT(double, 2), AT(double, 3), &c->team, out));
    cross_same(c, 7, out);
    cross_code(c, fdp_arrive(n, AT(double, 4), AT(double, 5), AT(double, 2), AT(double, 3), AT(double, 6),
                             &c->team, out, &facts[0], &facts[1]));
    cross_same(c, 8, out);
    cross_same(c, 9, facts);
    memcpy(out, AT(double, 1), (size_t)n * 8);
    cross_code(c, fdp_blend(n, a, AT(double, 2), AT(double, 3), &c->team, out, &loss));
    cross_same(c, 10, out);
    cross_same(c, 11, &loss);
    memcpy(out, AT(double, 1), (size_t)n * 8);
    cross_code(c, fdp_average_f64(n, a, AT(double, 2), &c->team, out));
    cross_same(c, 12, out);
    free(out);
}

/* The solution of the case below by blocks, where there are any. */
static void dual_blocks(cross_case *c, const fdp_dual *d, int64_t links, const fdp_dual_work *work,
                        const double *diagonal, double *solution) {
    int64_t rows = 0, products = 0;
    double along;
    for (int64_t i = 0; i < d->n_regions; i++) rows += d->regions[i].rows * d->regions[i].n_links;
    fdp_dual_blocks k = {.segments = zeros(links, sizeof *k.segments),
                         .layers = zeros(d->n_regions, sizeof *k.layers),
                         .bundles = zeros(links, sizeof *k.bundles),
                         .strands = zeros(links, sizeof *k.strands),
                         .line_of = zeros(rows, 4),
                         .totals = zeros(links, 8),
                         .sides = zeros(links * d->n_regions, 8)};
    if (fdp_dual_find_blocks(d, 16384, &k)) {
        k.room = zeros(k.codes * k.parts * k.stride, 8),
        k.sums = zeros(k.codes * k.parts * (2 + k.n_totals), 8);
        cross_code(c, fdp_dual_solve_blocks(d, &k, AT(double, 15), 1.0, diagonal, REAL_AT(16),
                                            AT(int64_t, 17)[1], &c->team, work->slope, NULL, solution, NULL,
                                            &products, &along));
        cross_same(c, 23, solution);
    }
    void *rooms[] = {k.segments, k.layers, k.bundles, k.strands, k.line_of,
                     k.totals,   k.sides,  k.room,    k.sums};
    for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++) free(rooms[i]);
}

/* 0 regions [, 5]: rows, cols, cell, lanes, links; 1 sigmas; 2 links [, 6]: at, base, kind, map, first span,
 * size; 3 signs; 4 bases and maps; 5 items [, 2]; 6 pieces [, 4]; 7 spans [, 3]; 8 feeds [, 4]; 9 right sides; 10 y;
 * 11 inverse; 12 x; 13 tau; 14 kappa; 15 b; 16 (tolerance); 17 (edges, most); 18 weights [regions, 2] -> 19
 * gradient, 20 diagonal, 21 sums, 22 cells, 23 solution; at x + b / 2: 24 state, 25 cells in sigma; of both
 * evaluations as candidates: 26 gram, 27 y and 28 inverse of their mixture */
static void dual(cross_case *c) {
    int64_t n = COUNT(0) / 5, links = COUNT(2) / 6, items = COUNT(5) / 2, at = 0, size = COUNT(9),
            products = 0;
    fdp_dual_region *regions = zeros(n, sizeof *regions);
    fdp_dual_link *all = zeros(links, sizeof *all);
    for (int64_t i = 0; i < links; i++) {
        const int64_t *l = AT(int64_t, 2) + 6 * i;
        all[i] = (fdp_dual_link){.view = {l[1] < 0 ? NULL : AT(int32_t, 4) + l[1],
                                          l[3] < 0 ? NULL : AT(int32_t, 4) + l[3], (int32_t)l[2]},
                                 .at = l[0],
                                 .size = l[5],
                                 .spans = (const fdp_span *)c->a[7].data + l[4],
                                 .sign = AT(double, 3)[i]};
    }
    for (int64_t i = 0; i < n; i++) {
        const int64_t *r = AT(int64_t, 0) + 5 * i;
        regions[i] = (fdp_dual_region){r[0], r[1], r[2], r[3], 1.0, AT(double, 1) + r[2], r[4], all + at};
        for (int64_t l = at; l < at + r[4]; l++)
            for (int64_t k = l - 1; k >= at; k--)
                if (all[k].spans->edge == all[l].spans->edge) all[l].again = (int32_t)(k - at + 1);
        at += r[4];
    }
    int64_t edges = AT(int64_t, 17)[0], cells = COUNT(10), pieces = COUNT(6) / 4;
    fdp_dual d = {.size = size,
                  .edges = edges,
                  .cells = cells,
                  .n_regions = n,
                  .n_items = items,
                  .n_pieces = pieces,
                  .regions = regions,
                  .items = (const fdp_dual_item *)c->a[5].data,
                  .pieces = (const fdp_dual_piece *)c->a[6].data,
                  .feeds = (const fdp_dual_feed *)c->a[8].data,
                  .rhs = AT(double, 9),
                  .y = AT(double, 10),
                  .inverse = AT(double, 11)};
    fdp_dual_work work = {zeros(cells, 4),     zeros(edges, 8),    zeros(edges, 8),
                          zeros(2 * items, 8), zeros(5 * size, 8), zeros(3 * pieces, 8)};
    double *g = cross_room(c, 19), *diagonal = cross_room(c, 20), *sums = cross_room(c, 21),
           *u = cross_room(c, 22), *solution = cross_room(c, 23), *gram = cross_room(c, 26),
           *y = cross_room(c, 27), *inverse = cross_room(c, 28), *ahead = zeros(size, 8),
           *room = zeros(4 * items, 8), state[3], along;
    float *seen = zeros(2 * cells, 4);
    cross_code(c, fdp_dual_evaluate(&d, AT(double, 12), NULL, 0, AT(double, 13), AT(double, 14), &c->team,
                                    &work, NULL, g, diagonal, sums, u, seen, state));
    cross_code(c, fdp_dual_solve(&d, AT(double, 15), 1.0, diagonal, REAL_AT(16), AT(int64_t, 17)[1], &c->team,
                                 &work, solution, &products, &along));
    cross_same(c, 19, g);
    cross_same(c, 20, diagonal);
    cross_same(c, 21, sums);
    cross_same(c, 22, u);
    cross_same(c, 23, solution);
    dual_blocks(c, &d, links, &work, diagonal, solution);
    cross_code(c, fdp_dual_evaluate(&d, AT(double, 12), AT(double, 15), 0.5, AT(double, 13), AT(double, 14),
                                    &c->team, &work, ahead, g, diagonal, sums, NULL, seen + cells, state));
    cross_same(c, 24, state);
    cross_same(c, 25, seen + cells);
    cross_code(c, fdp_dual_gram(&d, 2, seen, &c->team, room, gram));
    cross_same(c, 26, gram);
    memcpy(inverse, AT(double, 11), (size_t)cells * 8);
    cross_code(c, fdp_dual_mix(&d, 2, seen, AT(double, 18), &c->team, y, inverse));
    cross_same(c, 27, y);
    cross_same(c, 28, inverse);
    void *rooms[] = {regions,   all,     work.slope, work.edge_u, work.edge_d, work.sums, work.vectors,
                     work.dots, g,       diagonal,   sums,        u,           solution,  gram,
                     y,         inverse, ahead,      room,        seen};
    for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++) free(rooms[i]);
}

/* cells [rows, cols], (rows, cols), base (by row), map (by column), target, (least, weight) -> cells raked
 * to the target, the sum of squares */
static void rake(cross_case *c) {
    int64_t rows = AT(int64_t, 1)[0], cols = AT(int64_t, 1)[1], size = COUNT(4);
    double *cells = cross_room(c, 6), *ratio = zeros(size, 8), *work = zeros(size, 8);
    double squares[8] = {0}, sum = 0;
    const fdp_span whole = {0, 0, size};
    memcpy(cells, AT(double, 0), (size_t)COUNT(0) * 8);
    fdp_view view = {AT(int32_t, 2), AT(int32_t, 3), FDP_VIEW_MAP};
    fdp_rake_step steps[2] = {{.cells = cells,
                               .rows = rows,
                               .cols = cols,
                               .rule = FDP_RAKE_TARGET,
                               .project = view,
                               .size = size,
                               .lanes = 1,
                               .spans = &whole,
                               .goal = AT(double, 4),
                               .least = AT(double, 5)[0],
                               .weight = AT(double, 5)[1],
                               .ratio = ratio},
                              {.cells = cells,
                               .rows = rows,
                               .cols = cols,
                               .multiply = view,
                               .by = ratio,
                               .rule = FDP_RAKE_MULTIPLY,
                               .lanes = 1}};
    cross_code(c, fdp_rake_run(2, steps, &c->team, work, squares));
    for (int i = 0; i < 8; i++) sum += squares[i];
    cross_same(c, 6, cells);
    cross_same(c, 7, &sum);
    free(cells);
    free(ratio);
    free(work);
}

/* (seed, method, rows, rows of a shard), sizes, widths, then the nodes: 3 facts [, 6]: id, same_sep,
 * sep_len, res_len, groups, cells; 4 attributes; 5 tables; 6 overall; 7 decode (as many entries as cells *
 * res_len where res_len > 1) -> 8 all columns as u32 */
static void sample(cross_case *c) {
    int64_t *facts = AT(int64_t, 0), nodes = COUNT(3) / 6, attributes = COUNT(1), rows = facts[2];
    fdp_sample_node *all = zeros(nodes, sizeof *all);
    const int32_t *names = AT(int32_t, 4);
    const double *table = AT(double, 5), *overall = AT(double, 6);
    const uint32_t *decode = AT(uint32_t, 7);
    for (int64_t i = 0; i < nodes; i++) {
        const int64_t *f = AT(int64_t, 3) + 6 * i;
        all[i] = (fdp_sample_node){
            (uint64_t)f[0], i == 0, (int)f[1], (int)f[2], (int)f[3], f[2] ? names : NULL,
            names + f[2],   f[4],   f[5],      table,     overall,   f[3] > 1 ? decode : NULL};
        names += f[2] + f[3];
        table += f[4] * f[5];
        overall += f[5];
        if (f[3] > 1) decode += f[5] * f[3];
    }
    fdp_sample_plan p = {(uint64_t)facts[0], (int)facts[1],  rows,       facts[3], (int)attributes,
                         AT(uint32_t, 1),    AT(int32_t, 2), (int)nodes, all};
    void **columns = zeros(attributes, sizeof *columns);
    uint32_t *wide = cross_room(c, 8);
    for (int64_t k = 0; k < attributes; k++) columns[k] = zeros(rows, 4);
    cross_code(c, fdp_sample(&p, 0, (rows + facts[3] - 1) / facts[3], c->threads, columns));
    for (int64_t k = 0; k < attributes; k++) {
        for (int64_t i = 0; i < rows; i++) {
            int width = AT(int32_t, 2)[k];
            wide[k * rows + i] = width == 1   ? ((uint8_t *)columns[k])[i]
                                 : width == 2 ? ((uint16_t *)columns[k])[i]
                                              : ((uint32_t *)columns[k])[i];
        }
        free(columns[k]);
    }
    cross_same(c, 8, wide);
    free(wide);
    free(columns);
    free(all);
}

/* table, n, stride, row -> sums; from, step, base, offset or nothing -> carried */
static void cliques(cross_case *c) {
    double *sums = cross_room(c, 8), *carried = cross_room(c, 9);
    int64_t rows = COUNT(6), lines = COUNT(4) / rows, first[] = {0, 1};
    fdp_sum_step s = {(int)COUNT(1), AT(int64_t, 1), AT(int64_t, 2), COUNT(8), WHOLE(3), AT(double, 0), sums};
    const int32_t *map = MAYBE(int32_t, 7);
    fdp_carry_step carry = {.lines = lines,
                            .rows = rows,
                            .row = COUNT(5) / rows,
                            .cells = COUNT(9) / lines,
                            .view = {AT(int32_t, 6), map, map ? FDP_VIEW_MAP : FDP_VIEW_CELL},
                            .from = AT(double, 4),
                            .step = AT(double, 5),
                            .out = carried};
    cross_code(c, fdp_cliques(1, &s, 1, first, &carry, c->threads));
    cross_same(c, 8, sums);
    cross_same(c, 9, carried);
    free(sums);
    free(carried);
}

/* first, column, mask, parts, place, m, f, variance, (time, total), x -> values, product */
static void ancestors(cross_case *c) {
    fdp_ancestors_shape shape = {COUNT(0) - 1,   AT(int64_t, 0), AT(int32_t, 1),
                                 AT(uint8_t, 2), AT(int64_t, 3), AT(int64_t, 4)};
    double *values = cross_room(c, 10), *product = cross_room(c, 11);
    cross_code(c, fdp_ancestors_fill(&shape, AT(double, 5), AT(double, 6), AT(double, 7), AT(double, 8)[0],
                                     AT(double, 8)[1], &c->team, values));
    fdp_sparse_rows factor = {shape.rows, shape.first, shape.column, values};
    cross_code(c, fdp_sparse_product(&factor, AT(double, 9), &c->team, product));
    cross_same(c, 10, values);
    cross_same(c, 11, product);
    free(values);
    free(product);
}

/* order, codes [rows, columns], start, column, stride, size, offset, weight, bits, (columns, sweeps), counts
 * of zero -> the rows kept */
static void halve(cross_case *c) {
    int64_t *kept = cross_room(c, 11), *cells = zeros(2 * COUNT(5), 8);
    int32_t *counts = zeros(COUNT(10), 4);
    cross_code(c,
               fdp_halve(COUNT(0) / 2, (int)AT(int64_t, 9)[0], (int)COUNT(5), AT(int64_t, 0), AT(uint32_t, 1),
                         AT(int32_t, 2), AT(int32_t, 3), AT(uint64_t, 4), AT(uint64_t, 5), AT(int64_t, 6),
                         AT(int64_t, 7), AT(uint8_t, 8), (int)AT(int64_t, 9)[1], counts, cells, kept));
    cross_same(c, 11, kept);
    free(kept);
    free(cells);
    free(counts);
}

/* codes, order, ends, other, stride, size, offset, weight, (columns, own, scale, step), counts -> codes, counts
 * after exchanges */
static void exchange(cross_case *c) {
    int64_t *facts = AT(int64_t, 8), *cells = zeros(4 * COUNT(3), 8);
    uint32_t *codes = cross_room(c, 10);
    int32_t *counts = cross_room(c, 11);
    memcpy(codes, AT(uint32_t, 0), (size_t)COUNT(0) * 4);
    memcpy(counts, AT(int32_t, 9), (size_t)COUNT(9) * 4);
    cross_code(c, fdp_exchange(COUNT(2), (int)facts[0], (int)facts[1], (int)COUNT(3), codes, AT(int64_t, 1),
                               AT(int64_t, 2), AT(int32_t, 3), AT(uint64_t, 4), AT(uint64_t, 5),
                               AT(int64_t, 6), AT(int64_t, 7), (int32_t)facts[2], facts[3], counts, cells));
    cross_same(c, 10, codes);
    cross_same(c, 11, counts);
    free(codes);
    free(counts);
    free(cells);
}

/* table [rows, cols], a [rows], b [cols], (sigma, least) -> its transpose, a b', the squares of table - a b', sums
 * by row, by column, (sum of x log x) */
static void tables(cross_case *c) {
    int64_t rows = COUNT(1), cols = COUNT(2), shape[] = {cols, rows}, stride[] = {1, cols};
    double *turned = cross_room(c, 4), *product = cross_room(c, 5),
           *room = zeros(FDP_TABLES_BLOCKS * cols, 8), *by_row = cross_room(c, 7), *by_col = cross_room(c, 8),
           squares = 0, logs = 0;
    cross_code(c, fdp_tables_copy(2, shape, stride, AT(double, 0), &c->team, turned));
    cross_code(c, fdp_tables_outer(rows, cols, AT(double, 1), AT(double, 2), &c->team, product));
    cross_code(c,
               fdp_tables_squares(rows * cols, AT(double, 0), product, NULL, REAL_AT(3), &c->team, &squares));
    cross_code(c, fdp_tables_sums(rows, cols, AT(double, 0), AT(double, 3)[1], &c->team, room, by_row, by_col,
                                  &logs));
    cross_same(c, 4, turned);
    cross_same(c, 5, product);
    cross_same(c, 6, &squares);
    cross_same(c, 7, by_row);
    cross_same(c, 8, by_col);
    cross_same(c, 9, &logs);
    void *all[] = {turned, product, room, by_row, by_col};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}

/* sizes, then the nodes: 1 facts [, 4]: attribute, sep_len, separator cells, children_len; 2 separators; 3
 * strides; 4 tables; 5 inverse; 6 overall; 7 children; 8 where each attribute's likelihoods begin, -1: none;
 * 9 likelihoods; 10 hard and 11 soft evidence; 12 start; 13 numbers of rows; 14 seed -> 15 log probabilities;
 * 16 codes; 17 distribution of the first node's attribute */
static void condition(cross_case *c) {
    int64_t nodes = COUNT(1) / 4, attributes = COUNT(0), count = COUNT(12) - 1;
    fdp_condition_node *all = zeros(nodes, sizeof *all);
    const double **likelihood = zeros(attributes, sizeof *likelihood);
    const int32_t *sep = AT(int32_t, 2), *children = AT(int32_t, 7);
    const int64_t *stride = AT(int64_t, 3), *sizes = AT(int64_t, 0);
    const double *table = AT(double, 4), *inverse = AT(double, 5), *overall = AT(double, 6);
    for (int64_t i = 0; i < nodes; i++) {
        const int64_t *f = AT(int64_t, 1) + 4 * i;
        int64_t size = sizes[f[0]];
        all[i] = (fdp_condition_node){(int32_t)f[0], (int32_t)f[1], sep,           stride,  table,
                                      inverse,       overall,       (int32_t)f[3], children};
        sep += f[1];
        stride += f[1];
        table += f[2] * size;
        inverse += f[2];
        overall += size;
        children += f[3];
    }
    for (int64_t a = 0; a < attributes; a++) {
        int64_t at = AT(int64_t, 8)[a];
        likelihood[a] = at < 0 ? NULL : AT(double, 9) + at;
    }
    fdp_condition_plan p = {(int32_t)attributes, sizes, (int32_t)nodes, all, likelihood};
    double *logs = cross_room(c, 15), *chances = cross_room(c, 17);
    int32_t *codes = cross_room(c, 16);
    cross_code(c, fdp_condition(&p, count, AT(int32_t, 10), AT(int32_t, 11), AT(int64_t, 12), AT(int64_t, 13),
                                (uint64_t)WHOLE(14), logs, codes, chances));
    cross_same(c, 15, logs);
    cross_same(c, 16, codes);
    cross_same(c, 17, chances);
    free(all);
    free(likelihood);
    free(logs);
    free(chances);
    free(codes);
}

/* sizes, graph -> cells */
static void treesize(cross_case *c) {
    ONE_OUTPUT(uint64_t, 2, fdp_treesize((int)COUNT(0), AT(uint64_t, 0), AT(uint64_t, 1), out));
}

const cross_kernel cross_model[] = {
    {"infer64", infer64},     {"infer32", infer32}, {"vectors", vectors}, {"dual", dual},
    {"rake", rake},           {"sample", sample},   {"cliques", cliques}, {"ancestors", ancestors},
    {"treesize", treesize},   {"halve", halve},     {"tables", tables},   {"exchange", exchange},
    {"condition", condition}, {NULL, NULL},
};
