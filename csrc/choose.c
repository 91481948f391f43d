#include "choose.h"

#include <stdlib.h>
#include <string.h>

#include "sample_random.h"

typedef struct {
    const fdp_choice_plan *plan;
    int64_t tables;
    double *count, *error, *change;
} state;

/* Adds `sign` times the user to the counts, and what that changes to the tables' errors. */
static void add(state *s, int64_t user, double sign) {
    const fdp_choice_plan *p = s->plan;
    for (int64_t t = 0; t < p->facts; t++) {
        const int64_t cell = p->first[t] + p->facts_of[t * p->users + user];
        const double apart = s->count[cell] - p->target[cell];
        s->change[t] += p->weight[cell] * (1.0 + 2.0 * sign * apart);
        s->count[cell] += sign;
    }
    for (int64_t c = 0; c < p->columns; c++) {
        const int64_t t = p->facts + c, base = p->first[t];
        const uint32_t *codes = p->codes + c * p->rows;
        const double one = sign * (c < p->columns - p->steps ? 1.0 : p->step[user]);
        double change = 0.0;
        for (int64_t r = p->row_start[user]; r < p->row_start[user + 1]; r++) {
            const int64_t cell = base + codes[r];
            const double apart = s->count[cell] - p->target[cell];
            change += p->weight[cell] * one * (one + 2.0 * apart);
            s->count[cell] += one;
        }
        s->change[t] += change;
    }
}

/* Takes a user out of the counts, or back into them, where errors are known. */
static void undo(state *s, int64_t user, double sign) {
    const fdp_choice_plan *p = s->plan;
    for (int64_t t = 0; t < p->facts; t++) s->count[p->first[t] + p->facts_of[t * p->users + user]] += sign;
    for (int64_t c = 0; c < p->columns; c++) {
        const double one = sign * (c < p->columns - p->steps ? 1.0 : p->step[user]);
        for (int64_t r = p->row_start[user]; r < p->row_start[user + 1]; r++)
            s->count[p->first[p->facts + c] + p->codes[c * p->rows + r]] += one;
    }
}

static void measure(state *s) {
    const fdp_choice_plan *p = s->plan;
    for (int64_t t = 0; t < s->tables; t++) {
        s->error[t] = 0.0;
        for (int64_t cell = p->first[t]; cell < p->first[t + 1]; cell++) {
            const double apart = s->count[cell] - p->target[cell];
            s->error[t] += p->weight[cell] * apart * apart;
        }
    }
}

/* Exchanges one chosen user for another if that lowers the sum; 1 if it did. */
static int exchange(state *s, int64_t out, int64_t in) {
    memset(s->change, 0, sizeof *s->change * (size_t)s->tables);
    add(s, out, -1.0);
    add(s, in, 1.0);
    double more = 0.0;
    for (int64_t t = 0; t < s->tables; t++) more += s->change[t];
    if (more < -1e-9) {
        for (int64_t t = 0; t < s->tables; t++) s->error[t] += s->change[t];
        return 1;
    }
    undo(s, out, 1.0);
    undo(s, in, -1.0);
    return 0;
}

static int64_t candidate(const fdp_choice_plan *p, int64_t out, stream *random) {
    const int64_t near = p->users / 64 + 2;
    if ((next64(random) & 3) == 0) return (int64_t)below(next64(random), (uint64_t)p->users);
    const int64_t low = out - near < 0 ? 0 : out - near;
    const int64_t high = out + near >= p->users ? p->users - 1 : out + near;
    return low + (int64_t)below(next64(random), (uint64_t)(high - low + 1));
}

static int valid(const fdp_choice_plan *p) {
    for (int64_t t = 0; t < p->facts + p->columns; t++) {
        const uint64_t size = (uint64_t)(p->first[t + 1] - p->first[t]);
        const uint32_t *codes =
            t < p->facts ? p->facts_of + t * p->users : p->codes + (t - p->facts) * p->rows;
        const int64_t n = t < p->facts ? p->users : p->rows;
        for (int64_t i = 0; i < n; i++)
            if (codes[i] >= size) return 0;
    }
    return 1;
}

int fdp_choose(const fdp_choice_plan *p, uint8_t *chosen, double *error) {
    if (p->users < 1 || p->facts < 0 || p->steps < 0 || p->columns < p->steps || !valid(p))
        return FDP_ERR_ARGUMENT;
    const size_t tables = (size_t)(p->facts + p->columns), cells = (size_t)p->first[tables];
    double *room = calloc(cells + tables + 1, sizeof *room);
    int64_t *list = malloc(sizeof *list * (size_t)p->users);
    if (room == NULL || list == NULL) {
        free(room), free(list);
        return FDP_ERR_MEMORY;
    }
    state s = {.plan = p, .tables = (int64_t)tables, .count = room, .error = error, .change = room + cells};
    int64_t n = 0;
    for (int64_t u = 0; u < p->users; u++)
        if (chosen[u]) {
            list[n++] = u;
            undo(&s, u, 1.0);
        }
    measure(&s);
    stream random = {.state = stream_key(p->seed, 0, 0, ORDER)};
    for (int64_t sweep = 0; sweep < p->sweeps && n > 0 && n < p->users; sweep++) {
        int64_t changed = 0;
        for (int64_t k = 0; k < n; k++) {
            const int64_t at = (int64_t)below(next64(&random), (uint64_t)n), out = list[at];
            const int64_t in = candidate(p, out, &random);
            if (chosen[in] || !exchange(&s, out, in)) continue;
            chosen[out] = 0;
            chosen[in] = 1;
            list[at] = in;
            changed++;
        }
        measure(&s); /* so that rounding does not add up */
        if (changed * 1024 < n) break;
    }
    free(room), free(list);
    return FDP_OK;
}
