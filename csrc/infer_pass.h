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
    /* Stages of which these loops are done on the way down, and which the step under way adds; the first of
     * its pieces that gather, fold tables without sums of lanes, and fold those with such sums. */
    int64_t downed, gathered, folded, more, gathers, plain, sums;
} NAME(job);

/* Rows of a tile: as many as fill 8 KiB, so that a tile stays in the nearest cache. */
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

/* Upwards with potentials: each row's cells are exp(sum of potentials - its largest), and its message is
 * the logarithm of their sum. */
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
        /* The first potentials are stored, so that the tile need not be cleared; the others are added. */
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

/* Upwards with cells that are given: sums of the rows. */
static void NAME(lane_adopt)(const NAME(job) * job, const fdp_node *node, int64_t from, int64_t to) {
    NAME(tile_sum)(to - from, node->cells, (REAL *)job->out->cells + node->table + from * node->cells,
                   job->out->rowsum + node->row_at + from);
}

/* Cells and sums of rows become counts: multiplied by what the rows should hold over what they hold. */
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
        /* The tile's old cells as counts, then multiplied by the exponentials of all changes: of its own
         * target, of its local cells, and of the tables that it hosts. */
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

/* Marginals that rows [from, to) of a node give: those of its links and its own. sums: what the direct
 * rows' sums of w y g and w g^2 grow by, now that factors are known: g = f e - z = h + (f - 1) e. */
static void NAME(lane_down)(const NAME(job) * job, const fdp_node *node, int64_t from, int64_t to,
                            double *private_buffer, double *sums) {
    const int64_t cells = node->cells, step = NAME(tile_rows)(node);
    const int direct = job->kind == MOVE && node->local == FDP_LOCAL_DIRECT;
    const int32_t local = node->local;
    double factor[MOST_ROWS], *m = job->out->m;
    sums[0] = sums[1] = 0;
    memset(private_buffer, 0, (size_t)node->lane_buffer * sizeof(double));
    if (!direct && local != FDP_LOCAL_DENSE && local != FDP_LOCAL_SPARSE && !node->n_links) return;
    for (int64_t j = from; j < to; j += step) {
        const int64_t rows = FDP_MIN(step, to - j);
        const REAL *block = (REAL *)job->out->cells + node->table + j * cells;
        NAME(factors)(job, node, job->out, j, rows, factor);
        if (direct) {
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
        /* Tables that it hosts: several lanes may reach the same entries, and such a lane adds up in a
         * buffer of its own. */
        double *next_buffer = private_buffer;
        for (int64_t l = 0; l < node->n_links; l++) {
            const fdp_link *link = node->links + l;
            const int64_t own = own_sums(node, l);
            NAME(tile_project)(rows, cells, block, factor, link, link->base ? link->base + j : NULL,
                               own ? next_buffer : m + link->at);
            next_buffer += own;
        }
    }
}

/* What the host of some entries of a hosted table is combined with: potentials to add, or ratios to multiply
 * by, up to their scale. Tables inside have got their messages. The entries' marginals are cleared. */
static void NAME(ratio_piece)(const NAME(job) * job, int64_t number) {
    const fdp_work *work = job->work;
    const fdp_piece *piece = job->tree->ratios + number;
    const fdp_hosted *hosted = job->tree->hosted + piece->first;
    const int64_t at = hosted->at + piece->from, size = piece->to - piece->from;
    const size_t bytes = (size_t)size * sizeof(double);
    const double *change = work->up + at;
    REAL *ratio = (REAL *)work->ratio + at;
    memset(job->out->m + at, 0, bytes);
    if (!hosted->late && !hosted->n_folds)
        change = job->change + at;
    else
        memcpy(work->up + at, job->change + at, bytes);
    const fdp_piece sent = {hosted->first_sender, hosted->end_sender, piece->from, piece->to};
    deliver(job->tree, &sent, work->message, work->up);
    for (int64_t f = hosted->first_fold; f < hosted->first_fold + hosted->n_folds; f++)
        if (job->tree->folds[f].host_at == hosted->at)
            fold_some(job->tree->folds + f, piece->from, piece->to, job->change, work->up);
    if (job->kind == INFER)
        NAME(tile_load)(size, change, ratio);
    else
        NAME(tile_ratio)(size, change, job->from->m + at, ratio, work->parts + 3 * number);
}

/* Ratios of a piece are brought to the scale of the whole table; its largest exponent is noted once. */
static void NAME(rescale_piece)(const NAME(job) * job, int64_t number) {
    const fdp_work *work = job->work;
    const fdp_piece *piece = job->tree->ratios + number;
    const fdp_hosted *hosted = job->tree->hosted + piece->first;
    const double reach =
        NAME(tile_rescale)(piece->to - piece->from, hosted->n_pieces, work->parts + 3 * hosted->first_piece,
                           work->parts + 3 * number, (REAL *)work->ratio + hosted->at + piece->from);
    if (piece->from == 0) work->reach[piece->first] = reach;
}

/* A lane of the way up, by the kind of the pass. */
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

/* A lane. */
static void NAME(slice_down)(const NAME(job) * job, int64_t number) {
    const fdp_slice *slice = job->tree->down + number;
    const fdp_node *node = job->tree->nodes + slice->node;
    NAME(lane_down)(job, node, slice->from, slice->to,
                    job->work->buffer + node->buffer_at + slice->lane * node->lane_buffer,
                    job->work->down_sums + 2 * number);
}

/* Piece i of a step on the way down. */
static void NAME(piece_down)(const NAME(job) * job, int64_t i) {
    const fdp_tree *tree = job->tree;
    const fdp_stage *stages = tree->stages;
    if (i < job->gathers)
        NAME(slice_down)(job, stages[job->downed].down.first + i);
    else if (i < job->plain)
        gather_lanes(tree, tree->gathers + stages[job->gathered].gathers.first + i - job->gathers,
                     job->work->buffer, job->out->m);
    else if (i < job->sums)
        folds_down(tree, tree->plain + stages[job->gathered].plain.first + i - job->plain, job->out->m);
    else
        folds_down(tree, tree->sums + stages[job->folded].sums.first + i - job->sums, job->out->m);
}

/* Piece i of a loop. */
static void NAME(piece)(void *ctx, int64_t loop, int64_t i) {
    const NAME(job) *job = ctx;
    const fdp_tree *tree = job->tree;
    const fdp_work *work = job->work;
    if (loop == DOWN) {
        NAME(piece_down)(job, i);
        return;
    }
    i += run_of(tree, job->stage, loop).first;
    if (loop == CLEAR) {
        const int64_t size = FDP_MIN(PIECE, tree->shared - i * PIECE);
        memset(job->out->m + i * PIECE, 0, (size_t)size * sizeof(double));
    } else if (loop == COPY) {
        const fdp_piece *piece = tree->copies + i;
        const size_t bytes = (size_t)(piece->to - piece->from) * sizeof(double);
        memcpy(work->up + piece->from, job->change + piece->from, bytes);
    } else if (loop == INSIDE) {
        if (tree->hosted[i].late == (job->stage < tree->n_stages))
            folds_inside(tree, tree->hosted + i, job->change, work->up);
    } else if (loop == RATIOS) {
        NAME(ratio_piece)(job, i);
    } else if (loop == RESCALE) {
        NAME(rescale_piece)(job, i);
    } else if (loop == UP) {
        NAME(slice_up)(job, i);
    } else {
        deliver(tree, tree->deliveries + i, work->message, work->up);
    }
}

/* The next loop of a pass on the way up, from the deepest stage. */
static void NAME(advance)(NAME(job) * job) {
    if (job->loop != DELIVER) {
        job->stage -= job->loop == RESCALE && job->stage == job->tree->n_stages;
        job->loop++;
    } else if (job->stage > 0) {
        job->stage--;
        job->loop = INSIDE;
    } else {
        job->loop = DOWN;
        if (job->kind == INFER || job->kind == MOVE)
            job->code = arrive_at_roots(job->tree, job->work->message, &job->log_z);
    }
}

/* Pieces of the loop that the pass has come to; *shared: several threads are worth it. */
static int64_t NAME(pieces_up)(const NAME(job) * job, int *shared) {
    const fdp_tree *tree = job->tree;
    const int early = job->stage == tree->n_stages;
    const fdp_run run = run_of(tree, job->stage, job->loop);
    *shared = early ? tree->large > 0 : tree->stages[job->stage].large != 0;
    if (!takes_part(job->kind, job->loop)) return 0;
    int64_t few = FEW_CELLS + 1;
    if (job->loop == INSIDE) few = cells_inside(tree, run, !early);
    for (int64_t i = 0; job->loop == COPY && i < run.count; i++)
        few = (i ? few : 0) + tree->copies[i].to - tree->copies[i].from;
    *shared &= few > FEW_CELLS;
    return few ? run.count : 0;
}

/* The next step on the way down: the lanes of the next stage, once what they need of the one above is done,
 * and beside them gathers and folds of the stages whose lanes are done. 0 at the end. */
static int64_t NAME(pieces_down)(NAME(job) * job, int *shared) {
    const fdp_tree *tree = job->tree;
    const fdp_stage *stages = tree->stages;
    int64_t pieces = 0;
    while (pieces == 0) {
        job->folded = job->gathered; /* by the step before */
        job->gathered = job->downed;
        job->downed += job->more;
        if (job->folded == tree->n_stages) return 0;
        const int64_t next = job->downed, needs = next < tree->n_stages ? stages[next].needs : 0;
        job->more = next < tree->n_stages && (needs < 1 || job->gathered == next) &&
                    (needs < 2 || job->folded == next);
        job->gathers = job->more ? stages[next].down.count : 0;
        job->plain = job->gathers, *shared = job->more && stages[next].large;
        for (int64_t k = job->gathered; k < next; k++) job->plain += stages[k].gathers.count;
        job->sums = job->plain;
        for (int64_t k = job->gathered; k < next; k++) job->sums += stages[k].plain.count;
        pieces = job->sums;
        for (int64_t k = job->folded; k < job->gathered; k++) pieces += stages[k].sums.count;
        for (int64_t k = job->folded; k < next; k++) *shared |= stages[k].large != 0;
    }
    return pieces;
}

/* The next step that threads share; what is small is done here, by one of them. */
static int64_t NAME(plan)(void *ctx, int64_t *loop) {
    NAME(job) *job = ctx;
    for (;;) {
        int shared = 0;
        if (job->loop != DOWN) NAME(advance)(job);
        if (job->loop == DOWN && (job->kind == NORMALISE || job->code != FDP_OK)) return 0;
        const int64_t pieces =
            job->loop == DOWN ? NAME(pieces_down)(job, &shared) : NAME(pieces_up)(job, &shared);
        *loop = job->loop;
        if (pieces ? shared : job->loop == DOWN) return pieces;
        for (int64_t i = 0; i < pieces; i++) NAME(piece)(job, job->loop, i);
    }
}

/* The whole pass: from the deepest stage up to the roots, then down again. */
static int NAME(run)(NAME(job) * job, fdp_team *team) {
    const fdp_tree *tree = job->tree;
    job->stage = tree->n_stages;
    job->loop = BEGIN;
    const int threads = tree->large ? fdp_team_worth(team, tree->large) : 1;
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
    /* Sums over the slices, in order. Where a cell grew too far the step is not used, and the sums of
     * the way down are left out. */
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
