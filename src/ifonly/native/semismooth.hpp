// Limits, any number of classes, one row at a time: engines/semismooth.py without linear rules, which has the mathematics.
//
// `Rivals` is what rows with the same target share. The rivals' rows lie in blocks of features: one sweep over the features reads
// each block once for the pull on its features and once more, from the nearest cache, for what their answers do to the margins.
// A second copy by feature is for the Gram matrix of the free features, to which those are added that became free and from which
// those are taken that are no longer. `Row` is one problem. All memory is lent.
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "limits.hpp"
#include "memory.hpp"
#include "rows.hpp"
#include "spans.hpp"

namespace ifonly::IFONLY_SET::limits {

// The method's constants; engines/semismooth.py gives reasons. The start has its own: a pair is cheap here.
constexpr int MAX_TRIALS = 40, PAIRS = 2, PAIR_STEPS = 5, MAX_RISES = 40;
constexpr double SMALL = 1e-6;         // relative: a larger gap is more than rounding
constexpr double SHRINK = 0.1, LOG_SHRINK = -2.302585092994046, LOW = -690.0;
constexpr double NEAR = 1e-4;          // logarithms that differ by less: their logarithmic mean is the mean
constexpr double FAR_LOGIT = 36.0;     // of a share, in the start
constexpr double PAIR_GAP = 0.005, PAIR_TOL = 0.3; // parts of the gap, and steps of a logit, that are small in the start
constexpr double JOINT = 0.1;          // a gap from which on λ is changed together with q
constexpr double SURE = 0.1;           // of the miss: with less of a residual, it is on the side that it seems to be on
constexpr double LONGEST = 2.0, FLAT_LOGIT = 1e-12, NARROW = 1e-12; // steps in ln λ; slopes; brackets around λ

constexpr int CHASES = 4; // times that the goal is aimed at with more room for rounding
constexpr int EVALUATIONS = 80;

enum class Ended { CUT, FOUND, NOT_FOUND };

using V = Doubles<WIDTH>;
constexpr int FEW = WIDTH < 4 ? 4 : 10; // rivals for whose sums there are registers
constexpr int TILES = 4, BLOCK = TILES * WIDTH; // vectors of features, and features, that a sweep works on at a time

IFONLY_HD V all_of(double a) { return V{} + a; }
IFONLY_HD V *vectors(double *a) { return reinterpret_cast<V *>(a); }
IFONLY_HD const V *vectors(const double *a) { return reinterpret_cast<const V *>(a); }

/** The lanes that are on, as bits. */
IFONLY_HD unsigned bits_on(Longs<WIDTH> mask) {
#if defined(__AVX512DQ__)
    return _mm512_movepi64_mask(bits_of<__m512i>(mask));
#elif defined(__AVX__)
    return unsigned(_mm256_movemask_pd(bits_of<__m256d>(mask)));
#elif defined(__SSE2__)
    return unsigned(_mm_movemask_pd(bits_of<__m128d>(mask)));
#else
    unsigned bits = 0;
    for (int w = 0; w < WIDTH; w++) bits |= unsigned(mask[w] != 0) << w;
    return bits;
#endif
}

/** Calls one.template operator()<n>() for 1 ≤ n ≤ N, else other(). */
template <int N, class One, class Other> IFONLY_HD void few(int n, One one, Other other) {
    if constexpr (N == 0) other();
    else if (n == N) one.template operator()<N>();
    else few<N - 1>(n, one, other);
}

inline i64 whole(i64 count, i64 unit) { return (count + unit - 1) / unit * unit; }

/** The rivals' rows B in units of cost, and μ. */
struct Rivals {
    int n, wide, classes; // rivals; the same, and with the target, as whole vectors
    i64 D, blocks, tiles;
    V *rows;         // [blocks][n][TILES]
    double *columns; // [D][wide]
    V *mu;           // [tiles]
    double *gram;    // [n][wide] of all features
    V *sums;         // n(n + 1)/2, for Gram matrices
    double *lengths; // [n] ‖b_j‖
    double size = 0; // the largest of them
    bool soft = false;

    Rivals(int n, i64 D, Pieces &pieces) : n(n), D(D) {
        wide = int(whole(n, WIDTH));
        classes = int(whole(n + 1, WIDTH));
        blocks = whole(D, BLOCK) / BLOCK;
        tiles = blocks * TILES;
        rows = pieces.take<V>(tiles * n);
        columns = pieces.take<double>(D * wide);
        mu = pieces.take<V>(tiles);
        gram = pieces.take<double>(i64(n) * wide);
        sums = pieces.take<V>(i64(n) * (n + 1) / 2);
        lengths = pieces.take<double>(n);
    }

    /** B (n, D) and μ (D) into their places. */
    void put(const double *B, const double *soft_part) {
        double *packed = reinterpret_cast<double *>(rows), *m = reinterpret_cast<double *>(mu);
        for (i64 k = 0; k < blocks; k++)
            for (int j = 0; j < n; j++) {
                double *to = packed + (k * n + j) * BLOCK;
                const i64 first = k * BLOCK;
                for (int i = 0; i < BLOCK; i++) to[i] = first + i < D ? B[j * D + first + i] : 0.0;
            }
        for (i64 d = 0; d < D; d++)
            for (int j = 0; j < wide; j++) columns[d * wide + j] = j < n ? B[j * D + d] : 0.0;
        for (i64 d = 0; d < tiles * WIDTH; d++) {
            m[d] = d < D ? soft_part[d] : 0.0;
            soft |= m[d] != 0.0;
        }
        for (i64 a = 0; a < i64(n) * wide; a++) gram[a] = 0.0;
        gram_where(gram, [](i64, const V *row, V *out) {
            for (int i = 0; i < TILES; i++) out[i] = row[i];
        });
        for (int j = 0; j < n; j++) {
            lengths[j] = square_root(larger(gram[j * wide + j], 0.0));
            size = larger(size, lengths[j]);
        }
    }

    /** The Gram matrix of the rows, as `chosen(block, row, out)` lets features through. */
    template <class Chosen> void gram_where(double *G, Chosen chosen) const {
        const i64 pairs = i64(n) * (n + 1) / 2;
        for (i64 a = 0; a < pairs; a++) sums[a] = V{};
        for (i64 k = 0; k < blocks; k++) {
            const V *B = rows + k * n * TILES;
            V *sum = sums;
            for (int i = 0; i < n; i++) {
                V own[TILES];
                chosen(k, B + i * TILES, own);
                for (int j = 0; j <= i; j++, sum++) {
                    V a = *sum;
                    for (int t = 0; t < TILES; t++) a += own[t] * B[j * TILES + t];
                    *sum = a;
                }
            }
        }
        const V *sum = sums;
        for (int i = 0; i < n; i++)
            for (int j = 0; j <= i; j++, sum++) G[i * wide + j] = G[j * wide + i] = sum_of(*sum);
    }
};

/** A q, and all that follows from it; the target stands last in the vectors of classes. */
struct Point {
    double *lq, *q, *lp, *p; // [classes]
    double *s;               // [wide]
    V *t;                    // [tiles]
    unsigned char *free;     // [tiles] the features that are free to move, as bits
    double gap;              // E(t(q)) − D(q)

    void lay(const Rivals &b, Pieces &pieces) {
        for (double **vector : {&lq, &q, &lp, &p}) *vector = pieces.take<double>(b.classes);
        s = pieces.take<double>(b.wide);
        t = pieces.take<V>(b.tiles);
        free = pieces.take<unsigned char>(b.tiles);
    }
};

/** What Newton's method carries from one call to the next, where it is cut into several. */
struct Course {
    double least = INF, stalled = 0.0, budget = 0.0;
};

struct Row {
    const Rivals &b;
    V *lo, *hi;      // [tiles] in units of cost
    double *margins; // [wide]
    double lam = 1.0, weight = 1.0;
    Point at, next;
    int n_iter = 0;
    bool within = false; // whether t = 0 is known to be within the limits

    double *G;            // [n][wide] of the free features
    unsigned char *known; // [tiles] those that are in it
    i64 *changed;         // [D]
    double *M, *column, *inverse, *shares; // [n][wide], then [wide] each
    double *v, *g, *rhs, *r, *dq, *ds, *ahead, *along_q, *along_s, *work; // [classes]
    V *sums, *others;     // [n], [tiles]
    double c = 0.0;

    Row(const Rivals &rivals, Pieces &pieces) : b(rivals) {
        lo = pieces.take<V>(b.tiles);
        hi = pieces.take<V>(b.tiles);
        margins = pieces.take<double>(b.wide);
        at.lay(b, pieces);
        next.lay(b, pieces);
        G = pieces.take<double>(i64(b.n) * b.wide);
        known = pieces.take<unsigned char>(b.tiles);
        changed = pieces.take<i64>(b.D);
        M = pieces.take<double>(i64(b.n) * b.wide);
        for (double **vector : {&column, &inverse, &shares}) *vector = pieces.take<double>(b.wide);
        for (double **vector : {&v, &g, &rhs, &r, &dq, &ds, &ahead, &along_q, &along_s, &work}) *vector = pieces.take<double>(b.classes);
        sums = pieces.take<V>(b.n);
        others = pieces.take<V>(b.tiles);
    }

    /** Nothing is known of a new problem. */
    void forget() {
        forget_gram();
        for (Point *x : {&at, &next}) {
            for (int j = 0; j < b.classes; j++) x->lq[j] = x->q[j] = x->lp[j] = x->p[j] = 0.0;
            for (int j = 0; j < b.wide; j++) x->s[j] = 0.0;
        }
        for (double *vector : {v, g, rhs, r, dq, ds, ahead, along_q, along_s, work})
            for (int j = 0; j < b.classes; j++) vector[j] = 0.0;
        n_iter = 0;
    }

    // ---- a point ----

    /** The answer of features to a pull u = Bᵀq. */
    template <bool SOFT> IFONLY_HD V answer(V u, i64 tile, V minus_il, V il) const {
        V y;
        if constexpr (SOFT) {
            const V over = larger(magnitude(u) - weight * b.mu[tile], V{}) * il;
            y = select(u > 0.0, -over, over);
        } else y = u * minus_il;
        return smaller(larger(y, lo[tile]), hi[tile]);
    }

    template <bool SOFT> IFONLY_HD Longs<WIDTH> is_free(V t, i64 tile) const {
        Longs<WIDTH> free = (t > lo[tile]) & (t < hi[tile]);
        if constexpr (SOFT) free &= (t != 0.0) | (b.mu[tile] == 0.0);
        return free;
    }

    /** One tile after the other, with the rivals' sums in registers; N is their number. */
    template <int N, bool SOFT> void sweep_few(Point &x) {
        const V il = all_of(1.0 / lam), minus_il = -il;
        V sum[N] = {}, q[N];
        for (int j = 0; j < N; j++) q[j] = all_of(x.q[j]);
        for (i64 k = 0; k < b.blocks; k++) {
            const V *B = b.rows + k * N * TILES;
            for (int i = 0; i < TILES; i++) {
                const i64 tile = k * TILES + i;
                V u[2] = {};
                for (int j = 0; j < N; j++) u[j % 2] += q[j] * B[j * TILES + i];
                const V t = answer<SOFT>(u[0] + u[1], tile, minus_il, il);
                x.free[tile] = (unsigned char)bits_on(is_free<SOFT>(t, tile));
                x.t[tile] = t;
                for (int j = 0; j < N; j++) sum[j] += B[j * TILES + i] * t;
            }
        }
        for (int j = 0; j < N; j++) x.s[j] = margins[j] + sum_of(sum[j]);
    }

    template <bool SOFT> void sweep_many(Point &x) {
        const int n = b.n;
        const V il = all_of(1.0 / lam), minus_il = -il;
        for (int j = 0; j < n; j++) sums[j] = V{};
        for (i64 k = 0; k < b.blocks; k++) {
            const V *B = b.rows + k * n * TILES;
            V u[TILES] = {}, t[TILES];
            for (int j = 0; j < n; j++) {
                const V q = all_of(x.q[j]);
                for (int i = 0; i < TILES; i++) u[i] += q * B[j * TILES + i];
            }
            for (int i = 0; i < TILES; i++) {
                const i64 tile = k * TILES + i;
                t[i] = answer<SOFT>(u[i], tile, minus_il, il);
                x.free[tile] = (unsigned char)bits_on(is_free<SOFT>(t[i], tile));
                x.t[tile] = t[i];
            }
            for (int j = 0; j < n; j++) {
                V sum = sums[j];
                for (int i = 0; i < TILES; i++) sum += B[j * TILES + i] * t[i];
                sums[j] = sum;
            }
        }
        for (int j = 0; j < n; j++) x.s[j] = margins[j] + sum_of(sums[j]);
    }

    /** x.t, x.free and x.s of x.q. */
    void sweep(Point &x) {
        const bool soft = b.soft;
        few<FEW>(
            b.n, [&]<int N>() { soft ? sweep_few<N, true>(x) : sweep_few<N, false>(x); },
            [&] { soft ? sweep_many<true>(x) : sweep_many<false>(x); });
    }

    /** out = eᵃ, and 0 beyond the classes. */
    void exponentials(const double *a, double shift, double *out) const {
        for (int j = 0; j < b.classes; j += WIDTH) {
            V x;
            __builtin_memcpy(&x, a + j, sizeof x);
            x = exponential(x - shift);
            __builtin_memcpy(out + j, &x, sizeof x);
        }
        for (int j = b.n + 1; j < b.classes; j++) out[j] = 0.0;
    }

    /** ln p, and p if wanted, of margins. */
    void log_softmax(const double *s, double *lp, double *p) const {
        double top = 0.0, total = 0.0;
        for (int j = 0; j < b.n; j++) top = larger(top, s[j]);
        for (int j = 0; j < b.n; j++) lp[j] = s[j];
        lp[b.n] = 0.0;
        double *e = p ? p : work;
        exponentials(lp, top, e);
        for (int j = 0; j <= b.n; j++) total += e[j];
        const double shift = top + __builtin_log(total), share = 1.0 / total;
        for (int j = 0; j <= b.n; j++) lp[j] -= shift;
        if (p)
            for (int j = 0; j <= b.n; j++) p[j] *= share;
    }

    /** All that follows from x.lq. */
    void evaluate(Point &x) {
        exponentials(x.lq, 0.0, x.q);
        sweep(x);
        log_softmax(x.s, x.lp, x.p);
        double gap = 0.0;
        for (int j = 0; j <= b.n; j++) gap += x.q[j] * (x.lq[j] - x.lp[j]) - x.q[j] + x.p[j];
        x.gap = gap;
    }

    /** ln q, normalised, and no lower than it can be. */
    void normalise(double *lq) {
        double top = -INF, total = 0.0;
        for (int j = 0; j <= b.n; j++) top = larger(top, lq[j]);
        exponentials(lq, top, work);
        for (int j = 0; j <= b.n; j++) total += work[j];
        const double shift = top + __builtin_log(total);
        for (int j = 0; j <= b.n; j++) lq[j] = larger(lq[j] - shift, LOW);
    }

    double rivals_mass(const Point &x) const {
        double mass = 0.0;
        for (int j = 0; j < b.n; j++) mass += x.p[j];
        return mass;
    }

    /** What rounding makes of a residual: probabilities are as good as the margins of those that have any. */
    double rounding_of(const Point &x) const {
        double spread = 1.0, sum = 0.0;
        for (int j = 0; j < b.n; j++) spread += x.p[j] * magnitude(x.s[j]);
        for (int j = 0; j < b.n; j++) sum += b.lengths[j] * x.p[j] * (magnitude(x.s[j]) + spread);
        return 8.0 * EPS * sum;
    }

    /** The logit of 1 − p_k. */
    double logit(const Point &x) const { return logit_of(x.s); }
    double logit_of(const double *s) const {
        double top = -INF;
        for (int j = 0; j < b.n; j++) top = larger(top, s[j]);
        return top + __builtin_log(masses(s, top));
    }

    /** The rivals' e^{s − top} in `shares`, and their sum. */
    double masses(const double *s, double top) const {
        V sum{};
        for (int i = 0; i < b.wide / WIDTH; i++) vectors(shares)[i] = exponential(vectors(s)[i] - top);
        for (int j = b.n; j < b.wide; j++) shares[j] = 0.0;
        for (int i = 0; i < b.wide / WIDTH; i++) sum += vectors(shares)[i];
        return sum_of(sum);
    }

    /** ‖Bᵀ(p − q)‖, which bounds the gradient of E. */
    double residual(const Point &x) {
        for (int j = 0; j < b.wide; j++) work[j] = j < b.n ? x.p[j] - x.q[j] : 0.0;
        product(b.gram, work, column);
        const double square = dot(work, column);
        return square_root(square < 0.0 ? 0.0 : square); // NaN stays NaN
    }

    /** How much rounding there is in a point's logit: features answer to sums of terms that may cancel, divided by λ. */
    double noise(const Point &x) const {
        const int n = b.n;
        const double level = 1.0 / masses(x.s, logit(x));
        V total{};
        for (i64 k = 0; k < b.blocks; k++) {
            const V *B = b.rows + k * n * TILES;
            for (int i = 0; i < TILES; i++) {
                V size = weight * b.mu[k * TILES + i], felt{};
                for (int j = 0; j < n; j++) {
                    const V row = magnitude(B[j * TILES + i]);
                    size += x.q[j] * row;
                    felt += shares[j] * level * row;
                }
                const unsigned free = x.free[k * TILES + i];
                for (int w = 0; w < WIDTH; w++) total[w] += free >> w & 1 ? size[w] * felt[w] : 0.0;
            }
        }
        return EPS / lam * sum_of(total);
    }

    // ---- Newton ----

    /** G gains the columns of `count` features in `changed`, or (as bits of `free` say) loses them. */
    template <int N> void add_columns(i64 count, const unsigned char *free) {
        constexpr int wide = (N + WIDTH - 1) / WIDTH, all = wide * WIDTH; // vectors in a column
        V g[N][wide];
        for (int i = 0; i < N; i++)
            for (int j = 0; j <= i / WIDTH; j++) g[i][j] = vectors(G + i * all)[j];
        for (i64 a = 0; a < count; a++) {
            const i64 d = changed[a];
            const double *column = b.columns + d * all, sign = free[d / WIDTH] >> d % WIDTH & 1 ? 1.0 : -1.0;
            V own[wide];
            for (int j = 0; j < wide; j++) own[j] = sign * vectors(column)[j];
            for (int i = 0; i < N; i++)
                for (int j = 0; j <= i / WIDTH; j++) g[i][j] += column[i] * own[j];
        }
        for (int i = 0; i < N; i++)
            for (int j = 0; j <= i / WIDTH; j++) vectors(G + i * all)[j] = g[i][j];
    }

    void add_columns_of_many(i64 count, const unsigned char *free) {
        for (i64 a = 0; a < count; a++) {
            const i64 d = changed[a];
            const double *column = b.columns + d * b.wide, sign = free[d / WIDTH] >> d % WIDTH & 1 ? 1.0 : -1.0;
            for (int i = 0; i < b.n; i++) {
                const V own = all_of(sign * column[i]);
                V *g = vectors(G + i64(i) * b.wide);
                for (int j = 0; j <= i / WIDTH; j++) g[j] += own * vectors(column)[j];
            }
        }
    }

    /** The features that are free at a point and not in G, or the other way round; and how many are free. */
    i64 list_changes(const Point &x, i64 &free) {
        i64 count = 0;
        free = 0;
        for (i64 tile = 0; tile < b.tiles; tile++) {
            free += __builtin_popcount(x.free[tile]);
            for (unsigned odd = x.free[tile] ^ known[tile]; odd; odd &= odd - 1)
                changed[count++] = tile * WIDTH + __builtin_ctz(odd);
        }
        return count;
    }

    void forget_gram() {
        for (i64 tile = 0; tile < b.tiles; tile++) known[tile] = 0;
        for (i64 a = 0; a < i64(b.n) * b.wide; a++) G[a] = 0.0;
    }

    /** G over the features that are free at a point. */
    void bring_gram(const Point &x) {
        i64 free, count = list_changes(x, free);
        if (count == 0) return;
        if (count > free) {
            forget_gram();
            count = list_changes(x, free);
        }
        few<FEW>(b.n, [&]<int N>() { add_columns<N>(count, x.free); }, [&] { add_columns_of_many(count, x.free); });
        for (int i = 0; i < b.n; i++)
            for (int j = 0; j < i; j++) G[i64(j) * b.wide + i] = G[i64(i) * b.wide + j];
        for (i64 tile = 0; tile < b.tiles; tile++) known[tile] = x.free[tile];
    }

    /** out = G a, for a that is 0 beyond the rivals. */
    void times(const double *a, double *out) const { product(G, a, out); }
    void product(const double *matrix, const double *a, double *out) const {
        const int n = b.n, wide = b.wide / WIDTH;
        for (int i = 0; i < wide; i++) {
            V sum{};
            for (int j = 0; j < n; j++) sum += a[j] * vectors(matrix + i64(j) * b.wide)[i];
            vectors(out)[i] = sum;
        }
    }

    double dot(const double *a, const double *other) const {
        V sum{};
        for (int i = 0; i < b.wide / WIDTH; i++) sum += vectors(a)[i] * vectors(other)[i];
        return sum_of(sum);
    }

    /** v and c, with S = RRᵀ and R = diag(v)(I − c v vᵀ); and what M = λI + RᵀGR is made from. */
    void take_means(const Point &x) {
        const int n = b.n, wide = b.wide / WIDTH;
        V total{};
        for (int i = 0; i < b.classes / WIDTH; i++) {
            const V apart = vectors(x.lp)[i] - vectors(x.lq)[i], p = vectors(x.p)[i], q = vectors(x.q)[i];
            const Longs<WIDTH> near = magnitude(apart) < NEAR;
            const V mean = select(near, 0.5 * (p + q), (p - q) / select(near, all_of(1.0), apart));
            total += vectors(work)[i] = mean;
        }
        const double sum = sum_of(total);
        c = 1.0 / sum / (1.0 + square_root(work[n] / sum));
        for (int j = n; j < b.classes; j++) work[j] = 0.0;
        for (int i = 0; i < wide; i++) vectors(v)[i] = square_root(vectors(work)[i]);
        times(work, g);
        for (int i = 0; i < wide; i++) vectors(g)[i] *= vectors(v)[i]; // RᵀGR = diag(v) G diag(v) with c = 0, times v
        const double half = 0.5 * c * c * dot(v, g);
        for (int i = 0; i < wide; i++) vectors(g)[i] = c * vectors(g)[i] - half * vectors(v)[i];
    }

    /** M without λ: diag(v) G diag(v) − v gᵀ − g vᵀ; its trace. */
    double make_matrix() {
        const int n = b.n, wide = b.wide / WIDTH;
        double trace = 0.0;
        for (int i = 0; i < n; i++) {
            const V *from = vectors(G + i64(i) * b.wide);
            V *row = vectors(M + i64(i) * b.wide);
            for (int j = 0; j < wide; j++)
                row[j] = v[i] * (from[j] * vectors(v)[j] - vectors(g)[j]) - g[i] * vectors(v)[j];
            trace += M[i64(i) * b.wide + i];
        }
        return trace;
    }

    /** M + `added`·I = UᵀU, in place: U on and above the diagonal. False where that is not definite. */
    bool factorise(double added) {
        const int n = b.n, wide = b.wide / WIDTH;
        for (int k = 0; k < n; k++) {
            double *own = M + i64(k) * b.wide;
            const double pivot = own[k] + added;
            if (!(pivot > 0.0)) return false;
            inverse[k] = 1.0 / square_root(pivot);
            for (int j = k / WIDTH; j < wide; j++) vectors(own)[j] *= inverse[k];
            for (int i = k + 1; i < n; i++) {
                const V factor = all_of(own[i]);
                V *row = vectors(M + i64(i) * b.wide);
                for (int j = i / WIDTH; j < wide; j++) row[j] -= factor * vectors(own)[j];
            }
        }
        return true;
    }

    /** M, factorised. Where λ is lost beside the rest of it, it is made larger; false where even that is no help. */
    bool definite() {
        const double trace = make_matrix();
        if (factorise(lam)) return true;
        double more = 4.0 * EPS * (trace + b.n * lam);
        for (int rise = 1; rise < MAX_RISES; rise++, more *= 10.0) {
            make_matrix();
            if (factorise(lam + more)) return true;
        }
        return false;
    }

    /** M⁻¹a into a. */
    void solve(double *a) {
        const int n = b.n, wide = b.wide / WIDTH;
        for (int k = 0; k < n; k++) {
            const double *own = M + i64(k) * b.wide;
            const double y = column[k] = a[k] * inverse[k];
            for (int j = k / WIDTH; j < wide; j++) vectors(a)[j] -= y * vectors(own)[j];
        }
        for (int j = 0; j < b.wide; j++) a[j] = 0.0;
        for (int k = n - 1; k >= 0; k--) {
            const double *own = M + i64(k) * b.wide;
            V sum{};
            for (int j = k / WIDTH; j < wide; j++) sum += vectors(own)[j] * vectors(a)[j];
            a[k] = (column[k] - sum_of(sum)) * inverse[k];
        }
    }

    /** a becomes R M⁻¹Rᵀa. */
    void through(double *a) {
        const int wide = b.wide / WIDTH;
        for (int i = 0; i < wide; i++) vectors(a)[i] *= vectors(v)[i];
        double along = c * dot(v, a);
        for (int i = 0; i < wide; i++) vectors(a)[i] -= along * vectors(v)[i];
        solve(a);
        along = c * dot(v, a);
        for (int i = 0; i < wide; i++) vectors(a)[i] = vectors(v)[i] * (vectors(a)[i] - along * vectors(v)[i]);
    }

    /** Δq = r − R M⁻¹RᵀG r over all classes, and the margins' change −GΔq/λ; false where there is no step. */
    bool step() {
        const int n = b.n;
        bring_gram(at);
        take_means(at);
        if (!definite()) return false;
        times(r, rhs);
        through(rhs);
        double sum = 0.0;
        for (int j = 0; j < n; j++) sum += dq[j] = r[j] - rhs[j];
        dq[n] = -sum;
        times(dq, ds);
        bool finite = magnitude(sum) < INF;
        for (int j = 0; j < n; j++) {
            ds[j] *= -1.0 / lam;
            finite &= magnitude(dq[j]) < INF;
        }
        return finite;
    }

    /** D's slope along the step at a point. */
    double slope_at(const Point &x) const {
        double slope = 0.0;
        for (int j = 0; j <= b.n; j++) slope += (x.lp[j] - x.lq[j]) * dq[j];
        return slope;
    }

    /** next.lq: the logarithm of q + αΔq; what would fall too far follows that of the predicted p, in `ahead`. */
    void go_along(double alpha) {
        double *lq = next.lq;
        for (int j = 0; j <= b.n; j++) {
            const double q = at.q[j] + alpha * dq[j];
            work[j] = q < SHRINK * at.q[j] || !(q > 0.0) ? -1.0 : q;
        }
        for (int j = b.n + 1; j < b.classes; j++) work[j] = 1.0;
        for (int j = 0; j < b.classes; j += WIDTH) {
            V x;
            __builtin_memcpy(&x, work + j, sizeof x);
            x = logarithm(select(x > 0.0, x, all_of(1.0)));
            __builtin_memcpy(lq + j, &x, sizeof x);
        }
        for (int j = 0; j <= b.n; j++)
            if (work[j] < 0.0) lq[j] = smaller(at.lq[j] + alpha * (ahead[j] - at.lq[j]), at.lq[j] + LOG_SHRINK);
        normalise(lq);
    }

    /** From `at`, which is evaluated, until `tol`, where rounding stops it, or after the evaluations that there are. */
    Ended newton(double tol, int max_iter, int most_now, Course &course) {
        double off = residual(at);
        for (int now = 0;; now++) {
            // 1. How far off.
            for (int j = 0; j < b.n; j++) r[j] = at.p[j] - at.q[j];
            const double mass = rivals_mass(at), gap = at.gap;
            if (off <= larger(tol, rounding_of(at)) || course.stalled >= 2.0) return Ended::FOUND;
            if (course.budget <= 0.0 || n_iter >= max_iter) return Ended::NOT_FOUND;
            if (now == most_now) return Ended::CUT;
            course.least = smaller(course.least, gap);
            // 2. The step.
            if (!step()) return Ended::NOT_FOUND;
            for (int j = 0; j < b.n; j++) ds[j] += at.s[j];
            log_softmax(ds, ahead, nullptr);
            const double slope = slope_at(at);
            if (!(slope > 0.0)) return gap <= SMALL * (1.0 - at.lp[b.n]) ? Ended::FOUND : Ended::NOT_FOUND; // q is p to the last digit
            // 3. How far along it: until D's slope is not far below zero.
            double alpha = 1.0;
            for (int trial = 0; trial < MAX_TRIALS; trial++) {
                go_along(alpha);
                evaluate(next);
                course.budget -= 1.0;
                const double end = slope_at(next);
                if (end >= -TOO_LONG * slope || next.gap < 0.5 * course.least) break;
                alpha *= smaller(larger(slope / (slope - end), 0.1), 0.8);
            }
            n_iter++;
            // 4. Rounding: the residual no longer falls, though the step was a full one and small.
            const double still = residual(next);
            bool noisy = false;
            if (still >= 0.5 * off) {
                noisy = gap <= 1e-13 * (1.0 - at.lp[b.n]);
                noisy = noisy || (next.gap >= 0.5 * gap && off <= 8.0 * b.size * mass * noise(at));
            }
            course.stalled = noisy ? course.stalled + 1.0 : 0.0;
            if (!(noisy && still > off)) {
                const Point before = at;
                at = next;
                next = before;
                off = still;
            }
        }
    }

    // ---- a probability ----

    /** Margins and q as they change with ln λ, where M is factorised: into `along_s` and `along_q`. */
    void change_with_lam() {
        const int n = b.n;
        for (int j = 0; j < n; j++) work[j] = at.q[j] / lam;
        times(work, along_s); // what free features do to the margins for fixed q
        for (int j = 0; j < n; j++) along_q[j] = along_s[j];
        through(along_q);
        times(along_q, work);
        double sum = 0.0;
        for (int j = 0; j < n; j++) {
            along_s[j] -= work[j];
            sum += along_q[j] *= lam;
        }
        along_q[n] = -sum;
    }

    /** The logit of 1 − p_k at margins s, and how fast it changes where these change by `a`. */
    double logit_along(const double *s, const double *a, double &slope) const {
        double top = -INF;
        for (int j = 0; j < b.n; j++) top = larger(top, s[j]);
        const double total = masses(s, top);
        slope = dot(shares, a) / total;
        return top + __builtin_log(total);
    }

    /** From `at`, which is evaluated, to the λ at which the logit of 1 − p_k is `aim`, up to `width` (or what rounding leaves).
     *
     *  Newton on q and ln λ together, once q is near the answer for a λ; λ multiplies the whole cost. What this does not settle
     *  in a few evaluations is left to the search of engines/semismooth.py.
     */
    bool reach(double aim, double width, int budget) {
        double least = INF, low = 0.0, high = INF;
        for (; budget > 0;) {
            const int n = b.n;
            for (int j = 0; j < n; j++) r[j] = at.p[j] - at.q[j];
            const double off = residual(at), mass = rivals_mass(at), miss = logit(at) - aim;
            const bool settled = off <= rounding_of(at);
            if (settled && magnitude(miss) <= width) return true;
            if (off <= SURE * b.size * mass * smaller(1.0, magnitude(miss))) { // the answer for this λ misses on the same side
                if (miss > 0.0) high = smaller(high, lam);
                else low = larger(low, lam);
            }
            if (!step()) return false;
            for (int j = 0; j < n; j++) ds[j] += at.s[j];
            double change = 0.0;
            if (at.gap <= JOINT) {
                change_with_lam();
                double slope;
                const double wanted = aim - logit_along(ds, along_s, slope);
                change = slope > FLAT_LOGIT ? wanted / slope : wanted > 0.0 ? LONGEST : -LONGEST;
                change = larger(smaller(change, LONGEST), -LONGEST);
                const double there = lam * __builtin_exp(change);
                if (!(low < there && there < high)) {
                    if (!(low > 0.0 && high < INF)) return false; // rounding, or out of reach
                    if (high - low <= NARROW * high) return false;
                    change = 0.5 * __builtin_log(low / lam * (high / lam));
                }
                for (int j = 0; j < n; j++) ds[j] += change * along_s[j];
            }
            log_softmax(ds, ahead, nullptr);
            n_iter++;
            if (change != 0.0) {
                for (int j = 0; j <= n; j++) dq[j] += change * along_q[j];
                lam *= __builtin_exp(change);
                weight = lam;
                go_along(1.0);
                evaluate(next);
                budget--;
                least = next.gap;
            } else {
                least = smaller(least, at.gap);
                const double slope = slope_at(at);
                if (!(slope > 0.0)) return false;
                double alpha = 1.0;
                for (int trial = 0; trial < MAX_TRIALS && budget > 0; trial++) {
                    go_along(alpha);
                    evaluate(next);
                    budget--;
                    const double end = slope_at(next);
                    if (end >= -TOO_LONG * slope || next.gap < 0.5 * least) break;
                    alpha *= smaller(larger(slope / (slope - end), 0.1), 0.8);
                }
            }
            const Point before = at;
            at = next;
            next = before;
        }
        return false;
    }

    /** dlogit(1 − p_k)/d ln λ at an answer, where μ is multiplied with λ too; NaN where there is none. */
    double logit_slope() {
        bring_gram(at);
        take_means(at);
        if (!definite()) return __builtin_nan("");
        change_with_lam();
        double slope;
        logit_along(at.s, along_s, slope);
        return slope;
    }

    // ---- a start ----

    /** others = Bᵀq less the part of rival j. */
    void pull_without(const double *q, int j) {
        for (i64 k = 0; k < b.blocks; k++) {
            const V *B = b.rows + k * b.n * TILES;
            V u[TILES] = {};
            for (int i = 0; i < b.n; i++) {
                if (i == j || q[i] == 0.0) continue;
                for (int a = 0; a < TILES; a++) u[a] += q[i] * B[i * TILES + a];
            }
            for (int a = 0; a < TILES; a++) others[k * TILES + a] = u[a];
        }
    }

    /** Rival j's margin where it has this share and the others' pull is `others`; and how fast it falls with the share. */
    template <bool SOFT> double margin_with(int j, double share, double &fall) const {
        const V il = all_of(1.0 / lam), minus_il = -il, part = all_of(share);
        V sum{}, square{};
        for (i64 k = 0; k < b.blocks; k++) {
            const V *B = b.rows + (k * b.n + j) * TILES;
            for (int i = 0; i < TILES; i++) {
                const i64 tile = k * TILES + i;
                const V t = answer<SOFT>(others[tile] + part * B[i], tile, minus_il, il);
                sum += B[i] * t;
                square += select(is_free<SOFT>(t, tile), B[i] * B[i], V{});
            }
        }
        fall = sum_of(square) / lam;
        return margins[j] + sum_of(sum);
    }

    /** at.lq near the answer: the rival furthest from balance is balanced alone, a few times. */
    void start() {
        const int n = b.n;
        double *q = at.q;
        for (int j = 0; j <= n; j++) q[j] = 0.0;
        double total = 0.0;
        if (within)
            for (int j = 0; j < n; j++) at.s[j] = margins[j];
        else sweep(at);
        log_softmax(at.s, at.lp, at.p);
        for (int turn = 0; turn < (n < PAIRS ? n : PAIRS); turn++) {
            int j = 0;
            double miss = -1.0;
            for (int i = 0; i < n; i++) {
                // its part of the gap, q ln(q/p) − q + p
                const double wrong = at.p[i] - q[i] + (q[i] > 0.0 ? q[i] * (__builtin_log(q[i]) - at.lp[i]) : 0.0);
                if (wrong > miss) {
                    miss = wrong;
                    j = i;
                }
            }
            if (miss < PAIR_GAP) break;
            const double room = larger(1.0 - (total - q[j]), 1e-12);
            pull_without(q, j);
            // the logit of q_j's share, by Newton in a bracket: a start needs two digits
            double low = -FAR_LOGIT, high = FAR_LOGIT, middle = 0.0, share = 0.0, fall;
            for (int i = 0; i < PAIR_STEPS; i++) {
                const double part = 1.0 / (1.0 + __builtin_exp(-middle));
                share = room * part;
                const double over = (b.soft ? margin_with<true>(j, share, fall) : margin_with<false>(j, share, fall)) - middle;
                (over > 0.0 ? low : high) = middle;
                double new_middle = middle + over / (1.0 + fall * share * (1.0 - part));
                if (!(low < new_middle && new_middle < high)) new_middle = 0.5 * (low + high);
                const double moved = magnitude(new_middle - middle);
                middle = new_middle;
                if (moved < PAIR_TOL) break;
            }
            share = room / (1.0 + __builtin_exp(-middle));
            total += share - q[j];
            q[j] = share;
            sweep(at);
            log_softmax(at.s, at.lp, at.p);
        }
        for (int j = 0; j < n; j++) at.lq[j] = q[j] > 0.0 ? __builtin_log(larger(q[j], 1e-300)) : smaller(at.lp[j], -3.0);
        at.lq[n] = __builtin_log(larger(1.0 - total, 1e-15));
        normalise(at.lq);
    }

    /** Bounds of the features, and 0 beyond them. */
    void put_bounds(const double *low, const double *high) {
        double *to_lo = reinterpret_cast<double *>(lo), *to_hi = reinterpret_cast<double *>(hi);
        for (i64 d = 0; d < b.D; d++) to_lo[d] = low[d], to_hi[d] = high[d];
        for (i64 d = b.D; d < b.tiles * WIDTH; d++) to_lo[d] = to_hi[d] = 0.0;
    }
};

/** One problem, or a part of the way to its answer. */
inline void solve_limited_one(const LimitedProblem &problem) {
    Pieces count{nullptr};
    {
        const Rivals rivals(problem.n, problem.D, count);
        Row row(rivals, count);
    }
    const Memory memory(count.used);
    Pieces pieces{memory.as<char>()};
    Rivals rivals(problem.n, problem.D, pieces);
    Row row(rivals, pieces);
    rivals.put(problem.B, problem.mu);
    row.put_bounds(problem.lo, problem.hi);
    row.forget();
    for (int j = 0; j < problem.n; j++) row.margins[j] = problem.margins[j];
    row.lam = problem.lam;
    row.weight = problem.weight;
    if (problem.begin) row.start();
    else
        for (int j = 0; j <= problem.n; j++) row.at.lq[j] = problem.lq[j];
    Course course{problem.course[0], problem.course[1], problem.course[2]};
    row.evaluate(row.at);
    const Ended ended = row.newton(problem.tol, problem.max_iter, problem.most_now, course);
    problem.course[0] = course.least;
    problem.course[1] = course.stalled;
    problem.course[2] = course.budget;
    problem.course[3] = double(row.n_iter);
    problem.course[4] = double(int(ended));
    if (problem.slope) *problem.slope = row.logit_slope();
    const double *t = reinterpret_cast<const double *>(row.at.t);
    for (i64 d = 0; d < problem.D; d++) {
        problem.t[d] = t[d];
        problem.free[d] = row.at.free[d / WIDTH] >> d % WIDTH & 1;
    }
    for (int j = 0; j <= problem.n; j++) {
        problem.lq[j] = row.at.lq[j];
        problem.classes[j] = row.at.q[j];
        problem.classes[problem.n + 1 + j] = row.at.lp[j];
        problem.classes[2 * (problem.n + 1) + j] = row.at.p[j];
    }
    for (int j = 0; j < problem.n; j++) problem.s[j] = row.at.s[j];
}

} // namespace ifonly::IFONLY_SET::limits
