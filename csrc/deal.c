/* Urns over lists of rows by value; see deal.h. */
#include "deal.h"
#include "sample_random.h"
#include "team.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FRESH 20.0 /* see deal.h (chosen on flights and simulated trips at epsilon 10) */
#define TRIES 6    /* rows that are looked at for one proposal (not tuned) */

typedef struct {
    const fdp_deal_plan *plan;
    uint32_t *start; /* of each feature in the table of values: size + 1 of them, then the next feature's */
    uint32_t *owner;
    int64_t *equal;
    atomic_llong next;
    atomic_int status;
} deal_job;

/* One chunk of n rows. row[i * features + f]: row i's codes, moved to start[f] + code so that all features share
 * one table of values. List f holds the rows by their value of f, the last list (f = features) all rows: order[f
 * * n + place] is a row, place[f * n + row] its place, and next[f * (n + 1) + place] the next unused place at or
 * after this one (a forest with path halving; n: none). first[v] .. first[v + 1] - 1: places of value v; left[v]:
 * how many of them are unused; mine_has[v]: how many rows of the user at work have value v. */
typedef struct {
    int64_t n, features;
    uint32_t *row, *order, *place, *next, *mine, *first, *left, *mine_has;
    uint32_t unused;
    stream random;
    int64_t levels;
    const uint32_t *start;
    double *share; /* [levels, FDP_LEVELS]: of the user at work */
} chunk;

static inline uint32_t unused_place(uint32_t *next, uint32_t place) {
    while (next[place] != place) {
        next[place] = next[next[place]];
        place = next[place];
    }
    return place;
}

/* A random unused row of places first .. last - 1 of a list; n where there is none. */
static inline uint32_t pick(chunk *c, int64_t list, uint32_t first, uint32_t last) {
    uint32_t *next = c->next + list * (c->n + 1);
    uint32_t place = unused_place(next, first + (uint32_t)below(next64(&c->random), last - first));
    if (place >= last) place = unused_place(next, first);
    if (place >= last) return (uint32_t)c->n;
    return list == c->features ? place : c->order[list * c->n + place];
}

/* Lists of the chunk's rows by value, and nothing used. */
static void make_lists(const fdp_deal_plan *plan, int64_t base, const uint32_t *start, chunk *c) {
    const int64_t n = c->n, features = c->features;
    memset(c->first, 0, sizeof *c->first * ((size_t)start[features] + 1));
    for (int64_t f = 0; f < features; f++) {
        const uint32_t *code = plan->codes + f * plan->rows + base;
        uint32_t *count = c->first + start[f], sum = 0;
        for (int64_t i = 0; i < n; i++) count[code[i]]++;
        for (uint32_t v = 0; v < plan->size[f]; v++) {
            const uint32_t here = count[v];
            c->left[start[f] + v] = here;
            count[v] = sum;
            sum += here;
        }
        for (int64_t i = 0; i < n; i++) {
            const uint32_t at = count[code[i]]++; /* ends at the first place of the next value */
            c->order[f * n + at] = (uint32_t)i;
            c->place[f * n + i] = at;
            c->row[i * features + f] = start[f] + code[i];
        }
        for (uint32_t v = 0; v < plan->size[f]; v++) count[v] -= c->left[start[f] + v];
        count[plan->size[f]] = (uint32_t)n;
    }
    for (int64_t f = 0; f <= features; f++)
        for (int64_t i = 0; i <= n; i++) c->next[f * (n + 1) + i] = (uint32_t)i;
    memset(c->mine_has, 0, sizeof *c->mine_has * ((size_t)start[features] + 1));
    c->unused = (uint32_t)n;
}

/* How much better the urns like a row than the proposals do; k: rows of the user so far. */
static double liking(const chunk *c, uint32_t row, uint32_t k, const double *alpha) {
    const uint32_t *value = c->row + (int64_t)row * c->features;
    double urns = 1.0, proposed = k > 0 ? k : 1.0;
    for (int64_t l = 0, f = c->features - c->levels; l < c->levels; l++, f++) {
        const double part = c->share[l * FDP_LEVELS + (value[f] - c->start[f])];
        const double ratio = part * c->unused / c->left[value[f]];
        urns *= ratio;
        proposed += ratio * (k > 0 ? k : 1);
    }
    for (int64_t f = 0; f < c->features - c->levels; f++) {
        if (alpha[f] < 0) {
            proposed += k;
            continue;
        }
        const double t = (double)c->mine_has[value[f]] * c->unused / c->left[value[f]];
        urns *= (FRESH * (t + alpha[f]) / (k + alpha[f]) + alpha[f]) / (FRESH + alpha[f]);
        proposed += t;
    }
    return urns / proposed;
}

/* The part of rows with the row's values that users who avoid them take. */
static double accepted(const chunk *c, uint32_t row, const double *alpha) {
    const uint32_t *value = c->row + (int64_t)row * c->features;
    double part = 1.0;
    for (int64_t f = 0; f < c->features; f++)
        if (alpha[f] < 0)
            for (uint32_t has = c->mine_has[value[f]]; has > 0 && part > 1e-9; has--) part *= -alpha[f];
    return part;
}

/* The same as `pick`, but that rows with avoided values are mostly passed over; how far the row is avoided. */
static uint32_t propose(chunk *c, int64_t list, uint32_t first, uint32_t last, const double *alpha,
                        double *part) {
    uint32_t row = pick(c, list, first, last);
    *part = accepted(c, row, alpha);
    for (int i = 1; i < TRIES && *part < 1.0 && unit(next64(&c->random)) >= *part; i++) {
        row = pick(c, list, first, last);
        *part = accepted(c, row, alpha);
    }
    return row;
}

static uint32_t next_row(chunk *c, uint32_t k, const double *alpha, int64_t candidates) {
    double part;
    uint32_t chosen = propose(c, c->features, 0, (uint32_t)c->n, alpha, &part);
    if ((k == 0 && c->levels == 0) || c->features == 0) return chosen;
    double sum = part * liking(c, chosen, k, alpha);
    for (int64_t i = 1; i < candidates; i++) {
        int64_t f = (int64_t)below(next64(&c->random), (uint64_t)c->features + 1);
        const int64_t single = c->features - c->levels;
        if (f < single && (k == 0 || alpha[f] < 0)) f = c->features;
        uint32_t first = 0, last = (uint32_t)c->n;
        if (f >= single && f < c->features) {
            const double *share = c->share + (f - single) * FDP_LEVELS;
            double at = unit(next64(&c->random));
            uint32_t g = 0;
            while (g + 1 < FDP_LEVELS && (at -= share[g]) >= 0) g++;
            const uint32_t value = c->start[f] + g;
            if (g >= c->start[f + 1] - c->start[f] - 1 || c->left[value] == 0) continue;
            first = c->first[value];
            last = c->first[value + 1];
        } else if (f < c->features) {
            const uint32_t like = c->mine[below(next64(&c->random), k)];
            const uint32_t value = c->row[(int64_t)like * c->features + f];
            if (c->left[value] == 0) continue;
            first = c->first[value];
            last = c->first[value + 1];
        }
        const uint32_t row = propose(c, f, first, last, alpha, &part);
        const double weight = part * liking(c, row, k, alpha);
        sum += weight;
        if (unit(next64(&c->random)) * sum < weight) chosen = row;
    }
    return chosen;
}

static void take(chunk *c, uint32_t row, uint32_t k) {
    for (int64_t f = 0; f < c->features; f++) {
        const uint32_t value = c->row[(int64_t)row * c->features + f], at = c->place[f * c->n + row];
        c->next[f * (c->n + 1) + at] = at + 1;
        c->left[value]--;
        c->mine_has[value]++;
    }
    c->next[c->features * (c->n + 1) + row] = row + 1;
    c->unused--;
    c->mine[k] = row;
}

/* Adds the agreement of the user's k rows to `equal`, and forgets the user. */
static void leave(chunk *c, uint32_t k, int64_t *equal) {
    for (int64_t f = 0; f < c->features; f++) {
        uint64_t pairs = 0;
        for (uint32_t i = 0; i < k; i++)
            pairs += c->mine_has[c->row[(int64_t)c->mine[i] * c->features + f]] - 1;
        if (equal != NULL && k > 1) {
            const int64_t share = (int64_t)(((u128)pairs << 20) / ((uint64_t)k * (k - 1)));
            __atomic_fetch_add(equal + f, share, __ATOMIC_RELAXED);
        }
        for (uint32_t i = 0; i < k; i++) c->mine_has[c->row[(int64_t)c->mine[i] * c->features + f]] = 0;
    }
}

/* The part of each group of rows for a user: normal scores around its level. */
static void set_levels(const fdp_deal_plan *plan, int64_t user, double *share) {
    for (int64_t l = 0; l < plan->levels; l++) {
        const double *cut = plan->cuts + l * (FDP_LEVELS + 1), mean = plan->level[l * plan->users + user];
        const double scale = sqrt(0.5 / (1.0 - plan->between[l]));
        double before = 0.0;
        for (int g = 0; g < FDP_LEVELS; g++) {
            const double upto = g + 1 < FDP_LEVELS ? 0.5 * erfc((mean - cut[g + 1]) * scale) : 1.0;
            share[l * FDP_LEVELS + g] = upto - before;
            before = upto;
        }
    }
}

static void deal_chunk(deal_job *job, int64_t number, const uint32_t *start, chunk *c) {
    const fdp_deal_plan *plan = job->plan;
    const int64_t base = plan->row_start[number];
    c->random.state = stream_key(plan->seed, (uint64_t)number, 0, ORDER);
    make_lists(plan, base, start, c);
    for (int64_t u = plan->user_start[number]; u < plan->user_start[number + 1]; u++) {
        const int64_t of_group = plan->group[u] * plan->features;
        set_levels(plan, u, c->share);
        for (uint32_t k = 0; k < plan->wanted[u]; k++) {
            const uint32_t row = next_row(c, k, plan->alpha + of_group, plan->candidates);
            take(c, row, k);
            job->owner[base + row] = (uint32_t)u;
        }
        leave(c, plan->wanted[u], job->equal == NULL ? NULL : job->equal + of_group);
    }
}

/* The rows wanted by the users of a chunk are its rows, and their groups exist. */
static int fits(const fdp_deal_plan *plan, int64_t number) {
    int64_t wanted = 0;
    for (int64_t u = plan->user_start[number]; u < plan->user_start[number + 1]; u++) {
        if (plan->group[u] >= plan->groups) return 0;
        wanted += plan->wanted[u];
    }
    return wanted == plan->row_start[number + 1] - plan->row_start[number] && wanted < UINT32_MAX;
}

static void deal_work(fdp_team *team, int member, void *ctx) {
    deal_job *job = ctx;
    const fdp_deal_plan *plan = job->plan;
    const size_t features = (size_t)plan->features;
    (void)team, (void)member;
    for (int64_t number; (number = fdp_team_next(&job->next)) < plan->chunks;) {
        const size_t n = (size_t)(plan->row_start[number + 1] - plan->row_start[number]);
        if (!fits(plan, number)) {
            atomic_store(&job->status, FDP_ERR_ARGUMENT);
            continue;
        }
        const size_t values = job->start[features] + 1;
        double *share = malloc(sizeof *share * (size_t)(plan->levels * FDP_LEVELS + 1));
        uint32_t *room =
            malloc(sizeof *room * (3 * features * n + (features + 1) * (n + 1) + n + 3 * values));
        if (room == NULL || share == NULL) {
            free(room), free(share);
            atomic_store(&job->status, FDP_ERR_MEMORY);
            continue;
        }
        chunk c = {.n = (int64_t)n, .features = plan->features, .row = room, .order = room + features * n};
        c.place = c.order + features * n;
        c.next = c.place + features * n;
        c.mine = c.next + (features + 1) * (n + 1);
        c.first = c.mine + n;
        c.left = c.first + values;
        c.mine_has = c.left + values;
        c.levels = plan->levels;
        c.start = job->start;
        c.share = share;
        deal_chunk(job, number, job->start, &c);
        free(room), free(share);
    }
}

int fdp_deal(const fdp_deal_plan *plan, int threads, uint32_t *owner, int64_t *equal) {
    if (threads < 1 || plan->chunks < 0 || plan->features < plan->levels || plan->levels < 0)
        return FDP_ERR_ARGUMENT;
    uint32_t *start = calloc((size_t)plan->features + 1, sizeof *start);
    if (start == NULL) return FDP_ERR_MEMORY;
    for (int64_t f = 0; f < plan->features; f++) start[f + 1] = start[f] + plan->size[f] + 1;
    deal_job job = {.plan = plan, .start = start, .owner = owner, .equal = equal};
    fdp_team_run(threads, deal_work, &job);
    free(start);
    return atomic_load(&job.status);
}
