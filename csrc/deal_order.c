/* Exchanges rows between users until they follow each other as they should; see deal_order.h. */
#include "deal_order_chunk.h"
#include "team.h"

#include <stdlib.h>

#define NEAR_ENOUGH 0.002 /* of the users: how far from its goal a sum may be when exchanges end */
#define CLOSE 0.01 /* of the users: distances beyond count in proportion (as ANY: Chicago, chained trips) */
#define ANY 3 /* of so many rows that are proposed, one is any row (chosen on Chicago and chained trips) */

typedef struct {
    const fdp_order_plan *plan;
    uint32_t *owner;
    int64_t *sequence, *before, *after;
    atomic_llong next;
    atomic_int status;
} order_job;

typedef struct {
    uint64_t key;
    uint32_t row;
} timed;

static int by_key(const void *a, const void *b) {
    const timed *x = a, *y = b;
    return x->key != y->key ? (x->key > y->key) - (x->key < y->key) : (x->row > y->row) - (x->row < y->row);
}

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

/* A pair of columns that rows of user u should follow in more often, by how much is missing; `pairs`
 * where none is. */
static int64_t needed_pair(chunk *c, uint32_t u) {
    const int64_t pairs = c->plan->pairs, kinds = c->plan->kinds;
    const double *gap = c->gap + c->kind[u];
    double missing = 0.0;
    for (int64_t p = 0; p < pairs; p++) missing += FDP_MAX(-gap[p * kinds], 0.0);
    double at = unit(next64(&c->random)) * missing;
    for (int64_t p = 0; p < pairs; p++)
        if (gap[p * kinds] < 0.0 && (at += gap[p * kinds]) < 0.0) return p;
    return pairs;
}

/* Times at which a row after one of time `low` is missing most; all up to `high` where no gap is missing. */
static uint32_t needed_time(chunk *c, uint32_t low, uint32_t *high) {
    const double *gap = c->gap + c->steps;
    double missing = 0.0;
    for (int64_t k = 0; k < c->plan->gaps; k++) missing += FDP_MAX(-gap[k], 0.0);
    double at = unit(next64(&c->random)) * missing;
    for (int64_t k = 0; k < c->plan->gaps; k++)
        if (gap[k] < 0.0 && (at += gap[k]) < 0.0) {
            const uint64_t end = low + ((uint64_t)1 << k) - 1;
            *high = (uint32_t)FDP_MIN(end, UINT32_MAX);
            return (uint32_t)FDP_MIN(low + ((uint64_t)1 << k >> 1), UINT32_MAX);
        }
    return low;
}

/* A row to have in place of `row`: one that follows from the row before, or any (one in ANY); it comes
 * before the row after (one in ANY), or when gaps are missing. */
static uint32_t propose(chunk *c, uint32_t row) {
    const uint32_t u = c->user[row], at = c->place[row];
    const uint32_t before = row_at(c, u, (int64_t)at - 1), after = row_at(c, u, (int64_t)at + 1);
    uint32_t low = before == NONE ? 0 : c->time[before], high = after == NONE ? UINT32_MAX : c->time[after];
    if (before == NONE) return within(c, c->by_time, 0, (uint32_t)c->n, low, high);
    if (below(next64(&c->random), ANY) > 0) low = needed_time(c, low, &high);
    const int64_t p = below(next64(&c->random), ANY) == 0 ? c->plan->pairs : needed_pair(c, u);
    if (p == c->plan->pairs) return within(c, c->by_time, 0, (uint32_t)c->n, low, high);
    const uint32_t wanted = this_of(c, p, before);
    const uint32_t *start = c->value_start + c->value_at[p] + wanted;
    return within(c, c->by_value + p * c->n, start[0], start[1], low, high);
}

/* The square of a distance, beyond `close` its tangent: so that a goal that cannot be reached does not drive
 * others away by much more than that. */
static inline double cost(double distance, double close) {
    const double d = distance < 0 ? -distance : distance;
    return d < close ? d * d : close * (2.0 * d - close);
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

static void count_change(chunk *c, uint32_t u, int64_t f, uint32_t from, uint32_t to) {
    uint32_t *distinct = c->distinct + u * c->plan->features + f;
    *distinct -= --find(c, u, f, from)->count == 0;
    *distinct += find(c, u, f, to)->count++ == 0;
}

/* Exchanges two rows of two users if that brings the sums nearer to their goals. */
static void try_exchange(chunk *c, uint32_t a, uint32_t b) {
    const uint32_t u = c->user[a], v = c->user[b], at = c->place[a], of = c->place[b];
    if (u == v) return;
    c->touches = 0;
    c->now++;
    const uint32_t b_to = add_replaced(c, u, at, b), a_to = add_replaced(c, v, of, a);
    const uint32_t touches = c->touches;
    const double worse = worse_from(c, 0);
    if (!(worse < -1e-12)) return;
    add_agreement(c, u, a, b);
    add_agreement(c, v, b, a);
    if (!(worse + worse_from(c, touches) < -1e-12)) return;
    for (uint32_t i = 0; i < c->touches; i++) c->gap[c->touched[i]] += c->change[c->touched[i]];
    for (int64_t f = 0; f < c->plan->features; f++) {
        const uint32_t x = of_feature(c, f, a), y = of_feature(c, f, b);
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

/* Rows in order of time, and those of each user; ties as a random number says. */
static void put_in_order(chunk *c, const uint32_t *owner, int64_t first_user, timed *room) {
    for (uint32_t i = 0; i < c->n; i++)
        room[i] = (timed){(uint64_t)c->time[i] << 32 | (uint32_t)next64(&c->random), i};
    qsort(room, (size_t)c->n, sizeof *room, by_key);
    for (uint32_t i = 0; i < c->n; i++) c->by_time[i] = room[i].row;
    for (int64_t i = 0; i < c->n; i++) {
        const uint32_t row = c->by_time[i], u = (uint32_t)(owner[row] - first_user);
        c->user[row] = u;
        c->place[row] = c->first[u]++;
        c->sequence[c->place[row]] = row;
    }
    memmove(c->first + 1, c->first, sizeof *c->first * (size_t)c->users);
    c->first[0] = 0;
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

/* The users who count in a sum. */
static inline double users_of(const chunk *c, int64_t sum) {
    if (sum < c->steps) return c->many[sum % c->plan->kinds];
    return sum < c->steps + c->plan->gaps ? c->many[c->plan->kinds] : (double)c->users;
}

static int enough(const chunk *c) {
    for (int64_t k = 0; k < c->about; k++) {
        const double near = NEAR_ENOUGH * users_of(c, k);
        if (c->plan->shift[k] != 0.0 && (c->gap[k] > near || c->gap[k] < -near)) return 0;
    }
    return 1;
}

static void order_chunk(order_job *job, int64_t number, chunk *c, timed *room) {
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
    put_in_order(c, job->owner + c->base, first_user, room);
    add_sums(c, job->before);
    for (int64_t k = 0; k < c->about; k++) c->gap[k] = -plan->shift[k] * users_of(c, k);
    for (int64_t k = 0; k < c->about; k++) c->close[k] = CLOSE * users_of(c, k);
    for (int64_t u = 0; u < c->users; u++)
        for (int64_t f = 0; f < plan->features; f++)
            for (int64_t k = 0; k < 2; k++)
                c->close[c->about + 2 * (c->group[u] * plan->features + f) + k] +=
                    CLOSE * (plan->wanted[first_user + u] > 1);
    if (plan->tries > 0 && !enough(c)) {
        count_values(c);
        for (int64_t t = 0; t < plan->tries * c->n; t++) {
            const uint32_t a = (uint32_t)below(next64(&c->random), (uint64_t)c->n), b = propose(c, a);
            if (b < c->n) try_exchange(c, a, b);
            if (t % c->n < c->n - 1) continue;
            shuffle_ties(c);
            if (enough(c)) break;
        }
    }
    add_sums(c, job->after);
    for (int64_t i = 0; i < c->n; i++) {
        job->sequence[c->base + i] = c->base + c->sequence[i];
        job->owner[c->base + i] = (uint32_t)(first_user + c->user[i]);
    }
}

static void *take(char *room, size_t *at, size_t size) {
    void *here = room == NULL ? NULL : room + *at;
    *at += (size + 15) / 16 * 16;
    return here;
}

/* The chunk's arrays in one piece of memory, `room`; returns its size. */
static size_t lay_out(chunk *c, timed **sorted, char *room) {
    const size_t n = (size_t)c->n, pairs = (size_t)c->plan->pairs, sums = (size_t)c->sums;
    size_t at = 0, values = 0;
    for (size_t p = 0; p < pairs; p++) values += c->plan->keys[p] + 2;
    c->cells = take(room, &at, sizeof *c->cells * (c->mask + 1));
    *sorted = take(room, &at, sizeof **sorted * n);
    c->gap = take(room, &at, sizeof *c->gap * sums);
    c->close = take(room, &at, sizeof *c->close * sums);
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
    c->by_value = take(room, &at, sizeof *c->by_value * n * pairs);
    c->first = take(room, &at, sizeof *c->first * ((size_t)c->users + 1));
    c->group = take(room, &at, sizeof *c->group * (size_t)c->users);
    c->value_at = take(room, &at, sizeof *c->value_at * (pairs + 1));
    c->value_start = take(room, &at, sizeof *c->value_start * values);
    return at;
}

static void order_work(fdp_team *team, int member, void *ctx) {
    order_job *job = ctx;
    const fdp_order_plan *plan = job->plan;
    (void)team, (void)member;
    for (int64_t number; (number = fdp_team_next(&job->next)) < plan->chunks;) {
        chunk c = {.plan = plan, .base = plan->row_start[number]};
        timed *sorted;
        c.n = plan->row_start[number + 1] - c.base;
        c.users = plan->user_start[number + 1] - plan->user_start[number];
        c.steps = plan->pairs * plan->kinds;
        c.about = c.steps + plan->gaps + 2 * plan->ends;
        c.sums = c.about + 2 * plan->groups * plan->features;
        c.time = plan->time + c.base;
        c.end = plan->end + c.base;
        c.kind = plan->kind + plan->user_start[number];
        c.mask = 1;
        while (c.mask < 4 * (uint64_t)(c.n * plan->features + 1)) c.mask *= 2;
        c.mask--;
        char *room = calloc(lay_out(&c, &sorted, NULL), 1);
        if (room == NULL) {
            atomic_store(&job->status, FDP_ERR_MEMORY);
            continue;
        }
        lay_out(&c, &sorted, room);
        for (int64_t p = 0; p < plan->pairs; p++) c.value_at[p + 1] = c.value_at[p] + plan->keys[p] + 2;
        order_chunk(job, number, &c, sorted);
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
