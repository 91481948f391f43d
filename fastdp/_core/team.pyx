"""A team of threads for many calls of the kernels; see csrc/team.h."""

import atexit
import os

from libc.stdlib cimport free, malloc

cdef fdp_team *idle = NULL  # the threads of the last team that was let go; guarded by Python's lock


cdef class Team:
    """Up to `threads` threads, made when a call first needs them.

    Whoever makes several calls of the kernels (a fit, a count) makes one team and hands it to all of them in
    place of a number of threads. It may be used after a fork, on both sides, and by several threads of the
    program: whoever comes while it is at work is served by his own thread alone. No result depends on it.

    The threads of one team that was let go are kept, asleep, for the next team of that size. They end with
    the program, and before a fork.
    """

    def __cinit__(self, int threads):
        global idle
        if idle != NULL and idle.most == threads:
            self.c, idle = idle, NULL
            return
        self.c = <fdp_team *>malloc(sizeof(fdp_team))
        if self.c == NULL or not fdp_team_make(self.c, threads):
            free(self.c)
            self.c = NULL
            raise MemoryError("not enough memory for a team of threads")

    def __dealloc__(self):
        global idle
        if self.c != NULL and self.c.made > 1:
            self.c, idle = idle, self.c
        end(self.c)

    @property
    def threads(self):
        """The most threads that a call may have."""
        return self.c.most

    def __reduce__(self):
        raise TypeError("a team of threads cannot be copied or pickled: make one where it is used")


cdef void end(fdp_team *team):
    if team != NULL:
        with nogil:
            fdp_team_end(team)
            free(team)


def end_idle():
    """Ends the threads that are kept."""
    global idle
    cdef fdp_team *team = idle
    idle = NULL
    end(team)


atexit.register(end_idle)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=end_idle)


cdef Team team_of(threads):
    """The team itself, or one of so many threads for this call alone (nothing is started before it is
    needed)."""
    return <Team> threads if isinstance(threads, Team) else Team(threads)
