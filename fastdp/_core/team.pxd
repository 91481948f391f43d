cdef extern from "team.h" nogil:
    ctypedef struct fdp_team:
        int most
        int made
    bint fdp_team_make(fdp_team *team, int threads)
    void fdp_team_end(fdp_team *team)


cdef class Team:
    cdef fdp_team *c


cdef Team team_of(threads)
