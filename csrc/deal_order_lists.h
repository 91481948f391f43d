/* Lists of a chunk's rows by time, from which rows are proposed; part of deal_order.c. */
#ifndef FDP_DEAL_ORDER_LISTS_H
#define FDP_DEAL_ORDER_LISTS_H
#include "deal_order_chunk.h"

#define LEAST_ALIKE 8.0 /* rows in a list of rows that are alike, on average (4 and 16 give the same) */
#define DIGIT 11        /* bits of time that are sorted at once */

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

#endif
