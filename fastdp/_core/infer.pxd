"""csrc/infer.h, as infer.pyx sees it."""

from libc.stdint cimport int32_t, int64_t

from fastdp._core.team cimport fdp_team

cdef extern from "infer.h" nogil:
    enum:
        FDP_MAX_DIMS
        FDP_LOCAL_SPARSE
        FDP_DIRECT_ROW
        FDP_DIRECT_SUM
    ctypedef struct fdp_link:
        int64_t at
        int64_t size
        const int32_t *base
        int32_t nd
        int32_t shared
        int64_t *n
        int64_t *ts
    ctypedef struct fdp_node:
        int64_t rows
        int64_t cells
        int64_t table
        int64_t row_at
        int64_t separator
        int32_t local
        int32_t lanes
        int64_t local_at
        const int64_t *local_row
        const int32_t *local_cell
        int64_t n_links
        const fdp_link *links
        int64_t first_hosted
        int64_t direct
        int64_t lane_buffer
        int64_t buffer_at
    ctypedef struct fdp_fold:
        int64_t host_at
        fdp_link link
    ctypedef struct fdp_hosted:
        pass
    ctypedef struct fdp_slice:
        pass
    ctypedef struct fdp_piece:
        pass
    ctypedef struct fdp_stage:
        pass
    ctypedef struct fdp_tree:
        int64_t size
        int64_t shared
        int64_t large
        int64_t n_stages
        int64_t n_up
        int64_t n_down
        int64_t n_early
        int64_t n_hosted
        int64_t n_copies
        const fdp_stage *stages
        const fdp_node *nodes
        const fdp_hosted *hosted
        const fdp_fold *folds
        const fdp_slice *up
        const fdp_slice *down
        const fdp_piece *ratios
        const fdp_piece *deliveries
        const fdp_piece *gathers
        const fdp_piece *plain
        const fdp_piece *sums
        const fdp_piece *copies
    ctypedef struct fdp_target:
        int64_t row_at
        const void *target
        const void *weight
        double precision
    ctypedef struct fdp_state:
        void *cells
        double *rowsum
        double *m
    ctypedef struct fdp_work:
        double *up
        void *ratio
        double *message
        double *buffer
        double *reach
        double *rows
        double *up_sums
        double *down_sums
        double *parts
    int fdp_infer_f64(const fdp_tree *, const double *, double, fdp_team *, const fdp_work *,
                      const fdp_state *, double *)
    int fdp_infer_f32(const fdp_tree *, const double *, double, fdp_team *, const fdp_work *,
                      const fdp_state *, double *)
    int fdp_adopt_f64(const fdp_tree *, double, fdp_team *, const fdp_work *, const fdp_state *)
    int fdp_adopt_f32(const fdp_tree *, double, fdp_team *, const fdp_work *, const fdp_state *)
    int fdp_normalise_f64(const fdp_tree *, double, fdp_team *, const fdp_work *, const fdp_state *)
    int fdp_normalise_f32(const fdp_tree *, double, fdp_team *, const fdp_work *, const fdp_state *)
    int fdp_move_f64(const fdp_tree *, const fdp_target *, int64_t, const double *, double, double, double,
                     fdp_team *, const fdp_work *, const fdp_state *, double, double *,
                     const fdp_state *, double *, int *, double *)
    int fdp_move_f32(const fdp_tree *, const fdp_target *, int64_t, const double *, double, double, double,
                     fdp_team *, const fdp_work *, const fdp_state *, double, float *,
                     const fdp_state *, double *, int *, double *)
    int fdp_step(int64_t, double, const double *, double, const double *, const double *, fdp_team *,
                 double *)
    int fdp_arrive(int64_t, const double *, const double *, const double *, const double *, const double *,
                   fdp_team *, double *, double *, double *)
    int fdp_blend(int64_t, double, const double *, const double *, fdp_team *, double *, double *)
    int fdp_average_f64(int64_t, double, const double *, fdp_team *, double *)
    int fdp_average_f32(int64_t, double, const float *, fdp_team *, float *)
