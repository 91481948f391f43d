/* A chunk of rows and users whose order is made, and what an exchange would do to its sums; part of
 * deal_order.c. */
#ifndef FDP_DEAL_ORDER_CHUNK_H
#define FDP_DEAL_ORDER_CHUNK_H
#include "deal_order.h"
#include "sample_random.h"

#include <string.h>

#define NONE UINT32_MAX
#define FEW 32 /* rows of a user that are looked at one by one: counts of all users would not fit a cache */

typedef struct {
    uint64_t key; /* 0: free */
    uint32_t count;
} cell;

/* One chunk of n rows and its users. sequence[first[u] .. first[u + 1]): rows of user u in order;
 * place[row] and user[row]: where they are. by_time: all rows in order; by_value[p * n ..]: the same,
 * those of one value of pair p's second column together, from value_start[value_at[p] + value] on; alike:
 * the same, rows with the same habits together, from alike_start[alike_of[row]] on. end_time[e]: the first
 * time of end e. cells: how many rows of a user have a value of a feature; distinct: how many values each
 * user has of each feature. many: users of each kind with two rows or more; even: what a step of theirs
 * counts for, so that all count as much as the users. steps, about: sums of pairs, and those before the
 * features'. gap[k]: how far sum k is from its goal; close: see cost; change, touched: what an exchange
 * would do to it. */
typedef struct {
    const fdp_order_plan *plan;
    int64_t base, n, users, sums, steps, about;
    uint32_t *codes, *sequence, *place, *user, *by_time, *by_value, *value_start, *value_at, *first, *group;
    uint64_t *alike_key;
    uint32_t *alike, *alike_of, *alike_start, *end_time;
    const uint32_t *time, *end, *kind;
    cell *cells;
    uint64_t mask, filled;
    double *gap, *close, *near, *change, *even, *many;
    uint32_t *touched, *stamp, *distinct;
    uint32_t touches, now;
    stream random;
} chunk;

static inline const uint32_t *features_of(const chunk *c, uint32_t row) {
    return c->codes + (int64_t)row * c->plan->features;
}

static inline uint32_t this_of(const chunk *c, int64_t p, uint32_t row) {
    return c->plan->this[p * c->plan->rows + c->base + row];
}

static inline uint32_t that_of(const chunk *c, int64_t p, uint32_t row) {
    return c->plan->that[p * c->plan->rows + c->base + row];
}

static inline uint64_t key_of(const chunk *c, uint32_t u, int64_t f, uint32_t value) {
    return ((uint64_t)u * (uint64_t)c->plan->features + (uint64_t)f + 1) << 32 | value;
}

/* The cell of a key, or the free one where it would be. */
static inline cell *look(const chunk *c, uint64_t key) {
    uint64_t at = mix(key) & c->mask;
    while (c->cells[at].key != 0 && c->cells[at].key != key) at = (at + 1) & c->mask;
    return c->cells + at;
}

/* Whether values of a user are counted in cells; of others, by looking at their rows. */
static inline int in_cells(const chunk *c, uint32_t u) {
    return c->first[u + 1] - c->first[u] > FEW;
}

/* How many rows of user u have a value of feature f. */
static inline int64_t count_of(const chunk *c, uint32_t u, int64_t f, uint32_t value) {
    if (in_cells(c, u)) return look(c, key_of(c, u, f, value))->count; /* a free cell counts 0 */
    int64_t count = 0;
    for (uint32_t at = c->first[u]; at < c->first[u + 1]; at++)
        count += features_of(c, c->sequence[at])[f] == value;
    return count;
}

static cell *find(chunk *c, uint32_t u, int64_t f, uint32_t value) {
    const uint64_t key = key_of(c, u, f, value);
    cell *at = look(c, key);
    c->filled += at->key == 0;
    at->key = key;
    return at;
}

/* Counts the values of all users anew; exchanges leave cells behind that nobody needs. */
static void count_values(chunk *c) {
    const int64_t features = c->plan->features;
    memset(c->cells, 0, sizeof *c->cells * (c->mask + 1));
    memset(c->distinct, 0, sizeof *c->distinct * (size_t)(c->users * features));
    c->filled = 0;
    for (uint32_t u = 0; u < c->users; u++)
        for (uint32_t at = c->first[u]; at < c->first[u + 1]; at++) {
            const uint32_t *mine = features_of(c, c->sequence[at]);
            for (int64_t f = 0; f < features; f++) {
                int is_new = 1;
                if (in_cells(c, u))
                    is_new = find(c, u, f, mine[f])->count++ == 0;
                else
                    for (uint32_t i = c->first[u]; i < at && is_new; i++)
                        is_new = features_of(c, c->sequence[i])[f] != mine[f];
                c->distinct[u * features + f] += (uint32_t)is_new;
            }
        }
}

static inline void add(chunk *c, int64_t sum, double by) {
    if (c->stamp[sum] != c->now) {
        c->stamp[sum] = c->now;
        c->change[sum] = 0.0;
        c->touched[c->touches++] = (uint32_t)sum;
    }
    c->change[sum] += by;
}

static inline int64_t bin_of(const chunk *c, uint32_t from, uint32_t to) {
    const uint32_t d = c->time[to] - c->time[from];
    const int64_t bin = d == 0 ? 0 : 32 - __builtin_clz(d);
    return c->steps + FDP_MIN(bin, c->plan->gaps - 1);
}

static inline double share(const chunk *c, uint32_t u) {
    return 1.0 / (double)FDP_MAX(c->first[u + 1] - c->first[u] - 1, 1);
}

/* What the step of user u from one row to the next adds to the sums. */
static inline void add_step(chunk *c, uint32_t u, uint32_t from, uint32_t to, double by) {
    for (int64_t p = 0; p < c->plan->pairs; p++)
        if (this_of(c, p, from) == that_of(c, p, to))
            add(c, p * c->plan->kinds + c->kind[u], by * c->even[c->kind[u]]);
    add(c, bin_of(c, from, to), by * share(c, u));
}

/* What it adds that row `to` comes after row `from` for user u; NONE: no row, so the other is the last or
 * first. */
static inline void add_link(chunk *c, uint32_t u, uint32_t from, uint32_t to, double by) {
    const int64_t ends = c->steps + c->plan->gaps;
    if (from != NONE && to != NONE)
        add_step(c, u, from, to, by);
    else if (to != NONE)
        add(c, ends + c->end[to], by);
    else if (from != NONE)
        add(c, ends + c->plan->ends + c->end[from], by);
}

static inline uint32_t row_at(const chunk *c, uint32_t u, int64_t at) {
    return at < c->first[u] || at >= c->first[u + 1] ? NONE : c->sequence[at];
}

/* What it adds that user u gives the row at place `at` for `new`, which comes where its time says; returns
 * its place. */
static uint32_t add_replaced(chunk *c, uint32_t u, uint32_t at, uint32_t new) {
    uint32_t low = c->first[u], high = c->first[u + 1];
    while (low < high) {
        const uint32_t mid = low + (high - low) / 2;
        if (c->time[c->sequence[mid]] <= c->time[new])
            low = mid + 1;
        else
            high = mid;
    }
    const uint32_t old = c->sequence[at];
    const uint32_t before = row_at(c, u, (int64_t)at - 1), after = row_at(c, u, (int64_t)at + 1);
    add_link(c, u, before, old, -1.0);
    add_link(c, u, old, after, -1.0);
    if (low == at || low == at + 1) {
        add_link(c, u, before, new, 1.0);
        add_link(c, u, new, after, 1.0);
        return at;
    }
    const uint32_t x = row_at(c, u, (int64_t)low - 1), y = row_at(c, u, low);
    add_link(c, u, before, after, 1.0);
    add_link(c, u, x, y, -1.0);
    add_link(c, u, x, new, 1.0);
    add_link(c, u, new, y, 1.0);
    return low > at ? low - 1 : low;
}

/* What it does to the agreement of user u's rows, and to its number of values, that it gives one row for
 * another. */
static void add_agreement(chunk *c, uint32_t u, uint32_t old, uint32_t new) {
    const double n = c->first[u + 1] - c->first[u];
    if (n < 2) return;
    for (int64_t f = 0; f < c->plan->features; f++) {
        const uint32_t a = features_of(c, old)[f], b = features_of(c, new)[f];
        if (a == b) continue;
        const int64_t have = count_of(c, u, f, b), left = count_of(c, u, f, a) - 1;
        const int64_t sum = c->about + 2 * (c->group[u] * c->plan->features + f);
        add(c, sum, 2.0 * (double)(have - left) / (n * (n - 1)));
        const uint32_t distinct = c->distinct[u * c->plan->features + f];
        /* sums of 1 + 1/2 + ... + 1/distinct */
        if (have == 0 && left > 0) add(c, sum + 1, 1.0 / (distinct + 1.0));
        if (have > 0 && left == 0) add(c, sum + 1, -1.0 / distinct);
    }
}

#endif
