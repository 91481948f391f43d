/* Dealing rows to users so that rows of one user agree as often as they should: a product of Polya urns. */
#ifndef FDP_DEAL_H
#define FDP_DEAL_H

#include "fdp.h"

/* Chunk c deals the rows row_start[c] .. row_start[c + 1) - 1 to the users user_start[c] .. user_start[c + 1)
 * - 1, whose `wanted` rows add up to as many. codes[f * rows + i] < size[f]: the value of feature f in row i.
 * alpha[group * features + f] > 0: how seldom users of a group repeat a feature; < 0: they avoid it.
 * candidates: rows that are proposed for each place.
 *
 * The last `levels` features are levels: their values are FDP_LEVELS groups of rows in order, between[l] is the
 * part of the variance that lies between users, and level[l * users + u] the user's own level, both of normal
 * scores; cuts[l * (FDP_LEVELS + 1) + g] is the score at which group g begins. */
#define FDP_LEVELS 8
typedef struct {
    int64_t chunks, rows, users;
    const int64_t *row_start, *user_start;
    int64_t features, groups, candidates;
    const uint32_t *codes, *size;
    const uint32_t *wanted, *group;
    const double *alpha;
    int64_t levels;
    const double *level, *between, *cuts;
    uint64_t seed;
} fdp_deal_plan;

/* owner[i] = user of row i. Every row has one owner, and every user as many rows as it wants.
 *
 * The first row of a user is any unused row. For each further row, `candidates` unused rows are proposed: the
 * first is any row; the others share the value of a random feature (or of none) with a random earlier row of
 * the user. Let c_f be how many of the user's k rows have the candidate's value of f, s_f the share of unused
 * rows that have it, and t_f = c_f / s_f. Urns that are independent between features draw the candidate with
 * a density of product ((1 - w_f) (t_f + alpha_f) / (k + alpha_f) + w_f) over the unused rows. The share w_f =
 * alpha_f / (FRESH + alpha_f) is drawn afresh however many rows there are: users with many rows have favourites
 * and much else, where urns alone would give them too few values. Proposals have the density
 * (1 + sum t_f / k) / (features + 1). One candidate is taken, with probability in proportion to the ratio.
 *
 * A user avoids values of f where alpha_f < 0: a row is accepted with probability (-alpha_f)^c_f. For one
 * proposal up to TRIES rows are looked at until one is accepted, and the ratio is multiplied by the same number.
 *
 * Of a level, c_f / k is the probability of the candidate's group for a normal score around the user's level with
 * the variance that is left, and nothing is drawn afresh. Proposals draw a group from it. So users differ in what
 * their rows are on average, from the first row on.
 *
 * equal[group * features + f] is the sum over the group's users with n >= 2 rows of floor(2^20 S / (n (n -
 * 1))), S the number of ordered pairs of their rows that agree in f; NULL: not counted.
 *
 * A chunk depends on (seed, number of the chunk) and its own rows alone. A thread needs about 16 features + 8
 * bytes for each row of its chunk. FDP_ERR_ARGUMENT where the rows of a chunk are not those wanted. */
int fdp_deal(const fdp_deal_plan *plan, int threads, uint32_t *owner, int64_t *equal);

#endif
