/* Rows of columns of two codes, 64 rows in a word: in how many rows several columns are all 1. */
#ifndef FDP_BITS_H
#define FDP_BITS_H

#include "fdp.h"
#include "team.h"

#define FDP_BITS_WIDTH 8 /* columns of a set, at most */

/* words[column * word_count + word]: the bits of a column. weight[word]: what each of its rows counts.
 * sets[set * width + k]: the columns of a set, by number; sets that begin with the same columns should
 * follow each other. ones[set]: the sum of the weights of the rows in which all of its columns are 1.
 * The same for any number of threads: sums of whole numbers. */
int fdp_bits_ones(const uint64_t *words, const int64_t *weight, int64_t word_count, const int32_t *sets,
                  int32_t width, int64_t set_count, fdp_team *team, int64_t *ones);

#endif
