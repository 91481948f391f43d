/* Delimited text, line by line. The plain case (no quote, no escape in the line) looks for delimiters
 * eight bytes at a time. */
#include "lines.h"

#include "lines_put.h"

int fdp_lines_count(const uint8_t *text, int64_t n, int64_t *lines) {
    int64_t count = n > 0 && text[n - 1] != '\n';
    for (int64_t i = 0; i < n; i++) count += text[i] == '\n';
    *lines = count;
    return FDP_OK;
}

/* Whether the text is UTF-8 (RFC 3629). */
int fdp_lines_utf8(const uint8_t *text, int64_t n) {
    for (int64_t i = 0; i < n;) {
        const uint8_t a = text[i];
        if (a < 0x80) {
            i++;
            continue;
        }
        /* Length, and the range of the second byte: it rules out overlong forms, surrogates and what is
         * above U+10FFFF. */
        int more;
        uint8_t low = 0x80, high = 0xBF;
        if (a >= 0xC2 && a <= 0xDF) {
            more = 1;
        } else if (a >= 0xE0 && a <= 0xEF) {
            more = 2;
            if (a == 0xE0) low = 0xA0;
            if (a == 0xED) high = 0x9F;
        } else if (a >= 0xF0 && a <= 0xF4) {
            more = 3;
            if (a == 0xF0) low = 0x90;
            if (a == 0xF4) high = 0x8F;
        } else {
            return 0;
        }
        if (i + more >= n || text[i + 1] < low || text[i + 1] > high) return 0;
        for (int k = 2; k <= more; k++)
            if ((text[i + k] & 0xC0) != 0x80) return 0;
        i += more + 1;
    }
    return 1;
}

/* Eight bytes as a word, the first one lowest, on any processor. */
static inline uint64_t load8(const uint8_t *at) {
    uint64_t x;
    memcpy(&x, at, 8);
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    x = __builtin_bswap64(x);
#endif
    return x;
}

#define ONES 0x0101010101010101ull
#define TOPS 0x8080808080808080ull

/* The first `byte` of text[at .. end), or end; text[.. n) may be read. The lowest top bit of `zero` marks
 * the first byte that is zero: borrows only run upwards. */
static inline int64_t find(const uint8_t *text, int64_t at, int64_t end, int64_t n, uint8_t byte) {
    const uint64_t pattern = ONES * byte;
    for (; at < end; at += 8) {
        if (at + 8 > n) {
            while (at < end && text[at] != byte) at++;
            return at;
        }
        const uint64_t x = load8(text + at) ^ pattern, zero = (x - ONES) & ~x & TOPS;
        if (zero) {
            at += __builtin_ctzll(zero) >> 3;
            return FDP_MIN(at, end);
        }
    }
    return end;
}

/* The fields of a line in which neither quote nor escape occurs. 1 if there are as many as there must be. */
static int split_plain(const uint8_t *text, int64_t start, int64_t end, int64_t n, int delimiter, int fields,
                       struct fdp_span *span) {
    for (int k = 0; k < fields; k++) {
        const int64_t stop = find(text, start, end, n, (uint8_t)delimiter);
        span[k] = (struct fdp_span){.start = start, .end = stop};
        if (stop == end) return k == fields - 1;
        start = stop + 1;
    }
    return 0;
}

/* Where the value in quotes that begins at `at` (after its opening quote) ends: the position of its
 * closing quote, or `end` where there is none. *coded: whether it holds doubled quotes or escapes. */
static int64_t closing(const uint8_t *text, int64_t at, int64_t end, const struct fdp_dialect *d,
                       int *coded) {
    while (at < end) {
        if (text[at] == d->escape) {
            *coded = 1;
            at += 2;
        } else if (text[at] != d->quote) {
            at++;
        } else if (at + 1 < end && text[at + 1] == d->quote) {
            *coded = 1;
            at += 2;
        } else {
            return at;
        }
    }
    return end;
}

/* The fields of a line. A quote opens a value only as the first byte of its field; elsewhere outside
 * quotes it is an ordinary byte. An escape makes the next byte an ordinary one, inside quotes and outside.
 * 1 if the line has the right shape. */
static int split_quoted(const uint8_t *text, int64_t start, int64_t end, const struct fdp_dialect *d,
                        int fields, struct fdp_span *span) {
    for (int k = 0; k < fields; k++) {
        struct fdp_span field = {start, start, 0, 0};
        int64_t at = start;
        if (at < end && text[at] == d->quote) {
            /* Up to the closing quote, after which the field has to end. */
            field.quoted = 1;
            field.start = at + 1;
            field.end = closing(text, at + 1, end, d, &field.coded);
            if (field.end >= end) return 0;
            at = field.end + 1;
            if (at < end && text[at] != d->delimiter) return 0;
        } else {
            /* Up to the next delimiter that is not escaped. */
            while (at < end && text[at] != d->delimiter) {
                if (text[at] == d->escape) {
                    field.coded = 1;
                    at++;
                }
                at++;
            }
            if (at > end) return 0;
            field.end = at;
        }
        span[k] = field;
        if (at == end) return k == fields - 1;
        start = at + 1;
    }
    return 0;
}

/* With newlines in values: the first LF outside quotes at or after `at`, where a field begins; n if there
 * is none. */
static int64_t record_end(const uint8_t *text, int64_t at, int64_t n, const struct fdp_dialect *d) {
    int ignored = 0;
    while (at < n) {
        if (text[at] == d->quote) at = closing(text, at + 1, n, d, &ignored) + 1;
        while (at < n && text[at] != d->delimiter && text[at] != '\n')
            at += text[at] == d->escape && at + 1 < n && text[at + 1] != '\n' ? 2 : 1;
        if (at >= n || text[at] == '\n') return FDP_MIN(at, n);
        at++;
    }
    return n;
}

/* Whether a field is one of the texts that stand for null. */
static int is_null(const uint8_t *text, const struct fdp_span *field, const struct fdp_dialect *d) {
    const int64_t length = field->end - field->start;
    for (int k = 0; k < d->nulls; k++) {
        const int32_t from = d->null_start[k];
        if (d->null_start[k + 1] - from == length &&
            !memcmp(d->null_text + from, text + field->start, (size_t)length))
            return 1;
    }
    return 0;
}

/* A value with doubled quotes and escapes resolved. */
static void put_coded(const uint8_t *text, const struct fdp_span *field, int64_t row,
                      const struct fdp_dialect *d, struct fdp_text_column *out) {
    uint8_t *to = out->bytes + out->offset[row];
    for (int64_t at = field->start; at < field->end; at++) {
        if (text[at] == d->escape || (field->quoted && text[at] == d->quote)) at++;
        *to++ = text[at];
    }
    out->offset[row + 1] = (int32_t)(to - out->bytes);
}

/* The fields of a row that columns ask for; a text in quotes is never null. */
static void put_row(const uint8_t *text, int64_t n, const struct fdp_dialect *d, int fields,
                    const int32_t *column, const struct fdp_span *span, int64_t row,
                    struct fdp_text_column *out) {
    for (int k = 0; k < fields; k++) {
        if (column[k] < 0) continue;
        struct fdp_text_column *to = out + column[k];
        if (!span[k].quoted && is_null(text, &span[k], d))
            fdp_put_null(row, to);
        else if (span[k].coded)
            put_coded(text, &span[k], row, d, to);
        else
            fdp_put(text, n, span[k].start, span[k].end, row, to);
    }
}

/* Whether a byte occurs; -1 stands for none, as a dialect without quotes has it. */
static int occurs(const uint8_t *text, int64_t start, int64_t end, int byte) {
    return byte >= 0 && end > start && memchr(text + start, byte, (size_t)(end - start)) != NULL;
}

int fdp_lines_split(const uint8_t *text, int64_t n, const struct fdp_dialect *d, int fields,
                    const int32_t *column, int64_t limit, int keep_wrong, int final, struct fdp_span *span,
                    int columns, struct fdp_text_column *out, struct fdp_lines_result *result) {
    if (n < 0 || n >= INT32_MAX - FDP_LINES_SLACK || fields < 1 || limit < 1) return FDP_ERR_ARGUMENT;
    const int high = fdp_line_high(text, n);
    const int special = occurs(text, 0, n, d->quote) || occurs(text, 0, n, d->escape);
    int64_t row = 0, wrong = 0, next = 0, line = 0;
    for (int c = 0; c < columns; c++) out[c].offset[0] = 0, out[c].nulls = 0;
    for (; line < n; line = next) {
        /* Where the line ends. With newlines in values that takes a look at quotes, up to the limit of a
         * line. A line that the end of the text cuts off waits for the next text. */
        int64_t start = line + fdp_line_mark(text, line, n), end;
        if (d->newlines && special) {
            const int64_t most = FDP_MIN(n, line + limit + 1);
            end = record_end(text, start, most, d);
            if (end - line > limit) end = fdp_line_end(text, n, line + limit);
            if (end == n && !final) break;
        } else {
            end = fdp_line_end(text, n, line);
            if (d->newlines && end == n && !final) break;
        }
        next = end + 1;
        int right = 0;
        if (end - line <= limit) {
            if (end > start && text[end - 1] == '\r') end--;
            if (end <= start) continue;
            if (!high || fdp_lines_utf8(text + start, end - start)) {
                if (special && (occurs(text, start, end, d->quote) || occurs(text, start, end, d->escape)))
                    right = split_quoted(text, start, end, d, fields, span);
                else
                    right = split_plain(text, start, end, n, d->delimiter, fields, span);
            }
        }
        if (right) {
            put_row(text, n, d, fields, column, span, row++, out);
        } else {
            wrong++;
            if (!keep_wrong) continue;
            for (int c = 0; c < columns; c++) fdp_put_null(row, out + c);
            row++;
        }
    }
    *result = (struct fdp_lines_result){row, wrong, FDP_MIN(line, n)};
    return FDP_OK;
}

static inline int blank(uint8_t byte) {
    return byte == ' ' || (byte >= '\t' && byte <= '\r');
}

static inline int is_set(const uint8_t *valid, int64_t i) {
    return valid == NULL || (valid[i >> 3] >> (i & 7) & 1);
}

int fdp_lines_whole(const int32_t *offset, const uint8_t *bytes, const uint8_t *valid, int64_t n, int64_t *x,
                    int *all) {
    *all = 0;
    for (int64_t i = 0; i < n; i++) {
        const uint8_t *at = bytes + offset[i], *end = bytes + offset[i + 1];
        x[i] = 0;
        if (!is_set(valid, i)) continue;
        while (at < end && blank(*at)) at++;
        while (at < end && blank(end[-1])) end--;
        const int minus = at < end && *at == '-';
        if (at < end && (*at == '-' || *at == '+')) at++;
        if (end - at < 1 || end - at > 18) return FDP_OK;
        int64_t number = 0;
        for (; at < end; at++) {
            const unsigned digit = *at - (unsigned)'0';
            if (digit > 9) return FDP_OK;
            number = number * 10 + digit;
        }
        x[i] = minus ? -number : number;
    }
    *all = 1;
    return FDP_OK;
}

int fdp_lines_shortest(const int32_t *offset, const uint8_t *bytes, const uint8_t *valid, int64_t n,
                       int *all) {
    *all = 0;
    for (int64_t i = 0; i < n; i++) {
        const uint8_t *at = bytes + offset[i], *end = bytes + offset[i + 1];
        if (!is_set(valid, i)) continue;
        const int minus = at < end && *at == '-';
        at += minus;
        if (at == end || end - at > 38 || (*at == '0' && (minus || end - at > 1))) return FDP_OK;
        for (; at < end; at++)
            if (*at - (unsigned)'0' > 9) return FDP_OK;
    }
    *all = 1;
    return FDP_OK;
}
