/* Users: dense numbers for ids, rows of one user together, choices within a user by keyed hash. */
#ifndef FDP_BOUND_H
#define FDP_BOUND_H

#include "bound_tie.h"
#include "fdp.h"
#include "team.h"

#define USERS_AT_ONCE 1024 /* users a thread takes at a time */

/* A bijection of 64-bit words with good diffusion (the finaliser of splitmix64). */
static inline uint64_t fdp_mix(uint64_t x) {
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9ULL;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
}

/* Hash of a pair; not symmetric. */
static inline uint64_t fdp_mix2(uint64_t key, uint64_t x) {
    return fdp_mix(fdp_mix(key + 0x9e3779b97f4a7c15ULL) ^ (x + 0x632be59bd9b4e019ULL));
}

/* count[u] = rows of user u; count[users] is zero on entry. A user with more than 2^32-1 rows:
 * FDP_ERR_OVERFLOW. */
int fdp_rows_per_user(int64_t rows, const uint32_t *user, uint32_t *count);

/* Stable counting sort by user: value[] of user u ends up in sorted[start[u] .. start[u+1]). start has users
 * + 1 entries, filled here from count. value == NULL: the row numbers themselves. */
int fdp_group(int64_t rows, const uint32_t *user, int64_t users, const uint32_t *count, const uint64_t *value,
              int64_t *start, uint64_t *sorted);

/* hash[i] = fdp_mix2 over one more column of codes (width 1, 2, 4); hash starts at zero. */
int fdp_hash_column(int64_t rows, const void *column, int width, uint64_t *hash);

/* Users by their most common key: out[key] += 1 for each user with a key below `keys` (others are not
 * counted). Ties by the smallest fdp_tie(user_hash, key), then by key. sorted: keys grouped by user,
 * reordered here. */
int fdp_most_common(int64_t users, const int64_t *start, uint64_t *sorted, const uint64_t *user_hash,
                    uint64_t keys, int threads, int64_t *out);

/* mode[u] = the most common key of user u, ties as above; of a user without rows it is left as it was. Every
 * key is below `keys`. */
int fdp_modes(int64_t users, const int64_t *start, uint64_t *sorted, const uint64_t *user_hash, uint64_t keys,
              int threads, uint64_t *mode);

/* How often two rows of a user agree: for each user with n >= 2 rows and group_of[u] >= 0,
 * out[group_of[u]] += floor(2^20 S / (n (n - 1))), S the number of ordered pairs of different rows with the
 * same key; at most 2^20 for each user. Every key is below `keys`; n < 2^32. */
int fdp_agreement(int64_t users, const int64_t *start, uint64_t *sorted, const int32_t *group_of,
                  uint64_t keys, int threads, int64_t *out);

/* Sorts the row numbers of each user, rows[start[u] .. start[u+1]), by time[row], then by the tie number
 * of its `words` words content[row * words ...], each below 2^31, then by these words: the order depends
 * on the user's rows and id value alone, up to rows of the same content. */
int fdp_order(int64_t users, const int64_t *start, uint64_t *rows, const uint64_t *user_hash,
              const uint64_t *time, int words, const uint32_t *content, int threads);

/* Of codes below `keys` in the order of each user's rows: for each user with n >= 2 rows and group_of[u]
 * >= 0, out[group_of[u]] += floor(2^20 a / (n - 1)), a the number of rows whose `this` is the next row's
 * `that`; out[groups] += floor(2^20 b / (n (n - 1))), b the number of ordered pairs of different rows of
 * which the first's `this` is the second's `that`. At most 2^20 each for each user; n < 2^32. */
int fdp_neighbours(int64_t users, const int64_t *start, const uint32_t *this, const uint32_t *that,
                   const int32_t *group_of, int64_t groups, uint64_t keys, int threads, int64_t *out);

/* Which cells of a grid have a place in a histogram: all (cells NULL), or cells[count], ascending. position,
 * where it is not NULL, is the same as a table over the whole grid: the place, or -1. */
typedef struct {
    int64_t count;
    const int64_t *cells;
    const int32_t *position;
} fdp_cellset;

/* Users by group and number of rows in it. A user with T rows of key k is in cell k * t_max + min(T, t_max) -
 * 1; of those of its cells that have a place, the at most `cap` with the smallest fdp_tie(user_hash, k),
 * then k, are counted: out[place] += 1. */
int fdp_groups(int64_t users, const int64_t *start, uint64_t *sorted, const uint64_t *user_hash,
               const fdp_cellset *set, int64_t t_max, int64_t cap, int threads, int64_t *out);

/* Dense numbers for user ids, in order of appearance. */
typedef struct fdp_ids fdp_ids;

/* words: 1 for ids that are exact 64-bit words, 2 for 128-bit keyed hashes of strings. threads: whether one
 * or several will look ids up; no number depends on it. */
int fdp_ids_new(int words, uint64_t secret, int threads, fdp_ids **out);
void fdp_ids_free(fdp_ids *ids);
int64_t fdp_ids_count(const fdp_ids *ids);

/* Ids of n rows: key has `words` words each. Of strings also their values, data[offset[i] .. offset[i+1]),
 * or (data == NULL) hash[i], the public hash of each. valid == NULL or valid[i] != 0; else the row is a
 * user of its own. place: out. */
typedef struct {
    int64_t n;
    const uint64_t *key, *hash;
    const int64_t *offset;
    const uint8_t *data;
    const uint8_t *valid;
    uint32_t *place;
} fdp_ids_batch;

/* Finds the entry of every id, or makes one; several threads may do so at once. Row i is at position + i
 * in the order of all rows; positions are from 2^32 to 2^63 - 1. (*fresh)[*found]: the rows that may be
 * the first ones of their ids, in order; the caller frees them. FDP_ERR_OVERFLOW where there are about
 * 2^32 users; after an error the map is of no more use. */
int fdp_ids_find(fdp_ids *ids, uint64_t position, const fdp_ids_batch *batch, uint32_t **fresh,
                 int64_t *found);

/* Numbers the ids whose first rows are in the batch. By one thread at a time, batch after batch in the
 * order of positions, when all batches up to this one have been found. n, fresh: as found. */
int fdp_ids_settle(fdp_ids *ids, uint64_t position, const uint32_t *place, int64_t n, const uint32_t *fresh);

/* Replaces places, of batches that are settled, by numbers. */
int fdp_ids_number(const fdp_ids *ids, int64_t n, uint32_t *place, fdp_team *team);

/* hash[count]: the public hash of every user's id value, 0 for users without an id. It is the first 8
 * bytes of the SHA-256 of the string, or of the digits of the 64-bit word. All batches are settled. */
int fdp_ids_hashes(const fdp_ids *ids, int is_signed, uint64_t *hash, fdp_team *team);

/* hash[i] = a quick hash of a 64-bit word, which different words do not share. */
int fdp_ids_hash_words(int64_t n, const uint64_t *id, uint64_t *hash);

/* hash[i] = public hash of a 64-bit id, or of string i (word == NULL), data[offset[i] .. offset[i+1]). */
int fdp_ids_value_hashes(int64_t n, const uint64_t *word, int is_signed, const int64_t *offset,
                         const uint8_t *data, uint64_t *hash);

/* key[2i], key[2i+1] = SipHash-1-3-128 of string i, data[offset[i] .. offset[i+1]), under the secret key. */
int fdp_ids_hash_strings(int64_t n, const int64_t *offset, const uint8_t *data, const uint64_t secret[2],
                         uint64_t *key);

#endif
