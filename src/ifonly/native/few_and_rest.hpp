// Very many classes: few rivals one by one and the rest as one. The rounds are those of engines/rounds.py, which has the
// mathematics; what differs is that the factor of a small problem serves again where a step was short (`REUSE`), and that no
// history is kept.
//
// Vectors over the classes are as long as whole vectors of lanes need (`padded`); the target and what is beyond the last class
// have the margin −∞, no probability, and 0 in all else.
#pragma once

#include "memory.hpp"
#include "newton.hpp"
#include "rows.hpp"
#include "spans.hpp"

namespace ifonly::IFONLY_SET::few_and_rest {

// The method's constants, with their reasons in engines/rounds.py.
constexpr double REUSE = 1e-2; // a step that changed no margin by more leaves Newton's matrix as it was, but for as much
constexpr double TRUST = 0.3, SURE = 0.3, ROUGH = 0.1, LEAST_RATE = 0.02, SLOW = 0.5;
constexpr double CLOSE = 1e-8; // of Newton's method of second order
constexpr double ROOT_TOL = 1e-3;
constexpr int PAIRS = 16, FIRST_STEPS = 2, MAX_STEPS = 30, MAX_HALVINGS = 40, MAX_MOVES = 30, BISECTIONS = 60, ROOT_STEPS = 12;
constexpr int DEPTH = 2; // earlier steps that a step is combined with

struct Softmax {
    double mass, target, loss; // 1 − p_k, p_k, −ln p_k
};

/** Probabilities of the rivals with margins s − u, in p. */
inline Softmax softmax(i64 n, const double *s, const double *u, double *p) {
    Lanes most{}, total{};
    for (i64 j = 0; j < n; j += WIDTH) {
        const Lanes margin = load<Lanes>(s + j) - load<Lanes>(u + j);
        store(p + j, margin);
        most = larger(margin, most);
    }
    const double top = largest_of(most);
    for (i64 j = 0; j < n; j += WIDTH) {
        const Lanes e = exponential(load<Lanes>(p + j) - top);
        store(p + j, e);
        total += e;
    }
    const double mass = sum_of(total), e = __builtin_exp(-top), all = mass + e, scale = 1.0 / all;
    for (i64 j = 0; j < n; j += WIDTH) store(p + j, load<Lanes>(p + j) * scale);
    return {mass / all, e / all, top > 0.0 ? top + __builtin_log(all) : __builtin_log1p(mass)};
}

// ---- symmetric positive definite systems ----

/** The factor of the lower half of M, column after column with `stride` between them, in its place; the diagonal is that of the
 *  inverse. Pivots below `least` are rounding. */
inline void factorise(double *M, i64 n, i64 stride, double least) {
    for (i64 b = 0; b < n; b += 4) {
        const i64 m = n - b < 4 ? n - b : 4;
        for (i64 c = b; c < b + m; c++) {
            double *column = M + c * stride;
            const i64 from = c & ~7LL; // what stands above the diagonal is never read
            for (i64 e = b; e < c; e++) {
                const double *other = M + e * stride, factor = other[c];
                for (i64 a = from; a < n; a += WIDTH) store(column + a, load<Lanes>(column + a) - factor * load<Lanes>(other + a));
            }
            const double inverse = 1.0 / square_root(larger(column[c], least));
            for (i64 a = from; a < n; a += WIDTH) store(column + a, load<Lanes>(column + a) * inverse);
            column[c] = inverse;
        }
        if (m < 4) return;
        const double *c0 = M + b * stride, *c1 = c0 + stride, *c2 = c1 + stride, *c3 = c2 + stride;
        for (i64 k = b + 4; k < n; k++) {
            double *column = M + k * stride;
            const double f0 = c0[k], f1 = c1[k], f2 = c2[k], f3 = c3[k];
            for (i64 a = k & ~7LL; a < n; a += WIDTH) {
                const Lanes first = load<Lanes>(c0 + a) * f0 + load<Lanes>(c1 + a) * f1;
                store(column + a, load<Lanes>(column + a) - (load<Lanes>(c2 + a) * f2 + load<Lanes>(c3 + a) * f3 + first));
            }
        }
    }
}

/** x = M⁻¹x with that factor; x is as long as whole vectors need. */
inline void substitute(const double *M, i64 n, i64 stride, double *x) {
    for (i64 b = 0; b < n; b++) {
        const double *column = M + b * stride, value = x[b] * column[b];
        for (i64 a = b + 1; a < n; a++) x[a] -= column[a] * value;
        x[b] = value;
    }
    for (i64 b = n - 1; b >= 0; b--) {
        const double *column = M + b * stride;
        i64 a = b + 1;
        double total = 0.0;
        for (; a < n && (a & 7); a++) total += column[a] * x[a];
        Lanes lanes{};
        for (; a + WIDTH <= n; a += WIDTH) lanes += load<Lanes>(column + a) * load<Lanes>(x + a);
        for (; a < n; a++) total += column[a] * x[a];
        x[b] = (x[b] - (total + sum_of(lanes))) * column[b];
    }
}

// ---- the small problem ----

struct Small {
    i64 n = 0, stride = 0; // rivals, and how far rows of the matrices are apart
    double *gram, *M;      // gram is 0 beyond the rivals, M the factor column after column
    double *s, *q, *moved, *p, *r, *slope, *v, *direction, *ds, *bend, *Hb, *old, *tangent;
    double lam = 1.0, c = 1.0, E = 0.0, size = 0.0;
    Softmax at{};

    static i64 room(i64 most) { return 2 * padded(most) * padded(most) + 13 * padded(most); }

    Small(i64 most, double *memory) {
        const i64 length = padded(most);
        for (double **vector : {&s, &q, &moved, &p, &r, &slope, &v, &direction, &ds, &bend, &Hb, &old, &tangent}) {
            *vector = memory;
            for (i64 i = 0; i < length; i++) memory[i] = 0.0;
            memory += length;
        }
        gram = memory;
        M = gram + length * length;
    }

    /** So many rivals, whose margins and q are known; no others. */
    void hold(i64 rivals) {
        n = rivals;
        size = 0.0;
        for (i64 i = 0; i < n; i++) size = larger(size, magnitude(s[i]));
        for (i64 i = n; i < length(); i++) {
            s[i] = -INF;
            q[i] = 0.0;
        }
        for (i64 a = 0; a < length(); a++)
            for (i64 b = a < n ? n : 0; b < length(); b++) gram[a * stride + b] = 0.0;
    }

    i64 length() const { return padded(n); }

    /** out = H a. */
    void times(const double *a, double *out) const {
        const i64 length = this->length();
        const double il = 1.0 / lam;
        for (i64 i = 0; i < length; i += WIDTH) store(out + i, Lanes{});
        for (i64 j = 0; j < n; j += 4) { // of the rows beyond the last rival both factors are 0
            const double *row = gram + j * stride, x0 = a[j] * il, x1 = a[j + 1] * il, x2 = a[j + 2] * il, x3 = a[j + 3] * il;
            for (i64 i = 0; i < length; i += WIDTH) {
                const Lanes two = load<Lanes>(row + i) * x0 + load<Lanes>(row + stride + i) * x1;
                const Lanes more = load<Lanes>(row + 2 * stride + i) * x2 + load<Lanes>(row + 3 * stride + i) * x3;
                store(out + i, load<Lanes>(out + i) + (two + more));
            }
        }
    }

    /** Everything known of the point q. */
    void evaluate() {
        times(q, moved);
        at = softmax(length(), s, moved, p);
        E = 0.5 * dot(length(), q, moved) + at.loss;
        for (i64 i = 0; i < n; i++) r[i] = p[i] - q[i];
        times(r, slope);
    }

    /** Newton's matrix, whose pivots are ≥ 1. */
    void factor() {
        const double il = 1.0 / lam;
        c = 1.0 / (1.0 + square_root(at.target));
        for (i64 i = 0; i < n; i++) {
            v[i] = square_root(p[i]);
            old[i] = moved[i] + slope[i]; // H p
        }
        const double shift = 0.5 * c * c * dot(length(), p, old);
        for (i64 i = 0; i < n; i++) old[i] = c * old[i] - shift;
        for (i64 j = 0; j < n; j++) {
            double *column = M + j * stride;
            const double *row = gram + j * stride, own = old[j], weight = v[j];
            for (i64 i = j & ~7LL; i < n; i += WIDTH) {
                const Lanes inner = load<Lanes>(row + i) * il - load<Lanes>(old + i) - own;
                store(column + i, load<Lanes>(v + i) * weight * inner);
            }
            column[j] += 1.0;
        }
        factorise(M, n, stride, 1.0);
    }

    /** out = R M⁻¹ Rᵀ h, with p of the factor as v². */
    void spread(const double *h, double *out) const {
        double total = 0.0;
        for (i64 i = 0; i < n; i++) total += v[i] * v[i] * h[i];
        for (i64 i = 0; i < n; i++) out[i] = v[i] * (h[i] - c * total);
        substitute(M, n, stride, out);
        total = 0.0;
        for (i64 i = 0; i < n; i++) total += out[i] *= v[i];
        for (i64 i = 0; i < n; i++) out[i] -= c * total * v[i] * v[i];
    }

    /** One step of third order from an evaluated point, which is evaluated again; how far it moves a margin, Newton's δ. */
    double newton(bool fresh) {
        if (fresh) factor();
        spread(slope, direction);
        for (i64 i = 0; i < n; i++) direction[i] = r[i] - direction[i];
        times(direction, ds);
        const double delta = largest_size(length(), ds), decrease = dot(length(), slope, direction);
        const double most = E + ROUNDINGS * EPS * (magnitude(E) + size * at.mass);
        for (i64 i = 0; i < n; i++) {
            old[i] = q[i];
            q[i] += direction[i];
        }
        if (delta > CLOSE) {
            const double mean = dot(length(), p, ds);
            double square = at.target * mean * mean;
            for (i64 i = 0; i < n; i++) square += p[i] * (ds[i] - mean) * (ds[i] - mean);
            for (i64 i = 0; i < n; i++) bend[i] = 0.5 * p[i] * ((ds[i] - mean) * (ds[i] - mean) - square);
            times(bend, Hb);
            spread(Hb, ds);
            for (i64 i = 0; i < n; i++) q[i] += bend[i] - ds[i];
        }
        evaluate();
        double step = 1.0;
        for (int trial = 0; trial < MAX_HALVINGS; trial++) {
            if (E <= most - ARMIJO * step * decrease) break;
            for (i64 i = 0; i < n; i++) q[i] = old[i] + step * direction[i];
            evaluate();
            step *= 0.5;
        }
        return delta;
    }

    /** t = 1/(1 + e^{ht − margin}), to some digits: Newton in a bracket. */
    static double root(double h, double margin) {
        double low = 0.0, high = 1.0, t = h == 0.0 ? 0.5 : smaller(larger(margin / h, 0.0), 1.0);
        for (int i = 0; i < ROOT_STEPS; i++) {
            const double y = 1.0 / (1.0 + __builtin_exp(smaller(h * t - margin, 700.0)));
            (t > y ? high : low) = t;
            double next = t - (t - y) / (1.0 + h * y * (1.0 - y));
            if (!(low < next && next < high)) next = 0.5 * (low + high);
            if (magnitude(next - t) <= ROOT_TOL * next) return next;
            t = next;
        }
        return t;
    }

    /** A q near the answer: coordinate steps on the rival that is most wrong. */
    void start() {
        const double il = 1.0 / lam;
        for (i64 i = 0; i < length(); i++) q[i] = moved[i] = 0.0;
        for (int turn = 0; turn < PAIRS; turn++) {
            softmax(length(), s, moved, p);
            i64 j = 0;
            double worst = -1.0;
            for (i64 i = 0; i < n; i++)
                if (magnitude(p[i] - q[i]) > worst) {
                    j = i;
                    worst = magnitude(p[i] - q[i]);
                }
            const double *row = gram + j * stride, h = row[j] * il, now = root(h, s[j] - moved[j] + h * q[j]);
            const double change = (now - q[j]) * il;
            q[j] = now;
            for (i64 i = 0; i < n; i++) moved[i] += change * row[i];
        }
    }

    /** q becomes a solution, near enough, and lam its λ: `_solved` of engines/rounds.py. */
    void solve(const double *window, bool fresh, double above) {
        evaluate();
        if (window) return aim(window, fresh);
        if (!fresh) { // so short a step that there is nothing to correct or to check
            spread(slope, direction);
            for (i64 i = 0; i < n; i++) q[i] += r[i] - direction[i];
            return;
        }
        const int steps = above == INF ? FIRST_STEPS : 1;
        for (int step = 0; step < MAX_STEPS; step++) {
            const double delta = newton(true);
            if ((step + 1 >= steps && E <= above) || delta <= CLOSE) break;
        }
    }

    /** The same, and the λ at which logit Q lies in the window (engines/windows.py). */
    void aim(const double *window, bool fresh) {
        double low = 0.0, high = INF;
        for (int turn = 0; turn < MAX_MOVES; turn++) {
            for (int step = 0; step < MAX_STEPS; step++)
                if (newton(fresh || step > 0) <= ROUGH) break;
            spread(moved, tangent); // dq/d ln λ, one step stale
            times(tangent, Hb);
            double change = 0.0, rate = 0.0;
            for (i64 i = 0; i < n; i++) {
                change += q[i];
                rate += p[i] * (moved[i] - Hb[i]);
            }
            const double middle = window[0] - 1.5 * (window[1] + window[2] * change / lam) - 0.5 * window[3];
            const double miss = middle - (__builtin_log(at.mass) - __builtin_log(at.target));
            (miss < 0.0 ? high : low) = lam;
            double move = rate > 0.0 ? miss * at.mass / rate : __builtin_copysign(LONGEST_STEP, miss);
            move = smaller(larger(move, -LONGEST_STEP), LONGEST_STEP);
            const double hoped = lam * __builtin_exp(move);
            if (!(low <= hoped && hoped <= high)) move = __builtin_log(low / lam * square_root(high / low));
            const double next = lam * __builtin_exp(move);
            for (i64 i = 0; i < n; i++) // along the tangent of q/λ, which is smoother than q
                q[i] = next / lam * (q[i] + move * (tangent[i] - q[i]));
            lam = next;
            if (magnitude(move) < SURE) break;
            evaluate();
        }
    }
};

// ---- the rounds ----

struct Rounds {
    static constexpr int VECTORS = 13 + 2 * (DEPTH + 1);

    const RoundsRow &row;
    const double *G;
    const i64 K, k, length; // classes, the target, and how long vectors are
    const i64 most;         // the few
    Small small;
    double *d, *u, *p, *s, *rest, *w, *pull, *t, *tu, *d_new, *u_new, *p_new, *order;
    double *D[DEPTH + 1], *U[DEPTH + 1]; // the last steps, and a place for the new one
    i64 *index, n = 0;
    double lam;

    static i64 most_of(const RoundsRow &row) {
        const i64 share = i64(1.0 / row.share) + 1, few = row.few > share ? row.few : share;
        return few < row.K - 2 ? few : row.K - 2;
    }
    static i64 room(const RoundsRow &row) {
        return VECTORS * padded(row.K) + Small::room(most_of(row) + 1) + most_of(row);
    }

    Rounds(const RoundsRow &row, double *memory)
        : row(row), G(row.G), K(row.K), k(row.k), length(padded(row.K)), most(most_of(row)),
          small(most + 1, memory + VECTORS * length), lam(row.lam) {
        for (i64 i = 0; i < VECTORS * length; i++) memory[i] = 0.0;
        for (double **vector : {&d, &u, &p, &s, &rest, &w, &pull, &t, &tu, &d_new, &u_new, &p_new, &order}) {
            *vector = memory;
            memory += length;
        }
        for (int a = 0; a <= DEPTH; a++) {
            D[a] = memory + 2 * a * length;
            U[a] = D[a] + length;
        }
        memory += 2 * (DEPTH + 1) * length;
        index = reinterpret_cast<i64 *>(memory + Small::room(most + 1));
        for (i64 j = 0; j < length; j++) s[j] = j < K ? row.margins[j] : -INF;
        s[k] = -INF;
    }

    /** out = Ḡx, for x with 0 for the target; reads the lower half of G, eight rows at a time.
     *
     *  Without fetching ahead a round takes 110 µs instead of 90 with 1000 classes in some processes, as pages of G happen to
     *  lie. Tried and dropped: products in single precision. They take half the time, but more rounds. */
    void product(double *x, double *out) const {
        x[k] = -sum(length, x);
        for (i64 j = 0; j < length; j += WIDTH) store(out + j, Lanes{});
        const i64 even = K & ~7LL;
        for (i64 i = 0; i < even; i += 8) {
            const double *g = G + i * K;
            Lanes y[8] = {};
            for (i64 j = 0; j < i; j += WIDTH) {
                const Lanes here = load<Lanes>(x + j);
                Lanes total = load<Lanes>(out + j);
                for (int a = 0; a < 8; a++) {
                    const Lanes entry = load<Lanes>(g + a * K + j);
                    __builtin_prefetch(g + (8 + a) * K + j, 0, 2); // the next eight rows are as many new streams
                    y[a] += entry * here;
                    total += entry * x[i + a];
                }
                store(out + j, total);
            }
            for (i64 j = i; j < i + 8; j += WIDTH) {
                const Lanes here = load<Lanes>(x + j);
                for (int a = 0; a < 8; a++) y[a] += load<Lanes>(g + a * K + j) * here;
            }
            for (int a = 0; a < 8; a++) out[i + a] += sum_of(y[a]);
        }
        for (i64 i = even; i < K; i++) {
            const double *g = G + i * K, own = x[i];
            Lanes y{};
            for (i64 j = 0; j < even; j += WIDTH) {
                const Lanes entry = load<Lanes>(g + j);
                y += entry * load<Lanes>(x + j);
                store(out + j, load<Lanes>(out + j) + entry * own);
            }
            double total = sum_of(y);
            for (i64 j = even; j < K; j++) total += g[j] * x[j];
            out[i] += total;
        }
        x[k] = 0.0;
        settle(out, -out[k]);
    }

    /** A number added to all entries; the target's, and what is beyond, are 0. */
    void settle(double *x, double shift) const {
        for (i64 j = 0; j < length; j += WIDTH) store(x + j, load<Lanes>(x + j) + shift);
        x[k] = 0.0;
        for (i64 j = K; j < length; j++) x[j] = 0.0;
    }

    /** out += Σ weights_i Ḡ[index_i]. */
    void add_rows(const double *weights, double *out) const {
        const double *own = G + k * K;
        double total = 0.0, shift = 0.0;
        for (i64 a = 0; a < n; a++) {
            total += weights[a];
            shift -= weights[a] * G[index[a] * K + k];
        }
        shift += total * own[k];
        const i64 whole = K / WIDTH * WIDTH;
        i64 a = 0;
        for (; a + 8 <= n; a += 8) {
            const double *g[8];
            for (int i = 0; i < 8; i++) g[i] = G + index[a + i] * K;
            for (i64 j = 0; j < whole; j += WIDTH) {
                Lanes x = load<Lanes>(out + j), y{};
                for (int i = 0; i < 8; i += 2) {
                    x += load<Lanes>(g[i] + j) * weights[a + i];
                    y += load<Lanes>(g[i + 1] + j) * weights[a + i + 1];
                }
                store(out + j, x + y);
            }
            for (i64 j = whole; j < K; j++)
                for (int i = 0; i < 8; i++) out[j] += g[i][j] * weights[a + i];
        }
        for (; a <= n; a++) { // and the target's
            const double *g = a < n ? G + index[a] * K : own, weight = a < n ? weights[a] : -total;
            for (i64 j = 0; j < whole; j += WIDTH) store(out + j, load<Lanes>(out + j) + load<Lanes>(g + j) * weight);
            for (i64 j = whole; j < K; j++) out[j] += g[j] * weight;
        }
        settle(out, shift);
    }

    /** The few: their number, indices and Gram matrix; `rest` is 1 for all others, and 0 for them and the target. */
    void choose(double strong) {
        i64 wanted = 0;
        double low = INF, high = -INF;
        for (i64 j = 0; j < K; j++) {
            order[j] = s[j] - u[j];
            rest[j] = 1.0;
            wanted += p[j] > strong;
            if (j != k) low = smaller(low, order[j]);
            high = larger(high, order[j]);
        }
        rest[k] = 0.0;
        low -= magnitude(low) + 1.0;
        if (wanted < row.few) wanted = row.few;
        if (wanted > most) wanted = most;
        for (int i = 0; i < BISECTIONS; i++) { // more than these are above low, and no more above high
            const double middle = 0.5 * (low + high);
            i64 count = 0;
            for (i64 j = 0; j < K; j++) count += order[j] > middle;
            (count > wanted ? low : high) = middle;
            if (count == wanted) break;
        }
        n = 0;
        for (const double bound : {high, low}) // between the two are those that are equal but for rounding
            for (i64 j = 0; j < K && n < wanted; j++)
                if (order[j] > bound && rest[j] == 1.0) {
                    index[n++] = j;
                    rest[j] = 0.0;
                }
        small.stride = padded(n + 1); // and the rest
        const double *own = G + k * K;
        for (i64 a = 0; a < n; a++) {
            const double *g = G + index[a] * K;
            for (i64 b = 0; b < n; b++)
                small.gram[a * small.stride + b] = (g[index[b]] - g[k]) - (own[index[b]] - own[k]);
        }
    }

    double strongest() const {
        Lanes top{};
        for (i64 j = 0; j < length; j += WIDTH) top = larger(load<Lanes>(p + j) * load<Lanes>(rest + j), top);
        return largest_of(top);
    }

    /** The rest as one rival: its margin, and in w the weights of its row. */
    double weigh() {
        Lanes most = Lanes{} - INF, total{};
        for (i64 j = 0; j < length; j += WIDTH) {
            const Lanes in = load<Lanes>(rest + j), margin = load<Lanes>(s + j) - load<Lanes>(u + j);
            const Lanes here = select(in > 0.0, margin, Lanes{} - INF);
            store(w + j, here);
            most = larger(here, most);
        }
        const double top = largest_of(most);
        for (i64 j = 0; j < length; j += WIDTH) {
            const Lanes e = exponential(load<Lanes>(w + j) - top);
            store(w + j, e);
            total += e;
        }
        const double all = sum_of(total), scale = 1.0 / all;
        for (i64 j = 0; j < length; j += WIDTH) store(w + j, load<Lanes>(w + j) * scale);
        return top + __builtin_log(all);
    }

    /** The best combination of a step with the last m ones, in its place: `_combined` of engines/rounds.py. */
    void combine(i64 m, double target, double error) {
        const i64 size = 8;
        double M[8 * size] = {}, x[size] = {}, mean[DEPTH + 1], scale[DEPTH + 1];
        for (i64 j = 0; j < length; j += WIDTH) {
            store(D[m] + j, load<Lanes>(t + j));
            store(U[m] + j, load<Lanes>(tu + j));
        }
        for (i64 a = 0; a <= m; a++) {
            mean[a] = dot(length, U[a], p);
            x[a] = mean[a] - lam * dot(length, U[a], d);
        }
        for (i64 a = 0; a <= m; a++)
            for (i64 b = 0; b <= a; b++) {
                Lanes total{};
                for (i64 j = 0; j < length; j += WIDTH) {
                    const Lanes there = load<Lanes>(U[b] + j), own = load<Lanes>(U[a] + j) - mean[a];
                    total += lam * load<Lanes>(D[a] + j) * there + load<Lanes>(p + j) * own * (there - mean[b]);
                }
                M[b * size + a] = M[a * size + b] = target * mean[a] * mean[b] + sum_of(total);
            }
        for (i64 a = 0; a <= m; a++) {
            if (!(M[a * size + a] > 0.0)) return; // a step that is but rounding
            scale[a] = 1.0 / square_root(M[a * size + a]);
        }
        for (i64 a = 0; a <= m; a++) {
            for (i64 b = 0; b <= m; b++) M[a * size + b] *= scale[a] * scale[b];
            M[a * size + a] += error;
            x[a] *= scale[a];
        }
        factorise(M, m + 1, size, error);
        substitute(M, m + 1, size, x);
        for (i64 j = 0; j < length; j += WIDTH) {
            Lanes step{}, moves{};
            for (i64 a = 0; a <= m; a++) {
                step += x[a] * scale[a] * load<Lanes>(D[a] + j);
                moves += x[a] * scale[a] * load<Lanes>(U[a] + j);
            }
            store(t + j, step);
            store(tu + j, moves);
        }
    }

    /** Where a step of this length leads, into d_new, u_new and p_new. */
    Softmax go(double along) {
        for (i64 j = 0; j < length; j += WIDTH) {
            store(d_new + j, load<Lanes>(d + j) + along * load<Lanes>(t + j));
            store(u_new + j, load<Lanes>(u + j) + along * load<Lanes>(tu + j));
        }
        return softmax(length, s, u_new, p_new);
    }

    void arrive() {
        double *old[] = {d, u, p};
        d = d_new, u = u_new, p = p_new;
        d_new = old[0], u_new = old[1], p_new = old[2];
    }

    /** The few alone: nearer than the source, if E falls. */
    void first(Softmax &here) {
        small.lam = lam;
        for (i64 a = 0; a < n; a++) small.s[a] = s[index[a]];
        small.hold(n);
        small.start();
        small.solve(row.window, true, INF);
        lam = small.lam;
        for (i64 a = 0; a < n; a++) t[index[a]] = small.q[a] /= lam;
        add_rows(small.q, tu);
        const Softmax there = go(1.0);
        if (0.5 * lam * dot(length, d_new, u_new) + there.loss > here.loss) return;
        here = there;
        arrive();
    }

    void run() {
        double longest = 0.0, last = INF, rate = 0.0;
        for (i64 j = 0; j < K; j++) longest = larger(longest, G[j * K + j]);
        if (row.warm) {
            for (i64 j = 0; j < K; j++) d[j] = row.state[j];
            product(d, u);
        }
        Softmax here = softmax(length, s, u, p);
        choose(row.share * here.mass);
        if (!row.warm) first(here);
        i64 turn = 0;
        bool done = false;
        for (; turn < row.max_iter && !done; turn++) {
            // 1. The few, and the rest as one.
            const bool outdated = strongest() > row.share * here.mass;
            if (outdated) choose(row.share * here.mass);
            const double margin = weigh();
            product(w, pull);

            // 2. The small problem's solution, as a step.
            const double square = dot(length, d, u), reach = longest * sum_of_sizes(length, d);
            const double least = ROUNDINGS * EPS * (row.size + 1.0) * smaller(1.0, largest_size(length, u));
            const double noise = least + ROUNDINGS * EPS * reach;
            small.lam = lam;
            for (i64 a = 0; a < n; a++) {
                small.gram[a * small.stride + n] = small.gram[n * small.stride + a] = pull[index[a]];
                small.s[a] = s[index[a]];
                small.q[a] = lam * d[index[a]];
            }
            small.gram[n * small.stride + n] = dot(length, w, pull);
            small.s[n] = margin + dot(length, w, u);
            small.q[n] = lam * dot(length, d, rest);
            small.hold(n + 1);
            small.solve(row.window, outdated || last > REUSE, 0.5 * lam * square + here.loss);
            lam = small.lam;
            for (i64 a = 0; a <= n; a++) small.q[a] /= lam;
            const double weight = small.q[n];
            for (i64 j = 0; j < length; j += WIDTH) {
                store(t + j, weight * load<Lanes>(w + j) - load<Lanes>(d + j));
                store(tu + j, weight * load<Lanes>(pull + j) - load<Lanes>(u + j));
            }
            for (i64 a = 0; a < n; a++) t[index[a]] += small.q[a];
            add_rows(small.q, tu);
            const double delta = largest_size(length, tu);

            // 3. The best combination with the last steps.
            if (noise < delta && delta <= TRUST && turn > 0) combine(turn < DEPTH ? turn : DEPTH, here.target, noise / delta);

            // 4. E must fall.
            const double E = 0.5 * lam * square + here.loss;
            const double most = E + ROUNDINGS * EPS * (magnitude(E) + (row.size + reach) * here.mass);
            double along = 1.0;
            Softmax there = go(along);
            int trial = 1;
            for (; !(0.5 * lam * dot(length, d_new, u_new) + there.loss <= most); trial++) {
                if (trial == MAX_HALVINGS) break;
                there = go(along *= 0.5);
            }
            if (trial == MAX_HALVINGS) break;
            double *oldest[] = {D[DEPTH - 1], U[DEPTH - 1]};
            for (int a = DEPTH - 1; a > 0; a--) {
                D[a] = D[a - 1];
                U[a] = U[a - 1];
            }
            D[0] = oldest[0], U[0] = oldest[1];
            for (i64 j = 0; j < length; j += WIDTH) {
                store(D[0] + j, load<Lanes>(d_new + j) - load<Lanes>(d + j));
                store(U[0] + j, load<Lanes>(u_new + j) - load<Lanes>(u + j));
            }
            arrive();
            here = there;

            // 5. Nothing left to gain?
            const double before = rate;
            rate = larger(delta / last, LEAST_RATE);
            const bool nothing = delta * larger(rate, before) <= least || (delta <= noise && rate > SLOW);
            done = along == 1.0 && delta <= larger(noise, CLOSE) && nothing;
            last = delta;
        }
        for (i64 j = 0; j < K; j++) {
            row.state[j] = d[j];
            row.state[K + j] = u[j];
            row.state[2 * K + j] = p[j];
        }
        const double numbers[] = {lam, here.target, here.loss, double(turn), double(done)};
        for (int i = 0; i < 5; i++) row.numbers[i] = numbers[i];
    }
};

/** One problem with few rivals, until a step changes no margin by more than `close`: q in and out, and how many steps; 0 if none does. */
inline int solve_few(i64 n, const double *gram, i64 pitch, const double *margins, double lam, double close, bool begin, double *q) {
    const Memory memory(Small::room(n) * i64(sizeof(double)));
    Small small(n, memory.as<double>());
    small.stride = padded(n);
    small.lam = lam;
    for (i64 a = 0; a < n; a++) {
        small.s[a] = margins[a];
        for (i64 b = 0; b < n; b++) small.gram[a * small.stride + b] = gram[a * pitch + b];
    }
    small.hold(n);
    if (begin) small.start();
    else
        for (i64 a = 0; a < n; a++) small.q[a] = q[a];
    small.evaluate();
    for (int step = 1; step <= MAX_STEPS; step++) {
        if (!(small.newton(true) <= close)) continue;
        for (i64 a = 0; a < n; a++) q[a] = small.q[a];
        return step;
    }
    return 0;
}

inline void solve_rounds(const RoundsRow &row) {
    const Memory memory(Rounds::room(row) * i64(sizeof(double)));
    Rounds(row, memory.as<double>()).run();
}

} // namespace ifonly::IFONLY_SET::few_and_rest
