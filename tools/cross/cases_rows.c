/* Kernels over rows: noise, users, counts, codes, lines, draws, scores. */
#include "bound.h"
#include "codes.h"
#include "count.h"
#include "draw.h"
#include "harness.h"
#include "ids.h"
#include "lines.h"
#include "noise.h"
#include "score.h"

/* scale, key -> draws */
static void gaussian(cross_case *c) {
    ONE_OUTPUT(int64_t, 2,
               fdp_noise_gaussian(AT(double, 0), COUNT(0) != 1, COUNT(2), AT(uint32_t, 1), c->threads, out));
}

static void laplace(cross_case *c) {
    ONE_OUTPUT(int64_t, 2,
               fdp_noise_laplace(AT(double, 0), COUNT(0) != 1, COUNT(2), AT(uint32_t, 1), c->threads, out));
}

/* key -> bytes */
static void random_bytes(cross_case *c) {
    ONE_OUTPUT(uint8_t, 1, fdp_noise_bytes(AT(uint32_t, 0), COUNT(1), out));
}

/* key, counter, nonce -> one block; FDP_LANES blocks */
static void chacha20(cross_case *c) {
    uint32_t block[16], lanes[16 * FDP_LANES];
    fdp_chacha20_block(AT(uint32_t, 0), (uint32_t)WHOLE(1), AT(uint32_t, 2), block);
    fdp_chacha20_lanes(AT(uint32_t, 0), (uint32_t)WHOLE(1), AT(uint32_t, 2), lanes);
    cross_same(c, 3, block);
    cross_same(c, 4, lanes);
}

/* z [n, 2] -> exp(-z) [n, 2], high word first */
static void exp_minus(cross_case *c) {
    uint64_t *out = cross_room(c, 1), *z = AT(uint64_t, 0);
    for (int64_t i = 0; i < COUNT(0); i += 2) fdp_exp_minus(z[i], z[i + 1], &out[i], &out[i + 1]);
    cross_same(c, 1, out);
    free(out);
}

/* strips, u [n, 2] -> exponents [n, 2] */
static void gauss_exponent(cross_case *c) {
    uint64_t *out = cross_room(c, 2), *u = AT(uint64_t, 1);
    for (int64_t i = 0; i < COUNT(0); i++)
        fdp_gauss_exponent(AT(uint32_t, 0)[i], u[2 * i], u[2 * i + 1], &out[2 * i], &out[2 * i + 1]);
    cross_same(c, 2, out);
    free(out);
}

/* user, users -> rows of each */
static void rows_per_user(cross_case *c) {
    ONE_OUTPUT(uint32_t, 2, fdp_rows_per_user(COUNT(0), AT(uint32_t, 0), out));
}

/* user, count, value or nothing -> start, sorted */
static void group(cross_case *c) {
    int64_t *start = cross_room(c, 3);
    uint64_t *sorted = cross_room(c, 4);
    cross_code(c, fdp_group(COUNT(0), AT(uint32_t, 0), COUNT(1), AT(uint32_t, 1), MAYBE(uint64_t, 2), start,
                            sorted));
    cross_same(c, 3, start);
    cross_same(c, 4, sorted);
    free(start);
    free(sorted);
}

/* columns of 1, 2 and 4 bytes -> hash */
static void hash_rows(cross_case *c) {
    uint64_t *out = cross_room(c, 3);
    for (int k = 0; k < 3; k++) cross_code(c, fdp_hash_column(COUNT(3), c->a[k].data, 1 << k, out));
    cross_same(c, 3, out);
    free(out);
}

/* start, sorted, hash of users -> users by key */
static void most_common(cross_case *c) {
    ONE_OUTPUT(int64_t, 3,
               fdp_most_common(COUNT(2), AT(int64_t, 0), AT(uint64_t, 1), AT(uint64_t, 2), (uint64_t)COUNT(3),
                               c->threads, out));
}

/* start, sorted, hash of users, cells or nothing, position or nothing, t_max, cap -> users by place */
static void user_groups(cross_case *c) {
    fdp_cellset set = {COUNT(7), MAYBE(int64_t, 3), MAYBE(int32_t, 4)};
    ONE_OUTPUT(int64_t, 7,
               fdp_groups(COUNT(2), AT(int64_t, 0), AT(uint64_t, 1), AT(uint64_t, 2), &set, WHOLE(5),
                          WHOLE(6), c->threads, out));
}

/* ids -> hashes */
static void hash_words(cross_case *c) {
    ONE_OUTPUT(uint64_t, 1, fdp_ids_hash_words(COUNT(0), AT(uint64_t, 0), out));
}

/* offsets, bytes, secret -> keys */
static void hash_strings(cross_case *c) {
    ONE_OUTPUT(uint64_t, 3,
               fdp_ids_hash_strings(COUNT(0) - 1, AT(int64_t, 0), AT(uint8_t, 1), AT(uint64_t, 2), out));
}

/* offsets, bytes -> public hashes of strings */
static void string_hashes(cross_case *c) {
    ONE_OUTPUT(uint64_t, 2,
               fdp_ids_value_hashes(COUNT(0) - 1, NULL, 0, AT(int64_t, 0), AT(uint8_t, 1), out));
}

/* words, whether they are signed -> public hashes of words */
static void word_hashes(cross_case *c) {
    ONE_OUTPUT(uint64_t, 2,
               fdp_ids_value_hashes(COUNT(0), AT(uint64_t, 0), (int)WHOLE(1), NULL, NULL, out));
}

/* words, secret, keys, hashes, valid or nothing -> numbers, hashes of users */
static void number_ids(cross_case *c) {
    fdp_ids *ids = NULL;
    uint32_t *number = cross_room(c, 5);
    int code = fdp_ids_new((int)WHOLE(0), AT(uint64_t, 1)[0], c->threads, &ids);
    cross_code(c, code);
    if (code == FDP_OK) {
        const fdp_ids_batch batch = {.n = COUNT(3),
                                     .key = AT(uint64_t, 2),
                                     .hash = WHOLE(0) == 2 ? AT(uint64_t, 3) : NULL,
                                     .valid = MAYBE(uint8_t, 4),
                                     .place = number};
        const uint64_t from = 1ULL << 32;
        uint32_t *fresh = NULL;
        int64_t found = 0;
        cross_code(c, fdp_ids_find(ids, from, &batch, &fresh, &found));
        cross_code(c, fdp_ids_settle(ids, from, number, found, fresh));
        cross_code(c, fdp_ids_number(ids, batch.n, number, NULL));
        free(fresh);
        if (fdp_ids_count(ids) != COUNT(6)) cross_code(c, FDP_ERR_ARGUMENT);
        cross_same(c, 5, number);
        uint64_t *hash = cross_room(c, 6);
        cross_code(c, fdp_ids_hashes(ids, 1, hash, NULL));
        cross_same(c, 6, hash);
        free(hash);
        fdp_ids_free(ids);
    }
    free(number);
}

/* Columns of 1, 2 and 4 bytes in arrays 0 to 2, users in 3 or nothing, weights in 4 or nothing. */
static void rows_of(cross_case *c, fdp_rows *rows, const void **column) {
    static const uint8_t width[] = {1, 2, 4};
    for (int k = 0; k < 3; k++) column[k] = c->a[k].data;
    *rows = (fdp_rows){COUNT(0), column, width, MAYBE(uint32_t, 3), MAYBE(uint32_t, 4)};
}

/* rows; start, column, size, offset, cells, chunk, budget -> tables */
static void count(cross_case *c) {
    const void *column[3];
    fdp_rows rows;
    rows_of(c, &rows, column);
    fdp_plan plan = {(int)COUNT(8),   AT(int32_t, 5), AT(int32_t, 6),
                     AT(uint32_t, 7), AT(int64_t, 8), AT(int64_t, 9)};
    ONE_OUTPUT(int64_t, 12, fdp_count(&rows, &plan, &c->team, WHOLE(10), WHOLE(11), COUNT(12), out));
}

/* rows; sizes -> cell numbers; bits -> keys, sums */
static void cells_and_sparse(cross_case *c) {
    const void *column[3];
    fdp_rows rows;
    int64_t distinct = 0;
    rows_of(c, &rows, column);
    uint64_t *cells = cross_room(c, 7);
    int64_t *sums = calloc((size_t)COUNT(7) + 1, sizeof *sums);
    cross_code(c, fdp_cells(&rows, 3, AT(uint64_t, 5), &c->team, cells));
    cross_same(c, 7, cells);
    cross_code(c, fdp_row_weights(&rows, sums));
    cross_code(c, fdp_sparse(COUNT(7), cells, sums, (int)WHOLE(6), &c->team, &distinct));
    if (distinct != COUNT(8)) cross_code(c, FDP_ERR_ARGUMENT);
    cross_same(c, 8, cells);
    cross_same(c, 9, sums);
    free(cells);
    free(sums);
}

/* table [outer, middle, inner], shape -> sums over the middle */
static void project(cross_case *c) {
    int64_t *out = cross_room(c, 2), *shape = AT(int64_t, 1);
    const int64_t *in = AT(int64_t, 0);
    int32_t first[] = {0, 1};
    fdp_projections steps = {1, first, &shape[0], &shape[1], &shape[2], &in, &out};
    cross_code(c, fdp_project(&steps, &c->team));
    cross_same(c, 2, out);
    free(out);
}

/* values, (type, rule, lo, count, below, above, other, nan, null, bit0, width), keys, edges, table, valid
 * or nothing -> codes, keep */
static void encode(cross_case *c) {
    int64_t *n = AT(int64_t, 1);
    struct fdp_map map = {(int)n[1],       n[2],           (uint64_t)n[3], AT(int64_t, 2), AT(double, 3),
                          AT(uint32_t, 4), (uint32_t)n[4], (uint32_t)n[5], (uint32_t)n[6], (uint32_t)n[7],
                          (uint32_t)n[8]};
    void *codes = cross_room(c, 6);
    uint8_t *keep = cross_room(c, 7);
    memset(keep, 1, (size_t)COUNT(7));
    cross_code(c, fdp_encode(c->a[0].data, (int)n[0], (size_t)COUNT(7), &map, MAYBE(uint8_t, 5), n[9],
                             (int)n[10], codes, keep));
    cross_same(c, 6, codes);
    cross_same(c, 7, keep);
    free(codes);
    free(keep);
}

/* codes (2 bytes), table (8 bytes) -> values */
static void lookup(cross_case *c) {
    ONE_OUTPUT(int64_t, 2, fdp_lookup(c->a[0].data, 2, (size_t)COUNT(0), c->a[1].data, 8, out));
}

/* key, row -> u */
static void uniform(cross_case *c) {
    ONE_OUTPUT(double, 2, fdp_uniform(AT(uint64_t, 0)[0], AT(uint64_t, 1)[0], (size_t)COUNT(2), out));
}

/* codes (2 bytes), bins [5, n], (whole, type), unit, (key, row) -> values */
static void draw_values(cross_case *c) {
    double *b = AT(double, 1);
    int64_t n = COUNT(1) / 5;
    struct fdp_bins bins = {b, b + n, b + 2 * n, b + 3 * n, b + 4 * n};
    ONE_OUTPUT(void, 5,
               fdp_draw(c->a[0].data, 2, (size_t)COUNT(0), &bins, (int)AT(int64_t, 2)[0], REAL_AT(3),
                        AT(uint64_t, 4)[0], AT(uint64_t, 4)[1], (int)AT(int64_t, 2)[1], out));
}

#define COLUMNS 3
static void texts_made(struct fdp_text_column *out, int64_t lines, int64_t bytes) {
    for (int k = 0; k < COLUMNS; k++) {
        out[k].offset = calloc((size_t)lines + 2, 4);
        out[k].bytes = calloc(1, (size_t)bytes + FDP_LINES_SLACK);
        out[k].valid = malloc((size_t)(lines >> 3) + 1);
        memset(out[k].valid, 255, (size_t)(lines >> 3) + 1);
        out[k].nulls = 0;
    }
}

/* From array `first` on, for each column: offsets, bytes, a byte a row for validity; then (rows, wrong,
 * consumed). */
static void texts_same(cross_case *c, int first, struct fdp_text_column *out,
                       const struct fdp_lines_result *result) {
    int64_t facts[] = {result->rows, result->wrong, result->consumed};
    cross_same(c, first + 3 * COLUMNS, facts);
    if (facts[0] != AT(int64_t, first + 3 * COLUMNS)[0]) return;
    for (int k = 0; k < COLUMNS; k++) {
        uint8_t *valid = cross_room(c, first + 3 * k + 2);
        for (int64_t i = 0; i < facts[0]; i++) valid[i] = out[k].valid[i >> 3] >> (i & 7) & 1;
        cross_same(c, first + 3 * k, out[k].offset);
        cross_same(c, first + 3 * k + 1, out[k].bytes);
        cross_same(c, first + 3 * k + 2, valid);
        free(valid);
    }
}

static void texts_freed(struct fdp_text_column *out) {
    for (int k = 0; k < COLUMNS; k++) {
        free(out[k].offset);
        free(out[k].bytes);
        free(out[k].valid);
    }
}

/* text, (delimiter, quote, escape, newlines, limit, keep_wrong, final), starts of nulls, nulls -> columns */
static void split(cross_case *c) {
    static const int32_t column[] = {0, 1, 2};
    int64_t *n = AT(int64_t, 1), lines = 0;
    struct fdp_dialect dialect = {(int)n[0],         (int)n[1],      (int)n[2],     (int)n[3],
                                  (int)COUNT(2) - 1, AT(int32_t, 2), AT(uint8_t, 3)};
    struct fdp_text_column out[COLUMNS];
    struct fdp_span span[COLUMNS];
    struct fdp_lines_result result = {0, 0, 0};
    cross_code(c, fdp_lines_count(AT(uint8_t, 0), COUNT(0), &lines));
    texts_made(out, lines, COUNT(0));
    cross_code(c, fdp_lines_split(AT(uint8_t, 0), COUNT(0), &dialect, COLUMNS, column, n[4], (int)n[5],
                                  (int)n[6], span, COLUMNS, out, &result));
    texts_same(c, 4, out, &result);
    texts_freed(out);
}

/* text, (limit, keep_wrong), starts of keys, keys -> columns */
static void json(cross_case *c) {
    int64_t *n = AT(int64_t, 1), lines = 0;
    struct fdp_text_column out[COLUMNS];
    struct fdp_span span[COLUMNS];
    struct fdp_lines_result result = {0, 0, 0};
    uint8_t *key = malloc((size_t)n[0] + 1);
    cross_code(c, fdp_lines_count(AT(uint8_t, 0), COUNT(0), &lines));
    texts_made(out, lines, COUNT(0));
    cross_code(c, fdp_lines_json(AT(uint8_t, 0), COUNT(0), n[0], (int)n[1], span, key, COLUMNS,
                                 AT(int32_t, 2), AT(uint8_t, 3), out, &result));
    result.consumed = 0;
    texts_same(c, 4, out, &result);
    texts_freed(out);
    free(key);
}

/* offsets, bytes -> (all whole, all shortest), numbers (where all are whole) */
static void whole_numbers(cross_case *c) {
    int64_t n = COUNT(0) - 1, facts[2], *x = calloc((size_t)n + 1, sizeof *x);
    int whole = 0, shortest = 0;
    cross_code(c, fdp_lines_whole(AT(int32_t, 0), AT(uint8_t, 1), NULL, n, x, &whole));
    cross_code(c, fdp_lines_shortest(AT(int32_t, 0), AT(uint8_t, 1), NULL, n, &shortest));
    facts[0] = whole;
    facts[1] = shortest;
    cross_same(c, 2, facts);
    if (whole) cross_same(c, 3, x);
    free(x);
}

/* start, upto, value, group, u -> values */
static void draw_groups(cross_case *c) {
    ONE_OUTPUT(uint32_t, 5,
               fdp_draw_groups(AT(int64_t, 0), COUNT(0) - 1, AT(int64_t, 1), AT(uint32_t, 2), AT(int64_t, 3),
                               AT(double, 4), COUNT(5), out));
}

/* keys, seed -> order, start */
static void ids_group(cross_case *c) {
    uint32_t *order = cross_room(c, 2);
    int64_t *start = cross_room(c, 3);
    cross_code(c, fdp_ids_group(AT(uint32_t, 0), COUNT(0), COUNT(3) - 1, AT(uint64_t, 1)[0], c->threads,
                                order, start));
    cross_same(c, 2, order);
    cross_same(c, 3, start);
    free(order);
    free(start);
}

/* order and start of rows, of units; row, unit, user -> owner, what is left of rows, of units */
static void ids_deal(cross_case *c) {
    uint32_t *owner = cross_room(c, 7);
    uint32_t *rows = calloc((size_t)COUNT(4) + 1, 4), *units = calloc((size_t)COUNT(5) + 1, 4);
    int64_t rest[2] = {0, 0};
    cross_code(c, fdp_ids_deal(AT(uint32_t, 0), AT(int64_t, 1), AT(uint32_t, 2), AT(int64_t, 3), COUNT(1) - 1,
                               AT(uint32_t, 4), AT(uint32_t, 5), AT(uint32_t, 6), c->threads, owner, rows,
                               units, rest));
    if (rest[0] != COUNT(8) || rest[1] != COUNT(9)) cross_code(c, FDP_ERR_ARGUMENT);
    cross_same(c, 7, owner);
    cross_same(c, 8, rows);
    cross_same(c, 9, units);
    free(owner);
    free(rows);
    free(units);
}

/* group, three columns of 1 byte -> start, packed */
static void group_rows(cross_case *c) {
    const uint8_t *columns[] = {AT(uint8_t, 1), AT(uint8_t, 2), AT(uint8_t, 3)};
    int64_t *start = cross_room(c, 4);
    uint64_t *packed = cross_room(c, 5);
    cross_code(c, fdp_score_group_rows(AT(uint32_t, 0), columns, COUNT(0), 3, COUNT(4) - 1, start, packed));
    cross_same(c, 4, start);
    cross_same(c, 5, packed);
    free(start);
    free(packed);
}

/* start, packed of two tables, sizes -> distances */
static void grouped_pairs(cross_case *c) {
    ONE_OUTPUT(double, 5,
               fdp_score_grouped_pairs(AT(uint64_t, 1), AT(int64_t, 0), AT(uint64_t, 3), AT(int64_t, 2),
                                       COUNT(0) - 1, AT(int32_t, 4), (int32_t)COUNT(4), c->threads, out));
}

/* cells of two tables, number of cells -> distance */
static void score_distance(cross_case *c) {
    ONE_OUTPUT(double, 3,
               fdp_score_distance(AT(uint32_t, 0), COUNT(0), AT(uint32_t, 1), COUNT(1), WHOLE(2), out));
}

const cross_kernel cross_rows[] = {
    {"gaussian", gaussian},
    {"laplace", laplace},
    {"random_bytes", random_bytes},
    {"chacha20", chacha20},
    {"exp_minus", exp_minus},
    {"gauss_exponent", gauss_exponent},
    {"rows_per_user", rows_per_user},
    {"group", group},
    {"hash_rows", hash_rows},
    {"most_common", most_common},
    {"user_groups", user_groups},
    {"hash_words", hash_words},
    {"hash_strings", hash_strings},
    {"string_hashes", string_hashes},
    {"word_hashes", word_hashes},
    {"number_ids", number_ids},
    {"count", count},
    {"cells_and_sparse", cells_and_sparse},
    {"project", project},
    {"encode", encode},
    {"lookup", lookup},
    {"uniform", uniform},
    {"draw_values", draw_values},
    {"split", split},
    {"json", json},
    {"whole_numbers", whole_numbers},
    {"draw_groups", draw_groups},
    {"ids_group", ids_group},
    {"ids_deal", ids_deal},
    {"group_rows", group_rows},
    {"grouped_pairs", grouped_pairs},
    {"score_distance", score_distance},
    {NULL, NULL},
};
