/* Users of a pool are exchanged until counts are as wanted; see choose.h.
 *
 * With d = count - target, a user whose rows are in cells c, m_c times, adds the sum of w_c (2 d_c m_c +
 * m_c^2) to the error: twice the sum of pull_c = w_c d_c over its cells, each as often as it is in it, and
 * a constant of the user, which is computed once. So to look at a user is to add up numbers. */
#include "choose.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sample_random.h"
#include "team.h"

/* Cache lines of a user's cells that are asked of the memory ahead (pools of cohorts, patients and events of 3
 * million rows: .88, .88 and .91 of the time; with 4 lines .92, .92 and .94). */
#define LINES 8

/* Neighbourhoods of users in their order, each of which keeps the best user that it did not take. (64 and 1,024
 * are as good. What is kept: docs/research/records.md.) */
#define NEIGHBOURHOODS 256

/* A whole call; threads take parts of the pool from `next`. */
typedef struct {
    const fdp_choice_plan *plan;
    uint8_t *chosen;
    double *count; /* [cells], of all parts */
    int64_t all;   /* chosen users of all parts */
    atomic_llong next;
    atomic_int status;
} choice_job;

/* Users 0 .. users - 1 of a part. Those of user u are cells[start[u]] on: `units[u]` that count 1, then
 * others that count step[u]. own[u]: the user's constant, over 2. chosen[list[i]]: 1. kept: of each neighbourhood, or
 * `users` where there is none. */
typedef struct {
    int64_t users, many, number;
    int64_t kept[NEIGHBOURHOODS];
    size_t *start;
    uint32_t *cells, *units, *list;
    double *own, *step;
    double *pull, *weight;
    uint8_t *chosen;
} part;

/* Half of what user u would add to the error. */
static inline double costs(const part *p, int64_t u) {
    const uint32_t *cell = p->cells + p->start[u], *end = p->cells + p->start[u + 1];
    const uint32_t *mid = cell + p->units[u];
    const double *pull = p->pull;
    double a = p->own[u], b = 0.0, c = 0.0, d = 0.0, e = 0.0;
    for (; cell + 4 <= mid; cell += 4) {
        a += pull[cell[0]];
        b += pull[cell[1]];
        c += pull[cell[2]];
        d += pull[cell[3]];
    }
    for (; cell < mid; cell++) a += pull[*cell];
    for (; cell < end; cell++) e += pull[*cell];
    return (a + b) + (c + d) + p->step[u] * e;
}

/* Puts user u in, or takes it out. */
static inline void put(part *p, int64_t u, double sign) {
    const uint32_t *cell = p->cells + p->start[u], *end = p->cells + p->start[u + 1];
    const uint32_t *mid = cell + p->units[u];
    const double step = sign * p->step[u];
    for (; cell < mid; cell++) p->pull[*cell] += sign * p->weight[*cell];
    for (; cell < end; cell++) p->pull[*cell] += step * p->weight[*cell];
}

/* Asks the memory for the first cells of user u. */
static inline void fetch(const part *p, int64_t u) {
    const char *cells = (const char *)(p->cells + p->start[u]);
    for (int line = 0; line < LINES; line++) __builtin_prefetch(cells + line * 64);
}

/* Where offers for `out` begin: near it in three of four cases. */
static int64_t place(const part *p, int64_t out, stream *random) {
    const int64_t near = p->users / 64 + 2;
    if ((next64(random) & 3) == 0) return (int64_t)below(next64(random), (uint64_t)p->users);
    const int64_t low = out - near < 0 ? 0 : out - near;
    const int64_t high = out + near >= p->users ? p->users - 1 : out + near;
    return low + (int64_t)below(next64(random), (uint64_t)(high - low + 1));
}

/* A user who may be taken out, and where offers for it begin. */
typedef struct {
    int64_t out, offers;
} turn;

/* Turn i of a sweep. Its users lie anywhere in memory: asked for now, their cells are there when the turn
 * before is over. */
static turn turn_of(const part *p, int64_t i, stream *random) {
    const int64_t out = p->list[i];
    const turn found = {out, place(p, out, random)};
    fetch(p, out);
    fetch(p, found.offers);
    return found;
}

/* The users of a turn who would add least to the error, and second least. */
typedef struct {
    int64_t best, second;
    double least, next;
} ranking;

static inline void rank(ranking *r, int64_t user, double cost) {
    if (cost < r->least)
        *r = (ranking){user, r->best, cost, r->least};
    else if (cost < r->next)
        r->second = user, r->next = cost;
}

/* Takes out the user of turn i, and puts in the best of it and of some others: of the one that its neighbourhood
 * kept, and of users who were not looked at. By how much that lowers the error. */
static double exchange(part *p, int64_t i, turn now) {
    const int64_t out = now.out;
    int64_t *kept = p->kept + out * NEIGHBOURHOODS / p->users;
    const int64_t known = *kept;
    put(p, out, -1.0);
    const double own = costs(p, out) - 1e-9; /* less is rounding */
    ranking found = {out, p->users, own, INFINITY};
    int offers = 0;
    if (known < p->users && !p->chosen[known]) {
        rank(&found, known, costs(p, known));
        offers++;
    }
    /* Offers are users in a row who are not chosen; where many are chosen, the search ends after some. */
    int64_t at = now.offers;
    for (int seen = 0; offers < FDP_OFFERS && seen < 4 * FDP_OFFERS; seen++, at++) {
        if (at == p->users) at = 0;
        if (p->chosen[at] || at == known) continue;
        offers++;
        rank(&found, at, costs(p, at));
    }
    const int64_t best = found.best;
    *kept = found.second;
    put(p, best, 1.0);
    if (best == out) return 0.0;
    /* `costs` are half of what a user adds to the error. */
    p->chosen[out] = 0;
    p->chosen[best] = 1;
    p->list[i] = (uint32_t)best;
    return 2.0 * (own - found.least);
}

/* Each chosen user is offered an exchange in every sweep, in a random order. It ends when the error
 * falls by less than `least` for each cell. */
static void sweep(part *p, const fdp_choice_plan *plan) {
    const int64_t cells = plan->first[plan->facts + plan->columns];
    stream random = {.state = stream_key(plan->seed, (uint64_t)p->number, 0, ORDER)};
    shuffle(p->list, (uint64_t)p->many, &random);
    for (int64_t k = 0; k < NEIGHBOURHOODS; k++) p->kept[k] = p->users;
    for (int64_t k = 0; k < plan->sweeps && p->many > 0 && p->many < p->users; k++) {
        double lower = 0.0;
        turn next = turn_of(p, 0, &random);
        for (int64_t i = 0; i < p->many; i++) {
            const turn now = next;
            if (i + 1 < p->many) next = turn_of(p, i + 1, &random);
            lower += exchange(p, i, now);
        }
        if (lower < plan->least * (double)cells) break;
    }
}

/* The cell of a row in a table. */
static inline int64_t cell_of(const uint32_t *codes, int64_t rows, const fdp_row_table *table, int64_t row) {
    if (table->one < 0) return 0;
    const int64_t code = codes[table->one * rows + row];
    return table->other < 0 ? code : code * table->width + codes[table->other * rows + row];
}

/* The cells of the part's users, and their constants; 0 where a cell is outside its table. */
static int lay_out(const choice_job *job, part *p) {
    const fdp_choice_plan *plan = job->plan;
    const int64_t plain = plan->columns - plan->steps;
    uint32_t *at = p->cells;
    int valid = 1;
    for (int64_t u = 0; u < p->users; u++) {
        /* Cells that count 1 come first: those of the user's facts, then of its rows; then cells that
         * count step[u]. */
        const int64_t user = u * plan->parts + p->number;
        const int64_t low = plan->row_start[user], high = plan->row_start[user + 1];
        p->start[u] = (size_t)(at - p->cells);
        p->units[u] = (uint32_t)(plan->facts + plain * (high - low));
        p->step[u] = plan->step[user];
        p->chosen[u] = job->chosen[user];
        if (p->chosen[u]) p->list[p->many++] = (uint32_t)u;
        for (int64_t t = 0; t < plan->facts; t++) {
            const int64_t cell = plan->first[t] + plan->facts_of[t * plan->users + user];
            valid &= cell < plan->first[t + 1];
            *at++ = (uint32_t)cell;
        }
        for (int side = 0; side < 2; side++) {
            const int64_t from = side ? plain : 0, to = side ? plan->columns : plain;
            const int64_t *first = plan->first + plan->facts;
            for (int64_t r = low; r < high; r++)
                for (int64_t c = from; c < to; c++) {
                    const int64_t cell = first[c] + cell_of(plan->codes, plan->rows, plan->of_rows + c, r);
                    valid &= cell < first[c + 1];
                    *at++ = (uint32_t)cell;
                }
        }
    }
    p->start[p->users] = (size_t)(at - p->cells);
    return valid;
}

/* The users' constants; `often` is room for a number of each cell. */
static void set_own(part *p, double *often) {
    for (int64_t u = 0; u < p->users; u++) {
        const uint32_t *mine = p->cells + p->start[u];
        const size_t n = p->start[u + 1] - p->start[u];
        double sum = 0.0;
        for (size_t i = 0; i < n; i++) {
            const double one = i < p->units[u] ? 1.0 : p->step[u];
            sum += p->weight[mine[i]] * one * (2.0 * often[mine[i]] + one);
            often[mine[i]] += one;
        }
        for (size_t i = 0; i < n; i++) often[mine[i]] = 0.0;
        p->own[u] = sum / 2.0;
    }
}

/* One part: weights and pulls of its share of the targets, constants of its users, then exchanges. */
static void choose_part(choice_job *job, part *p, double *often) {
    const fdp_choice_plan *plan = job->plan;
    const int64_t cells = plan->first[plan->facts + plan->columns];
    const double share = (double)p->many / (double)job->all;
    for (int64_t c = 0; c < cells; c++) {
        p->weight[c] = plan->weight[c] / share;
        p->pull[c] = -plan->weight[c] * plan->target[c];
    }
    set_own(p, often);
    for (int64_t i = 0; i < p->many; i++) put(p, p->list[i], 1.0);
    sweep(p, plan);
    for (int64_t u = 0; u < p->users; u++) job->chosen[u * plan->parts + p->number] = p->chosen[u];
}

/* Users and rows of part `number`: users number, number + parts, number + 2 parts ... are in it. */
static size_t users_in(const fdp_choice_plan *plan, int64_t number) {
    return (size_t)((plan->users - number + plan->parts - 1) / plan->parts);
}

static size_t rows_in(const fdp_choice_plan *plan, int64_t number) {
    size_t rows = 0;
    for (int64_t u = number; u < plan->users; u += plan->parts)
        rows += (size_t)(plan->row_start[u + 1] - plan->row_start[u]);
    return rows;
}

/* Parts of one thread, one after the other in the same memory, which has room for any of them. */
static void choose_work(fdp_team *team, int member, void *ctx) {
    choice_job *job = ctx;
    const fdp_choice_plan *plan = job->plan;
    const size_t cells = (size_t)plan->first[plan->facts + plan->columns];
    const size_t users = users_in(plan, 0); /* no part has more */
    size_t rows = 0;
    (void)team, (void)member;
    for (int64_t number = 0; number < plan->parts; number++) {
        const size_t own = rows_in(plan, number);
        rows = FDP_MAX(rows, own);
    }
    /* Of real numbers: two for each user, two for each cell, and room for `set_own`. Of whole ones: two for each
     * user, and the cells of all users. */
    const size_t whole = 2 * users + users * (size_t)plan->facts + rows * (size_t)plan->columns;
    part p = {.own = malloc(sizeof *p.own * (2 * users + 2 * cells + 1)),
              .units = malloc(sizeof *p.units * (whole + 1)),
              .start = malloc(sizeof *p.start * (users + 1)),
              .chosen = malloc(users + 1)};
    double *often = calloc(cells + 1, sizeof *often);
    p.step = p.own + users;
    p.pull = p.step + users;
    p.weight = p.pull + cells;
    p.list = p.units + users;
    p.cells = p.list + users;
    const int room = p.own != NULL && p.units != NULL && p.start != NULL && p.chosen != NULL && often != NULL;
    for (int64_t number; (number = fdp_team_next(&job->next)) < plan->parts;) {
        p.users = (int64_t)users_in(plan, number);
        p.number = number;
        p.many = 0;
        if (!room)
            atomic_store(&job->status, FDP_ERR_MEMORY);
        else if (!lay_out(job, &p))
            atomic_store(&job->status, FDP_ERR_ARGUMENT);
        else if (p.many > 0)
            choose_part(job, &p, often);
    }
    free(p.own), free(p.units), free(p.start), free(p.chosen), free(often);
}

/* The errors of all tables. */
static int measure(const choice_job *job, double *error) {
    const fdp_choice_plan *p = job->plan;
    const int64_t tables = p->facts + p->columns;
    double *count = calloc((size_t)p->first[tables] + 1, sizeof *count);
    if (count == NULL) return FDP_ERR_MEMORY;
    for (int64_t t = 0; t < tables; t++) {
        /* The counts of the chosen users: once for a fact, once or step[u] times for each row. */
        double *of = count + p->first[t];
        for (int64_t u = 0; u < p->users; u++) {
            if (!job->chosen[u]) continue;
            if (t < p->facts) {
                of[p->facts_of[t * p->users + u]] += 1.0;
                continue;
            }
            const fdp_row_table *table = p->of_rows + t - p->facts;
            const double one = t < tables - p->steps ? 1.0 : p->step[u];
            for (int64_t r = p->row_start[u]; r < p->row_start[u + 1]; r++)
                of[cell_of(p->codes, p->rows, table, r)] += one;
        }
        /* Their squared distances from the targets. */
        error[t] = 0.0;
        for (int64_t cell = p->first[t]; cell < p->first[t + 1]; cell++) {
            const double apart = count[cell] - p->target[cell];
            error[t] += p->weight[cell] * apart * apart;
        }
    }
    free(count);
    return FDP_OK;
}

int fdp_choose(const fdp_choice_plan *p, int threads, uint8_t *chosen, double *error) {
    if (threads < 1 || p->users < 1 || p->users >= UINT32_MAX || p->facts < 0 || p->steps < 0 ||
        p->columns < p->steps || p->parts < 1 || p->first[p->facts + p->columns] >= UINT32_MAX)
        return FDP_ERR_ARGUMENT;
    choice_job job = {.plan = p, .chosen = chosen};
    for (int64_t u = 0; u < p->users; u++) job.all += chosen[u];
    fdp_team_run(threads, choose_work, &job);
    const int code = atomic_load(&job.status);
    return code == FDP_OK && error != NULL ? measure(&job, error) : code;
}

int fdp_row_counts(const fdp_row_counts_plan *p, double *count) {
    memset(count, 0, sizeof *count * (size_t)p->first[p->tables]);
    for (int64_t t = 0; t < p->tables; t++) {
        const int64_t cells = p->first[t + 1] - p->first[t];
        double *of = count + p->first[t];
        for (int64_t u = 0; u < p->users; u++)
            for (int64_t r = p->row_start[u]; r < p->row_start[u + 1]; r++) {
                const int64_t cell = cell_of(p->codes, p->rows, p->of_rows + t, r);
                if (cell >= cells) return FDP_ERR_ARGUMENT;
                of[cell] += p->weight[u];
            }
    }
    return FDP_OK;
}

/* A code that the user had before has the user's number in `last`. */
int fdp_distinct(int64_t users, const int64_t *row_start, const uint32_t *codes, int64_t size, int64_t *out) {
    int64_t *last = calloc((size_t)size + 1, sizeof *last); /* the last user, from 1, who has a code */
    if (last == NULL) return FDP_ERR_MEMORY;
    for (int64_t u = 0; u < users; u++) {
        out[u] = 0;
        for (int64_t r = row_start[u]; r < row_start[u + 1]; r++) {
            if (codes[r] >= size) {
                free(last);
                return FDP_ERR_ARGUMENT;
            }
            out[u] += last[codes[r]] != u + 1;
            last[codes[r]] = u + 1;
        }
    }
    free(last);
    return FDP_OK;
}

/* Each row meets the user's earlier rows that have its code. */
int fdp_equal_pairs(int64_t users, const int64_t *row_start, const uint32_t *codes, int64_t size,
                    int64_t *out) {
    int64_t *last = calloc(2 * ((size_t)size + 1), sizeof *last); /* the last user, from 1, who has a code */
    if (last == NULL) return FDP_ERR_MEMORY;
    int64_t *times = last + size + 1; /* its rows that have it */
    for (int64_t u = 0; u < users; u++) {
        out[u] = 0;
        for (int64_t r = row_start[u]; r < row_start[u + 1]; r++) {
            const uint32_t code = codes[r];
            if (code >= size) {
                free(last);
                return FDP_ERR_ARGUMENT;
            }
            if (last[code] != u + 1) times[code] = 0;
            last[code] = u + 1;
            out[u] += times[code]++;
        }
    }
    free(last);
    return FDP_OK;
}
