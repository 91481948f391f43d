/* Belief propagation on a directed junction tree.
 *
 * A NODE is a table [separator cells J | residual cells B]. A HOSTED table is a marginal over part of a
 * node's (or of another hosted table's) attributes; separators and measured marginals are hosted tables.
 * Potentials and marginals of hosted tables, and of those cells of a node that are measured one by one (its
 * LOCAL potential: dense, or sparse: only some cells), form one vector of P numbers. A node whose cells are
 * all measured, each by itself, is not in the vector: it is DIRECT, and is drawn towards its TARGET.
 *
 * A STATE is a distribution on the tree: cells of all nodes, each row only up to a factor, what each row of
 * them sums to, and the vector of marginals. The true row is cells * (marginal of the row's separator cell) /
 * rowsum, so no pass is spent on scaling.
 *
 * Two ways to a state:
 * infer, from potentials. Upward, block = local + sum of hosted potentials (broadcast); cells = exp(block -
 *   rowmax); the separator's potential grows by rowmax + log(rowsum). One exp per cell.
 * move, from a state and a change of potentials. A calibrated table is its own potential: the new cells are
 *   the old ones times the exp of the change. A hosted table's change is exponentiated once per hosted cell
 *   and multiplied in; only cells measured one by one need an exp of their own. Upward, the separator's
 *   change grows by log(rowsum / old mass).
 * Downward, both alike: the separator's new marginal gives the row's factor, and hosted marginals are
 * projections.
 *
 * Threads. All work is cut by the plan, never by the number of threads: rows into SLICES and, where a
 * projection of several of them meets in the same cells, into LANES with sums of their own, which are added
 * in lane order; vectors into PIECES. So results do not depend on the number of threads, and no part of a
 * large tree is one thread's alone. */
#ifndef FDP_INFER_H
#define FDP_INFER_H

#include "fdp.h"
#include "team.h"

/* Merged dimensions have at least two values each and a table has fewer than 2^63 cells, so this is enough
 * for all. */
#define FDP_MAX_DIMS 63

enum { FDP_LOCAL_NONE = 0, FDP_LOCAL_DENSE = 1, FDP_LOCAL_SPARSE = 2, FDP_LOCAL_DIRECT = 3 };

#define FDP_DIRECT_ROW 3 /* numbers kept per row of a direct node */
#define FDP_DIRECT_SUM 3 /* numbers handed back per direct node */

/* How a hosted table lies inside a block of its host: for host row j it starts at base[j] (0 if base is
 * NULL), and walks over the block's nd merged dimensions n[] with strides ts[] (0: broadcast or summed). ts
 * of the last dimension is 0 or 1. */
typedef struct {
    int64_t at;          /* offset of the hosted table in the vector */
    int64_t size;        /* its cells */
    const int32_t *base; /* [J] or NULL */
    int32_t nd;
    int32_t shared; /* several lanes write the same cells: use lane buffers */
    int64_t n[FDP_MAX_DIMS];
    int64_t ts[FDP_MAX_DIMS];
} fdp_link;

typedef struct {
    int64_t rows;      /* J */
    int64_t cells;     /* B, cells of one row */
    int64_t table;     /* offset of the node's table among all tables */
    int64_t row_at;    /* offset of its row sums */
    int64_t separator; /* offset of its separator in the vector, -1 for a root */
    int32_t local;     /* FDP_LOCAL_* */
    int32_t lanes;
    int64_t local_at;          /* offset of its local potential in the vector */
    const int64_t *local_row;  /* sparse: [J + 1] */
    const int32_t *local_cell; /* sparse: cell within the row */
    int64_t n_links;
    const fdp_link *links;
    int64_t first_hosted; /* link l is the table of hosted group first_hosted + l */
    int64_t direct;       /* which of the targets, where local is FDP_LOCAL_DIRECT */
    int64_t lane_buffer;  /* doubles one lane needs for its shared links */
    int64_t buffer_at;    /* where its lanes' buffers begin */
} fdp_node;

/* A hosted table inside a larger hosted table: one "row" that is the whole host. On the way up its potentials
 * are those given, or where link.shared is set, with what it took in. */
typedef struct {
    int64_t host_at;
    fdp_link link;
} fdp_fold;

/* A table that a node hosts directly, with the folds of the tables inside it (upward order): independent of
 * others. [first_piece, first_piece + n_pieces) are its pieces among the tree's ratios. `late`: it takes
 * messages, those of nodes [first_sender, end_sender) or of others in a table inside it. */
typedef struct {
    int64_t at, size;
    int64_t first_fold, n_folds;
    int64_t first_piece, n_pieces;
    int64_t late, first_sender, end_sender;
} fdp_hosted;

/* Rows [from, to) of a node. Downward, `lane` is the lane they make up. */
typedef struct {
    int64_t node, from, to, lane;
} fdp_slice;

/* Entries [from, to) of a table: of hosted table `first`; of link `last` of node `first`; of the separator
 * that nodes first .. last - 1 have in common; or of the vector. Of folds: part `from` of `last` of what lies
 * inside hosted table `first`. */
typedef struct {
    int64_t first, last, from, to;
} fdp_piece;

/* A run of one of the tree's lists. */
typedef struct {
    int64_t first, count;
} fdp_run;

/* Nodes of one depth: they need nothing of each other, so all their slices run side by side. */
typedef struct {
    fdp_run nodes;      /* numbered by depth, within it by separator */
    fdp_run hosted;     /* what they host */
    fdp_run up, down;   /* slices */
    fdp_run ratios;     /* pieces of hosted tables that take messages */
    fdp_run deliveries; /* pieces of separators */
    fdp_run gathers;    /* pieces of links whose lanes have sums of their own */
    fdp_run plain;      /* folds of hosted tables that need no gather */
    fdp_run sums;       /* folds of those that do */
    int64_t needs;      /* on the way down, of the stage above: 0 lanes alone, 1 gathers too, 2 folds too */
    int64_t large;      /* worth several threads */
} fdp_stage;

typedef struct {
    int64_t size;   /* P */
    int64_t shared; /* the first so many take messages or host tables; local potentials behind them do not */
    int64_t large;  /* cells of the stages that are worth several threads */
    int64_t n_stages;
    int64_t n_up, n_down; /* slices */
    int64_t n_early;      /* pieces of hosted tables that take no messages: the first of the ratios */
    int64_t n_hosted, n_copies;
    const fdp_stage *stages; /* root first */
    const fdp_node *nodes;
    const fdp_hosted *hosted;
    const fdp_fold *folds;
    const fdp_slice *up, *down;
    const fdp_piece *ratios, *deliveries, *gathers, *plain, *sums;
    const fdp_piece *copies; /* of the vector: tables inside hosted ones, or local, that take something in */
} fdp_tree;

/* The measured cells of a direct node: loss = sum of precision * (cell - target)^2 / 2. */
typedef struct {
    int64_t row_at;     /* its first row among the rows of all direct nodes */
    const void *target; /* REAL[rows * cells] */
    const void *weight; /* REAL[rows * cells], or NULL: `precision` everywhere */
    double precision;
} fdp_target;

typedef struct {
    void *cells;    /* REAL[cells of all nodes] */
    double *rowsum; /* [rows of all nodes] */
    double *m;      /* [P] */
} fdp_state;

/* Work space of one engine, nothing of which outlives a call. */
typedef struct {
    double *up;        /* [shared] */
    void *ratio;       /* REAL[shared] */
    double *message;   /* [rows of all nodes] */
    double *buffer;    /* all lane buffers of two stages */
    double *reach;     /* [hosted] */
    double *rows;      /* [rows of direct nodes, FDP_DIRECT_ROW] */
    double *up_sums;   /* [slices upward, FDP_DIRECT_SUM + 1] */
    double *down_sums; /* [slices downward, 2] */
    double *parts;     /* [pieces of hosted tables, 3] */
} fdp_work;

/* The state at potentials theta[P], with marginals that sum to `total`. *log_z: sum over components of the
 * log partition function. FDP_ERR_IMPOSSIBLE where no cell of a component is possible. Pulled nodes have no
 * potentials of their local. */
int fdp_infer_f64(const fdp_tree *tree, const double *theta, double total, fdp_team *team,
                  const fdp_work *work, const fdp_state *out, double *log_z);
int fdp_infer_f32(const fdp_tree *tree, const double *theta, double total, fdp_team *team,
                  const fdp_work *work, const fdp_state *out, double *log_z);

/* Row sums and marginals of a state whose cells are given and true (every row's factor is 1). */
int fdp_adopt_f64(const fdp_tree *tree, double total, fdp_team *team, const fdp_work *work,
                  const fdp_state *state);
int fdp_adopt_f32(const fdp_tree *tree, double total, fdp_team *team, const fdp_work *work,
                  const fdp_state *state);

/* The cells of a state multiplied by their rows' factors: they are the true tables then, and every factor is
 * 1. */
int fdp_normalise_f64(const fdp_tree *tree, double total, fdp_team *team, const fdp_work *work,
                      const fdp_state *state);
int fdp_normalise_f32(const fdp_tree *tree, double total, fdp_team *team, const fdp_work *work,
                      const fdp_state *state);

/* One step of an optimiser from z. In the vector the potentials change by delta[P]; in a direct cell by
 * -size * precision * y, where y = (1 - mix) x + mix z - target. First the running average takes in z:
 * x = (1 - weight) x + weight z, over all cells (x: REAL, true cells).
 * OUT: the state; sums[targets, 3] of precision * (y^2, y g, g^2) with g the change of the cell; *far: the
 * step was too long for the number format (out is then rubbish; ask for a smaller one). A cell that is not
 * zero never becomes zero: structural zeros stay, everything else can come back. */
int fdp_move_f64(const fdp_tree *tree, const fdp_target *targets, int64_t n_targets, const double *delta,
                 double size, double mix, double total, fdp_team *team, const fdp_work *work,
                 const fdp_state *z, double weight, double *x, const fdp_state *out, double *sums, int *far,
                 double *log_z);
int fdp_move_f32(const fdp_tree *tree, const fdp_target *targets, int64_t n_targets, const double *delta,
                 double size, double mix, double total, fdp_team *team, const fdp_work *work,
                 const fdp_state *z, double weight, float *x, const fdp_state *out, double *sums, int *far,
                 double *log_z);

/* The optimiser's passes over the vector, in residuals d = m - t, one read of each array per pass.
 * step:   out = -w (a dx + b dz), a step against the gradient at a mixture of x and z.
 * arrive: out = m - t; *distance = sum of delta (out - dz) / 2, *curvature = sum of w (out - dz)^2 / 2.
 * blend:  d = a new + (1 - a) d; *loss = sum of w d^2 / 2 of the result (a = 0: only the loss).
 * average: y = a x + (1 - a) y. */
int fdp_step(int64_t n, double a, const double *dx, double b, const double *dz, const double *w,
             fdp_team *team, double *out);
int fdp_arrive(int64_t n, const double *m, const double *t, const double *dz, const double *w,
               const double *delta, fdp_team *team, double *out, double *distance, double *curvature);
int fdp_blend(int64_t n, double a, const double *new, const double *w, fdp_team *team, double *d,
              double *loss);
int fdp_average_f64(int64_t n, double a, const double *x, fdp_team *team, double *y);
int fdp_average_f32(int64_t n, double a, const float *x, fdp_team *team, float *y);

#endif
