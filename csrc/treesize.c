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
    int n, words; /* attributes that have numbers, those of `gone` among them */
    int gone;     /* attributes that were eliminated since numbers were given */
    uint64_t *size;
    uint64_t *graph;   /* of what is left */
    uint64_t *cliques; /* cliques without an attribute that was eliminated after their own */
    int kept;          /* the number of such cliques */
    int *members;      /* members of each of them */
    uint64_t *left;    /* attributes that are left */
    uint64_t *first;   /* cost: compared first, */
    uint64_t *second;  /* then this */
    uint64_t *around;  /* neighbours of the attribute that is eliminated */
    uint64_t *fresh;   /* new neighbours of one of them */
    uint64_t *none;    /* the empty set */
    uint64_t *stale;   /* attributes whose missing edges must be found anew */
    uint64_t *changed; /* attributes whose cost is not what `cheapest` was made with */
    uint64_t *packed;  /* one set over new numbers */
    int leaves;        /* a power of two, at least n */
    int *cheapest;     /* a binary tree: the cheapest attribute below each node, the root at 1; -1: none */
} elimination;

/* The set of attribute i, as bits. */
static inline uint64_t *row(uint64_t *sets, int words, int i) {
    return sets + (size_t)i * (size_t)words;
}

static inline int has(const uint64_t *set, int i) {
    return (int)(set[i / 64] >> (i % 64) & 1);
}

/* Calls the body with each member j of a set. */
#define EACH(j, set, words) \
    for (int w_##j = 0; w_##j < (words); w_##j++) \
        for (uint64_t b_##j = (set)[w_##j]; b_##j; b_##j &= b_##j - 1) \
            for (int j = w_##j * 64 + __builtin_ctzll(b_##j), go_##j = 1; go_##j; go_##j = 0)

/* What attribute b and those of word `w` of a set count for as missing edges: edges, or their cells. */
static uint64_t edges(const elimination *e, int heuristic, int b, int w, uint64_t set) {
    if (heuristic == FILL) return (uint64_t)__builtin_popcountll(set);
    uint64_t sizes = 0;
    for (; set; set &= set - 1) sizes = plus(sizes, e->size[w * 64 + __builtin_ctzll(set)]);
    return times(e->size[b], sizes);
}

/* Cells of attribute a and its neighbours. */
static uint64_t weight_of(elimination *e, int a) {
    const uint64_t *around = row(e->graph, e->words, a);
    uint64_t weight = e->size[a];
    EACH(b, around, e->words) weight = times(weight, e->size[b]);
    return weight;
}

/* The edges that eliminating attribute a now would add. `complete`: a set that has all edges between its
 * members. Pairs of neighbours without an edge are looked at once each: those of b with the members of
 * `complete`, where b is none, and with neighbours above b. */
static uint64_t missing(elimination *e, int heuristic, int a, const uint64_t *complete) {
    const uint64_t *around = row(e->graph, e->words, a);
    uint64_t out = 0;
    for (int v = 0; v < e->words; v++)
        for (uint64_t left = around[v] & ~complete[v]; left; left &= left - 1) {
            const int b = v * 64 + __builtin_ctzll(left);
            const uint64_t *other = row(e->graph, e->words, b);
            for (int w = 0; w < e->words; w++) {
                const uint64_t above = w < v ? 0 : w > v ? ~0ull : ~(left ^ (left - 1));
                const uint64_t lacking = around[w] & ~other[w] & (complete[w] | above);
                if (lacking) out = plus(out, edges(e, heuristic, b, w, lacking));
            }
        }
    return out;
}

/* The cheaper of two attributes, `a` if they are equal; -1 stands for none. */
static inline int cheaper(const elimination *e, int a, int b) {
    if (a < 0 || b < 0) return a < 0 ? b : a;
    if (e->first[a] != e->first[b]) return e->first[a] < e->first[b] ? a : b;
    return e->second[b] < e->second[a] ? b : a;
}

/* Puts an attribute, or none, at leaf i of the tree of cheapest attributes: after each change of its cost.
 * Nodes above one that has the same other attribute as before do not change. */
static void place(elimination *e, int i, int attribute) {
    int node = e->leaves + i;
    e->cheapest[node] = attribute;
    for (node /= 2; node; node /= 2) {
        const int before = e->cheapest[node];
        e->cheapest[node] = cheaper(e, e->cheapest[2 * node], e->cheapest[2 * node + 1]);
        if (e->cheapest[node] == before && before != i) return;
    }
}

/* The tree of cheapest attributes from the costs of all that are left. */
static void place_all(elimination *e) {
    e->leaves = 1;
    while (e->leaves < e->n) e->leaves *= 2;
    for (int i = 0; i < e->leaves; i++) e->cheapest[e->leaves + i] = i < e->n && has(e->left, i) ? i : -1;
    for (int i = e->leaves - 1; i; i--)
        e->cheapest[i] = cheaper(e, e->cheapest[2 * i], e->cheapest[2 * i + 1]);
    memset(e->changed, 0, sizeof *e->changed * (size_t)e->words);
}

static void cost(elimination *e, int heuristic, int a, const uint64_t *complete) {
    e->first[a] = heuristic == WEIGHT ? weight_of(e, a) : missing(e, heuristic, a, complete);
    e->second[a] = heuristic == WEIGHT ? 0 : weight_of(e, a);
}

/* Takes edges off what attribute a misses. A sum that stopped at FDP_TREESIZE_MAX is found anew later. */
static void miss_less(elimination *e, int a, uint64_t less) {
    if (e->first[a] < FDP_TREESIZE_MAX) {
        e->first[a] -= less;
        e->changed[a / 64] |= 1ull << (a % 64);
    } else
        e->stale[a / 64] |= 1ull << (a % 64);
}

/* Eliminates attribute a, whose neighbours have all edges between them: they lose it, and no other pair
 * changes. In the set of b, it missed edges to all that it was not next to. */
static void leave(elimination *e, int heuristic, int a) {
    EACH(b, e->around, e->words) {
        uint64_t *neighbours = row(e->graph, e->words, b), less = 0;
        neighbours[a / 64] &= ~(1ull << (a % 64));
        for (int w = 0; w < e->words; w++) {
            uint64_t apart = neighbours[w] & ~e->around[w];
            if (apart) less = plus(less, edges(e, heuristic, a, w, apart));
        }
        e->second[b] = weight_of(e, b);
        miss_less(e, b, less);
    }
}

/* Eliminates attribute a: its neighbours become neighbours of each other. An attribute beside them misses one
 * edge less for each new edge between two of its own neighbours. */
static void join(elimination *e, int heuristic, int a) {
    EACH(b, e->around, e->words) {
        uint64_t *neighbours = row(e->graph, e->words, b);
        neighbours[a / 64] &= ~(1ull << (a % 64));
        for (int w = 0; w < e->words; w++) e->fresh[w] = e->around[w] & ~neighbours[w];
        e->fresh[b / 64] &= ~(1ull << (b % 64));
        for (int w = 0; w < e->words; w++) neighbours[w] |= e->fresh[w];
        if (heuristic == WEIGHT) continue;
        EACH(c, e->fresh, e->words) {
            if (c > b) continue; /* each new edge once, when both its ends have it */
            const uint64_t *other = row(e->graph, e->words, c);
            const uint64_t less = heuristic == FILL ? 1 : times(e->size[b], e->size[c]);
            for (int w = 0; w < e->words; w++) {
                uint64_t both = neighbours[w] & other[w] & ~e->around[w];
                for (; both; both &= both - 1) miss_less(e, w * 64 + __builtin_ctzll(both), less);
            }
        }
    }
    EACH(b, e->around, e->words) cost(e, heuristic, b, e->around);
    for (int w = 0; w < e->words; w++) e->changed[w] |= e->around[w];
}

/* Rewrites a set over the numbers that `pack` gives. */
static void renumber(elimination *e, const uint64_t *set, const int *number, uint64_t *out, int fewer) {
    memset(e->packed, 0, sizeof *e->packed * (size_t)fewer);
    EACH(b, set, e->words) e->packed[number[b] / 64] |= 1ull << (number[b] % 64);
    memcpy(out, e->packed, sizeof *out * (size_t)fewer);
}

/* Gives new numbers, in the same order, to the attributes that are left: sets of them have fewer words. What is
 * left of a graph is its densest part, where most of the work is. */
static void pack(elimination *e) {
    const int fewer = (e->n - e->gone + 63) / 64;
    int *number = e->cheapest; /* made anew at the end */
    int next = 0;
    EACH(a, e->left, e->words) number[a] = next++;
    EACH(a, e->left, e->words) {
        renumber(e, row(e->graph, e->words, a), number, row(e->graph, fewer, number[a]), fewer);
        e->size[number[a]] = e->size[a];
        e->first[number[a]] = e->first[a];
        e->second[number[a]] = e->second[a];
    }
    for (int k = 0; k < e->kept; k++)
        renumber(e, row(e->cliques, e->words, k), number, row(e->cliques, fewer, k), fewer);
    e->n = next;
    e->gone = 0;
    e->words = fewer;
    memset(e->left, 0, sizeof *e->left * (size_t)fewer);
    for (int a = 0; a < next; a++) e->left[a / 64] |= 1ull << (a % 64);
    place_all(e);
}

/* Adds to `cells` those of the maximal cliques by one heuristic. Above `most` it may stop early.
 *
 * The clique of an attribute lies inside an earlier one exactly if it is the first attribute eliminated of an
 * earlier clique with one member more: what that clique has left are then its own neighbours. So each clique is
 * kept until its first other attribute goes. */
static uint64_t eliminate(elimination *e, int heuristic, uint64_t cells, uint64_t most) {
    /* All attributes are left, with their costs, and none is eliminated. */
    e->kept = 0;
    e->gone = 0;
    memset(e->none, 0, sizeof *e->none * (size_t)e->words);
    memset(e->stale, 0, sizeof *e->stale * (size_t)e->words);
    memset(e->left, 0, sizeof *e->left * (size_t)e->words);
    for (int a = 0; a < e->n; a++) {
        e->left[a / 64] |= 1ull << (a % 64);
        cost(e, heuristic, a, e->none);
    }
    place_all(e);
    while (e->gone < e->n && cells <= most) {
        /* The cheapest attribute goes; with its neighbours `around` it is a clique. */
        const int best = e->cheapest[1];
        const uint64_t weight = heuristic == WEIGHT ? e->first[best] : e->second[best];
        const int complete = heuristic != WEIGHT && e->first[best] == 0;
        memcpy(e->around, row(e->graph, e->words, best), sizeof *e->around * (size_t)e->words);
        place(e, best, -1);
        e->left[best / 64] &= ~(1ull << (best % 64));
        e->gone++;
        /* Kept cliques whose first other attribute this is: each tells whether the new one lies inside it. */
        int count = 0, inside = 0;
        for (int w = 0; w < e->words; w++) count += __builtin_popcountll(e->around[w]);
        for (int k = 0; k < e->kept;) {
            if (!has(row(e->cliques, e->words, k), best)) {
                k++;
                continue;
            }
            inside |= e->members[k] == count + 1;
            e->kept--;
            memcpy(row(e->cliques, e->words, k), row(e->cliques, e->words, e->kept),
                   sizeof *e->cliques * (size_t)e->words);
            e->members[k] = e->members[e->kept];
        }
        if (count) {
            memcpy(row(e->cliques, e->words, e->kept), e->around, sizeof *e->around * (size_t)e->words);
            e->members[e->kept++] = count;
        }
        if (!inside) cells = plus(cells, weight);
        /* The neighbours are joined, unless they were so already; costs that this changes are found again. */
        if (complete)
            leave(e, heuristic, best);
        else
            join(e, heuristic, best);
        for (int w = 0; w < e->words; w++)
            for (; e->stale[w]; e->stale[w] &= e->stale[w] - 1) {
                const int a = w * 64 + __builtin_ctzll(e->stale[w]);
                e->first[a] = missing(e, heuristic, a, e->none);
                e->changed[w] |= 1ull << (a % 64);
            }
        for (int w = 0; w < e->words; w++)
            for (; e->changed[w]; e->changed[w] &= e->changed[w] - 1) {
                const int a = w * 64 + __builtin_ctzll(e->changed[w]);
                place(e, a, a);
            }
        if ((e->n - e->gone + 63) / 64 < e->words) pack(e);
    }
    return cells;
}

/* The attributes that have neighbours, in their order, and the graph of them; `cells`: the sizes of all others,
 * which are cliques of their own. */
static void without_single(int n, const uint64_t *size, const uint64_t *graph, int *kept, int *number,
                           uint64_t *sizes, uint64_t *compact, uint64_t *cells) {
    const int words = (n + 63) / 64;
    *kept = 0;
    *cells = 0;
    for (int i = 0; i < n; i++) {
        uint64_t any = 0;
        for (int w = 0; w < words; w++) any |= graph[(size_t)i * (size_t)words + (size_t)w];
        if (any)
            number[i] = *kept, sizes[(*kept)++] = size[i];
        else
            *cells = plus(*cells, size[i]);
    }
    const int fewer = (*kept + 63) / 64;
    memset(compact, 0, sizeof *compact * (size_t)fewer * (size_t)*kept);
    for (int i = 0; i < n; i++) EACH(j, graph + (size_t)i * (size_t)words, words)
    row(compact, fewer, number[i])[number[j] / 64] |= 1ull << (number[j] % 64);
}

/* The least cells over the heuristics. Those after one with at most `enough` are not tried, and none is followed
 * beyond `most`. */
static int least_cells(int n, const uint64_t *size, const uint64_t *graph, uint64_t enough, uint64_t most,
                       uint64_t *cells) {
    const size_t all = (size_t)n, words = (all + 63) / 64, bits = words * all;
    *cells = 0;
    if (n == 0) return FDP_OK;
    for (int i = 0; i < n; i++)
        if (size[i] == 0 || size[i] >= FDP_TREESIZE_MAX) return FDP_ERR_ARGUMENT;
    size_t leaves = 1;
    while (leaves < all) leaves *= 2;
    /* One piece of memory for two graphs, the cliques, sizes twice, two costs per attribute and seven sets;
     * another for new numbers of attributes, members of cliques and the tree of cheapest attributes. */
    uint64_t *work = malloc(sizeof *work * (3 * bits + 4 * all + 7 * words));
    int *numbers = malloc(sizeof *numbers * (2 * all + 2 * leaves));
    if (work == NULL || numbers == NULL) {
        free(work);
        free(numbers);
        return FDP_ERR_MEMORY;
    }
    uint64_t *compact = work, *sizes = work + 3 * bits, single;
    elimination e = {.graph = work + bits, .cliques = work + 2 * bits};
    e.size = sizes + all;
    e.first = e.size + all;
    e.second = e.first + all;
    e.around = e.second + all;
    e.fresh = e.around + words;
    e.none = e.fresh + words;
    e.stale = e.none + words;
    e.changed = e.stale + words;
    e.left = e.changed + words;
    e.packed = e.left + words;
    e.members = numbers + all;
    e.cheapest = e.members + all;
    int joined;
    without_single(n, size, graph, &joined, numbers, sizes, compact, &single);
    for (int heuristic = 0; heuristic < HEURISTICS && (heuristic == 0 || *cells > enough); heuristic++) {
        e.n = joined;
        e.words = (joined + 63) / 64;
        memcpy(e.graph, compact, sizeof *compact * (size_t)e.words * (size_t)e.n);
        memcpy(e.size, sizes, sizeof *sizes * (size_t)e.n);
        const uint64_t found = eliminate(&e, heuristic, single, most);
        *cells = heuristic ? FDP_MIN(*cells, found) : found;
    }
    free(work);
    free(numbers);
    return FDP_OK;
}

int fdp_treesize(int n, const uint64_t *size, const uint64_t *graph, uint64_t *cells) {
    return least_cells(n, size, graph, 0, FDP_TREESIZE_MAX, cells);
}

int fdp_treesize_fits(int n, const uint64_t *size, const uint64_t *graph, uint64_t most, int *fits) {
    uint64_t cells;
    const int code = least_cells(n, size, graph, most, most, &cells);
    *fits = code == FDP_OK && cells <= most;
    return code;
}
