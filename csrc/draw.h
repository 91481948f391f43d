/* Draws from groups of weighted values: conditionals of public data, one group per condition. */
#ifndef FDP_DRAW_H
#define FDP_DRAW_H

#include "fdp.h"

/* out[i] = value of one entry of group[i], with probability proportional to its count.
 * Entries of group g are start[g] .. start[g + 1] (never empty); upto[e] is the sum of the counts of g's
 * entries up to and with e, strictly ascending within the group and below 2^53. uniform[i] in [0, 1). */
int fdp_draw_groups(const int64_t *start, int64_t groups, const int64_t *upto, const uint32_t *value,
                    const int64_t *group, const double *uniform, int64_t n, uint32_t *out);

#endif
