// Class-space Newton for rows with the same target; the mathematics is that of engines/coordinates.py (`Rivals`), docs/math.md
// derives it. One text for a row, for a vector of rows, and for a GPU, where a row belongs to a `Team` of threads.
//
// `Solver` holds what is known of the rows it works on. A row that is done, or given up, is left as it is while the others of its
// vector go on, and makes room for another (`refill`): what a row comes to does not depend on which rows it is solved with.
#pragma once

#ifndef __CUDACC__
#include <initializer_list>
#endif
#if !defined(__CUDACC__)
#define IFONLY_UNROLL
#define IFONLY_UNROLL_SOME
#else
#define IFONLY_UNROLL_SOME _Pragma("unroll 8")
#if TEAM == 1
#define IFONLY_UNROLL _Pragma("unroll")
#else // a GPU waits for code that is not in its cache; of a team each thread has few rivals
#define IFONLY_UNROLL _Pragma("unroll 1")
#endif
#endif
#if defined(__CUDACC__) && TEAM == 32
#define IFONLY_TILED 1 // a warp keeps Newton's matrix in its registers
#else
#define IFONLY_TILED 0
#endif

#include "numbers.hpp"
#include "phi.hpp"

namespace ifonly::IFONLY_SET {

// The method's constants; engines/newton.py, engines/coordinates.py, engines/lam_search.py and native/reference.py have the same, with
// their reasons.
constexpr double GUESS = 0.5;         // of engines/windows.py
constexpr double MOST_ROUNDING = 2.0; // for two classes; farther goes engines/closed_form.py, which leaves no room to aim at
constexpr double ARMIJO = 1e-4, CLOSE = 1e-5, ROUNDINGS = 8.0, TRUST = 0.5, SURE = 0.2, FAR = 1e20;
constexpr double LONGEST_STEP = 9.210340371976184; // ln 10⁴
constexpr int MAX_BACKTRACKS = 40, MANY_RIVALS = 20, EVEN_STEPS = 12;
constexpr double PAIR_TOL = 1e-2;
constexpr double NEAR_START = 1.0; // of gg: E is at most half of it above its minimum, and an even start is of no use
constexpr int ROOT_STEPS = 2;      // Newton steps on the two-class equation inside the start, which need not be exact
constexpr double NEGLIGIBLE = 1e-6; // share p_j·H_jj in Newton's matrix below which one row alone leaves a class out of it

/** A row that has one thread to itself. */
struct Alone {
    static constexpr int size = 1;
    struct Factor {};
    static IFONLY_HD int rank() { return 0; }
    static IFONLY_HD void sync() {}
    template <class T> static IFONLY_HD T sum(T a) { return a; }
    template <class T> static IFONLY_HD T largest(T a) { return a; }
    static IFONLY_HD double load(const double *at) { return *at; }
};

/** What is known of a row, one number per rival; N is their number, where the compiler is to know it. */
template <class T, int N> struct Vectors {
    static constexpr int n = N, count = N;
    T s[N], q[N], moved[N], p[N], r[N], slope[N], old[N], direction[N], v[N], u[N], w[N], t[N], inverse[N];
    T M[IFONLY_TILED ? 1 : N * (N + 1) / 2]; // lower triangle, column after column
    Rough<T> start_q[N], start_s[N], start_e[N];

    IFONLY_HD int rival(int a) const { return a; }
    template <class Share> IFONLY_HD void choose(Share) {}
};

#ifndef __CUDACC__
/** The same in memory that is lent, for any number of rivals; one row alone has Newton's matrix over those that matter in it. */
template <class T> struct Vectors<T, 0> {
    const int n;
    int count;
    T *s, *q, *moved, *p, *r, *slope, *old, *direction, *v, *u, *w, *t, *inverse, *M;
    Rough<T> *start_q, *start_s, *start_e;
    int *chosen;

    static i64 room(int n) { // in numbers T
        return 13LL * n + n * (n + 1LL) / 2 + 3LL * n + n;
    }

    Vectors(int rivals, T *memory) : n(rivals), count(rivals) {
        for (T **vector : {&s, &q, &moved, &p, &r, &slope, &old, &direction, &v, &u, &w, &t, &inverse}) {
            *vector = memory;
            memory += n;
        }
        M = memory;
        memory += n * (n + 1LL) / 2;
        for (Rough<T> **vector : {&start_q, &start_s, &start_e}) {
            *vector = reinterpret_cast<Rough<T> *>(memory);
            memory += n;
        }
        chosen = reinterpret_cast<int *>(memory);
    }

    int rival(int a) const {
        if constexpr (Of<T>::lanes == 1) return chosen[a];
        else return a;
    }

    template <class Share> void choose(Share share) {
        if constexpr (Of<T>::lanes == 1) {
            count = 0;
            for (int i = 0; i < n; i++)
                if (share(i) > NEGLIGIBLE) chosen[count++] = i;
        }
    }
};

#endif

/** engines.windows.Window; where `far` is not 0, it grows with ‖x − x̄‖ besides, which is less than Σq where rivals' pulls cancel. */
template <class T> struct Goal {
    T logit, slack, slope, least, far{};
};

#define EACH(i) IFONLY_UNROLL for (int i = Team::rank(); i < x.n; i += Team::size) // the rivals of this thread
#define ALL(j) IFONLY_UNROLL for (int j = 0; j < x.n; j++)                         // all of them, in every thread

template <class T, int N, bool GOAL, class Team = Alone> struct Solver {
    Vectors<T, N> &x;
    const double *G; // Ḡ (n, n)
    T lam, il, size;
    T E, mass, p_target, quad, gg, delta; // gg = rᵀHr = ‖∇E‖²/λ
    T logit{};                            // logit(1 − p_k) = ln Σ eˢ, with a goal
    T c;
    T low, high, first; // the bracket around λ, and where it began
    T iterations;
    typename Team::Factor factor; // of Newton's matrix, where registers hold it
    Goal<T> goal{};
    T tol{};                    // 0: to the last digit
    Mask<T> active, done, full; // rows that go on; that are solved; whose last step was a full one

    IFONLY_HD Solver(Vectors<T, N> &vectors, const double *gram) : x(vectors), G(gram) {
        lam = il = first = T{} + 1.0;
        size = low = iterations = T{};
        high = T{} + INF;
        active = done = full = T{} > T{};
    }

    IFONLY_HD double gram(int i, int j) const { return Team::load(G + i * x.n + j); }
    IFONLY_HD int at(int a, int b) const { return b * x.count - b * (b + 1) / 2 + a; } // of M_ab, a ≥ b

    IFONLY_HD void set_lam(T value) {
        lam = value;
        il = 1.0 / value;
    }

    /** out = H a, H = Ḡ/λ; symmetric, and read so that neighbouring threads read neighbours. */
    IFONLY_HD void times(const T *a, T *out) const {
        if constexpr (N > 0 && Team::size == 1) { // all of it is in registers, and every entry of Ḡ is read once
            ALL(i) out[i] = gram(i, i) * a[i];
            ALL(i) IFONLY_UNROLL for (int j = 0; j < i; j++) {
                const double g = gram(i, j);
                out[i] += g * a[j];
                out[j] += g * a[i];
            }
            ALL(i) out[i] *= il;
        } else if constexpr (Of<T>::lanes == 1 && Team::size == 1) { // along rows of Ḡ, so that they are read as vectors
            ALL(i) out[i] = 0.0;
            ALL(j) {
                const T factor = a[j] * il;
                if (factor != 0.0)
                    for (int i = 0; i < x.n; i++) out[i] += G[j * x.n + i] * factor;
            }
        } else {
            times_together(a, out);
        }
    }

    /** The same for a vector of rows, or a team, in which a thread has all of its rivals at once: more is read while it waits. */
    IFONLY_HD void times_together(const T *a, T *out) const {
        if constexpr (Team::size == 1) {
            ALL(i) {
                T total{};
                ALL(j) total += gram(j, i) * a[j];
                out[i] = total * il;
            }
        } else {
            constexpr int EACH_HAS = (N + Team::size - 1) / Team::size;
            T total[EACH_HAS] = {};
            IFONLY_UNROLL_SOME for (int j = 0; j < N; j++)
                for (int m = 0; m < EACH_HAS; m++) {
                    const int i = Team::rank() + m * Team::size;
                    total[m] += gram(j, i < N ? i : 0) * a[j];
                }
            for (int m = 0; m < EACH_HAS; m++)
                if (Team::rank() + m * Team::size < N) out[Team::rank() + m * Team::size] = total[m] * il;
            Team::sync();
        }
    }

    /** Everything known of the point x.q. */
    IFONLY_HD void evaluate() {
        Team::sync();
        times(x.q, x.moved);
        T top{}, total{};
        EACH(i) top = larger(top, x.s[i] - x.moved[i]);
        top = Team::largest(top);
        EACH(i) x.p[i] = exponential(x.s[i] - x.moved[i] - top);
        EACH(i) total += x.p[i];
        total = Team::sum(total);
        const T e = exponential(-top), scale = inverse_of(total + e);
        const T loss = top + logarithm_of_one_more(select(top > 0.0, (total - 1.0) + e, total)); // to full relative precision
        if constexpr (GOAL) logit = top + logarithm(larger(total, T{} + 1e-300));
        p_target = e * scale;
        mass = total * scale;
        T q_moved{}, r_slope{};
        EACH(i) {
            x.p[i] *= scale;
            x.r[i] = x.p[i] - x.q[i];
            q_moved += x.q[i] * x.moved[i];
        }
        Team::sync();
        times(x.r, x.slope);
        EACH(i) r_slope += x.r[i] * x.slope[i];
        quad = Team::sum(q_moved);
        gg = Team::sum(r_slope);
        E = 0.5 * quad + loss;
    }

    /** M = L D Lᵀ, kept as L D and 1/D; the pivots are ≥ 1 but for rounding, and so they are made. */
    IFONLY_HD void factorise() {
        c = inverse_of(1.0 + root_of_share(p_target));
        T pg{};
        EACH(i) pg += x.p[i] * (x.moved[i] + x.slope[i]);
        pg = Team::sum(pg);
        EACH(i) {
            x.v[i] = root_of_share(x.p[i]);
            x.u[i] = c * (x.moved[i] + x.slope[i]) - 0.5 * c * c * pg;
        }
        if constexpr (Of<T>::lanes == 1) x.choose([&](int i) { return x.p[i] * gram(i, i) * il; });
        Team::sync();
        const auto entry = [&](int a, int b) {
            const int i = x.rival(a), j = x.rival(b);
            return x.v[i] * x.v[j] * (gram(j, i) * il - x.u[i] - x.u[j]) + (a == b ? 1.0 : 0.0);
        };
        if constexpr (IFONLY_TILED) factor.factorise(entry);
        else if constexpr (Team::size == 1) { // each column is taken out of those after it
            IFONLY_UNROLL for (int b = 0; b < x.count; b++)
                IFONLY_UNROLL for (int a = b; a < x.count; a++) x.M[at(a, b)] = entry(a, b);
            IFONLY_UNROLL for (int b = 0; b < x.count; b++) {
                const T inverse = x.inverse[b] = inverse_of(larger(x.M[at(b, b)], T{} + 1.0));
                IFONLY_UNROLL for (int k = b + 1; k < x.count; k++) {
                    const T factor = x.M[at(k, b)] * inverse;
                    T *column = x.M + at(0, k);
                    const T *pivots = x.M + at(0, b);
                    IFONLY_UNROLL for (int a = k; a < x.count; a++) column[a] -= factor * pivots[a];
                }
            }
        } else { // those before it are taken out of each column: nothing is written twice
            for (int b = 0; b < x.count; b++) {
                for (int k = Team::rank(); k < b; k += Team::size) x.t[k] = x.M[at(b, k)] * x.inverse[k];
                Team::sync();
                for (int a = first_from(b); a < x.count; a += Team::size) {
                    T even = entry(a, b), odd{};
                    const T *column = x.M + a;
                    int k = 0;
                    IFONLY_UNROLL_SOME for (; k + 1 < b; k += 2) {
                        even -= *column * x.t[k];
                        column += x.count - k - 1;
                        odd -= *column * x.t[k + 1];
                        column += x.count - k - 2;
                    }
                    if (k < b) even -= *column * x.t[k];
                    x.M[at(a, b)] = even + odd;
                }
                Team::sync();
                if (b % Team::size == Team::rank()) x.inverse[b] = inverse_of(larger(x.M[at(b, b)], T{} + 1.0));
            }
        }
        Team::sync();
    }

    /** The first of this thread's rivals that is b or after it. */
    IFONLY_HD static int first_from(int b) { return b + ((Team::rank() - b) % Team::size + Team::size) % Team::size; }

    /** out = M⁻¹ out. */
    IFONLY_HD void solve(T *out) const {
        if constexpr (IFONLY_TILED) factor.solve(out);
        else {
            IFONLY_UNROLL for (int b = 0; b < x.count; b++) {
                const T y = out[x.rival(b)] * x.inverse[b];
                IFONLY_UNROLL for (int a = first_from(b + 1); a < x.count; a += Team::size) out[x.rival(a)] -= x.M[at(a, b)] * y;
                Team::sync();
            }
            IFONLY_UNROLL for (int b = x.count - 1; b >= 0; b--) {
                T sum = out[x.rival(b)];
                if constexpr (Team::size == 1) {
                    IFONLY_UNROLL for (int a = b + 1; a < x.count; a++) sum -= x.M[at(a, b)] * out[x.rival(a)];
                    out[x.rival(b)] = sum * x.inverse[b];
                } else {
                    const T y = sum * x.inverse[b];
                    IFONLY_UNROLL for (int a = Team::rank(); a < b; a += Team::size) out[x.rival(a)] -= x.M[at(b, a)] * y;
                    Team::sync();
                }
            }
            if constexpr (Team::size > 1) {
                EACH(i) out[i] *= x.inverse[i];
            }
        }
    }

    /** out = R M⁻¹ Rᵀ h. */
    IFONLY_HD void spread(const T *h, T *out) const {
        T ph{}, total{};
        EACH(i) ph += x.p[i] * h[i];
        ph = c * Team::sum(ph);
        EACH(i) out[i] = x.v[i] * (h[i] - ph);
        Team::sync();
        solve(out);
        EACH(i) total += out[i] *= x.v[i];
        total = c * Team::sum(total);
        EACH(i) out[i] -= total * x.p[i];
        Team::sync();
    }

    /** One iteration of the active rows; those whose E did not fall are given up. With a goal x.u becomes dq/d ln λ before it. */
    IFONLY_HD void step() {
        // 1. Newton's direction and the third-order correction.
        factorise();
        spread(x.slope, x.direction);
        T decrease{}, mean{}, spread_of{};
        EACH(i) {
            x.direction[i] = x.r[i] - x.direction[i];
            decrease += x.slope[i] * x.direction[i];
        }
        decrease = Team::sum(decrease);
        Team::sync();
        times(x.direction, x.u);
        T longest{};
        EACH(i) {
            longest = larger(longest, magnitude(x.u[i]));
            mean += x.p[i] * x.u[i];
        }
        delta = select(active, Team::largest(longest), delta);
        mean = Team::sum(mean);
        EACH(i) spread_of += x.p[i] * (x.u[i] - mean) * (x.u[i] - mean);
        spread_of = Team::sum(spread_of) + p_target * mean * mean;
        EACH(i) x.w[i] = 0.5 * x.p[i] * ((x.u[i] - mean) * (x.u[i] - mean) - spread_of);
        Team::sync();
        times(x.w, x.u);
        spread(x.u, x.t);
        if constexpr (GOAL) spread(x.moved, x.u);

        // 2. The corrected full step where E falls, else Newton's direction with backtracking.
        const T before = E, slack = ROUNDINGS * EPS * (magnitude(E) + size * mass);
        EACH(i) x.old[i] = x.q[i];
        Mask<T> open = active;
        T length = T{} + 1.0;
        full = active;
        for (int trial = 0; trial <= MAX_BACKTRACKS; trial++) {
            EACH(i) {
                const T tried = trial ? x.old[i] + length * x.direction[i] : x.old[i] + x.direction[i] + (x.w[i] - x.t[i]);
                x.q[i] = select(open, tried, x.q[i]);
            }
            evaluate();
            open = open & no(E <= before - ARMIJO * length * decrease + slack);
            if (!any(open)) return;
            if (trial) {
                full = full & no(open);
                length = select(open, 0.5 * length, length);
            }
        }
        active = active & no(open);
    }

    IFONLY_HD T noise() const { return ROUNDINGS * EPS * (size + 1.0); } // some roundings of the margins

    /** Whether an answer in a window of this width is more than rounding; else the method for one row has the last word. */
    IFONLY_HD Mask<T> certain(T width) const {
        const Mask<T> small = width < GUESS;
        if (x.n > 1) return small;
        const T middle = goal.logit - 1.5 * goal.slack - 0.5 * goal.least; // of the window without a change
        return small & (x.moved[0] <= MOST_ROUNDING * (x.s[0] - middle));
    }

    /** After a step with a goal: rows whose λ is right are done when they are precise; the others' λ moves when it is time. */
    IFONLY_HD void aim(Mask<T> precise) {
        const Mask<T> near = active & full & (delta <= TRUST);
        if (!any(near)) return;
        times(x.u, x.t);
        T q_sum{}, rate{};
        EACH(i) {
            q_sum += x.q[i];
            rate += x.p[i] * (x.moved[i] - x.t[i]);
        }
        const T distance = square_root(larger(quad, T{}) * il);
        const T allowance = goal.slack + goal.slope * Team::sum(q_sum) * il + goal.far * distance, width = allowance + goal.least;
        const T miss = logit - (goal.logit - allowance);
        rate = Team::sum(rate) / mass;
        const Mask<T> right = near & (miss <= 0.0) & (miss >= -width);
        const Mask<T> guess = right & precise & no(certain(width));
        done = done | (right & precise & no(guess));
        active = active & no(guess);
        const Mask<T> due = near & no(right) & ((delta <= CLOSE) | (delta * delta * delta <= SURE * magnitude(miss)));
        if (!any(due)) return;
        low = select(due & (miss <= 0.0), lam, low);
        high = select(due & no(miss <= 0.0), lam, high);
        T along = select(rate > 0.0, -(miss + 0.5 * width) / rate, T{} - LONGEST_STEP);
        along = smaller(larger(along, T{} - LONGEST_STEP), T{} + LONGEST_STEP);
        T next = lam * exponential(along);
        const T middle = select(low > 0.0, square_root(low) * square_root(high), high * exponential(T{} - LONGEST_STEP));
        next = select((low < next) & (next < high), next, middle);
        const Mask<T> inside = (low < next) & (next < high) & (next > first / FAR) & (next < first * FAR);
        active = active & no(due & no(inside));
        const Mask<T> moves = due & inside;
        const T ratio = select(moves, next / lam, T{} + 1.0);
        along = logarithm(ratio);
        EACH(i) x.q[i] = select(moves, ratio * (x.q[i] + along * (x.u[i] - x.q[i])), x.q[i]); // the tangent of q/λ, smoother
        set_lam(select(moves, next, lam));
        evaluate();
    }

    /** The active rows from x.q to ‖∇E‖ ≤ tol or, with tol = 0, to the last digit; with a goal, to the λ at which
     *  logit(1 − p_k) lies in its window (`solve_prob` of native/reference.py), and there to the last digit.
     *  `sure(rows)` says which of the rows that met tol as computed do so for certain; the others go on to the last digit.
     *  `refill()` may put new rows in place of those that are not active, and says whether it did. */
    template <class Sure, class Refill> IFONLY_HD void go(int max_iter, Sure sure, Refill refill) {
        for (bool fresh = true; any(active); fresh = refill()) {
            if (fresh) evaluate();
            step();
            iterations = select(active, iterations + 1.0, iterations);
            const Mask<T> precise = active & full & (delta <= larger(noise(), T{} + CLOSE));
            if constexpr (GOAL) aim(precise);
            else {
                const Mask<T> loose = active & (tol > 0.0) & ((lam * gg <= tol * tol) | (full & (delta <= noise())));
                if (any(loose)) {
                    const Mask<T> certain = sure(loose);
                    done = done | (loose & certain);
                    tol = select(loose & no(certain), T{}, tol);
                }
                done = done | (precise & no(tol > 0.0));
            }
            active = active & no(done) & (iterations < double(max_iter));
        }
    }

    /** φ(h, −margin), roughly, by Newton in ℓ = ln(h t) as in engines/phi.py. */
    template <class R> static IFONLY_HD R root(R h, R margin) {
        const R log_h = rough_log(h), none = larger(-margin, R{}) + rough_log(1.0f + rough_exp(-magnitude(margin)));
        const R above = log_h - none, drop = larger(log_h + margin, R{} + 2.0f), guess = rough_log(drop - rough_log(drop));
        R ell = select(drop > 2.0f, smaller(guess, above), above);
        for (int i = 0; i < ROOT_STEPS; i++) {
            const R y = rough_exp(ell), over = y - margin, e = rough_exp(-magnitude(over));
            const R value = ell + larger(over, R{}) + rough_log(1.0f + e) - log_h;
            ell -= value * (1.0f + e) / (1.0f + e + y * select(over > 0.0f, R{} + 1.0f, e));
        }
        return smaller(rough_exp(smaller(ell, above) - log_h), R{} + 1.0f);
    }

    /** A q near the answer: the closed form for the rival that is most wrong now, again and again. No bound depends on it, so
     *  single precision does, and what overflows there starts at 0. */
    IFONLY_HD void start(int pairs) {
        if (x.n == 1) { // two classes: it is the answer
            const T h = smaller(larger(gram(0, 0) * il, T{} + 1e-100), T{} + 1e100);
            x.q[0] = root_of(h, smaller(larger(-x.s[0], T{} - 300.0), T{} + 300.0));
            return;
        }
        using R = Rough<T>;
        R *q = x.start_q, *s = x.start_s, *e = x.start_e;
        const R scale = rough(smaller(il, T{} + 1e30));
        EACH(i) {
            q[i] = R{};
            s[i] = rough(x.s[i]);
        }
        Team::sync();
        for (int turn = 0; turn < pairs; turn++) {
            R top{}, total{};
            EACH(i) top = larger(top, s[i]);
            top = Team::largest(top);
            EACH(i) total += e[i] = rough_exp(s[i] - top);
            const R share = 1.0f / (Team::sum(total) + rough_exp(-top));
            R worst = R{} - 1.0f, old{}, margin{};
            Int<R> j{};
            EACH(i) {
                const R wrong = magnitude(e[i] * share - q[i]);
                const Mask<R> more = wrong > worst;
                worst = select(more, wrong, worst);
                j = select(more, Int<R>{} + i, j);
                old = select(more, q[i], old);
                margin = select(more, s[i], margin);
            }
            if constexpr (Team::size > 1) {
                const R most = Team::largest(worst);
                j = int(Team::largest(float(worst == most ? j : 0)));
                old = q[j];
                margin = s[j];
            }
            const R h = smaller(larger(pulls(j, j) * scale, R{} + 1e-30f), R{} + 1e30f);
            const R now = root(h, margin + h * old), change = (now - old) * scale;
            Team::sync();
            EACH(i) {
                const Int<R> here = Int<R>{} + i;
                q[i] = select(j == here, now, q[i]);
                s[i] -= change * pulls(j, here);
            }
            Team::sync();
        }
        EACH(i) x.q[i] = exact(select((q[i] >= 0.0f) & (q[i] <= 1.0f), q[i], R{}));
    }

    /** Ḡ_ij, of each row its own. */
    IFONLY_HD Rough<T> pulls(Int<Rough<T>> i, Int<Rough<T>> j) const {
        if constexpr (Of<T>::lanes == 1) return float(gram(i, j));
        else {
            Rough<T> found;
            for (int w = 0; w < Of<T>::lanes; w++) found[w] = float(G[i[w] * x.n + j[w]]);
            return found;
        }
    }

    /** The same q for all rivals where that is the better start: many of them may be about as strong. */
    IFONLY_HD void start_evenly() {
        evaluate();
        const T E_pairs = E;
        const Mask<T> far = gg > NEAR_START;
        if (!any(far)) return;
        T pull_sum{}, below{}, above = T{} + 1.0 / x.n, share = 0.5 * above;
        EACH(i) {
            x.old[i] = x.q[i];
            x.t[i] = T{} + 1.0;
        }
        Team::sync();
        times(x.t, x.u);
        EACH(i) pull_sum += x.u[i];
        pull_sum = Team::sum(pull_sum);
        for (int turn = 0; turn < EVEN_STEPS; turn++) {
            T top{}, total{}, mean{}, square{};
            EACH(i) top = larger(top, x.s[i] - share * x.u[i]);
            top = Team::largest(top);
            EACH(i) {
                const T e = exponential(x.s[i] - share * x.u[i] - top);
                total += e;
                mean += e * x.u[i];
                square += e * x.u[i] * x.u[i];
            }
            total = Team::sum(total) + exponential(-top);
            mean = Team::sum(mean) / total;
            square = Team::sum(square) / total;
            const T slope = share * pull_sum - mean, before = share;
            above = select(slope > 0.0, share, above);
            below = select(slope > 0.0, below, share);
            T next = share - slope / (pull_sum + square - mean * mean);
            next = select((below < next) & (next < above), next, 0.5 * (below + above));
            const Mask<T> settled = magnitude(next - before) <= PAIR_TOL * next;
            share = next;
            if (all(settled)) break;
        }
        EACH(i) x.q[i] = share;
        evaluate();
        const Mask<T> better = far & (E < E_pairs);
        EACH(i) x.q[i] = select(better, x.q[i], x.old[i]);
    }

    /** λ of the two-class problem with the rival that is hardest to beat (engines/class_newton.py); 0 where there is none. */
    IFONLY_HD T first_lam() const {
        const T top = goal.logit - goal.slack;
        T farthest = T{} - 1.0, own{}, gap{};
        ALL(i) {
            const double square = gram(i, i);
            if (!(square > 0.0)) continue;
            const T ahead = larger(x.s[i] - top, T{}), far = ahead * (1.0 / square_root(square));
            const Mask<T> more = far > farthest;
            farthest = select(more, far, farthest);
            own = select(more, T{} + square, own);
            gap = select(more, ahead, gap);
        }
        return own / (1.0 + exponential(smaller(-top, T{} + 700.0))) / larger(gap, T{} + 0.1);
    }

    /** Margins are in x.s: λ, or a first guess of it, and a start, which may be given. */
    IFONLY_HD void begin(T wanted, int pairs, const float *given = nullptr) {
        Team::sync();
        T value = wanted;
        if constexpr (GOAL) value = first_lam();
        begin_from(value);
        if (given) {
            EACH(i) x.q[i] = T{} + double(given[i]);
        } else start(pairs);
        if (x.n > MANY_RIVALS) start_evenly();
    }

    /** Margins are in x.s and a start in x.q, for this λ or a goal near it. */
    IFONLY_HD void begin_from(T value) {
        T most{};
        EACH(i) most = larger(most, magnitude(x.s[i]));
        size = Team::largest(most);
        active = (value > 0.0) & (value < INF); // else no change of x changes any margin
        set_lam(select(active, value, T{} + 1.0));
        done = full = T{} > T{};
        low = iterations = delta = T{};
        high = T{} + INF;
        first = lam;
    }
};

} // namespace ifonly::IFONLY_SET
