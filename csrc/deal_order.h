/* Rows of users in order of time: rows are exchanged between users until successive rows agree, and gaps and
 * ends are, as often as they should. */
#ifndef FDP_DEAL_ORDER_H
#define FDP_DEAL_ORDER_H

#include "fdp.h"

/* Chunks, users, groups and features are those of fdp_deal_plan. time[i], end[i] < ends: of row i. this[p
 * * rows + i], that[p * rows + i] < keys[p]: the columns of pair p. kind[u] < kinds: of user u.
 * shift[pairs * kinds + gaps + 2 ends]: by how much the mean over users of each sum should change: of how
 * often `this` is the next row's `that`, by the user's kind (all steps of a kind count alike); of gaps in
 * bins (0, 1, 2 to 3, 4 to 7, ...); of first rows and of last rows by `end`. timed[f]: 1 for features that
 * follow from time. */
typedef struct {
    int64_t chunks, rows;
    const int64_t *row_start, *user_start;
    int64_t features, groups, pairs, kinds, gaps, ends, tries;
    const uint32_t *codes, *wanted, *group, *kind;
    const uint32_t *time, *end, *this, *that, *keys;
    const double *shift;
    const uint8_t *timed;
    double least;
    uint64_t seed;
} fdp_order_plan;

/* owner[i] on entry: user of row i; on return after exchanges. sequence: the rows, user after user, each
 * user's in order of time (ties at random). before, after: the sums over users, in units of 2^-20.
 *
 * An exchange gives two users of a chunk one row of the other each, which comes where its time belongs. It is
 * made if it reduces the sum of squares (of large distances: multiples) of all distances from goals: those of
 * the sums above, and, for each feature and group, of the agreement of users' rows and of their numbers of
 * values (as 1 + 1/2 + ... + 1/number), whose goal is what they were. After so many tries as there are rows,
 * ties are put in another order at random; that is a sweep, of which there are `tries` at most. They end where
 * all goals are reached. Where chains have goals, they end with a sweep in which the sum of squares fell by less
 * than the part `least` of what it fell in all; else after a quarter of one, where the last four quarters had a
 * pace at which `tries` sweeps would reach the goals neither of gaps nor of ends. (Many users have one or two
 * rows: no exchange moves them far.)
 *
 * Rows are proposed for what they would mend: a row counts in a sum that is too large; the other is of a time
 * at which a gap, a first or a last row is missing. It follows the row before, where such steps are missing,
 * else it agrees with the row in features that do not follow from time, so that habits stay. Proposals of any
 * row were accepted as often, and cost habits: agreement of patients' diagnoses .41 before, .34 after such
 * exchanges, .40 after these.
 *
 * A chunk depends on (seed, number of the chunk) and its own rows alone. A thread needs about 64 + 4
 * features bytes for each row of its chunk, and 128 features for each row of users with many. */
int fdp_order_rows(const fdp_order_plan *plan, int threads, uint32_t *owner, int64_t *sequence,
                   int64_t *before, int64_t *after);

#endif
