/* The kernels of one tile (some rows of a node), for REAL = double or float. Included by infer.c once for
 * each. */

/* Rows are short (11 cells is common) and their ends would cost more than their middles, so row kernels go by
 * whole blocks of `wide` numbers: past the end of a row they read what follows, which counts nothing, and
 * write what the next row overwrites. The last row is left to plain loops. */
typedef REAL NAME(vec) __attribute__((vector_size(VECTOR), aligned(sizeof(REAL)), may_alias));
enum { NAME(lanes) = VECTOR / sizeof(REAL), NAME(wide) = PARTS * VECTOR / sizeof(REAL) };
#define EACH_PART _Pragma("GCC unroll 4") for (int k = 0; k < PARTS; k++)

/* Part k of the block that begins at `from`. */
static inline __attribute__((always_inline)) NAME(vec) NAME(vec_at)(const REAL *from, int k) {
    return *(const NAME(vec) *)(from + k * NAME(lanes));
}

/* 1 in the first n lanes of a block, 0 in the others */
static inline __attribute__((always_inline)) void NAME(first)(int64_t n, NAME(vec) * ones) {
    EACH_PART for (int i = 0; i < NAME(lanes); i++) ones[k][i] = k * NAME(lanes) + i < n ? 1 : 0;
}

FDP_CLONES void NAME(tile_load)(int64_t n, const double *restrict src, REAL *restrict block) {
    for (int64_t i = 0; i < n; i++) block[i] = (REAL)src[i];
}

/* block[r, :] = src[base[r] + pattern] for a pattern of at most two merged dimensions, r = 0..rows-1 */
FDP_CLONES void NAME(tile_set)(int64_t rows, int64_t cells, const REAL *restrict src, const fdp_link *link,
                               const int32_t *restrict base, REAL *restrict block) {
    const int nd = link->nd;
    const int64_t inner = nd ? link->n[nd - 1] : 1, step = nd ? link->ts[nd - 1] : 0;
    const int64_t n0 = nd == 2 ? link->n[0] : 1, t0 = nd == 2 ? link->ts[0] : 0;
    for (int64_t r = 0; r < rows; r++, block += cells) {
        const REAL *s = src + (base ? base[r] : 0);
        REAL *b = block;
        for (int64_t k = 0; k < n0; k++, b += inner, s += t0) {
            if (step)
                for (int64_t i = 0; i < inner; i++) b[i] = s[i];
            else
                for (int64_t i = 0; i < inner; i++) b[i] = s[0];
        }
    }
}

/* Walks a link's dimensions but the last: RUN for every run of `inner` cells, with `far` the offset in the
 * hosted table and `near` that in the row. Two dimensions are the common case and need no counters. */
#define WALK(RUN) \
    if (nd <= 2) { \
        const int64_t outer = nd == 2 ? link->n[0] : 1, skip = nd == 2 ? link->ts[0] : 0; \
        for (int64_t k = 0, near = 0, far = 0; k < outer; k++, near += inner, far += skip) RUN \
    } else { \
        int64_t count[FDP_MAX_DIMS], near = 0, far = 0; \
        for (int d = 0; d < nd - 1; d++) count[d] = 0; \
        for (int d = 0; d >= 0; near += inner) { \
            RUN for (d = nd - 2; d >= 0; d--) { \
                far += link->ts[d]; \
                if (++count[d] < link->n[d]) break; \
                far -= link->ts[d] * link->n[d]; \
                count[d] = 0; \
            } \
        } \
    }

/* block[r, :] OP= src[base[r] + pattern], r = 0..rows-1: tile_add for potentials, tile_mul for ratios */
#define COMBINE(name, OP) \
    FDP_CLONES void NAME(name)(int64_t rows, int64_t cells, const REAL *restrict src, const fdp_link *link, \
                               const int32_t *restrict base, REAL *restrict block) { \
        const int nd = link->nd; \
        const int64_t inner = nd ? link->n[nd - 1] : 1, step = nd ? link->ts[nd - 1] : 0; \
        for (int64_t r = 0; r < rows; r++, block += cells) { \
            const REAL *row = src + (base ? base[r] : 0); \
            WALK({ \
                const REAL *s = row + far; \
                REAL *b = block + near; \
                if (step) \
                    for (int64_t i = 0; i < inner; i++) b[i] OP s[i]; \
                else \
                    for (int64_t i = 0; i < inner; i++) b[i] OP s[0]; \
            }) \
        } \
    }
COMBINE(tile_add, +=)
COMBINE(tile_mul, *=)
#undef COMBINE

/* dst[base[r] + pattern] += factor[r] * block[r, :] */
FDP_CLONES void NAME(tile_project)(int64_t rows, int64_t cells, const REAL *restrict block,
                                   const double *restrict factor, const fdp_link *link,
                                   const int32_t *restrict base, double *restrict dst) {
    const int nd = link->nd;
    const int64_t inner = nd ? link->n[nd - 1] : 1, step = nd ? link->ts[nd - 1] : 0;
    for (int64_t r = 0; r < rows; r++, block += cells) {
        const double f = factor[r];
        double *row = dst + (base ? base[r] : 0);
        WALK({
            double *t = row + far;
            const REAL *b = block + near;
            if (step) {
                for (int64_t i = 0; i < inner; i++) t[i] += f * b[i];
            } else {
                double sum = 0;
                _Pragma("omp simd reduction(+ : sum)") for (int64_t i = 0; i < inner; i++) sum += b[i];
                t[0] += f * sum;
            }
        })
    }
}
#undef WALK

/* rowsum[r] = sum of block[r, :] */
static inline __attribute__((always_inline)) void
NAME(sum_rows)(int64_t rows, int64_t cells, const REAL *restrict block, double *restrict rowsum) {
    const int64_t ahead = cells >= NAME(wide) / 2 ? rows - 1 : 0,
                  full = (cells - 1) / NAME(wide) * NAME(wide);
    NAME(vec) end[PARTS];
    NAME(first)(cells - full, end);
    for (int64_t r = 0; r < rows; r++, block += cells) {
        if (r < ahead) {
            fdp_sum sum[PARTS] = {0};
            for (int64_t i = 0; i < full; i += NAME(wide)) {
                EACH_PART sum[k] += NAME(widen)(NAME(vec_at)(block + i, k));
            }
            EACH_PART sum[k] += NAME(widen)(end[k] * NAME(vec_at)(block + full, k));
            rowsum[r] = across(sum);
        } else {
            double sum = 0;
            for (int64_t i = 0; i < cells; i++) sum += block[i];
            rowsum[r] = sum;
        }
    }
}

FDP_CLONES void NAME(tile_sum)(int64_t rows, int64_t cells, const REAL *restrict block,
                               double *restrict rowsum) {
    NAME(sum_rows)(rows, cells, block, rowsum);
}

/* block = exp(block - rowmax) in place; rowsum[r]; message[r] += rowmax + log(rowsum). A row without a
 * possible cell becomes zeros and its message -inf. */
FDP_CLONES void NAME(tile_exp)(int64_t rows, int64_t cells, REAL *restrict block, double *restrict rowsum,
                               double *restrict top) {
    REAL *b = block;
    for (int64_t r = 0; r < rows; r++, b += cells) {
        REAL peak = -INFINITY;
#pragma omp simd reduction(max : peak)
        for (int64_t i = 0; i < cells; i++) peak = b[i] > peak ? b[i] : peak;
        top[r] = peak;
        const REAL shift = peak > -INFINITY ? peak : 0;
        for (int64_t i = 0; i < cells; i++) b[i] -= shift;
    }
    for (int64_t i = 0; i < rows * cells; i++) block[i] = EXP(block[i]);
    NAME(sum_rows)(rows, cells, block, rowsum);
}

/* to[r, :] = factor[r] * from[r, :] */
FDP_CLONES void NAME(tile_scale)(int64_t rows, int64_t cells, const double *restrict factor,
                                 const REAL *restrict from, REAL *restrict to) {
    const int64_t ahead = cells >= NAME(wide) / 2 ? rows - 1 : 0;
    int64_t r = 0;
    for (; r < ahead; r++, from += cells, to += cells) {
        const REAL f = (REAL)factor[r];
        for (int64_t i = 0; i < cells; i += NAME(wide)) {
            EACH_PART *(NAME(vec) *)(to + i + k * NAME(lanes)) = f * NAME(vec_at)(from + i, k);
        }
    }
    for (; r < rows; r++, from += cells, to += cells)
        for (int64_t i = 0; i < cells; i++) to[i] = (REAL)factor[r] * from[i];
}

/* x = (1 - weight) x + weight z */
FDP_CLONES void NAME(tile_average)(int64_t n, REAL weight, const REAL *restrict z, REAL *restrict x) {
    const REAL old = 1 - weight;
    for (int64_t i = 0; i < n; i++) x[i] = weight * z[i] + old * x[i];
}

/* block *= exp(delta); returns the largest delta */
FDP_CLONES double NAME(tile_grow)(int64_t n, const double *restrict delta, REAL *restrict block) {
    double most = -INFINITY;
#pragma omp simd reduction(max : most)
    for (int64_t i = 0; i < n; i++) {
        block[i] *= EXP((REAL)delta[i]);
        most = delta[i] > most ? delta[i] : most;
    }
    return most;
}

/* What one step of a direct tile needs besides its cells: see fdp_move. */
typedef struct {
    REAL precision, size, mix, average;
} NAME(pace);

/* block holds z; the average takes it in, and block becomes z exp(-size * w * y), above zero where z's cell
 * `from` is. Adds sum of w y^2 to *squares; returns the largest exponent. */
static inline __attribute__((always_inline)) double
NAME(direct_loop)(int64_t n, NAME(pace) p, const REAL *restrict from, const REAL *restrict target,
                  const REAL *restrict weight, int weighted, REAL *restrict x, REAL *restrict block,
                  double *squares) {
    const REAL keep = 1 - p.average, rest = 1 - p.mix;
    REAL most = -INFINITY, sum = 0;
#pragma omp simd reduction(max : most) reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) {
        const REAL z = block[i], mean = p.average * z + keep * x[i];
        const REAL y = rest * mean + p.mix * z - target[i], wy = (weighted ? weight[i] : p.precision) * y;
        const REAL change = -p.size * wy, grown = z * EXP(change), least = from[i] > 0 ? TINY : 0;
        x[i] = mean;
        sum += wy * y;
        most = change > most ? change : most;
        block[i] = grown > least ? grown : least;
    }
    *squares += sum;
    return most;
}

FDP_CLONES double NAME(tile_direct)(int64_t n, NAME(pace) p, const REAL *restrict from,
                                    const REAL *restrict target, const REAL *restrict weight,
                                    REAL *restrict x, REAL *restrict block, double *squares) {
    return weight ? NAME(direct_loop)(n, p, from, target, weight, 1, x, block, squares)
                  : NAME(direct_loop)(n, p, from, target, NULL, 0, x, block, squares);
}

/* No cell that was not zero becomes zero. */
FDP_CLONES void NAME(tile_floor)(int64_t n, const REAL *restrict from, REAL *restrict block) {
    for (int64_t i = 0; i < n; i++) {
        const REAL least = from[i] > 0 ? TINY : 0;
        block[i] = block[i] > least ? block[i] : least;
    }
}

/* Of the rows of a direct tile, with e = block and h = e - z: rowsum[r], sums[r] of w (y e, h e, e e); over
 * all rows, sums of w (y h, h h) are added to flat[0] and flat[1]. */
static inline __attribute__((always_inline)) void
NAME(weigh_loop)(int64_t rows, int64_t cells, NAME(pace) p, const double *restrict factor,
                 const REAL *restrict from, const REAL *restrict target, const REAL *restrict weight,
                 int weighted, const REAL *restrict x, const REAL *restrict block, double *restrict rowsum,
                 double *restrict sums, double *restrict flat) {
    const int64_t ahead = cells >= NAME(wide) / 2 ? rows - 1 : 0,
                  full = (cells - 1) / NAME(wide) * NAME(wide);
    NAME(vec) end[PARTS];
    NAME(first)(cells - full, end);
    const REAL rest = 1 - p.mix;
    const double common = weighted ? 1 : (double)p.precision;
    NAME(vec) yh[PARTS] = {0}, hh[PARTS] = {0};
    double yh_last = 0, hh_last = 0;
    for (int64_t r = 0; r < rows; r++, sums += FDP_DIRECT_ROW) {
        const REAL f = (REAL)factor[r];
        double ye = 0, he = 0, ee = 0;
        if (r < ahead) {
            fdp_sum sum[PARTS] = {0};
            NAME(vec) yes[PARTS] = {0}, hes[PARTS] = {0}, ees[PARTS] = {0};
            for (int64_t i = 0; i <= full; i += NAME(wide)) {
                EACH_PART {
                    NAME(vec) e = NAME(vec_at)(block + i, k), z = f * NAME(vec_at)(from + i, k);
                    if (i == full) e *= end[k], z *= end[k];
                    const NAME(vec) x_part = NAME(vec_at)(x + i, k), t_part = NAME(vec_at)(target + i, k);
                    const NAME(vec) y = rest * x_part + p.mix * z - t_part, h = e - z;
                    NAME(vec) wh = h, we = e;
                    if (weighted) wh *= NAME(vec_at)(weight + i, k), we *= NAME(vec_at)(weight + i, k);
                    sum[k] += NAME(widen)(e);
                    yh[k] += y * wh, hh[k] += h * wh, yes[k] += y * we, hes[k] += h * we, ees[k] += e * we;
                }
            }
            rowsum[r] = across(sum);
            ye = NAME(across)(yes), he = NAME(across)(hes), ee = NAME(across)(ees);
        } else {
            double sum = 0;
            for (int64_t i = 0; i < cells; i++) {
                const REAL e = block[i], z = f * from[i], y = rest * x[i] + p.mix * z - target[i], h = e - z;
                const double w = weighted ? weight[i] : 1;
                sum += e;
                yh_last += w * y * h, hh_last += w * h * h, ye += w * y * e, he += w * h * e, ee += w * e * e;
            }
            rowsum[r] = sum;
        }
        sums[0] = common * ye, sums[1] = common * he, sums[2] = common * ee;
        from += cells, target += cells, x += cells, block += cells;
        if (weighted) weight += cells;
    }
    fdp_sum wide_yh[PARTS], wide_hh[PARTS];
    EACH_PART wide_yh[k] = NAME(widen)(yh[k]), wide_hh[k] = NAME(widen)(hh[k]);
    flat[0] += common * (across(wide_yh) + yh_last);
    flat[1] += common * (across(wide_hh) + hh_last);
}

FDP_CLONES void NAME(tile_weigh)(int64_t rows, int64_t cells, NAME(pace) p, const double *restrict factor,
                                 const REAL *restrict from, const REAL *restrict target,
                                 const REAL *restrict weight, const REAL *restrict x,
                                 const REAL *restrict block, double *restrict rowsum, double *restrict sums,
                                 double *restrict flat) {
    if (weight)
        NAME(weigh_loop)(rows, cells, p, factor, from, target, weight, 1, x, block, rowsum, sums, flat);
    else
        NAME(weigh_loop)(rows, cells, p, factor, from, target, NULL, 0, x, block, rowsum, sums, flat);
}

/* ratio = exp(change) up to a scale; part: the log of that scale, what the mass m of the entries sums to, and
 * what it would sum to times ratio. */
FDP_CLONES void NAME(tile_ratio)(int64_t n, const double *restrict change, const double *restrict m,
                                 REAL *restrict ratio, double *restrict part) {
    double peak = -INFINITY, size = 0, before = 0, after = 0;
#pragma omp simd reduction(max : peak) reduction(+ : size)
    for (int64_t i = 0; i < n; i++) {
        peak = change[i] > peak ? change[i] : peak;
        size += fabs(change[i]);
    }
    if (size == 0) { /* nothing of these entries was measured */
        for (int64_t i = 0; i < n; i++) ratio[i] = 1;
#pragma omp simd reduction(+ : before)
        for (int64_t i = 0; i < n; i++) before += m[i];
        part[0] = 0, part[1] = part[2] = before;
        return;
    }
#pragma omp simd reduction(+ : before, after)
    for (int64_t i = 0; i < n; i++) {
        const REAL e = EXP((REAL)(change[i] - peak));
        ratio[i] = e;
        before += m[i];
        after += m[i] * e;
    }
    part[0] = peak, part[1] = before, part[2] = after;
}

/* The ratios of one part, scaled so that the mass of all n_parts parts together keeps its sum. Returns the
 * log of the largest ratio of all. */
FDP_CLONES double NAME(tile_rescale)(int64_t n, int64_t n_parts, const double *restrict parts,
                                     const double *part, REAL *restrict ratio) {
    double peak = -INFINITY, before = 0, after = 0;
    for (int64_t k = 0; k < n_parts; k++) peak = parts[3 * k] > peak ? parts[3 * k] : peak;
    for (int64_t k = 0; k < n_parts; k++) {
        before += parts[3 * k + 1];
        after += parts[3 * k + 2] * exp(parts[3 * k] - peak);
    }
    const REAL scale = after > 0 ? (REAL)(before / after * exp(part[0] - peak)) : 1;
    for (int64_t i = 0; i < n; i++) ratio[i] *= scale;
    return after > 0 ? log(before / after) : before > 0 ? INFINITY : 0;
}
#undef EACH_PART
