/* Urns over lists of rows by value; see deal.h. */
#include "deal.h"
#include "sample_random.h"
#include "team.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FRESH 20.0 /* see deal.h (chosen on flights and simulated trips at epsilon 10) */

/* What a value that is not the wanted one costs, in groups of a level. 3 to 8 on cohorts: chosen between same
 * values, .065, and levels, .17 to .25 of the variance lost. */
#define MISSED 4

/* The first features, and all levels, of whose pairs there are lists. Without them: same values of cohorts
 * .090 in place of .062, and level .38 in place of .19. */
#define PAIRED 5

#define TRIES 4 /* earlier rows that are tried, until a row has all of their values that are wanted */
#define MOST_FEATURES 64
#define MOST_LISTS 128

/* A whole call; threads take chunks from `next`. */
typedef struct {
    const fdp_deal_plan *plan;
    uint32_t *owner;
    int64_t *equal;
    atomic_llong next;
    atomic_int status;
} deal_job;

/* One chunk of n rows. Rows are in several lists by value: one of each feature, then one of each pair of
 * features of which rows may be wanted together, then one of all. Values of all lists share one table:
 * those of list l begin at start[l]. value[i * features + f] is row i's of feature f, and those of pairs
 * follow from it. The rows of value v in list l are order[l * n + first[v]] and the there[v] - 1 after it:
 * its left[v] unused rows, and some used ones. mine_has[v]: how
 * many rows of the user at work have value v of a feature. */
typedef struct {
    int64_t n, features, levels, lists;
    uint32_t *value, *order, *mine, *first, *there, *left, *mine_has, *wanted;
    uint8_t *used;
    uint32_t start[MOST_LISTS + 1];
    uint8_t one[MOST_LISTS], other[MOST_LISTS];   /* the features of a list of pairs */
    uint32_t width[MOST_LISTS], base[MOST_LISTS]; /* value a * width + b - base; width 0: they share values */
    double *share;                                /* [levels, FDP_LEVELS]: of the user at work, cumulated */
    stream random;
} chunk;

#define ANY UINT32_MAX

/* Used rows leave the list of a value. */
static void forget_used(chunk *c, uint32_t *rows, uint32_t value) {
    uint32_t there = 0;
    for (uint32_t i = 0; i < c->there[value]; i++) {
        const uint32_t row = rows[i];
        rows[there] = row;
        there += !c->used[row];
    }
    c->there[value] = there;
}

/* A random unused row that has this value of a list, of which there is one. So that to use a row is to count
 * it, used rows stay in lists until they are the larger part. */
static inline uint32_t any_of(chunk *c, int64_t list, uint32_t value) {
    uint32_t *rows = c->order + list * c->n + c->first[value];
    if (c->there[value] > 2 * c->left[value]) forget_used(c, rows, value);
    for (;;) {
        const uint32_t row = rows[below(next64(&c->random), c->there[value])];
        if (!c->used[row]) return row;
    }
}

/* The value of a pair in list l: where there are many combinations, several share one. */
static inline uint32_t pair_value(const chunk *c, int64_t l, uint32_t a, uint32_t b) {
    if (c->width[l] > 0) return a * c->width[l] + b - c->base[l];
    const uint64_t both = (uint64_t)a << 32 | b;
    return c->start[l] + (uint32_t)below(mix(both), c->start[l + 1] - c->start[l]);
}

/* The value in list l of a row with these values of features. */
static inline uint32_t value_in(const chunk *c, int64_t l, const uint32_t *value) {
    if (l < c->features) return value[l];
    return l < c->lists - 1 ? pair_value(c, l, value[c->one[l]], value[c->other[l]]) : c->start[l];
}

/* The values of all rows in list l. */
static void values_of(const fdp_deal_plan *plan, int64_t base, const chunk *c, int64_t l,
                      uint32_t *restrict in) {
    const int64_t n = c->n;
    const int every = l == c->lists - 1, pairs = !every && l >= c->features;
    const uint32_t *restrict a = plan->codes + (pairs ? c->one[l] : every ? 0 : l) * plan->rows + base;
    const uint32_t *restrict b = plan->codes + (pairs ? c->other[l] : 0) * plan->rows + base;
    const uint32_t start = c->start[l], width = c->width[l];
    if (every)
        for (int64_t i = 0; i < n; i++) in[i] = start;
    else if (!pairs)
        for (int64_t i = 0; i < n; i++) in[i] = start + a[i];
    else if (width > 0)
        for (int64_t i = 0; i < n; i++) in[i] = start + a[i] * width + b[i];
    else
        for (int64_t i = 0; i < n; i++)
            in[i] = pair_value(c, l, c->start[c->one[l]] + a[i], c->start[c->other[l]] + b[i]);
}

/* Lists of the chunk's rows by value, none used. One list after the other, so that each stays in cache. */
static void make_lists(const fdp_deal_plan *plan, int64_t base, chunk *c) {
    const int64_t n = c->n, lists = c->lists, features = c->features;
    memset(c->left, 0, sizeof *c->left * c->start[lists]);
    memset(c->mine_has, 0, sizeof *c->mine_has * c->start[features]);
    memset(c->used, 0, (size_t)n);
    for (int64_t i = 0; i < n; i++)
        for (int64_t f = 0; f < features; f++)
            c->value[i * features + f] = c->start[f] + plan->codes[f * plan->rows + base + i];
    for (int64_t l = 0; l < lists; l++) {
        uint32_t *in = c->mine; /* the rows' values: no row is anybody's yet */
        values_of(plan, base, c, l, in);
        for (int64_t i = 0; i < n; i++) c->left[in[i]]++;
        for (uint32_t v = c->start[l], sum = 0; v < c->start[l + 1]; v++) {
            c->first[v] = c->there[v] = sum;
            sum += c->left[v];
        }
        for (int64_t i = 0; i < n; i++) c->order[l * n + c->there[in[i]]++] = (uint32_t)i;
        for (uint32_t v = c->start[l]; v < c->start[l + 1]; v++) c->there[v] = c->left[v];
    }
}

/* Row `taken` becomes the user's k-th. */
static void take(chunk *c, uint32_t taken, uint32_t k) {
    const uint32_t *value = c->value + (int64_t)taken * c->features;
    for (int64_t l = 0; l < c->lists; l++) c->left[value_in(c, l, value)]--;
    for (int64_t f = 0; f < c->features; f++) c->mine_has[value[f]]++;
    c->used[taken] = 1;
    c->mine[k] = taken;
}

/* Draws of which features the user wants an earlier value again: wanted[f] is then 0, else ANY; of levels,
 * which group it wants. Returns how many features are wanted or avoided. */
static int64_t want(chunk *c, uint32_t k, const double *alpha) {
    const int64_t single = c->features - c->levels;
    int64_t count = 0;
    for (int64_t f = 0; f < single; f++) {
        c->wanted[f] = ANY;
        if (k == 0) continue;
        if (alpha[f] > 0) {
            const double again = FRESH / (FRESH + alpha[f]) * k / (k + alpha[f]);
            if (unit(next64(&c->random)) >= again) continue;
            c->wanted[f] = 0;
        }
        count++;
    }
    for (int64_t f = single; f < c->features; f++, count++) {
        const double *upto = c->share + (f - single) * FDP_LEVELS, at = unit(next64(&c->random));
        uint32_t g = 0;
        while (g + 1 < FDP_LEVELS && at >= upto[g]) g++;
        c->wanted[f] = c->start[f] + FDP_MIN(g, c->start[f + 1] - c->start[f] - 1);
    }
    return count;
}

/* The wanted values are those of one of the user's k rows. */
static void want_like(chunk *c, uint32_t k) {
    const uint32_t *like = c->value + (int64_t)c->mine[below(next64(&c->random), k)] * c->features;
    for (int64_t f = 0; f < c->features - c->levels; f++)
        if (c->wanted[f] != ANY) c->wanted[f] = like[f];
}

typedef struct {
    int64_t list;
    uint32_t value, left;
} found;

/* Keeps the list of the value if it has unused rows, and fewer than the one so far. */
static inline void keep_shorter(const chunk *c, int64_t list, uint32_t value, found *least) {
    const uint32_t left = c->left[value];
    if (left > 0 && left < least->left) *least = (found){list, value, left};
}

/* The lists of fewest unused rows, of all lists by which a row is wanted, and of those with the feature
 * `lead`: lists of pairs with it, else of the feature alone. The list of all rows where there is none. */
static void shortest(const chunk *c, int64_t lead, found out[2]) {
    const int64_t every = c->lists - 1;
    const found none = {every, c->start[every], c->left[c->start[every]] + 1};
    out[0] = out[1] = none;
    for (int64_t l = every - 1; l >= c->features; l--) {
        const uint32_t a = c->wanted[c->one[l]], b = c->wanted[c->other[l]];
        if (a == ANY || b == ANY) continue;
        const uint32_t value = pair_value(c, l, a, b);
        keep_shorter(c, l, value, out + 1);
        if (c->one[l] == lead || c->other[l] == lead || lead == c->features) keep_shorter(c, l, value, out);
    }
    for (int64_t f = c->features - 1; f >= 0; f--) {
        if (c->wanted[f] == ANY) continue;
        keep_shorter(c, f, c->wanted[f], out + 1);
        if (lead == c->features || (f == lead && out[0].list == every)) keep_shorter(c, f, c->wanted[f], out);
    }
}

/* One of the wanted features at random; `features` where none is. */
static int64_t any_wanted(chunk *c) {
    int64_t found = c->features;
    uint64_t count = 0;
    for (int64_t f = 0; f < c->features; f++)
        if (c->wanted[f] != ANY && below(next64(&c->random), ++count) == 0) found = f;
    return found;
}

/* How far a row is from what is wanted; from `least` on, how far is not worked out. */
static uint32_t apart(chunk *c, uint32_t row, const double *alpha, uint32_t least) {
    const uint32_t *value = c->value + (int64_t)row * c->features;
    const int64_t single = c->features - c->levels;
    uint32_t sum = 0;
    for (int64_t f = single; f < c->features; f++)
        sum += value[f] > c->wanted[f] ? value[f] - c->wanted[f] : c->wanted[f] - value[f];
    for (int64_t f = 0; f < single && sum < least; f++) {
        if (alpha[f] < 0) {
            double part = 1.0;
            for (uint32_t has = c->mine_has[value[f]]; has > 0 && part > 1e-9; has--) part *= -alpha[f];
            if (part < 1.0 && unit(next64(&c->random)) >= part) sum += 2 * MISSED;
        } else if (c->wanted[f] != ANY && c->wanted[f] != value[f]) {
            sum += MISSED;
        }
    }
    return sum;
}

/* The best row so far, and how far it is from what is wanted. */
typedef struct {
    uint32_t row, apart;
} choice;

static inline void compare(chunk *c, uint32_t row, const double *alpha, choice *best) {
    const uint32_t cost = apart(c, row, alpha, best->apart);
    if (cost < best->apart) *best = (choice){row, cost};
}

/* Looks at `candidates` rows of a list, at all where it has no more. */
static void look(chunk *c, found in, const double *alpha, int64_t candidates, choice *best) {
    if (c->left[in.value] > candidates) {
        for (int64_t i = 0; i < candidates && best->apart > 0; i++)
            compare(c, any_of(c, in.list, in.value), alpha, best);
        return;
    }
    uint32_t *rows = c->order + in.list * c->n + c->first[in.value];
    forget_used(c, rows, in.value);
    for (uint32_t i = 0; i < c->there[in.value] && best->apart > 0; i++) compare(c, rows[i], alpha, best);
}

/* The user's next row: what is wanted is drawn, then candidates of short lists are compared. */
static uint32_t next_row(chunk *c, uint32_t k, const double *alpha, int64_t candidates) {
    const int64_t every = c->lists - 1;
    if (want(c, k, alpha) == 0) return any_of(c, every, c->start[every]);
    choice best = {0, UINT32_MAX};
    for (uint32_t tried = 0; tried < FDP_MIN(k + 1, (uint32_t)TRIES) && best.apart >= MISSED; tried++) {
        if (k > 0) want_like(c, k);
        found in[2];
        shortest(c, any_wanted(c), in);
        look(c, in[1], alpha, candidates / 2, &best);
        look(c, in[0], alpha, candidates - candidates / 2, &best);
    }
    return best.row;
}

/* Adds the agreement of the user's k rows to `equal`, and forgets the user. */
static void leave(chunk *c, uint32_t k, int64_t *equal) {
    for (int64_t f = 0; f < c->features; f++) {
        uint64_t pairs = 0;
        for (uint32_t i = 0; i < k; i++)
            pairs += c->mine_has[c->value[(int64_t)c->mine[i] * c->features + f]] - 1;
        if (equal != NULL && k > 1) {
            const uint64_t all = (uint64_t)k * (k - 1);
            const int64_t share = (int64_t)(k < 1u << 21 ? (pairs << 20) / all : ((u128)pairs << 20) / all);
            __atomic_fetch_add(equal + f, share, __ATOMIC_RELAXED);
        }
        for (uint32_t i = 0; i < k; i++) c->mine_has[c->value[(int64_t)c->mine[i] * c->features + f]] = 0;
    }
}

/* The part of each group of rows for a user, cumulated: normal scores around its level. */
static void set_levels(const fdp_deal_plan *plan, int64_t user, double *share) {
    for (int64_t l = 0; l < plan->levels; l++) {
        const double *cut = plan->cuts + l * (FDP_LEVELS + 1), mean = plan->level[l * plan->users + user];
        const double scale = sqrt(0.5 / (1.0 - plan->between[l]));
        for (int g = 0; g < FDP_LEVELS; g++) {
            const double upto = g + 1 < FDP_LEVELS ? 0.5 * erfc((mean - cut[g + 1]) * scale) : 1.0;
            share[l * FDP_LEVELS + g] = upto;
        }
    }
}

/* All users of a chunk in turn, each row by row. */
static void deal_chunk(deal_job *job, int64_t number, chunk *c) {
    const fdp_deal_plan *plan = job->plan;
    const int64_t base = plan->row_start[number];
    c->random.state = stream_key(plan->seed, (uint64_t)number, 0, ORDER);
    make_lists(plan, base, c);
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

/* Which lists there are, and how many values they have. */
static size_t lay_out(const fdp_deal_plan *plan, chunk *c) {
    const int64_t features = c->features, single = features - c->levels;
    const uint64_t most = 2 * (uint64_t)c->n + 1;
    int64_t l = features;
    c->start[0] = 0;
    for (int64_t f = 0; f < features; f++) c->start[f + 1] = c->start[f] + plan->size[f];
    for (int64_t f = 0; f < features; f++)
        for (int64_t g = f + 1; g < features && l < MOST_LISTS - 1; g++) {
            if ((f >= PAIRED && f < single) || (g >= PAIRED && g < single)) continue;
            c->one[l] = (uint8_t)f;
            c->other[l] = (uint8_t)g;
            const uint64_t cells = (uint64_t)plan->size[f] * plan->size[g];
            c->start[l + 1] = c->start[l] + (uint32_t)FDP_MIN(cells, most);
            c->width[l] = cells <= most ? plan->size[g] : 0;
            c->base[l] = c->start[f] * c->width[l] + c->start[g] - c->start[l];
            l++;
        }
    c->start[l + 1] = c->start[l] + 1;
    c->lists = l + 1;
    return c->start[l + 1];
}

/* Chunks of one thread, each with its arrays in one piece of memory. */
static void deal_work(fdp_team *team, int member, void *ctx) {
    deal_job *job = ctx;
    const fdp_deal_plan *plan = job->plan;
    const size_t features = (size_t)plan->features;
    (void)team, (void)member;
    for (int64_t number; (number = fdp_team_next(&job->next)) < plan->chunks;) {
        /* Codes and owners that a chunk cannot hold are refused before anything is dealt. */
        const size_t n = (size_t)(plan->row_start[number + 1] - plan->row_start[number]);
        if (!fits(plan, number)) {
            atomic_store(&job->status, FDP_ERR_ARGUMENT);
            continue;
        }
        chunk c = {.n = (int64_t)n, .features = plan->features, .levels = plan->levels};
        const size_t values = lay_out(plan, &c), lists = (size_t)c.lists;
        double *share = malloc(sizeof *share * (size_t)(plan->levels * FDP_LEVELS + 1));
        uint32_t *room = malloc(sizeof *room * ((lists + features + 1) * n + 4 * values + features + 1) + n);
        if (room == NULL || share == NULL) {
            free(room), free(share);
            atomic_store(&job->status, FDP_ERR_MEMORY);
            continue;
        }
        /* Arrays over rows, then over values, then one byte for each row. */
        c.value = room;
        c.order = c.value + features * n;
        c.mine = c.order + lists * n;
        c.first = c.mine + n;
        c.there = c.first + values;
        c.left = c.there + values;
        c.mine_has = c.left + values;
        c.wanted = c.mine_has + values;
        c.used = (uint8_t *)(c.wanted + features + 1);
        c.share = share;
        deal_chunk(job, number, &c);
        free(room), free(share);
    }
}

int fdp_deal(const fdp_deal_plan *plan, int threads, uint32_t *owner, int64_t *equal) {
    if (threads < 1 || plan->chunks < 0 || plan->features < plan->levels || plan->features > MOST_FEATURES ||
        plan->levels < 0)
        return FDP_ERR_ARGUMENT;
    deal_job job = {.plan = plan, .owner = owner, .equal = equal};
    fdp_team_run(threads, deal_work, &job);
    return atomic_load(&job.status);
}
