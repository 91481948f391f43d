/* The passes over the tree, for REAL = double or float: lanes of a node, stages, the whole. Included by
 * infer.c once for each, after infer_tile.h. */

/* Everything one call needs, shared by the team. */
typedef struct {
    pass_kind kind;
    const fdp_tree *tree;
    const double *change; /* potentials, or what they change by */
    double total;
    const fdp_work *work;
    const fdp_state *from, *out;
    const fdp_target *targets;
    NAME(pace) pace;
    REAL *x;
    double log_z;
    int code;
    int64_t stage, loop; /* where the pass is */
    int64_t divided;     /* pieces that lanes are divided into on the way down */
    int many;            /* more threads than a stage may have lanes for */
} NAME(job);

static int64_t NAME(tile_rows)(const fdp_node *node) {
    const int64_t rows = (int64_t)(8192 / sizeof(REAL)) / node->cells;
    return rows < 1 ? 1 : rows > MOST_ROWS ? MOST_ROWS : rows;
}

/* What the true rows [j, j + rows) of a node are to those of a state. */
static void NAME(factors)(const NAME(job) * job, const fdp_node *node, const fdp_state *state, int64_t j,
                          int64_t rows, double *factor) {
    const double *mass = node->separator >= 0 ? state->m + node->separator + j : &job->total;
    shares(rows, mass, state->rowsum + node->row_at + j, factor);
}

/* Potentials, or their change, of a node's local cells: those of a separator have taken in messages. */
static const double *NAME(local_of)(const NAME(job) * job, const fdp_node *node) {
    return (node->local_at >= job->tree->shared ? job->change : job->work->up) + node->local_at;
}

static void NAME(lane_infer)(const NAME(job) * job, const fdp_node *node, int64_t from, int64_t to) {
    const int64_t cells = node->cells, step = NAME(tile_rows)(node);
    const REAL *potential = job->work->ratio;
    const double *local = NAME(local_of)(job, node);
    double *message = job->work->message + node->row_at, *rowsum = job->out->rowsum + node->row_at,
           top[MOST_ROWS];
    for (int64_t j = from; j < to; j += step) {
        const int64_t rows = FDP_MIN(step, to - j);
        REAL *block = (REAL *)job->out->cells + node->table + j * cells;
        int64_t l = 0;
        if (node->local == FDP_LOCAL_DENSE) {
            NAME(tile_load)(rows * cells, local + j * cells, block);
        } else if (node->n_links && node->links[0].nd <= 2) {
            const fdp_link *link = node->links;
            NAME(tile_set)(rows, cells, potential + link->at, link, link->base ? link->base + j : NULL,
                           block);
            l = 1;
        } else {
            memset(block, 0, (size_t)(rows * cells) * sizeof(REAL));
        }
        for (; l < node->n_links; l++) {
            const fdp_link *link = node->links + l;
            NAME(tile_add)(rows, cells, potential + link->at, link, link->base ? link->base + j : NULL,
                           block);
        }
        if (node->local == FDP_LOCAL_SPARSE)
            for (int64_t r = 0; r < rows; r++)
                for (int64_t k = node->local_row[j + r]; k < node->local_row[j + r + 1]; k++)
                    block[r * cells + node->local_cell[k]] += (REAL)local[k];
        NAME(tile_exp)(rows, cells, block, rowsum + j, top);
        for (int64_t r = 0; r < rows; r++)
            message[j + r] = rowsum[j + r] > 0 ? top[r] + log(rowsum[j + r]) : IMPOSSIBLE;
    }
}

static void NAME(lane_adopt)(const NAME(job) * job, const fdp_node *node, int64_t from, int64_t to) {
    NAME(tile_sum)(to - from, node->cells, (REAL *)job->out->cells + node->table + from * node->cells,
                   job->out->rowsum + node->row_at + from);
}

static void NAME(lane_normalise)(const NAME(job) * job, const fdp_node *node, int64_t from, int64_t to) {
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

/* The old rows times the exp of their change; item: sums of w (y^2, y h, h^2) with h the change before the
 * rows' new factors, and the largest exponent. */
static void NAME(lane_move)(const NAME(job) * job, const fdp_node *node, int64_t from, int64_t to,
                            double *item) {
    const int64_t cells = node->cells, step = NAME(tile_rows)(node);
    const REAL *ratio = job->work->ratio;
    const fdp_target *goal = node->local == FDP_LOCAL_DIRECT ? job->targets + node->direct : NULL;
    const double *local = NAME(local_of)(job, node);
    double *message = job->work->message + node->row_at, *rowsum = job->out->rowsum + node->row_at;
    double factor[MOST_ROWS], most = 0, squares = 0, reach = 0, flat[2] = {0, 0};
    NAME(pace) pace = job->pace;
    if (goal) pace.precision = (REAL)goal->precision;
    for (int64_t l = 0; l < node->n_links; l++) reach += job->work->reach[node->first_hosted + l];
    for (int64_t j = from; j < to; j += step) {
        const int64_t rows = FDP_MIN(step, to - j), n = rows * cells, at = node->table + j * cells;
        const REAL *z = (REAL *)job->from->cells + at;
        REAL *block = (REAL *)job->out->cells + at, *x = job->x + at;
        const REAL *target = goal ? (const REAL *)goal->target + j * cells : NULL;
        const REAL *weight = goal && goal->weight ? (const REAL *)goal->weight + j * cells : NULL;
        double largest = 0;
        NAME(factors)(job, node, job->from, j, rows, factor);
        NAME(tile_scale)(rows, cells, factor, z, block);
        if (goal)
            largest = NAME(tile_direct)(n, pace, z, target, weight, x, block, &squares);
        else if (pace.average > 0)
            NAME(tile_average)(n, pace.average, block, x);
        if (node->local == FDP_LOCAL_DENSE)
            largest = NAME(tile_grow)(n, local + j * cells, block);
        else if (node->local == FDP_LOCAL_SPARSE)
            for (int64_t r = 0; r < rows; r++)
                for (int64_t k = node->local_row[j + r]; k < node->local_row[j + r + 1]; k++) {
                    block[r * cells + node->local_cell[k]] *= EXP((REAL)local[k]);
                    largest = FDP_MAX(largest, local[k]);
                }
        for (int64_t l = 0; l < node->n_links; l++) {
            const fdp_link *link = node->links + l;
            NAME(tile_mul)(rows, cells, ratio + link->at, link, link->base ? link->base + j : NULL, block);
        }
        if (!goal || node->n_links) NAME(tile_floor)(n, z, block);
        if (goal)
            NAME(tile_weigh)(rows, cells, pace, factor, z, target, weight, x, block, rowsum + j,
                             job->work->rows + (goal->row_at + j) * FDP_DIRECT_ROW, flat);
        else
            NAME(tile_sum)(rows, cells, block, rowsum + j);
        if (!(largest <= most)) most = largest;
        const double *mass = node->separator >= 0 ? job->from->m + node->separator + j : &job->total;
        log_shares(rows, rowsum + j, mass, (double)TINY * (double)cells, message + j);
    }
    item[0] = squares, item[1] = flat[0], item[2] = flat[1], item[3] = most + reach;
}

/* Marginals that rows [from, to) of a node give: of links [first, last), and with link 0 the node's own.
 * sums: what the direct rows' sums of w y g and w g^2 grow by, now that factors are known:
 * g = f e - z = h + (f - 1) e. */
static void NAME(lane_down)(const NAME(job) * job, const fdp_node *node, int64_t from, int64_t to,
                            int64_t first, int64_t last, double *private_buffer, double *sums) {
    const int64_t cells = node->cells, step = NAME(tile_rows)(node);
    const int direct = job->kind == MOVE && node->local == FDP_LOCAL_DIRECT;
    const int32_t local = first == 0 ? node->local : FDP_LOCAL_NONE;
    double factor[MOST_ROWS], *m = job->out->m;
    if (first == 0) sums[0] = sums[1] = 0;
    for (int64_t l = 0; l < first; l++) private_buffer += own_sums(node, l);
    double *end = private_buffer;
    for (int64_t l = first; l < last; l++) end += own_sums(node, l);
    memset(private_buffer, 0, (size_t)(end - private_buffer) * sizeof(double));
    if (!(direct && first == 0) && local != FDP_LOCAL_DENSE && local != FDP_LOCAL_SPARSE && first == last)
        return;
    for (int64_t j = from; j < to; j += step) {
        const int64_t rows = FDP_MIN(step, to - j);
        const REAL *block = (REAL *)job->out->cells + node->table + j * cells;
        NAME(factors)(job, node, job->out, j, rows, factor);
        if (direct && first == 0) {
            const double *row = job->work->rows + (job->targets[node->direct].row_at + j) * FDP_DIRECT_ROW;
            for (int64_t r = 0; r < rows; r++, row += FDP_DIRECT_ROW) {
                const double more = factor[r] - 1;
                sums[0] += more * row[0];
                sums[1] += 2 * more * row[1] + more * more * row[2];
            }
        } else if (local == FDP_LOCAL_DENSE) {
            double *own = m + node->local_at + j * cells;
            for (int64_t r = 0; r < rows; r++)
                for (int64_t i = 0; i < cells; i++) own[r * cells + i] = factor[r] * block[r * cells + i];
        } else if (local == FDP_LOCAL_SPARSE) {
            for (int64_t r = 0; r < rows; r++)
                for (int64_t k = node->local_row[j + r]; k < node->local_row[j + r + 1]; k++)
                    m[node->local_at + k] = factor[r] * block[r * cells + node->local_cell[k]];
        }
        double *next_buffer = private_buffer;
        for (int64_t l = first; l < last; l++) {
            const fdp_link *link = node->links + l;
            const int64_t own = own_sums(node, l);
            NAME(tile_project)(rows, cells, block, factor, link, link->base ? link->base + j : NULL,
                               own ? next_buffer : m + link->at);
            next_buffer += own;
        }
    }
}

/* The messages that arrived in a hosted table and in those inside it, as what its host is combined with:
 * potentials to add, or ratios to multiply by. */
static void NAME(hosted_up)(const NAME(job) * job, int64_t number) {
    const fdp_work *work = job->work;
    const fdp_hosted *hosted = job->tree->hosted + number;
    const int64_t at = hosted->at;
    REAL *ratio = (REAL *)work->ratio + at;
    for (int64_t f = hosted->first_fold; f < hosted->first_fold + hosted->n_folds; f++)
        fold_up(job->tree->folds + f, work->up);
    if (job->kind == INFER) {
        NAME(tile_load)(hosted->size, work->up + at, ratio);
    } else {
        double part[3];
        NAME(tile_ratio)(hosted->size, work->up + at, job->from->m + at, ratio, part);
        work->reach[number] = NAME(tile_rescale)(hosted->size, 1, part, part, ratio);
    }
}

/* The same for a piece of a table, in which the tables inside have got their messages: what it is up to its
 * scale, and, with what the other pieces came to, the scale. */
static void NAME(ratio_piece)(const NAME(job) * job, int64_t number) {
    const fdp_work *work = job->work;
    const fdp_piece *piece = job->tree->ratios + number;
    const fdp_hosted *hosted = job->tree->hosted + piece->first;
    const int64_t at = hosted->at + piece->from, size = piece->to - piece->from;
    REAL *ratio = (REAL *)work->ratio + at;
    for (int64_t f = hosted->first_fold; f < hosted->first_fold + hosted->n_folds; f++)
        if (job->tree->folds[f].host_at == hosted->at)
            fold_some(job->tree->folds + f, piece->from, piece->to, work->up);
    if (job->kind == INFER)
        NAME(tile_load)(size, work->up + at, ratio);
    else
        NAME(tile_ratio)(size, work->up + at, job->from->m + at, ratio, work->parts + 3 * number);
}

static void NAME(rescale_piece)(const NAME(job) * job, int64_t number) {
    const fdp_work *work = job->work;
    const fdp_piece *piece = job->tree->ratios + number;
    const fdp_hosted *hosted = job->tree->hosted + piece->first;
    const double reach =
        NAME(tile_rescale)(piece->to - piece->from, hosted->n_pieces, work->parts + 3 * hosted->first_piece,
                           work->parts + 3 * number, (REAL *)work->ratio + hosted->at + piece->from);
    if (piece->from == 0) work->reach[piece->first] = reach;
}

static void NAME(slice_up)(const NAME(job) * job, int64_t number) {
    const fdp_slice *slice = job->tree->up + number;
    const fdp_node *node = job->tree->nodes + slice->node;
    if (job->kind == INFER)
        NAME(lane_infer)(job, node, slice->from, slice->to);
    else if (job->kind == ADOPT)
        NAME(lane_adopt)(job, node, slice->from, slice->to);
    else if (job->kind == NORMALISE)
        NAME(lane_normalise)(job, node, slice->from, slice->to);
    else
        NAME(lane_move)(job, node, slice->from, slice->to, job->work->up_sums + number * UP_SUMS);
}

/* A lane, or where lanes are divided one link of it. */
static void NAME(slice_down)(const NAME(job) * job, int64_t i) {
    const fdp_run run = job->tree->stages[job->stage].down;
    const int64_t number = run.first + i / job->divided, link = i % job->divided;
    const fdp_slice *slice = job->tree->down + number;
    const fdp_node *node = job->tree->nodes + slice->node;
    const int64_t last = job->divided > 1 ? FDP_MIN(link + 1, node->n_links) : node->n_links;
    if (link > 0 && link >= node->n_links) return;
    NAME(lane_down)(job, node, slice->from, slice->to, link, last,
                    job->work->buffer + node->buffer_at + slice->lane * node->lane_buffer,
                    job->work->down_sums + 2 * number);
}

/* Piece i of a stage's list for that loop. */
static void NAME(piece)(void *ctx, int64_t loop, int64_t i) {
    const NAME(job) *job = ctx;
    const fdp_tree *tree = job->tree;
    const fdp_work *work = job->work;
    const fdp_stage *stage = tree->stages + job->stage;
    i += loop == COPY || loop == RATIOS || loop == DOWN ? 0 : run_of(stage, loop).first;
    if (loop == COPY) {
        const size_t bytes = (size_t)FDP_MIN(PIECE, tree->shared - i * PIECE) * sizeof(double);
        if (job->change) memcpy(work->up + i * PIECE, job->change + i * PIECE, bytes);
        memset(job->out->m + i * PIECE, 0, bytes);
    } else if (loop == INSIDE) {
        folds_inside(tree, tree->hosted + i, work->up);
    } else if (loop == RATIOS && i < stage->hosted.count) {
        if (!tree->hosted[stage->hosted.first + i].n_pieces) NAME(hosted_up)(job, stage->hosted.first + i);
    } else if (loop == RATIOS) {
        NAME(ratio_piece)(job, stage->ratios.first + i - stage->hosted.count);
    } else if (loop == RESCALE) {
        NAME(rescale_piece)(job, i);
    } else if (loop == UP) {
        NAME(slice_up)(job, i);
    } else if (loop == DELIVER) {
        deliver(tree, tree->deliveries + i, work->message, work->up);
    } else if (loop == DOWN) {
        NAME(slice_down)(job, i);
    } else if (loop == GATHER) {
        gather_lanes(tree, tree->gathers + i, work->buffer, job->out->m);
    } else {
        folds_down(tree, tree->hosted + i, job->out->m);
    }
}

/* The next loop of a pass: up from the deepest stage, down from the roots. */
static int NAME(advance)(NAME(job) * job) {
    const fdp_tree *tree = job->tree;
    if (job->loop < DELIVER || (job->loop > DELIVER && job->loop < FOLDS)) {
        job->loop++;
    } else if (job->loop == DELIVER && job->stage > 0) {
        job->stage--;
        job->loop = INSIDE;
    } else if (job->loop == DELIVER) {
        const int messages = job->kind == INFER || job->kind == MOVE;
        if (messages) job->code = arrive_at_roots(tree, job->work->message, &job->log_z);
        job->loop = DOWN;
        if (job->kind == NORMALISE || job->code != FDP_OK) return 0;
    } else {
        job->stage++;
        job->loop = DOWN;
    }
    return job->stage < tree->n_stages;
}

/* Pieces of the loop that the pass has come to. */
static int64_t NAME(pieces)(NAME(job) * job, const fdp_stage *stage) {
    job->divided = 1;
    if (!takes_part(job->kind, stage, job->loop)) return 0;
    if (job->loop == DOWN && job->many && stage->large) job->divided = links_of(job->tree, stage);
    return run_of(stage, job->loop).count * job->divided + (job->loop == RATIOS ? stage->ratios.count : 0);
}

/* The next loop that threads share; what is small is done here, by one of them. */
static int64_t NAME(plan)(void *ctx, int64_t *loop) {
    NAME(job) *job = ctx;
    const fdp_tree *tree = job->tree;
    if (job->loop == BEGIN) {
        *loop = job->loop = COPY;
        if (job->kind != NORMALISE && tree->shared) return (tree->shared + PIECE - 1) / PIECE;
    }
    while (NAME(advance)(job)) {
        const fdp_stage *stage = tree->stages + job->stage;
        const int64_t pieces = NAME(pieces)(job, stage);
        const int shared = stage->large && (job->loop != INSIDE || cells_inside(tree, stage) > FEW_CELLS);
        *loop = job->loop;
        if (shared && pieces) return pieces;
        for (int64_t i = 0; i < pieces; i++) NAME(piece)(job, job->loop, i);
    }
    return 0;
}

static int NAME(run)(NAME(job) * job, fdp_team *team) {
    const fdp_tree *tree = job->tree;
    job->stage = tree->n_stages - 1;
    job->loop = BEGIN;
    const int threads = tree->large ? fdp_team_worth(team, tree->large) : 1;
    job->many = threads > MANY;
    fdp_team_steps(team, threads, FDP_TEAM_BLOCK, NAME(plan), NAME(piece), job);
    return job->code;
}

int NAME(infer)(const fdp_tree *tree, const double *theta, double total, fdp_team *team, const fdp_work *work,
                const fdp_state *out, double *log_z) {
    NAME(job) job = {.kind = INFER, .tree = tree, .change = theta, .total = total, .work = work, .out = out};
    const int code = NAME(run)(&job, team);
    *log_z = job.log_z;
    return code;
}

int NAME(adopt)(const fdp_tree *tree, double total, fdp_team *team, const fdp_work *work,
                const fdp_state *state) {
    NAME(job) job = {.kind = ADOPT, .tree = tree, .total = total, .work = work, .out = state};
    return NAME(run)(&job, team);
}

int NAME(normalise)(const fdp_tree *tree, double total, fdp_team *team, const fdp_work *work,
                    const fdp_state *state) {
    NAME(job) job = {.kind = NORMALISE, .tree = tree, .total = total, .work = work, .out = state};
    return NAME(run)(&job, team);
}

int NAME(move)(const fdp_tree *tree, const fdp_target *targets, int64_t n_targets, const double *delta,
               double size, double mix, double total, fdp_team *team, const fdp_work *work,
               const fdp_state *z, double weight, REAL *x, const fdp_state *out, double *sums, int *far,
               double *log_z) {
    NAME(job)
    job = {.kind = MOVE, .tree = tree, .change = delta, .total = total, .work = work, .from = z, .out = out};
    job.targets = targets, job.x = x;
    job.pace = (NAME(pace)){.size = (REAL)size, .mix = (REAL)mix, .average = (REAL)weight};
    const int code = NAME(run)(&job, team);
    *log_z = job.log_z;
    *far = 0;
    for (int64_t i = 0; i < n_targets * FDP_DIRECT_SUM; i++) sums[i] = 0;
    for (int64_t k = 0; k < tree->n_up; k++) {
        const fdp_node *node = tree->nodes + tree->up[k].node;
        const double *slice = work->up_sums + k * UP_SUMS;
        *far |= !(slice[FDP_DIRECT_SUM] <= FAR);
        if (node->local != FDP_LOCAL_DIRECT) continue;
        for (int i = 0; i < FDP_DIRECT_SUM; i++) sums[node->direct * FDP_DIRECT_SUM + i] += slice[i];
    }
    if (*far) return FDP_OK;
    for (int64_t k = 0; k < tree->n_down && code == FDP_OK; k++) {
        const fdp_node *node = tree->nodes + tree->down[k].node;
        if (node->local != FDP_LOCAL_DIRECT) continue;
        sums[node->direct * FDP_DIRECT_SUM + 1] += work->down_sums[2 * k];
        sums[node->direct * FDP_DIRECT_SUM + 2] += work->down_sums[2 * k + 1];
    }
    return code;
}
