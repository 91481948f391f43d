/* Exchanges rows between users until they follow each other as they should; see deal_order.h. */
#include "deal_order_chunk.h"
#include "team.h"

#include <math.h>
#include <stdlib.h>

#define NEAR_ENOUGH 0.002 /* of the users: how far from its goal a sum may be when exchanges end */
#define CLOSE 0.01 /* of the users: distances beyond count in proportion (as ANY: Chicago, chained trips) */
#define LEAST_ALIKE 8.0 /* rows in a list of rows that are alike, on average (4 and 16 give the same) */
#define DIGIT 11        /* bits of time that are sorted at once */

/* Of so many rows that are proposed, one need not follow the row before it (chosen on Chicago and chained
 * trips). */
#define ANY 3

/* A whole call; threads take chunks from `next`. */
typedef struct {
    const fdp_order_plan *plan;
    uint32_t *owner;
    int64_t *sequence, *before, *after;
    atomic_llong next;
    atomic_int status;
} order_job;

/* A random row of list[from .. to), which is in order of time, whose time is low to high; n where none is. */
static uint32_t within(chunk *c, const uint32_t *list, uint32_t from, uint32_t to, uint32_t low,
                       uint32_t high) {
    uint32_t a = from, b = to;
    while (a < b) {
        const uint32_t mid = a + (b - a) / 2;
        if (c->time[list[mid]] < low)
            a = mid + 1;
        else
            b = mid;
    }
    uint32_t e = a;
    b = to;
    while (e < b) {
        const uint32_t mid = e + (b - e) / 2;
        if (c->time[list[mid]] <= high)
            e = mid + 1;
        else
            b = mid;
    }
    return e > a ? list[a + (uint32_t)below(next64(&c->random), e - a)] : (uint32_t)c->n;
}

/* How much is missing from a sum, beyond what is near enough. */
static inline double missing(const chunk *c, int64_t sum) {
    const double m = -c->gap[sum] - c->near[sum];
    return m > 0.0 ? m : 0.0;
}

/* One of `count` sums from `first` on, each `step` after the other, by how much is missing; -1 where
 * nothing is. */
static int64_t needed(chunk *c, int64_t first, int64_t step, int64_t count) {
    double all = 0.0;
    for (int64_t k = 0; k < count; k++) all += missing(c, first + k * step);
    if (all == 0.0) return -1;
    double at = unit(next64(&c->random)) * all;
    int64_t found = -1;
    for (int64_t k = 0; k < count && at >= 0.0; k++) {
        const double part = missing(c, first + k * step);
        if (part > 0.0) found = k;
        at -= part;
    }
    return found;
}

typedef struct {
    uint32_t low, high;
} times;

/* Times at which a row after one of time `low` is missing most. */
static times after_gap(chunk *c, times between) {
    const int64_t k = needed(c, c->steps, 1, c->plan->gaps);
    if (k < 0) return between;
    const uint64_t first = between.low + ((uint64_t)1 << k >> 1), last = between.low + ((uint64_t)1 << k) - 1;
    return (times){(uint32_t)FDP_MIN(first, UINT32_MAX), (uint32_t)FDP_MIN(last, UINT32_MAX)};
}

/* Times of which first (`side` 0) or last (1) rows are missing most. */
static times of_end(chunk *c, int64_t side, times between) {
    const int64_t e = needed(c, c->steps + c->plan->gaps + side * c->plan->ends, 1, c->plan->ends);
    if (e < 0) return between;
    return (times){c->end_time[e], c->end_time[e + 1] - (c->end_time[e + 1] > c->end_time[e])};
}

/* 1 where a sum is larger than it should be, -1 where it is smaller, 0 where it is near enough. */
static inline int beyond(const chunk *c, int64_t sum) {
    return (c->gap[sum] > c->near[sum]) - (c->gap[sum] < -c->near[sum]);
}

/* Whether some sum is larger than it should be because of this row, or rows should follow it in other
 * ways. */
static int in_surplus(const chunk *c, uint32_t u, uint32_t before, uint32_t row, uint32_t after) {
    const int64_t ends = c->steps + c->plan->gaps;
    for (int64_t p = 0; p < c->plan->pairs; p++)
        if (beyond(c, p * c->plan->kinds + c->kind[u]) != 0) return 1;
    if (beyond(c, before == NONE ? ends + c->end[row] : bin_of(c, before, row)) > 0) return 1;
    return beyond(c, after == NONE ? ends + c->plan->ends + c->end[row] : bin_of(c, row, after)) > 0;
}

/* A row to have in place of `row`, of a time when one is missing: one that follows from the row before, or
 * (one in ANY, or where rows need not follow) one with the same habits. n where none is found. */
static uint32_t propose(chunk *c, uint32_t row) {
    const uint32_t u = c->user[row], at = c->place[row];
    const uint32_t before = row_at(c, u, (int64_t)at - 1), after = row_at(c, u, (int64_t)at + 1);
    if (!in_surplus(c, u, before, row, after)) return (uint32_t)c->n;
    times when = {before == NONE ? 0 : c->time[before], after == NONE ? UINT32_MAX : c->time[after]};
    const uint64_t how = below(next64(&c->random), 2 * ANY);
    if (before == NONE ? how > 0 : after == NONE && how < ANY)
        when = of_end(c, before != NONE, when);
    else if (before != NONE && how > 1)
        when = after_gap(c, when);
    const int follow = before != NONE && c->plan->pairs > 0 && below(next64(&c->random), ANY) > 0;
    const int64_t p = follow ? needed(c, c->kind[u], c->plan->kinds, c->plan->pairs) : -1;
    if (p >= 0) {
        const uint32_t *start = c->value_start + c->value_at[p] + this_of(c, p, before);
        return within(c, c->by_value + p * c->n, start[0], start[1], when.low, when.high);
    }
    const uint32_t *start = c->alike_start + c->alike_of[row];
    return within(c, c->alike, start[0], start[1], when.low, when.high);
}

/* The square of a distance, beyond `close` its tangent: so that a goal that cannot be reached does not drive
 * others away by much more than that. */
static inline double cost(double distance, double close) {
    const double d = distance < 0 ? -distance : distance;
    return d < close ? d * d : close * (2.0 * d - close);
}

/* How far all sums are from their goals. */
static double distance(const chunk *c) {
    double sum = 0.0;
    for (int64_t k = 0; k < c->sums; k++) sum += cost(c->gap[k], c->close[k]);
    return sum;
}

/* How much worse the sums would be that were touched from the i-th on. */
static double worse_from(const chunk *c, uint32_t i) {
    double worse = 0.0;
    for (; i < c->touches; i++) {
        const uint32_t k = c->touched[i];
        worse += cost(c->gap[k] + c->change[k], c->close[k]) - cost(c->gap[k], c->close[k]);
    }
    return worse;
}

/* Gives user u `new` at place `to` in place of the row at `at`. */
static void put(chunk *c, uint32_t u, uint32_t at, uint32_t to, uint32_t new) {
    for (; at < to; at++) c->place[c->sequence[at] = c->sequence[at + 1]] = at;
    for (; at > to; at--) c->place[c->sequence[at] = c->sequence[at - 1]] = at;
    c->sequence[at] = new;
    c->place[new] = at;
    c->user[new] = u;
}

/* User u has one value `to` of feature f in place of `from`: its number of different values changes with
 * it. */
static void count_change(chunk *c, uint32_t u, int64_t f, uint32_t from, uint32_t to) {
    uint32_t *distinct = c->distinct + u * c->plan->features + f;
    if (in_cells(c, u)) {
        *distinct -= --find(c, u, f, from)->count == 0;
        *distinct += find(c, u, f, to)->count++ == 0;
    } else {
        *distinct -= count_of(c, u, f, from) == 1;
        *distinct += count_of(c, u, f, to) == 0;
    }
}

/* Exchanges two rows of two users if that brings the sums nearer to their goals. */
static void try_exchange(chunk *c, uint32_t a, uint32_t b) {
    const uint32_t u = c->user[a], v = c->user[b], at = c->place[a], of = c->place[b];
    if (u == v) return;
    /* First what it changes in how rows follow each other, which is quick to find; if that helps, also what
     * it changes in agreement. */
    c->touches = 0;
    c->now++;
    const uint32_t b_to = add_replaced(c, u, at, b), a_to = add_replaced(c, v, of, a);
    const uint32_t touches = c->touches;
    const double worse = worse_from(c, 0);
    if (!(worse < -1e-12)) return;
    add_agreement(c, u, a, b);
    add_agreement(c, v, b, a);
    if (!(worse + worse_from(c, touches) < -1e-12)) return;
    /* The exchange: sums, the users' counts of values, and the places of both rows. */
    for (uint32_t i = 0; i < c->touches; i++) c->gap[c->touched[i]] += c->change[c->touched[i]];
    for (int64_t f = 0; f < c->plan->features; f++) {
        const uint32_t x = features_of(c, a)[f], y = features_of(c, b)[f];
        if (x == y) continue;
        count_change(c, u, f, x, y);
        count_change(c, v, f, y, x);
    }
    put(c, u, at, b_to, b);
    put(c, v, of, a_to, a);
    if (c->filled * 2 > c->mask) count_values(c);
}

/* What the steps into and out of places at .. to - 1 of user u add to the sums. */
static void add_run(chunk *c, uint32_t u, uint32_t at, uint32_t to, double by) {
    for (uint32_t i = at > c->first[u] ? at - 1 : at; i < to && i + 1 < c->first[u + 1]; i++)
        add_step(c, u, c->sequence[i], c->sequence[i + 1], by);
}

/* Rows of one user and one time get an order at random: no goal is reached by the order of ties. */
static void shuffle_ties(chunk *c) {
    c->touches = 0;
    c->now++;
    for (uint32_t u = 0; u < c->users; u++)
        for (uint32_t at = c->first[u], to; at < c->first[u + 1]; at = to) {
            const uint32_t time = c->time[c->sequence[at]];
            for (to = at + 1; to < c->first[u + 1] && c->time[c->sequence[to]] == time; to++) {
            }
            if (to == at + 1) continue;
            /* Rows at .. to - 1 are shuffled (Fisher and Yates): their steps leave the sums, and new ones
             * enter. */
            add_run(c, u, at, to, -1.0);
            for (uint32_t left = to - at; left > 1; left--) {
                uint32_t *last = c->sequence + at + left - 1;
                uint32_t *other = c->sequence + at + below(next64(&c->random), left);
                const uint32_t row = *last;
                *last = *other;
                *other = row;
            }
            for (uint32_t i = at; i < to; i++) c->place[c->sequence[i]] = i;
            add_run(c, u, at, to, 1.0);
        }
    for (uint32_t i = 0; i < c->touches; i++) c->gap[c->touched[i]] += c->change[c->touched[i]];
}

/* Adds the sums as they are, in units of 2^-20, to out. */
static void add_sums(chunk *c, int64_t *out) {
    c->touches = 0;
    c->now++;
    for (uint32_t u = 0; u < c->users; u++)
        for (uint32_t at = c->first[u]; at < c->first[u + 1]; at++) {
            const int64_t ends = c->steps + c->plan->gaps;
            if (at + 1 < c->first[u + 1]) add_step(c, u, c->sequence[at], c->sequence[at + 1], 1.0);
            if (at == c->first[u]) add(c, ends + c->end[c->sequence[at]], 1.0);
            if (at + 1 == c->first[u + 1]) add(c, ends + c->plan->ends + c->end[c->sequence[at]], 1.0);
        }
    for (uint32_t i = 0; i < c->touches; i++) {
        const int64_t units = (int64_t)(c->change[c->touched[i]] * 0x1p20);
        __atomic_fetch_add(out + c->touched[i], units, __ATOMIC_RELAXED);
    }
}

/* Sorts by_time, rows of one time as they are: by the digits of times, from the last on. */
static void sort_by_time(chunk *c) {
    uint32_t most = 0, start[(1 << DIGIT) + 1];
    for (int64_t i = 0; i < c->n; i++) most = FDP_MAX(most, c->time[i]);
    for (int shift = 0; shift < 32 && most >> shift > 0; shift += DIGIT) {
        const uint32_t mask = (1 << DIGIT) - 1;
        memset(start, 0, sizeof start);
        for (int64_t i = 0; i < c->n; i++) start[(c->time[i] >> shift & mask) + 1]++;
        for (uint32_t v = 0; v <= mask; v++) start[v + 1] += start[v];
        for (int64_t i = 0; i < c->n; i++) {
            const uint32_t row = c->by_time[i];
            c->alike[start[c->time[row] >> shift & mask]++] = row;
        }
        memcpy(c->by_time, c->alike, sizeof *c->by_time * (size_t)c->n);
    }
}

/* Rows in order of time, and those of each user; ties at random. */
static void put_in_order(chunk *c, const uint32_t *owner, int64_t first_user) {
    /* All rows by time, ties in the order of a shuffle. */
    for (uint32_t i = 0; i < c->n; i++) c->by_time[i] = i;
    shuffle(c->by_time, (uint64_t)c->n, &c->random);
    sort_by_time(c);
    /* In that order each row goes to the next place of its user; first[u] runs to where the next user begins. */
    for (int64_t i = 0; i < c->n; i++) {
        const uint32_t row = c->by_time[i], u = (uint32_t)(owner[row] - first_user);
        c->user[row] = u;
        c->place[row] = c->first[u]++;
        c->sequence[c->place[row]] = row;
    }
    memmove(c->first + 1, c->first, sizeof *c->first * (size_t)c->users);
    c->first[0] = 0;
    /* For each pair the rows by the value that a step may lead to, those of one value by time: a counting
     * sort. */
    for (int64_t p = 0; p < c->plan->pairs; p++) {
        uint32_t *start = c->value_start + c->value_at[p];
        for (uint32_t row = 0; row < c->n; row++) start[that_of(c, p, row) + 1]++;
        for (uint32_t v = 0; v < c->plan->keys[p]; v++) start[v + 1] += start[v];
        for (int64_t i = 0; i < c->n; i++) {
            const uint32_t row = c->by_time[i];
            c->by_value[p * c->n + start[that_of(c, p, row)]++] = row;
        }
        memmove(start + 1, start, sizeof *start * c->plan->keys[p]);
        start[0] = 0;
    }
}

/* Lists of rows that agree in the first features which do not follow from time, as many of them as leave
 * LEAST_ALIKE rows to a list on average. */
static void list_alike(chunk *c) {
    const int64_t n = c->n;
    double lists = 1.0;
    uint64_t *key = (uint64_t *)c->alike_key;
    for (int64_t i = 0; i < n; i++) key[i] = 0;
    for (int64_t f = 0; f < c->plan->features; f++) {
        if (c->plan->timed[f]) continue;
        /* n^2 / sum of squared counts: how many values there would be if all were equally frequent. The
         * feature joins the key if lists stay long enough. */
        memset(c->alike_start, 0, sizeof *c->alike_start * (size_t)(n + 2));
        for (uint32_t i = 0; i < n; i++) c->alike_start[features_of(c, i)[f] % (uint32_t)n]++;
        double same = 0.0;
        for (int64_t v = 0; v < n; v++) same += (double)c->alike_start[v] * c->alike_start[v];
        const double values = (double)n * (double)n / same;
        if (lists * values > (double)n / LEAST_ALIKE) continue;
        lists *= values;
        for (uint32_t i = 0; i < n; i++) key[i] = mix(key[i] + features_of(c, i)[f] + 1);
    }
    /* Each row's list by its key, then the rows of the lists by time: a counting sort. */
    memset(c->alike_start, 0, sizeof *c->alike_start * (size_t)(n + 2));
    for (uint32_t i = 0; i < n; i++) {
        c->alike_of[i] = (uint32_t)below(key[i], (uint64_t)n);
        c->alike_start[c->alike_of[i] + 1]++;
    }
    for (int64_t v = 0; v < n; v++) c->alike_start[v + 1] += c->alike_start[v];
    for (int64_t i = 0; i < n; i++) {
        const uint32_t row = c->by_time[i];
        c->alike[c->alike_start[c->alike_of[row]]++] = row;
    }
    memmove(c->alike_start + 1, c->alike_start, sizeof *c->alike_start * (size_t)n);
    c->alike_start[0] = 0;
}

/* The first time of each end; of the one after the last, all times are over. */
static void list_ends(chunk *c) {
    const int64_t ends = c->plan->ends;
    int64_t e = 0;
    for (int64_t i = 0; i < c->n; i++) {
        const uint32_t row = c->by_time[i];
        for (; e <= c->end[row]; e++) c->end_time[e] = c->time[row];
    }
    for (; e <= ends; e++) c->end_time[e] = UINT32_MAX;
}

/* How far sums are from their goals: all by their cost; gaps, and first and last rows, by distance. */
typedef struct {
    double cost, gaps, ends;
} remaining;

static remaining what_remains(const chunk *c) {
    remaining r = {distance(c), 0.0, 0.0};
    for (int64_t k = c->steps; k < c->steps + c->plan->gaps; k++) r.gaps += fabs(c->gap[k]);
    for (int64_t k = c->steps + c->plan->gaps; k < c->about; k++) r.ends += fabs(c->gap[k]);
    return r;
}

/* Whether some chain has a goal. */
static int has_chains(const fdp_order_plan *plan) {
    for (int64_t k = 0; k < plan->pairs * plan->kinds; k++)
        if (plan->shift[k] != 0.0) return 1;
    return 0;
}

/* Whether another sweep is worth its time; see deal_order.h. */
static int worth(const fdp_order_plan *plan, const remaining *first, const remaining *was,
                 const remaining *now) {
    const double sweeps = (double)plan->tries;
    if (has_chains(plan)) return was->cost - now->cost > plan->least * (first->cost - now->cost);
    return (was->gaps - now->gaps) * sweeps > now->gaps || (was->ends - now->ends) * sweeps > now->ends;
}

/* The users who count in a sum. */
static inline double users_of(const chunk *c, int64_t sum) {
    if (sum < c->steps) return c->many[sum % c->plan->kinds];
    return sum < c->steps + c->plan->gaps ? c->many[c->plan->kinds] : (double)c->users;
}

/* Whether every sum that has a goal is near it. */
static int enough(const chunk *c) {
    for (int64_t k = 0; k < c->about; k++)
        if (c->plan->shift[k] != 0.0 && beyond(c, k) != 0) return 0;
    return 1;
}

/* One chunk: users and their rows in order; goals of the sums; sweeps of exchanges until they are
 * reached or no longer come nearer; then the result is written. */
static void order_chunk(order_job *job, int64_t number, chunk *c) {
    const fdp_order_plan *plan = job->plan;
    const int64_t first_user = plan->user_start[number];
    c->random.state = stream_key(plan->seed, (uint64_t)number, 1, ORDER);
    for (int64_t u = 0; u < c->users; u++) {
        c->first[u + 1] = c->first[u] + plan->wanted[first_user + u];
        c->group[u] = plan->group[first_user + u];
        c->many[c->kind[u]] += plan->wanted[first_user + u] > 1;
        c->even[c->kind[u]] += plan->wanted[first_user + u] - 1.0;
        c->many[plan->kinds] += plan->wanted[first_user + u] > 1;
    }
    for (int64_t k = 0; k < plan->kinds; k++) c->even[k] = c->many[k] / FDP_MAX(c->even[k], 1.0);
    put_in_order(c, job->owner + c->base, first_user);
    add_sums(c, job->before);
    for (int64_t k = 0; k < c->about; k++) c->gap[k] = -plan->shift[k] * users_of(c, k);
    for (int64_t k = 0; k < c->about; k++) c->close[k] = CLOSE * users_of(c, k);
    for (int64_t k = 0; k < c->about; k++) c->near[k] = NEAR_ENOUGH * users_of(c, k);
    for (int64_t u = 0; u < c->users; u++)
        for (int64_t f = 0; f < plan->features; f++)
            for (int64_t k = 0; k < 2; k++)
                c->close[c->about + 2 * (c->group[u] * plan->features + f) + k] +=
                    CLOSE * (plan->wanted[first_user + u] > 1);
    /* What only exchanges need: codes row by row, counts of values, lists of rows to propose. */
    if (plan->tries > 0 && !enough(c)) {
        for (int64_t f = 0; f < plan->features; f++)
            for (int64_t i = 0; i < c->n; i++)
                c->codes[i * plan->features + f] = plan->codes[f * plan->rows + c->base + i];
        count_values(c);
        list_alike(c);
        list_ends(c);
        const remaining first = what_remains(c);
        remaining now = first;
        for (int64_t sweep = 0; sweep < plan->tries; sweep++) {
            for (int64_t t = 0; t < c->n; t++) {
                const uint32_t a = (uint32_t)below(next64(&c->random), (uint64_t)c->n), b = propose(c, a);
                if (b < c->n) try_exchange(c, a, b);
            }
            shuffle_ties(c);
            if (enough(c)) break;
            const remaining was = now;
            now = what_remains(c);
            if (!worth(plan, &first, &was, &now)) break;
        }
    }
    add_sums(c, job->after);
    for (int64_t i = 0; i < c->n; i++) {
        job->sequence[c->base + i] = c->base + c->sequence[i];
        job->owner[c->base + i] = (uint32_t)(first_user + c->user[i]);
    }
}

/* The next `size` bytes of the room; without room only the size is added up. */
static void *take(char *room, size_t *at, size_t size) {
    void *here = room == NULL ? NULL : room + *at;
    *at += (size + 15) / 16 * 16;
    return here;
}

/* The chunk's arrays in one piece of memory, `room`; returns its size. */
static size_t lay_out(chunk *c, char *room) {
    const size_t n = (size_t)c->n, pairs = (size_t)c->plan->pairs, sums = (size_t)c->sums;
    size_t at = 0, values = 0;
    for (size_t p = 0; p < pairs; p++) values += c->plan->keys[p] + 2;
    c->cells = take(room, &at, sizeof *c->cells * (c->mask + 1));
    c->codes = take(room, &at, sizeof *c->codes * n * (size_t)c->plan->features);
    c->gap = take(room, &at, sizeof *c->gap * sums);
    c->close = take(room, &at, sizeof *c->close * sums);
    c->near = take(room, &at, sizeof *c->near * (size_t)c->about);
    c->change = take(room, &at, sizeof *c->change * sums);
    c->even = take(room, &at, sizeof *c->even * (size_t)c->plan->kinds);
    c->many = take(room, &at, sizeof *c->many * ((size_t)c->plan->kinds + 1));
    c->touched = take(room, &at, sizeof *c->touched * sums);
    c->stamp = take(room, &at, sizeof *c->stamp * sums);
    c->distinct = take(room, &at, sizeof *c->distinct * (size_t)(c->users * c->plan->features));
    c->sequence = take(room, &at, sizeof *c->sequence * n);
    c->place = take(room, &at, sizeof *c->place * n);
    c->user = take(room, &at, sizeof *c->user * n);
    c->by_time = take(room, &at, sizeof *c->by_time * n);
    c->alike = take(room, &at, sizeof *c->alike * n);
    c->alike_of = take(room, &at, sizeof *c->alike_of * n);
    c->alike_key = take(room, &at, sizeof *c->alike_key * n);
    c->alike_start = take(room, &at, sizeof *c->alike_start * (n + 2));
    c->end_time = take(room, &at, sizeof *c->end_time * ((size_t)c->plan->ends + 1));
    c->by_value = take(room, &at, sizeof *c->by_value * n * pairs);
    c->first = take(room, &at, sizeof *c->first * ((size_t)c->users + 1));
    c->group = take(room, &at, sizeof *c->group * (size_t)c->users);
    c->value_at = take(room, &at, sizeof *c->value_at * (pairs + 1));
    c->value_start = take(room, &at, sizeof *c->value_start * values);
    return at;
}

/* Sizes of a chunk, then its memory, then the work. */
static void order_work(fdp_team *team, int member, void *ctx) {
    order_job *job = ctx;
    const fdp_order_plan *plan = job->plan;
    (void)team, (void)member;
    for (int64_t number; (number = fdp_team_next(&job->next)) < plan->chunks;) {
        /* The chunk's rows, users and sums: steps by kind of user, gaps, both ends, agreement by group. */
        chunk c = {.plan = plan, .base = plan->row_start[number]};
        c.n = plan->row_start[number + 1] - c.base;
        c.users = plan->user_start[number + 1] - plan->user_start[number];
        c.steps = plan->pairs * plan->kinds;
        c.about = c.steps + plan->gaps + 2 * plan->ends;
        c.sums = c.about + 2 * plan->groups * plan->features;
        c.time = plan->time + c.base;
        c.end = plan->end + c.base;
        c.kind = plan->kind + plan->user_start[number];
        /* The hash table of users' counts of values has four slots or more for each count. */
        c.mask = 1;
        uint64_t counted = 1;
        for (int64_t u = plan->user_start[number]; u < plan->user_start[number + 1]; u++)
            counted += plan->wanted[u] > FEW ? plan->wanted[u] * (uint64_t)plan->features : 0;
        while (c.mask < 4 * counted) c.mask *= 2;
        c.mask--;
        char *room = calloc(lay_out(&c, NULL), 1);
        if (room == NULL) {
            atomic_store(&job->status, FDP_ERR_MEMORY);
            continue;
        }
        lay_out(&c, room);
        for (int64_t p = 0; p < plan->pairs; p++) c.value_at[p + 1] = c.value_at[p] + plan->keys[p] + 2;
        order_chunk(job, number, &c);
        free(room);
    }
}

int fdp_order_rows(const fdp_order_plan *plan, int threads, uint32_t *owner, int64_t *sequence,
                   int64_t *before, int64_t *after) {
    if (threads < 1 || plan->chunks < 0 || plan->gaps < 1 || plan->ends < 1) return FDP_ERR_ARGUMENT;
    order_job job = {.plan = plan, .owner = owner, .sequence = sequence, .before = before, .after = after};
    fdp_team_run(threads, order_work, &job);
    return atomic_load(&job.status);
}
