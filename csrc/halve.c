/* Balanced halving: see halve.h. */
#include "halve.h"

/* Limits with which no sum of weight * count leaves 64 bits (halve.h). */
#define MOST_PAIRS (1ll << 29)
#define MOST_ITEMS (1 << 12)
#define MOST_WEIGHT (1ll << 20)

/* The cell of a row in the item whose columns are column[from] .. column[to - 1]. */
static uint64_t cell_of(const uint32_t *row, const int32_t *column, const uint64_t *stride, int32_t from,
                        int32_t to, uint64_t size) {
    uint64_t cell = 0;
    for (int32_t k = from; k < to; k++) cell += row[column[k]] * stride[k];
    return cell < size ? cell : cell % size; /* most items fit: no division */
}

/* Keeping a row adds 1 to its cells and takes 1 from those of the other row of its pair. With count a in a
 * cell of the first row and b in that of the second, both without this pair, keeping the first changes
 * a^2 + b^2 by 2 (a - b) + 2, keeping the second by 2 (b - a) + 2. So the first is kept where the
 * weighted sum of a - b over items is negative. Example: counts 3 and 1 in the only cells that differ; the
 * second row is kept, and they become 2 and 2. */
int fdp_halve(int64_t pairs, int columns, int items, const int64_t *order, const uint32_t *codes,
              const int32_t *start, const int32_t *column, const uint64_t *stride, const uint64_t *size,
              const int64_t *offset, const int64_t *weight, const uint8_t *bits, int sweeps, int32_t *counts,
              int64_t *cells, int64_t *kept) {
    if (pairs < 0 || pairs >= MOST_PAIRS || items > MOST_ITEMS) return FDP_ERR_ARGUMENT;
    for (int j = 0; j < items; j++)
        if (weight[j] < 0 || weight[j] > MOST_WEIGHT || size[j] == 0) return FDP_ERR_ARGUMENT;
    for (int sweep = 0; sweep <= sweeps; sweep++) {
        for (int64_t i = 0; i < pairs; i++) {
            const uint32_t *first = codes + order[2 * i] * columns;
            const uint32_t *second = codes + order[2 * i + 1] * columns;
            /* 1: the pair now keeps its first row, -1: its second, 0: it is undecided. */
            const int32_t side = sweep == 0 ? 0 : kept[i] == order[2 * i] ? 1 : -1;
            int64_t excess = 0; /* of the first row's cells over the second's, without this pair */
            int apart = 0;
            for (int j = 0; j < items; j++) {
                const uint64_t a = cell_of(first, column, stride, start[j], start[j + 1], size[j]);
                const uint64_t b = cell_of(second, column, stride, start[j], start[j + 1], size[j]);
                if (a == b) continue; /* the same change whichever row is kept */
                int64_t *both = cells + 2 * apart++;
                both[0] = offset[j] + (int64_t)a, both[1] = offset[j] + (int64_t)b;
                excess += weight[j] * ((int64_t)counts[both[0]] - counts[both[1]] - 2 * side);
            }
            /* The better side; of equal ones the present one, and at first the one that the bit says. */
            int32_t now = excess < 0 ? 1 : excess > 0 ? -1 : side;
            if (now == 0) now = bits[i] ? 1 : -1;
            kept[i] = order[2 * i + (now < 0)];
            /* From -1 to 1 a count changes by 2, from undecided by 1. */
            const int32_t change = now - side;
            for (int j = 0; j < apart && change; j++) {
                counts[cells[2 * j]] += change;
                counts[cells[2 * j + 1]] -= change;
            }
        }
    }
    return FDP_OK;
}

/* The counts of rows one by one: no cell of an item is skipped. */
void fdp_tally(int64_t rows, int columns, int items, const uint32_t *codes, const int32_t *start,
               const int32_t *column, const uint64_t *stride, const uint64_t *size, const int64_t *offset,
               int32_t amount, int32_t *counts) {
    for (int64_t i = 0; i < rows; i++)
        for (int j = 0; j < items; j++)
            counts[offset[j] + (int64_t)cell_of(codes + i * columns, column, stride, start[j], start[j + 1],
                                                size[j])] += amount;
}

/* Rows (a, x) and (b, y) of a pair of columns become (b, x) and (a, y): two cells lose `scale`, two gain it.
 * The sum of squares changes by 2 scale (gaining counts - losing counts + 2 scale), and `change` leaves out
 * the factor. */
int fdp_exchange(int64_t groups, int columns, int own, int items, uint32_t *codes, const int64_t *order,
                 const int64_t *ends, const int32_t *other, const uint64_t *stride, const uint64_t *size,
                 const int64_t *offset, const int64_t *weight, int32_t scale, int64_t step, int32_t *counts,
                 int64_t *cells) {
    if (items > MOST_ITEMS || scale < 1 || step < 1) return FDP_ERR_ARGUMENT;
    for (int j = 0; j < items; j++)
        if (weight[j] < 0 || weight[j] > MOST_WEIGHT || size[j] == 0) return FDP_ERR_ARGUMENT;
    for (int64_t g = 0, from = 0; g < groups; from = ends[g++]) {
        for (int64_t i = from; i + step < ends[g]; i++) {
            uint32_t *first = codes + order[i] * columns, *second = codes + order[i + step] * columns;
            const uint64_t a = first[own], b = second[own];
            if (a == b) continue; /* nothing to exchange */
            int64_t change = 0;   /* of the sum of squares, over 2 * scale */
            int apart = 0;
            for (int j = 0; j < items; j++) {
                const uint64_t x = first[other[j]], y = second[other[j]];
                if (x == y) continue; /* the same two cells before and after */
                const uint64_t s = stride[2 * j], t = stride[2 * j + 1];
                /* Before: at[0], at[1]; afterwards: at[2], at[3]. */
                const uint64_t at[4] = {a * s + x * t, b * s + y * t, b * s + x * t, a * s + y * t};
                int64_t *four = cells + 4 * apart++;
                for (int k = 0; k < 4; k++)
                    four[k] = offset[j] + (int64_t)(at[k] < size[j] ? at[k] : at[k] % size[j]);
                change += weight[j] * ((int64_t)counts[four[2]] + counts[four[3]] - counts[four[0]] -
                                       counts[four[1]] + 2 * scale);
            }
            if (change >= 0) continue;
            /* Worth it: the counts follow, then the rows. */
            for (int j = 0; j < apart; j++) {
                counts[cells[4 * j]] -= scale, counts[cells[4 * j + 1]] -= scale;
                counts[cells[4 * j + 2]] += scale, counts[cells[4 * j + 3]] += scale;
            }
            first[own] = (uint32_t)b, second[own] = (uint32_t)a;
        }
    }
    return FDP_OK;
}

/* One pass over the rows with a hash table of the keys for which a row is waiting for its partner. */
int fdp_exchange_gains(int64_t rows, int columns, int own, int others, const uint64_t *key,
                       const uint8_t *groups, const int32_t *other, const double *scores, uint64_t slots,
                       uint64_t *key_of, int64_t *waiting, int64_t *one, int64_t *two, double *gains,
                       int64_t *pairs) {
    if (rows < 0 || slots <= (uint64_t)rows || (slots & (slots - 1)) != 0) return FDP_ERR_ARGUMENT;
    int64_t found = 0;
    for (int64_t i = 0; i < rows; i++) {
        /* Open addressing; -2 marks a slot without a key, -1 a key for which no row waits. */
        const uint64_t mixed = key[i] * 0x9E3779B97F4A7C15ull;
        uint64_t slot = (mixed ^ mixed >> 32) & (slots - 1);
        while (waiting[slot] != -2 && key_of[slot] != key[i]) slot = (slot + 1) & (slots - 1);
        if (waiting[slot] < 0) {
            key_of[slot] = key[i], waiting[slot] = i;
            continue;
        }
        /* Row i is the partner of row j, which leaves the slot to the next two. */
        const int64_t j = waiting[slot];
        const uint8_t *a = groups + j * columns, *b = groups + i * columns;
        waiting[slot] = -1;
        if (a[own] == b[own]) continue;
        const double *s = scores + 256 * own;
        for (int k = 0; k < others; k++) {
            const double *t = scores + 256 * other[k];
            gains[found * others + k] = (s[b[own]] - s[a[own]]) * (t[a[other[k]]] - t[b[other[k]]]);
        }
        one[found] = j, two[found++] = i;
    }
    *pairs = found;
    return FDP_OK;
}
