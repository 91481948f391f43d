/* Distances between the marginals of two tables: the loops behind `fastdp.evaluate`. */
#ifndef FDP_SCORE_H
#define FDP_SCORE_H

#include "fdp.h"

#define FDP_SCORE_COLUMNS 8 /* codes of one row, packed as the bytes of a uint64 */

/* Scatters rows into groups (a counting sort): packed[start[g] .. start[g+1]) are the rows of group g, byte c
 * of an entry is column c's code. `group` has values below `groups`; start has groups + 1 entries. */
int fdp_score_group_rows(const uint32_t *group, const uint8_t *const *columns, int64_t rows,
                         int32_t column_count, int64_t groups, int64_t *start, uint64_t *packed);

/* For each group and each unordered pair of columns (0,1), (0,2), ... (1,2), ...: the sum over the pair's
 * cells of |a/A - b/B|, a and b being the cell's counts in the first and second table's rows of the group, A
 * and B the group's rows; 2 where one side has none, 0 where neither has. distance is [groups, pairs]. */
int fdp_score_grouped_pairs(const uint64_t *packed_a, const int64_t *start_a, const uint64_t *packed_b,
                            const int64_t *start_b, int64_t groups, const int32_t *sizes,
                            int32_t column_count, int32_t threads, double *distance);

/* The same distance for one marginal without groups: cells are numbers below `cells`. */
int fdp_score_distance(const uint32_t *cells_a, int64_t rows_a, const uint32_t *cells_b, int64_t rows_b,
                       int64_t cells, double *distance);

#endif
