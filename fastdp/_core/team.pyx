"""A team of threads for many calls of the kernels; see csrc/team.h."""


cdef class Team:
    """Up to `threads` threads, made when a call first needs them and kept until the team is let go.

    Whoever makes several calls of the kernels (a fit, a count) makes one team and hands it to all of them in
    place of a number of threads. It may be used after a fork, on both sides, and by several threads of the
    program: whoever comes while it is at work is served by his own thread alone. No result depends on it.
    """

    def __cinit__(self, int threads):
        if not fdp_team_make(&self.c, threads):
            raise MemoryError("not enough memory for a team of threads")
        self.made = True

    def __dealloc__(self):
        if self.made:
            with nogil:
                fdp_team_end(&self.c)

    @property
    def threads(self):
        """The most threads that a call may have."""
        return self.c.most

    def __reduce__(self):
        raise TypeError("a team of threads cannot be copied or pickled: make one where it is used")


cdef Team team_of(threads):
    """The team itself, or one of so many threads for this call alone (nothing is started before it is
    needed)."""
    return <Team> threads if isinstance(threads, Team) else Team(threads)
