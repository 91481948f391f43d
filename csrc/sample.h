/* Sampling rows from a directed junction tree; see sample.c. */
#ifndef FDP_SAMPLE_H
#define FDP_SAMPLE_H

#include "fdp.h"

enum { FDP_SAMPLE_ROUND = 0, FDP_SAMPLE_INDEPENDENT = 1 };

/* One clique: `table[g * cells + k]` is the weight (any scale, finite, >= 0) of residual cell k together with
 * separator cell g. `overall` is its sum over g and must have mass. */
typedef struct {
    uint64_t id;  /* names the node's random stream */
    int first;    /* the tree's first node: its cells give the working order */
    int same_sep; /* its separator is that of the node before it */
    int sep_len, res_len;
    const int32_t *sep, *res; /* attribute numbers, last one fastest */
    int64_t groups, cells;
    const double *table;
    const double *overall;
    const uint32_t *decode; /* cells x res_len codes, or NULL when there is one residual attribute */
} fdp_sample_node;

typedef struct {
    uint64_t seed;
    int method;
    int64_t rows;       /* of all shards together */
    int64_t shard_rows; /* at most 2^31 */
    int attributes;
    const uint32_t *sizes;
    const int32_t *widths; /* bytes of a code: 1, 2 or 4 */
    int nodes_len;
    const fdp_sample_node *nodes; /* separators are sampled before they are used; the first has none */
} fdp_sample_plan;

/* Fills the rows of shards first .. first+count-1 into out[attribute], contiguous, from its beginning. The
 * result depends on the plan alone, not on threads, nor on which shards are asked for together. */
int fdp_sample(const fdp_sample_plan *plan, int64_t first, int64_t count, int threads, void *const *out);

#endif
