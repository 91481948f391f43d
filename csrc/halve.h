/* One of every two rows, such that counts of many marginals come out close to half. */
#ifndef FDP_HALVE_H
#define FDP_HALVE_H

#include "fdp.h"

/* Rows order[2 i] and order[2 i + 1] are pair i; one of them is kept, the other is not.
 *
 * codes: [rows x columns]. Item j names the columns column[start[j]] .. column[start[j + 1] - 1]; a row's
 * cell of it is the sum of code * stride over these, modulo size[j], and its counts begin at
 * counts[offset[j]].
 * A count is (rows kept) - (rows not kept) of a cell. Each pair in turn keeps the row whose side lowers the
 * sum over items and cells of weight * count^2; if both sides make the same sum, bits[i] says which (1: the
 * first). `sweeps` further times each pair is decided anew, all others as they are, and stays as it is where
 * both sides make the same sum.
 *
 * counts: zeros, as many as the last offset + size. cells: room for 2 * items. kept: order's `pairs` kept
 * rows, in the order of the pairs. Weights are at most 2^20 and items at most 2^12, so that with counts below
 * 2^30 no sum leaves 64 bits; `pairs` must be below 2^29. FDP_ERR_ARGUMENT for more. */
int fdp_halve(int64_t pairs, int columns, int items, const int64_t *order, const uint32_t *codes,
              const int32_t *start, const int32_t *column, const uint64_t *stride, const uint64_t *size,
              const int64_t *offset, const int64_t *weight, const uint8_t *bits, int sweeps, int32_t *counts,
              int64_t *cells, int64_t *kept);

/* Adds `amount` to the cells of every row. */
void fdp_tally(int64_t rows, int columns, int items, const uint32_t *codes, const int32_t *start,
               const int32_t *column, const uint64_t *stride, const uint64_t *size, const int64_t *offset,
               int32_t amount, int32_t *counts);

/* Rows exchange their codes of the column `own` where that lowers the sum over items and cells of
 * weight * count^2. Counts are scale * (rows) - target, of pairs of `own` and other[j], whose strides are
 * stride[2 j] and stride[2 j + 1]; sizes and offsets are as above. Group g of rows is
 * order[ends[g - 1]] .. order[ends[g] - 1]; each of its rows in turn is compared with the one `step` places
 * behind it. cells: room for 4 * items. Scale * rows and all targets must be below 2^28, so that with the
 * bounds above no sum leaves 64 bits (no item needs more than 2^2 * 2^20 * 2^30). */
int fdp_exchange(int64_t groups, int columns, int own, int items, uint32_t *codes, const int64_t *order,
                 const int64_t *ends, const int32_t *other, const uint64_t *stride, const uint64_t *size,
                 const int64_t *offset, const int64_t *weight, int32_t scale, int64_t step, int32_t *counts,
                 int64_t *cells);

/* Rows that may exchange codes, two by two, and what each of `others` columns gains by it. A row's partner is
 * the next row of the same key that has none yet. Of these pairs those are written whose `groups` [rows x
 * columns] of the column `own` differ: the rows to one and two, and to gains [pairs x others]
 * (s(two) - s(one)) (t_j(one) - t_j(two)), s and t_j the scores [columns x 256] of the rows' groups of `own`
 * and of other[j]. key_of, waiting: room for `slots`, a power of two above rows; waiting holds -2 everywhere.
 * pairs: their number. */
int fdp_exchange_gains(int64_t rows, int columns, int own, int others, const uint64_t *key,
                       const uint8_t *groups, const int32_t *other, const double *scores, uint64_t slots,
                       uint64_t *key_of, int64_t *waiting, int64_t *one, int64_t *two, double *gains,
                       int64_t *pairs);

#endif
