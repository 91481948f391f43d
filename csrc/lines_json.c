/* JSON lines (RFC 8259, one object a line), read strictly: what is not JSON, or ambiguous, makes a line of
 * the wrong shape. */
#include "lines_put.h"

#define WRONG (-1)

/* A place in a line. Every reader below returns the position after what it read, or WRONG, which is below 0,
 * where that is not there. */
struct place {
    const uint8_t *text;
    int64_t end;
};

/* The position of the next byte that is not a blank. */
static int64_t skip_blanks(const struct place *p, int64_t at) {
    while (at < p->end && (p->text[at] == ' ' || p->text[at] == '\t' || p->text[at] == '\r')) at++;
    return at;
}

/* Four hexadecimal digits as a number, or WRONG. */
static int hex4(const struct place *p, int64_t at) {
    if (at + 4 > p->end) return WRONG;
    int value = 0;
    for (int k = 0; k < 4; k++) {
        const uint8_t c = p->text[at + k], lower = c | 0x20;
        const int digit = c >= '0' && c <= '9'           ? c - '0'
                          : lower >= 'a' && lower <= 'f' ? lower - 'a' + 10
                                                         : WRONG;
        if (digit < 0) return WRONG;
        value = value * 16 + digit;
    }
    return value;
}

/* The character of the escape whose backslash is at `at`: its code point in *point; surrogates must come
 * in pairs. */
static int64_t read_escape(const struct place *p, int64_t at, uint32_t *point) {
    if (at + 1 >= p->end) return WRONG;
    const uint8_t kind = p->text[at + 1];
    if (kind != 'u') {
        static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
        for (int k = 0; k < 8; k++)
            if (kind == (uint8_t)from[k]) {
                *point = (uint8_t)to[k];
                return at + 2;
            }
        return WRONG;
    }
    /* A code point above U+FFFF is two escapes: a high surrogate, then a low one. */
    const int first = hex4(p, at + 2);
    if (first < 0 || (first >= 0xDC00 && first <= 0xDFFF)) return WRONG;
    *point = (uint32_t)first;
    if (first < 0xD800 || first > 0xDBFF) return at + 6;
    if (at + 7 >= p->end || p->text[at + 6] != '\\' || p->text[at + 7] != 'u') return WRONG;
    const int second = hex4(p, at + 8);
    if (second < 0xDC00 || second > 0xDFFF) return WRONG;
    *point = 0x10000u + ((uint32_t)(first - 0xD800) << 10) + (uint32_t)(second - 0xDC00);
    return at + 12;
}

/* The string whose opening quote is at `at`; *coded: whether it holds escapes. */
static int64_t read_string(const struct place *p, int64_t at, int *coded) {
    for (at++; at < p->end;) {
        const uint8_t byte = p->text[at];
        if (byte == '"') return at + 1;
        if (byte < 0x20) return WRONG;
        if (byte == '\\') {
            uint32_t point;
            *coded = 1;
            at = read_escape(p, at, &point);
            if (at < 0) return WRONG;
        } else {
            at++;
        }
    }
    return WRONG;
}

/* One digit or more. */
static int64_t read_digits(const struct place *p, int64_t at) {
    const int64_t start = at;
    while (at < p->end && p->text[at] >= '0' && p->text[at] <= '9') at++;
    return at > start ? at : WRONG;
}

/* As JSON writes it: no leading zeros, digits on both sides of the point, an exponent or none. */
static int64_t read_number(const struct place *p, int64_t at) {
    if (p->text[at] == '-') at++;
    if (at < p->end && p->text[at] == '0')
        at++;
    else if ((at = read_digits(p, at)) < 0)
        return WRONG;
    if (at < p->end && p->text[at] == '.' && (at = read_digits(p, at + 1)) < 0) return WRONG;
    if (at < p->end && (p->text[at] | 0x20) == 'e') {
        at++;
        if (at < p->end && (p->text[at] == '+' || p->text[at] == '-')) at++;
        at = read_digits(p, at);
    }
    return at;
}

/* true, false or null. */
static int64_t read_word(const struct place *p, int64_t at) {
    static const char *const words[] = {"true", "false", "null"};
    for (int k = 0; k < 3; k++) {
        const int64_t length = (int64_t)strlen(words[k]);
        if (at + length <= p->end && !memcmp(p->text + at, words[k], (size_t)length)) return at + length;
    }
    return WRONG;
}

static int64_t read_value(const struct place *p, int64_t at, int depth);

/* `"key" :`, with blanks; returns the position of the value. The key is text[*start .. *stop). */
static int64_t read_key(const struct place *p, int64_t at, int64_t *start, int64_t *stop, int *coded) {
    *coded = 0;
    if (at >= p->end || p->text[at] != '"') return WRONG;
    *start = at + 1;
    at = read_string(p, at, coded);
    if (at < 0) return WRONG;
    *stop = at - 1;
    at = skip_blanks(p, at);
    return at < p->end && p->text[at] == ':' ? skip_blanks(p, at + 1) : WRONG;
}

/* An array or object that nobody asks for. */
static int64_t read_nested(const struct place *p, int64_t at, int depth) {
    if (depth > FDP_JSON_DEPTH) return WRONG;
    const int object = p->text[at] == '{';
    const uint8_t close = object ? '}' : ']';
    at = skip_blanks(p, at + 1);
    if (at < p->end && p->text[at] == close) return at + 1;
    while (at < p->end) {
        int64_t start, stop;
        int coded;
        if (object && (at = read_key(p, at, &start, &stop, &coded)) < 0) return WRONG;
        at = read_value(p, at, depth);
        if (at < 0) return WRONG;
        at = skip_blanks(p, at);
        if (at >= p->end) return WRONG;
        if (p->text[at] == close) return at + 1;
        if (p->text[at] != ',') return WRONG;
        at = skip_blanks(p, at + 1);
    }
    return WRONG;
}

/* Any value; `depth` containers are open around it. */
static int64_t read_value(const struct place *p, int64_t at, int depth) {
    if (at >= p->end) return WRONG;
    const uint8_t byte = p->text[at];
    int ignored = 0;
    if (byte == '"') return read_string(p, at, &ignored);
    if (byte == '{' || byte == '[') return read_nested(p, at, depth + 1);
    if (byte == '-' || (byte >= '0' && byte <= '9')) return read_number(p, at);
    return read_word(p, at);
}

/* A code point as UTF-8; returns its number of bytes. */
static int64_t put_point(uint32_t c, uint8_t *to) {
    if (c < 0x80) {
        to[0] = (uint8_t)c;
        return 1;
    }
    const int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    static const uint8_t lead[] = {0, 0xC0, 0xE0, 0xF0};
    for (int k = more; k > 0; k--, c >>= 6) to[k] = (uint8_t)(0x80 | (c & 0x3F));
    to[0] = (uint8_t)(lead[more] | c);
    return more + 1;
}

/* text[start .. stop) of a checked string without its escapes; returns the length, at most that of the
 * source. */
static int64_t plain_string(const struct place *p, int64_t start, int64_t stop, uint8_t *to) {
    int64_t length = 0;
    while (start < stop) {
        if (p->text[start] == '\\') {
            uint32_t point = 0;
            start = read_escape(p, start, &point);
            length += put_point(point, to + length);
        } else {
            to[length++] = p->text[start++];
        }
    }
    return length;
}

/* The keys that columns ask for, one after another in `text`; scratch: room for a key without escapes. */
struct keys {
    int count;
    const int32_t *start;
    const uint8_t *text;
    uint8_t *scratch;
};

/* Which of the keys wanted this is, or WRONG. */
static int which_key(const struct place *p, int64_t start, int64_t stop, int coded, const struct keys *keys) {
    const uint8_t *name = p->text + start;
    int64_t length = stop - start;
    if (coded) {
        length = plain_string(p, start, stop, keys->scratch);
        name = keys->scratch;
    }
    for (int k = 0; k < keys->count; k++) {
        const int32_t from = keys->start[k];
        if (keys->start[k + 1] - from == length && !memcmp(keys->text + from, name, (size_t)length)) return k;
    }
    return WRONG;
}

/* One line: span[k] is the value of key k, with start -1 where it is null or not there. 1 if the line has
 * the right shape. */
static int read_line(const struct place *p, int64_t at, const struct keys *keys, struct fdp_span *span) {
    enum { ABSENT = -2, NONE = -1 };
    for (int k = 0; k < keys->count; k++) span[k] = (struct fdp_span){.start = ABSENT, .end = ABSENT};
    at = skip_blanks(p, at);
    if (at >= p->end || p->text[at] != '{') return 0;
    at = skip_blanks(p, at + 1);
    int last = at < p->end && p->text[at] == '}';
    if (last) at++;
    /* One member of the object after another: key, value, comma or the end. */
    while (!last) {
        int64_t start, stop;
        int coded;
        at = read_key(p, at, &start, &stop, &coded);
        if (at < 0) return 0;
        const int key = which_key(p, start, stop, coded, keys);
        const int64_t value = at;
        at = read_value(p, at, 1);
        if (at < 0) return 0;
        /* A key that is wanted: twice, or with a container for a value, makes the line wrong. */
        if (key >= 0) {
            const uint8_t first = p->text[value];
            if (span[key].start != ABSENT || first == '{' || first == '[') return 0;
            if (first == 'n') {
                span[key] = (struct fdp_span){.start = NONE, .end = NONE};
            } else if (first == '"') {
                const int64_t body = at - value - 2;
                span[key] = (struct fdp_span){value + 1, at - 1, 1,
                                              body > 0 && memchr(p->text + value + 1, '\\', (size_t)body)};
            } else {
                span[key] = (struct fdp_span){.start = value, .end = at};
            }
        }
        at = skip_blanks(p, at);
        if (at >= p->end) return 0;
        last = p->text[at] == '}';
        if (!last && p->text[at] != ',') return 0;
        at = last ? at + 1 : skip_blanks(p, at + 1);
    }
    return skip_blanks(p, at) == p->end;
}

int fdp_lines_json(const uint8_t *text, int64_t n, int64_t limit, int keep_wrong, struct fdp_span *span,
                   uint8_t *key, int columns, const int32_t *key_start, const uint8_t *key_text,
                   struct fdp_text_column *out, struct fdp_lines_result *result) {
    if (n < 0 || n >= INT32_MAX - FDP_LINES_SLACK || limit < 1) return FDP_ERR_ARGUMENT;
    const struct keys keys = {columns, key_start, key_text, key};
    const int high = fdp_line_high(text, n);
    int64_t row = 0, wrong = 0;
    for (int c = 0; c < columns; c++) out[c].offset[0] = 0, out[c].nulls = 0;
    /* Each line is read as a whole before anything of it is written. */
    for (int64_t line = 0, next; line < n; line = next) {
        int64_t end = fdp_line_end(text, n, line);
        const int64_t start = line + fdp_line_mark(text, line, end);
        next = end + 1;
        int right = 0;
        /* A line that is too long is wrong whatever it says; an empty one is no line. */
        if (end - line <= limit) {
            if (end > start && text[end - 1] == '\r') end--;
            if (end == start) continue;
            const struct place p = {text, end};
            right = (!high || fdp_lines_utf8(text + start, end - start)) && read_line(&p, start, &keys, span);
        }
        wrong += !right;
        if (!right && !keep_wrong) continue;
        /* The values of a row; all are null in a wrong line that is kept. */
        for (int c = 0; c < columns; c++) {
            if (!right || span[c].start < 0) {
                fdp_put_null(row, out + c);
            } else if (span[c].coded) {
                const struct place p = {text, end};
                const int64_t length =
                    plain_string(&p, span[c].start, span[c].end, out[c].bytes + out[c].offset[row]);
                out[c].offset[row + 1] = out[c].offset[row] + (int32_t)length;
            } else {
                fdp_put(text, n, span[c].start, span[c].end, row, out + c);
            }
        }
        row++;
    }
    *result = (struct fdp_lines_result){row, wrong, n};
    return FDP_OK;
}
