/* The passes over the tree, for REAL = double or float: lanes of a node, stages, the whole. Included by infer.c once for
 * each, after infer_tile.h. */

/* Everything one call needs, shared by the team. `next` holds one counter per loop, all zero at the start. */
typedef struct {
    pass_kind kind;
    const fdp_tree *tree;
    const double *change; /* potentials, or what they change by */
    double total;
    const fdp_work *work;
    const fdp_state *from, *out;
    const fdp_pull *pulls;
    NAME(pace) pace;
    REAL *x;
    double log_z;
    atomic_llong *next;
    int code;
} NAME(job);

static int64_t NAME(tile_rows)(const fdp_node *node) {
    const int64_t rows = (int64_t)(8192 / sizeof(REAL)) / node->cells;
    return rows < 1 ? 1 : rows > MOST_ROWS ? MOST_ROWS : rows;
}

/* What the true rows [j, j + rows) of a node are to those of a state. */
static void NAME(factors)(const NAME(job) * job, const fdp_node *node, const fdp_state *state, int64_t j, int64_t rows,
                          double *factor) {
    const double *mass = node->separator >= 0 ? state->m + node->separator + j : &job->total;
    shares(rows, mass, state->rowsum + node->row_at + j, factor);
}

/* Potentials, or their change, of a node's own cells: those of a separator have taken in messages. */
static const double *NAME(own_of)(const NAME(job) * job, const fdp_node *node) {
    return (node->own_at >= job->tree->shared ? job->change : job->work->up) + node->own_at;
}

static void NAME(lane_infer)(const NAME(job) * job, const fdp_node *node, int64_t from, int64_t to) {
    const int64_t cells = node->cells, step = NAME(tile_rows)(node);
    const REAL *potential = job->work->ratio;
    const double *own = NAME(own_of)(job, node);
    double *message = job->work->message + node->row_at, *rowsum = job->out->rowsum + node->row_at, top[MOST_ROWS];
    for (int64_t j = from; j < to; j += step) {
        const int64_t rows = FDP_MIN(step, to - j);
        REAL *block = (REAL *)job->out->cells + node->table + j * cells;
        int64_t l = 0;
        if (node->own == FDP_OWN_DENSE) {
            NAME(tile_load)(rows * cells, own + j * cells, block);
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
                    block[r * cells + node->own_cell[k]] += (REAL)own[k];
        NAME(tile_exp)(rows, cells, block, rowsum + j, top);
        for (int64_t r = 0; r < rows; r++)
            message[j + r] = rowsum[j + r] > 0 ? top[r] + log(rowsum[j + r]) : IMPOSSIBLE;
    }
}

static void NAME(lane_adopt)(const NAME(job) * job, const fdp_node *node, int64_t from, int64_t to) {
    NAME(tile_sum)(to - from, node->cells, (REAL *)job->out->cells + node->table + from * node->cells,
                   job->out->rowsum + node->row_at + from);
}

static void NAME(lane_settle)(const NAME(job) * job, const fdp_node *node, int64_t from, int64_t to) {
    const int64_t cells = node->cells, step = NAME(tile_rows)(node);
    double factor[MOST_ROWS];
    for (int64_t j = from; j < to; j += step) {
        const int64_t rows = FDP_MIN(step, to - j);
        REAL *block = (REAL *)job->out->cells + node->table + j * cells;
        NAME(factors)(job, node, job->out, j, rows, factor);
        for (int64_t r = 0; r < rows; r++)
            for (int64_t i = 0; i < cells; i++) block[r * cells + i] *= (REAL)factor[r];
        for (int64_t r = 0; r < rows; r++) job->out->rowsum[node->row_at + j + r] *= factor[r];
    }
}

/* The old rows times the exp of their change; item: sums of w (y^2, y h, h^2) with h the change before the rows' new
 * factors, and the largest exponent. */
static void NAME(lane_move)(const NAME(job) * job, const fdp_node *node, int64_t from, int64_t to, double *item) {
    const int64_t cells = node->cells, step = NAME(tile_rows)(node);
    const REAL *ratio = job->work->ratio;
    const fdp_pull *pull = node->own == FDP_OWN_PULL ? job->pulls + node->pull : NULL;
    const double *own = NAME(own_of)(job, node);
    double *message = job->work->message + node->row_at, *rowsum = job->out->rowsum + node->row_at;
    double factor[MOST_ROWS], most = 0, squares = 0, reach = 0, flat[2] = {0, 0};
    NAME(pace) pace = job->pace;
    if (pull) pace.precision = (REAL)pull->precision;
    for (int64_t l = 0; l < node->n_links; l++) reach += job->work->reach[node->first_nest + l];
    for (int64_t j = from; j < to; j += step) {
        const int64_t rows = FDP_MIN(step, to - j), n = rows * cells, at = node->table + j * cells;
        const REAL *z = (REAL *)job->from->cells + at;
        REAL *block = (REAL *)job->out->cells + at, *x = job->x + at;
        const REAL *target = pull ? (const REAL *)pull->target + j * cells : NULL;
        const REAL *weight = pull && pull->weight ? (const REAL *)pull->weight + j * cells : NULL;
        double largest = 0;
        NAME(factors)(job, node, job->from, j, rows, factor);
        NAME(tile_scale)(rows, cells, factor, z, block);
        if (pull)
            largest = NAME(tile_pull)(n, pace, z, target, weight, x, block, &squares);
        else if (pace.average > 0)
            NAME(tile_average)(n, pace.average, block, x);
        if (node->own == FDP_OWN_DENSE)
            largest = NAME(tile_grow)(n, own + j * cells, block);
        else if (node->own == FDP_OWN_SPARSE)
            for (int64_t r = 0; r < rows; r++)
                for (int64_t k = node->own_row[j + r]; k < node->own_row[j + r + 1]; k++) {
                    block[r * cells + node->own_cell[k]] *= EXP((REAL)own[k]);
                    largest = FDP_MAX(largest, own[k]);
                }
        for (int64_t l = 0; l < node->n_links; l++) {
            const fdp_link *link = node->links + l;
            NAME(tile_mul)(rows, cells, ratio + link->at, link, link->base ? link->base + j : NULL, block);
        }
        if (!pull || node->n_links) NAME(tile_floor)(n, z, block);
        if (pull)
            NAME(tile_weigh)(rows, cells, pace, factor, z, target, weight, x, block, rowsum + j,
                             job->work->rows + (pull->row_at + j) * FDP_PULL_ROW, flat);
        else
            NAME(tile_sum)(rows, cells, block, rowsum + j);
        if (!(largest <= most)) most = largest;
        const double *mass = node->separator >= 0 ? job->from->m + node->separator + j : &job->total;
        log_shares(rows, rowsum + j, mass, (double)TINY * (double)cells, message + j);
    }
    item[0] = squares, item[1] = flat[0], item[2] = flat[1], item[3] = most + reach;
}

/* Marginals that rows [from, to) of a node give; item: the pulled rows' sums of w y g and w g^2, now that factors are
 * known: g = f e - z = h + (f - 1) e. */
static void NAME(lane_down)(const NAME(job) * job, const fdp_node *node, int64_t from, int64_t to,
                            double *private_buffer, double *item) {
    const int64_t cells = node->cells, step = NAME(tile_rows)(node);
    const int pulled = job->kind == MOVE && node->own == FDP_OWN_PULL;
    double factor[MOST_ROWS], *m = job->out->m;
    if (node->lane_buffer) memset(private_buffer, 0, (size_t)node->lane_buffer * sizeof(double));
    if (!pulled && node->own != FDP_OWN_DENSE && node->own != FDP_OWN_SPARSE && !node->n_links) return;
    for (int64_t j = from; j < to; j += step) {
        const int64_t rows = FDP_MIN(step, to - j);
        const REAL *block = (REAL *)job->out->cells + node->table + j * cells;
        NAME(factors)(job, node, job->out, j, rows, factor);
        if (pulled) {
            const double *sums = job->work->rows + (job->pulls[node->pull].row_at + j) * FDP_PULL_ROW;
            for (int64_t r = 0; r < rows; r++, sums += FDP_PULL_ROW) {
                const double more = factor[r] - 1;
                item[1] += more * sums[0];
                item[2] += 2 * more * sums[1] + more * more * sums[2];
            }
        } else if (node->own == FDP_OWN_DENSE) {
            double *own = m + node->own_at + j * cells;
            for (int64_t r = 0; r < rows; r++)
                for (int64_t i = 0; i < cells; i++) own[r * cells + i] = factor[r] * block[r * cells + i];
        } else if (node->own == FDP_OWN_SPARSE) {
            for (int64_t r = 0; r < rows; r++)
                for (int64_t k = node->own_row[j + r]; k < node->own_row[j + r + 1]; k++)
                    m[node->own_at + k] = factor[r] * block[r * cells + node->own_cell[k]];
        }
        double *mine = private_buffer;
        for (int64_t l = 0; l < node->n_links; l++) {
            const fdp_link *link = node->links + l;
            double *dst = m + link->at;
            if (link->shared && node->lanes > 1) {
                dst = mine;
                mine += link->size;
            }
            NAME(tile_project)(rows, cells, block, factor, link, link->base ? link->base + j : NULL, dst);
        }
    }
}

/* Hosted tables of a stage take in the smaller ones inside them. */
static void NAME(nests_up)(const NAME(job) * job, const fdp_stage *stage, atomic_llong *next) {
    const fdp_work *work = job->work;
    REAL *ratio = work->ratio;
    for (int64_t k; (k = fdp_team_next(next)) < stage->n_nests;) {
        const int64_t number = stage->first_nest + k;
        const fdp_nest *nest = job->tree->nests + number;
        for (int64_t f = 0; f < nest->n_folds; f++) fold_up(job->tree->folds + nest->first_fold + f, work->up);
        if (job->kind == INFER)
            NAME(tile_load)(nest->size, work->up + nest->at, ratio + nest->at);
        else
            work->reach[number] =
                NAME(tile_ratio)(nest->size, work->up + nest->at, job->from->m + nest->at, ratio + nest->at);
    }
}

static void NAME(lanes_up)(const NAME(job) * job, const fdp_stage *stage, atomic_llong *next) {
    for (int64_t k; (k = fdp_team_next(next)) < stage->n_items;) {
        const int64_t item = stage->first_item + k;
        const fdp_node *node = job->tree->nodes + job->tree->item_node[item];
        const int64_t *rows = node->lane_at + job->tree->item_lane[item];
        if (job->kind == INFER)
            NAME(lane_infer)(job, node, rows[0], rows[1]);
        else if (job->kind == ADOPT)
            NAME(lane_adopt)(job, node, rows[0], rows[1]);
        else if (job->kind == SETTLE)
            NAME(lane_settle)(job, node, rows[0], rows[1]);
        else
            NAME(lane_move)(job, node, rows[0], rows[1], job->work->items + item * ITEM);
    }
}

static void NAME(lanes_down)(const NAME(job) * job, const fdp_stage *stage, atomic_llong *next) {
    for (int64_t k; (k = fdp_team_next(next)) < stage->n_items;) {
        const int64_t item = stage->first_item + k;
        const fdp_node *node = job->tree->nodes + job->tree->item_node[item];
        const int64_t lane = job->tree->item_lane[item];
        NAME(lane_down)(job, node, node->lane_at[lane], node->lane_at[lane + 1],
                        job->work->buffer + node->buffer_at + lane * node->lane_buffer,
                        job->work->items ? job->work->items + item * ITEM : NULL);
    }
}

/* One member's part of a call: up from the deepest stage, down from the roots. A small stage is one thread's. */
static void NAME(work)(fdp_team *team, int number, void *ctx) {
    NAME(job) *job = ctx;
    const fdp_tree *tree = job->tree;
    const int messages = job->kind == INFER || job->kind == MOVE;
    atomic_llong *next = job->next;
    for (int64_t s = tree->n_stages - 1; s >= 0; s--, next += 2) {
        const fdp_stage *stage = tree->stages + s;
        const int mine = stage->large || number == 0;
        if (mine && messages) NAME(nests_up)(job, stage, next);
        if (stage->large && messages) fdp_team_wait(team);
        if (mine) NAME(lanes_up)(job, stage, next + 1);
        if (stage->large) fdp_team_wait(team);
        if (number == 0 && messages && job->code == FDP_OK)
            job->code = deliver(tree, stage, job->work->message, job->work->up, &job->log_z);
        if (messages) fdp_team_wait(team);
    }
    if (job->kind == SETTLE) return;
    fdp_team_wait(team);
    if (job->code != FDP_OK) return;
    double *m = job->out->m;
    for (int64_t s = 0; s < tree->n_stages; s++, next += 4) {
        const fdp_stage *stage = tree->stages + s;
        const int mine = stage->large || number == 0;
        for (int64_t k; mine && (k = fdp_team_next(next)) < stage->n_nests;) {
            const fdp_nest *nest = tree->nests + stage->first_nest + k;
            memset(m + nest->at, 0, (size_t)nest->size * sizeof(double));
        }
        if (stage->large) fdp_team_wait(team);
        if (mine) NAME(lanes_down)(job, stage, next + 1);
        if (stage->large) fdp_team_wait(team);
        for (int64_t k; mine && (k = fdp_team_next(next + 2)) < stage->n_links;)
            gather_lanes(tree->nodes + tree->link_node[stage->first_link + k], tree->link_number[stage->first_link + k],
                         job->work->buffer, m);
        if (stage->large) fdp_team_wait(team);
        for (int64_t k; mine && (k = fdp_team_next(next + 3)) < stage->n_nests;) {
            const fdp_nest *nest = tree->nests + stage->first_nest + k;
            for (int64_t f = nest->n_folds - 1; f >= 0; f--) fold_down(tree->folds + nest->first_fold + f, m);
        }
        fdp_team_wait(team);
    }
}

static int NAME(run)(NAME(job) * job, int threads) {
    const fdp_tree *tree = job->tree;
    job->next = calloc((size_t)tree->n_stages * 6 + 1, sizeof *job->next);
    if (!job->next) return FDP_ERR_MEMORY;
    if (job->change) memcpy(job->work->up, job->change, (size_t)tree->shared * sizeof(double));
    fdp_team_run(tree->large ? threads : 1, NAME(work), job);
    free(job->next);
    return job->code;
}

int NAME(infer)(const fdp_tree *tree, const double *theta, double total, int threads, const fdp_work *work,
                const fdp_state *out, double *log_z) {
    NAME(job) job = {.kind = INFER, .tree = tree, .change = theta, .total = total, .work = work, .out = out};
    const int code = NAME(run)(&job, threads);
    *log_z = job.log_z;
    return code;
}

int NAME(adopt)(const fdp_tree *tree, double total, int threads, const fdp_work *work, const fdp_state *state) {
    NAME(job) job = {.kind = ADOPT, .tree = tree, .total = total, .work = work, .out = state};
    return NAME(run)(&job, threads);
}

int NAME(settle)(const fdp_tree *tree, double total, int threads, const fdp_state *state) {
    NAME(job) job = {.kind = SETTLE, .tree = tree, .total = total, .out = state};
    return NAME(run)(&job, threads);
}

int NAME(move)(const fdp_tree *tree, const fdp_pull *pulls, int64_t n_pulls, const double *delta, double size,
               double mix, double total, int threads, const fdp_work *work, const fdp_state *z, double weight, REAL *x,
               const fdp_state *out, double *sums, int *far, double *log_z) {
    NAME(job) job = {.kind = MOVE, .tree = tree, .change = delta, .total = total, .work = work, .from = z, .out = out};
    job.pulls = pulls, job.x = x;
    job.pace = (NAME(pace)){.size = (REAL)size, .mix = (REAL)mix, .average = (REAL)weight};
    const int code = NAME(run)(&job, threads);
    *log_z = job.log_z;
    *far = 0;
    for (int64_t i = 0; i < n_pulls * FDP_PULL_SUM; i++) sums[i] = 0;
    const fdp_stage *last = tree->stages + tree->n_stages - 1;
    for (int64_t k = 0; k < last->first_item + last->n_items; k++) {
        const fdp_node *node = tree->nodes + tree->item_node[k];
        const double *item = work->items + k * ITEM;
        *far |= !(item[FDP_PULL_SUM] <= FAR);
        if (node->own != FDP_OWN_PULL) continue;
        for (int i = 0; i < FDP_PULL_SUM; i++) sums[node->pull * FDP_PULL_SUM + i] += item[i];
    }
    return code;
}
