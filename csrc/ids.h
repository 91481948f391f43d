/* Dealing rows to users: group by key in random order, then pair what has the same key. No result depends on
 * the number of threads. */
#ifndef FDP_IDS_H
#define FDP_IDS_H

#include "fdp.h"

/* Positions 0..n-1 ordered by key (each key < keys), those of one key in uniformly random order.
 * start[keys + 1]: group g is order[start[g] .. start[g + 1]). Random numbers are a hash of (seed,
 * position). */
int fdp_ids_group(const uint32_t *key, int64_t n, int64_t keys, uint64_t seed, int threads, uint32_t *order,
                  int64_t *start);

/* One unit for every row that a user asks for. User i of 0..users-1 is like the public user taken[i]: for
 * each entry e in indptr[taken[i]] .. indptr[taken[i] + 1), counts[e] >= 0 units with user[] = i and
 * cell[] = cells[e]. Exactly `units` of them; another number is FDP_ERR_ARGUMENT, and nothing is written
 * beyond. */
int fdp_ids_units(const int64_t *indptr, const int64_t *counts, const uint32_t *cells, const int64_t *taken,
                  int64_t users, int64_t units, int threads, uint32_t *user, uint32_t *cell);

/* Pairs the first min(rows, units) of every group: owner[row] = user[unit]. What is left over is written to
 * rest_row and rest_unit (positions, in group order); rest[0], rest[1]: how many of each. row or unit NULL
 * stands for 0, 1, 2, ... */
int fdp_ids_deal(const uint32_t *row_order, const int64_t *row_start, const uint32_t *unit_order,
                 const int64_t *unit_start, int64_t keys, const uint32_t *row, const uint32_t *unit,
                 const uint32_t *user, int threads, uint32_t *owner, uint32_t *rest_row, uint32_t *rest_unit,
                 int64_t *rest);

#endif
