// Two classes and nothing but intervals, from a source to its certified answer: native/intervals.py says what is solved here.
//
// A row is solved on its own, a vector of its features at a time. What all rows share is copied once, and filled up to whole
// vectors with features that do nothing; so a row's sums are the same wherever in a table it stands.
#pragma once

#include "memory.hpp"
#include "rows.hpp"
#include "spans.hpp"

namespace ifonly::IFONLY_SET {

constexpr int CHASE = 12;             // as engines.limited: times that an allowance for rounding is tried, each with more of it
constexpr int MULTIPLIER_STEPS = 100; // of the search for w; three are usual
constexpr double STILL = 4e-16;       // relative: a step of w below it is none

IFONLY_HD bool is_finite(double a) { return magnitude(a) < INF; }

/** ln(1 + eᵃ). */
inline double softplus(double a) {
    return a > 0.0 ? a + __builtin_log1p(__builtin_exp(-a)) : __builtin_log1p(__builtin_exp(a));
}

template <class T> struct BoxLoop {
    static constexpr int W = Of<T>::lanes;
    enum Ended : signed char { LEFT, INVALID, REACHED, UNREACHABLE };

    struct Scores {
        double margin[2]; // the rival's less the class's own, for each class
        double terms;     // the size of what was added up
        bool finite;      // whether all of it is
    };
    struct Multiplier {
        double w, top; // and the largest gain there is
        Ended met;
    };

    const BoxRows &rows;
    const i64 V; // vectors that the features fill
    // What all rows share; in pairs what depends on the class.
    T *A[2], *g[2], *shift, *scale, *sizes, *c, *mu, *least, *most, *rises, *falls;
    // Of the row at hand: the source, its interval, the nearest point within and the answer; then in units of cost how far each
    // feature can go down and up from that point, and the pull at which it begins to.
    T *source, *lo, *hi, *first, *x, *down, *up, *pull;
    double *numbers = nullptr;

    static i64 vectors(i64 D) { return (D + W - 1) / W; }
    static i64 room(i64 D) { return 21 * vectors(D); } // in numbers T

    BoxLoop(const BoxRows &rows, T *memory) : rows(rows), V(vectors(rows.D)) {
        constexpr double nothing[] = {0, 0, 0, 0, 0, 1, 0, 1, 0, -INF, INF, 0, 0}; // features that do nothing
        int row = 0;
        for (T **vector : {&A[0], &A[1], &g[0], &g[1], &shift, &scale, &sizes, &c, &mu, &least, &most, &rises, &falls}) {
            *vector = memory;
            memory += V;
            for (int w = 0; w < W; w++) set_lane((*vector)[V - 1], w, nothing[row]);
            copy(*vector, rows.features + row++ * rows.D);
        }
        for (T **vector : {&source, &lo, &hi, &first, &x, &down, &up, &pull}) {
            *vector = memory;
            memory += V;
        }
        source[V - 1] = T{};
    }

    void copy(void *to, const void *from) const { __builtin_memcpy(to, from, rows.D * sizeof(double)); }

    void solve() {
        for (i64 n = 0; n < rows.N; n++) {
            numbers = rows.numbers + n * BOX_NUMBERS;
            for (int i = 0; i < BOX_NUMBERS; i++) numbers[i] = __builtin_nan("");
            rows.ended[n] = solved(n);
        }
    }

    Ended solved(i64 n) {
        const double logit = rows.logits[n], prob = rows.probs[n];
        // 1. Which class, and how far each feature may go.
        copy(source, rows.X + n * rows.D);
        Scores at = scores(source);
        bool outside = false;
        if (!(at.finite && intervals(outside))) return INVALID;
        const int k = rows.targets[n] >= 0 ? rows.targets[n] != 0 : at.margin[1] >= 0.0;
        numbers[TARGET] = k;
        // 2. The nearest point within the limits, which is the source itself if that is within: it may be enough.
        if (outside) at = scores(first);
        const double margin = at.margin[k];
        const double times = rows.logs > 0.0 ? larger(1.0, rows.logs / (1.0 - prob)) : 1.0; // problem.goals.coarser
        double rounding = rounding_of(at.terms, margin);
        if (margin <= logit - times * rounding) {
            judge(first, margin, 0.0, rounding, logit, prob, k);
            return hand_out(n, first, REACHED);
        }
        // 3. The multiplier, and x; again where the allowance, which grows with x, was too small.
        double spare = 0.125; // as engines.limited.SPARES
        for (int i = 0; i < CHASE; i++, spare *= 2.0) {
            const Multiplier found = multiplier(margin - logit + (1.0 + spare) * times * rounding, g[k]);
            if (found.met == LEFT) return LEFT;
            place(found.w, g[k]);
            at = scores(x);
            const double now = at.margin[k];
            rounding = rounding_of(at.terms, margin);
            if (found.met == UNREACHABLE) {
                if (rows.hard ? now <= logit : __builtin_exp(-softplus(now)) >= prob) return LEFT; // only for the allowance
                judge(x, now, found.w, rounding, logit, prob, k);
                const double cost = numbers[COST];
                numbers[LAM] = 1.0 / found.w;
                numbers[MULTIPLIER] = numbers[GRAD_NORM] = numbers[GAP] = 0.0;
                numbers[BOUND] = cost;
                numbers[OBJECTIVE] = rows.hard ? cost : cost / found.w + softplus(now);
                numbers[BEST] = 1.0 / (1.0 + __builtin_exp(smaller(margin - found.top - rounding, 700.0)));
                return hand_out(n, x, UNREACHABLE);
            }
            if (now <= logit - times * rounding) {
                judge(x, now, found.w, rounding, logit, prob, k);
                return hand_out(n, x, REACHED);
            }
        }
        return LEFT;
    }

    /** An answer; what is too large for float64 is left, for others to say what can be said. */
    Ended hand_out(i64 n, const T *answer, Ended ended) const {
        if (!(is_finite(numbers[COST]) && is_finite(numbers[GAP]) && is_finite(numbers[OBJECTIVE]))) return LEFT;
        copy(rows.x + n * rows.D, answer);
        return ended;
    }

    Scores scores(const T *at) const {
        T z0{}, z1{}, terms{};
        for (i64 v = 0; v < V; v++) {
            const T seen = (at[v] - shift[v]) / scale[v];
            z0 += A[0][v] * seen;
            z1 += A[1][v] * seen;
            terms += sizes[v] * magnitude(seen);
        }
        const double first = sum_of(z0) + rows.intercepts[0], second = sum_of(z1) + rows.intercepts[1];
        const double size = sum_of(terms);
        return {{second - first, first - second}, size, is_finite(first) && is_finite(second) && is_finite(size)};
    }

    /** `CostSpace.rounding` from the terms at x. */
    double rounding_of(double terms, double margin) const {
        return rows.per_term * (terms + rows.offset) + rows.per_size * magnitude(margin);
    }

    /** `CostSpace.around` for one source, and the nearest point within; false where limits contradict each other, or it. */
    bool intervals(bool &outside) {
        T square{};
        Mask<T> crossed = T{} > T{}, moved = crossed;
        for (i64 v = 0; v < V; v++) {
            const T own = source[v];
            const T low = select((rises[v] != 0.0) & (own > least[v]), own, least[v]);
            const T high = select((falls[v] != 0.0) & (own < most[v]), own, most[v]);
            const T begin = select(low > own, low, select(high < own, high, own));
            const T away = magnitude(begin - own) * c[v];
            crossed = crossed | (low > high);
            moved = moved | (begin != own);
            square += away * away;
            lo[v] = low;
            hi[v] = high;
            first[v] = begin;
            down[v] = (low - begin) * c[v];
            up[v] = (high - begin) * c[v];
            pull[v] = mu[v] + away;
        }
        outside = any(moved);
        return !any(crossed) && is_finite(sum_of(square));
    }

    /** The change of one feature, pulled by w·g. */
    IFONLY_HD T step(T pulled, i64 v) const {
        const T m = pull[v], u = select(pulled > m, pulled - m, select(pulled < -m, pulled + m, T{}));
        return smaller(larger(u, down[v]), up[v]);
    }

    /** The least w with a gain of `need` up to rounding; where there is none, one at which every feature is at its end. */
    Multiplier multiplier(double need, const T *gains) const {
        // 1. Everything goes as far as it can.
        T top{}, rate{}, far = T{} + 1.0;
        for (i64 v = 0; v < V; v++) {
            const T gain = gains[v], end = select(gain > 0.0, up[v], down[v]);
            const Mask<T> counts = gain != 0.0;
            top += select(counts, gain * end, T{});
            rate += select(counts & (end != 0.0), gain * gain, T{});
            const T reach = (magnitude(end) + pull[v]) / magnitude(gain);
            far = select(counts & (magnitude(end) < INF), larger(far, reach), far);
        }
        const double most = sum_of(top);
        if (most < need) return {2.0 * largest_of(far), most, UNREACHABLE};
        // 2. Newton from the line on which all features are free, within a bracket.
        double a = 0.0, b = INF, w = need / sum_of(rate);
        for (int i = 0; i < MULTIPLIER_STEPS; i++) {
            T reached{}, slope{};
            for (i64 v = 0; v < V; v++) {
                const T gain = gains[v], u = step(w * gain, v);
                reached += gain * u;
                slope += select((u != 0.0) & (down[v] < u) & (u < up[v]), gain * gain, T{});
            }
            const double gain = sum_of(reached), rise = sum_of(slope);
            (gain >= need ? b : a) = w;
            const double along = rise > 0.0 ? (need - gain) / rise : INF;
            if (magnitude(along) <= STILL * w) return {w, most, REACHED};
            w += along;
            if (a < w && w < b) continue;
            w = b == INF ? 2.0 * a : 0.5 * (a + b);
            if (!(a < w && w < b)) return {b, most, b < INF ? REACHED : LEFT}; // the bracket is shut
        }
        return {w, most, LEFT};
    }

    /** The x of a multiplier: what stays is what it was, what is at a bound is the bound. */
    void place(double w, const T *gains) {
        for (i64 v = 0; v < V; v++) {
            const T u = step(w * gains[v], v);
            const T inside = smaller(larger(first[v] + u / c[v], lo[v]), hi[v]) + 0.0; // no −0.0
            const T stays = smaller(larger(first[v], lo[v]), hi[v]); // a way into the limits may be too short for a u
            x[v] = select(u == 0.0, stays, select(u == down[v], lo[v], select(u == up[v], hi[v], inside)));
        }
    }

    /** What an answer comes to, and its certificate (`LimitedProblem.certified`); `now` is the rival's margin there. */
    void judge(const T *at, double now, double w, double rounding, double logit, double prob, int k) const {
        const double loss = softplus(now), others = __builtin_exp(-softplus(-now));
        // λ∇cost = (1 − p_k)·g at the answer; a margin is a rule like any other, with w for its multiplier
        const double lam = rows.hard ? 1.0 : others / w, force = rows.hard ? w : others;
        T squares{}, sparse{}, norms{}, sizes_of{};
        for (i64 v = 0; v < V; v++) {
            const T t = (at[v] - source[v]) * c[v], own = c[v] * source[v];
            squares += t * t;
            sparse += mu[v] * magnitude(t);
            sizes_of += own * own;
            const T base = lam * t - force * g[k][v], soft = lam * mu[v];
            const T from = select(t <= 0.0, base - soft, base + soft), to = select(t >= 0.0, base + soft, base - soft);
            const T xi = select((from > 0.0) & (at[v] > lo[v]), from, select((to < 0.0) & (at[v] < hi[v]), to, T{}));
            norms += xi * xi;
        }
        const double square = sum_of(squares), cost = 0.5 * square + sum_of(sparse), distance = square_root(square);
        numbers[P_TARGET] = __builtin_exp(-loss);
        numbers[P_RIVAL] = others;
        numbers[DISTANCE] = distance;
        numbers[COST] = cost;
        numbers[MULTIPLIER] = w;
        numbers[BEST] = 1.0;
        if (w == 0.0) { // nothing is asked of the classifier: each feature is as near to its source as its interval lets it be
            numbers[LAM] = INF;
            numbers[OBJECTIVE] = rows.hard ? cost : loss;
            numbers[GRAD_NORM] = numbers[GAP] = 0.0;
            numbers[BOUND] = cost;
            return;
        }
        const double rounded = rows.hard ? 0.0 : others * rows.length * (2.0 * rounding + 10.0 * EPS);
        const double norm = square_root(sum_of(norms)) + rounded + 4.0 * EPS * lam * (distance + square_root(sum_of(sizes_of)));
        double excess;
        if (rows.hard) excess = w * (larger(logit - now, 0.0) + rounding);
        else {
            const double asked = __builtin_log(prob);
            excess = larger(-loss - asked, 0.0) + others * rounding + 4.0 * EPS * (loss - asked);
        }
        const double shown = (norm * norm / (2.0 * lam) + excess) / lam, gap = shown > cost ? cost : shown; // NaN stays NaN
        numbers[LAM] = lam;
        numbers[OBJECTIVE] = rows.hard ? cost : lam * cost + loss;
        numbers[GRAD_NORM] = norm;
        numbers[BOUND] = cost - gap;
        numbers[GAP] = gap;
    }
};

inline void solve_box(const BoxRows &rows) {
    if (rows.N == 0 || rows.D == 0) return;
    using Lanes = Doubles<WIDTH>;
    const Memory memory(BoxLoop<Lanes>::room(rows.D) * i64(sizeof(Lanes)));
    BoxLoop<Lanes>(rows, memory.as<Lanes>()).solve();
}

} // namespace ifonly::IFONLY_SET
