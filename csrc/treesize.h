/* Cells of a junction tree: greedy elimination on bit sets, as fastdp/model/junction_tree.py does. */
#ifndef FDP_TREESIZE_H
#define FDP_TREESIZE_H

#include "fdp.h"

#define FDP_TREESIZE_MAX (1ull << 62) /* sizes from here on are told as this */

/* graph: `n` attributes of size[i] codes, at least 1, neighbours of i as the bits of graph[i * words] .. (words =
 * (n + 63) / 64; no bit i in i's own set). *cells: the least total size of the maximal cliques over the three
 * heuristics (least weight; least fill, then weight; least weighted fill, then weight), first attribute first
 * among equals. Exact below FDP_TREESIZE_MAX. */
int fdp_treesize(int n, const uint64_t *size, const uint64_t *graph, uint64_t *cells);

/* *fits: whether these cells are at most `most`, which is found with less work. */
int fdp_treesize_fits(int n, const uint64_t *size, const uint64_t *graph, uint64_t most, int *fits);

#endif
