/* Which row to have in place of another: one that would mend what is missing; part of deal_order.c. */
#ifndef FDP_DEAL_ORDER_PROPOSE_H
#define FDP_DEAL_ORDER_PROPOSE_H
#include "deal_order_chunk.h"

/* Of so many rows that are proposed, one need not follow the row before it (chosen on Chicago and chained
 * trips). */
#define ANY 3

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
 * (one in ANY, or where rows need not follow) one with the same habits; where none of these has such a time, any
 * row that has. n where none is found. */
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
    const uint32_t alike = within(c, c->alike, start[0], start[1], when.low, when.high);
    return alike < c->n ? alike : within(c, c->by_time, 0, (uint32_t)c->n, when.low, when.high);
}

#endif
