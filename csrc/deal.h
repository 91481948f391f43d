/* Dealing rows to users so that rows of one user agree as often as they should: a product of Polya urns. */
#ifndef FDP_DEAL_H
#define FDP_DEAL_H

#include "fdp.h"

/* Chunk c deals the rows row_start[c] .. row_start[c + 1) - 1 to the users user_start[c] .. user_start[c + 1)
 * - 1, whose `wanted` rows add up to as many. codes[f * rows + i] < size[f]: the value of feature f in row i.
 * alpha[group * features + f] > 0: how seldom users of a group repeat a feature; < 0: they avoid it.
 * candidates: rows that are looked at for each place.
 *
 * The last `levels` features are levels: their values are FDP_LEVELS groups of rows in order. level[l *
 * users + u] is the normal score of the user's own level, and spread[l] the standard deviation of its rows'
 * scores around it; cuts[l * (FDP_LEVELS + 1) + g] is the score at which group g begins. scores: quantiles of
 * the normal law in the middles of 2^FDP_SCORES equal parts. */
#define FDP_LEVELS 8
#define FDP_SCORES 10
typedef struct {
    int64_t chunks, rows, users;
    const int64_t *row_start, *user_start;
    int64_t features, groups, candidates;
    const uint32_t *codes, *size;
    const uint32_t *wanted, *group;
    const double *alpha;
    int64_t levels;
    const double *level, *spread, *cuts, *scores;
    uint64_t seed;
} fdp_deal_plan;

/* owner[i] = user of row i. Every row has one owner, and every user as many rows as it wants.
 *
 * A user's first row is any unused row. For each further row, one earlier row of the user is drawn, and for
 * each feature whether its value is wanted again: with probability (1 - w_f) k / (k + alpha_f), k being the
 * user's rows so far. With w_f = 0 that is a Polya urn for each feature, in which two rows agree with
 * probability (1 + alpha chance) / (1 + alpha). The share w_f = alpha_f / (FRESH + alpha_f) is drawn afresh
 * however many rows there are: users with many rows have favourites and much else, where urns alone would
 * give them too few values. All values come from one earlier row, so they are found together as often as in
 * the model of rows.
 *
 * `candidates` unused rows are looked at, and the one is taken that is nearest to what is wanted: half of them
 * from the shortest list of rows that have one or two of the wanted values, the rest from the shortest list
 * of rows that have a random one of them and another, or it alone. Rows come in no order, so those that follow
 * a random place of a list are as good as random ones, and are read at once. Where none has all that is wanted, another
 * earlier row is drawn, up to TRIES times.
 *
 * A user avoids values of f where alpha_f < 0: a row is passed over, if it can be, with probability 1 -
 * (-alpha_f)^c, c being how many of the user's rows have its value.
 *
 * Of a level a group is always wanted, also of the first row: drawn with a normal score around the user's
 * level with the variance that is left. Rows are the nearer the fewer groups they are away. So users differ
 * in what their rows are on average.
 *
 * equal[group * features + f] is the sum over the group's users with n >= 2 rows of floor(2^20 S / (n (n -
 * 1))), S the number of ordered pairs of their rows that agree in f; NULL: not counted.
 *
 * A chunk depends on (seed, number of the chunk) and its own rows alone. A thread needs 4 bytes for each
 * row of its chunk in each list (features, pairs of the first and of levels, all), 2 for each of its
 * features, 16 for each value of a list, and 4 for each code of a feature. Of a feature with more than 65,536
 * values in a chunk some count as one. FDP_ERR_ARGUMENT where the rows of a chunk are not those
 * wanted, or features more than 64. */
int fdp_deal(const fdp_deal_plan *plan, int threads, uint32_t *owner, int64_t *equal);

#endif
