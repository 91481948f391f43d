/* A set's rows are the bitwise and of its columns. Sets in order share what they begin with: the and of all
 * columns but the last is held, level by level, and made anew from the first column that differs. So a set
 * costs about one and, one count of bits and one product for each word. Words come in blocks that stay in
 * the first cache with all of their levels. */
#include "bits.h"

#define SETS_AT_ONCE 256
#define WORDS_AT_ONCE 256

typedef struct {
    const uint64_t *words;
    const int64_t *weight;
    int64_t word_count;
    const int32_t *sets;
    int32_t width;
    int64_t set_count;
    int64_t *ones;
} ones_job;

/* The weights of the rows that are 1 in both. */
FDP_CLONES static int64_t ones_in_both(const uint64_t *a, const uint64_t *b, const int64_t *weight,
                                       int64_t count) {
    int64_t sum = 0;
    for (int64_t i = 0; i < count; i++) sum += weight[i] * __builtin_popcountll(a[i] & b[i]);
    return sum;
}

static void both(const uint64_t *a, const uint64_t *b, int64_t count, uint64_t *restrict out) {
    for (int64_t i = 0; i < count; i++) out[i] = a[i] & b[i];
}

/* Adds what one block of words has to the sets from .. to - 1. */
static void count_block(const ones_job *job, int64_t from, int64_t to, int64_t word, int64_t count) {
    uint64_t held[FDP_BITS_WIDTH][WORDS_AT_ONCE];
    const uint64_t *level[FDP_BITS_WIDTH]; /* the and of a set's first k + 1 columns */
    const int32_t width = job->width;
    for (int64_t s = from; s < to; s++) {
        const int32_t *set = job->sets + s * width;
        int32_t k = 0;
        while (s > from && k < width - 1 && set[k] == set[k - width]) k++;
        for (; k < width - 1; k++) {
            const uint64_t *column = job->words + set[k] * job->word_count + word;
            level[k] = column;
            if (k > 0) {
                both(level[k - 1], column, count, held[k]);
                level[k] = held[k];
            }
        }
        const uint64_t *last = job->words + set[width - 1] * job->word_count + word;
        job->ones[s] += ones_in_both(width > 1 ? level[width - 2] : last, last, job->weight + word, count);
    }
}

/* A piece of work: some sets that follow each other, over all words. */
static void count_sets(void *ctx, int64_t kind, int64_t piece) {
    const ones_job *job = ctx;
    const int64_t from = piece * SETS_AT_ONCE, to = FDP_MIN(from + SETS_AT_ONCE, job->set_count);
    (void)kind;
    for (int64_t s = from; s < to; s++) job->ones[s] = 0;
    for (int64_t word = 0; word < job->word_count; word += WORDS_AT_ONCE)
        count_block(job, from, to, word, FDP_MIN(WORDS_AT_ONCE, job->word_count - word));
}

int fdp_bits_ones(const uint64_t *words, const int64_t *weight, int64_t word_count, const int32_t *sets,
                  int32_t width, int64_t set_count, fdp_team *team, int64_t *ones) {
    if (width < 1 || width > FDP_BITS_WIDTH) return FDP_ERR_ARGUMENT;
    ones_job job = {words, weight, word_count, sets, width, set_count, ones};
    const int64_t pieces = (set_count + SETS_AT_ONCE - 1) / SETS_AT_ONCE;
    fdp_team_each(team, fdp_team_worth(team, set_count * word_count), FDP_TEAM_BLOCK, pieces, count_sets,
                  &job);
    return FDP_OK;
}
