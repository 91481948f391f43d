/* Put before the inference kernels by bench/threads.py: does the steps of a call one piece after the other, on
 * one thread, and notes when each piece begins, in the thread's own time: that of every piece of work. */
#ifndef FDP_TRACE_TEAM_H
#define FDP_TRACE_TEAM_H
#include "team.h"

enum { FDP_TRACE_MOST = 1 << 20 };
static int64_t fdp_trace_length;
static struct {
    int64_t kind; /* of the step; 0: between two of them */
    int64_t index;
    int64_t time;
} fdp_trace_note[FDP_TRACE_MOST];

static inline void fdp_trace(int64_t kind, int64_t index) {
    if (fdp_trace_length == FDP_TRACE_MOST) return;
    fdp_trace_note[fdp_trace_length].kind = kind;
    fdp_trace_note[fdp_trace_length].index = index;
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    fdp_trace_note[fdp_trace_length++].time = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static inline void fdp_traced_steps(fdp_team *team, int threads, int deal, fdp_team_plan plan,
                                    fdp_team_piece piece, void *ctx) {
    (void)team, (void)threads, (void)deal;
    int64_t kind = 0, pieces;
    for (;;) {
        fdp_trace(0, 0);
        if ((pieces = plan(ctx, &kind)) == 0) break;
        for (int64_t i = 0; i < pieces; i++) {
            fdp_trace(kind, i);
            piece(ctx, kind, i);
        }
    }
    fdp_trace(0, 0);
}

__attribute__((visibility("default"))) int64_t fdp_trace_take(const void **notes) {
    const int64_t length = fdp_trace_length;
    *notes = fdp_trace_note;
    fdp_trace_length = 0;
    return length;
}

#define fdp_team_steps fdp_traced_steps
#endif
