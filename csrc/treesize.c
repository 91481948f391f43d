/* Sizes of junction trees: see treesize.h. */
#include "treesize.h"

#include <stdlib.h>
#include <string.h>

/* What the next attribute to eliminate is least in: cells of its clique; edges that its elimination adds;
 * cells of these edges. */
enum { WEIGHT, FILL, WEIGHTED_FILL, HEURISTICS };

/* Product and sum that stop at FDP_TREESIZE_MAX. */
static uint64_t times(uint64_t a, uint64_t b) {
    const __uint128_t product = (__uint128_t)a * b;
    return product < FDP_TREESIZE_MAX ? (uint64_t)product : FDP_TREESIZE_MAX;
}

static uint64_t plus(uint64_t a, uint64_t b) {
    return FDP_MIN(a + b, FDP_TREESIZE_MAX); /* neither is above 2^62 */
}

/* Eliminating an attribute joins all its neighbours: it and they are a clique of the junction tree. Example:
 * in the square a-b-c-d, eliminating a makes the clique {a, b, d} and the edge b-d, and leaves {b, c, d}. */
typedef struct {
    int n, words;
    const uint64_t *size;
    uint64_t *graph;  /* of what is left */
    uint64_t *seen;   /* cliques so far that are not inside another */
    uint64_t *first;  /* cost: compared first, */
    uint64_t *second; /* then this */
    uint64_t *stale;  /* set of attributes whose cost must be found anew */
} elimination;

/* The set of attribute i, as bits. */
static inline uint64_t *row(uint64_t *sets, int words, int i) {
    return sets + (size_t)i * (size_t)words;
}

/* Calls the body with each member j of a set. */
#define EACH(j, set, words) \
    for (int w_##j = 0; w_##j < (words); w_##j++) \
        for (uint64_t b_##j = (set)[w_##j]; b_##j; b_##j &= b_##j - 1) \
            for (int j = w_##j * 64 + __builtin_ctzll(b_##j), go_##j = 1; go_##j; go_##j = 0)

/* The cost of eliminating attribute a now. Pairs of neighbours without an edge are looked at once each: only
 * bits above b of the set of b. */
static void cost(elimination *e, int heuristic, int a) {
    const uint64_t *around = row(e->graph, e->words, a);
    uint64_t weight = e->size[a], missing = 0;
    EACH(b, around, e->words) weight = times(weight, e->size[b]);
    if (heuristic == WEIGHT) {
        e->first[a] = weight, e->second[a] = 0;
        return;
    }
    EACH(b, around, e->words) {
        const uint64_t *other = row(e->graph, e->words, b);
        for (int w = b / 64; w < e->words; w++) {
            uint64_t lacking = around[w] & ~other[w];
            if (w == b / 64) lacking &= b % 64 == 63 ? 0 : ~0ull << (b % 64 + 1);
            if (heuristic == FILL)
                missing += (uint64_t)__builtin_popcountll(lacking);
            else
                for (; lacking; lacking &= lacking - 1)
                    missing = plus(missing, times(e->size[b], e->size[w * 64 + __builtin_ctzll(lacking)]));
        }
    }
    e->first[a] = missing, e->second[a] = weight;
}

/* Cells of the maximal cliques by one heuristic; `left`: all attributes, emptied on the way. */
static uint64_t eliminate(elimination *e, int heuristic, uint64_t *left) {
    uint64_t cells = 0;
    int kept = 0;
    for (int a = 0; a < e->n; a++) cost(e, heuristic, a);
    for (int round = 0; round < e->n; round++) {
        /* The cheapest attribute, the first of equal ones. */
        int best = -1;
        EACH(a, left, e->words) {
            if (best < 0 || e->first[a] < e->first[best] ||
                (e->first[a] == e->first[best] && e->second[a] < e->second[best]))
                best = a;
        }
        /* Its clique: itself and its neighbours, with the product of their sizes as cells. */
        uint64_t *clique = row(e->seen, e->words, kept), *around = row(e->graph, e->words, best);
        uint64_t weight = e->size[best];
        EACH(b, around, e->words) weight = times(weight, e->size[b]);
        memcpy(clique, around, sizeof *clique * (size_t)e->words);
        clique[best / 64] |= 1ull << (best % 64);
        int inside = 0; /* only an earlier clique can hold this one: later ones lack `best` */
        for (int k = 0; k < kept && !inside; k++) {
            const uint64_t *other = row(e->seen, e->words, k);
            inside = 1;
            for (int w = 0; w < e->words && inside; w++) inside = (clique[w] & ~other[w]) == 0;
        }
        /* Neighbours become neighbours of each other; costs change for these and for all next to them. */
        left[best / 64] &= ~(1ull << (best % 64));
        memcpy(e->stale, around, sizeof *e->stale * (size_t)e->words);
        EACH(b, around, e->words) {
            uint64_t *neighbours = row(e->graph, e->words, b);
            for (int w = 0; w < e->words; w++) neighbours[w] |= around[w];
            neighbours[b / 64] &= ~(1ull << (b % 64));
            neighbours[best / 64] &= ~(1ull << (best % 64));
            for (int w = 0; w < e->words; w++) e->stale[w] |= neighbours[w];
        }
        if (!inside) cells = plus(cells, weight), kept++;
        EACH(b, e->stale, e->words) cost(e, heuristic, b);
    }
    return cells;
}

int fdp_treesize(int n, const uint64_t *size, const uint64_t *graph, uint64_t *cells) {
    const int words = (n + 63) / 64;
    const size_t bits = (size_t)words * (size_t)n;
    *cells = 0;
    if (n == 0) return FDP_OK;
    for (int i = 0; i < n; i++)
        if (size[i] >= FDP_TREESIZE_MAX) return FDP_ERR_ARGUMENT;
    /* One piece of memory for the graph, the cliques, two costs per attribute and two sets. */
    uint64_t *work = malloc(sizeof *work * (2 * bits + 2 * (size_t)n + 2 * (size_t)words));
    if (work == NULL) return FDP_ERR_MEMORY;
    elimination e = {.n = n, .words = words, .size = size, .graph = work, .seen = work + bits};
    e.first = e.seen + bits;
    e.second = e.first + n;
    e.stale = e.second + n;
    uint64_t *left = e.stale + words;
    for (int heuristic = 0; heuristic < HEURISTICS; heuristic++) {
        memcpy(e.graph, graph, sizeof *graph * bits);
        for (int w = 0; w < words; w++) left[w] = n - w * 64 >= 64 ? ~0ull : (1ull << (n - w * 64)) - 1;
        const uint64_t size_of = eliminate(&e, heuristic, left);
        *cells = heuristic ? FDP_MIN(*cells, size_of) : size_of;
    }
    free(work);
    return FDP_OK;
}
