/* What delimited text and JSON lines share: where a line ends, what is taken off it, how a value is
 * written. */
#ifndef FDP_LINES_PUT_H
#define FDP_LINES_PUT_H

#include <string.h>

#include "lines.h"

/* Whether text[0 .. n) is UTF-8: no surrogates, no overlong forms, nothing above U+10FFFF. In lines.c. */
int fdp_lines_utf8(const uint8_t *text, int64_t n);

/* The first LF at or after `start`, or n. */
static inline int64_t fdp_line_end(const uint8_t *text, int64_t n, int64_t start) {
    if (start >= n) return n;
    const uint8_t *at = memchr(text + start, '\n', (size_t)(n - start));
    return at ? at - text : n;
}

/* Length of the byte order mark at the start of a line: 3 or 0. */
static inline int64_t fdp_line_mark(const uint8_t *text, int64_t start, int64_t end) {
    return end - start >= 3 && text[start] == 0xEF && text[start + 1] == 0xBB && text[start + 2] == 0xBF ? 3
                                                                                                         : 0;
}

/* Whether a byte of 128 or more occurs. */
static inline int fdp_line_high(const uint8_t *text, int64_t n) {
    uint8_t any = 0;
    for (int64_t i = 0; i < n; i++) any |= text[i];
    return any >> 7;
}

/* bytes[offset[row] ..] = text[start .. end). Short values are copied as one block where there is room to
 * read it: what lies behind the value is overwritten by the next. */
static inline void fdp_put(const uint8_t *text, int64_t n, int64_t start, int64_t end, int64_t row,
                           struct fdp_text_column *out) {
    uint8_t *to = out->bytes + out->offset[row];
    if (end - start <= FDP_LINES_SLACK && start + FDP_LINES_SLACK <= n)
        memcpy(to, text + start, FDP_LINES_SLACK);
    else
        memcpy(to, text + start, (size_t)(end - start));
    out->offset[row + 1] = out->offset[row] + (int32_t)(end - start);
}

static inline void fdp_put_null(int64_t row, struct fdp_text_column *out) {
    out->offset[row + 1] = out->offset[row];
    out->valid[row >> 3] &= (uint8_t)~(1u << (row & 7));
    out->nulls++;
}

#endif
