/* Class-space Newton for many rows on a GPU.
 *
 * The mathematics is that of engines/coordinates.py (`Rivals`), the loops are those of native/lanes.py; docs/math.md derives both.
 * What differs is who does the work: a row belongs to a team of TEAM threads. With TEAM = 1 all loops are unrolled, and what is
 * known of a row lives in the registers of its thread, as far as they go; a larger team keeps it in shared memory, and its
 * thread r has the rivals r, r + TEAM, ….
 *
 * Compiled once per number of classes, by kernels/cuda.py, which defines
 *     CLASSES, TEAM    K and the threads per row
 *     GOAL             whether a probability is asked for (1), or λ is given (0)
 *     SOLVE or ANSWER  which of the two entries is wanted: with all loops unrolled, each takes seconds to compile
 * and the constants of the method (EPS, ARMIJO, …), so that each stands in one place, with its reason.
 *
 * The row solver is plain C++. A test compiles it for the host (TEAM = 1) and compares it with the other kernels there. All of it
 * is one file because it is compiled as one.
 */

#ifdef __CUDACC__
#define DEVICE __device__ __forceinline__
#else
#include <cmath>
#include <cstring>
using namespace std;
#define DEVICE inline
#endif

constexpr int K = CLASSES;
constexpr int N = K - 1;             // rivals of the target
constexpr int ROWS = K == 2 ? 1 : K; // rows that a change is made of: A itself, or a₂ − a₁
constexpr int GRAM = N * N | 1;      // from one target's Ḡ to the next; odd, so that threads with different targets meet other banks

#ifndef __CUDACC__
#define UNROLL
#elif TEAM == 1
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("unroll 4")
#endif

// ---- a team ----

#if TEAM == 1
#define RANK 0
DEVICE void sync() {}
DEVICE double sum(double a) { return a; }
DEVICE double largest(double a) { return a; }
#else
#define RANK int(threadIdx.x % TEAM)
constexpr int WITHIN = TEAM < 32 ? TEAM : 32; // threads of a team in one warp

DEVICE unsigned mates() { return WITHIN == 32 ? ~0u : ((1u << WITHIN % 32) - 1) << threadIdx.x % 32 / WITHIN * WITHIN; }

DEVICE void sync() {
    if (TEAM > 32) __syncthreads();
    else __syncwarp(mates());
}

template <class Join> DEVICE double joined(double a, Join join) { // the same bits in every thread of the team
    for (int other = WITHIN / 2; other; other /= 2) a = join(a, __shfl_xor_sync(mates(), a, other));
    if (TEAM > 32) {
        __shared__ double each[TEAM / 32 + 1];
        __syncthreads();
        if (threadIdx.x % 32 == 0) each[threadIdx.x / 32] = a;
        __syncthreads();
        a = each[0];
        for (int warp = 1; warp < TEAM / 32; warp++) a = join(a, each[warp]);
    }
    return a;
}
DEVICE double sum(double a) {
    return joined(a, [](double x, double y) { return x + y; });
}
DEVICE double largest(double a) {
    return joined(a, [](double x, double y) { return fmax(x, y); });
}
#endif

#define EACH(i) UNROLL for (int i = RANK; i < N; i += TEAM) // the rivals of this thread
#define ALL(j) UNROLL for (int j = 0; j < N; j++)           // all of them, in every thread

// ---- functions without branches, so that those of several rivals run side by side ----

#ifdef __CUDACC__
DEVICE double from_bits(long long bits) { return __longlong_as_double(bits); }
DEVICE long long to_bits(double a) { return __double_as_longlong(a); }
DEVICE float rough_exp(float a) { return __expf(a); }
DEVICE float rough_log(float a) { return __logf(a); }
#else
DEVICE double from_bits(long long bits) {
    double a;
    memcpy(&a, &bits, 8);
    return a;
}
DEVICE long long to_bits(double a) {
    long long bits;
    memcpy(&bits, &a, 8);
    return bits;
}
DEVICE float rough_exp(float a) { return expf(a); }
DEVICE float rough_log(float a) { return logf(a); }
#endif

DEVICE double infinity() { return from_bits(0x7ffLL << 52); }

/** eᵃ for a ≤ 0, to about an ulp; 0 where it is no normal number. */
DEVICE double exponential(double a) {
    const double magic = 6755399441055744.0; // 1.5·2⁵²: adding it rounds to an integer and leaves that in the low bits
    const double x = fmax(a, -708.0), shifted = fma(x, 1.4426950408889634, magic), k = shifted - magic;
    const double r = fma(k, -1.90821492927058770002e-10, fma(k, -6.93147180369123816490e-01, x)); // x − k ln 2
    double y = 1.6059043836821613e-10;                                                          // 1/13!
    y = fma(y, r, 2.08767569878681e-09);
    y = fma(y, r, 2.505210838544172e-08);
    y = fma(y, r, 2.755731922398589e-07);
    y = fma(y, r, 2.7557319223985893e-06);
    y = fma(y, r, 2.48015873015873e-05);
    y = fma(y, r, 1.984126984126984e-04);
    y = fma(y, r, 1.388888888888889e-03);
    y = fma(y, r, 8.333333333333333e-03);
    y = fma(y, r, 4.1666666666666664e-02);
    y = fma(y, r, 1.6666666666666666e-01);
    y = fma(y, r, 0.5);
    y = fma(y, r, 1.0);
    y = fma(y, r, 1.0);
    y *= from_bits((to_bits(shifted) << 52) + (1023LL << 52));
    return a < -708.0 ? 0.0 : a == a ? y : a;
}

/** 1/a for a ≥ 1. */
DEVICE double inverse_of(double a) {
#ifdef __CUDACC__
    double y;
    asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(a));
    y = fma(y, fma(-a, y, 1.0), y);
    return fma(y, fma(-a, y, 1.0), y);
#else
    return 1.0 / a;
#endif
}

/** √a for 0 ≤ a ≤ 1; 0 where a is next to nothing. */
DEVICE double root_of(double a) {
#ifdef __CUDACC__
    double y;
    asm("rsqrt.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(a));
    y = fma(0.5 * y, fma(-a * y, y, 1.0), y);
    y = fma(0.5 * y, fma(-a * y, y, 1.0), y);
    return a > 1e-290 ? a * y : 0.0;
#else
    return a > 1e-290 ? sqrt(a) : 0.0;
#endif
}

// ---- one row ----

constexpr int PAD = (TEAM % 16 + 16 - (15 * N + N * (N + 1) / 2) % 16) % 16 + 1;

struct Vectors { // what is known of a row, one number per rival: registers of a thread, or shared memory of a team
    double s[N], q[N], moved[N], p[N], r[N], slope[N], old[N], direction[N], v[N], u[N], w[N], t[N], inverse[N];
    double M[N * (N + 1) / 2]; // lower triangle, column after column
    float start_q[N], start_s[N], start_e[N], spare[N];
    double pad[PAD]; // so that the teams of a warp meet different banks
};

#if defined(__CUDACC__) && TEAM == 1
using Gram = const volatile double *; // Ḡ (N, N); else all of it is taken into registers before the loop, and spilled
#else
using Gram = const double *;
#endif

struct Goal { // engines.windows.Window of one row
    double logit, slack, slope, least;
};

struct Solver {
    Vectors &x;
    Gram G;
    double lam, il, size;
    double E, mass, p_target, quad, gg, delta; // gg = rᵀHr = ‖∇E‖²/λ
    double logit;                              // logit(1 − p_k) = ln Σ eˢ, with a goal
    double c;
    bool full; // whether the last step was a full one
    int count = 0;

    DEVICE Solver(Vectors &vectors, Gram gram) : x(vectors), G(gram), lam(1.0), il(1.0) {}

    DEVICE double gram(int i, int j) const {
#if defined(__CUDACC__) && TEAM > 1
        return __ldg(G + i * N + j); // never written: such reads need not wait for writes to shared memory
#else
        return G[i * N + j];
#endif
    }

    static DEVICE int at(int i, int j) { return j * N - j * (j + 1) / 2 + i; } // of M_ij, i ≥ j

    DEVICE void set_lam(double value) {
        lam = value;
        il = 1.0 / value;
    }

    /** out = H a, H = Ḡ/λ; symmetric, and read so that neighbouring threads read neighbours. */
    DEVICE void times(const double *a, double *out) const {
#if TEAM == 1
        ALL(i) out[i] = gram(i, i) * a[i];
        ALL(i) ALL(j) if (j < i) { // all of it is in registers, and every entry of Ḡ is read once
            const double g = gram(i, j);
            out[i] += g * a[j];
            out[j] += g * a[i];
        }
        ALL(i) out[i] *= il;
#else
        EACH(i) {
            double total = 0.0;
            ALL(j) total += gram(j, i) * a[j];
            out[i] = total * il;
        }
        sync();
#endif
    }

    /** Everything known of the point x.q. */
    DEVICE void evaluate() {
        sync();
        times(x.q, x.moved);
        double top = 0.0, total = 0.0;
        EACH(i) top = fmax(top, x.s[i] - x.moved[i]);
        top = largest(top);
        EACH(i) x.p[i] = exponential(x.s[i] - x.moved[i] - top);
        EACH(i) total += x.p[i];
        total = sum(total);
        const double e = exponential(-top), scale = inverse_of(total + e);
        const double loss = top + log1p(top > 0.0 ? (total - 1.0) + e : total); // to full relative precision
        if (GOAL) logit = top + log(total);
        p_target = e * scale;
        mass = total * scale;
        double q_moved = 0.0, r_slope = 0.0;
        EACH(i) {
            x.p[i] *= scale;
            x.r[i] = x.p[i] - x.q[i];
            q_moved += x.q[i] * x.moved[i];
        }
        sync();
        times(x.r, x.slope);
        EACH(i) r_slope += x.r[i] * x.slope[i];
        quad = sum(q_moved);
        gg = sum(r_slope);
        E = 0.5 * quad + loss;
    }

    /** M = L D Lᵀ, kept as L D and 1/D; the pivots are ≥ 1 but for rounding, and so they are made. */
    DEVICE void factorise() {
        c = inverse_of(1.0 + root_of(p_target));
        double pg = 0.0;
        EACH(i) pg += x.p[i] * (x.moved[i] + x.slope[i]);
        pg = sum(pg);
        EACH(i) {
            x.v[i] = root_of(x.p[i]);
            x.u[i] = c * (x.moved[i] + x.slope[i]) - 0.5 * c * c * pg;
        }
        sync();
        ALL(j) EACH(i) if (i >= j) x.M[at(i, j)] = x.v[i] * x.v[j] * (gram(j, i) * il - x.u[i] - x.u[j]) + (i == j);
        ALL(j) {
            sync();
            const double inverse = inverse_of(fmax(x.M[at(j, j)], 1.0));
            if (j % TEAM == RANK) x.inverse[j] = inverse;
            EACH(i) if (i > j) eliminate(i, j, x.M[at(i, j)] * inverse);
        }
        sync();
    }

    /** Row i of M less `factor` times row j, right of column j. */
    DEVICE void eliminate(int i, int j, double factor) {
#if TEAM == 1
        ALL(k) if (k > j && k <= i) x.M[at(i, k)] -= factor * x.M[at(k, j)];
#else
        for (int first = j + 1; first <= i; first += 8) { // read eight before the first is written: they wait together
            double entry[8];
#pragma unroll
            for (int k = 0; k < 8; k++)
                if (first + k <= i) entry[k] = x.M[at(i, first + k)] - factor * x.M[at(first + k, j)];
#pragma unroll
            for (int k = 0; k < 8; k++)
                if (first + k <= i) x.M[at(i, first + k)] = entry[k];
        }
#endif
    }

    /** out = R M⁻¹ Rᵀ h. */
    DEVICE void spread(const double *h, double *out) const {
        double ph = 0.0, total = 0.0;
        EACH(i) ph += x.p[i] * h[i];
        ph = c * sum(ph);
        EACH(i) out[i] = x.v[i] * (h[i] - ph);
        sync();
        ALL(j) {
            const double y = out[j] * x.inverse[j];
            EACH(i) if (i > j) out[i] -= x.M[at(i, j)] * y;
            sync();
        }
        ALL(back) {
            const int j = N - 1 - back;
            const double y = out[j] * x.inverse[j];
            EACH(i) if (i < j) out[i] -= x.M[at(j, i)] * y;
            sync();
        }
        EACH(i) total += out[i] *= x.inverse[i] * x.v[i];
        total = c * sum(total);
        EACH(i) out[i] -= total * x.p[i];
        sync();
    }

    /** One iteration; whether E fell. With a goal x.u becomes dq/d ln λ at the point before it. */
    DEVICE bool step() {
        // 1. Newton's direction and the third-order correction.
        factorise();
        spread(x.slope, x.direction);
        double decrease = 0.0, mean = 0.0, spread_of = 0.0;
        EACH(i) {
            x.direction[i] = x.r[i] - x.direction[i];
            decrease += x.slope[i] * x.direction[i];
        }
        decrease = sum(decrease);
        sync();
        times(x.direction, x.u);
        delta = 0.0;
        EACH(i) {
            delta = fmax(delta, fabs(x.u[i]));
            mean += x.p[i] * x.u[i];
        }
        delta = largest(delta);
        mean = sum(mean);
        EACH(i) spread_of += x.p[i] * (x.u[i] - mean) * (x.u[i] - mean);
        spread_of = sum(spread_of) + p_target * mean * mean;
        EACH(i) x.w[i] = 0.5 * x.p[i] * ((x.u[i] - mean) * (x.u[i] - mean) - spread_of);
        sync();
        times(x.w, x.u);
        spread(x.u, x.t);
        if (GOAL) spread(x.moved, x.u);

        // 2. The corrected full step if E falls, else Newton's direction with backtracking.
        const double before = E, slack = ROUNDINGS * EPS * (fabs(E) + size * mass);
        EACH(i) x.old[i] = x.q[i];
        double length = 1.0;
        for (int trial = 0; trial <= MAX_BACKTRACKS; trial++) {
            EACH(i) x.q[i] = x.old[i] + (trial ? length * x.direction[i] : x.direction[i] + (x.w[i] - x.t[i]));
            evaluate();
            full = trial < 2;
            if (E <= before - ARMIJO * length * decrease + slack) return true;
            if (trial) length *= 0.5;
        }
        return false;
    }

    DEVICE double noise() const { return ROUNDINGS * EPS * (size + 1.0); } // some roundings of the margins

    /** From x.q to ‖∇E‖ ≤ tol or, with tol = 0, to the last digit; with a goal, to the λ at which logit(1 − p_k) lies in its
     *  window (`solve_prob` of kernels/reference.py), and there to the last digit. Whether it came there. */
    DEVICE bool go(const Goal &goal, double tol, int max_iter) {
        const double first = lam;
        double low = 0.0, high = infinity();
        for (bool fresh = true; count < max_iter;) {
            if (fresh) evaluate();
            fresh = false;
            if (!step()) return false;
            count++;
            const bool precise = full && delta <= fmax(noise(), CLOSE);
            if (!GOAL) {
                if (tol > 0.0 ? lam * gg <= tol * tol || (full && delta <= noise()) : precise) return true;
                continue;
            }
            if (!full || delta > TRUST) continue;
            double q_sum = 0.0, rate = 0.0;
            times(x.u, x.t);
            EACH(i) {
                q_sum += x.q[i];
                rate += x.p[i] * (x.moved[i] - x.t[i]);
            }
            const double allowance = goal.slack + goal.slope * sum(q_sum) * il, width = allowance + goal.least;
            const double miss = logit - (goal.logit - allowance);
            rate = sum(rate) / mass;
            if (miss <= 0.0 && miss >= -width) { // λ is right
                if (precise) return true;
                continue;
            }
            if (delta > CLOSE && delta * delta * delta > SURE * fabs(miss)) continue; // not known well enough yet
            (miss <= 0.0 ? low : high) = lam;
            double along = rate > 0.0 ? -(miss + 0.5 * width) / rate : -LONGEST_STEP;
            double next = lam * exp(fmin(fmax(along, -LONGEST_STEP), LONGEST_STEP));
            if (!(low < next && next < high)) next = low > 0.0 ? sqrt(low) * sqrt(high) : high * exp(-LONGEST_STEP);
            if (!(low < next && next < high && next > first / FAR && next < first * FAR)) return false;
            along = log(next / lam);
            EACH(i) x.q[i] = next / lam * (x.q[i] + along * (x.u[i] - x.q[i])); // the tangent of q/λ, smoother than q's
            set_lam(next);
            fresh = true;
        }
        return false;
    }

    /** φ(h, −margin), roughly, by Newton in ℓ = ln(h t) as in solvers/logistic.py. */
    static DEVICE float root(float h, float margin) {
        const float log_h = rough_log(h), high = log_h - (fmaxf(-margin, 0.0f) + rough_log(1.0f + rough_exp(-fabsf(margin))));
        const float drop = fmaxf(log_h + margin, 2.0f), guess = rough_log(drop - rough_log(drop));
        float ell = drop > 2.0f ? fminf(guess, high) : high;
        for (int i = 0; i < ROOT_STEPS; i++) {
            const float y = rough_exp(ell), above = y - margin, e = rough_exp(-fabsf(above));
            const float value = ell + fmaxf(above, 0.0f) + rough_log(1.0f + e) - log_h;
            ell -= value * (1.0f + e) / (1.0f + e + y * (above > 0.0f ? 1.0f : e));
        }
        return fminf(rough_exp(fminf(ell, high) - log_h), 1.0f);
    }

    /** A q near the answer: the closed form for the rival that is most wrong now, again and again. No bound depends on it, so
     *  single precision does, and what overflows there starts at 0. */
    DEVICE void start() {
        float *q = x.start_q, *s = x.start_s, *e = x.start_e;
        const float scale = float(fmin(il, 1e30));
        EACH(i) {
            q[i] = 0.0f;
            s[i] = float(x.s[i]);
        }
        sync();
        for (int turn = 0; turn < PAIRS; turn++) {
            float top = 0.0f, total = 0.0f;
            EACH(i) top = fmaxf(top, s[i]);
            top = largest(top);
            EACH(i) total += e[i] = rough_exp(s[i] - top);
            const float share = 1.0f / (float(sum(total)) + rough_exp(-top));
            float worst = -1.0f, old = 0.0f, margin = 0.0f;
            int j = 0;
            EACH(i) {
                const float wrong = fabsf(e[i] * share - q[i]);
                if (wrong > worst) worst = wrong, j = i, old = q[i], margin = s[i];
            }
            if (TEAM > 1) {
                const double most = largest(worst);
                j = largest(worst == most ? j : 0);
                old = q[j];
                margin = s[j];
            }
            const float h = fminf(fmaxf(float(gram(j, j)) * scale, 1e-30f), 1e30f);
            const float now = root(h, margin + h * old), change = (now - old) * scale;
            sync();
            EACH(i) {
                q[i] = i == j ? now : q[i];
                s[i] -= change * float(gram(j, i));
            }
            sync();
        }
        EACH(i) x.q[i] = q[i] >= 0.0f && q[i] <= 1.0f ? q[i] : 0.0;
        if (N > MANY_RIVALS) start_evenly();
    }

    /** The same q for all rivals where that is the better start: many of them may be about as strong. */
    DEVICE void start_evenly() {
        evaluate();
        const double E_pairs = E;
        double pull_sum = 0.0, low = 0.0, high = 1.0 / N, share = 0.5 * high;
        EACH(i) {
            x.old[i] = x.q[i];
            x.t[i] = 1.0;
        }
        sync();
        times(x.t, x.u);
        EACH(i) pull_sum += x.u[i];
        pull_sum = sum(pull_sum);
        for (int turn = 0; turn < EVEN_STEPS; turn++) {
            double top = 0.0, total = 0.0, mean = 0.0, square = 0.0;
            EACH(i) top = fmax(top, x.s[i] - share * x.u[i]);
            top = largest(top);
            EACH(i) {
                const double e = exponential(x.s[i] - share * x.u[i] - top);
                total += e;
                mean += e * x.u[i];
                square += e * x.u[i] * x.u[i];
            }
            total = sum(total) + exponential(-top);
            mean = sum(mean) / total;
            square = sum(square) / total;
            const double slope = share * pull_sum - mean, before = share;
            (slope > 0.0 ? high : low) = share;
            share -= slope / (pull_sum + square - mean * mean);
            if (!(low < share && share < high)) share = 0.5 * (low + high);
            if (fabs(share - before) <= PAIR_TOL * share) break;
        }
        EACH(i) x.q[i] = share;
        evaluate();
        if (E < E_pairs) return;
        EACH(i) x.q[i] = x.old[i];
    }

    /** λ of the two-class problem with the rival that is hardest to beat (solvers/target.py); 0 where there is none. */
    DEVICE double first_lam(const Goal &goal) const {
        const double top = goal.logit - goal.slack;
        double farthest = -1.0, own = 0.0, gap = 0.0;
        ALL(i) {
            const double square = gram(i, i), ahead = fmax(x.s[i] - top, 0.0);
            if (square > 0.0 && ahead / sqrt(square) > farthest) farthest = ahead / sqrt(square), own = square, gap = ahead;
        }
        return own / (1.0 + exp(-top)) / fmax(gap, 0.1);
    }

    /** Margins are in x.s: λ, or a first guess of it, and a start; whether there is one. */
    DEVICE bool begin(double wanted, const Goal &goal) {
        sync();
        size = 0.0;
        EACH(i) size = fmax(size, fabs(x.s[i]));
        size = largest(size);
        const double value = GOAL ? first_lam(goal) : wanted;
        const bool some = value > 0.0 && value < infinity(); // else no change of x changes any margin
        set_lam(some ? value : 1.0);
        start();
        return some;
    }

    /** ‖∇E‖ as computed. */
    DEVICE double grad_norm() const { return sqrt(lam * fmax(gg, 0.0)); }
};

/** The seam of kernels/__init__.py for row b: margins of one target in, `rows.Solved` out. `numbers` is (B, 5). */
DEVICE void solve_row(Vectors &x, long long b, const double *G, const double *margins, const double *lam,
                      const double *goals, double tol, int max_iter, double *q, double *p, double *numbers, int *n_iter,
                      bool *done) {
    Solver solver(x, G);
    EACH(i) x.s[i] = margins[b * N + i];
    Goal goal{};
    if (GOAL) goal = {goals[4 * b], goals[4 * b + 1], goals[4 * b + 2], goals[4 * b + 3]};
    const bool exact = solver.begin(GOAL ? 0.0 : lam[b], goal) && solver.go(goal, tol, max_iter);
    EACH(i) {
        q[b * N + i] = x.q[i];
        p[b * N + i] = x.p[i];
    }
    if (RANK == 0) {
        numbers[5 * b] = solver.lam;
        numbers[5 * b + 1] = solver.p_target;
        numbers[5 * b + 2] = solver.E;
        numbers[5 * b + 3] = solver.grad_norm();
        numbers[5 * b + 4] = fmax(solver.quad, 0.0) * solver.lam;
        n_iter[b] = solver.count;
        done[b] = exact;
    }
}

struct Model { // of the classifier
    const double *b;       // (K) biases
    const double *grams;   // (K, GRAM) Ḡ of every target
    const double *lengths; // (K, N) ‖ā_j‖ of every target
    double gamma, row_norm, coarse; // solvers/certify.py
};

struct Question { // per row: class index, and λ or the logit of `target.needed_logit`; tol 0 is to the last digit
    const int *target;
    const double *wanted;
    double tol;
    int max_iter;
};

struct Answers { // rows.Rows; a row that is not solved has status LEFT
    double *coef, *proba;
    double *numbers; // (B, 4): λ, distance, objective, bound on ‖∇E‖
    int *n_iter;
    signed char *status;
};

enum Status : signed char { LEFT = -1, EXACT = 0, CONVERGED = 1, INVALID = 4 };

struct Sources { // (slices, B, ROWS + 2): parts of X rowsᵀ, of ‖x‖² and of Σ_d |x_d| max_j|a_jd|, from passes.cu
    const double *parts;
    int slices;
    long long B;

    DEVICE double operator()(long long b, int j) const {
        double total = 0.0;
        for (int slice = 0; slice < slices; slice++) total += parts[(slice * B + b) * (ROWS + 2) + j];
        return total;
    }
};

/** Row b from what is known of its source to a whole answer with its certificate: kernels/batch.py in one place. */
DEVICE void answer_row(Vectors &x, long long b, const Model &model, const Question &question, const Sources &sources,
                       const Answers &out) {
    const double unit = 0.5 * EPS;
    const int k = question.target[b];
    const double *lengths = model.lengths + k * N;
    Solver solver(x, model.grams + k * GRAM);

    // 1. Margins over the target; a row that is not finite has none.
    double check = 0.0, size = 0.0;
    const double own = K == 2 ? 0.0 : sources(b, k) + model.b[k];
    EACH(i) {
        const int j = i + (i >= k);
        if (K > 2) x.s[i] = sources(b, j) + model.b[j] - own;
        else x.s[i] = (k == 0 ? 1.0 : -1.0) * (sources(b, 0) + (model.b[1] - model.b[0]));
    }
    EACH(i) {
        check += x.s[i] - x.s[i];
        size = fmax(size, fabs(x.s[i]));
    }
    size = largest(size);
    const bool valid = sum(check) == 0.0;

    // 2. Solve; with a goal only if the row is not there already.
    const double norm = sqrt(fmax(sources(b, ROWS), TINY_SQUARE)), term = sources(b, ROWS + 1);
    const double sum_error = 2.0 * model.gamma, x_error = 2.0 * unit * (K + 4); // relative to Σ|a_jd x_d|
    Goal goal{};
    bool stay = false, done = false;
    if (valid && GOAL) {
        goal.logit = question.wanted[b];
        goal.slack = model.coarse * (2.0 * (sum_error * term + 2.0 * unit * size) + x_error * term);
        goal.slope = model.coarse * (2.0 * sum_error + x_error) * 2.0 * model.row_norm * model.row_norm;
        goal.least = 8.0 * EPS * (fabs(goal.logit) + 1.0);
        solver.set_lam(1.0);
        EACH(i) x.q[i] = 0.0;
        solver.evaluate();
        stay = solver.logit <= goal.logit - goal.slack;
    }
    double bound = 0.0, q_sum = 0.0;
    bool some = valid && !stay && solver.begin(question.wanted[b], goal);
    for (double tol = GOAL ? 0.0 : question.tol; some; tol = 0.0) { // met as computed, but not for certain: to the last digit
        done = solver.go(goal, tol, question.max_iter) && norm < infinity(); // else the squares overflowed

        // 3. The certificate: a bound on ‖∇E‖ at the x that is handed out.
        double pull = 0.0, apart = 0.0, q_size = 0.0;
        q_sum = 0.0;
        EACH(i) {
            pull += x.p[i] * lengths[i];
            apart += fabs(x.r[i]) * lengths[i];
            q_size += fabs(x.q[i]);
            q_sum += x.q[i];
        }
        q_sum = sum(q_sum);
        apart = sum(apart);
        const double reach = 2.0 * model.row_norm * sum(q_size) * solver.il, all = term + model.row_norm * reach;
        const double margin = sum_error * all + 2.0 * unit * size + x_error * all;
        bound = fmin(apart, solver.grad_norm() + 1e-7 * apart) + sum(pull) * (2.0 * margin + unit * (K + 8)) +
                solver.lam * unit * (K + 4) * (norm + reach);
        some = done && tol > 0.0 && bound > tol;
    }

    // 4. What is handed out.
    const double nothing = infinity() - infinity();
    double *coef = out.coef + b * ROWS, *proba = out.proba + b * K;
    const double scale = stay ? 0.0 : solver.il;
    EACH(i) {
        const int j = i + (i >= k);
        proba[j] = valid ? x.p[i] : nothing;
        if (K > 2) coef[j] = valid ? -x.q[i] * scale : nothing;
        else coef[0] = valid ? (k == 0 ? -x.q[i] : x.q[i]) * scale : nothing;
    }
    if (RANK == 0) {
        proba[k] = valid ? solver.p_target : nothing;
        if (K > 2) coef[k] = valid ? q_sum * scale : nothing;
        out.numbers[4 * b] = !valid ? nothing : stay ? infinity() : solver.lam;
        out.numbers[4 * b + 1] = !valid ? nothing : stay ? 0.0 : sqrt(fmax(solver.quad, 0.0) * solver.il);
        out.numbers[4 * b + 2] = valid ? solver.E : nothing;
        out.numbers[4 * b + 3] = !valid ? nothing : stay ? 0.0 : bound;
        out.n_iter[b] = valid && !stay ? solver.count : 0;
        out.status[b] = !valid ? INVALID : stay ? EXACT : !done ? LEFT : bound <= question.tol ? CONVERGED : EXACT;
    }
}

// ---- entries ----

#define SOLVE_ARGUMENTS                                                                                                        \
    long long B, const double *G, const double *margins, const double *lam, const double *goals, double tol, int max_iter,     \
        double *q, double *p, double *numbers, int *n_iter, bool *done
#define ANSWER_ARGUMENTS                                                                                                       \
    long long B, const double *biases, const double *grams, const double *lengths, double gamma, double row_norm,              \
        double coarse, const int *target, const double *wanted, double tol, int max_iter, const double *parts, int slices,     \
        double *coef, double *proba, double *numbers, int *n_iter, signed char *status
#define SOLVE_ROW solve_row(x, b, G, margins, lam, goals, tol, max_iter, q, p, numbers, n_iter, done)
#define ANSWER_ROW                                                                                                             \
    answer_row(x, b, {biases, grams, lengths, gamma, row_norm, coarse}, {target, wanted, tol, max_iter},                    \
               {parts, slices, B}, {coef, proba, numbers, n_iter, status})

#ifndef __CUDACC__

extern "C" void solve(SOLVE_ARGUMENTS) {
    Vectors x;
    for (long long b = 0; b < B; b++) SOLVE_ROW;
}

extern "C" void answer(ANSWER_ARGUMENTS) {
    Vectors x;
    for (long long b = 0; b < B; b++) ANSWER_ROW;
}

#else

extern __shared__ double memory[]; // of single threads the matrices Ḡ, of teams their Vectors

/** Ḡ from shared memory, for single threads. */
DEVICE const double *staged(const double *G, int length) {
#if TEAM == 1
    for (int i = threadIdx.x; i < length; i += blockDim.x) memory[i] = G[i];
    __syncthreads();
    return memory;
#else
    return G;
#endif
}

#define OWN_ROW                                                                                                                \
    const long long b = ((long long)blockIdx.x * blockDim.x + threadIdx.x) / TEAM;                                             \
    if (b >= B) return;                                                                                                        \
    OWN_VECTORS
#if TEAM == 1
#define OWN_VECTORS Vectors x;
#else
#define OWN_VECTORS Vectors &x = reinterpret_cast<Vectors *>(memory)[threadIdx.x / TEAM];
#endif

#ifdef SOLVE
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) solve(SOLVE_ARGUMENTS) {
    G = staged(G, N * N);
    OWN_ROW
    SOLVE_ROW;
}
#endif

#ifdef ANSWER
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) answer(ANSWER_ARGUMENTS) {
    grams = staged(grams, K * GRAM);
    OWN_ROW
    ANSWER_ROW;
}
#endif

#endif
