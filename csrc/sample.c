/* Rows from a directed junction tree, shard by shard.
 *
 * A shard is worked on in the order of its first node's cells, so that every later grouping by a separator is
 * nearly sorted and stays in cache; one random permutation at the end restores an exchangeable order. Per
 * node: number the separator's cell of each row, counting-sort the rows by it (or reuse the last sort), lay
 * out one value per row and group (whole counts in random order, or independent draws), scatter into the
 * columns.
 *
 * The floor for AdaGrid's tree (8 nodes, 10 columns of u8) is 8 random swaps at 3 ns and 10 permuted byte
 * moves at 1 ns a row: 34 ns, or 0.17 s for 10M rows on 2 cores. Reached on 2 cores of a 2.1 GHz Xeon: 0.44 s
 * by rounding (0.76 s of processor time); independent draws (a binary search of 7 steps each) take 1.35 s of
 * processor time. */
#include "sample.h"
#include "room.h"
#include "team.h"
#include "sample_random.h"

#include <stdlib.h>
#include <string.h>

/* A fused multiply-add would make rows depend on the machine: a seed must give the same rows everywhere. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("fp-contract=off")
#else
#pragma STDC FP_CONTRACT OFF
#endif

/* One distribution: the residual's cells within one separator cell. */

typedef struct {
    double total;  /* sum of the (possibly rescaled) weights */
    double factor; /* weights are multiplied by it first; 1 unless the sum would leave the safe range */
    int64_t last;  /* last cell with positive weight */
    const double *p;
} law;

/* The weights of one separator cell; where it has no mass, those of the node over all separator cells. */
static law law_of(const fdp_sample_node *node, int64_t group) {
    law l = {0, 1, -1, node->table + group * node->cells};
    for (int pass = 0; pass < 2; pass++) {
        double sum = 0;
        for (int64_t k = 0; k < node->cells; k++) sum += l.p[k];
        if (!(sum > 1e-250 && sum < 1e250)) { /* tiny, huge or empty: rescale by the largest weight */
            double top = 0;
            for (int64_t k = 0; k < node->cells; k++) top = FDP_MAX(top, l.p[k]);
            if (top <= 0) {
                l.p = node->overall;
                continue;
            }
            l.factor = top < 1e-300 ? 1e300 : 1 / top; /* 1/top would overflow for subnormal weights */
            sum = 0;
            for (int64_t k = 0; k < node->cells; k++) sum += l.p[k] * l.factor;
        }
        l.total = sum;
        break;
    }
    for (int64_t k = node->cells; k-- > 0;)
        if (l.p[k] > 0) {
            l.last = k;
            break;
        }
    return l;
}

/* Whole counts with sum n: cell k gets floor or ceil of n p_k, with mean exactly n p_k (systematic rounding
 * with one random offset u). Written as runs of cell numbers. */
static void round_runs(const law *l, uint32_t n, double u, uint32_t *out) {
    double scale = (double)n / l->total, c = u;
    uint32_t done = 0;
    for (int64_t k = 0; k < l->last && done < n; k++) {
        c += l->p[k] * l->factor * scale;
        uint32_t upto = c < (double)n ? (uint32_t)c : n;
        for (; done < upto; done++) out[done] = (uint32_t)k;
    }
    for (; done < n; done++) out[done] = (uint32_t)l->last;
}

static void independent(const law *l, uint32_t n, stream *s, double *cum, uint32_t *out) {
    double c = 0;
    for (int64_t k = 0; k <= l->last; k++) cum[k] = c += l->p[k] * l->factor;
    for (uint32_t i = 0; i < n; i++) {
        double x = unit(next64(s)) * c;
        out[i] = x < c ? search(cum, l->last + 1, x) : (uint32_t)l->last;
    }
}

/* n things in `count` strata, as even as can be: stratum s is start .. end - 1 with end = ceil((s + 1) n /
 * count). The ends are added up, since a division of 128 bits takes longer than all else in a row. */
typedef struct {
    uint64_t step, rest, count; /* n = step * count + rest */
    uint64_t start, end;
    uint64_t over; /* end * count - (s + 1) n, below count */
} even_cut;

static inline void next_stratum(even_cut *c) {
    c->start = c->end;
    c->end += c->step;
    if (c->rest > c->over) {
        c->end++;
        c->over += c->count;
    }
    c->over -= c->rest;
}

/* Rounding of a node without separator over ALL rows: n equally spaced quantiles, each cell holds floor or
 * ceil of n p_k of them, and each shard takes its share so that its own counts are even too. Full shards take
 * one quantile of every S consecutive ones (a random rotation says which shard takes which), the short last
 * shard one of each of its strata; a random rotation of all quantiles makes every shard's mean exact. Writes
 * this shard's values as runs, cell numbers ascending. */
static void global_runs(const fdp_sample_node *node, const fdp_sample_plan *plan, uint64_t shard,
                        uint32_t rows, uint64_t *bound, uint32_t *count, uint32_t *out) {
    uint64_t n = (uint64_t)plan->rows, m = (uint64_t)plan->shard_rows;
    uint64_t full = n / m, tail = n % m;
    stream offsets = {stream_key(plan->seed, GLOBAL, node->id, OFFSETS)};
    uint64_t strata = stream_key(plan->seed, GLOBAL, node->id, STRATA);
    uint64_t tails = stream_key(plan->seed, GLOBAL, node->id, TAIL);
    double u = unit(next64(&offsets));
    uint64_t turn = below(next64(&offsets), n);

    law l = law_of(node, 0);
    double scale = (double)n / l.total, c = u;
    for (int64_t k = 0; k < node->cells; k++) { /* quantiles bound[k-1] .. bound[k]-1 lie in cell k */
        c += l.p[k] * l.factor * scale;
        bound[k] = k >= l.last || !(c < (double)n) ? n : (uint64_t)c;
        count[k] = 0;
    }

    uint64_t s = 0, next_tail = 0;
    int64_t cell = 0;
    int wrapped = 0;
    even_cut cut = {.step = tail ? n / tail : 0, .rest = tail ? n % tail : 0, .count = tail};
    if (tail) next_stratum(&cut);
    if (tail && shard < full) next_tail = below(mix(tails + GOLDEN), cut.end);
    for (uint64_t t = 0; t < rows; t++) {
        uint64_t q;
        if (shard < full) {
            q = t * full + (shard + below(mix(strata + GOLDEN * (t + 1)), full)) % full;
            while (s < tail && next_tail - s <= q) {
                s++;
                if (s < tail) {
                    next_stratum(&cut);
                    next_tail = cut.start + below(mix(tails + GOLDEN * (s + 1)), cut.end - cut.start);
                }
            }
            q += s;
        } else {
            q = cut.start + below(mix(tails + GOLDEN * (t + 1)), cut.end - cut.start);
            next_stratum(&cut);
        }
        q += turn;
        if (q >= n) {
            q -= n;
            if (!wrapped) {
                wrapped = 1;
                cell = 0;
            }
        }
        while (bound[cell] <= q) cell++;
        count[cell]++;
    }
    for (int64_t k = 0; k < node->cells; k++)
        for (uint32_t i = count[k]; i > 0; i--) *out++ = (uint32_t)k;
}

/* Access to code columns of 1, 2 or 4 bytes per code. */

#define FOR_WIDTH(width, BODY) \
    switch (width) { \
    case 1: { \
        typedef uint8_t code; \
        BODY break; \
    } \
    case 2: { \
        typedef uint16_t code; \
        BODY break; \
    } \
    default: { \
        typedef uint32_t code; \
        BODY \
    } \
    }

/* key = key * size + column */
FDP_CLONES static void add_digit(const void *column, int width, uint32_t size, uint32_t rows,
                                 uint32_t *key){FOR_WIDTH(width,
                                                          {
                                                              const code *v = column;
                                                              for (uint32_t i = 0; i < rows; i++)
                                                                  key[i] = key[i] * size + v[i];
                                                          })}

/* column[order[i]] = decoded value i; order NULL: rows are in order already; decode NULL: the value is the
 * code */
FDP_CLONES static void store(const uint32_t *value, const uint32_t *order, const uint32_t *decode, int step,
                             uint32_t rows, int width, void *column) {
    FOR_WIDTH(width, {
        code *out = column;
        if (!order && !decode)
            for (uint32_t i = 0; i < rows; i++) out[i] = (code)value[i];
        else if (!order)
            for (uint32_t i = 0; i < rows; i++) out[i] = (code)decode[(size_t)value[i] * step];
        else if (!decode)
            for (uint32_t i = 0; i < rows; i++) out[order[i]] = (code)value[i];
        else
            for (uint32_t i = 0; i < rows; i++) out[order[i]] = (code)decode[(size_t)value[i] * step];
    })
}

static void permute(const void *column, const uint32_t *order, uint32_t rows, int width, void *out) {
    FOR_WIDTH(width, {
        const code *v = column;
        code *o = out;
        for (uint32_t i = 0; i < rows; i++) o[i] = v[order[i]];
    })
}

/* One shard. */

typedef struct {
    uint32_t *key, *order, *value; /* one per row */
    uint32_t *start;               /* one per group, and one more */
    uint32_t *count;               /* one per residual cell */
    double *cum;                   /* one per residual cell; bounds of global_runs share it */
    char **column;                 /* one working column per attribute */
    char *room;                    /* all of the above */
    size_t bytes;
} scratch;

/* Hands out the next `bytes` of the room; counts them only, where there is no room yet. */
static void *place(scratch *w, size_t bytes) {
    char *here = w->room ? w->room + w->bytes : NULL;
    w->bytes += (bytes + 63) / 64 * 64;
    return here;
}

/* Places all arrays of a thread one after another, as large as the largest node needs. It runs twice: without
 * a room it only counts the bytes. */
static void lay_out(const fdp_sample_plan *plan, scratch *w) {
    size_t rows = (size_t)FDP_MAX(1, FDP_MIN(plan->rows, plan->shard_rows)), groups = 1, cells = 1;
    for (int j = 0; j < plan->nodes_len; j++) {
        groups = FDP_MAX(groups, (size_t)plan->nodes[j].groups);
        cells = FDP_MAX(cells, (size_t)plan->nodes[j].cells);
    }
    w->bytes = 0;
    w->column = place(w, (size_t)FDP_MAX(1, plan->attributes) * sizeof *w->column);
    w->key = place(w, rows * sizeof *w->key);
    w->order = place(w, rows * sizeof *w->order);
    w->value = place(w, rows * sizeof *w->value);
    w->start = place(w, (groups + 1) * sizeof *w->start);
    w->count = place(w, cells * sizeof *w->count);
    w->cum = place(w, cells * sizeof *w->cum);
    for (int a = 0; a < plan->attributes; a++) {
        char *column = place(w, rows * (size_t)plan->widths[a]);
        if (w->room) w->column[a] = column;
    }
}

static int scratch_make(const fdp_sample_plan *plan, scratch *w) {
    memset(w, 0, sizeof *w);
    lay_out(plan, w);
    w->room = fdp_room(w->bytes);
    if (!w->room) return FDP_ERR_MEMORY;
    lay_out(plan, w);
    return FDP_OK;
}

/* Groups the rows by the node's separator: start[g] .. start[g+1]-1 are the places of group g in `order`.
 * Returns whether the rows were in that order already (then `order` is not written). */
static int group_rows(const fdp_sample_node *node, const fdp_sample_plan *plan, uint32_t rows, scratch *w) {
    memset(w->key, 0, rows * sizeof *w->key);
    for (int i = 0; i < node->sep_len; i++) {
        int a = node->sep[i];
        add_digit(w->column[a], plan->widths[a], plan->sizes[a], rows, w->key);
    }
    uint32_t *start = w->start;
    memset(start, 0, ((size_t)node->groups + 1) * sizeof *start);
    int sorted = 1;
    for (uint32_t i = 0; i < rows; i++) {
        sorted &= i == 0 || w->key[i - 1] <= w->key[i];
        start[w->key[i]]++;
    }
    uint32_t sum = 0;
    for (int64_t g = 0; g <= node->groups; g++) { /* ends first: start[g] is where group g ends */
        sum += start[g];
        start[g] = sum;
    }
    if (sorted) {
        for (int64_t g = node->groups; g > 0; g--) start[g] = start[g - 1];
        start[0] = 0;
    } else { /* filling backwards turns ends into starts and keeps the order within a group */
        for (uint32_t i = rows; i-- > 0;) w->order[--start[w->key[i]]] = i;
    }
    return sorted;
}

/* The cell of each row among the node's new attributes. Without a separator all rows share one law; else each
 * group of rows with equal separator codes has its own. */
static void draw_values(const fdp_sample_node *node, const fdp_sample_plan *plan, uint64_t shard,
                        uint32_t rows, scratch *w) {
    stream s = {stream_key(plan->seed, shard, node->id, VALUES)};
    if (node->sep_len == 0) {
        if (plan->method == FDP_SAMPLE_ROUND) {
            global_runs(node, plan, shard, rows, (uint64_t *)w->cum, w->count, w->value);
            if (!node->first) shuffle(w->value, rows, &s);
            return;
        }
        law l = law_of(node, 0);
        independent(&l, rows, &s, w->cum, w->value);
        if (node->first) { /* the working order: by cell */
            memset(w->count, 0, (size_t)node->cells * sizeof *w->count);
            for (uint32_t i = 0; i < rows; i++) w->count[w->value[i]]++;
            uint32_t *out = w->value;
            for (int64_t k = 0; k < node->cells; k++)
                for (uint32_t i = w->count[k]; i > 0; i--) *out++ = (uint32_t)k;
        }
        return;
    }
    for (int64_t g = 0; g < node->groups; g++) {
        uint32_t *out = w->value + w->start[g], n = w->start[g + 1] - w->start[g];
        if (n == 0) continue;
        law l = law_of(node, g);
        if (plan->method == FDP_SAMPLE_ROUND) {
            round_runs(&l, n, unit(next64(&s)), out);
            shuffle(out, n, &s);
        } else {
            independent(&l, n, &s, w->cum, out);
        }
    }
}

/* One shard: node after node, rows are grouped by the separator and get their new codes. Then all columns are
 * put into one random order, since the working order shows the cells of the first node. */
static void sample_shard(const fdp_sample_plan *plan, uint64_t shard, uint32_t rows, int64_t at, scratch *w,
                         void *const *out) {
    int sorted = 1;
    for (int j = 0; j < plan->nodes_len; j++) {
        const fdp_sample_node *node = &plan->nodes[j];
        if (node->sep_len > 0 && !node->same_sep) sorted = group_rows(node, plan, rows, w);
        draw_values(node, plan, shard, rows, w);
        for (int r = 0; r < node->res_len; r++) {
            int a = node->res[r];
            store(w->value, node->sep_len == 0 || sorted ? NULL : w->order,
                  node->decode ? node->decode + r : NULL, node->res_len, rows, plan->widths[a], w->column[a]);
        }
    }
    stream s = {stream_key(plan->seed, shard, 0, ORDER)};
    for (uint32_t i = 0; i < rows; i++) w->order[i] = i;
    shuffle(w->order, rows, &s);
    for (int a = 0; a < plan->attributes; a++)
        permute(w->column[a], w->order, rows, plan->widths[a], (char *)out[a] + at * plan->widths[a]);
}

typedef struct {
    const fdp_sample_plan *plan;
    int64_t first, count;
    void *const *out;
    atomic_llong next;
    atomic_int code;
} sample_job;

/* Threads take shards; a shard's randomness follows from its number. */
static void sample_work(fdp_team *team, int number, void *ctx) {
    sample_job *job = ctx;
    const fdp_sample_plan *plan = job->plan;
    scratch w;
    const int made = scratch_make(plan, &w);
    (void)team, (void)number;
    if (made != FDP_OK) atomic_store(&job->code, made);
    for (int64_t i; made == FDP_OK && (i = fdp_team_next(&job->next)) < job->count;) {
        int64_t begin = (job->first + i) * plan->shard_rows;
        int64_t rows = FDP_MIN(plan->shard_rows, plan->rows - begin);
        if (rows > 0)
            sample_shard(plan, (uint64_t)(job->first + i), (uint32_t)rows, i * plan->shard_rows, &w,
                         job->out);
    }
    fdp_room_end(w.room, w.bytes);
}

int fdp_sample(const fdp_sample_plan *plan, int64_t first, int64_t count, int threads, void *const *out) {
    sample_job job = {.plan = plan, .first = first, .count = count, .out = out};
    fdp_team_run((int)FDP_MIN(threads, count), sample_work, &job);
    return atomic_load(&job.code);
}
