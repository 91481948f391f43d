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

#define MOST_VALUES 65536 /* of a feature in a chunk: the lanes' numbers */

/* What the user at work wants next: value[f] of the features f whose mask is set, and near group[l] of level l.
 * which: the `count` features among these; avoids: how many features it avoids values of. */
typedef struct {
    uint16_t value[MOST_FEATURES], mask[MOST_FEATURES], group[MOST_FEATURES];
    uint8_t which[MOST_FEATURES];
    int64_t count, avoids;
} wish;

/* One chunk of n rows. value[i * lanes + f]: row i's value of feature f, in a lane of 16 bits; `lanes` fill words
 * of 64. Values of all features but levels are numbered as they first occur in the chunk. Rows are in several
 * lists by value: one of each feature, then one of each pair of features of which rows may be wanted together,
 * then one of all. Values of all lists share one table: those of list l begin at start[l]; those of pairs
 * follow from their features'. The rows of value v in list l are order[l * n + first[v]] and the there[v] - 1
 * after it: its left[v] unused rows, and some used ones. mine_has[v]: how many rows of the user at work have
 * value v of a feature. */
typedef struct {
    int64_t n, features, single, lists, lanes;
    uint16_t *value;
    uint32_t *order, *mine, *first, *there, *left, *mine_has, *number;
    uint8_t *used;
    int counts; /* whether mine_has is kept for the user at work */
    uint32_t start[MOST_LISTS + 1];
    uint8_t one[MOST_LISTS], other[MOST_LISTS]; /* the features of a list of pairs */
    uint32_t width[MOST_LISTS];                 /* value a * width + b; width 0: they share values */
    uint8_t pair[MOST_FEATURES][MOST_FEATURES]; /* the list of a pair; 0: none */
    wish now;
    stream random;
} chunk;

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

/* The rows of a value of a list. So that to use a row is to count it, used rows stay in lists until they are
 * the larger part. */
static inline uint32_t *rows_of(chunk *c, int64_t list, uint32_t value) {
    uint32_t *rows = c->order + list * c->n + c->first[value];
    if (2 * c->there[value] > 3 * c->left[value]) forget_used(c, rows, value);
    return rows;
}

/* A random unused row, of which there is one. */
static inline uint32_t any_row(chunk *c) {
    const int64_t every = c->lists - 1;
    const uint32_t value = c->start[every], *rows = rows_of(c, every, value);
    for (;;) {
        const uint32_t row = rows[below(next64(&c->random), c->there[value])];
        if (!c->used[row]) return row;
    }
}

/* The value of a pair in list l: where there are many combinations, several share one. */
static inline uint32_t pair_value(const chunk *c, int64_t l, uint32_t a, uint32_t b) {
    if (c->width[l] > 0) return c->start[l] + a * c->width[l] + b;
    const uint64_t both = (uint64_t)a << 32 | b;
    return c->start[l] + (uint32_t)below(mix(both), c->start[l + 1] - c->start[l]);
}

/* The value in list l of a row with these values of features. */
static inline uint32_t value_in(const chunk *c, int64_t l, const uint16_t *value) {
    if (l < c->features) return c->start[l] + value[l];
    return l < c->lists - 1 ? pair_value(c, l, value[c->one[l]], value[c->other[l]]) : c->start[l];
}

/* The values of feature f in the chunk's rows, numbered; returns how many there are. */
static uint32_t number_values(const fdp_deal_plan *plan, int64_t base, chunk *c, int64_t f) {
    const uint32_t *codes = plan->codes + f * plan->rows + base;
    uint16_t *value = c->value + f;
    if (f >= c->single) {
        for (int64_t i = 0; i < c->n; i++) value[i * c->lanes] = (uint16_t)codes[i];
        return plan->size[f];
    }
    uint32_t count = 0;
    for (int64_t i = 0; i < c->n; i++) {
        uint32_t *number = c->number + codes[i];
        if (*number == 0) *number = ++count;
        value[i * c->lanes] = (uint16_t)(*number - 1);
    }
    for (int64_t i = 0; i < c->n; i++) c->number[codes[i]] = 0;
    return FDP_MIN(count, MOST_VALUES);
}

/* Which lists there are, and how many values they have: size[f] of feature f. Returns the number of all. */
static uint32_t lay_out(const uint32_t *size, chunk *c) {
    const int64_t features = c->features;
    const uint64_t most = 2 * (uint64_t)c->n + 1;
    int64_t l = features;
    c->start[0] = 0;
    for (int64_t f = 0; f < features; f++) c->start[f + 1] = c->start[f] + size[f];
    for (int64_t f = 0; f < features; f++)
        for (int64_t g = f + 1; g < features && l < MOST_LISTS - 1; g++) {
            if ((f >= PAIRED && f < c->single) || (g >= PAIRED && g < c->single)) continue;
            c->one[l] = (uint8_t)f;
            c->other[l] = (uint8_t)g;
            c->pair[f][g] = (uint8_t)l;
            const uint64_t cells = (uint64_t)size[f] * size[g];
            c->start[l + 1] = c->start[l] + (uint32_t)FDP_MIN(cells, most);
            c->width[l] = cells <= most ? size[g] : 0;
            l++;
        }
    c->start[l + 1] = c->start[l] + 1;
    c->lists = l + 1;
    return c->start[l + 1];
}

/* The values of all rows in list l. */
static void values_of(const chunk *c, int64_t l, uint32_t *restrict in) {
    const int64_t n = c->n, lanes = c->lanes;
    const int every = l == c->lists - 1, pairs = !every && l >= c->features;
    const uint16_t *restrict a = c->value + (pairs ? c->one[l] : every ? 0 : l);
    const uint16_t *restrict b = c->value + (pairs ? c->other[l] : 0);
    const uint32_t start = c->start[l], width = c->width[l];
    if (every)
        for (int64_t i = 0; i < n; i++) in[i] = start;
    else if (!pairs)
        for (int64_t i = 0; i < n; i++) in[i] = start + a[i * lanes];
    else if (width > 0)
        for (int64_t i = 0; i < n; i++) in[i] = start + a[i * lanes] * width + b[i * lanes];
    else
        for (int64_t i = 0; i < n; i++) in[i] = pair_value(c, l, a[i * lanes], b[i * lanes]);
}

/* Lists of the chunk's rows by value, none used. One list after the other, so that each stays in cache. */
static void make_lists(const fdp_deal_plan *plan, int64_t base, chunk *c) {
    const int64_t n = c->n;
    uint32_t size[MOST_FEATURES];
    for (int64_t f = 0; f < c->features; f++) size[f] = number_values(plan, base, c, f);
    const uint32_t values = lay_out(size, c);
    memset(c->left, 0, sizeof *c->left * values);
    memset(c->mine_has, 0, sizeof *c->mine_has * c->start[c->features]);
    memset(c->used, 0, (size_t)n);
    for (int64_t l = 0; l < c->lists; l++) {
        uint32_t *in = c->mine; /* the rows' values: no row is anybody's yet */
        values_of(c, l, in);
        for (int64_t i = 0; i < n; i++) c->left[in[i]]++;
        for (uint32_t v = c->start[l], sum = 0; v < c->start[l + 1]; v++) {
            c->first[v] = c->there[v] = sum;
            sum += c->left[v];
        }
        for (int64_t i = 0; i < n; i++) c->order[l * n + c->there[in[i]]++] = (uint32_t)i;
        for (uint32_t v = c->start[l]; v < c->start[l + 1]; v++) c->there[v] = c->left[v];
    }
}

/* Draws which features the user wants an earlier value again, and which groups of levels; whether it wants, or
 * avoids, anything. */
static int want(const fdp_deal_plan *plan, chunk *c, int64_t user, uint32_t k, const double *alpha) {
    wish *now = &c->now;
    now->count = now->avoids = 0;
    for (int64_t f = 0; f < c->single; f++) {
        now->mask[f] = 0;
        if (k == 0) continue;
        if (alpha[f] < 0) {
            now->avoids++;
            continue;
        }
        /* FRESH / (FRESH + alpha) * k / (k + alpha), without a division */
        if (unit(next64(&c->random)) * ((FRESH + alpha[f]) * (k + alpha[f])) >= FRESH * k) continue;
        now->mask[f] = UINT16_MAX;
        now->which[now->count++] = (uint8_t)f;
    }
    for (int64_t f = c->single; f < c->features; f++) {
        const int64_t l = f - c->single;
        const double *cut = plan->cuts + l * (FDP_LEVELS + 1);
        const double score = plan->level[l * plan->users + user] +
                             plan->spread[l] * plan->scores[next64(&c->random) >> (64 - FDP_SCORES)];
        uint16_t g = 0;
        while (g + 1 < FDP_LEVELS && score >= cut[g + 1]) g++;
        now->group[l] = (uint16_t)FDP_MIN(g, plan->size[f] - 1);
        now->value[f] = now->group[l];
        now->which[now->count++] = (uint8_t)f;
    }
    return now->count + now->avoids > 0;
}

/* The wanted values are those of one of the user's k rows. */
static void want_like(chunk *c, uint32_t k) {
    wish *now = &c->now;
    const uint16_t *like = c->value + (int64_t)c->mine[below(next64(&c->random), k)] * c->lanes;
    memcpy(now->value, like, sizeof *like * (size_t)c->lanes);
    for (int64_t f = c->single; f < c->features; f++) now->value[f] = now->group[f - c->single];
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
    const wish *now = &c->now;
    const found none = {every, c->start[every], c->left[c->start[every]] + 1};
    out[0] = out[1] = none;
    for (int64_t i = now->count - 2; i >= 0; i--)
        for (int64_t j = now->count - 1; j > i; j--) {
            const uint8_t f = now->which[i], g = now->which[j], l = c->pair[f][g];
            if (l == 0) continue;
            const uint32_t value = pair_value(c, l, now->value[f], now->value[g]);
            keep_shorter(c, l, value, out + 1);
            if (f == lead || g == lead) keep_shorter(c, l, value, out);
        }
    for (int64_t i = now->count - 1; i >= 0; i--) {
        const uint8_t f = now->which[i];
        const uint32_t value = c->start[f] + now->value[f];
        keep_shorter(c, f, value, out + 1);
        if (f == lead && out[0].list == every) keep_shorter(c, f, value, out);
    }
}

/* How many of the four lanes differ from zero. */
static inline uint32_t lanes_not_zero(uint64_t x) {
    const uint64_t low = 0x7FFF7FFF7FFF7FFFull, some = (((x & low) + low) | x) >> 15 & 0x0001000100010001ull;
    return (uint32_t)(some * 0x0001000100010001ull >> 48);
}

/* How far a row is from what is wanted. */
static inline uint32_t apart(chunk *c, uint32_t row, const double *alpha) {
    const uint16_t *value = c->value + (int64_t)row * c->lanes;
    const wish *now = &c->now;
    uint32_t missed = 0, sum = 0;
    for (int64_t lane = 0; lane < c->lanes; lane += 4) {
        uint64_t has, wanted, mask;
        memcpy(&has, value + lane, sizeof has);
        memcpy(&wanted, now->value + lane, sizeof wanted);
        memcpy(&mask, now->mask + lane, sizeof mask);
        missed += lanes_not_zero((has ^ wanted) & mask);
    }
    for (int64_t f = c->single; f < c->features; f++)
        sum += (uint32_t)abs((int)value[f] - (int)now->value[f]);
    if (now->avoids > 0)
        for (int64_t f = 0; f < c->single; f++) {
            if (alpha[f] >= 0) continue;
            double part = 1.0;
            for (uint32_t has = c->mine_has[c->start[f] + value[f]]; has > 0 && part > 1e-9; has--)
                part *= -alpha[f];
            if (part < 1.0 && unit(next64(&c->random)) >= part) sum += 2 * MISSED;
        }
    return sum + MISSED * missed;
}

/* The best row so far, and how far it is from what is wanted. */
typedef struct {
    uint32_t row, apart;
} choice;

/* Looks at `candidates` unused rows in a row of a list, at all where it has no more. */
static void look(chunk *c, found in, const double *alpha, int64_t candidates, choice *best) {
    const uint32_t *rows = rows_of(c, in.list, in.value), there = c->there[in.value];
    const int64_t least = FDP_MIN(candidates, (int64_t)c->left[in.value]);
    uint32_t at = (uint32_t)below(next64(&c->random), there);
    for (int64_t seen = 0; seen < least && best->apart > 0;) {
        const uint32_t row = rows[at];
        at = at + 1 < there ? at + 1 : 0;
        if (c->used[row]) continue;
        seen++;
        const uint32_t cost = apart(c, row, alpha);
        if (cost < best->apart) *best = (choice){row, cost};
    }
}

/* The user's next row: what is wanted is drawn, then candidates of short lists are compared. */
static uint32_t next_row(const fdp_deal_plan *plan, chunk *c, int64_t user, uint32_t k, const double *alpha) {
    if (!want(plan, c, user, k, alpha)) return any_row(c);
    const int64_t candidates = plan->candidates;
    choice best = {0, UINT32_MAX};
    for (uint32_t tried = 0; tried < FDP_MIN(k + 1, (uint32_t)TRIES) && best.apart >= MISSED; tried++) {
        if (k > 0) want_like(c, k);
        found in[2];
        const int64_t lead =
            c->now.count > 0 ? c->now.which[below(next64(&c->random), (uint64_t)c->now.count)] : c->features;
        shortest(c, lead, in);
        look(c, in[1], alpha, candidates / 2, &best);
        look(c, in[0], alpha, candidates - candidates / 2, &best);
    }
    return best.row;
}

/* Row `taken` becomes the user's k-th. */
static void take(chunk *c, uint32_t taken, uint32_t k) {
    const uint16_t *value = c->value + (int64_t)taken * c->lanes;
    for (int64_t l = 0; l < c->lists; l++) c->left[value_in(c, l, value)]--;
    if (c->counts)
        for (int64_t f = 0; f < c->features; f++) c->mine_has[c->start[f] + value[f]]++;
    c->used[taken] = 1;
    c->mine[k] = taken;
}

/* Adds the agreement of the user's k rows to `equal`, and forgets how many rows have each value. */
static void leave(chunk *c, uint32_t k, int64_t *equal) {
    for (int64_t f = 0; f < c->features; f++) {
        const uint16_t *value = c->value + f;
        uint32_t *has = c->mine_has + c->start[f];
        uint64_t pairs = 0;
        for (uint32_t i = 0; i < k; i++) pairs += has[value[c->mine[i] * c->lanes]] - 1;
        if (equal != NULL && k > 1) {
            const uint64_t all = (uint64_t)k * (k - 1);
            const int64_t share = (int64_t)(k < 1u << 21 ? (pairs << 20) / all : ((u128)pairs << 20) / all);
            __atomic_fetch_add(equal + f, share, __ATOMIC_RELAXED);
        }
        for (uint32_t i = 0; i < k; i++) has[value[c->mine[i] * c->lanes]] = 0;
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
        const double *alpha = plan->alpha + of_group;
        int avoids = 0;
        for (int64_t f = 0; f < c->single; f++) avoids |= alpha[f] < 0;
        c->counts = avoids || job->equal != NULL;
        for (uint32_t k = 0; k < plan->wanted[u]; k++) {
            const uint32_t row = next_row(plan, c, u, k, alpha);
            take(c, row, k);
            job->owner[base + row] = (uint32_t)u;
        }
        if (c->counts) leave(c, plan->wanted[u], job->equal == NULL ? NULL : job->equal + of_group);
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

/* Chunks of one thread, each with its arrays in one piece of memory. */
static void deal_work(fdp_team *team, int member, void *ctx) {
    deal_job *job = ctx;
    const fdp_deal_plan *plan = job->plan;
    (void)team, (void)member;
    for (int64_t number; (number = fdp_team_next(&job->next)) < plan->chunks;) {
        /* Codes and owners that a chunk cannot hold are refused before anything is dealt. */
        const size_t n = (size_t)(plan->row_start[number + 1] - plan->row_start[number]);
        if (!fits(plan, number)) {
            atomic_store(&job->status, FDP_ERR_ARGUMENT);
            continue;
        }
        chunk c = {.n = (int64_t)n, .features = plan->features, .single = plan->features - plan->levels};
        c.lanes = (plan->features + 3) / 4 * 4;
        /* Room for the most values that lists may have: a feature has no more than the chunk has rows. */
        uint32_t size[MOST_FEATURES], codes = 0;
        for (int64_t f = 0; f < plan->features; f++) {
            size[f] = f < c.single ? (uint32_t)FDP_MIN(plan->size[f], n) : plan->size[f];
            if (f < c.single) codes = FDP_MAX(codes, plan->size[f]);
        }
        const size_t values = lay_out(size, &c), lists = (size_t)c.lists, lanes = (size_t)c.lanes;
        uint32_t *room = malloc(sizeof *room * ((lists + 1) * n + 4 * values + codes) + (2 * lanes + 1) * n);
        if (room == NULL) {
            atomic_store(&job->status, FDP_ERR_MEMORY);
            continue;
        }
        /* Arrays over rows, over values, over codes; then two bytes for each lane and one for each row. */
        c.order = room;
        c.mine = c.order + lists * n;
        c.first = c.mine + n;
        c.there = c.first + values;
        c.left = c.there + values;
        c.mine_has = c.left + values;
        c.number = c.mine_has + values;
        c.value = (uint16_t *)(c.number + codes);
        c.used = (uint8_t *)(c.value + lanes * n);
        memset(c.number, 0, sizeof *c.number * codes);
        memset(c.value, 0, sizeof *c.value * lanes * n);
        deal_chunk(job, number, &c);
        free(room);
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
