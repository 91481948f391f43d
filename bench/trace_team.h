/* Put before the inference kernels by bench/threads.py: notes when a shared loop hands out its next index and
 * when a phase ends. Of a call on one thread that gives the time of every piece of work. */
#ifndef FDP_TRACE_TEAM_H
#define FDP_TRACE_TEAM_H
#include "team.h"

enum { FDP_TRACE_MOST = 1 << 20 };
static int64_t fdp_trace_length;
static struct {
    int64_t counter; /* address of the loop's counter; 0: the end of a phase */
    int64_t index;
    int64_t time;
} fdp_trace_note[FDP_TRACE_MOST];

static inline void fdp_trace(int64_t counter, int64_t index) {
    if (fdp_trace_length == FDP_TRACE_MOST) return;
    fdp_trace_note[fdp_trace_length].counter = counter;
    fdp_trace_note[fdp_trace_length].index = index;
    fdp_trace_note[fdp_trace_length++].time = fdp_team_clock();
}

static inline int64_t fdp_traced_next(atomic_llong *counter) {
    const int64_t index = fdp_team_next(counter);
    fdp_trace((int64_t)(intptr_t)counter, index);
    return index;
}

static inline int64_t fdp_traced_block(const fdp_team *team, int number, int64_t own, int64_t turn,
                                       atomic_llong *counter) {
    const int64_t index = fdp_team_block(team, number, own, turn, counter);
    fdp_trace((int64_t)(intptr_t)counter, index);
    return index;
}

static inline void fdp_traced_wait(fdp_team *team) {
    fdp_team_wait(team);
    fdp_trace(0, 0);
}

__attribute__((visibility("default"))) int64_t fdp_trace_take(const void **notes) {
    const int64_t length = fdp_trace_length;
    *notes = fdp_trace_note;
    fdp_trace_length = 0;
    return length;
}

#define fdp_team_next fdp_traced_next
#define fdp_team_block fdp_traced_block
#define fdp_team_wait fdp_traced_wait
#endif
