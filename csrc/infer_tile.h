/* The kernels of one tile (some rows of a node), for REAL = double or float. Included by infer.c once for each. */

FDP_CLONES void NAME(tile_load)(int64_t n, const double *restrict src, REAL *restrict block) {
    for (int64_t i = 0; i < n; i++) block[i] = (REAL)src[i];
}

FDP_CLONES void NAME(tile_store)(int64_t n, const REAL *restrict block, double *restrict dst) {
    for (int64_t i = 0; i < n; i++) dst[i] = block[i];
}

/* average = (1 - weight) average + weight block */
FDP_CLONES void NAME(tile_average)(int64_t n, double weight, const REAL *restrict block, REAL *restrict average) {
    const REAL new = (REAL)weight, old = (REAL)(1 - weight);
    for (int64_t i = 0; i < n; i++) average[i] = new *block[i] + old *average[i];
}

/* block[r, :] = src[base[r] + pattern] for a pattern of at most two merged dimensions, r = 0..rows-1 */
FDP_CLONES void NAME(tile_set)(int64_t rows, int64_t cells, const REAL *restrict src, const fdp_link *link,
                               const int32_t *restrict base, REAL *restrict block) {
    const int nd = link->nd;
    const int64_t inner = nd ? link->n[nd - 1] : 1, step = nd ? link->ts[nd - 1] : 0;
    const int64_t n0 = nd == 2 ? link->n[0] : 1, t0 = nd == 2 ? link->ts[0] : 0;
    for (int64_t r = 0; r < rows; r++, block += cells) {
        const REAL *s = src + (base ? base[r] : 0);
        REAL *b = block;
        for (int64_t k = 0; k < n0; k++, b += inner, s += t0) {
            if (step)
                for (int64_t i = 0; i < inner; i++) b[i] = s[i];
            else
                for (int64_t i = 0; i < inner; i++) b[i] = s[0];
        }
    }
}

/* block[r, :] += src[base[r] + pattern], r = 0..rows-1 */
FDP_CLONES void NAME(tile_add)(int64_t rows, int64_t cells, const REAL *restrict src, const fdp_link *link,
                               const int32_t *restrict base, REAL *restrict block) {
    const int nd = link->nd;
    const int64_t inner = nd ? link->n[nd - 1] : 1;
    const int64_t step = nd ? link->ts[nd - 1] : 0;
    for (int64_t r = 0; r < rows; r++, block += cells) {
        const REAL *s = src + (base ? base[r] : 0);
        if (nd <= 1) {
            if (step)
                for (int64_t i = 0; i < inner; i++) block[i] += s[i];
            else
                for (int64_t i = 0; i < inner; i++) block[i] += s[0];
        } else if (nd == 2) {
            const int64_t n0 = link->n[0], t0 = link->ts[0];
            REAL *b = block;
            for (int64_t k = 0; k < n0; k++, b += inner, s += t0) {
                if (step)
                    for (int64_t i = 0; i < inner; i++) b[i] += s[i];
                else
                    for (int64_t i = 0; i < inner; i++) b[i] += s[0];
            }
        } else {
            int64_t count[FDP_MAX_DIMS] = {0};
            REAL *b = block;
            for (;;) {
                if (step)
                    for (int64_t i = 0; i < inner; i++) b[i] += s[i];
                else
                    for (int64_t i = 0; i < inner; i++) b[i] += s[0];
                b += inner;
                int d = nd - 2;
                while (d >= 0) {
                    s += link->ts[d];
                    if (++count[d] < link->n[d]) break;
                    s -= link->ts[d] * link->n[d];
                    count[d--] = 0;
                }
                if (d < 0) break;
            }
        }
    }
}

/* dst[base[r] + pattern] += block[r, :] */
FDP_CLONES void NAME(tile_project)(int64_t rows, int64_t cells, const REAL *restrict block, const fdp_link *link,
                                   const int32_t *restrict base, double *restrict dst) {
    const int nd = link->nd;
    const int64_t inner = nd ? link->n[nd - 1] : 1;
    const int64_t step = nd ? link->ts[nd - 1] : 0;
    for (int64_t r = 0; r < rows; r++, block += cells) {
        double *t = dst + (base ? base[r] : 0);
        if (nd <= 2) {
            const int64_t n0 = nd == 2 ? link->n[0] : 1, t0 = nd == 2 ? link->ts[0] : 0;
            const REAL *b = block;
            for (int64_t k = 0; k < n0; k++, b += inner, t += t0) {
                if (step) {
                    for (int64_t i = 0; i < inner; i++) t[i] += b[i];
                } else {
                    double sum = 0;
#pragma omp simd reduction(+ : sum)
                    for (int64_t i = 0; i < inner; i++) sum += b[i];
                    t[0] += sum;
                }
            }
        } else {
            int64_t count[FDP_MAX_DIMS] = {0};
            const REAL *b = block;
            for (;;) {
                if (step) {
                    for (int64_t i = 0; i < inner; i++) t[i] += b[i];
                } else {
                    double sum = 0;
#pragma omp simd reduction(+ : sum)
                    for (int64_t i = 0; i < inner; i++) sum += b[i];
                    t[0] += sum;
                }
                b += inner;
                int d = nd - 2;
                while (d >= 0) {
                    t += link->ts[d];
                    if (++count[d] < link->n[d]) break;
                    t -= link->ts[d] * link->n[d];
                    count[d--] = 0;
                }
                if (d < 0) break;
            }
        }
    }
}

/* block = exp(block - rowmax) in place; rowsum[r]; message[r] += rowmax + log(rowsum). A row without a possible cell
 * becomes zeros and its message -inf. */
FDP_CLONES void NAME(tile_exp)(int64_t rows, int64_t cells, REAL *restrict block, double *restrict rowsum,
                               double *restrict top) {
    REAL *b = block;
    for (int64_t r = 0; r < rows; r++, b += cells) {
        REAL peak = -INFINITY;
#pragma omp simd reduction(max : peak)
        for (int64_t i = 0; i < cells; i++) peak = b[i] > peak ? b[i] : peak;
        top[r] = peak;
        const REAL shift = peak > -INFINITY ? peak : 0;
        for (int64_t i = 0; i < cells; i++) b[i] -= shift;
    }
    for (int64_t i = 0; i < rows * cells; i++) block[i] = EXP(block[i]);
    b = block;
    for (int64_t r = 0; r < rows; r++, b += cells) {
        double sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < cells; i++) sum += b[i];
        rowsum[r] = sum;
    }
}

FDP_CLONES void NAME(tile_scale)(int64_t rows, int64_t cells, const double *restrict factor, REAL *restrict block) {
    for (int64_t r = 0; r < rows; r++, block += cells) {
        const REAL f = (REAL)factor[r];
        for (int64_t i = 0; i < cells; i++) block[i] *= f;
    }
}

static int64_t NAME(tile_rows)(const fdp_node *node) {
    int64_t rows = 4096 / node->cells;
    return rows < 1 ? 1 : rows > 512 ? 512 : rows;
}

/* Upward pass of rows [from, to) of a node; potential[] is the vector of summed potentials (as REAL). */
static void NAME(lane_up)(const fdp_node *node, const double *own_potential, const REAL *potential, int64_t from,
                          int64_t to, double weight, double *message, double *rowsum, REAL *tables, REAL *average) {
    const int64_t cells = node->cells, step = NAME(tile_rows)(node);
    double top[512];
    for (int64_t j = from; j < to; j += step) {
        const int64_t rows = FDP_MIN(step, to - j);
        REAL *block = tables + node->table + j * cells;
        int64_t l = 0;
        if (weight > 0) NAME(tile_average)(rows * cells, weight, block, average + node->table + j * cells);
        if (node->own == FDP_OWN_DENSE) {
            NAME(tile_load)(rows * cells, own_potential + node->own_at + j * cells, block);
        } else if (node->n_links && node->links[0].nd <= 2) {
            const fdp_link *link = node->links;
            NAME(tile_set)(rows, cells, potential + link->at, link, link->base ? link->base + j : NULL, block);
            l = 1;
        } else {
            memset(block, 0, (size_t)(rows * cells) * sizeof(REAL));
        }
        for (; l < node->n_links; l++) {
            const fdp_link *link = node->links + l;
            NAME(tile_add)(rows, cells, potential + link->at, link, link->base ? link->base + j : NULL, block);
        }
        if (node->own == FDP_OWN_SPARSE)
            for (int64_t r = 0; r < rows; r++)
                for (int64_t k = node->own_row[j + r]; k < node->own_row[j + r + 1]; k++)
                    block[r * cells + node->own_cell[k]] += (REAL)own_potential[node->own_at + k];
        NAME(tile_exp)(rows, cells, block, rowsum + j, top);
        for (int64_t r = 0; r < rows; r++)
            message[j + r] = rowsum[j + r] > 0 ? top[r] + log(rowsum[j + r]) : IMPOSSIBLE;
    }
}

/* Projections of rows [from, to) of a node's table; scaled first where factor[] is given. */
static void NAME(lane_down)(const fdp_node *node, int64_t from, int64_t to, const double *separator, double total,
                            const double *rowsum, double *private_buffer, REAL *tables, double *m) {
    const int64_t cells = node->cells, step = NAME(tile_rows)(node);
    double factor[512];
    if (node->lane_buffer) memset(private_buffer, 0, (size_t)node->lane_buffer * sizeof(double));
    for (int64_t j = from; j < to; j += step) {
        const int64_t rows = FDP_MIN(step, to - j);
        REAL *block = tables + node->table + j * cells;
        if (rowsum) {
            for (int64_t r = 0; r < rows; r++) {
                const double mass = separator ? separator[j + r] : total;
                factor[r] = rowsum[j + r] > 0 ? mass / rowsum[j + r] : 0;
            }
            NAME(tile_scale)(rows, cells, factor, block);
        }
        if (node->own == FDP_OWN_DENSE) {
            NAME(tile_store)(rows * cells, block, m + node->own_at + j * cells);
        } else if (node->own == FDP_OWN_SPARSE) {
            for (int64_t r = 0; r < rows; r++)
                for (int64_t k = node->own_row[j + r]; k < node->own_row[j + r + 1]; k++)
                    m[node->own_at + k] = block[r * cells + node->own_cell[k]];
        }
        double *mine = private_buffer;
        for (int64_t l = 0; l < node->n_links; l++) {
            const fdp_link *link = node->links + l;
            double *dst = m + link->at;
            if (link->shared && node->lanes > 1) {
                dst = mine;
                mine += link->size;
            }
            NAME(tile_project)(rows, cells, block, link, link->base ? link->base + j : NULL, dst);
        }
    }
}

/* Everything one inference needs, shared by the team. `next` holds one counter per loop, all zero at the start. */
typedef struct {
    const fdp_tree *tree;
    const double *theta;
    double total, weight;
    double *up, *rowsum, *message, *buffer, *m, *log_z;
    REAL *potential, *tables, *average;
    atomic_llong *next;
    int code;
} NAME(job);

/* Hosted tables of a stage take in the smaller ones inside them. */
static void NAME(nests_up)(const NAME(job) * job, const fdp_stage *stage, atomic_llong *next) {
    for (int64_t k; (k = fdp_team_next(next)) < stage->n_nests;) {
        const fdp_nest *nest = job->tree->nests + stage->first_nest + k;
        for (int64_t f = 0; f < nest->n_folds; f++) fold_up(job->tree->folds + nest->first_fold + f, job->up);
        if ((void *)job->potential != (void *)job->up)
            for (int64_t i = nest->at; i < nest->at + nest->size; i++) job->potential[i] = (REAL)job->up[i];
    }
}

static void NAME(lanes_up)(const NAME(job) * job, const fdp_stage *stage, atomic_llong *next) {
    for (int64_t k; (k = fdp_team_next(next)) < stage->n_items;) {
        const int64_t item = stage->first_item + k;
        const fdp_node *node = job->tree->nodes + job->tree->item_node[item];
        const int64_t *rows = node->lane_at + job->tree->item_lane[item];
        NAME(lane_up)(node, node->own_at >= job->tree->shared ? job->theta : job->up, job->potential, rows[0], rows[1],
                      job->weight, job->message + node->row_at, job->rowsum + node->row_at, job->tables, job->average);
    }
}

static void NAME(lanes_down)(const NAME(job) * job, const fdp_stage *stage, atomic_llong *next) {
    for (int64_t k; (k = fdp_team_next(next)) < stage->n_items;) {
        const int64_t item = stage->first_item + k;
        const fdp_node *node = job->tree->nodes + job->tree->item_node[item];
        const int64_t lane = job->tree->item_lane[item];
        NAME(lane_down)(node, node->lane_at[lane], node->lane_at[lane + 1],
                        node->separator >= 0 ? job->m + node->separator : NULL, job->total, job->rowsum + node->row_at,
                        job->buffer + node->buffer_at + lane * node->lane_buffer, job->tables, job->m);
    }
}

/* One member's part of an inference: up from the deepest stage, down from the roots. A small stage is one thread's. */
static void NAME(work)(fdp_team *team, int number, void *ctx) {
    NAME(job) *job = ctx;
    const fdp_tree *tree = job->tree;
    atomic_llong *next = job->next;
    for (int64_t s = tree->n_stages - 1; s >= 0; s--, next += 2) {
        const fdp_stage *stage = tree->stages + s;
        if (stage->large || number == 0) NAME(nests_up)(job, stage, next);
        if (stage->large) fdp_team_wait(team);
        if (stage->large || number == 0) NAME(lanes_up)(job, stage, next + 1);
        if (stage->large) fdp_team_wait(team);
        if (number == 0 && job->code == FDP_OK) job->code = deliver(tree, stage, job->message, job->up, job->log_z);
        fdp_team_wait(team);
    }
    if (job->code != FDP_OK) return;
    for (int64_t s = 0; s < tree->n_stages; s++, next += 4) {
        const fdp_stage *stage = tree->stages + s;
        if (stage->large || number == 0)
            for (int64_t k; (k = fdp_team_next(next)) < stage->n_nests;) {
                const fdp_nest *nest = tree->nests + stage->first_nest + k;
                memset(job->m + nest->at, 0, (size_t)nest->size * sizeof(double));
            }
        if (stage->large) fdp_team_wait(team);
        if (stage->large || number == 0) NAME(lanes_down)(job, stage, next + 1);
        if (stage->large) fdp_team_wait(team);
        if (stage->large || number == 0)
            for (int64_t k; (k = fdp_team_next(next + 2)) < stage->n_links;)
                gather_lanes(tree->nodes + tree->link_node[stage->first_link + k],
                             tree->link_number[stage->first_link + k], job->buffer, job->m);
        if (stage->large) fdp_team_wait(team);
        if (stage->large || number == 0)
            for (int64_t k; (k = fdp_team_next(next + 3)) < stage->n_nests;) {
                const fdp_nest *nest = tree->nests + stage->first_nest + k;
                for (int64_t f = nest->n_folds - 1; f >= 0; f--) fold_down(tree->folds + nest->first_fold + f, job->m);
            }
        fdp_team_wait(team);
    }
}

/* As declared in infer.h; `potential` is `up` itself for float64. */
static int NAME(infer_any)(const fdp_tree *tree, const double *theta, double total, int threads, double *up,
                           REAL *potential, double *rowsum, double *message, double *buffer, double weight,
                           REAL *tables, REAL *average, double *m, double *log_z) {
    atomic_llong *next = calloc((size_t)tree->n_stages * 6 + 1, sizeof *next);
    if (!next) return FDP_ERR_MEMORY;
    NAME(job)
    job = {tree, theta, total, weight, up, rowsum, message, buffer, m, log_z, potential, tables, average, next, FDP_OK};
    *log_z = 0;
    memcpy(up, theta, (size_t)tree->shared * sizeof(double));
    fdp_team_run(tree->large ? threads : 1, NAME(work), &job);
    free(next);
    return job.code;
}
