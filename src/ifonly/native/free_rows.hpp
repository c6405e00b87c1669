// From sources to certified answers, a vector of rows at a time: project, solve, certify, move.
//
// Rows wait in a `stage` with their starts; a row that is done makes room for one of them. Sources are read when they come to the
// stage and again, a few rows later and still in the cache, when their change is added.
#pragma once

#include "answer.hpp"
#include "memory.hpp"
#include "products.hpp"
#include "rows.hpp"

namespace ifonly::IFONLY_SET {

constexpr int MANY = 150;     // rivals from which one row at a time, over the classes that matter in it, beats a vector of rows
constexpr double LOOSE = 1e4; // ‖a‖‖x‖ bounds a logit's terms, unless it is this many times the logits: then they are summed
constexpr int MOVED = 4;      // rows that are moved together
constexpr signed char LEFT = -1, EXACT = 0, CONVERGED = 1, INVALID = 4;

/** Sources of a table: their logits and sizes, and where they end. */
struct Table {
    const FreeTarget &of;
    const FreeRows &rows;
    double *kept;       // (WIDTH, D) sources in the classifier's units, where these are others
    double *z;          // (WIDTH, R)
    double *change;     // (MOVED, D)
    i64 waiting[MOVED]; // rows whose change is known
    int moving = 0;

    Table(const FreeTarget &of, const FreeRows &rows, double *memory)
        : of(of), rows(rows), kept(memory), z(memory + WIDTH * of.D), change(z + WIDTH * of.R) {}

    static i64 room(const FreeTarget &of) { return (WIDTH + MOVED) * of.D + WIDTH * of.R; }

    bool converts() const { return rows.X4 || of.shift; }

    double source(i64 row, i64 d) const { return rows.X4 ? double(rows.X4[row * rows.pitch + d]) : rows.X[row * rows.pitch + d]; }

    /** Some rows in class space, into z, and their sizes. */
    void read(int count, const i64 *row, double *norm, double *terms) {
        if (rows.Z) {
            for (int r = 0; r < count; r++) {
                for (int j = 0; j < of.R; j++) z[r * of.R + j] = rows.Z[row[r] * of.R + j];
                norm[r] = rows.sizes[row[r]];
                terms[r] = rows.sizes[rows.N + row[r]];
            }
            return;
        }
        const double *x[WIDTH];
        double *into[WIDTH];
        for (int r = 0; r < count; r++) {
            into[r] = z + r * of.R;
            if (!converts()) {
                x[r] = rows.X + row[r] * rows.pitch;
                continue;
            }
            double *own = kept + r * of.D;
            for (i64 d = 0; d < of.D; d++) own[d] = source(row[r], d);
            if (of.shift)
                for (i64 d = 0; d < of.D; d++) own[d] = (own[d] - of.shift[d]) / of.scale[d];
            x[r] = own;
        }
        project(count, x, of.basis, of.R, of.D, into);
        for (int r = 0; r < count; r++) {
            const double length = square_root(larger(square_of(x[r], of.D), TINY_SQUARE));
            double top = 0.0;
            for (int j = 0; j < of.R; j++) top = larger(top, magnitude(into[r][j]));
            double all = of.row_norm * length;
            if (all > LOOSE * (1.0 + top)) all = weighed(x[r], of.columns, of.D);
            norm[r] = length <= LARGEST ? length + 2.0 * of.offset_norm : INF;
            terms[r] = all + 2.0 * of.offset_size;
        }
    }

    /** A row's change is known; it is added when there are some. */
    void move(i64 row) {
        if (!rows.out && !rows.out4) return;
        waiting[moving++] = row;
        if (moving == MOVED) {
            const double *coef[MOVED];
            double *into[MOVED];
            for (int r = 0; r < MOVED; r++) coef[r] = rows.coef + waiting[r] * of.R, into[r] = change + r * of.D;
            combine<MOVED>(coef, of.basis, of.R, of.D, into);
            for (int r = 0; r < MOVED; r++) put(waiting[r], into[r]);
            moving = 0;
        }
    }

    void move_rest() {
        for (int r = 0; r < moving; r++) {
            const double *coef[1] = {rows.coef + waiting[r] * of.R};
            double *into[1] = {change};
            combine<1>(coef, of.basis, of.R, of.D, into);
            put(waiting[r], change);
        }
        moving = 0;
    }

    void fill(i64 row, double value) const {
        for (i64 d = 0; d < of.D; d++)
            if (rows.out) rows.out[row * rows.out_pitch + d] = value;
            else if (rows.out4) rows.out4[row * rows.out_pitch + d] = float(value);
    }

    void put(i64 row, double *change) const {
        if (of.scale)
            for (i64 d = 0; d < of.D; d++) change[d] *= of.scale[d];
        if (rows.out && rows.X) {
            const double *from = rows.X + row * rows.pitch;
            double *to = rows.out + row * rows.out_pitch;
            for (i64 d = 0; d < of.D; d++) to[d] = from[d] + change[d];
        } else if (rows.out)
            for (i64 d = 0; d < of.D; d++) rows.out[row * rows.out_pitch + d] = source(row, d) + change[d];
        else
            for (i64 d = 0; d < of.D; d++) rows.out4[row * rows.out_pitch + d] = float(source(row, d) + change[d]);
    }
};

template <class T, bool GOAL> struct FreeLoop {
    static constexpr int W = Of<T>::lanes;
    using Work = Solver<T, 0, GOAL>;

    const FreeTarget &of;
    const FreeRows &rows;
    const Precision precision;
    Table table;
    Vectors<T, 0> now, next;
    Work solver, stage; // rows that are being solved, and the next ones with their starts
    Sizes<T> sizes{}, next_sizes{};
    i64 row[W], next_row[W];
    i64 loaded = 0;
    int ready = 0, taken = 0; // lanes of the stage that hold a row, and how many of them were taken

    static i64 room(const FreeTarget &of) { // in doubles
        return 2 * Vectors<T, 0>::room(of.K - 1) * W + Table::room(of);
    }

    FreeLoop(const FreeTarget &of, const FreeRows &rows, double *memory)
        : of(of), rows(rows), precision{of.K, of.gamma, of.coarse, of.span, of.norm, of.terms, of.swing, of.logs},
          table(of, rows, memory + 2 * Vectors<T, 0>::room(of.K - 1) * W), now(of.K - 1, reinterpret_cast<T *>(memory)),
          next(of.K - 1, reinterpret_cast<T *>(memory) + Vectors<T, 0>::room(of.K - 1)), solver(now, of.G), stage(next, of.G) {
        for (int w = 0; w < W; w++) row[w] = -1;
        for (int i = 0; i < now.n; i++) now.s[i] = now.q[i] = T{};
    }

    static bool on(const Mask<T> &mask, int w) {
        if constexpr (W == 1) return mask;
        else return mask[w] != 0;
    }

    /** The next rows in class space, with their margins; those that are there already, or not finite, are answered. */
    void prepare() {
        double norm[W], terms[W];
        ready = taken = 0;
        while (ready == 0 && loaded < rows.rows) {
            const int count = int(rows.rows - loaded < W ? rows.rows - loaded : W);
            table.read(count, rows.index + loaded, norm, terms);
            T wanted{};
            for (int r = 0; r < count; r++) {
                const i64 b = rows.index[loaded + r];
                double size = 0.0;
                bool finite = norm[r] < INF;
                for (int i = 0; i < now.n; i++) {
                    const double s = margin(table.z + r * of.R, i);
                    set_lane(next.s[i], ready, s);
                    size = larger(size, magnitude(s));
                    finite = finite && magnitude(s) < INF;
                }
                if (!finite) {
                    rows.status[b] = INVALID;
                    table.fill(b, __builtin_nan(""));
                    continue;
                }
                set_lane(next_sizes.norm, ready, norm[r]);
                set_lane(next_sizes.terms, ready, terms[r] + of.bias * (UNIT / of.gamma)); // b is added once, to the others' sum
                set_lane(stage.size, ready, size);
                set_lane(wanted, ready, rows.wanted[b]);
                next_row[ready++] = b;
            }
            loaded += count;
            if (ready == 0) continue;
            for (int w = ready; w < W; w++) { // lanes without a row have that of the first
                for (int i = 0; i < now.n; i++) set_lane(next.s[i], w, lane(next.s[i], 0));
                set_lane(next_sizes.norm, w, lane(next_sizes.norm, 0));
                set_lane(next_sizes.terms, w, lane(next_sizes.terms, 0));
                set_lane(stage.size, w, lane(stage.size, 0));
                set_lane(wanted, w, lane(wanted, 0));
            }
            if constexpr (GOAL) {
                stage.goal = window_of(precision, next_sizes, stage.size, wanted);
                stage.set_lam(T{} + 1.0);
                for (int i = 0; i < now.n; i++) next.q[i] = T{};
                stage.evaluate();
                const Mask<T> there = stage.logit <= stage.goal.logit - stage.goal.slack;
                if (any(there)) {
                    stay(there);
                    if (ready == 0) continue;
                }
            }
            stage.begin(wanted, rows.pairs);
            stage.tol = T{} + rows.tol;
        }
    }

    double margin(const double *z, int i) const {
        const int j = i + (i >= of.k);
        if (of.K > 2) return (z[j] + of.b[j]) - (z[of.k] + of.b[of.k]);
        const double s = z[0] + (of.b[1] - of.b[0]);
        return of.k == 0 ? s : -s;
    }

    /** Rows of the stage that are there already are their own answers; the others close up. */
    void stay(Mask<T> there) {
        int kept = 0;
        for (int w = 0; w < ready; w++) {
            if (on(there, w)) {
                hand_out(stage, w, next_row[w], 0.0, INF, 0.0, EXACT);
                continue;
            }
            next_row[kept] = next_row[w];
            const auto close = [&](T &a) { set_lane(a, kept, lane(a, w)); };
            for (int i = 0; i < now.n; i++) close(next.s[i]);
            close(next_sizes.norm);
            close(next_sizes.terms);
            close(stage.goal.logit);
            close(stage.goal.slack);
            close(stage.goal.slope);
            close(stage.goal.least);
            close(stage.goal.far);
            kept++;
        }
        ready = kept;
    }

    /** What is known of a lane, as an answer whose change is `scale` times that of q. */
    void hand_out(const Work &from, int w, i64 b, double scale, double lam, double bound, signed char status) {
        double *coef = rows.coef + b * of.R, *proba = rows.proba + b * of.K, total = 0.0;
        for (int i = 0; i < now.n; i++) {
            const int j = i + (i >= of.k);
            const double q = lane(from.x.q[i], w);
            proba[j] = lane(from.x.p[i], w);
            if (of.K > 2) coef[j] = -q * scale;
            else coef[0] = (of.k == 0 ? -q : q) * scale;
            total += q;
        }
        proba[of.k] = lane(from.p_target, w);
        if (of.K > 2) coef[of.k] = total * scale;
        rows.lam[b] = lam;
        rows.distance[b] = scale > 0.0 ? square_root(larger(lane(from.quad, w), 0.0) * scale) : 0.0;
        rows.objective[b] = lane(from.E, w);
        rows.grad_norm[b] = bound;
        rows.n_iter[b] = scale > 0.0 && of.K > 2 ? i64(lane(from.iterations, w)) : 0; // of two classes the start is the answer
        rows.status[b] = status;
        table.move(b);
    }

    /** A row that is done, or given up. */
    void finish(int w, const T &bound) {
        const i64 b = row[w];
        row[w] = -1;
        if (b < 0) return;
        const double quad = lane(solver.quad, w);
        const bool done = on(solver.done, w) && magnitude(quad) < INF && lane(solver.p_target, w) > LEAST_P;
        if (!done) {
            rows.status[b] = LEFT;
            return;
        }
        const double limit = lane(bound, w);
        hand_out(solver, w, b, lane(solver.il, w), lane(solver.lam, w), limit, limit <= rows.tol ? CONVERGED : EXACT);
    }

    /** One row of the stage into a lane. */
    void take(int w) {
        const int from = taken++;
        const auto copy = [&](T &to, const T &a) { set_lane(to, w, lane(a, from)); };
        for (int i = 0; i < now.n; i++) {
            copy(now.s[i], next.s[i]);
            copy(now.q[i], next.q[i]);
        }
        copy(sizes.norm, next_sizes.norm);
        copy(sizes.terms, next_sizes.terms);
        copy(solver.lam, stage.lam);
        copy(solver.il, stage.il);
        copy(solver.size, stage.size);
        copy(solver.tol, stage.tol);
        copy(solver.first, stage.first);
        copy(solver.low, stage.low);
        copy(solver.high, stage.high);
        copy(solver.iterations, stage.iterations);
        copy(solver.goal.logit, stage.goal.logit);
        copy(solver.goal.slack, stage.goal.slack);
        copy(solver.goal.slope, stage.goal.slope);
        copy(solver.goal.least, stage.goal.least);
        copy(solver.goal.far, stage.goal.far);
        if constexpr (W == 1) {
            solver.active = stage.active;
            solver.done = false;
        } else {
            solver.active[w] = stage.active[from];
            solver.done[w] = 0;
        }
        row[w] = next_row[from];
    }

    T bounds() const { return bound_of(solver, precision, sizes, of.lengths); }

    void finish_idle() {
        const T bound = bounds();
        for (int w = 0; w < W; w++)
            if (!on(solver.active, w)) finish(w, bound);
    }

    /** New rows into lanes that are free, when half of them are. */
    bool refill() {
        if (loaded == rows.rows && taken == ready) return false;
        int idle = 0;
        for (int w = 0; w < W; w++) idle += !on(solver.active, w);
        if (2 * idle < W) return false;
        finish_idle();
        bool some = false;
        for (int w = 0; w < W; w++) {
            if (on(solver.active, w)) continue;
            if (taken == ready) prepare();
            if (taken == ready) break;
            take(w);
            some = true;
        }
        return some;
    }

    void run() {
        for (int i = 0; i < now.n; i++) now.p[i] = now.r[i] = T{};
        solver.gg = solver.quad = solver.p_target = T{};
        while (refill() || any(solver.active))
            solver.go(rows.max_iter, [this](Mask<T>) -> Mask<T> { return bounds() <= rows.tol; }, [this] { return refill(); });
        finish_idle();
        table.move_rest();
    }
};

template <class T, bool GOAL> void run_free(const FreeTarget &of, const FreeRows &rows) {
    const Memory memory(FreeLoop<T, GOAL>::room(of) * i64(sizeof(double)));
    FreeLoop<T, GOAL>(of, rows, memory.as<double>()).run();
}

/** One source in class space: z (R), and bounds on ‖x̄‖ and on its logits' terms; the first is infinite where x̄ is too large. */
inline void project_free(const FreeTarget &of, const FreeRows &rows, double *z, double *sizes) {
    const Memory memory(Table::room(of) * i64(sizeof(double)));
    Table table(of, rows, memory.as<double>());
    const i64 row = 0;
    table.read(1, &row, sizes, sizes + 1);
    for (int j = 0; j < of.R; j++) z[j] = table.z[j];
}

inline void answer_free(const FreeTarget &of, const FreeRows &rows) {
    const bool alone = rows.alone || of.K - 1 >= MANY;
    if (rows.goal) alone ? run_free<double, true>(of, rows) : run_free<Lanes, true>(of, rows);
    else alone ? run_free<double, false>(of, rows) : run_free<Lanes, false>(of, rows);
}

} // namespace ifonly::IFONLY_SET
