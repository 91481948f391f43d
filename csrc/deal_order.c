/* Exchanges rows between users until they follow each other as they should; see deal_order.h. */
#include "deal_order_lists.h"
#include "deal_order_propose.h"
#include "team.h"

#include <math.h>
#include <stdlib.h>

#define NEAR_ENOUGH 0.002 /* of the users: how far from its goal a sum may be when exchanges end */
#define CLOSE 0.01 /* of the users: distances beyond count in proportion (as ANY: Chicago, chained trips) */

/* Parts of a sweep, after each of which exchanges may end. (The pace of the last part alone, which varies more, left
 * gaps of patients .062 off in place of .055: `bench.users`, seeds 800 to 805.) Where chains have goals only a whole
 * sweep tells its pace: ties in another order take some of what exchanges bring. */
#define PARTS 4

/* A whole call; threads take chunks from `next`. */
typedef struct {
    const fdp_order_plan *plan;
    uint32_t *owner;
    int64_t *sequence, *before, *after;
    atomic_llong next;
    atomic_int status;
} order_job;

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

/* Whether another sweep is worth its time, if so much remained a part of a sweep ago; see deal_order.h. */
static int worth(const fdp_order_plan *plan, double part, const remaining *first, const remaining *was,
                 const remaining *now) {
    const double turns = (double)plan->tries / part;
    if (has_chains(plan)) return was->cost - now->cost > plan->least * (first->cost - now->cost);
    return (was->gaps - now->gaps) * turns > now->gaps || (was->ends - now->ends) * turns > now->ends;
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
        const int64_t parts = has_chains(plan) ? 1 : PARTS;
        const remaining first = what_remains(c);
        remaining was[PARTS]; /* a sweep ago, then at its other parts */
        for (int64_t k = 0; k < parts; k++) was[k] = first;
        for (int64_t turn = 0; turn < parts * plan->tries; turn++) {
            const int64_t part = turn % parts;
            for (int64_t t = c->n * part / parts; t < c->n * (part + 1) / parts; t++) {
                const uint32_t a = (uint32_t)below(next64(&c->random), (uint64_t)c->n), b = propose(c, a);
                if (b < c->n) try_exchange(c, a, b);
            }
            if (part == parts - 1) shuffle_ties(c);
            if (enough(c)) break;
            const remaining now = what_remains(c);
            if (!worth(plan, (double)FDP_MIN(turn + 1, parts) / (double)parts, &first, was + part, &now))
                break;
            was[part] = now;
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
