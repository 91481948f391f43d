/* Weighted marginals of coded columns: exact 64-bit sums, one pass over the rows for many cliques. */
#ifndef FDP_COUNT_H
#define FDP_COUNT_H

#include "fdp.h"
#include "team.h"

/* Rows as columns of codes. width[c] is 1, 2 or 4 (bytes of an unsigned code). Weights, one of:
 *   user != NULL: row i weighs weight[user[i]];  else weight != NULL: weight[i];  else every row weighs 1. */
typedef struct {
    int64_t rows;
    const void *const *column;
    const uint8_t *width;
    const uint32_t *user;
    const uint32_t *weight;
} fdp_rows;

/* The cliques to count. Clique k has the columns column[start[k]] .. column[start[k + 1] - 1], at least one
 * of them, with size[...] codes each, and its table of cells[k] cells (the product of the sizes, below 2^32),
 * in C order, begins at tables[offset[k]]. */
typedef struct {
    int cliques;
    const int32_t *start;
    const int32_t *column;
    const uint32_t *size;
    const int64_t *offset;
    const int64_t *cells;
} fdp_plan;

/* Fills the tables of all cliques of the plan, in tables[total], with their weighted marginals.
 * chunk: at most so many rows are one unit of work. budget: bytes that further copies of the tables may take
 * where there are fewer cliques than threads. Codes must be below their size: checked one floor above. Bits
 * depend on neither of the three. */
int fdp_count(const fdp_rows *rows, const fdp_plan *plan, fdp_team *team, int64_t chunk, int64_t budget,
              int64_t total, int64_t *tables);

/* cell[i] = mixed-radix number of the row over the given columns; the product of sizes is at most 2^63. */
int fdp_cells(const fdp_rows *rows, int columns, const uint64_t *size, fdp_team *team, uint64_t *cell);

/* Sums of weights by key, sorted by key. keys[rows] is overwritten with the distinct keys, sums[rows] with
 * their sums; *distinct says how many. bits: the keys are below 2^bits. */
int fdp_sparse(int64_t rows, uint64_t *keys, int64_t *sums, int bits, fdp_team *team, int64_t *distinct);

/* sums[i] = weight of row i, as in fdp_rows. */
int fdp_row_weights(const fdp_rows *rows, int64_t *sums);

/* Projections: step s sums the table in[s], of shape [outer, middle, inner], over its middle axis into out[s]
 * of [outer, inner], which is overwritten. Steps come in levels: those of first[l] .. first[l + 1] - 1 read
 * nothing that another step of the same level, or of a later one, writes. */
typedef struct {
    int levels;
    const int32_t *first;
    const int64_t *outer;
    const int64_t *middle;
    const int64_t *inner;
    const int64_t *const *in;
    int64_t *const *out;
} fdp_projections;

/* Runs all steps, the levels one after the other and the steps of one level in any order. Exact. */
int fdp_project(const fdp_projections *steps, fdp_team *team);

#endif
