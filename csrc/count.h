/* Weighted marginals of coded columns: exact 64-bit sums, one pass over the rows for many cliques. */
#ifndef FDP_COUNT_H
#define FDP_COUNT_H

#include "fdp.h"

/* Rows as columns of codes. width[c] is 1, 2 or 4 (bytes of an unsigned code). Weights, one of:
 *   user != NULL: row i weighs weight[user[i]];  else weight != NULL: weight[i];  else every row weighs 1. */
typedef struct {
    int64_t rows;
    const void *const *column;
    const uint8_t *width;
    const uint32_t *user;
    const uint32_t *weight;
} fdp_rows;

/* A walk over a prefix tree of cliques, depth first. Step s extends the cell number of its parent (the last
 * step of depth[s]-1; depth 0 has none) by one column: cell = parent_cell * size[s] + code. Where offset[s] >= 0 the
 * node is a clique and its table begins at tables[offset[s]]. */
typedef struct {
    int steps;
    const int32_t *depth;
    const int32_t *column;
    const uint32_t *size;
    const int64_t *offset;
    const int64_t *cells; /* of the node's table (only read where offset >= 0); below 2^32 */
} fdp_plan;

#define FDP_MAX_DEPTH 64

/* Adds the weighted marginals of all cliques of the plan into tables[total], which the caller has set to zero.
 * Codes must be below their size: checked one floor above. Bits do not depend on threads. */
int fdp_count(const fdp_rows *rows, const fdp_plan *plan, int threads, int64_t budget, int64_t total, int64_t *tables);

/* cell[i] = mixed-radix number of the row over the given columns; the product of sizes is at most 2^63. */
int fdp_cells(const fdp_rows *rows, int columns, const uint64_t *size, int threads, uint64_t *cell);

/* Sums of weights by key, sorted by key. keys[rows] is overwritten with the distinct keys, sums[rows] with their
 * sums; *distinct says how many. bits: the keys are below 2^bits. */
int fdp_sparse(int64_t rows, uint64_t *keys, int64_t *sums, int bits, int threads, int64_t *distinct);

/* sums[i] = weight of row i, as in fdp_rows. */
int fdp_row_weights(const fdp_rows *rows, int64_t *sums);

/* out[o, i] = sum over m of in[o, m, i], exact; out is overwritten. */
int fdp_project(int64_t outer, int64_t middle, int64_t inner, const int64_t *in, int64_t *out);

#endif
