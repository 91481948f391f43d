/* Dealing rows to users so that rows of one user agree as often as they should: nested Polya urns. */
#ifndef FDP_DEAL_H
#define FDP_DEAL_H

#include "fdp.h"

/* Chunk c deals the rows row_start[c] .. row_start[c + 1) - 1 to the users user_start[c] .. user_start[c + 1)
 * - 1, whose `wanted` rows add up to as many. codes[f * rows + i] < size[f]: the value of feature f in row i.
 * alpha[group * features + f] >= 0, not falling along f: how seldom users of a group repeat a feature. */
typedef struct {
    int64_t chunks, rows, users;
    const int64_t *row_start, *user_start;
    int64_t features, groups;
    const uint32_t *codes, *size;
    const uint32_t *wanted, *group;
    const double *alpha;
    uint64_t seed;
} fdp_deal_plan;

/* owner[i] = user of row i. The (k + 1)-th row of a user copies the first m features of one of its k earlier
 * rows, m the largest with U < k / (k + alpha_f) for all f < m (one uniform U per row): it is an unused row of
 * the chunk with these values. Where TRIES earlier rows have none left, one feature less is copied; without
 * features any unused row will do. So every row has one owner, and every user as many rows as it wants.
 *
 * equal[group * features + f] is the sum over the group's users with n >= 2 rows of floor(2^20 S / (n (n -
 * 1))), S the number of ordered pairs of their rows that agree in f; NULL: not counted.
 *
 * A chunk depends on (seed, number of the chunk) and its own rows alone. A thread needs about 8 (features + 2)
 * bytes for each row of its chunk. FDP_ERR_ARGUMENT where the rows of a chunk are not those wanted. */
int fdp_deal(const fdp_deal_plan *plan, int threads, uint32_t *owner, int64_t *equal);

#endif
