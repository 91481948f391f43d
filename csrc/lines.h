/* Text to fields, one line by itself; see lines.c and lines_json.c.
 *
 * A text is a sequence of lines, each ended by LF (0x0A) or by the end of the text. What a line becomes is
 * a function of its own bytes, the dialect and the limit: nothing that an earlier line holds is
 * remembered. */
#ifndef FDP_LINES_H
#define FDP_LINES_H

#include "fdp.h"

/* How a line is divided into fields. Bytes below 128 that differ; -1 where there is none. */
struct fdp_dialect {
    int delimiter;
    int quote;
    int escape;
    int newlines;              /* LF inside quotes is part of a value: records then may span lines */
    int nulls;                 /* number of texts that mean null where they are not quoted */
    const int32_t *null_start; /* [nulls + 1]: text k is null_text[null_start[k] .. null_start[k + 1]) */
    const uint8_t *null_text;
};

/* One column of values, filled row by row: bytes[offset[i] .. offset[i + 1]) is the value of row i, bit i
 * of `valid` says whether there is one (Arrow's layout). offset has room for every line and one more,
 * valid for a bit for every line, all set; bytes for as many bytes as the text and FDP_LINES_SLACK more. */
#define FDP_LINES_SLACK 16
struct fdp_text_column {
    int32_t *offset;
    uint8_t *bytes;
    uint8_t *valid;
    int64_t nulls;
};

/* Where a field lies in the text. */
struct fdp_span {
    int64_t start, end;
    int quoted; /* it stood in quotes, which are not part of the span */
    int coded;  /* it holds doubled quotes or escapes */
};

struct fdp_lines_result {
    int64_t rows;     /* rows written */
    int64_t wrong;    /* lines of the wrong shape; no row, unless `keep_wrong`: then a row of nulls */
    int64_t consumed; /* bytes read; less than n only with newlines, where the last record is not whole */
};

/* Lines of a text, counted: an upper bound of its rows. */
int fdp_lines_count(const uint8_t *text, int64_t n, int64_t *lines);

/* Fields of delimited text. column[k] is the output column of field k, or -1. A line has the wrong shape,
 * and counts as such, where it is longer than `limit` bytes, is not UTF-8, has another number of fields
 * than `fields`, leaves a quote open, has text after a closing quote, or ends with an escape. One CR at
 * the end of a line and a byte order mark at its start are taken off; a line that is empty then is no row.
 * `final`: nothing follows (only matters with newlines). span: scratch for `fields` spans. n < 2^31. */
int fdp_lines_split(const uint8_t *text, int64_t n, const struct fdp_dialect *dialect, int fields,
                    const int32_t *column, int64_t limit, int keep_wrong, int final, struct fdp_span *span,
                    int columns, struct fdp_text_column *out, struct fdp_lines_result *result);

/* Members of JSON lines: one object a line. Key k is key_text[key_start[k] .. key_start[k + 1]) in UTF-8.
 * Strings come without their escapes, numbers and truth values as they are written; null and a key that is
 * not there are null. A line has the wrong shape where it is longer than `limit`, is not UTF-8, is not one
 * JSON object (nested at most FDP_JSON_DEPTH deep), has one of the keys twice, or under one of them an
 * array or object. span: scratch for `columns` spans; key: scratch for `limit` bytes. */
#define FDP_JSON_DEPTH 64
int fdp_lines_json(const uint8_t *text, int64_t n, int64_t limit, int keep_wrong, struct fdp_span *span,
                   uint8_t *key, int columns, const int32_t *key_start, const uint8_t *key_text,
                   struct fdp_text_column *out, struct fdp_lines_result *result);

/* *all: whether each value is a whole number of at most 18 digits, with a sign and blanks around it or
 * without; x[i] is then that number, 0 where bit i of `valid` (NULL: all are) is not set. Else x is
 * unspecified. */
int fdp_lines_whole(const int32_t *offset, const uint8_t *bytes, const uint8_t *valid, int64_t n, int64_t *x,
                    int *all);

/* *all: whether each value is a whole number of at most 38 digits written in the one shortest way: digits
 * without a leading zero, a minus before them or not; 0 without a minus. */
int fdp_lines_shortest(const int32_t *offset, const uint8_t *bytes, const uint8_t *valid, int64_t n,
                       int *all);

#endif
