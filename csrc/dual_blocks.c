/* Conjugate gradients on a Hessian that falls into blocks (see dual.h, fdp_dual_blocks).
 *
 * An example. Tables A x B x Z and A x C x Z are linked through A x Z: every multiplier has one code of
 * A and one of Z, and every cell too. So the Hessian has a block for each pair of codes (a, z). With 4
 * codes of A, 100 of Z and 10 parts, a block has one code of A and ten columns of Z, and 40 blocks are
 * solved side by side. Only totals, which every cell feeds, connect them. */
#include <string.h>

#include "dual.h"

#define LEAST_PART 8 /* columns of a block, at least: a line of a cache */
#define LARGEST 4    /* a block may have so many times the cells of a lane, or threads would wait for it */

/* The greatest common divisor. */
static int64_t divisor(int64_t a, int64_t b) {
    return b ? divisor(b, a % b) : a;
}

/* Whether a link has one multiplier for the whole table. */
static int is_total(const fdp_dual_link *link) {
    return link->size == 1 && link->view.kind == FDP_VIEW_ROW && !link->view.base;
}

/* The number of entry `at` among n entries, which it joins if it is new. */
static int64_t numbered(int64_t at, int64_t *entries, int64_t stride, int64_t *n) {
    for (int64_t i = 0; i < *n; i++)
        if (entries[i * stride] == at) return i;
    entries[*n * stride] = at;
    return (*n)++;
}

/* Fills line_of[rows of a code] of a link; 0 where different codes of the first axis meet. */
static int find_lines(const fdp_dual_region *r, const fdp_dual_link *link, int64_t codes, int32_t *line_of) {
    const int64_t rows = r->rows / codes, size = link->size / codes;
    for (int64_t i = 0; i < r->rows; i++) {
        const int64_t at = fdp_view_base(&link->view, i) - i / rows * size, line = at / r->cols;
        if (at < 0 || at >= size || at % r->cols) return 0;
        if (i < rows) line_of[i] = (int32_t)line;
        if (line_of[i % rows] != line) return 0;
    }
    return 1;
}

/* The bundles of a table's links; 0 where its links do not lie so. */
static int find_layer(const fdp_dual *dual, int64_t region, fdp_dual_blocks *k, int64_t *rows,
                      int64_t *bundles, int64_t *strands) {
    const fdp_dual_region *r = &dual->regions[region];
    fdp_dual_layer *layer = &k->layers[region];
    *layer = (fdp_dual_layer){.rows = r->rows / k->codes, .first = *bundles};
    for (int64_t q = 0; q < k->n_totals; q++) k->sides[region * k->n_totals + q] = 0;
    for (int64_t l = 0; l < r->n_links; l++) {
        const fdp_dual_link *link = &r->links[l];
        /* A link to a total is one number for the whole table. */
        if (is_total(link)) {
            const int64_t q = numbered(link->at, k->totals, 1, &k->n_totals);
            k->sides[region * k->n_totals + q] += link->sign > 0 ? 1 : -1;
            layer->totals = 1;
            continue;
        }
        /* Links that lie in the same way make one bundle, with a strand for each. */
        if (link->again) continue;
        fdp_dual_bundle *bundle = &k->bundles[(*bundles)++];
        *bundle = (fdp_dual_bundle){*rows, link->size / k->cols / k->codes, *strands, 0};
        if (!find_lines(r, link, k->codes, k->line_of + *rows)) return 0;
        for (int64_t o = l; o < r->n_links; o++) {
            if (o > l && r->links[o].again != l + 1) continue;
            int64_t line = 0;
            for (int64_t g = 0; k->segments[g].at != r->links[o].at; g++) line += k->segments[g].lines;
            k->strands[(*strands)++] = (fdp_dual_strand){line, r->links[o].sign > 0 ? 1 : -1};
            bundle->n_strands++;
        }
        /* A layer is straight if row i of its only bundle lies on line i. */
        *rows += layer->rows;
        layer->straight = bundle->lines == layer->rows;
        for (int64_t i = 0; i < layer->rows; i++) layer->straight &= k->line_of[bundle->line_of + i] == i;
    }
    layer->n_bundles = *bundles - layer->first;
    layer->straight &= layer->n_bundles == 1;
    return layer->n_bundles <= FDP_DUAL_BUNDLES;
}

/* First the shared axes: `cols` has to agree, and `codes` is the greatest common divisor of all sizes.
 * Then the parts that give blocks of about `lane_cells` cells. Then each table's layer; the first that
 * does not fit ends it. */
int fdp_dual_find_blocks(const fdp_dual *dual, int64_t lane_cells, fdp_dual_blocks *k) {
    int64_t codes = 0, lines = 0, rows = 0, bundles = 0, strands = 0;
    k->cols = dual->n_regions ? dual->regions[0].cols : 1;
    k->n_segments = k->n_totals = k->lines = k->cell_lines = k->bundle_lines = 0;
    for (int64_t i = 0; i < dual->n_regions; i++) {
        const fdp_dual_region *r = &dual->regions[i];
        if (r->cols != k->cols) return 0;
        codes = divisor(codes, r->rows);
        rows += r->rows;
        for (int64_t l = 0; l < r->n_links; l++) {
            const fdp_dual_link *link = &r->links[l];
            if (is_total(link)) {
                if (numbered(link->at, k->totals, 1, &k->n_totals) >= FDP_DUAL_TOTALS) return 0;
                continue;
            }
            if (link->view.kind != FDP_VIEW_CELL || link->size % k->cols) return 0;
            codes = divisor(codes, link->size / k->cols);
            lines = numbered(link->at, &k->segments->at, 2, &k->n_segments);
            k->segments[lines].lines = link->size / k->cols;
        }
    }
    if (!k->n_segments) return 0;
    k->codes = codes;
    for (int64_t g = 0; g < k->n_segments; g++) k->lines += k->segments[g].lines /= codes;
    /* Parts of the last axis: as many as bring a block to lane_cells, none narrower than LEAST_PART. */
    const int64_t wanted = (dual->cells + lane_cells * codes / 2) / (lane_cells * codes);
    k->parts = FDP_MAX(1, FDP_MIN(k->cols / LEAST_PART, wanted));
    if (codes * k->parts * LARGEST * lane_cells < dual->cells) return 0;
    rows = 0;
    for (int64_t i = 0; i < dual->n_regions; i++) {
        if (!find_layer(dual, i, k, &rows, &bundles, &strands)) return 0;
        k->cell_lines += k->layers[i].rows;
        lines = 0;
        for (int64_t b = k->layers[i].first; b < bundles; b++)
            lines += k->bundles[b].n_strands > 1 ? k->bundles[b].lines : 0;
        k->bundle_lines = FDP_MAX(k->bundle_lines, lines);
    }
    /* Room of a block, at its widest part, in whole lines of a cache. */
    const int64_t all = 7 * k->lines + 2 * k->bundle_lines + k->cell_lines;
    k->stride = (all * ((k->cols + k->parts - 1) / k->parts) + 15) / 8 * 8;
    return 1;
}

/* A solution under way: the arguments, and the scalars of conjugate gradients. */
typedef struct {
    const fdp_dual *dual;
    const fdp_dual_blocks *blocks;
    const float *slope;
    const double *b, *diagonal, *from;
    double *out, *ahead;
    double sign, tol, step, turn, rz, least, along;
    int64_t most, products;
    int64_t at;                       /* the step under way */
    int64_t each, pieces;             /* blocks of a piece, and pieces of a step */
    double total[FDP_DUAL_TOTALS][6]; /* residual, u, p, s, solution, 1 / diagonal of the totals */
} solve;

/* A block's room: vectors as conjugate gradients in dual.c have them, weights of the cells (sigma^2
 * slope), and what bundles gather and add up. n: entries; w: columns. */
typedef struct {
    int64_t code, from, w, n;
    double *r, *u, *p, *s, *au, *x, *inverse, *gathered, *added, *weight;
} block;

/* Block `number`: which columns it has, and where its vectors lie in the room. */
static block block_of(const fdp_dual_blocks *k, int64_t number) {
    const int64_t part = number % k->parts, from = k->cols * part / k->parts;
    block o = {.code = number / k->parts, .from = from, .w = k->cols * (part + 1) / k->parts - from};
    o.n = k->lines * o.w;
    o.r = k->room + number * k->stride;
    o.u = o.r + o.n, o.p = o.u + o.n, o.s = o.p + o.n, o.au = o.s + o.n, o.x = o.au + o.n;
    o.inverse = o.x + o.n, o.gathered = o.inverse + o.n, o.added = o.gathered + k->bundle_lines * o.w;
    o.weight = o.added + k->bundle_lines * o.w;
    return o;
}

/* The entry of the vector where line `line` of a segment lies in a block. */
static int64_t entry_of(const fdp_dual_blocks *k, const fdp_dual_segment *segment, const block *o,
                        int64_t line) {
    return segment->at + (o->code * segment->lines + line) * k->cols + o->from;
}

/* Copies a block's part of b and of the diagonal, line by line, and makes the weights of its cells. */
FDP_CLONES
static void fill(const solve *t, const block *o) {
    const fdp_dual_blocks *k = t->blocks;
    /* The residual r, one over the diagonal, and the preconditioned residual u. */
    int64_t j = 0;
    for (int64_t g = 0; g < k->n_segments; g++)
        for (int64_t line = 0; line < k->segments[g].lines; line++, j += o->w) {
            const int64_t at = entry_of(k, &k->segments[g], o, line);
            for (int64_t i = 0; i < o->w; i++) {
                const double d = t->diagonal[at + i], safe = d > 0 ? d : 1.0;
                o->r[j + i] = t->sign * t->b[at + i];
                o->inverse[j + i] = d > 0 ? 1.0 / safe : 0.0;
            }
        }
    for (j = 0; j < o->n; j++) o->u[j] = o->r[j] * o->inverse[j];
    /* sigma^2 times the slope, cell by cell, table after table. */
    double *weight = o->weight;
    for (int64_t g = 0; g < t->dual->n_regions; g++) {
        const fdp_dual_region *r = &t->dual->regions[g];
        const int64_t rows = k->layers[g].rows;
        for (int64_t i = o->code * rows; i < (o->code + 1) * rows; i++, weight += o->w) {
            const float *slope = t->slope + r->cell + i * k->cols + o->from;
            const double *sigmas = r->sigmas ? r->sigmas + i * k->cols + o->from : NULL;
            for (j = 0; j < o->w; j++) {
                const double s = sigmas ? sigmas[j] : r->sigma;
                weight[j] = s * s * (double)slope[j];
            }
        }
    }
}

/* n entries of an iteration; returns r times u. The first one finds no p, s and x. */
FDP_CLONES
static double move(int64_t n, int first, double step, double turn, const double *restrict au,
                   const double *restrict inverse, double *restrict r, double *restrict u, double *restrict p,
                   double *restrict s, double *restrict x) {
    double sum = 0;
    if (first) {
#pragma omp simd reduction(+ : sum)
        for (int64_t j = 0; j < n; j++) {
            p[j] = u[j];
            s[j] = au[j];
            x[j] = step * u[j];
            r[j] -= step * au[j];
            u[j] = r[j] * inverse[j];
            sum += r[j] * u[j];
        }
        return sum;
    }
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < n; j++) {
        p[j] = u[j] + turn * p[j];
        s[j] = au[j] + turn * s[j];
        x[j] += step * p[j];
        r[j] -= step * s[j];
        u[j] = r[j] * inverse[j];
        sum += r[j] * u[j];
    }
    return sum;
}

/* The inner product of a and b. */
FDP_CLONES
static double product_of(int64_t n, const double *restrict a, const double *restrict b) {
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < n; j++) sum += a[j] * b[j];
    return sum;
}

/* n cells of a row, in D bundles: gathers, multiplies by the weights and adds up. Returns the sum of the
 * cells where `whole`. */
static inline __attribute__((always_inline)) double row_loop(const int D, const int whole, int64_t n,
                                                             double flat, const double *const *v,
                                                             const double *sign, double *const *e,
                                                             const double *weight) {
    const double *v0 = v[0], *v1 = v[1], *v2 = v[2], s0 = sign[0], s1 = sign[1], s2 = sign[2];
    double *e0 = e[0], *e1 = e[1], *e2 = e[2], sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < n; j++) {
        double w = flat;
        if (D > 0) w += s0 * v0[j];
        if (D > 1) w += s1 * v1[j];
        if (D > 2) w += s2 * v2[j];
        const double bent = w * weight[j];
        if (whole) sum += bent;
        if (D > 0) e0[j] += s0 * bent;
        if (D > 1) e1[j] += s1 * bent;
        if (D > 2) e2[j] += s2 * bent;
    }
    return sum;
}

/* A layer's part of the product; returns the sum of its cells, if it is in a total. */
FDP_CLONES
static double multiply_layer(const fdp_dual_blocks *k, const fdp_dual_layer *layer, const block *o,
                             double flat, const double *weight) {
    const double *v[FDP_DUAL_BUNDLES] = {0}, *gathered[FDP_DUAL_BUNDLES] = {0};
    double *e[FDP_DUAL_BUNDLES] = {0}, *added[FDP_DUAL_BUNDLES] = {0}, sign[FDP_DUAL_BUNDLES] = {0};
    const int32_t *line_of[FDP_DUAL_BUNDLES] = {0};
    const fdp_dual_bundle *bundles = k->bundles + layer->first;
    const int count = (int)layer->n_bundles;
    double sum = 0;
    int64_t room = 0, n = o->w, rows = layer->rows;
    for (int d = 0; d < count; d++) { /* a bundle of one link is read and written where it lies */
        const fdp_dual_strand *strand = k->strands + bundles[d].first;
        const int64_t size = bundles[d].lines * n;
        line_of[d] = k->line_of + bundles[d].line_of;
        gathered[d] = o->u + strand->line * n, added[d] = o->au + strand->line * n;
        sign[d] = (double)strand->sign;
        if (bundles[d].n_strands == 1) continue;
        double *restrict to = o->gathered + room;
        memset(to, 0, (size_t)size * sizeof *to);
        for (int64_t q = 0; q < bundles[d].n_strands; q++) {
            const double by = (double)strand[q].sign, *from = o->u + strand[q].line * n;
            for (int64_t j = 0; j < size; j++) to[j] += by * from[j];
        }
        memset(o->added + room, 0, (size_t)size * sizeof *to);
        gathered[d] = to, added[d] = o->added + room, sign[d] = 1;
        room += size;
    }
    if (layer->straight) n *= rows, rows = 1; /* line i of its one bundle is row i */
    /* Each row gathers from the lines of its bundles and adds to them. The number of bundles is a
     * constant in each call, so that every loop is a vector loop. */
    for (int64_t i = 0; i < rows; i++, weight += n) {
        for (int d = 0; d < count; d++) {
            const int64_t at = line_of[d][i] * n;
            v[d] = gathered[d] + at, e[d] = added[d] + at;
        }
        if (layer->totals)
            sum += count == 0   ? row_loop(0, 1, n, flat, v, sign, e, weight)
                   : count == 1 ? row_loop(1, 1, n, flat, v, sign, e, weight)
                   : count == 2 ? row_loop(2, 1, n, flat, v, sign, e, weight)
                                : row_loop(3, 1, n, flat, v, sign, e, weight);
        else if (count == 1)
            row_loop(1, 0, n, flat, v, sign, e, weight);
        else if (count == 2)
            row_loop(2, 0, n, flat, v, sign, e, weight);
        else if (count == 3)
            row_loop(3, 0, n, flat, v, sign, e, weight);
    }
    for (int d = 0; d < count; d++) {
        const fdp_dual_strand *strand = k->strands + bundles[d].first;
        const int64_t size = bundles[d].lines * o->w;
        for (int64_t q = 0; bundles[d].n_strands > 1 && q < bundles[d].n_strands; q++) {
            const double by = (double)strand[q].sign, *restrict from = added[d];
            double *restrict to = o->au + strand[q].line * o->w;
            for (int64_t j = 0; j < size; j++) to[j] += by * from[j];
        }
    }
    return sum;
}

/* au = the Hessian times u; sums[totals]: of the totals' own lines. */
static void multiply(const solve *t, const block *o, double *sums) {
    const fdp_dual_blocks *k = t->blocks;
    const double *weight = o->weight;
    memset(o->au, 0, (size_t)o->n * sizeof(double));
    for (int64_t q = 0; q < k->n_totals; q++) sums[q] = 0;
    for (int64_t g = 0; g < t->dual->n_regions; g++) {
        const int64_t *side = k->sides + g * k->n_totals;
        double flat = 0;
        for (int64_t q = 0; q < k->n_totals; q++) flat += (double)side[q] * t->total[q][1];
        const double whole = multiply_layer(k, &k->layers[g], o, flat, weight);
        for (int64_t q = 0; q < k->n_totals; q++) sums[q] += (double)side[q] * whole;
        weight += k->layers[g].rows * o->w;
    }
}

/* Writes a block's part of the solution back to the vector, line by line. */
static void lay(const solve *t, const block *o) {
    const fdp_dual_blocks *k = t->blocks;
    const double *x = o->x;
    for (int64_t g = 0; g < k->n_segments; g++)
        for (int64_t line = 0; line < k->segments[g].lines; line++, x += o->w) {
            const int64_t at = entry_of(k, &k->segments[g], o, line);
            for (int64_t j = 0; j < o->w; j++) t->out[at + j] = t->products ? x[j] : 0.0;
            for (int64_t j = 0; t->ahead && j < o->w; j++)
                t->ahead[at + j] = t->from[at + j] + t->out[at + j];
        }
}

/* Steps: what is done in each block. LAST is an iteration that is expected to be the last one. */
enum {
    BEGIN,
    FILL = 1,
    MOVE = 2,
    MULTIPLY = 4,
    LAY = 8,
    START = FILL | MULTIPLY,
    NEXT = MOVE | MULTIPLY,
    LAST = MOVE | LAY
};

/* What one step does in the blocks of one piece. sums of a block: r times u, u times A u, then its
 * totals' parts. */
static void solve_piece(void *ctx, int64_t kind, int64_t i) {
    solve *t = ctx;
    const fdp_dual_blocks *k = t->blocks;
    const int64_t all = k->codes * k->parts;
    for (int64_t number = i * t->each; number < FDP_MIN((i + 1) * t->each, all); number++) {
        const block o = block_of(k, number);
        double *sums = k->sums + number * (2 + k->n_totals);
        if (kind & FILL) {
            fill(t, &o);
            sums[0] = product_of(o.n, o.r, o.u);
        }
        if (kind & MOVE)
            sums[0] = move(o.n, t->products == 1, t->step, t->turn, o.au, o.inverse, o.r, o.u, o.p, o.s, o.x);
        if (kind & MULTIPLY) {
            multiply(t, &o, sums + 2);
            sums[1] = product_of(o.n, o.u, o.au);
        }
        if (kind & LAY) lay(t, &o);
    }
}

/* The sum of one number over all blocks, in order. */
static double added_up(const solve *t, int64_t which) {
    const int64_t width = 2 + t->blocks->n_totals;
    double sum = 0;
    for (int64_t i = 0; i < t->blocks->codes * t->blocks->parts; i++)
        sum += t->blocks->sums[i * width + which];
    return sum;
}

/* After the residuals, r times u of all; after the products, the next step, and the totals' part of it. */
static double residual(const solve *t) {
    double sum = added_up(t, 0);
    for (int64_t q = 0; q < t->blocks->n_totals; q++) sum += t->total[q][0] * t->total[q][1];
    return sum;
}

/* The length of the next step, and the totals' part of the iteration; 0 where the curvature is lost to
 * rounding. */
static int advance(solve *t) {
    double au[FDP_DUAL_TOTALS], curvature = added_up(t, 1);
    for (int64_t q = 0; q < t->blocks->n_totals; q++) {
        au[q] = added_up(t, 2 + q);
        curvature += t->total[q][1] * au[q];
    }
    if (t->products > 0) curvature -= t->turn * t->rz / t->step;
    if (!(curvature > 0)) return 0;
    t->step = t->rz / curvature;
    t->along += t->step * t->rz; /* the product of b with the step's part of the solution */
    t->products++;
    for (int64_t q = 0; q < t->blocks->n_totals; q++) {
        double *v = t->total[q];
        v[2] = v[1] + t->turn * v[2];
        v[3] = au[q] + t->turn * v[3];
        v[4] += t->step * v[2];
        v[0] -= t->step * v[3];
        v[1] = v[0] * v[5];
    }
    return 1;
}

/* The step after the one that just ended. An iteration multiplies its new direction at once, so that it is
 * one step, unless the residual, falling as it did before, will be small enough. */
static int64_t next_step(solve *t) {
    const int64_t before = t->at;
    if (before == BEGIN) return START;
    if (before == LAY) return 0;
    if (before == START) {
        t->rz = residual(t);
        t->least = t->tol * t->tol * t->rz;
        if (t->most < 1 || !(t->rz > 0)) return LAY;
    } else if (before & MOVE) {
        const double now = residual(t);
        if (t->products >= t->most || !(now > t->least)) return before & LAY ? 0 : LAY;
        t->turn = now / t->rz;
        t->rz = now;
        if (before == LAST) return MULTIPLY;
    }
    if (!advance(t)) return LAY;
    return t->products >= t->most || (t->products > 1 && t->turn * t->rz <= t->least) ? LAST : NEXT;
}

static int64_t solve_plan(void *ctx, int64_t *kind) {
    solve *t = ctx;
    *kind = t->at = next_step(t);
    return *kind ? t->pieces : 0;
}

int fdp_dual_solve_blocks(const fdp_dual *dual, const fdp_dual_blocks *blocks, const double *b, double sign,
                          const double *diagonal, double tol, int64_t most, fdp_team *team,
                          const float *slope, const double *from, double *out, double *ahead,
                          int64_t *products, double *along) {
    solve t = {.dual = dual, .blocks = blocks, .slope = slope, .b = b, .diagonal = diagonal, .out = out};
    t.from = from, t.ahead = ahead;
    t.sign = sign, t.tol = tol, t.most = most;
    for (int64_t q = 0; q < blocks->n_totals; q++) {
        const double d = diagonal[blocks->totals[q]];
        t.total[q][0] = sign * b[blocks->totals[q]];
        t.total[q][5] = d > 0 ? 1.0 / d : 0.0;
        t.total[q][1] = t.total[q][0] * t.total[q][5];
    }
    /* As many pieces as make up whole shares: the same blocks stay with the same thread. */
    const int threads = fdp_team_worth(team, FDP_DUAL_WORTH * dual->cells);
    const int64_t all = blocks->codes * blocks->parts, most_pieces = (int64_t)threads * FDP_TEAM_FEW;
    t.each = (all + most_pieces - 1) / most_pieces;
    t.pieces = all <= threads ? all : ((all + t.each - 1) / t.each + threads - 1) / threads * threads;
    fdp_team_steps(team, threads, FDP_TEAM_SPREAD, solve_plan, solve_piece, &t);
    for (int64_t q = 0; q < blocks->n_totals; q++) {
        const int64_t at = blocks->totals[q];
        out[at] = t.total[q][4];
        if (ahead) ahead[at] = from[at] + out[at];
    }
    *products = t.products;
    *along = sign * t.along;
    return FDP_OK;
}
